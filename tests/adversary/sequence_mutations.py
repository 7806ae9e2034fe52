"""Mutations of sequence blueprints: what a file could hold that no construction makes."""

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import (
    IDENTITY,
    RELU,
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.sequences.blueprint import SequenceEmbedding, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.grid import GridTable
from tests.adversary.sequence_drafts import (
    INDICATOR,
    RUNS_BADLY,
    STEP,
    Draft,
    NotApplicableError,
    Units,
    changed,
    has_units,
    is_attention,
    is_feasible,
    is_piecewise,
    known_codes,
    random_value,
    random_values,
    refit,
    small,
    taken,
    units_of,
    with_more,
    with_units,
)

Mutation = Callable[[Draft], None]
MUTATIONS: dict[str, Mutation] = {}
STAGES = ("quantise", "contextual mapping", "reject", "values", "clip")


def mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__.replace("_", " ")] = function
    return function


def mutate(draft: Draft, names: list[str]) -> None:
    """Apply mutations; those that find nothing to change are left out."""
    for name in names:
        before = (draft.blueprint, draft.table)
        try:
            MUTATIONS[name](draft)
        except (NotApplicableError, *RUNS_BADLY):
            draft.blueprint, draft.table = before
            continue
        if (draft.blueprint, draft.table) != before:
            draft.mutations.append(name)


# Layers to insert


def random_row(draft: Draft) -> int:
    return draft.rng.randrange(draft.blueprint.width)


def code_row(draft: Draft) -> Matrix:
    """Return what reads a token's id or key, in the units of the stream."""
    unit = draft.unit()
    code = draft.blueprint.code
    return Matrix.of(1, code.columns, {p: v * unit for p, v in code.entries.items()})


def random_read(draft: Draft) -> Matrix:
    """Return a row that reads the code, nothing, or some row."""
    rng, w = draft.rng, draft.blueprint.width
    if rng.random() < 0.7:
        return code_row(draft)
    entries = {(0, random_row(draft)): small(rng) for _ in range(rng.randint(0, 2))}
    return Matrix.of(1, w, entries)


def random_head(draft: Draft) -> Head:
    """Return a head of size one whose bias is near an id or a key, or a tie."""
    rng, w = draft.rng, draft.blueprint.width
    half = draft.unit() * Fraction(rng.choice([0, 1, 1, -1]), 2)
    bias = half - rng.choice([Fraction(0), *known_codes(draft)])
    target = rng.choice([random_row(draft), *(r for _, r in draft.blueprint.code.entries)])
    weight = small(rng) * rng.choice([1, 1, draft.grid.points])
    read = random_read(draft)
    value = Matrix.of(w, w, {(target, r): weight * v for _, r, v in read})
    query, key = random_read(draft), random_read(draft)
    if rng.random() < 0.2:
        return Head(query, key, value)
    return BiasedHead(query, key, value, Matrix.of(1, 1, {(0, 0): bias}))


def negated(head: Head) -> Head:
    value = head.value
    opposite = {place: -v for place, v in value.entries.items()}
    return replace(head, value=Matrix.of(*value.shape, opposite))


def random_attention(draft: Draft) -> Attention:
    """Return one head, two, or two that cancel where they select the same token."""
    rng = draft.rng
    first = random_head(draft)
    heads: tuple[Head, ...] = (first,)
    kind = rng.random()
    if kind < 0.5:
        second = negated(first)
        if isinstance(second, BiasedHead):
            moved = second.bias[0, 0] + draft.unit() * small(rng)
            second = replace(second, bias=Matrix.of(1, 1, {(0, 0): moved}))
        heads = (first, second)
    elif kind < 0.6:
        heads = (first, random_head(draft))
    elif kind < 0.65:
        heads = ()
    return Attention(heads, Selection(Rule.HARD_MAX))


