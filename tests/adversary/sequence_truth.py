"""What a certified sequence model does, found by running it, against what its certificate claims."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import floor

import torch
from torch import Tensor

from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.grid import Columns, Grid, GridTable
from exactformer.sequences.proof.certify import SequenceCertificate
from exactformer.sequences.run.exact import run_sequence
from tests.adversary.sequence_interpreter import Interpreter, NotHardError

Token = tuple[Fraction, ...]
MOST_ORDERS = 64
"""Sequences of cells that are tried; all of them where there are no more."""
OWN_RUNS = 2
"""Inputs that are also run by the package's own exact arithmetic."""
NEARLY = 1 - Fraction(1, 2**40)


@dataclass(frozen=True)
class Trial:
    """An input and what the table makes of it; the output of an input outside is 0."""

    tokens: tuple[Token, ...]
    wanted: Columns
    outside: bool


def wanted_columns(table: GridTable, tokens: Sequence[Token]) -> tuple[Columns, bool]:
    """Return what the tokens should go to, by the definition of a table, and whether one is outside."""
    grid = table.grid
    low, high = grid.support
    nothing: Columns = ((Fraction(0),) * grid.dim,) * grid.tokens
    if any(not low <= v < high for token in tokens for v in token):
        return nothing, True
    side = (high - low) / grid.cells
    ids = tuple(
        sum(floor((v - low) / side) * grid.cells**r for r, v in enumerate(token))
        for token in tokens
    )
    if grid.positional:
        return table.values.get(ids, nothing), False
    name = tuple(sorted(ids))
    known = table.values.get(name, nothing)
    return tuple(known[name.index(k)] for k in ids), False


def trials(table: GridTable, rng: random.Random) -> list[Trial]:
    """Return inputs of all orders of classes, at several places of their cells, and outside."""
    grid = table.grid
    count = grid.points**grid.tokens
    if count <= MOST_ORDERS:
        orders = list(product(range(grid.points), repeat=grid.tokens))
    else:
        orders = [
            tuple(rng.choices(range(grid.points), k=grid.tokens)) for _ in range(MOST_ORDERS // 2)
        ]
        shuffled = rng.sample(list(table.values), min(len(table.values), MOST_ORDERS // 2))
        orders += [tuple(rng.sample(ids, len(ids))) for ids in shuffled]
    inputs = [tuple(grid.centre(k) for k in ids) for ids in orders]
    for ids in rng.sample(orders, min(len(orders), 16)):
        inputs.append(tuple(grid.corner(k) for k in ids))
        inputs.append(tuple(grid.place(k, NEARLY) for k in ids))
        inputs.append(tuple(_somewhere(grid, k, rng) for k in ids))
    inputs += _outside(grid, rng)
    return [Trial(x, *wanted_columns(table, x)) for x in inputs]


def _somewhere(grid: Grid, column: int, rng: random.Random) -> Token:
    low, high = grid.support
    unit = (high - low) / grid.cells
    cells = grid.coordinates(column)
    return tuple(low + unit * (q + Fraction(rng.randrange(1, 128), 128)) for q in cells)


def _outside(grid: Grid, rng: random.Random) -> Iterator[tuple[Token, ...]]:
    """Yield inputs with one coordinate outside, or more."""
    low, high = grid.support
    span = high - low
    side = span / grid.cells
    places = [high, low - side / 2, high + side / 2, low - side * Fraction(1, 2**30)]
    places += [low + k * span for k in (-7, -2, -1, 1, 2, 5, 1000, -1000)]
    places += [low + side * (rng.randint(-40, -1) + Fraction(1, 2)) for _ in range(6)]
    places += [high + side * (rng.randint(0, 40) + Fraction(1, 2)) for _ in range(6)]
    for place in places:
        tokens = [
            list(_somewhere(grid, rng.randrange(grid.points), rng)) for _ in range(grid.tokens)
        ]
        for i in rng.sample(range(grid.tokens), rng.choice([1, 1, grid.tokens])):
            tokens[i][rng.randrange(grid.dim)] = place
        yield tuple(map(tuple, tokens))


def inputs_of(found: Sequence[Trial]) -> Tensor:
    """Return inputs in float64, rounded."""
    return torch.tensor(
        [[[float(v) for v in token] for token in trial.tokens] for trial in found],
        dtype=torch.float64,
    )


def false_in_layers(
    blueprint: SequenceBlueprint,
    certificate: SequenceCertificate,
    found: Sequence[Trial],
    rng: random.Random,
) -> str | None:
    """Return an input that the layers, in rational arithmetic, do not treat as is claimed."""
    claimed = [trial for trial in found if certificate.outside or not trial.outside]
    try:
        run = Interpreter(blueprint)
    except NotHardError as error:
        return f"layers: {error} is not a hard maximum"
    for trial in claimed:
        output = run(trial.tokens)
        if output != trial.wanted:
            return differing(trial, shown(output))
    for trial in rng.sample(claimed, min(OWN_RUNS, len(claimed))):
        if tuple(map(tuple, run_sequence(blueprint, trial.tokens))) != trial.wanted:
            return f"own run: {shown(trial.tokens)} does not come out as {shown(trial.wanted)}"
    return None


def false_counts(
    blueprint: SequenceBlueprint, certificate: SequenceCertificate, table: GridTable
) -> str | None:
    """Return a number of a certificate that runs of all classes do not confirm."""
    grid = table.grid
    every = (
        grid.points**grid.tokens
        if grid.positional
        else sum(1 for _ in combinations_with_replacement(range(grid.points), grid.tokens))
    )
    if certificate.classes != grid.size or certificate.rejected != every - grid.size:
        return f"counts: {certificate.classes} classes, {certificate.rejected} rejected"
    run = Interpreter(blueprint)
    keys = [key for ids in grid.classes() for key in run.keys([grid.centre(k) for k in ids])]
    claimed = certificate.smallest_key, certificate.largest_key
    if claimed != (min(keys), max(keys)):
        return f"keys: from {min(keys)} to {max(keys)}, claimed {claimed}"
    if certificate.key_bits != max(-min(keys), max(keys)).numerator.bit_length():
        return f"keys: {certificate.key_bits} bits claimed for {min(keys)} to {max(keys)}"
    return None


def differing(trial: Trial, output: str) -> str:
    """Describe an input whose output is not the wanted one."""
    kind = "outside" if trial.outside else "table"
    return f"{kind}: {shown(trial.tokens)} comes out as {output}, not as {shown(trial.wanted)}"


def shown(columns: Sequence[Sequence[Fraction]]) -> str:
    """Return columns in short."""
    return str([[round(float(v), 12) for v in column] for column in columns])
