"""What a proper orthogonal decomposition gives: ρ(u, v) = Σ_k σ_k φ_k(u) ψ_k(v).

φ_k and ψ_k are orthonormal, σ_k descends; cutting after m terms is the best approximation of rank m
in L², off by the tail (Σ_{k>m} σ_k²)^½ (Schmidt; Eckart and Young). Values at any point come from those
at the nodes by Nyström's formula, the definition of a singular function read as a recipe:

    φ_k(u) = (1/σ_k) ∫ ρ(u, v) ψ_k(v) dv,        ψ_k(v) = (1/σ_k) ∫ ρ(u, v) φ_k(u) du.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import floor, log10
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.arrays import reals
from exactformer.core.pointwise import check_pointwise
from exactformer.errors import InputError
from exactformer.theory.quadrature import Rule

if TYPE_CHECKING:
    from exactformer.theory.decay import Decay

Array = NDArray[np.float64]
Kernel = Callable[[Any, Any], Any]

BLOCK = 2**22
"""Kernel values held at once when functions are extended."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The terms of ρ that were resolved; what lies below the error is in ``remainder``."""

    singular_values: Array
    """σ_1 ≥ σ_2 ≥ …, those above ``error``."""
    error: float
    """Estimated |σ_k − computed|, for every k."""
    remainder: float
    """(Σ σ_k²)^½ over the values not listed."""
    kernel: Kernel | None
    """ρ itself; None if only samples of it are known."""
    u: Rule
    v: Rule
    left_values: Array
    """φ_k at the nodes u: (n, r)."""
    right_values: Array
    """ψ_k at the nodes v: (n', r)."""

    @property
    def rank(self) -> int:
        """The number of terms listed."""
        return len(self.singular_values)

    @property
    def digits(self) -> int:
        """Digits after the leading one of σ_1 that hold, in every σ_k: |error| ≤ 10^(−digits) σ_1."""
        if not self.rank:
            return 0
        return max(0, floor(-log10(max(self.error / self.singular_values[0], 1e-16))))

    def left(self, u: Any) -> Array:
        """Return φ_1 … φ_r at points (…) (of vectors (…, d)): (…, r)."""
        return self._extend(u, self.u, self.v, self.left_values, self.right_values, swap=False)

    def right(self, v: Any) -> Array:
        """Return ψ_1 … ψ_r at points (…) (of vectors (…, d)): (…, r)."""
        return self._extend(v, self.v, self.u, self.right_values, self.left_values, swap=True)

    def __call__(self, u: Any, v: Any) -> Array:
        """Return Σ σ_k φ_k(u) ψ_k(v) over the terms listed; u and v broadcast."""
        return np.asarray((self.left(u) * self.singular_values * self.right(v)).sum(-1))

    def matrix(self, u: Any, v: Any) -> Array:
        """Return Σ σ_k φ_k(u_i) ψ_k(v_j): (…, a, b)."""
        return (self.left(u) * self.singular_values) @ self.right(v).swapaxes(-1, -2)

    def truncate(self, terms: int) -> Decomposition:
        """Keep the first ``terms``; the rest joins the remainder."""
        rest = self.tail(terms)
        return replace(
            self,
            singular_values=self.singular_values[:terms],
            remainder=rest,
            left_values=self.left_values[:, :terms],
            right_values=self.right_values[:, :terms],
        )

    def tail(self, terms: int) -> float:
        """Return (Σ_{k>terms} σ_k²)^½, the L² distance to the truncation."""
        if not isinstance(terms, Integral) or terms < 0:
            raise InputError(f"a decomposition cannot keep {terms!r} terms")
        return float(np.hypot(np.linalg.norm(self.singular_values[terms:]), self.remainder))

    def decay(self) -> Decay:
        """Say how the σ_k fall: as a power, exponentially, or to zero after finitely many."""
        from exactformer.theory.decay import fit_decay

        below = min([self.remainder, *self.singular_values[-1:]])
        return fit_decay([*self.singular_values, below], self.error)

    def __str__(self) -> str:
        """Return the leading values and how far to trust them."""
        shown = ", ".join(f"{s:.{min(12, max(self.digits, 1))}g}" for s in self.singular_values[:8])
        more = ", …" if self.rank > 8 else ""
        return f"{self.rank} singular values, {self.digits} digits hold: {shown}{more}"

    def _extend(
        self, points: Any, here: Rule, there: Rule, own: Array, other: Array, swap: bool
    ) -> Array:
        points = reals(points, "points")
        if self.kernel is None:
            return _interpolated(points, here.nodes, own)
        vector = here.nodes.ndim == 2
        if vector and points.shape[-1:] != here.nodes.shape[1:]:
            raise InputError(f"points are (…, {here.nodes.shape[1]}), not {points.shape}")
        flat = points.reshape(-1, points.shape[-1]) if vector else points.reshape(-1)
        smoothing = there.weights[:, None] * other / self.singular_values
        shape = points.shape[:-1] if vector else points.shape
        if is_product(self.kernel):
            return _through_features(self.kernel, flat, there.nodes, smoothing, swap).reshape(
                *shape, -1
            )
        blocks = np.array_split(flat, len(flat) * len(there) // BLOCK + 1)
        rows = [evaluate(self.kernel, block, there.nodes, swap) @ smoothing for block in blocks]
        return np.concatenate(rows).reshape(*shape, self.rank)


def evaluate(kernel: Kernel, first: Array, second: Array, swap: bool = False) -> Array:
    """Return ρ(first_i, second_j), or ρ(second_j, first_i) if ``swap``: (a, b), checked."""
    u, v = (second, first) if swap else (first, second)

    def pairs_of(u: Array, v: Array) -> Any:
        if hasattr(kernel, "matrix"):
            return kernel.matrix(u, v)
        return kernel(u[:, None].copy(), v[None, :].copy())  # it may write into them

    try:
        pairs = pairs_of(u, v)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"ρ(u, v) must work elementwise; of points {u[:, None].shape} and {v[None].shape} it "
            f"says: {error}. np.vectorize makes a function of single numbers one of arrays"
        ) from error
    values = reals(pairs, "ρ(u, v)")
    shape = (len(u), len(v))
    if values.ndim not in (0, 2) or any(
        n not in (1, m) for n, m in zip(values.shape, shape, strict=False)
    ):
        raise InputError(
            f"ρ(u, v) must work elementwise: for points {u[:, None].shape} and {v[None].shape} it gave "
            f"{values.shape}"
        )
    values = np.broadcast_to(values, shape)
    if not np.isfinite(values).all():
        i, j = np.argwhere(~np.isfinite(values))[0]
        raise InputError(f"ρ is not finite: ρ({u[i]}, {v[j]}) = {values[i, j]}")

    def alone(pair: int) -> Any:
        i, j = divmod(pair, len(v))
        return pairs_of(u[i : i + 1], v[j : j + 1])

    check_pointwise(values.reshape(-1), alone, "ρ")
    return values.T if swap else values


def is_product(kernel: Kernel) -> bool:
    """Say whether a kernel is given as Σ σ_k φ_k(u) ψ_k(v)."""
    return all(hasattr(kernel, name) for name in ("sigma", "phi", "psi"))


def _through_features(
    kernel: Any, points: Array, nodes: Array, smoothing: Array, swap: bool
) -> Array:
    own, other = (kernel.psi, kernel.phi) if swap else (kernel.phi, kernel.psi)
    return np.asarray((own(points) * kernel.sigma) @ (other(nodes).T @ smoothing))


def _interpolated(points: Array, nodes: Array, values: Array) -> Array:
    if (points < nodes[0]).any() or (points > nodes[-1]).any():
        raise InputError(
            f"samples say nothing of ρ outside their nodes, [{nodes[0]:g}, {nodes[-1]:g}]"
        )
    columns = [np.interp(points, nodes, column) for column in values.T]
    return np.stack(columns, axis=-1) if columns else np.zeros((*points.shape, 0))
