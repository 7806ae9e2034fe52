"""The rounding bound, line by line: each step of the analysis against a blueprint made to break it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.formats import FORMATS, float_format
from exactformer.core.layers import IDENTITY, RELU, Block, Rule
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.constructions.paper import paper
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.proof.certify import SLACK, certify_blueprint
from exactformer.polynomials.proof.closed_form_rounding import fused_bound
from exactformer.polynomials.proof.literal_rounding import RoundingBound, rounding_bound
from exactformer.polynomials.proof.selection import prove_selection
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import fuse
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from exactformer.polynomials.run.exact import run_exact
from exactformer.polynomials.run.literal import LiteralTransformer
from tests.cases.adversary import DTYPES, into_ball
from tests.cases.blueprints import attention_block, direct_form, hand_made, with_matrix
from tests.cases.margins import ball_points
from tests.cases.polynomials import random_polynomial
from tests.cases.shuffled import run_shuffled
from tests.examples import examples


def bounds(blueprint: Blueprint, dtype: torch.dtype) -> tuple[RoundingBound, RoundingBound]:
    """Bounds for the literal and for the fused module; raises where selection is not proven."""
    run = run_symbolic(blueprint, blueprint.radius * SLACK)
    margins = prove_selection(run).margins
    target = float_format(dtype)
    fused = fused_bound(fuse(run), run.sizes.reach, run.domain, target)
    return rounding_bound(run, margins, target), fused


def observed(blueprint: Blueprint, x: torch.Tensor, computed: torch.Tensor) -> Fraction:
    """The largest |computed − exact| over the points."""
    assert bool(computed.isfinite().all())
    return max(
        abs(Fraction(y) - run_exact(blueprint, point))
        for point, y in zip(x.double().tolist(), computed.double().tolist(), strict=True)
    )


def points_for(blueprint: Blueprint, dtype: torch.dtype, count: int = 10) -> torch.Tensor:
    points = ball_points(np.random.default_rng(0), blueprint, count)
    return torch.from_numpy(into_ball(points, float(blueprint.radius), dtype)).to(dtype)


def assert_holds(blueprint: Blueprint, dtype: torch.dtype, x: torch.Tensor | None = None) -> None:
    """Both modules keep to their bounds, wherever there is one."""
    literal, fused = bounds(blueprint, dtype)
    x = points_for(blueprint, dtype) if x is None else x
    if literal.value is not None:
        module = LiteralTransformer(blueprint, dtype)
        assert observed(blueprint, x, module(x)) <= Fraction(literal.value)
    if fused.value is not None:
        form = fuse(run_symbolic(blueprint, blueprint.radius))
        assert observed(blueprint, x, FusedTransformer(form, dtype)(x)) <= Fraction(fused.value)


def random_blueprint(rng: random.Random) -> Blueprint:
    """Anything that may select itself: several heads, both activations, constants everywhere."""
    n, d, width = rng.randint(1, 4), rng.randint(1, 3), 8
    one = 7

    def number() -> Fraction:
        return Fraction(rng.randint(-9, 9), rng.choice([1, 2, 3, 7, 8]))

    def sparse(rows: int, columns: int, count: int) -> dict[tuple[int, int], Fraction]:
        count = count if rows and columns else 0
        places = [(rng.randrange(rows), rng.randrange(columns)) for _ in range(count)]
        return {place: number() for place in places}

    blocks = []
    for _ in range(rng.randint(1, 3)):
        heads = []
        for _ in range(rng.randint(0, 2)):
            offset = Fraction(rng.choice([5, 20, 300]))
            query, key = sparse(2, width, rng.randint(0, 3)), sparse(2, width, rng.randint(0, 3))
            query |= {(2 + i, 1 + i): offset for i in range(n)}
            key |= {(2 + i, 1 + i): Fraction(1) for i in range(n)}
            heads.append((2 + n, query, key, sparse(width, width, rng.randint(1, 3))))
        units = rng.randint(0, 2)
        activation = rng.choice([IDENTITY, RELU])
        b1 = sparse(units, 1, units)
        if activation == RELU:
            b1 = {
                (u, 0): Fraction(rng.choice([-1, 1]) * 10 ** rng.randint(1, 4))
                for u in range(units)
            }
        blocks.append(
            attention_block(
                width,
                heads,
                rng.choice([Rule.ONE_HOT_MAX, Rule.ONE_HOT_MAX, Rule.HARD_MAX]),
                sparse(units, width, 2 * units),
                b1,
                sparse(width, units, 2 * units),
                sparse(width, 1, rng.randint(0, 2)),
                units,
                activation,
            )
        )
    constant = {(i, 1 + i): Fraction(1) for i in range(n)} | {
        (i, one): Fraction(1) for i in range(n)
    }
    constant |= sparse(n, width, rng.randint(0, 2))
    features = {(i, j): number() / 9 for i in range(n) for j in range(d)}
    beta = sparse(n, width, 6)
    radius = Fraction(rng.choice([1, 2]), rng.choice([1, 3]))
    return hand_made(features, n, d, width, constant, blocks, beta, number(), radius)


def certified_blueprints(seed: int) -> Iterator[Blueprint]:
    rng = random.Random(seed)
    while True:
        blueprint = random_blueprint(rng)
        try:
            prove_selection(run_symbolic(blueprint, blueprint.radius * SLACK))
        except CertificationError:
            continue
        yield blueprint


def check_random_blueprints(seed: int, count: int) -> int:
    """Every format, both modules, and every sum in a random order; return how many were bounded."""
    rng, checked = random.Random(seed), 0
    for blueprint, _ in zip(certified_blueprints(seed), range(count), strict=False):
        for dtype in DTYPES:
            assert_holds(blueprint, dtype)
            literal, _ = bounds(blueprint, dtype)
            if literal.value is not None:
                x = points_for(blueprint, dtype, 4)
                shuffled = run_shuffled(blueprint, x, rng)
                assert observed(blueprint, x, shuffled) <= Fraction(literal.value)
                checked += 1
    return checked


def test_random_blueprints_keep_to_their_bounds_in_any_order_of_sums() -> None:
    assert check_random_blueprints(seed=3, count=20) > 50


@pytest.mark.slow
def test_many_random_blueprints_keep_to_their_bounds_in_any_order_of_sums() -> None:
    for seed in range(100, 110):
        check_random_blueprints(seed, count=60)


@given(st.integers(0, 2**32), st.sampled_from(sorted(CONSTRUCTIONS)), st.sampled_from(DTYPES))
@settings(max_examples=examples(25))
def test_constructions_keep_to_their_bounds_in_any_order_of_sums(
    seed: int, construction: str, dtype: torch.dtype
) -> None:
    rng = random.Random(seed)
    d, q = rng.choice([(1, 3), (2, 2), (2, 3), (3, 2)])
    p = random_polynomial(rng, d, q, "sparse")
    blueprint = CONSTRUCTIONS[construction](ridge_form(p), Fraction(rng.choice([1, 3, 10])))
    literal, _ = bounds(blueprint, dtype)
    if literal.value is not None:
        x = points_for(blueprint, dtype, 4)
        shuffled = run_shuffled(blueprint, x, rng)
        assert observed(blueprint, x, shuffled) <= Fraction(literal.value)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("20000 + 10000 x", True),
        ("60000 + 10000 x", False),  # the terms fit, the sum does not
        ("60000 - 10000 x", False),
        ("40000 x - 40000 y", False),
        ("70000 x", False),
    ],
)
def test_results_that_leave_the_format_are_not_certified(text: str, fits: bool) -> None:
    p = Polynomial.parse(text)
    certificate = certify_blueprint(scaled(ridge_form(p), Fraction(1)), p)
    assert (certificate.rounding["float16"].value is not None) == fits
    assert (certificate.fused["float16"].value is not None) == fits
    assert certificate.rounding["float32"].value is not None


WIDTH = 4  # feature, two more dimensions, one


def single(blocks: list[Block], beta: dict[tuple[int, int], Fraction | int]) -> Blueprint:
    """One token t = x on ‖x‖ ≤ 1, so that every step of the analysis can be seen alone."""
    return hand_made({(0, 0): 1}, 1, 1, WIDTH, {(0, 3): 1}, blocks, beta)


def test_partial_sums_that_overflow_are_not_certified() -> None:
    """Six heads add 30000 three times and take it away as often."""
    same = {(0, 3): 1}
    heads = [(1, same, same, {(1, 3): sign * 30000}) for sign in (1, 1, 1, -1, -1, -1)]
    blueprint = single([attention_block(WIDTH, heads)], {(0, 1): 1, (0, 0): 1})
    assert run_exact(blueprint, [1]) == 1
    assert not LiteralTransformer(blueprint, torch.float16)(torch.ones(1, 1).half()).isfinite()
    assert bounds(blueprint, torch.float16)[0].value is None
    assert_holds(blueprint, torch.float32)


def test_scores_that_overflow_are_not_certified_even_if_their_values_are_small() -> None:
    """300·300 is beyond float16, though the product with a value of 1/64 would fit."""
    head = (1, {(0, 3): 300}, {(0, 3): 300}, {(1, 3): Fraction(1, 64)})
    blueprint = single([attention_block(WIDTH, [head])], {(0, 1): 1})
    assert run_exact(blueprint, [0]) == Fraction(90000, 64)
    assert not LiteralTransformer(blueprint, torch.float16)(torch.zeros(1, 1).half()).isfinite()
    assert bounds(blueprint, torch.float16)[0].value is None
    assert_holds(blueprint, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_constant_in_the_place_of_the_feature_is_one_more_rounding(dtype: torch.dtype) -> None:
    blueprint = hand_made({(0, 0): 1}, 1, 1, 2, {(0, 0): 1, (0, 1): 1}, [], {(0, 0): 1})
    small = float_format(dtype).unit * 0.75  # 1 + x rounds up by a quarter of an ulp
    x = torch.tensor([[small], [-small], [1 / 3]], dtype=torch.float64).to(dtype)
    assert observed(blueprint, x, LiteralTransformer(blueprint, dtype)(x)) > 0
    assert_holds(blueprint, dtype, x)


@pytest.mark.parametrize("radius", [3 * Fraction(2) ** k for k in (-500, 400, 480, 498)])
def test_weights_whose_squares_underflow_still_count(radius: Fraction) -> None:
    """The error of F is δF·R although δF² is below every float64."""
    p = Polynomial.parse("x + y")
    blueprint = scaled(ridge_form(p), radius)
    literal, _ = bounds(blueprint, torch.float64)
    assert literal.value is not None
    usual = bounds(scaled(ridge_form(p), Fraction(3)), torch.float64)[0].value
    assert usual is not None
    assert literal.value / float(radius) == pytest.approx(usual / 3, rel=1e-6, abs=0)
    assert_holds(blueprint, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_flushed_to_zero_are_covered(dtype: torch.dtype) -> None:
    """Subnormal points, with the processor told to take them for zero."""
    tiny = torch.finfo(dtype).tiny
    p = Polynomial.parse("x + y + x y")
    blueprint = scaled(ridge_form(p), Fraction(1))
    x = torch.tensor([[tiny / 4, 0], [tiny / 8, -tiny / 2], [tiny / 3, 1.0]], dtype=dtype)
    literal, fused = bounds(blueprint, dtype)
    assert literal.value is not None
    assert fused.value is not None
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        computed = LiteralTransformer(blueprint, dtype)(x)
        closed = FusedTransformer(fuse(run_symbolic(blueprint, Fraction(1))), dtype)(x)
    finally:
        torch.set_flush_denormal(False)
    assert observed(blueprint, x, computed) <= Fraction(literal.value)
    assert observed(blueprint, x, closed) <= Fraction(fused.value)


def test_the_matrix_units_of_bfloat16_may_flush_weights() -> None:
    """F = ξ/R is subnormal for R = 10^38; AVX-512 reads it as zero in large matrix products."""
    n = 40
    form = direct_form([[1]] * n, [[Fraction(k, 10**38)] for k in range(1, n + 1)])
    blueprint = scaled(form, Fraction(10**38))
    x = torch.full((64, 1), 0.9e38, dtype=torch.bfloat16)
    literal, fused = bounds(blueprint, torch.bfloat16)
    for bound in (literal, fused):
        assert bound.value is not None
        assert bound.value >= 0.9 * sum(range(1, n + 1))  # all of it may be lost
    assert_holds(blueprint, torch.bfloat16, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_that_round_to_zero_count_as_lost(dtype: torch.dtype) -> None:
    nothing = Fraction(float(torch.finfo(dtype).tiny)) / 2**60
    blueprint = single([], {(0, 0): nothing, (0, 3): nothing * 3})
    literal, fused = bounds(blueprint, dtype)
    assert literal.value is not None
    assert literal.value >= float(nothing * 4)
    assert fused.value is not None
    assert_holds(blueprint, dtype)


def test_sums_too_long_for_any_order_have_a_bound_by_their_tree() -> None:
    """128 terms in bfloat16: γ has no value, a tree of seven levels still has one."""
    n = 200
    form = direct_form([[1, 0]] * n, [[1]] * n)
    blueprint = scaled(form, Fraction(1))
    literal, _ = bounds(blueprint, torch.bfloat16)
    assert literal.value is not None
    assert_holds(blueprint, torch.bfloat16)


def test_a_selection_that_rounding_could_change_has_no_bound() -> None:
    """A margin of 1e-9 is proof enough in exact arithmetic and in float64, not in float32."""
    form = direct_form([[1, 0], [-1, 0]], [[0, 1], [0, 1]])
    blueprint = scaled(form, Fraction(1))
    offset = 2 + Fraction(1, 10**8)
    query = blueprint.blocks[0].attention.heads[0].query
    entries = {p: v if p[0] == 0 else offset for p, v in query.entries.items()}
    b2 = dict.fromkeys(blueprint.blocks[0].feed_forward.b2.entries, -offset)
    near = with_matrix(blueprint, "blocks.0.heads.0.query", Matrix.of(*query.shape, entries))
    near = with_matrix(near, "blocks.0.feed_forward.b2", Matrix.of(blueprint.width, 1, b2))
    assert bounds(near, torch.float64)[0].value is not None
    assert "selected" in bounds(near, torch.float32)[0].reason
    assert_holds(near, torch.float64)


def test_a_unit_that_is_barely_negative_keeps_its_error() -> None:
    """σ(t − 1 − ε) is zero exactly, but not in floats where ε is lost."""
    for exponent in (5, 20, 40, 60):
        block = attention_block(
            WIDTH,
            [],
            w1={(0, 0): Fraction(1, 3), (0, 3): -Fraction(1, 3) * (1 + SLACK) / 2},
            b1={(0, 0): -Fraction(1, 2**exponent)},
            w2={(1, 0): 1000},
            units=1,
        )
        blueprint = single([block], {(0, 1): 1})
        try:
            run_symbolic(blueprint, SLACK)
        except CertificationError:
            continue
        for dtype in DTYPES:
            assert_holds(blueprint, dtype, torch.ones(1, 1, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_two_cost_underflow_only(dtype: torch.dtype) -> None:
    """F = 1/4, β = 8 and b = 0: nothing is rounded but what falls below the normal numbers."""
    blueprint = scaled(direct_form([[1]], [[2]]), Fraction(4))
    literal, _ = bounds(blueprint, dtype)
    assert literal.value is not None
    assert 0 < literal.value < 200 * float_format(dtype).tiny
    smallest = torch.finfo(dtype).smallest_normal
    x = torch.tensor([[smallest], [smallest * 3 / 2], [4.0]], dtype=dtype)
    assert_holds(blueprint, dtype, x)


def test_every_format_is_bounded_for_the_constant_and_for_zero() -> None:
    for text in ("0", "0 x", "1/3", "0 x + 1/3"):
        p = Polynomial.parse(text)
        certificate = certify_blueprint(scaled(ridge_form(p), Fraction(1)), p)
        for name, bound in certificate.rounding.items():
            exact = FORMATS[name].round(p.constant)
            assert exact is not None
            assert bound.value is not None
            assert Fraction(bound.value) >= abs(exact - p.constant)
            assert bound.value <= 2 * FORMATS[name].unit


def test_errors_that_a_layer_turns_round_are_not_counted_thrice() -> None:
    """The paper's feed-forward layer takes z to z − 2z: bounds grow with the blocks, not as 3^q."""
    bounds = {}
    for q in (4, 16):
        polynomial = Polynomial.parse(f"x^{q} + y^{q} - x y")
        blueprint = paper(ridge_form(polynomial), Fraction(1))
        bounds[q] = certify_blueprint(blueprint, polynomial).bound(torch.float64, "literal")
        module, rng = LiteralTransformer(blueprint), np.random.default_rng(q)
        angles = rng.uniform(0, 2 * np.pi, 4000)
        points = 0.999 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        exact = polynomial.evaluate(points.astype(np.longdouble))
        worst = np.abs(module(torch.from_numpy(points)).numpy() - exact).max()
        assert worst <= bounds[q] <= 200 * worst
    assert bounds[16] <= 8 * bounds[4]
