"""Sequence blueprints and their tables in one safetensors file, lossless and without pickle.

Matrices that occur many times are stored once. All entries are two tensors, ``matrices.place`` (int64,
k × 3: matrix, row, column) and ``matrices.value`` (bytes: hexadecimal ``numerator/denominator``, one
per line); ``table.class`` and ``table.value`` hold the target in the same manner. The header describes
as JSON how the layers are made of the matrices, and a SHA-256 seals the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core import header
from exactformer.core.files import Tensors, read_sealed, sealed, write_tensors
from exactformer.core.header import rational_text
from exactformer.core.idleness import check_idleness
from exactformer.core.layers import (
    ACTIVATIONS,
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
    activation_called,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import FileFormatError
from exactformer.sequences.blueprint import SequenceBlueprint, SequenceEmbedding, Stage
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.shapes import check_sequence_shapes

FORMAT = "exactformer-sequence-1"
FINEST_RAMP = 64
"""Ramps of 2^(−k) of a cell; float64 resolves fewer."""
_FEED_FORWARD = ("w1", "b1", "w2", "b2")


def save_sequence(blueprint: SequenceBlueprint, table: GridTable, path: str | Path) -> None:
    """Write a blueprint and its target; an existing file is replaced only once all is written."""
    write_tensors(*_encode(blueprint, table), path)


def sequence_digest(blueprint: SequenceBlueprint, table: GridTable) -> str:
    """Return a SHA-256 over every weight, name and value: equal for equal models only."""
    return _encode(blueprint, table)[1]["seal"]


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


def _describe(part: Layer, pool: _Pool) -> dict[str, Any]:
    if isinstance(part, Attention):
        names = ("query", "key", "value", "bias")
        heads = [[pool.number(getattr(h, n)) for n in names if hasattr(h, n)] for h in part.heads]
        rule, temperature = part.selection.rule.value, part.selection.temperature
        return {"heads": heads, "selection": [rule, rational_text(temperature)]}
    function = part.activation
    units = {
        "weights": [pool.number(getattr(part, name)) for name in _FEED_FORWARD],
        "activation": function.name
        if function in ACTIVATIONS.values()
        else [
            [rational_text(b) for b in function.breaks],
            [[rational_text(v) for v in piece] for piece in function.pieces],
        ],
    }
    if part.successive is None:
        return units
    return {"successive": units, **({} if part.successive == 1 else {"hidden": part.successive})}


def _rebuild(fields: Any, tensors: Tensors) -> tuple[SequenceBlueprint, GridTable]:
    description = header.mapping(fields, "the description")

    def field(name: str) -> Any:
        return header.entry(description, name)

    matrices = _matrices(field("shapes"), tensors)
    low, high = header.list_of(field("support"), "support", header.rational, 2, 2)
    n = header.integer(field("tokens"), "tokens", 1)
    d = header.integer(field("dim"), "dim", 1)
    cells = header.integer(field("cells"), "cells", 1)
    positional = header.flag(field("positional"), "positional")
    repeats = header.flag(field("repeats"), "repeats")
    table = _table(Grid(n, d, cells, positional, repeats, (low, high)), tensors)
    layers = _Layers(matrices)
    blueprint = SequenceBlueprint(
        tokens=n,
        dim=d,
        delta=Fraction(1, cells),
        form=header.text(field("form"), "form"),
        positional=positional,
        support=(low, high),
        realisation=header.text(field("realisation"), "realisation"),
        dimensions=header.names(field("dimensions"), "dimensions", 1),
        embedding=SequenceEmbedding(
            *header.list_of(field("embedding"), "embedding", layers.matrix, 3, 3)
        ),
        stages=header.list_of(field("stages"), "stages", layers.stage, 1),
        readout=layers.matrix(field("readout"), "readout"),
        code=layers.matrix(field("code"), "code"),
        largest_key=_key(field("largest_key")),
        metadata=_metadata(header.texts(field("metadata"), "metadata")),
    )
    check_sequence_shapes(blueprint)
    check_idleness(
        (f"{stage.name}, part {k}", part)
        for stage in blueprint.stages
        for k, part in enumerate(stage.parts, start=1)
    )
    return blueprint, table


@dataclass(frozen=True)
class _Layers:
    """Layers read from the header, made of matrices by number."""

    matrices: list[Matrix]

    def matrix(self, value: Any, name: str) -> Matrix:
        return self.matrices[header.integer(value, name, 0, len(self.matrices) - 1)]

    def stage(self, value: Any, name: str) -> Stage:
        title, parts = header.list_of(value, name, _anything, 2, 2)
        return Stage(header.text(title, name), header.list_of(parts, name, self.part, 1))

    def part(self, value: Any, name: str) -> Layer:
        fields = header.mapping(value, name)
        if "successive" in fields:
            several = header.integer(fields.get("hidden", 1), f"hidden of {name}", 1)
            return self.feed_forward(header.mapping(fields["successive"], name), name, several)
        return (
            self.attention(fields, name) if "heads" in fields else self.feed_forward(fields, name)
        )

    def attention(self, fields: Mapping[str, Any], name: str) -> Attention:
        rule, temperature = header.list_of(
            header.entry(fields, "selection"), name, header.text, 2, 2
        )
        selection = Selection(header.choice(rule, name, Rule), header.rational(temperature, name))
        return Attention(header.list_of(fields["heads"], name, self.head, 1), selection)

    def head(self, value: Any, name: str) -> Head:
        query, key, values, *bias = header.list_of(value, name, self.matrix, 3, 4)
        return BiasedHead(query, key, values, *bias) if bias else Head(query, key, values)

    def feed_forward(
        self, fields: Mapping[str, Any], name: str, successive: int | None = None
    ) -> FeedForward:
        w1, b1, w2, b2 = header.list_of(header.entry(fields, "weights"), name, self.matrix, 4, 4)
        activation = header.entry(fields, "activation")
        if isinstance(activation, str):
            function = header.choice(activation, name, activation_called)
            return FeedForward(w1, b1, w2, b2, function, successive)
        breaks, pieces = header.list_of(activation, f"activation of {name}", _anything, 2, 2)
        function = PiecewiseLinear(
            header.list_of(breaks, f"breaks of {name}", header.rational),
            header.list_of(pieces, f"pieces of {name}", _line, 1),
        )
        return FeedForward(w1, b1, w2, b2, function, successive)


def _anything(value: Any, name: str) -> Any:
    return value


def _line(value: Any, name: str) -> tuple[Fraction, Fraction]:
    slope, intercept = header.list_of(value, name, header.rational, 2, 2)
    return slope, intercept


def _key(value: Any) -> int:
    key = header.rational(f"{header.text(value, 'largest_key')}/1", "largest_key")
    return int(key)


def _metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Return the metadata, numbers in it checked: a short text may spell an enormous one."""
    sharpness, ramp = metadata.get("sharpness", "1"), metadata.get("ramp", "2")
    if not re.fullmatch(r"[0-9]{1,4000}(/[0-9]{1,4000})?", sharpness):
        raise FileFormatError(f"sharpness={sharpness[:40]!r} is not a plain fraction")
    if not all(int(part) for part in sharpness.split("/")):
        raise FileFormatError(f"sharpness={sharpness[:40]!r} is not a positive number")
    if not re.fullmatch(r"[0-9]{1,2}", ramp) or not 2 <= int(ramp) <= FINEST_RAMP:
        raise FileFormatError(f"ramp={ramp[:40]!r} is not an integer from 2 to {FINEST_RAMP}")
    return metadata


