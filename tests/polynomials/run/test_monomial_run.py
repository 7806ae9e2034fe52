"""Terms in place of tokens: the same values, within the bound, and only while weights are proven."""

from __future__ import annotations

from fractions import Fraction
from math import factorial, inf, isqrt, prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer.algebra import Target
from exactformer.core.domain import Ball, Box, Domain
from exactformer.core.formats import FORMATS, FloatFormat, float_format
from exactformer.core.matrix import Matrix
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certify import Proof
from exactformer.polynomials.proof.closed_form_rounding import arithmetic_format
from exactformer.polynomials.proof.monomial_rounding import (
    _additions,
    _orders,
    _sizes,
    _terms,
    expanded_bound,
)
from exactformer.polynomials.run.closed_form import SHORT
from exactformer.polynomials.run.monomial_plan import (
    Expansion,
    Monomial,
    Reading,
    Run,
    _halves,
    _monomial,
    _products,
    _stairs,
    expand,
)
from exactformer.polynomials.run.monomial_run import Expanded
from tests.cases.targets import CASES, Case, points
from tests.examples import examples

DENSE = "(1 + x - 2 y + z/3)^5 - 3 (x + y - z/7)^4"
SPARSE = "x^7 y^2 - 3 x z + 1/3; y^5; 4"


def assert_is(bound: float, exact: Fraction) -> None:
    """A bound is at least the exact number, and hardly more."""
    assert exact <= Fraction(bound) <= exact * (1 + Fraction(1, 2**40))


def exact_values(target: Target, inputs: torch.Tensor) -> list[list[Fraction]]:
    return [[p.at(row) for p in target] for row in inputs.double().tolist()]


def plan_of(text: str, centre: tuple[Fraction, ...] = ()):
    target = Target.coerce(text)
    d = target.dimension
    terms = [p.composed(centre or [0] * d, [1] * d).terms() for p in target]
    return target, expand(terms, d, centre or [Fraction(0)] * d)


@pytest.mark.parametrize("text", [DENSE, SPARSE, "x^2", "x y; x + y"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("centred", [False, True])
def test_values_are_within_the_bound(text: str, dtype: torch.dtype, centred: bool) -> None:
    d = Target.coerce(text).dimension
    centre = tuple(Fraction(k + 1, 4) for k in range(d)) if centred else ()
    target, plan = plan_of(text, centre)
    assert plan is not None
    for domain in (
        Ball(Fraction(2), centre),
        Box(centre or (Fraction(0),) * d, (Fraction(2),) * d),
    ):
        rng = np.random.default_rng(0)
        local = rng.uniform(-1, 1, (60, d))
        if isinstance(domain, Ball):
            local /= np.maximum(np.linalg.norm(local, axis=1, keepdims=True), 1)
        x = torch.as_tensor(1.99 * local + [float(c) for c in centre or [0] * d]).to(dtype)
        bound = expanded_bound(plan, domain, float_format(dtype))
        values = Expanded(plan, dtype)(x, dtype).T.double().tolist()
        errors = [
            abs(Fraction(v) - e)
            for row, exact in zip(values, exact_values(target, x), strict=True)
            for v, e in zip(row, exact, strict=True)
        ]
        assert max(errors) <= bound
        assert bound <= 3000 * max(float(max(errors)), float_format(dtype).unit)


def test_each_plan_is_taken_where_it_is_the_cheapest() -> None:
    """Few terms by products; many in halves or stairs; all of them within a few rows."""
    (_, sparse), (_, dense) = plan_of(SPARSE), plan_of(DENSE)
    assert sparse is not None
    assert dense is not None
    assert [run.first for run in sparse.readings[0].runs] == [None]
    assert len(dense.monomials) < len(Target.coerce(DENSE).polynomials[0])
    wide = Target.coerce("(a + b + c + d + e + f + g + h + i + j + 1)^5").polynomials[0]
    plan = expand([wide.terms()], 10, [Fraction(0)] * 10)
    assert plan is not None
    assert len(plan.readings) > 1
    multiplied = sum(m.rows * m.columns for r in plan.readings for m in r.weights)
    assert multiplied < 2 * len(wide)
    assert plan_of("3 x + 1")[1] is None


@pytest.mark.parametrize("build", [_products, _halves, _stairs])
@pytest.mark.parametrize("text", ["x^2 - y + 3", "(x + 2 y + 1)^3", "(1 + x - y + 3 z)^6; z^2 + x"])
def test_all_three_ways_are_the_polynomial(build, text: str) -> None:
    """In integers below 2^53 nothing is rounded: equality."""
    target = Target.coerce(text)
    tables = [{_monomial(a): c for a, c in p.terms().items()} for p in target]
    options = (
        (target.dimension, ()) if build is _products else (target.dimension, target.degree, ())
    )
    module = Expanded(build(tables, *options), torch.float64)
    x = torch.randint(-4, 5, (300, target.dimension), dtype=torch.float64)
    values = module(x, torch.float64).T.tolist()
    assert values == [[float(e) for e in row] for row in exact_values(target, x)]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(-9, 9)), min_size=1))
