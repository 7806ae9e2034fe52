"""Mutations of the units of feed-forward layers: weights, activations, order."""

from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import IDENTITY, RELU, FeedForward, PiecewiseLinear
from exactformer.core.matrix import Matrix
from tests.adversary.sequence_drafts import (
    Draft,
    NotApplicableError,
    Units,
    changed,
    has_units,
    is_piecewise,
    known_codes,
    small,
    taken,
    units_of,
    with_more,
    with_units,
)
from tests.adversary.sequence_mutations.layers import random_activation, random_row
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add


@mutation
def act_one_after_another_or_together(draft: Draft) -> None:
    place = draft.any_part(has_units)
    part = draft.part(place)
    units = units_of(part)
    draft.put(place, replace(units, successive=None if units.successive else 1))


@mutation
def change_hidden(draft: Draft) -> None:
    place = draft.any_part(lambda part: has_units(part) and units_of(part).successive is not None)
    part = units_of(draft.part(place))
    hidden = draft.rng.choice([2, 2, 3, 4, part.w1.rows or 1, 10**3, 0])
    draft.put(place, replace(part, successive=hidden))


@mutation
def permute_units(draft: Draft) -> None:
    place = draft.any_part(has_units)
    units = units_of(draft.part(place))
    order = list(range(units.w1.rows))
    draft.rng.shuffle(order)
    draft.put(place, with_units(draft.part(place), taken(units, order)))


@mutation
def drop_or_repeat_a_unit(draft: Draft) -> None:
    place = draft.any_part(has_units)
    units = units_of(draft.part(place))
    order = list(range(units.w1.rows))
    if not order:
        raise NotApplicableError
    m = draft.rng.choice(order)
    order = order[:m] + order[m + 1 :] if draft.rng.random() < 0.5 else [*order, m]
    draft.put(place, with_units(draft.part(place), taken(units, order)))


@mutation
def append_a_unit(draft: Draft) -> None:
    """Append a unit that writes nothing, to a free row, or to a row that is read."""
    rng = draft.rng
    place = draft.any_part(has_units)
    part = draft.part(place)
    units = units_of(part)
    if not units.w1.rows:
        raise NotApplicableError
    like = rng.randrange(units.w1.rows)
    w1 = {(0, r): v for r, v in units.w1.by_row.get(like, ())}
    if rng.random() < 0.2:
        w1 = {(0, random_row(draft)): small(rng)}
    bias = rng.choice([-rng.choice(known_codes(draft)), units.b1[like, 0] + small(rng), 10**9])
    w2 = {(random_row(draft), 0): small(rng)} if rng.random() < 0.4 else {}
    w = units.w2.rows
    more = Matrix.of(1, units.w1.columns, w1), Matrix.of(1, 1, {(0, 0): bias})
    draft.put(place, with_units(part, with_more(units, *more, Matrix.of(w, 1, w2))))


@mutation
def move_a_unit_that_writes_nothing(draft: Draft) -> None:
    """Move the key of a unit whose value is 0, and what is called the largest key with it."""
    place = draft.any_part(has_units)
    part = draft.part(place)
    units = units_of(part)
    idle = [m for m in range(units.w1.rows) if not units.w2.by_column.get(m)]
    if not idle:
        raise NotApplicableError
    shift = draft.unit() * draft.rng.choice([-1, 1, 7, 10**6, -(10**6)])
    moved = {(draft.rng.choice(idle), 0): units.b1[draft.rng.choice(idle), 0] - shift}
    fitted = replace(units, b1=changed(units.b1, moved))
    draft.put(place, with_units(part, fitted))
    keys = [-fitted.b1[m, 0] / draft.unit() for m in range(fitted.w1.rows)]
    draft.alter(largest_key=int(max(keys)))


@mutation
def exchange_an_activation(draft: Draft) -> None:
    place = draft.any_part(has_units)
    units = units_of(draft.part(place))
    w = units.w1, units.b1, units.w2, units.b2
    activation = random_activation(draft)
    fitted: Units = FeedForward(*w, activation)
    if draft.rng.random() < 0.2:
        fitted = FeedForward(*w, draft.rng.choice([RELU, IDENTITY]))
    draft.put(place, with_units(draft.part(place), fitted))


