"""The run on polynomials: what it follows, what it refuses, and that it agrees with numbers."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from flint import fmpq, fmpq_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra.rational import to_fmpq, to_fraction
from exactformer.algebra.ridge import ridge_form
from exactformer.core.layers import IDENTITY, RELU, BiasedHead, PiecewiseLinear, Rule
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, ExecutionError, InputError, SelectionError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.proof.selection import prove_selection
from exactformer.polynomials.proof.symbolic import SymbolicRun, run_symbolic
from exactformer.polynomials.run.exact import run_exact
from tests.cases.blueprints import attention_block, hand_made
from tests.cases.polynomials import polynomials, radii, random_point
from tests.examples import examples


def output_at(run: SymbolicRun, x: list[Fraction]) -> Fraction:
    """b + Σ_i P_i(F_i·x), with numbers."""
    features = run.blueprint.embedding.features
    total = run.blueprint.readouts[0].bias
    for i, polynomial in enumerate(run.readouts[0]):
        t = sum((v * x[j] for j, v in features.by_row.get(i, [])), Fraction(0))
        total += to_fraction(fmpq(polynomial(to_fmpq(t))))
    return total


@given(polynomials(max_width=20), radii(), st.sampled_from(sorted(CONSTRUCTIONS)), st.randoms())
@settings(max_examples=examples(60))
def test_polynomials_and_numbers_agree(
    p: object, radius: Fraction, construction: str, rng: random.Random
) -> None:
    blueprint = CONSTRUCTIONS[construction](ridge_form(p), radius)  # type: ignore[arg-type]
    run = run_symbolic(blueprint, radius)
    for _ in range(3):
        x = random_point(rng, len(blueprint.variables), radius)
        assert output_at(run, x) == run_exact(blueprint, x)


WIDTH = 3  # feature, a second dimension, one


def one_token(
    b1: Fraction | int,
    w1: Fraction | int = 1,
    activation: PiecewiseLinear = RELU,
    radius: Fraction | int = 1,
) -> Blueprint:
    """dimension 1 becomes σ(w1·t + b1)."""
    block = attention_block(
        WIDTH,
        [],
        w1={(0, 0): w1},
        b1={(0, 0): b1},
        w2={(1, 0): 1},
        units=1,
        activation=activation,
    )
    return hand_made({(0, 0): 1}, 1, 1, WIDTH, {(0, 2): 1}, [block], {(0, 1): 1}, radius=radius)


@pytest.mark.parametrize(
    ("b1", "w1", "expected"),
    [
        (1, 1, [1, 1]),  # touches zero at the boundary only
        (2, -1, [2, -1]),
        (-1, 1, []),  # never positive
        (-5, 3, []),
        (0, 0, []),
        (3, 0, [3]),
        (-3, 0, []),
    ],
)
def test_relu_is_followed_where_its_sign_is_certain(b1: int, w1: int, expected: list[int]) -> None:
    blueprint = one_token(b1, w1)
    run = run_symbolic(blueprint, Fraction(1))
    assert [int(c.p) for c in run.readouts[0][0].coeffs()] == expected
    (raw,) = run.blocks[0].raw
    assert raw.get(0, fmpq_poly([])) == fmpq_poly([b1, w1])  # before the ReLU, whatever its sign
    for t in (Fraction(-1), Fraction(1), Fraction(1, 3)):
        assert output_at(run, [t]) == run_exact(blueprint, [t]) == max(0, w1 * t + b1)


@pytest.mark.parametrize(
    ("b1", "w1", "radius"),
    [(0, 1, 1), (Fraction(99, 100), 1, 1), (-1, 2, 1), (1, 1, 2), (10**500, -(10**500), 2)],
)
def test_relu_is_refused_where_the_sign_changes(b1: Fraction | int, w1: int, radius: int) -> None:
    with pytest.raises(CertificationError, match=r"block 1, token 1, unit 1: .*changes sign"):
        run_symbolic(one_token(b1, w1, radius=radius), Fraction(radius))
    run_symbolic(one_token(b1, w1, IDENTITY, radius), Fraction(radius))


def looks_elsewhere(rule: Rule, value_dimension: int = 0) -> Blueprint:
    """Two tokens whose positions are crossed: each selects the other and reads its feature."""
    width = 5  # feature, two positions, target, one
    head = (2, {(0, 1): 1, (1, 2): 1}, {(0, 2): 1, (1, 1): 1}, {(3, value_dimension): 1})
    return hand_made(
        {(0, 0): 1, (1, 1): 1},
        2,
        2,
        width,
        {(0, 1): 1, (1, 2): 1, (0, 4): 1, (1, 4): 1},
        [attention_block(width, [head], rule)],
        {(0, 3): 1},
    )


@pytest.mark.parametrize("rule", [Rule.ONE_HOT_MAX, Rule.HARD_MAX])
def test_a_token_that_depends_on_another_is_never_certified(rule: Rule) -> None:
    blueprint = looks_elsewhere(rule)
    x = [Fraction(1, 3), Fraction(1, 5)]
    assert run_exact(blueprint, x) == x[1]  # what token 1 gets is token 2's feature
    run = run_symbolic(blueprint, Fraction(1))
    assert output_at(run, x) != x[1]  # the run assumes self-selection …
    with pytest.raises(SelectionError):
        prove_selection(run)  # … and the proof of it is what fails


def test_hard_maximum_weighs_one() -> None:
    width = 5
    head = (2, {(0, 1): 1, (1, 2): 1}, {(0, 1): 1, (1, 2): 1}, {(3, 0): 7})
    blueprint = hand_made(
        {(0, 0): 1, (1, 1): 1},
        2,
        2,
        width,
        {(0, 1): 3, (1, 2): 3, (0, 4): 1, (1, 4): 1},
        [attention_block(width, [head], Rule.HARD_MAX)],
        {(0, 3): 1},
    )
    run = run_symbolic(blueprint, Fraction(1))
    prove_selection(run)
    x = [Fraction(1, 3), Fraction(1, 5)]
    assert output_at(run, x) == run_exact(blueprint, x) == Fraction(7, 3)


def test_equal_scores_are_shared_by_the_hard_maximum_and_go_first_by_the_other() -> None:
    width = 3
    head = (1, {(0, 2): 1}, {(0, 2): 1}, {(1, 0): 1})
    for rule, expected in ((Rule.HARD_MAX, Fraction(1, 2)), (Rule.ONE_HOT_MAX, Fraction(0))):
        blueprint = hand_made(
            {(0, 0): 1, (1, 1): 1},
            2,
            2,
            width,
            {(0, 2): 1, (1, 2): 1},
            [attention_block(width, [head], rule)],
            {(1, 1): 1},
        )
        assert run_exact(blueprint, [0, 1]) == expected
        with pytest.raises(SelectionError):
            prove_selection(run_symbolic(blueprint, Fraction(1)))


def test_softmax_is_refused_by_both_exact_ways() -> None:
    blueprint = looks_elsewhere(Rule.SOFTMAX)
    with pytest.raises(CertificationError, match="softmax"):
        run_symbolic(blueprint, Fraction(1))
    with pytest.raises(ExecutionError, match="softmax"):
        run_exact(blueprint, [0, 0])


def test_several_heads_add_up() -> None:
    width = 6
    same = {(0, 1): 1, (1, 2): 1}
    heads = [(2, same, same, {(3, 0): 2}), (2, same, same, {(4, 0): 3, (3, 5): 1})]
    blueprint = hand_made(
        {(0, 0): 1, (1, 1): 1},
        2,
        2,
        width,
        {(0, 1): 1, (1, 2): 1, (0, 5): 1, (1, 5): 1},
        [attention_block(width, heads)],
        {(0, 3): 1, (1, 4): 10},
    )
    run = run_symbolic(blueprint, Fraction(1))
    prove_selection(run)
    x = [Fraction(1, 3), Fraction(1, 5)]
    assert output_at(run, x) == run_exact(blueprint, x) == 2 * x[0] + 1 + 30 * x[1]


def test_a_point_has_as_many_coordinates_as_variables() -> None:
    with pytest.raises(InputError, match="coordinates"):
        run_exact(one_token(1), [1, 2])
    with pytest.raises(InputError, match="finite"):
        run_exact(one_token(1), [float("nan")])


def test_layers_of_other_families_are_refused() -> None:
    """What the symbolic run would pass over: other activations, units in turn, biased queries."""
    honest = one_token(2)
    (block,) = honest.blocks
    run_symbolic(honest, Fraction(1))
    row, square = Matrix.of(1, WIDTH, {}), Matrix.of(WIDTH, WIDTH, {})
    biased = BiasedHead(row, row, square, Matrix.of(1, 1, {(0, 0): 1}))
    step = PiecewiseLinear.of((0,), ((0, 0), (0, 1)))
    for other in (
        replace(block, feed_forward=replace(block.feed_forward, activation=step)),
        replace(block, feed_forward=replace(block.feed_forward, successive=1)),
        replace(block, attention=replace(block.attention, heads=(biased,))),
    ):
        with pytest.raises(CertificationError, match="block 1"):
            run_symbolic(replace(honest, blocks=(other,)), Fraction(1))
