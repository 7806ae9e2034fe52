"""Layers of the same kind in one sweep: what a sequence blueprint computes, in three quick modules.

All N layers that collapse the cells of a coordinate are one search among the cells' edges; all
selective shifts are n steps over the tokens in the order of their ids, since a layer moves only columns
of its own id; all value layers are one look-up among the keys. Everything is counted in cells, so that
all numbers are integers, exact in float64 while they are below 2^53.

The edges are rounded *up* to floats: a float lies below such an edge exactly when it lies below the
rational one, so every float falls into the cell that exact arithmetic gives it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor, nn

from exactformer.algebra.rational import to_float
from exactformer.core.layers import RELU, Attention, FeedForward
from exactformer.core.upper import float_above
from exactformer.errors import ExecutionError, RoundingError
from exactformer.sequences.blueprint import SequenceBlueprint


@dataclass(frozen=True)
class Sweeps:
    """A sequence blueprint, read: every number in units of cells."""

    edges: tuple[Fraction, ...]
    """The N + 1 edges of the cells, in the coordinates of the input."""
    outside: int
    """What the quantiser makes of a coordinate outside the support."""
    read: tuple[int, ...]
    """u, over the coordinates."""
    strides: tuple[int, ...]
    """What the position of a token adds to its id."""
    factor: int
    """K of the selective shifts; of the four-layer form's sums."""
    global_shift: int
    """G; 0 in the four-layer form."""
    numbers: tuple[int, ...]
    """The four-layer form's number of every id, then that of all others; else empty."""
    keys: tuple[int, ...]
    """Ascending."""
    values: tuple[tuple[Fraction, ...], ...]
    """One column for every key."""


def read_sweeps(blueprint: SequenceBlueprint) -> Sweeps:
    """Read the sweeps off a blueprint's weights. They are its function where it is certified."""
    low, high = blueprint.support
    N = blueprint.cells
    edges = tuple(low + (high - low) * Fraction(k, N) for k in range(N + 1))
    sums = isinstance(blueprint.stage("contextual mapping").parts[0], FeedForward)
    return (_read_sums if sums else _read_shifts)(blueprint, edges)


def _read_shifts(blueprint: SequenceBlueprint, edges: tuple[Fraction, ...]) -> Sweeps:
    d, code = blueprint.dim, blueprint.code
    if not all(code[0, r] for r in range(d)):
        raise ExecutionError("the code does not read every coordinate")
    unit = 1 / code[0, 0]  # u_1 = 1
    weights = {r: u * unit for _, r, u in code}
    mapping = blueprint.stage("contextual mapping").parts
    last = mapping[-1]
    outside = blueprint.stage("quantise").parts[-1]
    if not (
        isinstance(last, Attention) and isinstance(outside, FeedForward) and outside.successive
    ):
        raise ExecutionError(f"the stages are not those of form={blueprint.form!r}")
    away = outside.activation
    if away == RELU:
        raise ExecutionError("only the hard realisation has sweeps")
    positions = blueprint.embedding.positions
    strides = [
        sum((w * positions[r, i] / unit for r, w in weights.items()), Fraction(0))
        for i in range(blueprint.tokens)
    ]
    units = _units(blueprint)
    keys = [-units.b1[m, 0] / unit for m in range(units.w1.rows)]
    ascending, values = _sorted_table(blueprint, keys, units)
    return Sweeps(
        edges=edges,
        outside=_whole(away.pieces[0][1] / unit),
        read=tuple(_whole(weights[r]) for r in range(d)),
        strides=tuple(_whole(stride) for stride in strides),
        factor=len(mapping) - 1,
        global_shift=_whole(last.heads[0].value[0, 0]),
        numbers=(),
        keys=ascending,
        values=values,
    )


