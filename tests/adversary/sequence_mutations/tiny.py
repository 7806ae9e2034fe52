"""Numbers that float64 barely holds, or that are read as zero where they are flushed."""

from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import Attention, BiasedHead, Layer, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.grid import GridTable
from tests.adversary.sequence_drafts import (
    Draft,
    NotApplicableError,
    changed,
    has_units,
    is_piecewise,
    units_of,
)
from tests.adversary.sequence_mutations.registry import Registry
from tests.adversary.sequence_mutations.rows import by_rows
from tests.adversary.tiny_numbers import tiny_number

MUTATIONS = Registry()
mutation = MUTATIONS.add


def _rescaled(part: Layer, scale: Fraction) -> Layer:
    """Return a part of the same function whose units, or whose queries, are so much larger."""

    def times(m: Matrix) -> Matrix:
        return Matrix.of(m.rows, m.columns, {place: scale * v for place, v in m.entries.items()})

    if isinstance(part, Attention):
        heads = [replace(head, query=times(head.query)) for head in part.heads]
        return replace(
            part,
            heads=tuple(
                replace(h, bias=times(h.bias)) if isinstance(h, BiasedHead) else h for h in heads
            ),
        )
    function = part.activation
    activation = PiecewiseLinear.of(
        [scale * end for end in function.breaks], [(a / scale, b) for a, b in function.pieces]
    )
    return replace(part, w1=times(part.w1), b1=times(part.b1), activation=activation)


@mutation
def scale_a_row_by_a_tiny_number(draft: Draft) -> None:
    w = draft.blueprint.readout.columns
    scale = [Fraction(1)] * w
    scale[draft.rng.randrange(w)] = tiny_number(draft.rng) ** draft.rng.choice([1, -1])
    by_rows(draft, list(range(w)), w, scale)


@mutation
def scale_a_part_by_a_tiny_number(draft: Draft) -> None:
    """Scale what units or queries read, and nothing that they do."""
    place = draft.any_part()
    draft.put(place, _rescaled(draft.part(place), tiny_number(draft.rng)))


@mutation
def scale_cells_by_a_tiny_number(draft: Draft) -> None:
    scale_cells(draft, tiny_number(draft.rng) ** draft.rng.choice([1, 1, 1, -1]))


def scale_cells(draft: Draft, scale: Fraction) -> None:
    """Let a cell of the stream measure so much less, or more."""
    w = draft.blueprint.readout.columns
    by_rows(draft, list(range(w)), w, [scale] * w)
    for s, stage in enumerate(draft.blueprint.stages):
        parts = [_rescaled(part, scale) for part in stage.parts]
        heads = [
            replace(
                part,
                heads=tuple(
                    replace(
                        h, key=Matrix.of(1, w, {p: scale * v for p, v in h.key.entries.items()})
                    )
                    for h in part.heads
                ),
            )
            if isinstance(part, Attention)
            else part
            for part in parts
        ]
        draft.put_parts(s, tuple(heads))


@mutation
def move_a_break_to_a_tiny_number(draft: Draft) -> None:
    place = draft.any_part(is_piecewise)
    units = units_of(draft.part(place))
    breaks = list(units.activation.breaks)
    k = draft.rng.randrange(len(breaks))
    breaks[k] = tiny_number(draft.rng) * (1 if breaks[k] > 0 else -1)
    activation = PiecewiseLinear.of(breaks, units.activation.pieces)
    draft.put(place, replace(units, activation=activation))


@mutation
def make_values_tiny(draft: Draft) -> None:
    scale = tiny_number(draft.rng)
    values = {
        ids: tuple(
            tuple(v * (scale if draft.rng.random() < 0.7 else 1) for v in column)
            if draft.grid.positional
            else tuple(v * scale for v in column)
            for column in columns
        )
        for ids, columns in draft.table.values.items()
    }
    draft.table = GridTable(draft.grid, values)
    draft.blueprint = SEQUENCE_FORMS[draft.blueprint.form](draft.table)


@mutation
def take_a_tiny_support(draft: Draft) -> None:
    """Scale the support, or let one of its ends be nearly 0."""
    low, high = draft.grid.support
    scale = tiny_number(draft.rng)
    low, high = draft.rng.choice(
        [(low * scale, high * scale), (low / scale, high / scale), (-scale, high), (scale, high)]
    )
    if low >= high:
        raise NotApplicableError
    draft.regrid(support=(low, high))
    draft.blueprint = SEQUENCE_FORMS[draft.blueprint.form](draft.table)


@mutation
def change_a_weight_to_a_tiny_number(draft: Draft) -> None:
    place = draft.any_part(has_units)
    units = units_of(draft.part(place))
    name = draft.rng.choice(["w1", "b1", "w2", "b2"])
    matrix = getattr(units, name)
    entry = draft.rng.randrange(matrix.rows), draft.rng.randrange(matrix.columns)
    value = matrix[entry] * draft.rng.choice([0, 1]) + tiny_number(draft.rng)
    draft.put(place, replace(units, **{name: changed(matrix, {entry: value})}))
