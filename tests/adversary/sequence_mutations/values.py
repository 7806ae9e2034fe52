"""Mutations of the values of a table, and of blueprints fitted to them."""

from exactformer.sequences.grid import GridTable
from tests.adversary.sequence_drafts import Draft, known_codes, random_value, refit
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add


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