def _matrices(value: Any, tensors: Tensors) -> list[Matrix]:
    shapes = header.list_of(value, "shapes", header.shape, 1)
    entries: list[dict[tuple[int, int], Fraction]] = [{} for _ in shapes]
    places = header.tensor(tensors, "matrices.place", np.int64, 3).tolist()
    values = header.rationals(tensors, "matrices.value")
    if len(places) != len(values):
        raise FileFormatError("places and values of the matrices do not match")
    for (m, i, j), number in zip(places, values, strict=True):
        if not 0 <= m < len(shapes) or (i, j) in entries[m]:
            raise FileFormatError(f"entry ({i}, {j}) of matrix {m} is out of range or stored twice")
        entries[m][i, j] = number
    return [Matrix(i, j, content) for (i, j), content in zip(shapes, entries, strict=True)]


def _table(grid: Grid, tensors: Tensors) -> GridTable:
    """Read the table; its size is compared with the tensors' before any power is written out."""
    n, d = grid.tokens, grid.dim
    ids = header.tensor(tensors, "table.class", np.int64, n).tolist()
    numbers = header.rationals(tensors, "table.value")
    if len(numbers) != len(ids) * n * d or not ids or grid.size_up_to(len(ids)) != len(ids):
        raise FileFormatError("the table does not have one value for every class of its grid")
    classes = [grid.check(tuple(row)) for row in ids]
    if len(set(classes)) != len(classes):
        raise FileFormatError("the table has a class twice")
    columns = [tuple(numbers[k : k + d]) for k in range(0, len(numbers), d)]
    return GridTable(grid, {c: tuple(columns[m * n : (m + 1) * n]) for m, c in enumerate(classes)})


def _text(values: Any) -> NDArray[Any]:
    return np.frombuffer("\n".join(map(rational_text, values)).encode(), dtype=np.uint8)