@mutation
def move_a_break(draft: Draft) -> None:
    place = draft.any_part(is_piecewise)
    units = units_of(draft.part(place))
    breaks = list(units.activation.breaks)
    if not breaks:
        raise NotApplicableError
    k = draft.rng.randrange(len(breaks))
    breaks[k] += (
        small(draft.rng)
        * draft.unit()
        * draft.rng.choice([Fraction(1, 4), Fraction(1, 2), 1, Fraction(1, 2**20)])
    )
    activation = PiecewiseLinear(tuple(breaks), units.activation.pieces)
    draft.put(place, with_units(draft.part(place), replace(units, activation=activation)))


@mutation
def add_a_piece(draft: Draft) -> None:
    """Cut a piece of an activation in two, and often change one of them."""
    rng = draft.rng
    place = draft.any_part(is_piecewise)
    units = units_of(draft.part(place))
    breaks, pieces = list(units.activation.breaks), list(units.activation.pieces)
    new = rng.choice([Fraction(0), *breaks, *known_codes(draft)]) + small(rng) * draft.unit()
    k = sum(b < new for b in breaks)
    if new in breaks:
        raise NotApplicableError
    piece = pieces[k]
    if rng.random() < 0.6:
        piece = (Fraction(rng.choice([0, 1, -1])), draft.unit() * rng.randint(-2, 2))
    breaks.insert(k, new)
    pieces.insert(k + rng.choice([0, 1]), piece)
    activation = PiecewiseLinear(tuple(breaks), tuple(pieces))
    draft.put(place, with_units(draft.part(place), replace(units, activation=activation)))


@mutation
def change_a_piece(draft: Draft) -> None:
    """Change slope or intercept of one piece of an activation."""
    rng = draft.rng
    place = draft.any_part(is_piecewise)
    units = units_of(draft.part(place))
    pieces = list(units.activation.pieces)
    k = rng.randrange(len(pieces))
    slope, intercept = pieces[k]
    factors = [Fraction(0), Fraction(1, 2), Fraction(-1), Fraction(2), Fraction(1, 100)]
    if rng.random() < 0.7:
        intercept = rng.choice([intercept * rng.choice(factors), intercept + draft.unit()])
    else:
        slope = Fraction(rng.choice([0, 1, -1]))
    pieces[k] = (slope, intercept)
    activation = PiecewiseLinear(units.activation.breaks, tuple(pieces))
    draft.put(place, with_units(draft.part(place), replace(units, activation=activation)))


@mutation
def change_a_weight(draft: Draft) -> None:
    """Change an entry of a feed-forward layer, or add one."""
    rng = draft.rng
    place = draft.any_part(has_units)
    units = units_of(draft.part(place))
    name = rng.choice(["w1", "b1", "w2", "b2"])
    matrix = getattr(units, name)
    if not matrix.rows or not matrix.columns:
        raise NotApplicableError
    entry = (rng.randrange(matrix.rows), rng.randrange(matrix.columns))
    value = rng.choice([Fraction(0), matrix[entry] + small(rng), small(rng), -matrix[entry]])
    fitted = replace(units, **{name: changed(matrix, {entry: value})})
    draft.put(place, with_units(draft.part(place), fitted))


@mutation
def write_to_another_row_too(draft: Draft) -> None:
    """Let the units of a part also write to another row what they write to one."""
    place = draft.any_part(has_units)
    units = units_of(draft.part(place))
    row, factor = random_row(draft), small(draft.rng)
    entries = {(row, m): v * factor for i, m, v in units.w2 if i != row}
    fitted = replace(units, w2=changed(units.w2, entries))
    draft.put(place, with_units(draft.part(place), fitted))


@mutation
def write_without_a_key(draft: Draft) -> None:
    """Move a constant to b₂: every unit of a part then writes so much less to that row."""
    place = draft.any_part(has_units)
    units = units_of(draft.part(place))
    row = random_row(draft)
    amount = small(draft.rng) * draft.rng.choice([1, 100, 10**6])
    w2 = {(row, m): units.w2[row, m] - amount for m in range(units.w1.rows)}
    b2 = {(row, 0): units.b2[row, 0] + amount}
    if draft.rng.random() < 0.5:
        w2 = {}
    fitted = replace(units, w2=changed(units.w2, w2), b2=changed(units.b2, b2))
    draft.put(place, with_units(draft.part(place), fitted))
