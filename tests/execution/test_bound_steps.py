"""Single steps of the rounding bounds against their formulas in rationals.

A step whose result is below its formula by one unit in the last place of float64 fails here.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import factorial, inf, isqrt

import numpy as np
import pytest

from exactformer.blueprint import Ball, Box, Domain
from exactformer.execution.bounds import (
    Analysis,
    Entries,
    OverflowsError,
    RoundingBound,
    rounding_bound,
)
from exactformer.execution.expanded_bounds import _absolute, _orders
from exactformer.execution.formats import FORMATS
from exactformer.execution.fused_bounds import _growth, _rounded, _sum
from exactformer.execution.fused_bounds import gamma as fused_gamma
from exactformer.execution.magnitudes import CoordinateSizes
from exactformer.execution.symbolic import run_symbolic
from exactformer.execution.upper import Array, Upper, above, below
from tests.cases.blueprints import attention_block, hand_made

LINE = hand_made({(0, 0): 1}, 1, 1, 1, {}, [], {(0, 0): 1})
SMALLEST = Fraction(FORMATS["float64"].tiny)
rng = np.random.default_rng(0)


def analysis(name: str) -> Analysis:
    return Analysis(run_symbolic(LINE, Fraction(1)), FORMATS[name])


def numbers(*shape: int) -> Array:
    """Positive numbers of many sizes."""
    return rng.uniform(1, 2, shape) * 2.0 ** rng.integers(-20, 20, shape)


def assert_above(
    bounds: Upper | Array, exact: list[Fraction], room: Fraction = Fraction(1, 2**44)
) -> None:
    """Every bound is at least the exact number, and hardly more, underflow of float64 apart."""
    for bound, value in zip(fractions(bounds), exact, strict=True):
        assert value <= bound <= value * (1 + room) + 8 * SMALLEST


def fractions(values: Upper | Array) -> list[Fraction]:
    plain = values.values if isinstance(values, Upper) else values
    return [Fraction(value) for value in np.ravel(plain).tolist()]


def test_what_is_computed_is_at_most_size_plus_error() -> None:
    size, error = numbers(2, 500)
    mask = np.zeros(500, bool)
    entries = Entries(Upper(size), Upper(error), mask, mask)
    exact = [s + e for s, e in zip(fractions(size), fractions(error), strict=True)]
    assert_above(entries.computed, exact)
    assert_above(entries.clean.size, exact)
    assert not entries.clean.error.nonzero.any()


@pytest.mark.parametrize("name", FORMATS)
def test_gamma_is_rounded_up_and_ends_where_no_digit_is_left(name: str) -> None:
    """γ_k = ku/(1 − ku) for ku < ½."""
    format = FORMATS[name]
    u = Fraction(format.unit)
    half = int(1 / (2 * u))
    for k in (1, 2, 3, 7, 100, half // 3, half - 1):
        exact = [k * u / (1 - k * u)]
        assert_above(analysis(name).gamma(k), exact)
        assert_above(np.asarray(fused_gamma(k, format.unit)), exact)
    for k in (half, half + 1, 2 * half, 4 * half):
        assert float(analysis(name).gamma(k)) == float(fused_gamma(k, format.unit)) == inf


@pytest.mark.parametrize("name", FORMATS)
def test_products_and_sums_err_as_the_standard_model_says(name: str) -> None:
    steps = analysis(name)
    u, tiny = Fraction(steps.format.unit), Fraction(steps.format.tiny)
    values, operands = numbers(2, 400)
    exact, safe = np.array(list(product((False, True), repeat=2)) * 100).T
    noise = steps.product_noise(Upper(values), exact, Upper(operands), safe)
    wanted = [
        Fraction(0) if e and s else (0 if e else u * v) + 2 * tiny * (1 + o)
        for v, o, e, s in zip(fractions(values), fractions(operands), exact, safe, strict=True)
    ]
    assert_above(noise, wanted)
    zeros = Upper.zeros(400)
    assert not steps.product_noise(zeros, exact, Upper(operands), safe).nonzero.any()
    # A product with a weight below 1 may underflow, whatever constant it is taken with.
    weight, ones = Upper([0.5, 0.5, 1.0, 1.0]), Upper(np.ones(4))
    safe = np.array([False, True, False, True])
    never = np.zeros(4, bool)
    noise = steps.weighted_noise(ones, weight, ~never, never, safe)
    assert_above(noise, [2 * tiny * (1 + w) for w in fractions(weight)[:3]] + [Fraction(0)])
    assert not steps.weighted_noise(ones, weight, never, ~never, never).nonzero.any()
    count = rng.integers(0, 20, 400).astype(float)
    wanted = []
    for m, v in zip(count.tolist(), fractions(values), strict=True):
        additions = max(int(m) - 1, 0)
        wanted.append(additions * u / (1 - additions * u) * v + additions * 4 * tiny)
    assert_above(steps.sum_noise(count, Upper(values)), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_a_sum_of_two_errs_by_its_result_and_a_longer_one_by_its_terms(name: str) -> None:
    steps = analysis(name)
    u, tiny = Fraction(steps.format.unit), Fraction(steps.format.tiny)
    error, absolute, size = np.float64(0.01) * rng.uniform(1, 2, (3, 400))
    count = rng.integers(0, 6, 400).astype(float)
    wanted = []
    parts = (fractions(part) for part in (error, absolute, size))
    for m, e, a, s in zip(count.tolist(), *parts, strict=True):
        noise = (m - 1) * u / (1 - int(m - 1) * u) * a + int(m - 1) * 4 * tiny if m > 2 else 0
        wanted.append(e + (u * (s + e) + 4 * tiny if m == 2 else Fraction(noise)))
    assert_above(steps._summed(Upper(error), Upper(absolute), count, Upper(size)), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_half_the_largest_number_does_not_fit(name: str) -> None:
    steps, half = analysis(name), float(FORMATS[name].largest) / 2
    steps.fits(Upper([0.0, np.nextafter(half, 0)]))
    for bad in (half, inf, np.nan):
        with pytest.raises(OverflowsError, match=name):
            steps.fits(Upper([0.0, bad]))


def test_a_weight_counts_as_flushed_below_the_smallest_normal_number() -> None:
    for name, format in FORMATS.items():
        normal = Fraction(2) ** format.low
        for find in (analysis(name).weight, lambda value, f=format: _rounded(value, f)):
            assert find(normal)[:2] == (above(normal), 0.0)
            little = normal / (2 if format.flushes else 2**format.precision)
            assert find(little)[1] == above(little)
            third = Fraction(1, 3)
            stored = format.round(third)
            assert stored is not None
            assert find(third)[:2] == (above(stored), above(stored - third))
            with pytest.raises(OverflowsError):
                find(2 * format.largest)
    powers = [
        analysis("float32").weight(Fraction(v)) for v in (4, 3, Fraction(1, 8), Fraction(3, 8))
    ]
    assert [exact for _, _, exact in powers] == [True, False, True, False]


def test_only_exact_constants_of_at_least_one_are_units() -> None:
    """Products with ±2^k are exact; those with ½ may still underflow."""
    values = [Fraction(v) for v in (1, 2, 3, Fraction(1, 2), Fraction(2) ** -127, Fraction(1, 3))]
    constant = {(0, j + 1): value for j, value in enumerate(values)}
    blueprint = hand_made({(0, 0): 1}, 1, 1, 7, constant, [], {(0, 0): 1})
    steps = Analysis(run_symbolic(blueprint, Fraction(1)), FORMATS["float32"])
    stream = steps.embedding()
    assert stream.unit[0].tolist() == [False, True, True, False, False, False, False]
    assert stream.safe[0].tolist() == [False, True, True, True, True, False, False]
    taken = steps.entries(steps.run.tokens, Upper.zeros((1, 7)))
    assert taken.safe[0].tolist() == stream.safe[0].tolist()
    wrong = steps.entries(steps.run.tokens, Upper(np.full((1, 7), 1e-30)))
    assert not wrong.unit.any()
    assert not wrong.safe.any()


def test_the_worst_of_several_outputs_is_theirs() -> None:
    first, second = RoundingBound(1.0, 4.0), RoundingBound(2.0, 3.0)
    assert RoundingBound.worst([first, second]) == RoundingBound(2.0, 4.0)
    none = RoundingBound(None, None, "why")
    assert RoundingBound.worst([first, none, second]) == none
    part = RoundingBound(5.0, None, "order")
    assert RoundingBound.worst([first, part]) == RoundingBound(5.0, None, "order")


DOMAINS: list[Domain] = [
    Ball(Fraction(7, 3)),
    Ball(Fraction(7, 3), (Fraction(1, 3), Fraction(-5), Fraction(2, 7))),
    Box((Fraction(1, 3), Fraction(-5), Fraction(0)), (Fraction(1, 7), Fraction(3), Fraction(2))),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_sums_of_coordinates_are_bounded_on_the_domain(domain: Domain) -> None:
    """Σ w_j|x_j| is at most Σ w_j|c_j| and, of x − c, ‖w‖R in a ball and Σ w_j h_j in a box."""
    for _ in range(200):
        weights = numbers(3)
        w = fractions(weights)
        if isinstance(domain, Ball):
            square = sum(v * v for v in w) * domain.radius**2
            scale = 2**240
            around = Fraction(isqrt(int(square * scale)), isqrt(scale))
        else:
            around = sum((v * domain.extent(j) for j, v in enumerate(w)), Fraction(0))
        moved = sum((v * abs(domain.offset(j)) for j, v in enumerate(w)), Fraction(0))
        columns, given = [0, 1, 2], Upper(weights)
        centred = CoordinateSizes(domain, centred=True).absolute(columns, given)
        assert_above(centred, [around])
        assert_above(CoordinateSizes(domain).absolute(columns, given), [around + moved])
    assert not CoordinateSizes(domain).absolute([], Upper([])).nonzero


@pytest.mark.parametrize("domain", [DOMAINS[0], DOMAINS[2]], ids=["ball", "box"])
def test_sums_of_terms_are_bounded_on_the_domain(domain: Domain) -> None:
    """Σ|a||y^α|: by Cauchy and Schwarz degree by degree in a ball, by the corners of a box."""
    monomials = [(1,), (2,), (1, 1), (1, 2), (3, 3, 3), (1, 2, 3), ()]
    for _ in range(100):
        values = fractions(numbers(len(monomials)))
        terms = list(zip(monomials, values, strict=True))
        bound = Fraction(_absolute(terms, domain))
        if isinstance(domain, Ball):
            total = Fraction(0)
            for degree in range(4):
                own = [(m, v) for m, v in terms if len(m) == degree]
                square = sum(v * v / Fraction(_orders(m)) for m, v in own) * domain.radius ** (
                    2 * degree
                )
                total += Fraction(isqrt(int(square * 2**240)), 2**120)
        else:
            total = Fraction(0)
            for monomial, value in terms:
                for j in monomial:
                    value *= domain.extent(j - 1)
                total += value
        assert total <= bound <= total * (1 + Fraction(1, 2**40))


def test_orders_are_counted() -> None:
    assert _orders((1, 1, 2)) == 3
    assert _orders((1, 2, 3, 4)) == factorial(4)
    assert _orders(()) == 1


def test_sums_over_tokens_are_rounded_up() -> None:
    for _ in range(300):
        values = numbers(7)
        assert_above(np.asarray(_sum(values)), [sum(fractions(values), Fraction(0))])


def test_chebyshev_polynomials_grow_no_more_than_claimed_beyond_the_interval() -> None:
    """T_q(cosh θ) = cosh qθ ≤ exp(qθ), and nothing grows on the interval itself."""
    reach = np.array([0.5, 1.0, 1 + 2.0**-40, 1 + 2.0**-20, 1.125])
    for q in (1, 5, 30):
        growth = _growth(reach, q)
        assert growth[:2].tolist() == [1.0, 1.0]
        theta = np.arccosh(reach[2:].astype(np.longdouble))
        assert np.all(growth[2:] >= np.exp(q * theta))
        assert np.all(growth[2:] <= np.exp(q * theta * 1.02) * (1 + 1e-9))


def test_below_is_below() -> None:
    for value in map(Fraction, numbers(50).tolist()):
        assert Fraction(below(value)) < value < Fraction(above(value))


@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("name", FORMATS)
def test_a_margin_that_the_errors_of_scores_use_up_is_no_margin(name: str, token: int) -> None:
    """Errors of the score with itself and of that with another token count, for every token."""
    places = {(0, 1): 1, (1, 2): 1, (0, 3): 1, (1, 3): 1}
    query = {(0, 1): 3, (1, 2): 3, (2, 3): 5}
    key = {(0, 1): 5, (1, 2): 5, (2, 3): 7}
    block = attention_block(4, [(3, query, key, {(0, 3): 1})])
    blueprint = hand_made({(0, 0): 1, (1, 0): 1}, 2, 1, 4, places, [block], {(0, 0): 1})
    run = run_symbolic(blueprint, Fraction(1))
    steps, (head,) = Analysis(run, FORMATS[name]), blueprint.blocks[0].attention.heads
    stream, made = steps.embedding(), run.blocks[0].heads[0]
    own, other = steps.scores(
        steps.entries(made.queries, steps.linear(head.query, stream)),
        steps.entries(made.keys, steps.linear(head.key, stream)),
    )
    assert own.nonzero.all()
    assert other.nonzero.all()
    for factor, holds in ((1 - 1e-9, False), (1 + 1e-9, True)):
        margin = np.full(2, 100.0)
        margin[token] = float((own + other)[token]) * factor
        assert (rounding_bound(run, [[margin]], FORMATS[name]).executed is not None) == holds
