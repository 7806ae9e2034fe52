"""How far rounding can take a fused form from exact arithmetic, in any float format.

Let |t̂ − t| ≤ E and |t| ≤ T, and let coefficients ĉ be rounded from c. Horner's rule gives

    Σ_s ĉ_s t̂^s (1 + θ_2s),        |t̂^s − t^s| ≤ s E (T + E)^(s−1),

since a coefficient c_s meets s products and at most s sums. Clenshaw's recurrence is linear in the
coefficients, so an error η_s made in computing b_s = c_s + 2t b_{s+1} − b_{s+2} is carried to the end
as η_s T_s(t̂), and b_s = Σ_{j≥s} c_j U_{j−s} says how large the b_s are:

    Σ_s (ĉ_s + η_s) T_s(t̂),        |T_s| ≤ g,  |U_s| ≤ (s + 1) g,  |T_s'| ≤ s² g,

with g = 1 on [−1, 1] and g = exp(q arcosh(T + E)) a little beyond. The terms are then added over
tokens, in groups or in any order. Conventions (γ, underflow, no partial sum near the largest number)
are those of :mod:`exactformer.execution.bounds`.

Weights are rounded to the module's format; products and sums are rounded to that format or, if it
has fewer digits than float32, to float32, and then the value once more to the module's format.
Fused multiply-adds leave out roundings that are counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from exactformer.blueprint import Domain, Matrix
from exactformer.execution.bounds import OverflowsError, RoundingBound
from exactformer.execution.formats import FORMATS, FloatFormat
from exactformer.execution.fusing import Basis, FusedForm
from exactformer.execution.magnitudes import Array, CoordinateSizes, above, times, up


def fused_bound(
    form: FusedForm, reach: list[Fraction], domain: Domain, target: FloatFormat
) -> RoundingBound:
    """Bound |computed − exact| of the fused module over the domain, in one format."""
    try:
        T = np.array([above(r) for r in reach])
        E = _feature_errors(form, domain, target)
        outputs = zip(form.coefficients, form.biases, strict=True)
        return RoundingBound.worst(_bound(form, c, b, T, E, target) for c, b in outputs)
    except OverflowsError as problem:
        return RoundingBound(None, None, str(problem))


def arithmetic_format(module: FloatFormat) -> FloatFormat:
    """Return the format of products and sums in a module of some format: at least float32."""
    single = FORMATS["float32"]
    return module if module.precision >= single.precision else single


@dataclass(frozen=True)
class Terms:
    """For every token: error of its P_i(t_i), its absolute size, the largest intermediate."""

    error: Array
    absolute: Array
    inner: Array


def _bound(
    form: FusedForm, coefficients: Matrix, constant: Fraction, T: Array, E: Array, to: FloatFormat
) -> RoundingBound:
    n, q = coefficients.shape
    weight, change = np.zeros((n, q)), np.zeros((n, q))
    for i, s, value in coefficients:
        weight[i, s], change[i, s] = _rounded(value, to)
    evaluate = _horner if form.basis is Basis.POWER else _clenshaw
    wide = arithmetic_format(to)
    terms = evaluate(weight, change, T, E, wide)
    bias, wrong_bias = _rounded(constant, to)
    whole, carried = _sum(terms.absolute), _sum(terms.error)
    limit = 0.5 * float(wide.largest)
    fits = whole + bias < min(limit, 0.5 * float(to.largest))
    if not (fits and np.all(terms.inner < limit)):
        raise OverflowsError(f"values on the domain come close to {to.name}'s largest number")

    def bound(additions: int) -> float | None:
        noise = gamma(additions + 1, wide.unit) * (whole + bias)
        value = float(up(np.asarray(carried + noise + wrong_bias + n * 4 * wide.tiny), 8))
        if to is not wide:  # |computed| ≤ |exact| + value, and |exact| ≤ whole + bias + value
            value += to.unit * (whole + bias + 2 * value) + to.tiny
            value = float(up(np.asarray(value), 6))
        return value if value < 0.25 * float(to.largest) else None

    executed, any_order = bound(form.additions()), bound(n - 1)
    if executed is None:
        raise OverflowsError(f"a sum of {n:,} tokens leaves no digit of {to.name}")
    reason = "" if any_order is not None else f"in some order no digit of {to.name} is left"
    return RoundingBound(executed, any_order, reason)


def _horner(weight: Array, change: Array, T: Array, E: Array, to: FloatFormat) -> Terms:
    n, q = weight.shape
    largest = up(T + E)
    error, absolute, inner = np.zeros(n), np.zeros(n), np.zeros(n)
    below, power, exact = np.ones(n), largest, T  # (T+E)^(s−1), (T+E)^s, T^s
    for s in range(1, q + 1):
        c, wrong = weight[:, s - 1], change[:, s - 1]
        term = times(c, power)
        moved = times(times(c, E), up(s * below))
        error = up(error + moved + times(wrong, exact) + gamma(2 * s, to.unit) * term, 8)
        absolute = up(absolute + term)
        inner = up(inner + times(c, up(np.maximum(power, 1.0))))
        below, power, exact = power, times(power, largest), times(exact, T)
    # Underflow: a product errs by tiny·(1 + |a| + |b|), and later factors may enlarge that.
    scale = up(np.maximum(below, 1.0) * (1 + largest + inner), 4)
    error = up(error + 8 * q * to.tiny * scale, 4)
    return Terms(error, absolute, np.maximum(inner, largest))


def _clenshaw(weight: Array, change: Array, T: Array, E: Array, to: FloatFormat) -> Terms:
    n, q = weight.shape
    largest = up(T + E)
    growth = _growth(largest, q)
    noise = gamma(2, to.unit)
    once, twice = np.zeros(n), np.zeros(n)  # Σ_{j≥s} |ĉ_j + η_j|, and with factors j − s + 1
    error, one_above, two_above = np.zeros(n), np.zeros(n), np.zeros(n)  # |b_{s+1}|, |b_{s+2}|
    inner = np.zeros(n)
    for s in range(q, 0, -1):
        c, wrong = weight[:, s - 1], change[:, s - 1]
        product = times(2 * largest, one_above)
        under = 4 * to.tiny * (1 + 2 * largest + one_above)
        local = up(noise * (c + two_above + product) + under, 8)
        once = up(once + c + local, 2)
        twice = up(twice + once)
        one_above, two_above = times(twice, growth), one_above
        moved = times(times(c, E), np.asarray(float(s * s)))
        error = up(error + wrong + moved + local, 4)
        inner = np.maximum(inner, up(one_above + product))
    last = up(noise * (times(largest, one_above) + two_above) + 4 * to.tiny * (1 + one_above), 8)
    absolute = up(times(once, growth) + last)
    return Terms(up(times(error, growth) + last), absolute, np.maximum(inner, largest))


def _growth(largest: Array, q: int) -> Array:
    """Return g ≥ exp(q θ) for |t| ≤ cosh θ, from cosh θ ≥ 1 + θ²/2."""
    beyond = np.sqrt(2 * np.maximum(largest - 1, 0.0)) * (1 + 2.0**-48)
    with np.errstate(over="ignore"):
        return np.where(beyond > 0, np.exp(q * beyond) * (1 + 2.0**-40), 1.0)


def _feature_errors(form: FusedForm, domain: Domain, to: FloatFormat) -> Array:
    """Bound |t̂ − t|: c rounded and subtracted, F rounded, then a sum of d products in any order."""
    rows, sizes = form.features.by_row, CoordinateSizes(domain, centred=True)
    d = form.features.columns
    shift = [_rounded(c, to)[1] for c in form.centre] or [0.0] * d
    wide = arithmetic_format(to)
    step = wide.unit if form.centre else 0.0
    errors = np.zeros(form.features.rows)
    for i in range(form.features.rows):
        row = [(j, *_rounded(value, to)) for j, value in rows.get(i, [])]
        if row:
            columns, weights = [j for j, _, _ in row], [weight for _, weight, _ in row]
            products = sizes.absolute(columns, weights)
            moved = sizes.absolute(columns, [wrong for _, _, wrong in row])
            moved += 2 * (step * products + sum(weight * shift[j] for j, weight, _ in row))
            noise = gamma(len(row), wide.unit) * (products + moved)
            under = 8 * wide.tiny * sum(2 + weight for weight in weights)
            errors[i] = float(up(np.asarray(moved + noise + under), 3 * len(row) + 8))
    return errors


def _rounded(value: Fraction, target: FloatFormat) -> tuple[float, float]:
    """Return |fl(w)| and |fl(w) − w|, counting what may be flushed to zero as lost."""
    nearest = target.round(value)
    if nearest is None:
        raise OverflowsError(f"a weight is beyond {target.name}'s largest number")
    flushed = abs(nearest) < Fraction(target.tiny)
    return above(nearest), above(value if flushed else nearest - value)


def gamma(roundings: int, unit: float) -> float:
    """Return γ_k; infinite where so many roundings leave no digit."""
    ku = roundings * unit
    return ku / (1 - ku) * (1 + 2.0**-48) if ku < 0.5 else float("inf")


def _sum(values: Array) -> float:
    return float(up(np.asarray(values.sum()), values.size + 1))
