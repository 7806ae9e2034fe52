"""Coupling blueprints in one safetensors file, lossless and without pickle.

Values at knots are float64 tensors, which is what they are; knots and positions are hexadecimal
rationals in the header's JSON, and a SHA-256 seals the whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from exactformer.core import header
from exactformer.core.files import Tensors, read_sealed, sealed, write_tensors
from exactformer.core.header import rational_text
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Interpolant, Interval, Knots
from exactformer.couplings.kuhn import MOST_COORDINATES, KuhnInterpolant
from exactformer.errors import FileFormatError

FORMAT = "exactformer-coupling-1"
SHORTEST = Fraction(1, 2**900)
"""The least length of an interval; its inverse, times the pieces, is a weight that float64 holds."""
STATED = "stated by the file"
"""The source of a bound that was read, not computed: a file holds no functions to compute it from."""


def save_coupling(blueprint: CouplingBlueprint, path: str | Path) -> None:
    """Write a blueprint; an existing file is replaced only once all is written."""
    write_tensors(*_encode(blueprint), path)


def coupling_digest(blueprint: CouplingBlueprint) -> str:
    """Return a SHA-256 over every number and name: equal for equal blueprints only."""
    return _encode(blueprint)[1]["seal"]


def _encode(blueprint: CouplingBlueprint) -> tuple[Tensors, dict[str, str]]:
    tensors = {
        "features": np.ascontiguousarray(blueprint.features.values),
        "outer": np.ascontiguousarray(blueprint.outer.values),
    }
    outer, positions = blueprint.outer, blueprint.positions
    box = outer.knots.intervals if isinstance(outer, Interpolant) else outer.box
    pieces = outer.knots.pieces if isinstance(outer, Interpolant) else outer.pieces
    description = {
        "tau": blueprint.tau,
        "domain": _texts([blueprint.domain]),
        "positions": None if positions is None else [rational_text(e) for e in positions],
        "head_dim": blueprint.head_dim,
        "intervals": _texts(blueprint.features.knots.intervals),
        "pieces": blueprint.features.knots.pieces,
        "outer_box": _texts(box),
        "outer_pieces": pieces,
        "metadata": dict(blueprint.metadata),
    }
    return tensors, sealed(FORMAT, description, tensors)


def load_coupling(path: str | Path) -> CouplingBlueprint:
    """Read a blueprint; anything that is not what was saved raises."""
    return read_sealed(path, FORMAT, "coupling", _rebuild)


def _rebuild(fields: Any, tensors: Tensors) -> CouplingBlueprint:
    description = header.mapping(fields, "the description")

    def field(name: str) -> Any:
        return header.entry(description, name)

    values, outputs = header.table(tensors, "features"), header.table(tensors, "outer")
    tau = header.integer(field("tau"), "tau", 1)
    (domain,) = header.list_of(field("domain"), "domain", _interval, 1, 1)
    positions = None
    if field("positions") is not None:
        positions = header.list_of(field("positions"), "positions", _place, tau, tau)
    intervals = header.list_of(field("intervals"), "intervals", _ends, 1)
    pieces = header.integer(field("pieces"), "pieces", 1, len(values))
    box = header.list_of(field("outer_box"), "outer_box", _interval, 1, MOST_COORDINATES)
    outer_pieces = header.integer(field("outer_pieces"), "outer_pieces", 1, len(outputs))
    return CouplingBlueprint(
        tau=tau,
        domain=domain,
        positions=positions,
        head_dim=header.integer(field("head_dim"), "head_dim", 1, values.shape[1]),
        features=Interpolant(Knots(intervals, pieces), values),
        outer=Interpolant(Knots(box, outer_pieces), outputs)
        if len(box) == 1
        else KuhnInterpolant(box, outer_pieces, outputs),
        metadata=_metadata(header.texts(field("metadata"), "metadata")),
    )


def _metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Return the metadata, its bound marked as what it is from now on: a statement."""
    if "bound" not in metadata:
        return metadata
    bound = header.mapping(header.parse(metadata["bound"], floats=True), "bound")
    return {**metadata, "bound": json.dumps({**bound, "source": STATED})}


def _texts(intervals: Iterable[Interval]) -> list[list[str]]:
    return [[rational_text(low), rational_text(high)] for low, high in intervals]


def _place(value: Any, name: str) -> Fraction:
    number = header.rational(value, name)
    if abs(number) >= header.MOST_FLOAT:
        raise FileFormatError(f"{name} is beyond float64")
    return number


def _ends(value: Any, name: str) -> Interval:
    low, high = header.list_of(value, name, _place, 2, 2)
    return low, high


def _interval(value: Any, name: str) -> Interval:
    low, high = _ends(value, name)
    if not float(low) < float(high) or high - low < SHORTEST:
        raise FileFormatError(
            f"{name} is not an interval of float64: [{float(low)}, {float(high)}]"
        )
    return low, high
