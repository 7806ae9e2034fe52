"""Sequence blueprints and their tables in one safetensors file, lossless and without pickle.

Matrices that occur many times are stored once. All entries are two tensors, ``matrices.place`` (int64,
k × 3: matrix, row, column) and ``matrices.value`` (bytes: hexadecimal ``numerator/denominator``, one a
line); ``table.class`` and ``table.value`` hold the target in the same manner. The header says as JSON
how the layers are made of the matrices, and a SHA-256 seals the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.blueprint.layers import (
    Activation,
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    PiecewiseFeedForward,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.blueprint.matrix import Matrix
from exactformer.blueprint.sealing import Tensors, has_format, read_sealed, sealed
from exactformer.blueprint.sequence import (
    Layer,
    Part,
    SequenceBlueprint,
    SequenceEmbedding,
    Stage,
    Successive,
)
from exactformer.blueprint.sequence_table import Grid, GridTable
from exactformer.blueprint.storing import rational, rational_text, write_tensors
from exactformer.errors import FileFormatError

FORMAT = "exactformer-sequence-1"
_FEED_FORWARD = ("w1", "b1", "w2", "b2")


def save_sequence(blueprint: SequenceBlueprint, table: GridTable, path: str | Path) -> None:
    """Write a blueprint and its target; an existing file is replaced only once all is written."""
    write_tensors(*_encode(blueprint, table), path)


def sequence_digest(blueprint: SequenceBlueprint, table: GridTable) -> str:
    """Return a SHA-256 over every weight, name and value: equal for equal models only."""
    return _encode(blueprint, table)[1]["seal"]


def is_sequence_file(path: str | Path) -> bool:
    """Whether a file says that it holds a sequence model."""
    return has_format(path, FORMAT)


def load_sequence(path: str | Path) -> tuple[SequenceBlueprint, GridTable]:
    """Read a blueprint and its target; anything that is not what was saved raises."""
    return read_sealed(path, FORMAT, "sequence model", _rebuild)


class _Pool:
    """Matrices by number; equal ones have one number."""

    def __init__(self) -> None:
        self.matrices: list[Matrix] = []
        self._known: dict[tuple[int, int, frozenset[Any]], int] = {}

    def number(self, matrix: Matrix) -> int:
        content = (*matrix.shape, frozenset(matrix.entries.items()))
        if content not in self._known:
            self._known[content] = len(self.matrices)
            self.matrices.append(matrix)
        return self._known[content]

    def tensors(self) -> Tensors:
        entries = [(m, i, j, v) for m, matrix in enumerate(self.matrices) for i, j, v in matrix]
        return {
            "matrices.place": np.array([e[:3] for e in entries], dtype=np.int64).reshape(-1, 3),
            "matrices.value": _text(e[3] for e in entries),
        }


def _encode(blueprint: SequenceBlueprint, table: GridTable) -> tuple[Tensors, dict[str, str]]:
    pool = _Pool()
    embedding, grid = blueprint.embedding, table.grid
    low, high = blueprint.support
    description = {
        "tokens": blueprint.tokens,
        "dim": blueprint.dim,
        "cells": blueprint.cells,
        "form": blueprint.form,
        "positional": blueprint.positional,
        "repeats": grid.repeats,
        "support": [rational_text(low), rational_text(high)],
        "realisation": blueprint.realisation,
        "dimensions": blueprint.dimensions,
        "largest_key": f"{blueprint.largest_key:x}",
        "metadata": dict(blueprint.metadata),
        "embedding": [
            pool.number(m) for m in (embedding.features, embedding.constant, embedding.positions)
        ],
        "readout": pool.number(blueprint.readout),
        "code": pool.number(blueprint.code),
        "stages": [
            [stage.name, [_describe(part, pool) for part in stage.parts]]
            for stage in blueprint.stages
        ],
    }
    classes = list(table.values)
    tensors = {
        **pool.tensors(),
        "table.class": np.array(classes, dtype=np.int64).reshape(-1, grid.tokens),
        "table.value": _text(v for c in classes for column in table.values[c] for v in column),
    }
    description["shapes"] = [matrix.shape for matrix in pool.matrices]
    return tensors, sealed(FORMAT, description, tensors)


def _describe(part: Part, pool: _Pool) -> dict[str, Any]:
    if isinstance(part, Successive):
        several = {} if part.hidden == 1 else {"hidden": part.hidden}
        return {"successive": _describe(part.units, pool), **several}
    if isinstance(part, Attention):
        names = ("query", "key", "value", "bias")
        heads = [[pool.number(getattr(h, n)) for n in names if hasattr(h, n)] for h in part.heads]
        rule, temperature = part.selection.rule.value, part.selection.temperature
        return {"heads": heads, "selection": [rule, rational_text(temperature)]}
    activation: Any = part.activation
    if isinstance(activation, PiecewiseLinear):
        activation = [
            [rational_text(b) for b in activation.breaks],
            [[rational_text(v) for v in piece] for piece in activation.pieces],
        ]
    return {
        "weights": [pool.number(getattr(part, name)) for name in _FEED_FORWARD],
        "activation": activation,
    }


def _rebuild(
    description: Mapping[str, Any], tensors: Tensors
) -> tuple[SequenceBlueprint, GridTable]:
    matrices = _matrices(description["shapes"], tensors)

    def layer(data: Mapping[str, Any]) -> Layer:
        if "heads" in data:
            rule, temperature = data["selection"]
            heads = tuple(
                (BiasedHead if len(numbers) == 4 else Head)(*(matrices[m] for m in numbers))
                for numbers in data["heads"]
            )
            return Attention(heads, Selection(Rule(rule), rational(temperature)))
        return feed_forward(data)

    def feed_forward(data: Mapping[str, Any]) -> FeedForward | PiecewiseFeedForward:
        w1, b1, w2, b2 = (matrices[m] for m in data["weights"])
        if isinstance(data["activation"], str):
            return FeedForward(w1, b1, w2, b2, Activation(data["activation"]))
        breaks, pieces = data["activation"]
        lines = tuple((rational(slope), rational(intercept)) for slope, intercept in pieces)
        activation = PiecewiseLinear(tuple(map(rational, breaks)), lines)
        return PiecewiseFeedForward(w1, b1, w2, b2, activation)

    def part(data: Mapping[str, Any]) -> Part:
        if "successive" in data:
            return Successive(feed_forward(data["successive"]), int(data.get("hidden", 1)))
        return layer(data)

    low, high = map(rational, description["support"])
    blueprint = SequenceBlueprint(
        tokens=int(description["tokens"]),
        dim=int(description["dim"]),
        delta=Fraction(1, int(description["cells"])),
        form=str(description["form"]),
        positional=bool(description["positional"]),
        support=(low, high),
        realisation=str(description["realisation"]),
        dimensions=tuple(description["dimensions"]),
        embedding=SequenceEmbedding(*(matrices[m] for m in description["embedding"])),
        stages=tuple(Stage(name, tuple(map(part, ps))) for name, ps in description["stages"]),
        readout=matrices[description["readout"]],
        code=matrices[description["code"]],
        largest_key=int(description["largest_key"], 16),
        metadata={str(k): str(v) for k, v in description["metadata"].items()},
    )
    return blueprint, _table(blueprint, bool(description["repeats"]), tensors)


def _matrices(shapes: list[list[int]], tensors: Tensors) -> list[Matrix]:
    entries: list[dict[tuple[int, int], Fraction]] = [{} for _ in shapes]
    values = _numbers(tensors["matrices.value"])
    for (m, i, j), value in zip(tensors["matrices.place"].tolist(), values, strict=True):
        entries[m][i, j] = value
    return [Matrix(i, j, content) for (i, j), content in zip(shapes, entries, strict=True)]


def _table(blueprint: SequenceBlueprint, repeats: bool, tensors: Tensors) -> GridTable:
    n, d = blueprint.tokens, blueprint.dim
    grid = Grid(n, d, blueprint.cells, blueprint.positional, repeats, blueprint.support)
    numbers = _numbers(tensors["table.value"])
    classes = [grid.check(tuple(ids)) for ids in tensors["table.class"].tolist()]
    if len(numbers) != len(classes) * n * d or len(set(classes)) != grid.size:
        raise FileFormatError("the table does not have one value for every class of its grid")
    columns = [tuple(numbers[k : k + d]) for k in range(0, len(numbers), d)]
    return GridTable(grid, {c: tuple(columns[m * n : (m + 1) * n]) for m, c in enumerate(classes)})


def _text(values: Any) -> NDArray[Any]:
    return np.frombuffer("\n".join(map(rational_text, values)).encode(), dtype=np.uint8)


def _numbers(text: NDArray[Any]) -> list[Fraction]:
    lines = text.astype(np.uint8).tobytes().decode("ascii").split("\n") if text.size else []
    return [rational(line) for line in lines]
