"""The matrices of Lemma 3.1, entry by entry, for x² + y²."""

from fractions import Fraction

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.layers import Rule
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.paper import paper
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.run.exact import run_exact

SQUARES = ridge_form(Polynomial.parse("x^2 + y^2"))


def entries(blueprint: Blueprint) -> dict[str, dict[tuple[int, int], Fraction]]:
    return {path: dict(matrix.entries) for path, matrix in blueprint.matrices()}


def test_paper_is_lemma_3_1_entry_by_entry() -> None:
    blueprint = paper(SQUARES, Fraction(3))
    assert blueprint.dimensions == (
        *("feature", "position 1", "position 2"),
        *("power 1", "power 2", "one"),
    )
    matrices = entries(blueprint)
    assert matrices["embedding.features"] == {(0, 0): 1, (1, 1): 1}
    assert matrices["embedding.constant"] == {(0, 1): 1, (0, 5): 1, (1, 2): 1, (1, 5): 1}
    for b, (y, target) in enumerate([(5, 3), (3, 4)]):
        assert matrices[f"blocks.{b}.heads.0.query"] == {(0, 0): 1, (1, 1): 18, (2, 2): 18}
        assert matrices[f"blocks.{b}.heads.0.key"] == {(0, y): 1, (1, 1): 1, (2, 2): 1}
        assert matrices[f"blocks.{b}.heads.0.value"] == {(target, 5): 1}
        assert matrices[f"blocks.{b}.feed_forward.w1"] == {(0, target): 1, (1, target): -1}
        assert matrices[f"blocks.{b}.feed_forward.b1"] == {}
        assert matrices[f"blocks.{b}.feed_forward.w2"] == {(target, 0): -2, (target, 1): 2}
        assert matrices[f"blocks.{b}.feed_forward.b2"] == {(target, 0): 18}
        assert blueprint.blocks[b].attention.selection.rule is Rule.ONE_HOT_MAX
    assert matrices["readouts.0.beta"] == {(0, 4): 1, (1, 4): 1}
    assert matrices["readouts.0.bias"] == {}


def test_odd_powers_are_stored_negated_and_read_negated() -> None:
    blueprint = paper(ridge_form(Polynomial.parse("x^3 + 5 x^2 + 7 x")), Fraction(2))
    weights = [
        blueprint.readouts[0].beta[0, blueprint.dimensions.index(f"power {s}")] for s in (1, 2, 3)
    ]
    assert weights == [-7, 5, -1]
    assert run_exact(blueprint, [Fraction(-3, 2)]) == Fraction(-3, 2) * (
        Fraction(9, 4) - Fraction(15, 2) + 7
    )


def test_the_bound_m_is_corrected_for_small_balls() -> None:
    cube = ridge_form(Polynomial.parse("x^3"))
    for radius, expected in [(Fraction(1, 2), [1, Fraction(1, 2), Fraction(1, 2)]), (3, [3, 3, 9])]:
        blueprint = paper(cube, Fraction(radius))
        offsets = [block.attention.heads[0].query[1, 1] for block in blueprint.blocks]
        assert offsets == [2 * m * m for m in expected]


def test_scaled_keeps_its_blocks_whatever_the_radius() -> None:
    form = ridge_form(Polynomial.parse("x^4 - x y"))
    small, huge = scaled(form, Fraction(1, 10**6)), scaled(form, Fraction(10**6))
    assert small.blocks == huge.blocks
    assert small.readouts != huge.readouts


def test_matrices_have_places_in_words() -> None:
    blueprint = paper(SQUARES, Fraction(3))
    assert blueprint.place("blocks.1.heads.0.key", 0, 3) == "block 2, key matrix, row 1 ← power 1"
    assert blueprint.place("blocks.0.heads.0.value", 3, 5) == "block 1, value matrix, power 1 ← one"
    assert blueprint.place("blocks.0.feed_forward.w2", 3, 0) == (
        "block 1, feed-forward w2, power 1 ← unit 1"
    )
    assert blueprint.place("embedding.features", 1, 1) == "F, token 2, y"
    assert blueprint.place("readouts.0.beta", 0, 4) == "readout β, token 1, power 2"
    assert blueprint.place("readouts.0.bias", 0, 0) == "readout bias b"
