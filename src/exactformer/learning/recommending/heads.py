"""One attention head whose functions of a token are written in a basis: little is left to learn.

    y(t) = b(x(t))ᵀ D h(t),    h(t) = Σ_s σ[ρ(x(t), x(·))](s) b(x(s)),    ρ(u, v) = b(u)ᵀ M b(v)

This is equation (8) with f = b and F bilinear in the token and what it gathered. It has a few hundred
numbers in M and D, and a second-order method finds them in a second, where stochastic training of
equation (5)'s networks would still be on a plateau. A function of u alone added to ρ changes nothing,
so M has no column for b_0 = 1.

The singular values of M are those of ρ over the tokens at hand. Keeping m of them is a head of size m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from exactformer.learning.recommending.samples import Array, Samples
from exactformer.learning.recommending.token_basis import TokenBasis, place_basis

if TYPE_CHECKING:
    from torch import Tensor

HeadKind = Literal["any order", "by place", "causal"]
"""A head sees tokens only, tokens and their places, or tokens up to its own."""

_SCORES = 500_000
"""Scores computed at once; of long sequences fewer are trained on."""
_ROUNDS, _STEPS, _PATIENCE = 15, 10, 3
"""Rounds of L-BFGS, steps of each, and rounds without a gain before it ends."""
_DECAY = 1e-5


@dataclass(frozen=True)
class Head:
    """A trained head: score M (J, J − 1), read-out D (J, J, k), offsets (P, k), spread (k,)."""

    kind: HeadKind
    basis: TokenBasis
    score: Array
    readout: Array
    offset: Array
    spread: Array

    def predict(self, inputs: Array, size: int | None = None) -> Array:
        """Return outputs (N, P, k), with the score cut to rank ``size`` if given."""
        import torch

        score = self.score if size is None else _cut(self.score, size)
        M, D = torch.as_tensor(score), torch.as_tensor(self.readout)
        rows, last = max(1, _SCORES // inputs.shape[1] ** 2), len(self.offset) == 1
        parts = []
        for start in range(0, len(inputs), rows):
            b = torch.as_tensor(_functions(self.basis, self.kind, inputs[start : start + rows]))
            parts.append(_outputs(b, M, D, self.kind, last))
        return np.asarray(self.offset + self.spread * torch.cat(parts).numpy())

    def singular_values(self) -> Array:
        """Return those of the score ρ."""
        return np.asarray(np.linalg.svd(self.score, compute_uv=False))


def fit_head(kind: HeadKind, basis: TokenBasis, train: Samples, check: Samples) -> Head:
    """Fit M and D to ``train`` by L-BFGS, keeping the best on ``check``."""
    import torch

    most = max(1, _SCORES // train.inputs.shape[1] ** 2)
    last = train.outputs.shape[1] == 1
    offset, spread = train.offset, train.spread

    def tensors(part: Samples) -> tuple[Tensor, Tensor]:
        values = _functions(basis, kind, part.inputs[:most]).astype(np.float32)
        wanted = ((part.outputs[:most] - offset) / spread).astype(np.float32)
        return torch.as_tensor(values), torch.as_tensor(wanted)

    (b, y), (b_check, y_check) = tensors(train), tensors(check)
    J, k = b.shape[-1], y.shape[-1]
    M = torch.zeros(J, J - 1, requires_grad=True)
    D = torch.zeros(J, J, k, requires_grad=True)
    optimiser = torch.optim.LBFGS([M, D], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        error = (_outputs(b, M, D, kind, last) - y).square().mean()
        total = error + _DECAY * (D.square().sum() + M.square().sum())
        total.backward()  # type: ignore[no-untyped-call]
        return total

    best, waited = float("inf"), 0
    kept = M.detach().clone(), D.detach().clone()
    for _ in range(_ROUNDS):
        optimiser.step(loss)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            error = float((_outputs(b_check, M, D, kind, last) - y_check).square().mean())
        waited += 1
        if error < best:
            best, waited = error, 0
            kept = M.detach().clone(), D.detach().clone()
        if waited == _PATIENCE:
            break
    score, readout = (weights.double().numpy() for weights in kept)
    return Head(kind, basis, score, readout, offset, spread)


def _functions(basis: TokenBasis, kind: HeadKind, inputs: Array) -> Array:
    values = basis(inputs)
    if kind != "by place":
        return values
    place = place_basis(inputs.shape[1])
    return np.concatenate([values, np.broadcast_to(place, (len(values), *place.shape))], axis=-1)


def _outputs(b: Tensor, M: Tensor, D: Tensor, kind: HeadKind, last: bool) -> Tensor:
    import torch

    queries = b[:, -1:] if last else b
    scores = (queries @ M) @ b[..., 1:].mT
    if kind == "causal" and not last:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    gathered = torch.softmax(scores, dim=-1) @ b
    return torch.einsum("nti,ijk,ntj->ntk", queries, D, gathered)


def _cut(score: Array, size: int) -> Array:
    left, values, right = np.linalg.svd(score, full_matrices=False)
    return np.asarray((left[:, :size] * values[:size]) @ right[:size])
