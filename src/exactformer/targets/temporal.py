"""Changes of temporal structure: reordering the inputs, and mixing them (section 6).

Both replace the inputs by a linear image of them and keep the outputs,

    reorder   H̃_t(x∘p) = H_t(x)       H̃(z) = H(Pᵀz), P the matrix with (Px)(s) = x(p(s))
    mix       H̃_t(x) = H_t(θ ∗ x)     H̃(x) = H(Θx)

with (θ∗x)(t) = Σ_s θ(s) x(t + s) as printed in section 6.2, which looks *ahead*, or with x(t − s), the
causal filter under which proposition 6.3 makes sense. Outside the sequence x is 0.

A linear target stays linear: its matrix becomes T Pᵀ or T Θ. A coupling does not stay a coupling: the
query of H̃_t is token t of Pᵀz, not of z. :mod:`exactformer.targets.temporal_pieces` has what does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import as_array, reals
from exactformer.errors import InputError
from exactformer.targets.linear import LinearTarget, along_time

if TYPE_CHECKING:
    from exactformer.couplings.target import Coupling

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rewired:
    """A coupling whose inputs are changed first: H̃(x) = H(A x), ``inputs`` = A (τ, τ).

    In general it is no longer of the pairwise form (8).
    """

    target: Coupling
    inputs: Array
    name: str

    @property
    def tau(self) -> int:
        """The length of the sequences."""
        return self.target.tau

    def __call__(self, x: Any) -> Any:
        """Return H(A x); ``x`` is (…, τ), or (…, τ, d) where the coupling takes vectors."""
        axis = -1 if self.target.dim is None else -2
        return self.target(along_time(self.inputs, as_array(x), axis))

    def sample(self, count: int, seed: int = 0) -> Any:
        """Return input sequences, drawn as for the target that was changed."""
        return self.target.sample(count, seed)

    def logit(self, query: int, key: int) -> Callable[[Any, Any], Any]:
        """Return the score of ``key`` for ``query`` as a function (u, v) of these two tokens.

        This is ρ̃ of equation (101). It exists where no third token enters.
        """
        rows = self.inputs[[query, key]]
        others = np.delete(rows, [query, key], axis=1)
        if query == key or others.any():
            raise InputError(
                f"the score of token {key} for token {query} is not a function of these two tokens"
            )
        (a, b), (c, d) = rows[:, [query, key]]
        e = np.zeros(self.tau) if self.target.positions is None else self.target.positions
        start, end = float(e[query]), float(e[key])
        return lambda u, v: self.target.rho(a * u + b * v + start, c * u + d * v + end)


@overload
def reorder(target: LinearTarget, permutation: ArrayLike) -> LinearTarget: ...
@overload
def reorder(target: Coupling, permutation: ArrayLike) -> Rewired: ...
def reorder(target: LinearTarget | Coupling, permutation: ArrayLike) -> LinearTarget | Rewired:
    """Return H̃ with H̃_t(x∘p) = H_t(x): inputs in another order, outputs as before.

    ``permutation[s]`` is p(s), from 0.
    """
    p = check_permutation(permutation, target.tau)
    name = f"{getattr(target, 'name', '') or 'coupling'}, reordered"
    if isinstance(target, LinearTarget):
        return LinearTarget(target.matrix[:, p], name)
    return Rewired(target, np.eye(target.tau)[:, p], name)


@overload
def mix(target: LinearTarget, filter: ArrayLike, causal: bool = False) -> LinearTarget: ...
@overload
def mix(target: Coupling, filter: ArrayLike, causal: bool = False) -> Rewired: ...
def mix(
    target: LinearTarget | Coupling, filter: ArrayLike, causal: bool = False
) -> LinearTarget | Rewired:
    """Return H̃ with H̃_t(x) = H_t(θ ∗ x), the filter θ looking ahead as printed or, if causal, back."""
    mixing = mixing_matrix(filter, target.tau, causal)
    name = f"{getattr(target, 'name', '') or 'coupling'}, mixed"
    if not isinstance(target, LinearTarget):
        return Rewired(target, mixing, name)
    if causal and target.kernel is not None:
        return LinearTarget(np.convolve(target.kernel, mixing[:, 0])[: target.tau], name)
    return LinearTarget(target.matrix @ mixing, name)


def mixing_matrix(filter: ArrayLike, tau: int, causal: bool = False) -> Array:
    """Return Θ with (Θx)(t) = Σ_s θ(s) x(t + s), or x(t − s) if causal, x being 0 outside."""
    theta = reals(filter, "a filter")
    if theta.ndim != 1 or len(theta) == 0 or not np.isfinite(theta).all():
        raise InputError(f"a filter is a list of finite numbers, not of shape {theta.shape}")
    ahead = sum(weight * np.eye(tau, k=s) for s, weight in enumerate(theta[:tau]))
    return np.asarray(ahead.T if causal else ahead)


def swap_ends(tau: int, count: int = 10) -> NDArray[np.intp]:
    """Return the permutation that exchanges the first ``count`` values with the last: appendix C."""
    if not 0 <= 2 * count <= tau:
        raise InputError(f"the first and the last {count} of {tau} values overlap")
    p = np.arange(tau)
    p[:count], p[tau - count :] = np.arange(tau - count, tau), np.arange(count)
    return p


def random_filter(length: int = 5, seed: int = 0) -> Array:
    """Return a filter drawn from [−1, 1] and scaled to ‖θ‖₁ = 1, as proposition 6.3 wants it."""
    theta = np.random.default_rng(seed).uniform(-1.0, 1.0, length)
    return np.asarray(theta / np.abs(theta).sum())


def check_permutation(permutation: ArrayLike, tau: int) -> NDArray[np.intp]:
    """Return the permutation as an array of indices, or raise."""
    p = np.asarray(permutation)
    if p.shape != (tau,) or not np.array_equal(np.sort(p), np.arange(tau)):
        raise InputError(f"a permutation of {tau} values lists each of 0 to {tau - 1} once")
    return p.astype(np.intp)