@settings(max_examples=examples(40))
def test_every_plan_is_the_polynomial(terms) -> None:
    """In integers below 2^53 nothing is rounded: equality."""
    table: dict[tuple[int, ...], Fraction] = {}
    for a, b, c in terms:
        table[a, b] = table.get((a, b), Fraction(0)) + c
    plan = expand([table], 2, [Fraction(0)] * 2)
    if plan is None:
        assert all(sum(a) < 2 for a in table)
        return
    x = torch.tensor([[3.0, -2.0], [0.0, 1.0], [-4.0, 5.0]], dtype=torch.float64)
    values = Expanded(plan, torch.float64)(x, torch.float64)[0].tolist()
    assert values == [
        float(sum(c * int(p) ** a * int(q) ** b for (a, b), c in table.items()))
        for p, q in x.tolist()
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_models_use_it_only_within_their_certificate(case: Case) -> None:
    model = ef.compile(case.target, **case.where)
    target = Target.coerce(case.target)
    x = points(model.blueprint, 80)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        try:
            bound = model.certificate.bound(dtype, "fused")
        except ef.errors.RoundingError:
            continue
        module = PolynomialModel(model.blueprint, Proof(model.certificate), dtype)
        inputs = torch.as_tensor(x).to(dtype)
        values = module(inputs).double().reshape(len(x), -1).tolist()
        for row, exact in zip(values, exact_values(target, inputs), strict=True):
            assert all(abs(Fraction(v) - e) <= bound for v, e in zip(row, exact, strict=True))


def test_altered_weights_are_never_overlooked() -> None:
    """Even where torch does not count the change: tokens are evaluated, not the old terms."""
    model = ef.compile("(x + 2 y - z)^4 - 5 x y z + 1")
    assert model.transformer._expanded is not None
    x = torch.rand(200, 3, dtype=torch.float64) / 4
    before = model(x)
    model.transformer.bias.data += 1
    assert torch.allclose(model(x), before + 1)
    model.transformer.bias.data -= 1
    assert torch.equal(model(x), before)
    wide = x.clone().requires_grad_()
    model(wide).sum().backward()
    assert wide.grad is not None
    half = model.to(torch.float32)
    assert half(x.float()).dtype == torch.float32


def test_a_centre_that_no_format_holds_has_no_bound() -> None:
    _, plan = plan_of("x^3", (Fraction(1, 3),))
    assert plan is not None
    assert expanded_bound(plan, Ball(Fraction(1), (Fraction(1, 3),)), FORMATS["float64"]) == inf
    _, plan = plan_of("10^300 x^9")
    assert plan is not None
    assert expanded_bound(plan, Ball(Fraction(10**20)), FORMATS["float64"]) == inf
    tiny = Ball(Fraction(1, 10**60))
    _, plan = plan_of("x^9 + x^8")
    assert plan is not None
    assert expanded_bound(plan, tiny, FORMATS["float64"]) > 0


@pytest.mark.parametrize(
    "domain",
    [Ball(Fraction(7, 3)), Box((Fraction(0),) * 3, (Fraction(1, 7), Fraction(3), Fraction(2)))],
    ids=["ball", "box"],
)
def test_sums_of_terms_are_bounded_on_the_domain(domain: Domain) -> None:
    """Σ|a||y^α|: by Cauchy and Schwarz degree by degree in a ball, by the corners of a box."""
    monomials = [(1,), (2,), (1, 1), (1, 2), (3, 3, 3), (1, 2, 3), ()]
    rng = np.random.default_rng(0)
    for _ in range(100):
        sizes = rng.uniform(1, 2, len(monomials)) * 2.0 ** rng.integers(-20, 20, len(monomials))
        terms = list(zip(monomials, map(Fraction, sizes.tolist()), strict=True))
        bounds = _sizes(terms, domain)
        assert sorted(bounds) == [0, 1, 2, 3]
        for degree, bound in bounds.items():
            own = [(m, v) for m, v in terms if len(m) == degree]
            if isinstance(domain, Ball):
                square = sum((v * v / _orders(m) for m, v in own), Fraction(0))
                square *= domain.radius ** (2 * degree)
                total = Fraction(isqrt(int(square * 2**240)), 2**120)
            else:
                total = sum(
                    (v * prod(domain.extent(j - 1) for j in m) for m, v in own), Fraction(0)
                )
            assert_is(float(bound), total)


def test_orders_are_counted() -> None:
    assert _orders((1, 1, 2)) == 3
    assert _orders((1, 2, 3, 4)) == factorial(4)
    assert _orders(()) == 1
    assert _orders(tuple(range(30))) == factorial(30)  # more than float64 holds


def test_squares_that_float64_takes_for_zero_are_none() -> None:
    """Of 200! orders the root is 10^187; its inverse is no zero, and no bound of it is."""
    size = float(_sizes([(tuple(range(200)), Fraction(1))], Ball(Fraction(1)))[200])
    assert size >= 10.0**-187


def test_squares_of_large_and_small_coefficients_neither_overflow_nor_vanish() -> None:
    large, small = Fraction(10) ** 200, Fraction(1, 10**200)
    for values in ((-large, small), (large, -small)):
        size = _sizes([((1, 1), values[0]), ((2, 2), values[1])], Ball(Fraction(1)))[2]
        assert_is(float(size), large)


@pytest.mark.parametrize("huge", [Fraction(10) ** 400, Fraction(1)], ids=["coefficient", "domain"])
def test_numbers_beyond_float64_have_no_bound(huge: Fraction) -> None:
    radius = Fraction(10) ** 400 / huge
    plan = expand([{(2,): huge, (1,): Fraction(1)}], 1, [Fraction(0)])
    assert plan is not None
    for domain in (Ball(radius), Box((Fraction(0),), (radius,))):
        assert expanded_bound(plan, domain, FORMATS["float64"]) == inf


def met(plan: Expansion, output: int) -> dict[Monomial, int]:
    """The most roundings that any term of a monomial meets where the plan is run, step by step."""
    rows = [int(bool(plan.centre and m)) for m in plan.monomials[: 1 + plan.dimension]]
    one = [m == () for m in plan.monomials]
    for j, first, last in plan.steps:
        rows += [rows[j] + rows[r] + (not one[j] and not one[r]) for r in range(first, last)]
    values: dict[Monomial, int] = {}
    for reading in plan.readings:
        place = 0
        for run in reading.runs:
            sums = []
            for k in range(run.count):
                row = reading.weights[output].by_row.get(place + k, [])
                sums.append(
                    {
                        plan.monomials[reading.first + column]: 1
                        + rows[reading.first + column]
                        + (not one[reading.first + column])
                        + len(row)
                        - 1
                        for column, _ in row
                    }
                )
                if run.first is not None:
                    sums[-1] = times(sums[-1], plan.monomials[run.first + k], rows[run.first + k])
            place += run.count
            while len(sums) > SHORT:
                half = len(sums) // 2
                pairs = zip(sums[:half], sums[len(sums) - half :], strict=True)
                sums = [plus(a, b) for a, b in pairs] + sums[half : len(sums) - half]
            total = sums[0]
            for other in sums[1:]:
                total = plus(total, other)
            if run.outer is not None:
                total = times(total, plan.monomials[run.outer], rows[run.outer])
            values = plus(values, total)
    return values


def times(terms: dict[Monomial, int], factor: Monomial, own: int) -> dict[Monomial, int]:
    """Roundings of a product with a monomial; one with 1 is exact."""
    return {(*m, *factor): count + own + bool(factor) for m, count in terms.items()}


def plus(a: dict[Monomial, int], b: dict[Monomial, int]) -> dict[Monomial, int]:
    """Roundings of a sum; a sum with zero is exact."""
    if not a or not b:
        return a or b
    return {m: 1 + max(a.get(m, 0), b.get(m, 0)) for m in {**a, **b}}


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("build", [_products, _halves, _stairs])
@pytest.mark.parametrize("text", ["x^2 - y + 3", "(x + 2 y + 1)^3", "(1 + x - y + 3 z)^6; z^2 + x"])
def test_no_term_meets_more_roundings_than_counted(build, text: str, centred: bool) -> None:
    """One for the coefficient, one per product and per difference, and those of the sums."""
    target = Target.coerce(text)
    d = target.dimension
    centre = (Fraction(1),) * d if centred else ()
    tables = [{_monomial(a): c for a, c in p.terms().items()} for p in target]
    plan = (
        build(tables, d, centre) if build is _products else build(tables, d, target.degree, centre)
    )
    for output, table in enumerate(tables):
        counts = met(plan, output)
        assert {tuple(sorted(m)) for m in counts} == set(table)
        assert sorted((tuple(sorted(m)), c) for m, c in _terms(plan, output)) == sorted(
            table.items()
        )
        most = _additions(plan, output)
        assert all(n <= 1 + len(m) * (1 + centred) + most for m, n in counts.items())
        if build is _products:
            assert most == len(table) - 1
            assert max(counts.values()) == 1 + max(map(len, table)) * (1 + centred) + most


LITTLE = FloatFormat("made of underflow", 200, -20, 100)
NARROW = FloatFormat("few digits and much underflow", 8, -6, 100)
KINDS = [*FORMATS.values(), LITTLE, NARROW]


@pytest.mark.parametrize("format", KINDS, ids=lambda format: format.name)
@pytest.mark.parametrize("text", [DENSE, SPARSE, "x^2", "x^2/3; 0"])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("half_width", [Fraction(1, 3), Fraction(3, 2)])
def test_the_bound_is_its_formula(
    text: str, centred: bool, format: FloatFormat, half_width: Fraction
) -> None:
    d = Target.coerce(text).dimension
    centre = tuple(Fraction(k + 1, 4) for k in range(d)) if centred else ()
    _, plan = plan_of(text, centre)
    assert plan is not None
    widths = (half_width, *[half_width / 2] * (d - 1))
    domain = Box(centre or (Fraction(0),) * d, widths)
    wide, wanted = arithmetic_format(format), []
    unit, tiny = Fraction(wide.unit), Fraction(wide.tiny)
    for output in range(len(plan.readings[0].weights)):
        terms = list(_terms(plan, output))
        counts = {m: 1 + len(m) * (1 + centred) + _additions(plan, output) for m, _ in terms}
        sizes = [(m, abs(v) * prod(widths[j - 1] for j in m)) for m, v in terms]
        error = sum((counts[m] * unit / (1 - counts[m] * unit) * v for m, v in sizes), Fraction(0))
        largest = max((abs(v) for _, v in terms), default=Fraction(0))
        grown = max(Fraction(1), half_width) ** max(map(len, counts), default=0) * (2 + largest)
        error += 6 * tiny * len(terms) * max(counts.values(), default=0) * grown
        if wide is not format:
            absolute = sum((v for _, v in sizes), Fraction(0))
            error += Fraction(format.unit) * (absolute + error) + Fraction(format.tiny)
        wanted.append(error)
    assert_is(expanded_bound(plan, domain, format), max(wanted))


@pytest.mark.parametrize("name", FORMATS)
def test_values_of_half_the_largest_number_have_no_bound(name: str) -> None:
    """Neither those of the module, nor in its arithmetic sums that a small factor is missing in."""
    format, less, more = FORMATS[name], 1 - Fraction(1, 2**7), 1 + Fraction(1, 2**7)
    limit, wide = format.largest / 2, arithmetic_format(format).largest / 2
    for factor, fits in ((less, True), (Fraction(1), False), (more, False)):
        small = limit / wide / 2**40
        for table, radius in (
            ({(2,): limit * factor / 4}, Fraction(2)),
            ({(2,): wide * factor}, small),
            ({(2,): wide * factor / 2, (1,): Fraction(1)}, small),
        ):
            plan = expand([table], 1, [Fraction(0)])
            assert plan is not None
            assert (expanded_bound(plan, Ball(radius), format) < inf) == fits


def test_an_error_that_leaves_the_format_is_no_bound() -> None:
    """Where underflow costs 1, a·x² errs by 6·3·(2 + a) in 3 operations, however small it is."""
    format, limit = FloatFormat("integers", 200, 0, 20), 2**20
    for factor, fits in ((1 - Fraction(1, 2**7), True), (1 + Fraction(1, 2**7), False)):
        plan = _products([{(1, 1): limit * factor / 18 - 2}], 1, ())
        assert (expanded_bound(plan, Ball(Fraction(1, 2**10)), format) < inf) == fits


def test_sums_without_factors_of_their_own_are_terms_as_well() -> None:
    one, three = Fraction(1), Fraction(3)
    reading = Reading(0, (Matrix.of(2, 3, {(0, 2): one, (1, 1): three}),), (Run(2),))
    plan = Expansion(1, (), ((), (1,), (1, 1)), ((1, 1, 2),), (reading,))
    assert list(_terms(plan, 0)) == [((1, 1), one), ((1,), three)]
    assert _additions(plan, 0) == 1
    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert Expanded(plan, torch.float64)(x, torch.float64).tolist() == [[40.0]]
