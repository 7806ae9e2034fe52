"""The best attention head on sequences, its functions of a token written in a basis.

    y(t) = b(x(t))ᵀ D h(t),    h(t) = Σ_s σ[ρ(x(t), x(·))](s) b(x(s)),    ρ(u, v) = b(u)ᵀ M b(v)

This is equation (8) of Jiang and Li with f = b and F bilinear in the token and what it gathered: a few
hundred numbers in M and D, which a second-order method finds in a second. A function of u alone added
to ρ changes nothing, so M has no column for b_0 = 1. The basis is orthonormal over the tokens, so the
singular values of M are those of ρ, and keeping m of them is a head of size m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from exactformer.theory.token_basis import TokenBasis

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]

_SCORES = 500_000
"""Scores computed at once; of long sequences fewer are trained on."""
_ROUNDS, _STEPS, _PATIENCE = 30, 10, 3
"""Rounds of L-BFGS, steps of each, and rounds without a gain before it ends."""
_DECAY = 1e-5


@dataclass(frozen=True, eq=False)
class Head:
    """A head: score M (J, J − 1), read-out D (J, J, k), mean outputs (P, k) and their spread (k,)."""

    basis: TokenBasis
    score: Array
    readout: Array
    offset: Array
    spread: Array

    @property
    def singular_values(self) -> Array:
        """Those of the score ρ, the largest first."""
        return np.asarray(np.linalg.svd(self.score, compute_uv=False))

    def predict(self, inputs: Array, size: int) -> Array:
        """Return outputs (N, P, k) with the score cut to rank ``size``."""
        import torch

        left, values, right = np.linalg.svd(self.score, full_matrices=False)
        M = torch.as_tensor((left[:, :size] * values[:size]) @ right[:size])
        rows = max(1, _SCORES // inputs.shape[1] ** 2)
        parts = [
            _outputs(
                torch.as_tensor(self.basis(inputs[start : start + rows])),
                M,
                torch.as_tensor(self.readout),
                len(self.offset),
            )
            for start in range(0, len(inputs), rows)
        ]
        return np.asarray(self.offset + self.spread * torch.cat(parts).numpy())


def fit_head(train: tuple[Array, Array], check: tuple[Array, Array], seed: int) -> Head:
    """Fit M and D to sequences, inputs (N, τ, d) and outputs (N, P, k); keep the best on others."""
    import torch

    most = max(1, _SCORES // train[0].shape[1] ** 2)
    basis = TokenBasis.of(train[0], seed)
    offset = train[1].mean(axis=0)
    spread = np.sqrt(np.square(train[1] - offset).mean(axis=(0, 1)))
    spread = np.where(spread > 0, spread, 1.0)
    (b, y), (b_check, y_check) = (
        (
            torch.as_tensor(basis(x[:most]), dtype=torch.float64),
            torch.as_tensor((wanted[:most] - offset) / spread, dtype=torch.float64),
        )
        for x, wanted in (train, check)
    )
    J, outputs = basis.size, len(offset)
    M = torch.zeros(J, J - 1, dtype=torch.float64, requires_grad=True)
    D = torch.zeros(J, J, y.shape[-1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([M, D], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        error = (_outputs(b, M, D, outputs) - y).square().mean()
        total = error + _DECAY * (D.square().sum() + M.square().sum())
        total.backward()  # type: ignore[no-untyped-call]
        return total

    best, waited = float("inf"), 0
    kept = M.detach().clone(), D.detach().clone()
    for _ in range(_ROUNDS):
        optimiser.step(loss)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            error = float((_outputs(b_check, M, D, outputs) - y_check).square().mean())
        waited += 1
        if error < best:
            best, waited = error, 0
            kept = M.detach().clone(), D.detach().clone()
        if waited == _PATIENCE:
            break
    score, readout = (weights.double().numpy() for weights in kept)
    return Head(basis, score, readout, offset, spread)


def _outputs(b: Tensor, M: Tensor, D: Tensor, outputs: int) -> Tensor:
    """Return the outputs after the last P = ``outputs`` tokens, (N, P, k)."""
    import torch

    queries = b[:, -outputs:]
    gathered = torch.softmax((queries @ M) @ b[..., 1:].mT, dim=-1) @ b
    return torch.einsum("nti,ijk,ntj->ntk", queries, D, gathered)
