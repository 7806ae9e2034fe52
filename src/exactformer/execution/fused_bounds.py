"""How far rounding can take a fused form from exact arithmetic, in any float format.

With |t̂ − t| ≤ E and |t| ≤ T, and coefficients ĉ rounded from c, Horner's rule gives

    Σ_s ĉ_s t̂^s (1 + θ_2s),        |t̂^s − t^s| ≤ s E (T + E)^(s−1),

since a coefficient c_s meets s products and at most s sums. The terms are then added over tokens,
in groups or in any order. Conventions (γ, underflow, no partial sum near the largest number) are
those of :mod:`exactformer.execution.bounds`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from exactformer.execution.bounds import OverflowsError, RoundingBound
from exactformer.execution.formats import FloatFormat
from exactformer.execution.fusing import FusedForm
from exactformer.execution.magnitudes import Array, above, times, up


def fused_bound(
    form: FusedForm, reach: list[Fraction], radius: Fraction, target: FloatFormat
) -> RoundingBound:
    """Bound |computed − exact| of the fused module over the ball, in one format."""
    try:
        return _bound(form, reach, radius, target)
    except OverflowsError as problem:
        return RoundingBound(None, None, str(problem))


def _bound(
    form: FusedForm, reach: list[Fraction], radius: Fraction, target: FloatFormat
) -> RoundingBound:
    n, q = form.coefficients.shape
    weight, change = np.zeros((n, q)), np.zeros((n, q))
    for i, s, value in form.coefficients:
        weight[i, s], change[i, s] = _rounded(value, target)
    T = np.array([above(r) for r in reach])
    E = _feature_errors(form, reach, radius, target)
    largest = up(T + E)
    error, absolute, horner = np.zeros(n), np.zeros(n), np.zeros(n)
    below, power, exact = np.ones(n), largest, T  # (T+E)^(s−1), (T+E)^s, T^s
    for s in range(1, q + 1):
        c, wrong = weight[:, s - 1], change[:, s - 1]
        term = times(c, power)
        moved = times(times(c, E), up(s * below))
        error = up(error + moved + times(wrong, exact) + _gamma(2 * s, target.unit) * term, 8)
        absolute = up(absolute + term)
        horner = up(horner + times(c, up(np.maximum(power, 1.0))))
        below, power, exact = power, times(power, largest), times(exact, T)
    # Underflow: a product errs by tiny·(1 + |a| + |b|), and later factors may enlarge that.
    scale = up(np.maximum(below, 1.0) * (1 + largest + horner), 4)
    error = up(error + 8 * q * target.tiny * scale, 4)
    bias, wrong_bias = _rounded(form.bias, target)
    whole, carried = _sum(absolute), _sum(error)
    limit = 0.5 * float(target.largest)
    if not (whole + bias < limit and np.all(horner < limit) and np.all(largest < limit)):
        raise OverflowsError(f"values on the ball come close to {target.name}'s largest number")

    def bound(additions: int) -> float | None:
        noise = _gamma(additions + 1, target.unit) * (whole + bias)
        value = float(up(np.asarray(carried + noise + wrong_bias + n * 4 * target.tiny), 8))
        return value if np.isfinite(value) else None

    executed, any_order = bound(form.additions()), bound(n - 1)
    if executed is None:
        raise OverflowsError(f"a sum of {n:,} tokens leaves no digit of {target.name}")
    reason = "" if any_order is not None else f"in some order no digit of {target.name} is left"
    return RoundingBound(executed, any_order, reason)


def _feature_errors(
    form: FusedForm, reach: list[Fraction], radius: Fraction, target: FloatFormat
) -> Array:
    """Bound |t̂ − t|: weights rounded, then a sum of at most d products in any order."""
    rows = form.features.by_row
    errors = np.zeros(len(reach))
    for i, bound in enumerate(reach):
        row = [_rounded(value, target) for _, value in rows.get(i, [])]
        if row:
            # |Σ δF_j x_j| ≤ Σ |δF_j| · R, and the products' absolute sum is at most ‖F̂‖ R.
            moved = _sum(np.array([wrong for _, wrong in row])) * above(radius)
            noise = _gamma(len(row), target.unit) * (above(bound) + moved)
            under = 8 * target.tiny * sum(1 + weight for weight, _ in row)
            errors[i] = float(up(np.asarray(moved + noise + under), len(row) + 8))
    return errors


def _rounded(value: Fraction, target: FloatFormat) -> tuple[float, float]:
    """Return |fl(w)| and |fl(w) − w|, counting what may be flushed to zero as lost."""
    nearest = target.round(value)
    if nearest is None:
        raise OverflowsError(f"a weight is beyond {target.name}'s largest number")
    flushed = abs(nearest) < Fraction(target.tiny)
    return above(nearest), above(value if flushed else nearest - value)


def _gamma(roundings: int, unit: float) -> float:
    ku = roundings * unit
    return ku / (1 - ku) * (1 + 2.0**-48) if ku < 0.5 else float("inf")


def _sum(values: Array) -> float:
    return float(up(np.asarray(values.sum()), values.size + 1))
