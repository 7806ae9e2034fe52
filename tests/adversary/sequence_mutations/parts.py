"""Mutations of the parts of a stage: their order, and layers inserted among them."""

from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import (
    IDENTITY,
    Attention,
    FeedForward,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.sequences.blueprint import Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from tests.adversary.sequence_drafts import (
    Draft,
    NotApplicableError,
    is_feasible,
    known_codes,
    random_values,
    small,
)
from tests.adversary.sequence_mutations.layers import (
    code_row,
    in_turn,
    permutation,
    random_activation,
    random_attention,
    random_head,
    random_row,
    random_units,
)
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add


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
