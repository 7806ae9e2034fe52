"""Compile a polynomial, read its certificate, and use it like any torch module."""

import torch

import exactformer as ef

model = ef.compile("x^3 - 2 x y + 1/2 y^2", radius=3)
print(model.certificate)

points = torch.tensor([[1.0, 2.0], [-0.5, 0.25], [2.0, -2.0]], dtype=torch.float64)
print("\nvalues   ", model(points).tolist())

# Ordinary autograd: the transformer's gradient is the polynomial's, (3x² − 2y, −2x + y).
x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
model(x).backward()
print("gradient ", x.grad.tolist())
