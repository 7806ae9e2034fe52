"""Proposition 6.2 as it can be proven: a coupling whose pieces change places.

With positions, ρ and f live on disjoint intervals I_1, …, I_τ and are whatever they please on each. Let

    ρ̃(u, v) = ρ(m(u), m(v)),   f̃ = f∘m,   where m moves I_t to I_{p(t)}, keeping the value.

Then token t of z = x∘p is treated as token p(t) of x, and *H̃(x∘p) = H(x)∘p*: inputs and outputs are
reordered together. ρ̃ has the singular values of ρ and φ̃_k = φ_k∘m has its pieces, so C₀ and C₁ are the
same. This the proof in D.2 shows. What it sets out to show, H̃_t(x∘p) = H_t(x) with the outputs kept, is
another matter: token t of z is x(p(t)), and no function of it is the query x(t), as (90) has it. Of
couplings it is true where the query enters by its place only, ρ(u, v) = ρ_t(v) on I_t: then moving the
keys alone will do. Linear targets are of this kind, which is why table 2 does not show the difference.

C₂ is another exception. Within each interval φ̃_k is as smooth as φ_k; across the gaps it is not, and
the Hölder constant of the whole, by which D.2 measures it, can grow τ-fold. A class of networks with
knots of its own on every interval does not notice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import as_array, like, namespace
from exactformer.couplings.target import Coupling, ProductKernel
from exactformer.targets.linear import LinearTarget
from exactformer.targets.temporal import check_permutation

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Move:
    """Takes a point of I_t to the same place in I_{p(t)}."""

    edges: Array
    """Between neighbouring intervals, ascending (τ − 1,)."""
    shifts: Array
    """How far each interval is moved, from the lowest up (τ,)."""

    @classmethod
    def of(cls, target: Coupling, permutation: NDArray[np.intp]) -> Move:
        """Return the move that a permutation makes of the intervals of a coupling with positions."""
        positions = np.asarray(target.positions, dtype=np.float64)
        low, high = np.array(target.intervals).T
        order = np.argsort(positions)
        edges = (high[order][:-1] + low[order][1:]) / 2
        return cls(edges, (positions[permutation] - positions)[order])

    def __call__(self, u: Any) -> Any:
        """Move the points u (…)."""
        points = as_array(u)
        piece = namespace(points).searchsorted(like(self.edges, points), points)
        return points + like(self.shifts, points)[piece]


@overload
def relabel(target: LinearTarget, permutation: ArrayLike) -> LinearTarget: ...
@overload
def relabel(target: Coupling, permutation: ArrayLike, queries: bool = True) -> Coupling: ...
def relabel(
    target: LinearTarget | Coupling, permutation: ArrayLike, queries: bool = True
) -> LinearTarget | Coupling:
    """Return H̃ with H̃(x∘p) = H(x)∘p: inputs and outputs in another order.

    With ``queries=False`` only keys and values of a coupling move. If ρ depends on a query's place and
    not on its value this is ``reorder``, still a coupling: H̃_t(x∘p) = H_t(x).
    """
    p = check_permutation(permutation, target.tau)
    if isinstance(target, LinearTarget):
        return LinearTarget(target.matrix[np.ix_(p, p)], f"{target.name}, relabelled")
    if target.positions is None:
        return target  # equivariant as it is
    move = Move.of(target, p)
    asked: Callable[[Any], Any] = move if queries else as_array
    return replace(
        target,
        f=Composed(target.f, move),
        rho=_moved(target.rho, asked, move),
        name=f"{target.name or 'coupling'}, relabelled",
    )


@dataclass(frozen=True, eq=False)
class Composed:
    """outer∘inner."""

    outer: Callable[[Any], Any]
    inner: Callable[[Any], Any]

    def __call__(self, u: Any) -> Any:
        """Evaluate at the points u."""
        return self.outer(self.inner(u))


def _moved(
    rho: Callable[[Any, Any], Any], asked: Callable[[Any], Any], move: Move
) -> Callable[[Any, Any], Any]:
    if isinstance(rho, ProductKernel):
        return ProductKernel(rho.sigma, Composed(rho.phi, asked), Composed(rho.psi, move))
    return lambda u, v: rho(asked(u), move(v))
