"""Every token selects itself on the whole ball: the proof never claims more than is true."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra.rational import to_fmpq, to_fraction
from exactformer.algebra.ridge import ridge_form
from exactformer.core.domain import Ball
from exactformer.core.layers import Rule
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, SelectionError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.constructions.chebyshev import chebyshev
from exactformer.polynomials.constructions.paper import paper
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.proof.magnitudes import largest, slope_bound
from exactformer.polynomials.proof.selection import SelectionProof, prove_selection
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.exact import run_exact
from tests.cases.blueprints import (
    attention_block,
    direct_form,
    hand_made,
    paper_as_printed,
    paper_with_offsets,
    with_matrix,
)
from tests.cases.margins import smallest_margins
from tests.cases.polynomials import RADII, random_polynomial
from tests.examples import examples


def proof(blueprint: Blueprint) -> SelectionProof:
    return prove_selection(run_symbolic(blueprint, blueprint.radius))


def proven(blueprint: Blueprint) -> list[float]:
    """The proven margin of every block and head."""
    return [float(head.min()) for block in proof(blueprint).margins for head in block]


def assert_sound(blueprint: Blueprint, **options: int) -> list[tuple[float, float]]:
    """No proven margin exceeds the true one; return both, block by block."""
    claims, found = proven(blueprint), smallest_margins(blueprint, **options)
    for claimed, true in zip(claims, found, strict=True):
        assert claimed <= true + 1e-12 * abs(true)
    return list(zip(claims, found, strict=True))


vectors = st.lists(st.integers(-1000, 1000), min_size=3, max_size=3)


def dot(a: list[int], b: list[int]) -> int:
    return sum(s * t for s, t in zip(a, b, strict=True))


@given(vectors, vectors, vectors)
@settings(max_examples=examples(500))
def test_a_product_of_linear_forms_is_bounded_by_the_pair_bound(
    u: list[int], v: list[int], x: list[int]
) -> None:
    """|(u·x)(v·x)| ≤ ‖x‖²(‖u‖‖v‖ + |u·v|)/2, exactly: the symmetric matrix (uvᵀ + vuᵀ)/2 has the
    eigenvalues (u·v ± ‖u‖‖v‖)/2.
    """
    excess = 2 * abs(dot(u, x) * dot(v, x)) - dot(x, x) * abs(dot(u, v))
    assert excess <= 0 or excess**2 <= dot(x, x) ** 2 * dot(u, u) * dot(v, v)


@given(vectors.filter(any), vectors.filter(any))
def test_the_pair_bound_is_attained(u: list[int], v: list[int]) -> None:
    a, b = np.array(u) / np.linalg.norm(u), np.array(v) / np.linalg.norm(v)
    best = a + (1 if a @ b >= 0 else -1) * b
    best /= np.linalg.norm(best)
    assert abs((a @ best) * (b @ best)) == pytest.approx((1 + abs(a @ b)) / 2)


@pytest.mark.spread(4)
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
@pytest.mark.parametrize("family", ["lattice", "tailored", "spread"])
def test_proven_margins_are_below_the_true_ones(construction: str, family: str) -> None:
    rng = random.Random(f"{construction} {family}")
    for _ in range(4):
        d, q = rng.choice([(1, 4), (2, 2), (2, 3), (2, 5), (3, 3)])
        p = random_polynomial(rng, d, q, "dense")
        form, radius = ridge_form(p, family), rng.choice(RADII)
        assert_sound(CONSTRUCTIONS[construction](form, radius), count=15, steps=30)


def test_the_pair_bound_proves_what_a_product_of_bounds_cannot() -> None:
    """Block 2 of the paper with M = B: |t_i t_j| ≤ B² alone would leave no margin at all."""
    form = direct_form([[1, 0], [0, 1], [Fraction(3, 5), Fraction(4, 5)]], [[0, 1]] * 3)
    (_, (claimed, true)) = assert_sound(paper(form, Fraction(2)), count=200, steps=100)
    assert claimed == pytest.approx(0.4)  # 8 − 4 − 4·(1 + 4/5)/2
    assert true == pytest.approx(8 - 2 - 2 * 2**0.5, rel=1e-3)  # the maxima are not met together


def test_parallel_and_zero_directions_are_no_trouble_for_scaled() -> None:
    unit, half = [Fraction(3, 5), Fraction(4, 5)], [Fraction(3, 10), Fraction(2, 5)]
    opposite = [-c for c in unit]
    form = direct_form([unit, unit, opposite, half, [0, 0]], [[1, 2, 3, 4]] * 5)
    for claimed, true in assert_sound(scaled(form, Fraction(7))):
        assert 1 - 1e-9 <= claimed <= true <= 3


def test_opposite_directions_tie_in_the_paper_on_the_closed_ball() -> None:
    """ξ₂ = −ξ₁ and M = B: at x = B·ξ₁ both scores of block 2 are B². No proof may pass."""
    form = direct_form([[1, 0], [-1, 0]], [[0, 1], [0, 0]])
    blueprint = paper_as_printed(form, Fraction(1))
    assert smallest_margins(blueprint)[1] == pytest.approx(0, abs=1e-12)
    with pytest.raises(SelectionError, match="block 2: token 1"):
        proof(blueprint)
    wider = paper_with_offsets(form, Fraction(1), [Fraction(1), Fraction(11, 10)])
    assert_sound(wider)


@pytest.mark.parametrize(
    ("radius", "directions", "point", "degree"),
    [
        (Fraction(1, 4), [[1, 0], [0, 1]], [Fraction(-1, 4), Fraction(0)], 3),
        (Fraction(9, 10), [[1, 0], [-1, 0]], [Fraction(9, 10), Fraction(0)], 4),
    ],
)
def test_the_printed_offset_fails_below_one(
    radius: Fraction, directions: list[list[int]], point: list[Fraction], degree: int
) -> None:
    """Erratum: M = B^(i−1) in block i ≥ 3 is too small for B < 1; max(B, B^(i−1)) is right."""
    first = [[0] * (degree - 1) + [1], [0] * degree]
    form = direct_form(directions, first)  # Q = x1^degree
    printed = paper_as_printed(form, radius)
    with pytest.raises(CertificationError):
        proof(printed)
    assert run_exact(printed, point) != point[0] ** degree
    # Only the last block is to blame: with room in the others, it is the one that is named.
    ample = [Fraction(2)] * (degree - 1)
    last = paper_with_offsets(form, radius, [*ample, radius ** (degree - 1)])
    with pytest.raises(CertificationError, match=f"block {degree}[:,] token 1"):
        proof(last)
    assert smallest_margins(last)[degree - 1] < 0
    assert run_exact(last, point) == run_exact(printed, point)
    corrected = paper_with_offsets(form, radius, [*ample, Fraction(11, 10) * radius])
    proof(corrected)
    assert run_exact(corrected, point) == point[0] ** degree


def two_tokens(
    query: dict[int, int], key: dict[int, int], rule: Rule = Rule.ONE_HOT_MAX
) -> Blueprint:
    """Tokens e1·x and e2·x over ‖x‖ ≤ 1 with positions 1, 2 and one; rows are shared unless private."""
    width = 4
    rows_q = {(r, c): v for r, (c, v) in enumerate(query.items())}
    rows_k = {(r, c): v for r, (c, v) in enumerate(key.items())}
    head = (len(query), rows_q, rows_k, {(0, 3): 1})
    return hand_made(
        {(0, 0): 1, (1, 1): 1},
        2,
        2,
        width,
        {(0, 1): 1, (1, 2): 1, (0, 3): 1, (1, 3): 1},
        [attention_block(width, [head], rule)],
        {(0, 0): 1},
    )


def test_a_score_without_positions_is_refused() -> None:
    with pytest.raises(SelectionError):
        proof(two_tokens({0: 1}, {0: 1}))  # t_i t_j alone
    with pytest.raises(SelectionError):
        proof(two_tokens({3: 1}, {3: 1}))  # every score is 1: a tie
    with pytest.raises(SelectionError):
        proof(two_tokens({0: 0}, {0: 1}))  # every score is 0


def test_a_position_that_points_at_the_other_token_is_refused() -> None:
    straight = two_tokens({1: 1, 2: 1}, {1: 1, 2: 1})
    assert proven(straight) == [pytest.approx(1)]
    crossed = two_tokens({1: 1, 2: 1}, {2: 1, 1: 1})
    with pytest.raises(SelectionError):
        proof(crossed)
    repelled = two_tokens({1: -1, 2: -1}, {1: 1, 2: 1})
    with pytest.raises(SelectionError):
        proof(repelled)


def test_a_glance_at_the_position_of_another_token_costs_no_more_than_itself() -> None:
    """Token 1's query has 1/100 in token 2's own row: its margin loses that, token 2's nothing."""
    straight = two_tokens({1: 1, 2: 1}, {1: 1, 2: 1})
    query = straight.blocks[0].attention.heads[0].query
    glance = Matrix.of(*query.shape, {**query.entries, (1, 1): Fraction(1, 100)})
    blueprint = with_matrix(straight, "blocks.0.heads.0.query", glance)
    ((margins,),) = proof(blueprint).margins
    assert list(margins) == [pytest.approx(0.99), pytest.approx(1)]
    assert_sound(blueprint)


