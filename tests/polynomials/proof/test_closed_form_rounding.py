"""Steps of the bounds of fused forms against their formulas in rationals, and their limits."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from exactformer.core.domain import Ball, Box, Domain
from exactformer.core.formats import FORMATS, FloatFormat
from exactformer.core.matrix import Matrix
from exactformer.core.upper import Upper, above
from exactformer.polynomials.proof import closed_form_rounding as fused_bounds
from exactformer.polynomials.proof.closed_form_rounding import (
    _clenshaw,
    _feature_errors,
    _growth,
    _horner,
    _rounded,
    _tables,
    arithmetic_format,
    fused_bound,
)
from exactformer.polynomials.proof.literal_rounding import OverflowsError, RoundingBound
from exactformer.polynomials.proof.magnitudes import CoordinateSizes
from exactformer.polynomials.run.closed_form import Basis, FusedForm
from exactformer.polynomials.run.halving import additions

ROOM = Fraction(1, 2**40)
rng = np.random.default_rng(1)


def gamma(k: int, format: FloatFormat) -> Fraction:
    ku = k * Fraction(format.unit)
    return ku / (1 - ku)


def assert_is(bound: Upper | float, exact: Fraction) -> None:
    """A bound is at least the exact number, and hardly more."""
    assert exact <= Fraction(float(bound)) <= exact * (1 + ROOM)


def parts(n: int, q: int, scale: float) -> tuple[Upper, Upper, Upper, Upper]:
    """Coefficients, their errors, T and E; all of one size, so that every term counts.

    In every third row the coefficients are so small that t is the largest number there is.
    """
    weight, change = rng.uniform(1, 2, (2, n, q))
    T, E = rng.uniform(0.5, 1, (2, n))
    weight[::3] *= 2.0**-12
    return Upper(weight), Upper(change * scale), Upper(T), Upper(E * scale)


def fractions(values: Upper) -> list[Fraction]:
    return [Fraction(value) for value in values.values.tolist()]


CASES = [
    pytest.param(name, scale, id=f"{name}, errors of {scale:g}")
    for name, format in FORMATS.items()
    for scale in (0.0, format.unit, format.tiny, 0.25)
]
LITTLE = FloatFormat("made of underflow", 200, -20, 100)
"""Numbers so precise and so large that underflow is all there is to lose."""
FORMATS_AND_LITTLE = FORMATS | {LITTLE.name: LITTLE}
CASES += [pytest.param(LITTLE.name, scale, id=f"underflow {scale:g}") for scale in (0.0, 0.25)]


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_horner_errs_by_its_formula(name: str, scale: float) -> None:
    format, q = FORMATS_AND_LITTLE[name], 5
    weight, change, T, E = parts(20, q, scale)
    terms = _horner(weight, change, T, E, format)
    for i in range(20):
        c, wrong = fractions(weight[i]), fractions(change[i])
        t, e = Fraction(float(T[i])), Fraction(float(E[i]))
        reach = t + e
        error, absolute, inner = Fraction(0), Fraction(0), Fraction(0)
        for s in range(1, q + 1):
            own, power = c[s - 1], reach**s
            error += own * s * e * reach ** (s - 1) + wrong[s - 1] * t**s
            error += gamma(2 * s, format) * own * power
            absolute += own * power
            inner += own * max(power, Fraction(1))
        grown = max(reach ** (q - 1), Fraction(1)) * (1 + reach + inner)
        error += 8 * q * Fraction(format.tiny) * grown
        assert_is(terms.error[i], error)
        assert_is(terms.absolute[i], absolute)
        assert_is(terms.inner[i], max(inner, reach))


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_clenshaw_errs_by_its_formula(name: str, scale: float) -> None:
    format, q = FORMATS_AND_LITTLE[name], 5
    weight, change, T, E = parts(20, q, scale)
    terms = _clenshaw(weight, change, T, E, format)
    tiny, noise = Fraction(format.tiny), gamma(2, format)
    for i in range(20):
        c, wrong = fractions(weight[i]), fractions(change[i])
        t, e = Fraction(float(T[i])), Fraction(float(E[i]))
        reach = t + e
        growth = Fraction(float(_growth(T[i] + E[i], q)))
        once = twice = error = above = two_above = inner = Fraction(0)
        for s in range(q, 0, -1):
            product = 2 * reach * above
            local = noise * (c[s - 1] + two_above + product)
            local += 4 * tiny * (1 + 2 * reach + above)
            once += c[s - 1] + local
            twice += once
            two_above, above = above, twice * growth
            error += wrong[s - 1] + c[s - 1] * e * s * s + local
            inner = max(inner, above + product)
        last = noise * (reach * above + two_above) + 4 * tiny * (1 + above)
        assert_is(terms.error[i], error * growth + last)
        assert_is(terms.absolute[i], once * growth + last)
        assert_is(terms.inner[i], max(inner, reach))


DOMAINS: list[Domain] = [
    Box((Fraction(1, 3), Fraction(-7)), (Fraction(2), Fraction(5))),
    Box((Fraction(0), Fraction(0)), (Fraction(2), Fraction(5))),
    Ball(Fraction(3), (Fraction(1, 3), Fraction(7))),
]


@pytest.mark.parametrize("name", FORMATS_AND_LITTLE)
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_features_err_by_their_formula(domain: Domain, name: str) -> None:
    format = FORMATS_AND_LITTLE[name]
    wide = arithmetic_format(format)
    values = [Fraction(5, 3), Fraction(-11, 7)]
    features = Matrix.of(3, 2, {(0, 0): values[0], (0, 1): values[1], (2, 1): values[1]})
    centre = domain.centre if any(domain.centre) else ()
    form = FusedForm(features, centre, (Matrix.of(3, 1, {}),), (Fraction(0),))
    errors = _feature_errors(form, domain, format)
    assert not errors[1].nonzero  # a row of zeros
    sizes = CoordinateSizes(domain, centred=True)
    for i, columns in ((0, [0, 1]), (2, [1])):
        weights, wrong = zip(*(_rounded(values[j], format) for j in columns), strict=True)
        products, moved = (
            Fraction(float(sizes.absolute(columns, Upper(w)))) for w in (weights, wrong)
        )
        if centre:
            shift = [Fraction(_rounded(centre[j], format)[1]) for j in columns]
            shifted = sum((Fraction(w) * s for w, s in zip(weights, shift, strict=True)), 0)
            moved += Fraction(wide.unit) * products + (1 + Fraction(wide.unit)) * shifted
        exact = moved + gamma(len(columns), wide) * (products + moved)
        exact += 8 * Fraction(wide.tiny) * sum(1 + Fraction(w) for w in weights)
        assert_is(errors[i], exact)


NARROW = FloatFormat("few digits and much underflow", 8, -6, 100)
FORMATS_OF_ALL_KINDS = FORMATS_AND_LITTLE | {NARROW.name: NARROW}


@pytest.mark.parametrize("basis", Basis)
@pytest.mark.parametrize("scale", [1, Fraction(1, 2**30)], ids=["terms", "mostly the bias"])
@pytest.mark.parametrize("name", FORMATS_OF_ALL_KINDS)
def test_the_sum_over_tokens_errs_by_its_formula(name: str, scale: Fraction, basis: Basis) -> None:
    to, n, q, reach = FORMATS_OF_ALL_KINDS[name], 20, 3, Fraction(4, 5)
    wide = arithmetic_format(to)
    features = Matrix.of(n, 1, {(i, 0): Fraction(1) for i in range(n)})
    entries = {(i, s): scale * (i + s + 1) / 7 for i in range(n) for s in range(q)}
    coefficients, bias = Matrix.of(n, q, entries), Fraction(-5, 3)
    form = FusedForm(features, (), (coefficients,), (bias,), basis)
    domain = Ball(reach)
    evaluate = _horner if basis is Basis.POWER else _clenshaw
    tables = _tables(coefficients, to)
    T = Upper([above(reach)] * n)
    terms = evaluate(*tables, T, _feature_errors(form, domain, to), wide)
    stored, wrong = map(Fraction, _rounded(bias, to))
    whole = sum(fractions(terms.absolute), stored)
    for added in (None, n - 1):
        bound = fused_bound(form, [reach] * n, domain, to, added).value
        met = additions(n) if added is None else added
        exact = sum(fractions(terms.error), wrong) + gamma(met + 1, wide) * whole
        exact += 4 * n * Fraction(wide.tiny)
        if wide is not to:
            exact += Fraction(to.unit) * (whole + 2 * exact) + Fraction(to.tiny)
        assert bound is not None
        assert_is(bound, exact)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 17, 128, 129, 256])
def test_the_bound_covers_the_tree_of_the_module(n: int) -> None:
    """Every term meets ⌈log₂ n⌉ additions and the bias, with an error as large as there can be."""
    to, domain = FORMATS["float32"], Ball(1)
    ones = Matrix.of(n, 1, {(i, 0): Fraction(1) for i in range(n)})
    form = FusedForm(ones, (), (ones,), (Fraction(0),))
    T = Upper([above(Fraction(1))] * n)
    terms = _horner(*_tables(ones, to), T, _feature_errors(form, domain, to), to)
    deepest = next(k for k in range(9) if 2**k >= n)
    summed = gamma(deepest + 1, to) * sum(fractions(terms.absolute))
    bound = fused_bound(form, [Fraction(1)] * n, domain, to).value
    assert bound is not None
    assert Fraction(bound) >= sum(fractions(terms.error)) + summed


@pytest.mark.parametrize("a", [1, 2, 5, 40, 127])
@pytest.mark.parametrize("b", [1, 3, 40, 126, 127])
def test_roundings_of_terms_and_of_their_sum_may_be_bounded_apart(a: int, b: int) -> None:
    format = FORMATS["bfloat16"]
    both = (1 + Fraction(format.unit)) ** (a + b) - 1
    assert gamma(a, format) + gamma(b, format) >= both


def test_tables_hold_every_weight_and_its_change() -> None:
    format, value = FORMATS["float32"], Fraction(-1, 3)
    weight, change = _tables(Matrix.of(2, 3, {(1, 2): value}), format)
    stored = _rounded(value, format)
    assert weight.values.tolist() == [[0, 0, 0], [0, 0, stored[0]]]
    assert change.values.tolist() == [[0, 0, 0], [0, 0, stored[1]]]


ONE, NONE = Fraction(1), Fraction(0)
LITTLE_LESS, LITTLE_MORE = 1 - Fraction(1, 2**7), 1 + Fraction(1, 2**7)


def bounds(
    weights: list[Fraction], bias: Fraction, format: FloatFormat, reach: list[Fraction]
) -> RoundingBound:
    """The bound of b + Σ w_i·t_i, t_i = x, where |t_i| ≤ reach_i is known."""
    n = len(weights)
    features = Matrix.of(n, 1, {(i, 0): ONE for i in range(n)})
    coefficients = Matrix.of(n, 1, {(i, 0): weight for i, weight in enumerate(weights)})
    form = FusedForm(features, (), (coefficients,), (bias,))
    return fused_bound(form, reach, Ball(min(reach)), format)


def bound(weight: Fraction, bias: Fraction, name: str, reach: Fraction = ONE) -> float | None:
    return bounds([weight], bias, FORMATS[name], [reach]).value


@pytest.mark.parametrize("name", FORMATS)
def test_values_of_half_the_largest_number_have_no_bound(name: str) -> None:
    half = FORMATS[name].largest / 2
    assert bound(half * LITTLE_LESS, NONE, name) is not None
    assert bound(NONE, half * LITTLE_LESS, name) is not None
    assert bound(half * LITTLE_LESS / 2, half * LITTLE_LESS / 2, name) is not None
    assert bound(half, NONE, name) is None
    assert bound(NONE, half, name) is None
    assert bound(half * LITTLE_MORE / 2, half * LITTLE_MORE / 2, name) is None
    found = bounds([half], NONE, FORMATS[name], [ONE])
    assert found == RoundingBound(
        None, f"values on the domain come close to {name}'s largest number"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_intermediates_of_half_the_largest_number_have_no_bound(name: str) -> None:
    """A value that fits, of a feature that does not fit the arithmetic; for one token or all."""
    limit, format = arithmetic_format(FORMATS[name]).largest / 2, FORMATS[name]
    for fits, factor in ((True, LITTLE_LESS), (False, ONE), (False, LITTLE_MORE)):
        for reach in ([limit * factor], [limit * factor, ONE], [ONE, limit * factor]):
            found = bounds([NONE] * len(reach), ONE, format, reach)
            assert (found.value is not None) == fits
    far = bounds([NONE], ONE, format, [Fraction(10) ** 400])
    assert far.value is None
    assert "largest number" in far.reason


def test_an_error_of_a_quarter_of_the_largest_number_is_no_bound() -> None:
    """With one digit b = 2^18 + w is stored as 2^18, which errs by w and, rounded, by 2^17 + w."""
    format = FloatFormat("one digit", 1, -60, 20)
    for wrong, fits in ((LITTLE_LESS, True), (ONE, False), (LITTLE_MORE, False)):
        found = bounds([NONE], 2**18 + 2**16 * wrong, format, [ONE])
        assert (found.value is not None) == fits
        if not fits:
            assert found.reason == "a sum of 1 tokens leaves no digit of one digit"


def test_a_sum_that_leaves_no_digit_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 9 tokens a term meets 4 additions by halving and the bias, in some order 9; 8u is ½."""
    monkeypatch.setattr(fused_bounds, "arithmetic_format", lambda module: module)
    format = FloatFormat("four digits", 4, -60, 20)
    assert bounds([ONE] * 9, ONE, format, [ONE] * 9).value is not None
    ones = Matrix.of(9, 1, {(i, 0): ONE for i in range(9)})
    form = FusedForm(ones, (), (ones,), (ONE,))
    found = fused_bound(form, [ONE] * 9, Ball(ONE), format, 17)
    assert found == RoundingBound(None, "a sum of 9 tokens leaves no digit of four digits")


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_half_formats_calculate_in_single(name: str) -> None:
    """One more rounding at the end, of the value and its error."""
    assert arithmetic_format(FORMATS[name]) is FORMATS["float32"]
    assert arithmetic_format(FORMATS["float32"]) is FORMATS["float32"]
    assert arithmetic_format(FORMATS["float64"]) is FORMATS["float64"]
    as_precise = FloatFormat("as many digits", FORMATS["float32"].precision, -20, 20)
    assert arithmetic_format(as_precise) is as_precise
    found = bound(Fraction(1), Fraction(0), name)
    assert found is not None
    unit = FORMATS[name].unit
    assert unit < found < unit * (1 + 2.0**-8)


