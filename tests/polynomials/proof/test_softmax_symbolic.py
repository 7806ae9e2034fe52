"""The linearised run: an exact identity, and a refusal of whatever is not shared attention."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.rational import to_fmpq
from exactformer.algebra.ridge import ridge_form
from exactformer.core.domain import Ball
from exactformer.core.layers import Head, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.softmax import softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.proof.identity import prove_identity
from exactformer.polynomials.proof.shared_polynomials import Sharing
from exactformer.polynomials.proof.softmax_symbolic import (
    ALONE,
    Projection,
    _attend,
    _attended,
    _constants,
    _differences,
    _form,
    _live_dimensions,
    _split,
    is_softmax,
    run_softmax,
)
from tests.cases.blueprints import attention_block, hand_made
from tests.cases.polynomials import polynomials, radii
from tests.examples import examples

P = Polynomial.parse("x^3 + 2 x y^2 - y")
SMALL = Extrapolation(3, Fraction(1))


def blueprint_of(p: Polynomial = P) -> Blueprint:
    return softmax(ridge_form(p), Fraction(2), SMALL)


def altered_block(blueprint: Blueprint, **changes: object) -> Blueprint:
    first = blueprint.blocks[0]
    attention = replace(first.attention, **changes)
    return replace(blueprint, blocks=(replace(first, attention=attention), *blueprint.blocks[1:]))


def altered_head(
    blueprint: Blueprint, name: str, entries: dict[tuple[int, int], Fraction | int]
) -> Blueprint:
    """Overwrite entries of one matrix of the first head; 0 removes one."""
    head, *others = blueprint.blocks[0].attention.heads
    matrix = getattr(head, name)
    changed = Matrix.of(matrix.rows, matrix.columns, {**matrix.entries, **entries})
    return altered_block(blueprint, heads=(replace(head, **{name: changed}), *others))


@given(polynomials(max_width=12), radii(), st.integers(1, 4))
@settings(max_examples=examples(25))
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
        with pytest.raises(
            CertificationError, match=r"block 1 selects .* no other rule is covered"
        ):
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
    here = softmax(ridge_form(p), Ball(Fraction(2)), SMALL)
    moved = softmax(ridge_form(p), Ball(Fraction(2), (Fraction(5),)), SMALL)
    runs = [run_softmax(b, b.domain) for b in (here, moved)]
    assert runs[0].readouts == runs[1].readouts
    assert np.array_equal(runs[0].sizes.reach, runs[1].sizes.reach)


def test_matrices_that_do_not_fit_are_refused() -> None:
    blueprint = blueprint_of()
    head, *others = blueprint.blocks[0].attention.heads
    wide = replace(head, value=Matrix.of(blueprint.width, blueprint.width + 1, {}))
    changed = altered_block(blueprint, heads=(wide, *others))
    with pytest.raises(CertificationError, match=r"blocks\.0\.heads\.0\.value is"):
        run_softmax(changed, changed.domain)


def test_hidden_units_are_refused_without_any_bias() -> None:
    blueprint = blueprint_of()
    first, w = blueprint.blocks[0], blueprint.width
    layer = replace(first.feed_forward, w1=Matrix.of(1, w, {}), b1=Matrix.of(1, 1, {}))
    layer = replace(layer, w2=Matrix.of(w, 1, {}))
    changed = replace(blueprint, blocks=(replace(first, feed_forward=layer), *blueprint.blocks[1:]))
    with pytest.raises(CertificationError, match="block 1 has a feed-forward"):
        run_softmax(changed, changed.domain)


def test_entries_other_than_signs_can_err() -> None:
    constant = {(0, 1): 1, (1, 1): -1, (0, 2): Fraction(1, 2), (1, 3): -2}
    assert _live_dimensions(hand_made({}, 2, 1, 5, constant, [], {})) == {0, 2, 3}


def test_the_form_of_a_head_is_what_can_err_of_its_logits() -> None:
    """Rows of queries and keys multiply; what is a sign on both sides does not count."""
    query = Matrix.of(3, 4, {(0, 0): 6, (0, 2): 10, (1, 0): 3, (1, 3): 7, (2, 1): 2, (2, 0): 5})
    key = Matrix.of(3, 4, {(0, 1): 2, (0, 3): 5, (1, 1): 4, (1, 2): 9, (2, 2): 11, (2, 0): 3})
    head = Head(query, key, Matrix.of(4, 4, {}))
    entries = {(0, 0): 15, (0, 1): 12 + 12, (0, 2): 27 + 55, (0, 3): 30, (1, 0): 6, (1, 2): 22}
    entries |= {(2, 1): 20, (3, 1): 28}
    wanted = tuple((place, Fraction(value, 15)) for place, value in sorted(entries.items()))
    assert _form(head, {0, 1}) == (wanted, 15)
    opposed = Head(
        Matrix.of(2, 2, {(0, 0): 1, (1, 0): 1, (1, 1): 3}),
        Matrix.of(2, 2, {(0, 1): 2, (1, 1): -2}),
        Matrix.of(2, 2, {}),
    )
    assert _form(opposed, {0, 1}) == ((((1, 1), Fraction(1)),), -6)
    assert _form(opposed, set()) == ((), 1)


def test_equal_values_are_one_object_without_zeros() -> None:
    one, two, none = fmpq_poly([1]), fmpq_poly([2]), fmpq_poly([])
    found = _constants([{0: one, 1: two}, {0: one, 1: two}, {1: two, 2: none}, {}], "here")
    assert found == [{0: 1, 1: 2}, {0: 1, 1: 2}, {1: 2}, {}]
    assert found[0] is found[1]
    with pytest.raises(CertificationError, match="here: its values depend"):
        _constants([{0: one, 1: fmpq_poly([0, 1])}], "here")


def sharing(last: dict[tuple[int, int], int], partner: dict[int, int]) -> Blueprint:
    """Token 1 shares with token 2, which looks at token 3; so does token 3 itself.

    All tokens have a mark, in dimensions 1 to 3; ``last`` are features of theirs, ``partner`` is what
    else token 2 has.
    """
    query = {(1, 1): -20, (1, 2): 20, (1, 3): 20}
    head = (2, {(0, 0): 1} | query, {(0, 0): 1, (1, 3): 1}, {(4, 1): 1})
    constant = {(0, 1): 1, (1, 2): 1, (2, 3): 1} | {(1, d): v for d, v in partner.items()}
    block = attention_block(6, [head], Rule.SOFTMAX)
    return hand_made({(0, 0): 1} | last, 3, 1, 6, constant, [block], {(0, 4): 1})


def test_only_a_constant_token_may_share_the_attention_of_others() -> None:
    run = run_softmax(sharing({}, {}), Ball(Fraction(1)))
    (head,) = run.shared[0].heads
    assert head.partner.tolist() == [1, ALONE, ALONE]
    assert head.focus.tolist() == [0, 2, 2]
    # The last token, which only those alone look at, may depend on x.
    run = run_softmax(sharing({(2, 0): 1}, {}), Ball(Fraction(1)))
    assert run.shared[0].heads[0].partner.tolist() == [1, ALONE, ALONE]
    with pytest.raises(CertificationError, match="token 2 shares others' attention but is not"):
        run_softmax(sharing({(1, 0): 1}, {5: 1}), Ball(Fraction(1)))


def test_tokens_within_sixteen_of_the_largest_logit_are_attended() -> None:
    low = np.array([[0.0, -16.0, -50.0], [-50.0, 3.0, -50.0], [-50.0, -50.0, 0.0]])
    high = low.copy()
    focus, partner = _attended(low, high, "here")
    assert focus.tolist() == [0, 1, 2]
    assert partner.tolist() == [ALONE] * 3
    high[0, 1] = np.nextafter(-16.0, 0)
    assert _attended(low, high, "here")[1].tolist() == [1, ALONE, ALONE]
    # Of 3 it is −13 and above that counts: here two tokens look at another, and one at none.
    high[1, 0] = high[1, 2] = -13.0
    assert _attended(low, high, "here")[1].tolist() == [1, ALONE, ALONE]
    for token, seen in ((1, "1, 2, 3"), (2, "1, 2, 3")):
        wide = high.copy()
        wide[token] = 3.0
        with pytest.raises(CertificationError, match=f"here: token {token + 1} .* tokens {seen} "):
            _attended(low, wide, "here")
    alone = np.array([[-50.0, 0.0], [-50.0, 0.0]])
    assert [part.tolist() for part in _attended(alone, alone, "")] == [[1, 1], [ALONE, ALONE]]
    both = np.array([[-50.0, 0.0, 0.0], [-50.0, 0.0, -50.0], [-50.0, -50.0, 0.0]])
    with pytest.raises(CertificationError, match="token 1 is not shown"):
        _attended(both, both, "")


def test_a_token_may_share_with_one_before_it() -> None:
    logits = np.array([[-50.0, -50.0, 0.0], [0.0, 0.0, -50.0], [-50.0, -50.0, 0.0]])
    focus, partner = _attended(logits, logits, "here")
    assert focus.tolist() == [2, 1, 2]
    assert partner.tolist() == [ALONE, 0, ALONE]


def test_heads_of_one_product_share_with_the_same_tokens() -> None:
    run = run_softmax(sharing({}, {}), Ball(Fraction(1)))
    (head,), (factors,) = run.shared[0].heads, run.shared[0].products
    other = replace(head, partner=np.array([2, ALONE, ALONE]))
    with pytest.raises(CertificationError, match="block 7: heads of one product share with diff"):
        _differences(factors.form, [head, other], run.tokens, Sharing(), 7)


def test_the_product_is_the_form_of_a_token_and_how_its_partner_differs() -> None:
    """z = s_i[a] (s_i[c] − s_p[c]), zero for those alone; with the wrong scale it is refused."""
    run = run_softmax(sharing({}, {}), Ball(Fraction(1)))
    (head,) = run.shared[0].heads
    t, shared = fmpq_poly([0, 1]), Sharing()
    own, partner, sink = run.tokens
    own, partner = own | {5: fmpq_poly([3])}, partner | {0: fmpq_poly([2]), 5: fmpq_poly([7])}
    sink = sink | {0: fmpq_poly([5])}
    form = (((0, 0), Fraction(1)), ((0, 5), Fraction(2)), ((4, 0), Fraction(1)))
    query, keys = {0: t}, [{0: t + 6}, {0: fmpq_poly([16])}, {}]
    ranges = head.queries.ranges
    seen = replace(
        head,
        queries=Projection([query, {}, {}], ranges),
        keys=Projection(keys, ranges),
        scale=Fraction(1),
    )
    found = _differences(form, [seen], [own, partner, sink], shared, 1)
    assert found == [t * t - 10 * t, 0, 0]
    twice = replace(seen, scale=Fraction(2), queries=Projection([{0: 2 * t}, {}, {}], ranges))
    assert _differences(form, [seen, twice], [own, partner, sink], shared, 1) == found
    for wrong in (replace(seen, scale=Fraction(2)), replace(twice, scale=Fraction(1))):
        with pytest.raises(CertificationError, match="block 1: the mask of token 1 adds"):
            _differences(form, [seen, wrong], [own, partner, sink], shared, 1)
    without = replace(seen, queries=Projection([{}, {}, {}], ranges))
    assert _differences((), [without], [own, partner, sink], shared, 1) == [0, 0, 0]


def test_an_answer_is_the_mean_of_two_values_moved_by_the_product() -> None:
    """(v + v')/2 + (v − v') ε z/4 in every dimension of either; those alone take one value."""
    (head,) = run_softmax(sharing({}, {}), Ball(Fraction(1))).shared[0].heads
    v = {2: Fraction(4), 4: Fraction(1), 5: Fraction(3)}
    w = {2: Fraction(4), 4: Fraction(5), 3: Fraction(7)}
    values, scale = [v, w, {4: Fraction(9)}], Fraction(1, 2)
    head = replace(head, values=values, scale=scale, focus=np.array([0, 0, 0]))
    t = fmpq_poly([0, 1])
    output: list[dict[int, fmpq_poly]] = [{4: t}, {}, {}]
    _attend(head, [t, fmpq_poly([]), fmpq_poly([])], output, Sharing())
    assert output[0] == {
        2: fmpq_poly([4]),
        3: fmpq_poly([fmpq(7, 2), fmpq(-7, 8)]),
        4: fmpq_poly([3, fmpq(1, 2)]),
        5: fmpq_poly([fmpq(3, 2), fmpq(3, 8)]),
    }
    assert output[1] == output[2] == {2: 4, 4: 1, 5: 3}


def test_constants_in_float64_are_split_from_the_rest() -> None:
    t = fmpq_poly([0, 1])
    for exact in (Fraction(-3, 2), Fraction(0), Fraction(2) ** 1000):
        assert _split(t + to_fmpq(exact)) == (float(exact), t)
    third = Fraction(1, 3)
    assert _split(t + to_fmpq(third)) == (1 / 3, t + to_fmpq(third - Fraction(1 / 3)))
    for large in (Fraction(10) ** 400, -(Fraction(10) ** 400)):
        assert _split(t + to_fmpq(large)) == (0.0, t + to_fmpq(large))


def test_a_mask_that_float64_does_not_hold_still_masks() -> None:
    """A key that is off by a billionth changes no token's attention, and no bound by much."""
    blueprint = blueprint_of()
    other = altered_head(blueprint, "key", {(2, 2): 1 + Fraction(3, 10**9)})
    assert other != blueprint
    run, before = (run_softmax(b, b.domain) for b in (other, blueprint))
    for mine, theirs in zip(run.shared[0].heads, before.shared[0].heads, strict=True):
        assert list(mine.focus) == list(theirs.focus)
        assert list(mine.partner) == list(theirs.partner)


def test_what_tokens_have_in_common_is_found_once() -> None:
    shared, a, b = Sharing(), fmpq_poly([1, 2]), fmpq_poly([3, 4])
    for find in (shared.product, shared.added):
        assert find(a, b) is find(a, b)
    assert shared.product(a, b) == a * b
    assert shared.added(a, b) == a + b
    assert shared.scaled(a, Fraction(3, 7)) is shared.scaled(a, Fraction(3, 7))