def random_activation(draft: Draft) -> PiecewiseLinear:
    """Return a function of the blueprint, a usual one, or one made of random pieces."""
    rng, unit = draft.rng, draft.unit()
    own = [
        units_of(part).activation
        for stage in draft.blueprint.stages
        for part in stage.parts[:2]
        if is_piecewise(part)
    ]
    goal = rng.choice(known_codes(draft))
    usual = [
        PiecewiseLinear.of((), ((0, 0),)),
        PiecewiseLinear.of((), ((1, 0),)),
        PiecewiseLinear.of((), ((0, 1),)),
        STEP,
        PiecewiseLinear.of((-unit / 2, unit / 2), ((0, 0), (0, 1), (0, 0)))
        if unit > 0
        else INDICATOR,
        PiecewiseLinear.of((0,), ((-1, 0), (0, 0))),
        PiecewiseLinear.of((0,), ((-1, goal), (0, 0))),
        PiecewiseLinear.of((0,), ((0, goal), (0, 0))),
        PiecewiseLinear.of((goal,), ((0, 0), (-1, rng.choice(known_codes(draft))))),
    ]
    breaks = sorted({unit * Fraction(rng.randint(-4, 8), 2) for _ in range(rng.randint(1, 2))})
    pieces = [(rng.choice([0, 0, 1, -1]), rng.randint(-2, 2) * unit) for _ in (*breaks, None)]
    return rng.choice([*own, *usual, PiecewiseLinear.of(breaks, pieces)])


def random_units(draft: Draft) -> FeedForward:
    """Return one to three units that read the code or a row and write to few rows, or to none."""
    rng, w = draft.rng, draft.blueprint.width
    count = rng.randint(1, 3)
    w1: dict[tuple[int, int], Fraction] = {}
    b1, w2 = {}, {}
    for m in range(count):
        if rng.random() < 0.5:
            w1.update({(m, r): v for _, r, v in code_row(draft)})
        else:
            w1[m, random_row(draft)] = Fraction(1)
        b1[m, 0] = -rng.choice([Fraction(0), *known_codes(draft)])
        for _ in range(rng.choice([0, 1, 1, 2])):
            w2[random_row(draft), m] = small(rng)
    return FeedForward(
        Matrix.of(count, w, w1),
        Matrix.of(count, 1, b1),
        Matrix.of(w, count, w2),
        Matrix.of(w, 1, {(random_row(draft), 0): small(rng)} if rng.random() < 0.15 else {}),
        random_activation(draft),
    )


def at_keys(draft: Draft, moves: dict[Fraction, Fraction]) -> FeedForward:
    """Return units that add so much to a row of the code at certain codes."""
    code, w, unit = draft.blueprint.code, draft.blueprint.width, draft.unit()
    row = next((r for _, r, v in code if v * unit == 1), None)
    if row is None or unit <= 0:
        raise NotApplicableError
    keys = list(moves)
    reads = {(m, r): v * unit for m in range(len(keys)) for _, r, v in code}
    return FeedForward(
        Matrix.of(len(keys), w, reads),
        Matrix.of(len(keys), 1, {(m, 0): -key for m, key in enumerate(keys)}),
        Matrix.of(w, len(keys), {(row, m): moves[key] for m, key in enumerate(keys)}),
        Matrix.of(w, 1, {}),
        PiecewiseLinear.of((-unit / 2, unit / 2), ((0, 0), (0, 1), (0, 0))),
    )


def permutation(draft: Draft) -> tuple[FeedForward, FeedForward]:
    """Return look-ups that permute a few codes, and the inverse."""
    codes = sorted(set(known_codes(draft)))
    size = min(len(codes), draft.rng.randint(2, 3))
    cycle = draft.rng.sample(codes, size)
    there = {a: b - a for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)}
    back = {b: a - b for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)}
    return at_keys(draft, there), at_keys(draft, back)


def in_turn(draft: Draft, units: Units, share: float = 0.5) -> Layer:
    return replace(units, successive=1) if draft.rng.random() < share else units


# Stages


@mutation
def swap_stages(draft: Draft) -> None:
    stages = list(draft.blueprint.stages)
    i, j = (draft.rng.randrange(len(stages)) for _ in range(2))
    stages[i], stages[j] = stages[j], stages[i]
    draft.alter(stages=tuple(stages))


@mutation
def swap_contents_of_stages(draft: Draft) -> None:
    stages = draft.blueprint.stages
    i, j = (draft.rng.randrange(len(stages)) for _ in range(2))
    first, second = stages[i].parts, stages[j].parts
    draft.put_parts(i, second)
    draft.put_parts(j, first)


@mutation
def duplicate_a_stage(draft: Draft) -> None:
    s = draft.any_stage()
    stages = draft.blueprint.stages
    copy = replace(stages[s], name=draft.rng.choice([stages[s].name, *STAGES]))
    draft.alter(stages=(*stages[: s + 1], copy, *stages[s + 1 :]))


