"""Steps of the bounds of fused forms against their formulas in rationals, and their limits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from exactformer.blueprint import Ball, Box, Domain, Matrix
from exactformer.execution.bounds import OverflowsError
from exactformer.execution.formats import FORMATS, FloatFormat
from exactformer.execution.fused_bounds import (
    _clenshaw,
    _feature_errors,
    _growth,
    _horner,
    _rounded,
    arithmetic_format,
    fused_bound,
)
from exactformer.execution.fusing import Basis, FusedForm
from exactformer.execution.magnitudes import CoordinateSizes
from exactformer.execution.upper import Upper, above

ROOM = Fraction(1, 2**40)
rng = np.random.default_rng(1)


def gamma(k: int, format: FloatFormat) -> Fraction:
    ku = k * Fraction(format.unit)
    return ku / (1 - ku)


def assert_is(bound: Upper | float, exact: Fraction) -> None:
    """A bound is at least the exact number, and hardly more."""
    assert exact <= Fraction(float(bound)) <= exact * (1 + ROOM)


def parts(n: int, q: int, scale: float) -> tuple[Upper, Upper, Upper, Upper]:
    """Coefficients, their errors, T and E; all of one size, so that every term counts."""
    weight, change = rng.uniform(1, 2, (2, n, q))
    T, E = rng.uniform(0.5, 1, (2, n))
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
        grown = max(reach**q, Fraction(1)) * (1 + reach + inner)
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
        room = 1 + Fraction(1, 2**20)  # of the growth, which is a float64
        for bound, exact in (
            (terms.error[i], error * growth + last),
            (terms.absolute[i], once * growth + last),
            (terms.inner[i], max(inner, reach)),
        ):
            assert exact / room <= Fraction(float(bound)) <= exact * room


DOMAINS: list[Domain] = [
    Box((Fraction(1, 3), Fraction(-7)), (Fraction(2), Fraction(5))),
    Box((Fraction(0), Fraction(0)), (Fraction(2), Fraction(5))),
    Ball(Fraction(3), (Fraction(1, 3), Fraction(7))),
]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_features_err_by_their_formula(domain: Domain, name: str) -> None:
    format = FORMATS[name]
    wide = arithmetic_format(format)
    values = [Fraction(5, 3), Fraction(-11, 7)]
    features = Matrix.of(2, 2, {(0, 0): values[0], (0, 1): values[1]})
    centre = domain.centre if any(domain.centre) else ()
    form = FusedForm(features, centre, (Matrix.of(2, 1, {}),), (Fraction(0),))
    errors = _feature_errors(form, domain, format)
    weights, wrong = zip(*(_rounded(v, format) for v in values), strict=True)
    sizes = CoordinateSizes(domain, centred=True)
    products, moved = (Fraction(float(sizes.absolute([0, 1], Upper(w)))) for w in (weights, wrong))
    if centre:
        shift = [Fraction(_rounded(c, format)[1]) for c in centre]
        moved += 2 * Fraction(wide.unit) * products
        moved += 2 * sum(Fraction(w) * s for w, s in zip(weights, shift, strict=True))
    exact = moved + gamma(2, wide) * (products + moved)
    exact += 8 * Fraction(wide.tiny) * sum(2 + Fraction(w) for w in weights)
    assert_is(errors[0], exact)
    assert not errors[1].nonzero  # a row of zeros


def bound(
    weight: Fraction, bias: Fraction, name: str, reach: Fraction = Fraction(1), n: int = 1
) -> float | None:
    """The bound of b + Σ w·t over n tokens on |t| ≤ reach."""
    features = Matrix.of(n, 1, {(i, 0): Fraction(1) for i in range(n)})
    coefficients = Matrix.of(n, 1, {(i, 0): weight for i in range(n)})
    form = FusedForm(features, (), (coefficients,), (bias,), Basis.POWER)
    with np.errstate(over="ignore"):
        return fused_bound(form, [reach] * n, Ball(reach), FORMATS[name]).executed


@pytest.mark.parametrize("name", FORMATS)
def test_values_of_half_the_largest_number_have_no_bound(name: str) -> None:
    half = FORMATS[name].largest / 2
    near, none = half * Fraction(49, 100), Fraction(0)
    assert bound(near, near, name) is not None
    assert bound(half, none, name) is None
    assert bound(none, half, name) is None
    assert bound(half * Fraction(51, 100), half * Fraction(51, 100), name) is None
    # A value that fits, of a feature that does not fit the arithmetic.
    limit = arithmetic_format(FORMATS[name]).largest / 2
    assert bound(Fraction(1, 2**20) / limit, none, name, limit * Fraction(3, 2)) is None


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_half_formats_calculate_in_single(name: str) -> None:
    """One more rounding at the end, of the value and its error."""
    assert arithmetic_format(FORMATS[name]) is FORMATS["float32"]
    assert arithmetic_format(FORMATS["float32"]) is FORMATS["float32"]
    assert arithmetic_format(FORMATS["float64"]) is FORMATS["float64"]
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
        assert _rounded(third, format) == (above(stored), above(stored - third))
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
