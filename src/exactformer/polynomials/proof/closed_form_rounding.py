"""Bounds of the rounding errors of a fused form, in any float format.

Let |t̂ − t| ≤ E and |t| ≤ T, and let coefficients ĉ be rounded from c. Horner's rule gives

    Σ_s ĉ_s t̂^s (1 + θ_2s),        |t̂^s − t^s| ≤ s E (T + E)^(s−1),

since a coefficient c_s meets s products and at most s sums. Clenshaw's recurrence is linear in the
coefficients, so an error η_s made in computing b_s = c_s + 2t b_{s+1} − b_{s+2} is carried to the end
as η_s T_s(t̂), and b_s = Σ_{j≥s} c_j U_{j−s} says how large the b_s are:

    Σ_s (ĉ_s + η_s) T_s(t̂),        |T_s| ≤ g,  |U_s| ≤ (s + 1) g,  |T_s'| ≤ s² g,

with g = 1 on [−1, 1] and g = exp(q arcosh(T + E)) a little beyond. The terms are then added over
tokens by halving, so that each meets a = ⌈log₂ n⌉ additions. Their own roundings and those of the
sum are bounded apart, which is enough: γ_a + γ_b ≥ 2γ_{(a+b)/2} ≥ (1 + u)^(a+b) − 1, as γ is convex
and 2x/(1 − x) ≥ e^(2x) − 1. Conventions (γ, underflow, no partial sum near the largest number) are
those of :mod:`exactformer.polynomials.proof.literal_rounding`.

Weights are rounded to the module's format; products and sums are rounded to that format or, if it
has fewer digits than float32, to float32, and then the value once more to the module's format.
Fused multiply-adds leave out roundings that are counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from exactformer.core.domain import Domain
from exactformer.core.formats import FORMATS, FloatFormat
from exactformer.core.matrix import Matrix
from exactformer.core.upper import Upper, above, gamma
from exactformer.polynomials.proof.literal_rounding import OverflowsError, RoundingBound
from exactformer.polynomials.proof.magnitudes import CoordinateSizes, alike
from exactformer.polynomials.run.closed_form import Basis, FusedForm
from exactformer.polynomials.run.halving import additions


@np.errstate(all="ignore")
def fused_bound(
    form: FusedForm,
    reach: list[Fraction],
    domain: Domain,
    target: FloatFormat,
    added: int | None = None,
) -> RoundingBound:
    """Bound |computed − exact| of the fused module over the domain, in one format.

    ``added`` is how many additions a token's term meets, by default those of the module's tree.
    """
    added = additions(form.features.rows) if added is None else added
    try:
        T = Upper([above(r) for r in reach])
        E = _feature_errors(form, domain, target)
        outputs = zip(form.coefficients, form.biases, strict=True)
        return RoundingBound.worst(_bound(form, c, b, T, E, target, added) for c, b in outputs)
    except OverflowsError as problem:
        return RoundingBound(None, str(problem))


def arithmetic_format(module: FloatFormat) -> FloatFormat:
    """Return the format of products and sums in a module of some format: at least float32."""
    single = FORMATS["float32"]
    return module if module.precision >= single.precision else single


@dataclass(frozen=True)
class Terms:
    """For every token: error of its P_i(t_i), its absolute size, the largest intermediate."""

    error: Upper
    absolute: Upper
    inner: Upper


def _bound(
    form: FusedForm,
    coefficients: Matrix,
    constant: Fraction,
    T: Upper,
    E: Upper,
    to: FloatFormat,
    added: int,
) -> RoundingBound:
    n = coefficients.rows
    evaluate = _horner if form.basis is Basis.POWER else _clenshaw
    wide = arithmetic_format(to)
    terms = evaluate(*_tables(coefficients, to), T, E, wide)
    bias, wrong_bias = _rounded(constant, to)
    whole, carried = terms.absolute.sum() + bias, terms.error.sum() + wrong_bias
    fits = whole < 0.5 * float(to.largest)
    if not (fits and np.all(terms.inner < 0.5 * float(wide.largest))):
        raise OverflowsError(f"values on the domain come close to {to.name}'s largest number")

    # The bias is one addition more. An underflow costs 4·tiny in each, as in other sums.
    value = carried + gamma(added + 1, wide.unit) * whole + n * 4 * wide.tiny
    if to is not wide:  # |computed| ≤ |exact| + value, and |exact| ≤ whole + value
        value += to.unit * (whole + 2 * value) + to.tiny
    if not value < 0.25 * float(to.largest):  # |computed| < ¾ of it
        raise OverflowsError(f"a sum of {n:,} tokens leaves no digit of {to.name}")
    return RoundingBound(float(value))


def _horner(weight: Upper, change: Upper, T: Upper, E: Upper, to: FloatFormat) -> Terms:
    n, q = weight.shape
    reach = T + E
    error = absolute = inner = Upper.zeros(n)
    below = power = exact = Upper(np.ones(n))  # (T+E)^(s−1), (T+E)^s, T^s
    for s in range(1, q + 1):
        c, wrong = weight[:, s - 1], change[:, s - 1]
        below, power, exact = power, power * reach, exact * T
        term = c * power
        error += c * E * s * below + wrong * exact + gamma(2 * s, to.unit) * term
        absolute += term
        inner += c * power.or_above(1.0)
    # Underflow: a product errs by tiny·(1 + |a| + |b|), a sum by 3·tiny, together by at most
    # 4·tiny·(1 + |a| + |b|). At most q − 1 factors enlarge that; later roundings at most double it.
    scale = below.or_above(1.0) * (1 + reach + inner)
    return Terms(error + 8 * q * to.tiny * scale, absolute, inner.or_above(reach))


def _clenshaw(weight: Upper, change: Upper, T: Upper, E: Upper, to: FloatFormat) -> Terms:
    n, q = weight.shape
    reach = T + E
    growth = _growth(reach, q)
    noise = gamma(2, to.unit)
    once = twice = Upper.zeros(n)  # Σ_{j≥s} |ĉ_j + η_j|, and with factors j − s + 1
    error = inner = one_above = two_above = Upper.zeros(n)  # the last two are |b_{s+1}|, |b_{s+2}|
    for s in range(q, 0, -1):
        c, wrong = weight[:, s - 1], change[:, s - 1]
        product = 2 * reach * one_above
        # Underflow costs tiny·(1 + 2|t| + |b_{s+1}|) in the product, and tiny in two sums and b_{s+2}.
        local = noise * (c + two_above + product) + 4 * to.tiny * (1 + 2 * reach + one_above)
        once += c + local
        twice += once
        one_above, two_above = twice * growth, one_above
        error += wrong + c * E * s**2 + local
        inner = inner.or_above(one_above + product)
    # What is lost where b_1 is flushed has been counted with its sum: it is used nowhere else.
    last = noise * (reach * one_above + two_above) + 4 * to.tiny * (1 + one_above)
    return Terms(error * growth + last, once * growth + last, inner.or_above(reach))


def _growth(reach: Upper, q: int) -> Upper:
    """Return g ≥ exp(q θ) for |t| ≤ cosh θ, from cosh θ ≥ 1 + θ²/2."""
    beyond = Upper(np.maximum(reach.values - 1, 0.0))  # exact up to 2⁵³, where g is infinite
    with np.errstate(over="ignore"):
        growth = np.exp((q * (2 * beyond).root()).values) * (1 + 2.0**-40)  # not correctly rounded
    return Upper(np.where(beyond.nonzero, growth, 1.0))


def _feature_errors(form: FusedForm, domain: Domain, to: FloatFormat) -> Upper:
    """Bound |t̂ − t|: c rounded and subtracted, F rounded, then a sum of d products in any order."""
    rows, sizes = form.features.by_row, CoordinateSizes(domain, centred=True)
    wide = arithmetic_format(to)
    F, change = _tables(form.features, to)
    counts = [len(rows.get(i, ())) for i in range(len(F))]

    def totals(weights: Upper) -> Upper:
        """Bound Σ_j w_j |x_j − c_j| for every row."""
        found = Upper.zeros(len(F))
        for own, columns, _ in alike(form.features):
            found[own] = sizes.absolute(columns, weights[own[:, None], columns])
        return found

    products, moved = totals(F), totals(change)
    if form.centre:  # y = x − c errs by u·|y|, and by (1 + u)·|ĉ − c|
        shifted = (F * np.array([_rounded(c, to)[1] for c in form.centre])).sum(1)
        moved += wide.unit * (products + shifted) + shifted
    noise = gamma(counts, wide.unit) * (products + moved)
    # Underflow of F_ij·y_j costs tiny·(1 + |F_ij|), that of y_j and of a sum 3·tiny each (what F_ij
    # loses is in its change); later roundings at most double it.
    return moved + noise + 8 * wide.tiny * (1 + F).where(F.nonzero).sum(1)


def _tables(matrix: Matrix, to: FloatFormat) -> tuple[Upper, Upper]:
    """Return |fl(w)| and |fl(w) − w| for every entry of a matrix."""
    tables = np.zeros((2, *matrix.shape))
    for i, j, value in matrix:
        tables[:, i, j] = _rounded(value, to)
    return Upper(tables[0]), Upper(tables[1])


def _rounded(value: Fraction, target: FloatFormat) -> tuple[float, float]:
    """Return |fl(w)| and |fl(w) − w|, counting what may be flushed to zero as lost."""
    nearest = target.round(value)
    if nearest is None:
        raise OverflowsError(f"a weight is beyond {target.name}'s largest number")
    flushed = abs(nearest) < Fraction(target.tiny)
    return above(nearest), above(value if flushed else nearest - value)