def _read_sums(blueprint: SequenceBlueprint, edges: tuple[Fraction, ...]) -> Sweeps:
    d, N, n = blueprint.dim, blueprint.cells, blueprint.tokens
    row = next(r for _, r, _ in blueprint.code)
    count = blueprint.stage("quantise").parts[0]
    number, total = (*blueprint.stage("contextual mapping").parts, None, None)[:2]
    if not (
        len(blueprint.stage("contextual mapping")) == 2
        and isinstance(count, FeedForward)
        and isinstance(number, FeedForward)
        and count.successive is number.successive is None
        and isinstance(total, Attention)
        and total.heads[0].value.nonzeros
    ):
        raise ExecutionError("the stages are not those of form='four-layer'")
    # A coordinate outside takes from the id what the unit of its first edge would have given.
    read = tuple(_whole(count.w2[row, r * (N + 1) + 1]) if N > 1 else 1 for r in range(d))
    _, source, weight = next(iter(total.heads[0].value))
    numbers = {_whole(-number.b1[m, 0]): number.w2[source, m] for m in range(number.w1.rows)}
    if sorted(numbers) != list(range(number.w1.rows)):
        raise ExecutionError("the units that look up numbers do not have the ids 0, 1, 2, …")
    rest = number.b2[source, 0]
    units = _units(blueprint)
    keys = [-units.b1[m, 0] for m in range(units.w1.rows)]
    ascending, values = _sorted_table(blueprint, keys, units)
    return Sweeps(
        edges=edges,
        outside=-_whole(count.w2[row, 0]),
        read=read,
        strides=tuple(_whole(blueprint.embedding.positions[row, i]) for i in range(n)),
        factor=_whole(weight / n),
        global_shift=0,
        numbers=(*(_whole(numbers[k] + rest) for k in range(len(numbers))), _whole(rest)),
        keys=ascending,
        values=values,
    )


def _units(blueprint: SequenceBlueprint) -> FeedForward:
    units = blueprint.stage("values").parts[0]
    if isinstance(units, Attention) or units.activation == RELU:
        raise ExecutionError("only the hard realisation has sweeps")
    return units


def _sorted_table(
    blueprint: SequenceBlueprint, keys: list[Fraction], units: FeedForward
) -> tuple[tuple[int, ...], tuple[tuple[Fraction, ...], ...]]:
    readout = blueprint.readout
    in_place = any(units.w2.by_row.get(row) for _, row, _ in blueprint.code)
    columns = []
    for m, key in enumerate(keys):
        written = dict(units.w2.by_column.get(m, ()))
        if in_place:
            for row, entry in enumerate(_column(blueprint, key)):
                written[row] = written.get(row, Fraction(0)) + entry
        value = [Fraction(0)] * blueprint.dim
        for r, row, weight in readout:
            value[r] += weight * written.get(row, Fraction(0))
        columns.append(tuple(value))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return tuple(_whole(keys[m]) for m in order), tuple(columns[m] for m in order)


def _column(blueprint: SequenceBlueprint, key: Fraction) -> list[Fraction]:
    """Return the column that has a key in the paper's form, where it stands in the value's rows.

    Shifts are multiples of K, so the key leaves the id, and the id its digits.
    """
    d, N, delta = blueprint.dim, blueprint.cells, blueprint.delta
    factor = len(blueprint.stage("contextual mapping")) - 1
    if factor < (blueprint.tokens if blueprint.positional else 1):
        raise ExecutionError("there are fewer shifts than positions: this is not the paper's form")
    column = _whole(key) % factor
    position = 0
    if blueprint.positional:
        stride = factor // blueprint.tokens
        position, column = divmod(column, stride)
    cells = [column // N**r % N + position * N for r in range(d)]
    cells[0] = _whole(key) - sum(N**r * q for r, q in enumerate(cells) if r)
    return [q * delta for q in cells]


def _whole(value: Fraction) -> int:
    if value.denominator != 1:
        raise ExecutionError(f"{value} should be an integer: this is no blueprint of the theorem")
    return value.numerator


def _float(value: Fraction) -> float:
    nearest = to_float(value)
    if math.isinf(nearest):
        raise RoundingError(
            f"a number of {abs(value).__floor__().bit_length()} bits is beyond float64, whose largest "
            "is below 2^1024"
        )
    return nearest


class Quantiser(nn.Module):
    """Coordinates ``(..., n, d)`` to the numbers of their cells, 0 … N − 1; the rest far away."""

    edges: Tensor

    def __init__(self, sweeps: Sweeps) -> None:
        super().__init__()
        edges = [float_above(edge) for edge in sweeps.edges]
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float64))
        self.outside = _float(Fraction(sweeps.outside))

    def forward(self, x: Tensor) -> Tensor:
        """Return the cells."""
        cell = torch.searchsorted(self.edges, x.contiguous(), right=True) - 1
        return cell.to(x.dtype).where(self.inside(x), self.outside)

    def inside(self, x: Tensor) -> Tensor:
        """Return which coordinates lie in the support."""
        return (x >= self.edges[0]) & (x < self.edges[-1])