@mutation
def rename_a_stage(draft: Draft) -> None:
    s = draft.any_stage()
    draft.put_parts(s, draft.blueprint.stages[s].parts, draft.rng.choice([*STAGES, "other"]))


@mutation
def empty_a_stage(draft: Draft) -> None:
    draft.put_parts(draft.any_stage(), ())


@mutation
def drop_a_stage(draft: Draft) -> None:
    s = draft.any_stage()
    stages = draft.blueprint.stages
    draft.alter(stages=(*stages[:s], *stages[s + 1 :]))


@mutation
def add_a_stage(draft: Draft) -> None:
    """Add a stage of few layers, mostly a reject stage where it belongs."""
    rng, stages = draft.rng, draft.blueprint.stages
    parts: list[Layer] = []
    for _ in range(rng.choice([0, 1, 1, 2])):
        layer = rng.choice([random_attention, random_units])(draft)
        if isinstance(layer, FeedForward):
            parts.append(in_turn(draft, layer))
        else:
            parts.append(layer)
    usual = rng.random() < 0.8
    name = "reject" if usual else rng.choice(STAGES)
    place = len(stages) - 1 if usual else rng.randint(0, len(stages))
    draft.alter(stages=(*stages[:place], Stage(name, tuple(parts)), *stages[place:]))


@mutation
def move_a_part_to_the_next_stage(draft: Draft) -> None:
    """Cut the layers into stages at another place; what is computed stays."""
    s = draft.rng.randrange(len(draft.blueprint.stages) - 1)
    first, second = draft.blueprint.stages[s].parts, draft.blueprint.stages[s + 1].parts
    if draft.rng.random() < 0.5 and first:
        first, second = first[:-1], (first[-1], *second)
    elif second:
        first, second = (*first, second[0]), second[1:]
    draft.put_parts(s, first)
    draft.put_parts(s + 1, second)


# Parts


@mutation
def swap_parts(draft: Draft) -> None:
    s = draft.any_stage()
    parts = list(draft.blueprint.stages[s].parts)
    if len(parts) < 2:
        raise NotApplicableError
    i, j = draft.rng.sample(range(len(parts)), 2)
    parts[i], parts[j] = parts[j], parts[i]
    draft.put_parts(s, tuple(parts))


@mutation
def duplicate_a_part(draft: Draft) -> None:
    place = draft.any_part()
    draft.put(place, draft.part(place), draft.part(place))


@mutation
def drop_a_part(draft: Draft) -> None:
    draft.put(draft.any_part())


@mutation
def copy_a_part_to_a_stage(draft: Draft) -> None:
    draft.insert(draft.any_stage(), draft.part(draft.any_part()))


@mutation
def insert_attention(draft: Draft) -> None:
    draft.insert(draft.any_stage(), random_attention(draft))


@mutation
def insert_attention_and_its_inverse_for_one_token(draft: Draft) -> None:
    """Add a·z of a selected token, then divide by 1 + a: nothing where a token selects itself."""
    w, rng = draft.blueprint.width, draft.rng
    factor = Fraction(rng.choice([1, 1, 2, 3]))
    rows = [random_row(draft)] if rng.random() < 0.5 else list(range(w))
    head = random_head(draft)
    value = Matrix.of(w, w, {(r, r): factor for r in rows})
    back = FeedForward(
        Matrix.of(len(rows), w, dict.fromkeys(enumerate(rows), 1)),
        Matrix.of(len(rows), 1, {}),
        Matrix.of(w, len(rows), {(r, m): -factor / (1 + factor) for m, r in enumerate(rows)}),
        Matrix.of(w, 1, {}),
        IDENTITY,
    )
    attention = Attention((replace(head, value=value),), Selection(Rule.HARD_MAX))
    draft.insert(draft.any_stage(), attention, back)


@mutation
def insert_units(draft: Draft) -> None:
    draft.insert(draft.any_stage(), in_turn(draft, random_units(draft)))


@mutation
def insert_units_that_read_a_coordinate(draft: Draft) -> None:
    """Insert a unit of the form that the quantiser is made of."""
    rng, w = draft.rng, draft.blueprint.width
    row = rng.randrange(draft.blueprint.dim)
    writes = {(random_row(draft), 0): small(rng)} if rng.random() < 0.5 else {}
    units = FeedForward(
        Matrix.of(1, w, {(0, row): 1}),
        Matrix.of(1, 1, {(0, 0): -rng.choice([Fraction(0), *known_codes(draft)])}),
        Matrix.of(w, 1, writes),
        Matrix.of(w, 1, {}),
        random_activation(draft),
    )
    draft.insert(draft.any_stage("quantise"), in_turn(draft, units))


