"""A fused form as a ``torch.nn.Module``: one matrix product, one Horner pass, one sum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from exactformer.blueprint import Matrix
from exactformer.execution.fusing import GROUP, SHORT, FusedForm
from exactformer.execution.precision import full_precision
from exactformer.execution.weights import dense


class FusedTransformer(nn.Module):
    """Points ``(N, d)`` to values ``(N,)``: b + Σ_i t_i (c_i1 + t_i (c_i2 + …)), t = F·x.

    Parameters are frozen until ``requires_grad_()``; weights are the exact ones, rounded once.
    """

    def __init__(self, form: FusedForm, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        for name, tensor in fused_weights(form, dtype).items():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    features: Tensor
    coefficients: Tensor
    bias: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate, a group of tokens at a time so that intermediates stay in the cache."""
        with full_precision(x.device):
            return self._run(x.T)

    def _run(self, points: Tensor) -> Tensor:
        sums = [
            _group(F @ points, c)
            for F, c in zip(
                torch.split(self.features, GROUP),
                torch.split(self.coefficients, GROUP, dim=1),
                strict=True,
            )
        ]
        total = halving_sum(torch.stack(sums)) if len(sums) > 1 else sums[0]
        return total + self.bias


def _group(t: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_i P_i(t_i) − P_i(0) over a group; ``t`` is (tokens, N), ``coefficients`` (q, tokens)."""
    columns = coefficients.unsqueeze(-1)
    if len(columns) == 0:
        return t.new_zeros(t.shape[1])
    value = columns[-1].expand_as(t)
    for s in range(len(columns) - 2, -1, -1):
        value = torch.addcmul(columns[s], value, t)
    return halving_sum(value * t)


def halving_sum(terms: Tensor) -> Tensor:
    """Sum the first axis: halves are added until few rows are left, which go in any order."""
    while (size := len(terms)) > SHORT:
        half = size // 2
        pairs = terms[:half] + terms[size - half :]
        terms = pairs if size == 2 * half else torch.cat([pairs, terms[half : size - half]])
    return terms.sum(dim=0)


def fused_weights(form: FusedForm, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return F, the coefficients (powers first, so that a Horner step reads a row) and b."""
    bias = Matrix.of(1, 1, {(0, 0): form.bias})
    return {
        "features": dense(form.features, dtype, lambda i, j: f"F, token {i + 1}"),
        "coefficients": dense(
            form.coefficients, dtype, lambda i, j: f"β, token {i + 1}, power {j + 1}"
        ).T.contiguous(),
        "bias": dense(bias, dtype, lambda i, j: "b").reshape(()),
    }
