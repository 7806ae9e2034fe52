"""The bound that a coupling's file states, held against the weights in the file.

A file holds no functions, so most of a bound cannot be computed from it and stays a statement. Some of
it can: K is a property of F̂ alone; R is half the range of f, which agrees with f̂ at the knots and is
within ε_f of it; every √B_t follows from T and D. A file that contradicts its own weights is refused.
"""

from __future__ import annotations

from math import hypot, isclose

import numpy as np

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.proof.bound import ErrorTerms
from exactformer.couplings.proof.slopes import lipschitz
from exactformer.errors import CertificationError

ROOM = 1e-6
"""For other orders of summation than the one the bound was computed in, relative."""


@np.errstate(over="ignore", invalid="ignore")
def check_stated(bound: ErrorTerms, blueprint: CouplingBlueprint) -> None:
    """Raise where a stated bound contradicts the weights that it is stated for."""
    tau = blueprint.tau
    steep = lipschitz(blueprint.outer)
    if not isclose(bound.lipschitz, steep, rel_tol=ROOM):
        _refuse("K", bound.lipschitz, f"F̂ has {steep:.6g}")
    values = blueprint.features.values[:, 2 * blueprint.head_dim :]
    radius, room = float(np.ptp(values, axis=0).max()) / 2, ROOM * float(np.abs(values).max())
    # Values far from zero have more room than they have range: what R lacks, ε_f must own up to.
    lacking = min(room, bound.value_error + ROOM * radius)
    if not radius - lacking <= bound.radius <= radius + bound.value_error + room:
        within = f"f̂ has {radius:.6g}, and f is within {bound.value_error:.3g} of it"
        _refuse("R", bound.radius, within)
    if not 1 / tau <= bound.concentration * (1 + ROOM) <= 1 + 2 * ROOM:
        _refuse("w", bound.concentration, f"{tau} weights add up to 1")
    if len(bound.root_sums) != tau:
        _refuse("B", len(bound.root_sums), f"there are {tau} tokens")
    _check_sums(bound, blueprint.positions is not None)


def _check_sums(bound: ErrorTerms, positions: bool) -> None:
    """B_t is (τ − 1)T² + D² for every t; with positions so on the mean, but for a token's own block."""
    tau = len(bound.root_sums)
    diagonal = bound.diagonal
    if not positions:
        wanted = hypot((tau - 1) ** 0.5 * bound.tail, diagonal)
        if not all(isclose(root, wanted, rel_tol=ROOM, abs_tol=0) for root in bound.root_sums):
            _refuse("√B", min(bound.root_sums), f"T and D give {wanted:.6g}")
        return
    mean = hypot(*bound.root_sums) / tau**0.5
    if not diagonal * (1 - ROOM) <= mean <= hypot(tau**0.5 * bound.tail, diagonal) * (1 + ROOM):
        _refuse("√B", mean, f"T = {bound.tail:.6g} and D = {diagonal:.6g} do not allow for it")


def _refuse(name: str, stated: float, found: str) -> None:
    raise CertificationError(
        f"the file states {name} = {stated:.6g} in its bound, but {found}: the bound is not that of "
        "these weights. Load it with target= to compute the bound anew"
    )
