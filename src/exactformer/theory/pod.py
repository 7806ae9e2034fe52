"""Proper orthogonal decomposition of a kernel: the singular values that set the rate of Theorem 4.1.

With nodes and weights on both sides, √w_i ρ(u_i, v_j) √w_j is a matrix whose singular values converge
to those of ρ and whose singular vectors, divided by √w, are the singular functions at the nodes. The
number of nodes is doubled until the singular values settle. By Weyl's inequality all of them are off
by at most the operator norm of what the last doubling changed; with d its largest effect on any σ_k and
r the factor by which d fell, what is still to come is a geometric series, and

    error = 2 d / (r − 1),      r − 1 taken between 0.3 and 3,

plus the rounding of the factorisation. A kernel with a kink has r ≈ 4, with a jump r ≈ 2: few digits,
but digits that hold. What has settled is compared with ρ at fresh points before it is believed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from exactformer.core.arrays import reals
from exactformer.errors import InputError, SizeError, ToleranceError
from exactformer.theory.decomposition import Decomposition, Kernel, is_product
from exactformer.theory.factorisation import (
    factorise,
    listed,
    settling_error,
    weighted_svd,
)
from exactformer.theory.probing import unseen
from exactformer.theory.quadrature import Intervals, Rule, cells, gauss_legendre, intervals_of
from exactformer.theory.sampling import Box, sampled_error, scrambled

Array = NDArray[np.float64]
Measure = Literal["lebesgue", "probability"]

FIRST = 8
"""Nodes on every interval to begin with."""
SETTLED = 1e-13
"""Of σ_1: where doubling stops if no tolerance is asked for."""
MEMORY = 2**31
"""Bytes a decomposition may take."""


def pod(
    rho: Any,
    domain_u: Any = (0.0, 1.0),
    domain_v: Any = None,
    *,
    tolerance: float | None = None,
    max_nodes: int | None = None,
    measure: Measure = "lebesgue",
    nodes: tuple[Any, Any] | None = None,
) -> Decomposition:
    """Decompose ρ(u, v) = Σ σ_k φ_k(u) ψ_k(v).

    ``rho`` is a function of two broadcasting arrays or a matrix of samples; a domain is an interval,
    a list of intervals, or for vectors a :class:`Box` (by points, not quadrature). Samples lie at
    ``nodes``, a pair of ascending arrays, or at the midpoints of equal cells. With
    ``measure="probability"`` the uniform probability on the domain takes the place of length.
    ``tolerance`` (relative to σ_1) is met or refused; without it the best within ``max_nodes`` nodes a
    side (1024, or 32 an interval if that is more; 512 on a box; 16384 for a sum of products) is given,
    and ``.digits`` says how good that is.

    >>> pod(lambda u, v: np.minimum(u, v)).digits >= 5
    True
    """
    if measure not in ("lebesgue", "probability"):
        raise InputError(f'the measure is "lebesgue" or "probability", not {measure!r}')
    if max_nodes is not None and not (isinstance(max_nodes, Integral) and max_nodes > 0):
        raise InputError(f"max_nodes={max_nodes!r} must be a whole number, at least 1")
    if tolerance is not None and not (isinstance(tolerance, Real) and tolerance > 0):
        raise InputError(f"tolerance={tolerance!r} must be a positive number")
    normal = measure == "probability"
    if isinstance(domain_u, Box):
        found = _of_points(rho, domain_u, domain_v or domain_u, normal, max_nodes or 512)
        return _within(tolerance, found)
    left = intervals_of(domain_u)
    right = left if domain_v is None else intervals_of(domain_v)
    if callable(rho):
        least = 4 * FIRST * max(len(left), len(right))
        most = max_nodes or max(16384 if is_product(rho) else 1024, least)
        found = _of_function(rho, left, right, normal, tolerance, most)
    else:
        found = _of_samples(rho, left, right, normal, nodes)
    return _within(tolerance, found)


def _within(tolerance: float | None, found: Decomposition) -> Decomposition:
    if tolerance is None or not found.rank or found.error <= tolerance * found.singular_values[0]:
        return found
    reached = float(found.error / found.singular_values[0])
    raise ToleranceError(
        f"with {len(found.u)} nodes the singular values hold to {reached:.1e}, not to "
        f"{tolerance:.1e}: raise max_nodes, or end intervals where ρ has kinks or jumps",
        error=reached,
        degree=len(found.u),
    )


def _of_function(
    rho: Kernel, left: Intervals, right: Intervals, normal: bool, tolerance: float | None, most: int
) -> Decomposition:
    widest = max(len(left), len(right))
    if widest * 4 * FIRST > most:
        raise SizeError(
            f"{widest} intervals need at least {widest * 4 * FIRST} nodes to see the values settle; "
            f"max_nodes is {most}"
        )
    if not is_product(rho):
        _refuse_large(most)
    goal = SETTLED if tolerance is None else tolerance
    history: list[Array] = []
    each = FIRST
    while True:
        u, v = (_rule(part, each, normal) for part in (left, right))
        with _announced(len(u) if not is_product(rho) else 0):
            factors = factorise(rho, u, v)
        history.append(factors[1])
        error = settling_error(history, len(u))
        last = widest * 2 * each > most
        if last or error <= goal * factors[1][0]:
            found = listed(rho, u, v, factors, error)
            missed = unseen(found, left, right)
            if last or not missed:
                return listed(rho, u, v, factors, max(error, missed))
        each *= 2


def _of_samples(
    rho: Any, left: Intervals, right: Intervals, normal: bool, nodes: tuple[Any, Any] | None
) -> Decomposition:
    values = reals(rho, "samples of ρ")
    if values.ndim != 2 or min(values.shape) < 4:
        raise InputError(f"samples are a matrix of at least 4 × 4 values, not {values.shape}")
    if not np.isfinite(values).all():
        i, j = np.argwhere(~np.isfinite(values))[0]
        raise InputError(f"the sample at row {i}, column {j} is {values[i, j]}")
    if len(left) > 1 or len(right) > 1:
        raise InputError("samples are taken on one interval a side")
    if nodes is None:
        u, v = (
            _midpoints(n, *part[0]) for n, part in zip(values.shape, (left, right), strict=True)
        )
    else:
        given = [reals(side, "nodes") for side in nodes]
        if [side.shape for side in given] != [(n,) for n in values.shape]:
            shapes = " and ".join(str(side.shape) for side in given)
            raise InputError(f"{values.shape} samples do not lie at nodes of the shapes {shapes}")
        u, v = given
    history = []
    for step in (4, 2, 1):
        rules = cells(u[step // 2 :: step], left[0]), cells(v[step // 2 :: step], right[0])
        here, there = (_normalised(rule) if normal else rule for rule in rules)
        factors = weighted_svd(values[step // 2 :: step, step // 2 :: step], here, there)
        history.append(factors[1])
    return listed(None, here, there, factors, settling_error(history, len(u)))


def _of_points(rho: Any, left: Box, right: Box, normal: bool, most: int) -> Decomposition:
    if not callable(rho) or not isinstance(right, Box):
        raise InputError("on a box ρ is a function, and the other domain is a box too")
    _refuse_large(most)
    points = 2 ** (max(most, 16).bit_length() - 1)
    u, v = scrambled(left, right, points, normal, number=0)
    error = sampled_error(rho, left, right, points, normal)
    return listed(rho, u, v, factorise(rho, u, v), error)


def _refuse_large(nodes: int) -> None:
    if 32 * nodes**2 > MEMORY:
        raise SizeError(
            f"{nodes} nodes a side would take {32 * nodes**2 / 2**30:.1f} GiB; the limit is "
            f"{MEMORY / 2**30:g} GiB: max_nodes at most {int((MEMORY / 32) ** 0.5)}"
        )


def _announced(nodes: int) -> AbstractContextManager[Any]:
    """Show on the terminal what takes longer than a moment."""
    if nodes < 2048:
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"decomposing ρ on {nodes} nodes a side")


def _rule(intervals: Intervals, each: int, normal: bool) -> Rule:
    rule = gauss_legendre(intervals, each)
    return _normalised(rule) if normal else rule


def _normalised(rule: Rule) -> Rule:
    return Rule(rule.nodes, rule.weights / rule.weights.sum())


def _midpoints(count: int, low: float, high: float) -> Array:
    return low + (high - low) * (np.arange(count) + 0.5) / count