@mutation
def insert_a_permutation_of_codes(draft: Draft) -> None:
    there, back = permutation(draft)
    stage = draft.any_stage("contextual mapping", "reject")
    if draft.rng.random() < 0.5:
        draft.insert(stage, in_turn(draft, there), in_turn(draft, back))
    else:
        draft.insert(stage, in_turn(draft, there, 0.2))


@mutation
def insert_layers_that_undo_each_other(draft: Draft) -> None:
    """Insert a constant and its opposite, or a row's doubling and its halving."""
    rng, w, row = draft.rng, draft.blueprint.width, random_row(draft)
    amount = small(rng) * rng.choice([1, draft.unit(), 10**6])
    nothing = Matrix.of(0, w, {}), Matrix.of(0, 1, {}), Matrix.of(w, 0, {})
    parts: tuple[Layer, ...]
    if rng.random() < 0.5:
        parts = tuple(
            FeedForward(*nothing, Matrix.of(w, 1, {(row, 0): v})) for v in (amount, -amount)
        )
    else:
        read = Matrix.of(1, w, {(0, row): 1}), Matrix.of(1, 1, {})
        parts = tuple(
            FeedForward(
                *read,
                Matrix.of(w, 1, {(row, 0): v}),
                Matrix.of(w, 1, {}),
                PiecewiseLinear.of((), ((1, 0),)),
            )
            for v in (Fraction(1), -Fraction(1, 2))
        )
    draft.insert(draft.any_stage(), *parts)


@mutation
def insert_a_layer_that_writes_nothing(draft: Draft) -> None:
    rng, w = draft.rng, draft.blueprint.width
    if rng.random() < 0.3:
        layer: Layer = replace(
            random_attention(draft), heads=(replace(random_head(draft), value=Matrix.of(w, w, {})),)
        )
    else:
        units = random_units(draft)
        layer = in_turn(draft, replace(units, w2=Matrix.of(*units.w2.shape, {})))
    draft.insert(draft.any_stage(), layer)


@mutation
def insert_units_for_negative_codes(draft: Draft) -> None:
    """Insert a unit that leaves inside codes alone and moves negative ones, perhaps to a key."""
    rng, w = draft.rng, draft.blueprint.width
    read = code_row(draft)
    row = next((r for _, r, v in read if v == 1), None)
    if row is None:
        raise NotApplicableError
    goal = rng.choice(known_codes(draft))
    units = FeedForward(
        read,
        Matrix.of(1, 1, {}),
        Matrix.of(w, 1, {(row, 0): 1}),
        Matrix.of(w, 1, {}),
        PiecewiseLinear.of((0,), (rng.choice([(-1, goal), (-2, 0), (-1, 0), (0, goal)]), (0, 0))),
    )
    stage = draft.any_stage("contextual mapping", "reject")
    if rng.random() < 0.5:
        stages = draft.blueprint.stages
        own = Stage("reject", (in_turn(draft, units),))
        draft.alter(stages=(*stages[:-1], own, stages[-1]))
    else:
        draft.insert(stage, in_turn(draft, units))


@mutation
def take_a_stage_from_another_grid(draft: Draft) -> None:
    """Take the stage that the same form has for another number of cells or tokens."""
    rng, grid = draft.rng, draft.grid
    other = replace(
        grid,
        cells=max(1, grid.cells + rng.choice([-1, 0, 1])),
        tokens=max(1, grid.tokens + rng.choice([-1, 0, 0, 1])),
        positional=grid.positional != (rng.random() < 0.2),
    )
    form = draft.blueprint.form
    if form not in SEQUENCE_FORMS or not is_feasible(other, form):
        raise NotApplicableError
    stranger = SEQUENCE_FORMS[form](random_values(rng, other))
    s = draft.any_stage()
    if s >= len(stranger.stages):
        raise NotApplicableError
    draft.put_parts(s, stranger.stages[s].parts)


# Units


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


# Attention


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


# Embedding, code, readout