class ContextualMapping(nn.Module):
    """Cells ``(..., n, d)`` to codes ``(..., n)``: integers that tell a token and its context."""

    read: Tensor
    strides: Tensor

    def __init__(self, sweeps: Sweeps) -> None:
        super().__init__()
        self.register_buffer("read", torch.tensor(sweeps.read, dtype=torch.float64))
        self.register_buffer("strides", torch.tensor(sweeps.strides, dtype=torch.float64))
        self.factor, self.global_shift = float(sweeps.factor), float(sweeps.global_shift)

    def forward(self, cells: Tensor) -> Tensor:
        """Return the codes."""
        ids = self.ids(cells)
        codes = self.shifted(ids)
        largest, smallest = codes.amax(-1, keepdim=True), codes.amin(-1, keepdim=True)
        mean = codes.mean(-1, keepdim=True)  # of a column at 0 all scores are equal
        chosen = torch.where(codes > 0, largest, torch.where(codes < 0, smallest, mean))
        return codes + self.global_shift * chosen

    def ids(self, cells: Tensor) -> Tensor:
        """Return uᵀz, positions included."""
        return cells @ self.read + self.strides

    def shifted(self, ids: Tensor) -> Tensor:
        """Return the columns after all selective shifts."""
        codes = ids
        ascending = ids.sort(dim=-1).values
        for j in range(ids.shape[-1]):
            met = ascending[..., j : j + 1]
            turn = met >= 0
            if j:
                turn = turn & (met != ascending[..., j - 1 : j])
            reach = codes.amax(-1, keepdim=True) - codes.amin(-1, keepdim=True)
            codes = torch.where(turn & (ids == met), codes + self.factor * reach, codes)
        return codes


class SumMapping(ContextualMapping):
    """The four-layer form: the sum of the tokens' numbers tells the context."""

    numbers: Tensor

    def __init__(self, sweeps: Sweeps) -> None:
        super().__init__(sweeps)
        self.register_buffer("numbers", torch.tensor(sweeps.numbers, dtype=torch.float64))

    def forward(self, cells: Tensor) -> Tensor:
        """Return the codes."""
        ids = self.ids(cells)
        none = len(self.numbers) - 1
        place = ids.where((ids >= 0) & (ids < none), none).long()
        return ids + self.factor * self.numbers[place].sum(dim=-1, keepdim=True)


class ValueMap(nn.Module):
    """Codes ``(..., n)`` to values ``(..., n, d)``; what is no key to 0."""

    keys: Tensor
    values: Tensor

    def __init__(self, sweeps: Sweeps, dim: int) -> None:
        super().__init__()
        # A last entry that no code can equal keeps the table from being empty.
        keys = [*map(float, sweeps.keys), math.inf]
        values = [*([_float(v) for v in column] for column in sweeps.values), [0.0] * dim]
        self.register_buffer("keys", torch.tensor(keys, dtype=torch.float64))
        self.register_buffer("values", torch.tensor(values, dtype=torch.float64))

    def forward(self, codes: Tensor) -> Tensor:
        """Return the values."""
        place = torch.searchsorted(self.keys, codes.contiguous()).clamp(max=len(self.keys) - 1)
        found = (self.keys[place] == codes).unsqueeze(-1)
        return self.values[place].where(found, 0.0)


class SequenceSweeps(nn.Module):
    """The three stages of a sequence blueprint, one sweep each."""

    def __init__(self, blueprint: SequenceBlueprint) -> None:
        super().__init__()
        sweeps = read_sweeps(blueprint)
        self.quantiser = Quantiser(sweeps)
        self.contextual_mapping = (SumMapping if sweeps.numbers else ContextualMapping)(sweeps)
        self.value_map = ValueMap(sweeps, blueprint.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return the values of sequences ``(..., n, d)``; with a coordinate outside they are 0."""
        values: Tensor = self.value_map(self.contextual_mapping(self.quantiser(x)))
        return values.where(self.quantiser.inside(x).all(-1).all(-1)[..., None, None], 0.0)
