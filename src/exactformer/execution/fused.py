"""A fused form as a ``torch.nn.Module``: one matrix product, one pass over the degrees, one sum."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor, nn

from exactformer.blueprint import Matrix
from exactformer.execution.fusing import GROUP, SHORT, Basis, FusedForm
from exactformer.execution.precision import full_precision
from exactformer.execution.weights import dense


class FusedTransformer(nn.Module):
    """Points ``(N, d)`` to values ``(N,)``: b + Σ_i P_i(t_i), t = F·(x − c); ``(N, m)`` for a vector.

    Parameters are frozen until ``requires_grad_()``; weights are the exact ones, rounded once.
    """

    def __init__(self, form: FusedForm, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.basis, self.vector = form.basis, form.vector
        self.register_parameter("centre", None)
        for name, tensor in fused_weights(form, dtype).items():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    features: Tensor
    centre: Tensor | None
    coefficients: Tensor
    bias: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate, a group of tokens at a time so that intermediates stay in the cache."""
        with full_precision(x.device):
            return self._run(x.T if self.centre is None else (x - self.centre).T)

    def _run(self, points: Tensor) -> Tensor:
        run = _horner if self.basis is Basis.POWER else _clenshaw
        groups = [
            torch.stack([run(F @ points, own) for own in c])
            for F, c in zip(
                torch.split(self.features, GROUP),
                torch.split(self.coefficients, GROUP, dim=2),
                strict=True,
            )
        ]
        total = halving_sum(torch.stack(groups)) if len(groups) > 1 else groups[0]
        return total.T + self.bias if self.vector else total[0] + self.bias[0]


def _horner(t: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_i Σ_s c_is t_i^s over a group; ``t`` is (tokens, N), ``coefficients`` (q, tokens)."""
    columns = coefficients.unsqueeze(-1)
    if len(columns) == 0:
        return t.new_zeros(t.shape[1])
    value = columns[-1].expand_as(t)
    for s in range(len(columns) - 2, -1, -1):
        value = torch.addcmul(columns[s], value, t)
    return halving_sum(value * t)


def _clenshaw(t: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_i Σ_s c_is T_s(t_i): b_s = c_s + 2t b_{s+1} − b_{s+2}, and at the end t b_1 − b_2."""
    columns = coefficients.unsqueeze(-1)
    if len(columns) == 0:
        return t.new_zeros(t.shape[1])
    twice, above, current = t + t, torch.zeros_like(t), columns[-1].expand_as(t)
    for s in range(len(columns) - 2, -1, -1):
        above, current = current, torch.addcmul(columns[s] - above, twice, current)
    return halving_sum(t * current - above)


def halving_sum(terms: Tensor) -> Tensor:
    """Sum the first axis: halves are added until few rows are left, which go in any order."""
    while (size := len(terms)) > SHORT:
        half = size // 2
        pairs = terms[:half] + terms[size - half :]
        terms = pairs if size == 2 * half else torch.cat([pairs, terms[half : size - half]])
    return terms.sum(dim=0)


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
