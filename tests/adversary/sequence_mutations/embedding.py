"""Mutations of embedding, code and readout."""

from dataclasses import replace
from fractions import Fraction

from exactformer.core.matrix import Matrix
from exactformer.sequences.grid import GridTable
from tests.adversary.sequence_drafts import Draft, NotApplicableError, changed, small
from tests.adversary.sequence_mutations.layers import random_row
from tests.adversary.sequence_mutations.registry import Registry

MUTATIONS = Registry()
mutation = MUTATIONS.add


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
