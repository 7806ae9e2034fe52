"""Mutations of attention layers: heads, biases, selections."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import Attention, BiasedHead, Head, Rule, Selection
from exactformer.core.matrix import Matrix
from tests.adversary.sequence_drafts import Draft, NotApplicableError, changed, is_attention, small
from tests.adversary.sequence_mutations.layers import random_attention, random_head, random_row
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add


def _with_head(draft: Draft, change: Callable[[Head], Head]) -> None:
    place = draft.any_part(is_attention)
    layer = draft.part(place)
    assert isinstance(layer, Attention)
    if not layer.heads:
        raise NotApplicableError
    h = draft.rng.randrange(len(layer.heads))
    heads = (*layer.heads[:h], change(layer.heads[h]), *layer.heads[h + 1 :])
    draft.put(place, replace(layer, heads=heads))


@mutation
def add_a_head(draft: Draft) -> None:
    place = draft.any_part(is_attention)
    layer = draft.part(place)
    assert isinstance(layer, Attention)
    more: tuple[Head, ...] = (random_head(draft),)
    if draft.rng.random() < 0.5:
        more = random_attention(draft).heads
    draft.put(place, replace(layer, heads=(*layer.heads, *more)))


@mutation
def move_a_bias(draft: Draft) -> None:
    rng = draft.rng
    steps = [Fraction(1, 2), Fraction(1, 4), Fraction(1), Fraction(1, 2 ** rng.randint(3, 70))]

    def moved(head: Head) -> Head:
        old = head.bias[0, 0] if isinstance(head, BiasedHead) else Fraction(0)
        bias = old + small(rng) * rng.choice(steps) * draft.unit()
        return BiasedHead(
            head.query, head.key, head.value, Matrix.of(head.query.rows, 1, {(0, 0): bias})
        )

    _with_head(draft, moved)


@mutation
def change_a_matrix_of_a_head(draft: Draft) -> None:
    rng = draft.rng
    name = rng.choice(["query", "key", "value", "value"])

    def altered(head: Head) -> Head:
        matrix = getattr(head, name)
        if rng.random() < 0.4:
            factor = small(rng)
            entries = {p: v * factor for p, v in matrix.entries.items()}
            return replace(head, **{name: Matrix.of(*matrix.shape, entries)})
        entry = (rng.randrange(matrix.rows), rng.randrange(matrix.columns))
        return replace(head, **{name: changed(matrix, {entry: rng.choice([0, small(rng)])})})

    _with_head(draft, altered)


@mutation
def widen_a_head(draft: Draft) -> None:
    """Give query and key a second row, of zeros or not."""
    rng, w = draft.rng, draft.blueprint.width

    def widened(head: Head) -> Head:
        rows = head.query.rows + 1
        more = {} if rng.random() < 0.5 else {(rows - 1, random_row(draft)): small(rng)}
        query = Matrix.of(rows, w, {**head.query.entries, **more})
        key = Matrix.of(rows, w, dict(head.key.entries))
        if isinstance(head, BiasedHead):
            bias = Matrix.of(rows, 1, dict(head.bias.entries))
            return BiasedHead(query, key, head.value, bias)
        return Head(query, key, head.value)

    _with_head(draft, widened)


@mutation
def exchange_a_selection(draft: Draft) -> None:
    place = draft.any_part(is_attention)
    layer = draft.part(place)
    assert isinstance(layer, Attention)
    rule = draft.rng.choice(list(Rule))
    temperature = draft.rng.choice([Fraction(1), Fraction(1, 100), Fraction(-1), Fraction(0)])
    draft.put(place, replace(layer, selection=Selection(rule, temperature)))


@mutation
def drop_selective_shifts(draft: Draft) -> None:
    """Keep a part of the attention layers only."""
    s = draft.any_stage("contextual mapping")
    parts = draft.blueprint.stages[s].parts
    kept = tuple(part for part in parts if draft.rng.random() < 0.6)
    draft.put_parts(s, kept)
