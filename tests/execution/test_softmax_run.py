"""The linearised run: an exact identity, and a refusal of whatever is not shared attention."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.blueprint import Ball, Blueprint, Matrix, Rule, Selection
from exactformer.certificates.identity import prove_identity
from exactformer.constructions import Extrapolation, softmax
from exactformer.errors import CertificationError
from exactformer.execution.softmax_run import ALONE, is_softmax, run_softmax
from tests.cases.polynomials import polynomials, radii

P = Polynomial.parse("x^3 + 2 x y^2 - y")
SMALL = Extrapolation(3, Fraction(1))


def blueprint_of(p: Polynomial = P) -> Blueprint:
    return softmax(ridge_form(p), Fraction(2), SMALL)


def altered_block(blueprint: Blueprint, **changes: object) -> Blueprint:
    first = blueprint.blocks[0]
    attention = replace(first.attention, **changes)
    return replace(blueprint, blocks=(replace(first, attention=attention), *blueprint.blocks[1:]))


def altered_head(blueprint: Blueprint, name: str, entries: dict[tuple[int, int], int]) -> Blueprint:
    """Overwrite entries of one matrix of the first head; 0 removes one."""
    head, *others = blueprint.blocks[0].attention.heads
    matrix = getattr(head, name)
    changed = Matrix.of(matrix.rows, matrix.columns, {**matrix.entries, **entries})
    return altered_block(blueprint, heads=(replace(head, **{name: changed}), *others))


@given(polynomials(max_width=12), radii(), st.integers(1, 4))
@settings(max_examples=25)
def test_with_softmax_made_linear_the_output_is_the_target(
    p: Polynomial, radius: Fraction, heads: int
) -> None:
    blueprint = softmax(ridge_form(p), radius, Extrapolation(heads, Fraction(1, 2)))
    run = run_softmax(blueprint, blueprint.domain)
    assert prove_identity(run, p) == len(p)


def test_tokens_share_with_the_null_token_and_it_looks_at_the_sink() -> None:
    blueprint = blueprint_of()
    n = blueprint.tokens - 2
    for block in run_softmax(blueprint, blueprint.domain).shared:
        for head in block.heads:
            assert list(head.focus) == [*range(n), n + 1, n + 1]
            assert list(head.partner) == [*[n] * n, ALONE, ALONE]


def test_heads_of_one_product_are_taken_together() -> None:
    run = run_softmax(blueprint_of(), Ball(Fraction(2)))
    for block in run.shared:
        assert [len(product.heads) for product in block.products] == [SMALL.heads]
        assert [block.heads[h].scale for h in block.products[0].heads] == list(SMALL.nodes)


def test_only_blueprints_that_select_by_softmax_are_softmax() -> None:
    assert is_softmax(blueprint_of())
    assert not is_softmax(blueprint_of(Polynomial.parse("x + 1")))


def test_another_temperature_or_rule_is_refused() -> None:
    for selection in (Selection(Rule.SOFTMAX, Fraction(2)), Selection(Rule.HARD_MAX)):
        blueprint = altered_block(blueprint_of(), selection=selection)
        with pytest.raises(CertificationError, match="no other rule is covered"):
            run_softmax(blueprint, blueprint.domain)


def test_a_feed_forward_layer_is_refused() -> None:
    blueprint = blueprint_of()
    first = blueprint.blocks[0]
    bias = Matrix.of(blueprint.width, 1, {(0, 0): 1})
    layer = replace(first.feed_forward, b2=bias)
    changed = replace(blueprint, blocks=(replace(first, feed_forward=layer), *blueprint.blocks[1:]))
    with pytest.raises(CertificationError, match="feed-forward"):
        run_softmax(changed, changed.domain)


def test_a_token_left_unmasked_is_refused() -> None:
    blueprint = blueprint_of()
    query = blueprint.blocks[0].attention.heads[0].query
    masks = {place: 0 for place in query.entries if 1 <= place[0] < query.rows - 1}
    changed = altered_head(blueprint, "query", masks)
    with pytest.raises(CertificationError, match="not shown to attend"):
        run_softmax(changed, changed.domain)


def test_a_mask_that_touches_the_shared_logits_is_refused() -> None:
    blueprint = blueprint_of()
    one = blueprint.dimensions.index("one")
    query, key = (
        altered_head(blueprint, name, {(0, one): 1}).blocks[0].attention.heads[0]
        for name in ("query", "key")
    )
    both = replace(query, key=key.key)
    _, *others = blueprint.blocks[0].attention.heads
    changed = altered_block(blueprint, heads=(both, *others))
    with pytest.raises(CertificationError, match="adds to the logits"):
        run_softmax(changed, changed.domain)


def test_values_that_depend_on_x_are_refused() -> None:
    changed = altered_head(blueprint_of(), "value", {(3, 0): 1})
    with pytest.raises(CertificationError, match="values depend on x"):
        run_softmax(changed, changed.domain)


def test_a_moved_domain_shifts_the_feature_only() -> None:
    """In a ball round c the features are F·(x − c): polynomials are those of the ball round 0."""
    p = Polynomial.parse("x^2 + x")
    here = softmax(ridge_form(p), Ball(Fraction(1)), SMALL)
    moved = softmax(ridge_form(p), Ball(Fraction(1), (Fraction(5),)), SMALL)
    runs = [run_softmax(b, b.domain) for b in (here, moved)]
    assert runs[0].readouts == runs[1].readouts
    assert np.array_equal(runs[0].sizes.reach, runs[1].sizes.reach)
