"""What a number format costs a coupling's model: a bound on |computed − exact| of every output.

To first order in the unit roundoff u, and then 10 % more, for inputs that are numbers of the format.
With Δ the largest step between neighbouring knots and V the largest value of a function:

    table     a place is off by N u(2κ + 4), κ = (|low| + |high|)/(high − low); its value by that
              times Δ, and 6u V for reading
    layers    with η what rounding the weights and biases of the first layer, and its products where
              weights are no powers of two, does to a unit: hats are off by 2η + 4u each, and four
              may be met: 4V(2η + 4u); reading adds 8u V, and adding positions u X Δ/h
    scores    Σ_k (Q_k δK_k + K_k δQ_k + m u Q_k K_k), Q and K the largest queries and keys;
              S = Σ_k Q_k K_k
    softmax   ‖p̃ − p‖₁ ≤ δ_score + u(4S + 9 + τ): shifted by the maximum, exp to two units, summed
    mean      V_f ‖p̃ − p‖₁ + δ_f + τ u V_f, then through F̂ by its largest slope

An operation that underflows costs up to the smallest normal number of the format besides. Nothing may
overflow: values, sums of products of queries and keys, and the inverse lengths of pieces stay below
the largest number of the format with room for differences, or no rounding bound holds.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import torch

from exactformer.blueprint.coupling import CouplingBlueprint
from exactformer.blueprint.coupling_interpolant import Affine, Floats, Interpolant, Interval
from exactformer.blueprint.coupling_kuhn import KuhnInterpolant
from exactformer.blueprint.coupling_slopes import largest_steps, lipschitz
from exactformer.errors import RoundingError
from exactformer.execution.formats import FloatFormat, float_format

MARGIN = 1.1
ROOM = 4
"""Of a format's largest number over those of a model: for steps in tables, differences of scores."""


@lru_cache(maxsize=8)
@np.errstate(over="ignore", invalid="ignore")
def rounding_bound(blueprint: CouplingBlueprint, dtype: torch.dtype, executor: str) -> float:
    """Return the bound for a format and a way of running.

    Raises:
        RoundingError: if a number of the model may be beyond the format.
    """
    check_format(blueprint, dtype, executor)
    tiny = float_format(dtype).tiny
    u = torch.finfo(dtype).eps / 2
    m, tau = blueprint.head_dim, blueprint.tau
    rows = _interpolation(blueprint.features, dtype, executor == "literal", blueprint.domain)
    sizes = np.abs(blueprint.features.values).max(axis=0)
    query, key = sizes[:m], sizes[m : 2 * m]
    score = float(query @ key)
    score_error = float(
        query @ rows[m : 2 * m] + key @ rows[:m] + rows[:m] @ rows[m : 2 * m] + m * u * score
    )
    score_error += m * tiny
    largest = float(sizes[2 * m :].max())
    weights = min(2.0, score_error + u * (4 * score + 9 + tau) + tau * tiny)
    mean = largest * weights + float(rows[2 * m :].max()) + tau * (u * largest + tiny)
    outer = _interpolation(blueprint.outer, dtype, executor == "literal", None)
    return MARGIN * (lipschitz(blueprint.outer) * mean + float(outer.max()))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def check_format(blueprint: CouplingBlueprint, dtype: torch.dtype, executor: str) -> None:
    """Raise where a number of a model may overflow; tables also need ends that stay apart."""
    target, m = float_format(dtype), blueprint.head_dim
    sizes = np.abs(blueprint.features.values).max(axis=0)
    numbers = {
        "a value of f̂": float(sizes.max()),
        "a value of F̂": float(np.abs(blueprint.outer.values).max()),
        "a score": float(sizes[:m] @ sizes[m : 2 * m]),
    }
    if executor == "fused":
        outer = _box(blueprint.outer)
        numbers["the inverse length of a piece of f̂"] = blueprint.features.knots.pieces / _shortest(
            (blueprint.domain,), target
        )
        numbers["the inverse length of a piece of F̂"] = _pieces(blueprint.outer) / _shortest(
            outer, target
        )
    limit = float(target.largest) / ROOM
    for name, size in numbers.items():
        if not size <= limit:
            raise RoundingError(
                f"{name} may be {size:.3g} in {target.name}, where numbers up to {limit:.3g} have a "
                "rounding bound. Use a wider dtype"
            )


def _shortest(intervals: tuple[Interval, ...], target: FloatFormat) -> np.float64:
    """Return the least length of some intervals whose ends are rounded; zero where one vanishes."""
    ends = [(target.round(low), target.round(high)) for low, high in intervals]
    lengths = [0.0 if a is None or b is None else float(b - a) for a, b in ends]
    return np.float64(min(lengths))


def _box(function: Interpolant | KuhnInterpolant) -> tuple[Interval, ...]:
    return function.knots.intervals if isinstance(function, Interpolant) else function.box


def _pieces(function: Interpolant | KuhnInterpolant) -> int:
    return function.knots.pieces if isinstance(function, Interpolant) else function.pieces


def _interpolation(
    function: Interpolant | KuhnInterpolant,
    dtype: torch.dtype,
    literal: bool,
    domain: Interval | None,
) -> Floats:
    """Return how far each of the n functions may be off, (n,); ``domain``: of tokens, for f̂."""
    u = torch.finfo(dtype).eps / 2
    values, steps = np.abs(function.values).max(axis=0), largest_steps(function)
    box, pieces, tiny = _box(function), _pieces(function), float_format(dtype).tiny
    d = 1 if isinstance(function, Interpolant) else len(box)
    size = max(max(abs(float(a)), abs(float(b))) for a, b in box)
    length = min(float(b - a) for a, b in box)
    if literal:
        hats = 4 * (2 * _unit_error(function.layers()[0], dtype, size) + 4 * u)
        encoding = 0.0 if domain is None else u * size * pieces / length
        return np.asarray(d * (values * (hats + 8 * u) + encoding * steps + 8 * tiny))
    if domain is not None:  # tables read a token before its position is added
        size = max(abs(float(end)) for end in domain)
    place = pieces * (u * (4 * size / length + 4) + tiny / length)
    return np.asarray(d * (place * steps + 6 * (u * values + tiny)))


def _unit_error(layer: Affine, dtype: torch.dtype, size: float) -> float:
    """Return how far off a unit of the first layer can be, for inputs up to ``size``."""
    u, largest = torch.finfo(dtype).eps / 2, 0.0
    for row, _, weight in layer.weight:
        stored = _rounding(weight, dtype) * size + _rounding(layer.bias[row, 0], dtype)
        product = 0.0 if _is_power_of_two(weight) else u * size * abs(float(weight))
        largest = max(largest, stored + product)
    return largest


def _rounding(value: Fraction, dtype: torch.dtype) -> float:
    stored = float_format(dtype).round(value)
    return float("inf") if stored is None else abs(float(stored - value))


def _is_power_of_two(value: Fraction) -> bool:
    above, below = abs(value.numerator), value.denominator
    return above & (above - 1) == 0 and below & (below - 1) == 0
