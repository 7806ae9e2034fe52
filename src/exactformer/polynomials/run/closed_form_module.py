"""A fused form as a ``torch.nn.Module``: one matrix product, one pass over the degrees, one sum.

It is plain torch, which runs on any device and can be traced, batched, exported and differentiated.
The terms of all tokens are summed by halving, written out as elementwise sums: the tree is the same on
every device and in code that a compiler made, and so is the bound.

Weights and values are in the module's format. So is the arithmetic, but never below float32: in the
half formats products and sums are taken in float32, and the value is rounded once.
"""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor, nn

from exactformer.core.matrix import Matrix
from exactformer.core.precision import full_precision
from exactformer.core.weights import dense
from exactformer.polynomials.run.closed_form import Basis, FusedForm
from exactformer.polynomials.run.halving import halving_sum


class FusedTransformer(nn.Module):
    """Points ``(N, d)`` to values ``(N,)``: b + Σ_i P_i(t_i), t = F·(x − c); ``(N, m)`` for a vector.

    Parameters are frozen until ``requires_grad_()``; weights are the exact ones, rounded once.
    """

    features: Tensor
    centre: Tensor | None
    coefficients: Tensor
    bias: Tensor

    def __init__(self, form: FusedForm, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.basis, self.vector = form.basis, form.vector
        self.register_parameter("centre", None)
        for name, tensor in fused_weights(form, dtype).items():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate at points in the module's format or a narrower one."""
        dtype = self.features.dtype
        wide = torch.promote_types(dtype, torch.float32)
        with full_precision(x.device):
            points = x.to(wide)
            if self.centre is not None:
                points = points - self.centre.to(wide)
            t = self.features.to(wide) @ points.T
            evaluate = _horner if self.basis is Basis.POWER else _clenshaw
            sums = [halving_sum(evaluate(t, c), 0) for c in self.coefficients.to(wide)]
            values = (torch.stack(sums, dim=-1) + self.bias.to(wide)).to(dtype)
        return values if self.vector else values[:, 0]


def _horner(t: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_s c_is t_i^s for every token; ``t`` is (tokens, N), ``coefficients`` (q, tokens)."""
    columns = coefficients.unsqueeze(-1)
    if len(columns) == 0:
        return torch.zeros_like(t)
    value = columns[-1].expand_as(t)
    for s in range(len(columns) - 2, -1, -1):
        value = torch.addcmul(columns[s], value, t)
    return value * t


def _clenshaw(t: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_s c_is T_s(t_i): b_s = c_s + 2t b_{s+1} − b_{s+2}, and at the end t b_1 − b_2."""
    columns = coefficients.unsqueeze(-1)
    if len(columns) == 0:
        return torch.zeros_like(t)
    twice, above, current = t + t, torch.zeros_like(t), columns[-1].expand_as(t)
    for s in range(len(columns) - 2, -1, -1):
        above, current = current, torch.addcmul(columns[s] - above, twice, current)
    return t * current - above


def fused_weights(form: FusedForm, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return F, c, the coefficients (m, q, n), so that a step over degrees reads a row, and b."""
    tables = [
        dense(c, dtype, lambda i, j: f"β, token {i + 1}, {form.basis} {j + 1}").T
        for c in form.coefficients
    ]
    weights = {
        "features": dense(form.features, dtype, lambda i, j: f"F, token {i + 1}"),
        "coefficients": torch.stack(tables).contiguous(),
        "bias": _vector(form.biases, dtype, "b"),
    }
    if form.centre:
        weights["centre"] = _vector(form.centre, dtype, "the domain's centre")
    return weights


def _vector(values: tuple[Fraction, ...], dtype: torch.dtype, name: str) -> Tensor:
    row = Matrix.of(1, len(values), {(0, j): value for j, value in enumerate(values)})
    return dense(row, dtype, lambda i, j: name)[0]