@mutation
def change_positions(draft: Draft) -> None:
    """Add, remove or permute positions, whatever the flag says."""
    rng, embedding = draft.rng, draft.blueprint.embedding
    n = embedding.positions.columns
    kind = rng.randrange(4)
    entries = dict(embedding.positions.entries)
    if kind == 0:
        entries = {}
    elif kind == 1:
        order = rng.sample(range(n), n)
        entries = {(r, order[i]): v for (r, i), v in entries.items()}
    else:
        row = random_row(draft)
        rows = [row] if kind == 2 else [r for _, r in draft.blueprint.code.entries]
        factor = rng.choice([Fraction(1), Fraction(1), Fraction(draft.grid.points), small(rng)])
        for r in rows:
            entries.update({(r, i): i * factor for i in range(n)})
    positions = Matrix.of(*embedding.positions.shape, entries)
    draft.alter(embedding=replace(embedding, positions=positions))


@mutation
def flip_positional(draft: Draft) -> None:
    """Flip the flag, and reduce the table to sorted classes or extend it by equivariance."""
    grid, values = draft.grid, draft.table.values
    flipped = replace(grid, positional=not grid.positional)
    if flipped.size > 400 or not flipped.size:
        raise NotApplicableError
    nothing = ((Fraction(0),) * grid.dim,) * grid.tokens
    table = {}
    for ids in flipped.classes():
        ordered = tuple(sorted(ids))
        known = values.get(ordered, nothing)
        table[ids] = tuple(known[ordered.index(k)] for k in ids)
        if grid.positional:
            table[ids] = known
    draft.table = GridTable(flipped, table)
    draft.alter(positional=not grid.positional)


@mutation
def flip_positional_of_one_side(draft: Draft) -> None:
    if draft.rng.random() < 0.5:
        draft.alter(positional=not draft.blueprint.positional)
    else:
        draft.regrid(positional=not draft.grid.positional)


@mutation
def flip_repeats(draft: Draft) -> None:
    draft.regrid(repeats=not draft.grid.repeats)


@mutation
def change_the_embedding(draft: Draft) -> None:
    rng, embedding = draft.rng, draft.blueprint.embedding
    name = rng.choice(["features", "constant"])
    matrix = getattr(embedding, name)
    entry = (rng.randrange(matrix.rows), rng.randrange(matrix.columns))
    value = rng.choice([Fraction(0), small(rng), matrix[entry] + small(rng), 2 * matrix[entry]])
    draft.alter(embedding=replace(embedding, **{name: changed(matrix, {entry: value})}))


@mutation
def change_the_code(draft: Draft) -> None:
    rng, code = draft.rng, draft.blueprint.code
    if rng.random() < 0.5:
        factor = small(rng)
        entries = {p: v * factor for p, v in code.entries.items()}
        draft.alter(code=Matrix.of(*code.shape, entries))
    else:
        entry = {(0, random_row(draft)): rng.choice([Fraction(0), small(rng)])}
        draft.alter(code=changed(code, entry))


@mutation
def change_the_readout(draft: Draft) -> None:
    rng, readout = draft.rng, draft.blueprint.readout
    kind, factor = rng.randrange(3), small(rng)
    if kind == 0:
        entries = {p: v * factor for p, v in readout.entries.items()}
    elif kind == 1:
        entries = {(readout.rows - 1 - i, j): v for i, j, v in readout}
    else:
        entry = (rng.randrange(readout.rows), rng.randrange(readout.columns))
        entries = {**readout.entries, entry: rng.choice([Fraction(0), factor])}
    draft.alter(readout=Matrix.of(*readout.shape, entries))


# Names and numbers beside the weights


@mutation
def change_the_form(draft: Draft) -> None:
    forms = ["compact", "paper", "four-layer", "other"]
    draft.alter(form=draft.rng.choice(forms))


@mutation
def change_the_realisation(draft: Draft) -> None:
    draft.alter(realisation=draft.rng.choice(["hard", "softmax-relu", "other"]))


@mutation
def change_the_largest_key(draft: Draft) -> None:
    old = draft.blueprint.largest_key
    draft.alter(largest_key=draft.rng.choice([0, old + 1, old - 1, 2**60, -old]))


