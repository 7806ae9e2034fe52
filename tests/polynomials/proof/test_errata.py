"""What is wrong or loose in the paper's construction, each with the numbers that show it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.layers import FeedForward
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, SelectionError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.paper import paper
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.exact import run_exact
from tests.cases.blueprints import direct_form, paper_as_printed, paper_with_offsets


def power_of_first(degree: int, directions: list[list[int]]) -> RidgeForm:
    """Q = x1^degree along the first direction; the others are idle tokens."""
    beta = [[0] * (degree - 1) + [1]] + [[0] * degree] * (len(directions) - 1)
    return direct_form(directions, beta)


def test_m_below_one_gives_half_the_cube() -> None:
    """B = 1/4, ξ = e1, e2, x = (−1/4, 0): block 3 has M = 1/16, so 2M² = 1/128.

    Token 1 scores −1/64 + 1/128 = −1/128 with itself and 0 with token 2, which it selects.
    """
    form, x = power_of_first(3, [[1, 0], [0, 1]]), [Fraction(-1, 4), Fraction(0)]
    printed = paper_as_printed(form, Fraction(1, 4))
    assert run_exact(printed, x) == Fraction(-1, 128)
    assert form.to_polynomial().at(x) == Fraction(-1, 64)
    with pytest.raises(CertificationError):
        certify_blueprint(printed, form.to_polynomial())
    corrected = paper(form, Fraction(1, 4))
    certify_blueprint(corrected, form.to_polynomial())
    assert run_exact(corrected, x) == Fraction(-1, 64)


@pytest.mark.parametrize("percent", [10, 50, 90, 99])
def test_m_below_one_fails_for_every_b_with_opposite_directions(percent: int) -> None:
    """ξ₂ = −ξ₁, block 4: own score −B⁴ + 2B⁶ against B⁴, so every B < 1 fails at x = B·ξ₁.

    The output is 2B⁶ − B⁴ in place of B⁴; for B = 9/10, 0.406782 in place of 0.6561.
    """
    B = Fraction(percent, 100)
    form, x = power_of_first(4, [[1, 0], [-1, 0]]), [B, Fraction(0)]
    printed = paper_as_printed(form, B)
    assert run_exact(printed, x) == 2 * B**6 - B**4 != B**4
    with pytest.raises(CertificationError):
        certify_blueprint(printed, form.to_polynomial())
    if percent == 90:
        assert run_exact(printed, x) == Fraction(203391, 500000)


def test_on_the_closed_ball_opposite_directions_tie_and_the_tie_is_harmless() -> None:
    """B = 1, ξ₂ = −ξ₁, x = ξ₁, block 2: both scores of token 1 are 1. The rule keeps the value, which
    is the same, so the output is right; but the strict inequality of the proof is not.
    """
    form, x = power_of_first(2, [[1, 0], [-1, 0]]), [Fraction(1), Fraction(0)]
    printed = paper_as_printed(form, Fraction(1))
    assert run_exact(printed, x) == 1
    with pytest.raises(SelectionError, match="block 2"):
        certify_blueprint(printed, form.to_polynomial())
    # A hair beyond the ball the other token wins, and the output is off.
    beyond = [Fraction(101, 100), Fraction(0)]
    assert run_exact(printed, beyond) != Fraction(101, 100) ** 2
    certify_blueprint(scaled(form, Fraction(1)), form.to_polynomial())


def without_relu(blueprint: Blueprint) -> Blueprint:
    """W_1 = W_2 = 0 and b_2 = −2M²; then ``power s`` holds +t^s and the readout needs no sign."""
    blocks = []
    for block in blueprint.blocks:
        b2 = {place: -value for place, value in block.feed_forward.b2.entries.items()}
        w = blueprint.width
        layer = FeedForward(
            Matrix.of(0, w, {}), Matrix.of(0, 1, {}), Matrix.of(w, 0, {}), Matrix.of(w, 1, b2)
        )
        blocks.append(replace(block, feed_forward=layer))
    first = blueprint.tokens + 1
    beta = {
        (i, c): v if (c - first) % 2 else -v
        for (i, c), v in blueprint.readouts[0].beta.entries.items()
    }
    readout = replace(
        blueprint.readouts[0], beta=Matrix.of(*blueprint.readouts[0].beta.shape, beta)
    )
    return replace(blueprint, blocks=tuple(blocks), readouts=(readout,))


@pytest.mark.parametrize("radius", [Fraction(1, 3), Fraction(1), Fraction(5)])
def test_the_bias_alone_removes_the_offset(radius: Fraction) -> None:
    """2n + 4 non-zeros a block instead of 2n + 8, no ReLU, and the right sign at once."""
    form = direct_form([[1, 0], [0, 1], [Fraction(3, 5), Fraction(4, 5)]], [[1, 2, 3]] * 3)
    lean = without_relu(paper(form, radius))
    assert set(lean.counts().per_block) == {2 * 3 + 4}
    assert set(paper(form, radius).counts().per_block) == {2 * 3 + 8}
    certify_blueprint(lean, form.to_polynomial())


def test_the_second_relu_never_fires() -> None:
    """What enters it is −xy − 2M² ≤ −M² < 0 on the ball: half of the feed-forward layer is idle."""
    form = direct_form([[1, 0], [0, 1]], [[1, 2, 3]] * 2)
    run = run_symbolic(paper(form, Fraction(2)), Fraction(2))
    for block in run.blocks:
        assert all(set(hidden) == {0} for hidden in block.hidden)


def test_block_one_multiplies_by_one_which_need_not_be_below_m() -> None:
    """The lemma asks for |y| ≤ M; block 1 has y = 1 and M = B. Selection holds nevertheless, since
    t·1 is the same for every token: the margin is 2M² whatever B is.
    """
    form, B = power_of_first(2, [[1, 0], [0, 1]]), Fraction(3, 4)
    loose = paper_with_offsets(form, B, [B, Fraction(1)])
    assert run_exact(loose, [B, Fraction(0)]) == B**2
    certify_blueprint(loose, form.to_polynomial())


@pytest.mark.parametrize("radius", [1, 10, 1000])
def test_no_radius_holds_for_gaussian_inputs(radius: int) -> None:
    """Section 5 draws x from a Gaussian, which leaves every ball: there the model is another function.

    ξ₂ = −ξ₁, x = 2B·ξ₁ in block 2: the own score −4B² + 2B² is below the other's 4B².
    """
    form, B = power_of_first(2, [[1, 0], [-1, 0]]), Fraction(radius)
    x = [2 * B, Fraction(0)]
    assert run_exact(paper(form, B), x) != form.to_polynomial().at(x)
    assert run_exact(paper(form, 2 * B), x) == form.to_polynomial().at(x)


def relu(x: Fraction) -> Fraction:
    return max(x, Fraction(0))


@pytest.mark.parametrize("x", [Fraction(-7, 3), Fraction(0), Fraction(5, 2)])
def test_relu_networks_reach_polynomials_of_degree_one_and_piecewise_linear_maps(
    x: Fraction,
) -> None:
    """Remark 3.6 says never, section 7 that no deep model did: x and |x| take two ReLUs."""
    assert 3 * relu(x) - 3 * relu(-x) + 1 == 3 * x + 1
    assert relu(x) + relu(-x) == abs(x)


def test_any_finite_sample_has_a_bound_for_which_every_token_selects_itself() -> None:
    """The networks of section 5 are trained in closed form. On the points they were trained on there
    is an M with which the literal blocks, scores and maxima included, give the same numbers.
    """
    directions = [[Fraction(3, 2), Fraction(-1)], [Fraction(-5, 4), Fraction(1, 3)], [0, 2]]
    form = direct_form(directions, [[1, -2, Fraction(1, 2)]] * 3)
    points = [[Fraction(a, 3), Fraction(b, 7)] for a in range(-9, 10, 3) for b in range(-14, 15, 7)]
    largest = max(
        abs(sum(c * v for c, v in zip(xi, x, strict=True))) for xi in directions for x in points
    )
    literal = paper_with_offsets(form, largest, [max(Fraction(1), largest) ** 3 + 1] * 3)
    for x in points:
        assert run_exact(literal, x) == form.to_polynomial().at(x)