def test_a_weight_counts_as_flushed_below_the_smallest_normal_number() -> None:
    for format in FORMATS.values():
        normal = Fraction(2) ** format.low
        assert _rounded(normal, format) == (above(normal), 0.0)
        little = normal / (2 if format.flushes else 2**format.precision)
        assert _rounded(little, format)[1] == above(little)
        third = Fraction(1, 3)
        stored = format.round(third)
        assert stored is not None
        for value in (third, -third):
            assert _rounded(value, format) == (above(stored), above(stored - third))
        with pytest.raises(OverflowsError):
            _rounded(2 * format.largest, format)


def test_chebyshev_polynomials_grow_no_more_than_claimed_beyond_the_interval() -> None:
    """T_q(cosh θ) = cosh qθ ≤ exp(qθ), and nothing grows on the interval itself."""
    reach = np.array([0.5, 1.0, 1 + 2.0**-40, 1 + 2.0**-20, 1.125])
    for q in (1, 5, 30):
        growth = _growth(Upper(reach), q).values
        assert growth[:2].tolist() == [1.0, 1.0]
        theta = np.arccosh(reach[2:].astype(np.longdouble))
        assert np.all(growth[2:] >= np.exp(q * theta))
        assert np.all(growth[2:] <= np.exp(q * theta * 1.02) * (1 + 1e-9))
    for distance, q in ((2.0**-40, 1), (2.0**-20, 30), (0.125, 1), (0.125, 4), (2.0, 1)):
        exact = Fraction(((2 * Decimal(distance)).sqrt() * q).exp())
        room = Fraction(float(_growth(Upper(1 + distance), q))) / exact - 1
        assert Fraction(9, 10) < room * 2**40 < Fraction(11, 10)  # for an exp that errs a little
    assert _growth(Upper([2.0**60, np.inf]), 2).values.tolist() == [np.inf, np.inf]