def test_constants_of_a_shared_row_that_differ_between_tokens_count() -> None:
    """Keys 1 and 2 in one row: token 1 would rather look at token 2."""
    width = 4
    for offset, holds in ((Fraction(1, 2), False), (Fraction(1), False), (Fraction(11, 10), True)):
        query = {(0, 3): 1, (1, 1): offset, (2, 2): offset}
        key = {(0, 1): 1, (0, 2): 2, (1, 1): 1, (2, 2): 1}
        blueprint = hand_made(
            {(0, 0): 1, (1, 1): 1},
            2,
            2,
            width,
            {(0, 1): 1, (1, 2): 1, (0, 3): 1, (1, 3): 1},
            [attention_block(width, [(3, query, key, {})])],
            {(0, 0): 1},
        )
        if holds:
            assert_sound(blueprint)
        else:
            with pytest.raises(SelectionError):
                proof(blueprint)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(60))
def test_random_heads_with_many_shared_rows_and_two_heads_are_never_overestimated(
    seed: int,
) -> None:
    rng = random.Random(seed)
    n, d, width, rows = rng.randint(2, 4), rng.randint(1, 3), 7, 4
    positions = {(i, 1 + i): 1 for i in range(n)} | {(i, 6): 1 for i in range(n)}
    odd = {(rng.randrange(n), rng.randrange(6)): Fraction(rng.randint(-4, 4), 4) for _ in range(3)}

    def matrix(offset: int) -> dict[tuple[int, int], Fraction]:
        private = {(rows + i, 1 + i): Fraction(offset) for i in range(n)}
        noise = {
            (rng.randrange(rows + n), rng.randrange(width)): Fraction(rng.randint(-6, 6), 6)
            for _ in range(rng.randint(0, 5))
        }
        return noise | private

    blocks = [
        attention_block(
            width,
            [
                (rows + n, matrix(rng.randint(1, 9)), matrix(1), {(0, 6): Fraction(1, 9)})
                for _ in range(rng.randint(1, 2))
            ],
            rng.choice([Rule.ONE_HOT_MAX, Rule.HARD_MAX]),
        )
        for _ in range(rng.randint(1, 2))
    ]
    features = {(i, j): Fraction(rng.randint(-4, 4), 4) for i in range(n) for j in range(d)}
    blueprint = hand_made(
        features, n, d, width, positions | odd, blocks, {(0, 0): 1}, radius=rng.choice(RADII[1:6])
    )
    try:
        proof(blueprint)
    except SelectionError:
        return
    assert_sound(blueprint, count=10, steps=20)


