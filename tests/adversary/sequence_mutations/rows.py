"""Mutations of the stream as a whole: its rows permuted, added, scaled, merged."""

from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import Attention, Layer
from exactformer.core.matrix import Matrix
from exactformer.sequences.blueprint import SequenceEmbedding, Stage
from tests.adversary.sequence_drafts import Draft, NotApplicableError, small
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add


def by_rows(draft: Draft, place: list[int], width: int, scale: list[Fraction]) -> None:
    """Send row r of the stream to row ``place[r]``, ``scale[r]`` times as large."""

    def reading(m: Matrix) -> Matrix:
        return Matrix.of(m.rows, width, {(i, place[j]): v / scale[j] for i, j, v in m})

    def writing(m: Matrix) -> Matrix:
        return Matrix.of(width, m.columns, {(place[i], j): v * scale[i] for i, j, v in m})

    def part(old: Layer) -> Layer:
        if isinstance(old, Attention):
            heads = tuple(
                replace(
                    head,
                    query=reading(head.query),
                    key=reading(head.key),
                    value=writing(reading(head.value)),
                )
                for head in old.heads
            )
            return replace(old, heads=heads)
        return replace(old, w1=reading(old.w1), w2=writing(old.w2), b2=writing(old.b2))

    blueprint = draft.blueprint
    embedding = blueprint.embedding
    if any(r >= len(place) for _, r in blueprint.readout.entries):
        raise NotApplicableError
    names = [f"free {k}" for k in range(width)]
    for r, name in enumerate(blueprint.dimensions[: len(place)]):
        names[place[r]] = name
    draft.alter(
        dimensions=tuple(names),
        embedding=SequenceEmbedding(
            writing(embedding.features), writing(embedding.constant), writing(embedding.positions)
        ),
        stages=tuple(Stage(s.name, tuple(map(part, s.parts))) for s in blueprint.stages),
        readout=reading(blueprint.readout),
        code=reading(blueprint.code),
    )


@mutation
def permute_rows(draft: Draft) -> None:
    w = draft.blueprint.readout.columns
    by_rows(draft, draft.rng.sample(range(w), w), w, [Fraction(1)] * w)


@mutation
def add_free_rows(draft: Draft) -> None:
    w = draft.blueprint.readout.columns
    more = draft.rng.randint(1, 2)
    place = sorted(draft.rng.sample(range(w + more), w))
    by_rows(draft, place, w + more, [Fraction(1)] * w)


@mutation
def scale_a_row(draft: Draft) -> None:
    w = draft.blueprint.readout.columns
    scale = [Fraction(1)] * w
    scale[draft.rng.randrange(w)] = small(draft.rng)
    by_rows(draft, list(range(w)), w, scale)


@mutation
def merge_rows(draft: Draft) -> None:
    """Let two rows of the stream be one."""
    w = draft.blueprint.readout.columns
    first, second = draft.rng.randrange(w), draft.rng.randrange(w)
    place = [first if r == second else r for r in range(w)]
    by_rows(draft, place, w, [Fraction(1)] * w)