@mutation
def change_the_cells(draft: Draft) -> None:
    """Change δ, in blueprint and table or in one of them."""
    cells = max(1, draft.grid.cells + draft.rng.choice([-1, 1]))
    kind = draft.rng.randrange(4)
    if kind < 2:
        draft.alter(delta=Fraction(1, cells))
    if kind > 0:
        draft.regrid(cells=cells)
    if kind == 3:
        draft.alter(delta=Fraction(2, 2 * cells + 1))


@mutation
def change_the_support(draft: Draft) -> None:
    low, high = draft.grid.support
    side = (high - low) / draft.grid.cells
    support = draft.rng.choice([(low, high + side), (low - side, high), (low, high - side)])
    if support[0] >= support[1]:
        raise NotApplicableError
    kind = draft.rng.randrange(3)
    if kind < 2:
        draft.alter(support=support)
    if kind > 0:
        draft.regrid(support=support)


@mutation
def change_the_number_of_tokens(draft: Draft) -> None:
    n = max(1, draft.grid.tokens + draft.rng.choice([-1, 1]))
    embedding = draft.blueprint.embedding
    kept = {(r, i): v for r, i, v in embedding.positions if i < n}
    positions = Matrix.of(embedding.positions.rows, n, kept)
    if draft.rng.random() < 0.7:
        draft.alter(embedding=replace(embedding, positions=positions))
    draft.alter(tokens=n)
    draft.regrid(tokens=n)


@mutation
def change_the_names_of_rows(draft: Draft) -> None:
    names = draft.blueprint.dimensions
    kind = draft.rng.randrange(3)
    draft.alter(dimensions=((*names, "more"), names[:-1], names[::-1])[kind])


@mutation
def change_the_metadata(draft: Draft) -> None:
    metadata = {"sharpness": draft.rng.choice(["1", "1000", "0", "x"]), "ramp": "3"}
    draft.alter(metadata={**draft.blueprint.metadata, **metadata})


# The whole blueprint


def _by_rows(draft: Draft, place: list[int], width: int, scale: list[Fraction]) -> None:
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
    _by_rows(draft, draft.rng.sample(range(w), w), w, [Fraction(1)] * w)


@mutation
def add_free_rows(draft: Draft) -> None:
    w = draft.blueprint.readout.columns
    more = draft.rng.randint(1, 2)
    place = sorted(draft.rng.sample(range(w + more), w))
    _by_rows(draft, place, w + more, [Fraction(1)] * w)


@mutation
def scale_a_row(draft: Draft) -> None:
    w = draft.blueprint.readout.columns
    scale = [Fraction(1)] * w
    scale[draft.rng.randrange(w)] = small(draft.rng)
    _by_rows(draft, list(range(w)), w, scale)


@mutation
def merge_rows(draft: Draft) -> None:
    """Let two rows of the stream be one."""
    w = draft.blueprint.readout.columns
    first, second = draft.rng.randrange(w), draft.rng.randrange(w)
    place = [first if r == second else r for r in range(w)]
    _by_rows(draft, place, w, [Fraction(1)] * w)


@mutation
def fit_the_values_anew(draft: Draft) -> None:
    refit(draft)


@mutation
def change_values_of_blueprint_and_table(draft: Draft) -> None:
    values = dict(draft.table.values)
    ids = draft.rng.choice(list(values))
    column = tuple(random_value(draft.rng) for _ in range(draft.grid.dim))
    if draft.rng.random() < 0.3:
        column = (draft.rng.choice(known_codes(draft)), *column[1:])
    values[ids] = tuple(
        column if draft.grid.positional or k == ids[0] else old
        for k, old in zip(ids, values[ids], strict=True)
    )
    draft.table = GridTable(draft.grid, values)
    refit(draft)


@mutation
def change_values_of_the_table(draft: Draft) -> None:
    values = dict(draft.table.values)
    ids = draft.rng.choice(list(values))
    j = draft.rng.randrange(draft.grid.tokens)
    column = tuple(random_value(draft.rng) for _ in range(draft.grid.dim))
    values[ids] = (*values[ids][:j], column, *values[ids][j + 1 :])
    draft.table = GridTable(draft.grid, values)


def random_names(rng: random.Random, most: int = 4) -> list[str]:
    """Return one to so many mutations, one most often."""
    count = rng.choice([1, 1, 1, 2, 2, 3, most])
    names = [rng.choice(list(MUTATIONS)) for _ in range(count)]
    if rng.random() < 0.35:
        names.insert(rng.randint(1, count), "fit the values anew")
    return names