def with_a_look_at_others(query: int, key: int, offset: Fraction) -> Blueprint:
    """Orthogonal tokens that hold T_1, T_2 and T_3, and a last block whose scores are
    query·T_3(t_i)·key·T_3(t_j) + offset·[i = j] and which doubles what it selects.
    """
    beta = [[0, 0, k] for k in (1, 2)]
    honest = chebyshev(direct_form([[1, 0], [0, 1]], beta), Fraction(1))
    width, third = honest.width, honest.dimensions.index("Chebyshev 3")
    positions = [honest.dimensions.index(f"position {i}") for i in (1, 2)]
    private = {(1 + i, position): Fraction(1) for i, position in enumerate(positions)}
    head = (
        3,
        {(0, third): Fraction(query)} | dict.fromkeys(private, offset),
        {(0, third): Fraction(key)} | private,
        {(k, k): 1 for k in (0, third)},
    )
    block = attention_block(width, [head], Rule.HARD_MAX)
    readout = honest.readouts[0]
    half = Matrix.of(*readout.beta.shape, {p: v / 2 for p, v in readout.beta.entries.items()})
    return replace(honest, blocks=(*honest.blocks, block), readouts=(replace(readout, beta=half),))


def test_a_chebyshev_polynomial_is_as_large_inside_the_ball_as_on_its_edge() -> None:
    """T_3 is −1 at ½ and 1 at −½, and (½, −½) lies inside the disc. Scores −T_3(t_i)T_3(t_j) take 2
    from the margin there, although F_1 and F_2 are orthogonal: (1 + |cos|)/2 is no factor of theirs.
    """
    below, tie, above = (Fraction(k, 4) for k in (7, 8, 9))
    point = [Fraction(1, 2), Fraction(-1, 2)]
    forged = with_a_look_at_others(1, -1, below)
    assert smallest_margins(forged)[-1] == pytest.approx(-0.25, abs=1e-3)
    assert run_exact(forged, point) != point[0] ** 3 + 2 * point[1] ** 3
    for offset in (below, tie):
        with pytest.raises(SelectionError, match="block 3: token 1"):
            proof(with_a_look_at_others(1, -1, offset))
    sound = with_a_look_at_others(1, -1, above)
    (*_, (claimed, true)) = assert_sound(sound)
    assert claimed == pytest.approx(0.25)
    assert true == pytest.approx(0.25, abs=1e-3)
    assert run_exact(sound, point) == point[0] ** 3 + 2 * point[1] ** 3


@given(
    st.lists(st.fractions(-3, 3, max_denominator=4), min_size=1, max_size=4),
    st.fractions(Fraction(1, 8), 4, max_denominator=8),
    st.fractions(-1, 1, max_denominator=64),
)
def test_a_polynomial_through_zero_lies_below_the_line_of_its_slope(
    coefficients: list[Fraction], reach: Fraction, place: Fraction
) -> None:
    """|p(t)| ≤ slope·|t|/reach on |t| ≤ reach where p(0) = 0; the largest |p| gives no such line."""
    p = fmpq_poly([0, *map(to_fmpq, coefficients)])
    t = place * reach
    value = abs(to_fraction(fmpq(p(to_fmpq(t)))))
    assert value * reach <= Fraction(slope_bound(p, reach)) * abs(t)
    assert value <= Fraction(largest(p, reach))


def test_the_slope_of_a_line_is_rounded_up() -> None:
    for slope in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 10)):
        assert Fraction(slope_bound(fmpq_poly([0, to_fmpq(slope)]), Fraction(1))) >= slope


def test_a_polynomial_that_misses_zero_has_no_slope_bound() -> None:
    assert slope_bound(fmpq_poly([1, 1]), Fraction(1)) == np.inf
    assert slope_bound(fmpq_poly([0, -3, 0, 4]), Fraction(1)) == pytest.approx(3)  # T_3
    assert slope_bound(fmpq_poly([]), Fraction(1)) == 0


def test_one_token_has_no_rival() -> None:
    form = direct_form([[1]], [[1, 1]])
    assert proof(paper(form, Fraction(1))).smallest == np.inf
    assert proof(scaled(direct_form([[1]], [[1]]), Fraction(1))).smallest is None


def test_every_offset_that_is_too_small_is_refused() -> None:
    """Offsets shrink until the proof fails; before that, no margin is overstated."""
    form = direct_form([[1, 0], [0, 1], [Fraction(-3, 5), Fraction(4, 5)]], [[1, 1, 1]] * 3)
    blueprint = scaled(form, Fraction(2))
    path, query = next(m for m in blueprint.matrices() if m[0] == "blocks.1.heads.0.query")
    held = 0
    for k in range(1, 13):
        entries = {p: v if p[0] == 0 else Fraction(k, 4) for p, v in query.entries.items()}
        changed = with_matrix(blueprint, path, Matrix.of(*query.shape, entries))
        if smallest_margins(changed, count=20, steps=40)[1] <= 0:
            with pytest.raises(SelectionError):
                proof(changed)
        else:
            try:
                proof(changed)
            except SelectionError:
                continue
            held += 1
            assert_sound(changed, count=20, steps=40)
    assert held >= 4


def test_the_proof_covers_the_radius_it_is_asked_about() -> None:
    """Scaled features leave a margin of 1 on the ball, which is used up at √2 times its radius."""
    form = direct_form([[1, 0], [-1, 0]], [[0, 1], [0, 0]])
    blueprint = scaled(form, Fraction(1))
    run = run_symbolic(blueprint, Fraction(12, 10))
    assert float(prove_selection(run).margins[0][0].min()) < 1
    with pytest.raises(SelectionError):
        prove_selection(run_symbolic(blueprint, Fraction(13, 10)))
    assert replace(blueprint, domain=Ball(Fraction(13, 10))).radius == Fraction(13, 10)


@pytest.mark.slow
def test_proven_margins_are_below_the_true_ones_at_length() -> None:
    rng = random.Random(11)
    ratios: dict[str, list[float]] = {}
    for _ in range(60):
        d, q = rng.choice([(1, 5), (2, 2), (2, 4), (2, 6), (3, 3), (3, 4), (4, 3), (5, 2)])
        p = random_polynomial(rng, d, q, rng.choice(["sparse", "dense", "mixed"]))
        family = rng.choice(["lattice", "tailored", "spread"])
        construction = rng.choice(list(CONSTRUCTIONS))
        blueprint = CONSTRUCTIONS[construction](ridge_form(p, family), rng.choice(RADII))
        for claimed, true in assert_sound(blueprint, count=60, steps=80):
            if np.isfinite(true):
                ratios.setdefault(construction, []).append(claimed / true)
    assert np.median(ratios["scaled"]) > 0.4
    print({k: np.quantile(v, [0, 0.1, 0.5, 0.9, 1]).round(3).tolist() for k, v in ratios.items()})
