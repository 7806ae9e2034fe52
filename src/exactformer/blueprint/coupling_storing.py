"""Coupling blueprints in one safetensors file, lossless and without pickle.

Values at knots are float64 tensors, which is what they are; knots and positions are hexadecimal
rationals in the header's JSON, and a SHA-256 seals the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from exactformer.blueprint.coupling import CouplingBlueprint
from exactformer.blueprint.coupling_interpolant import Interpolant, Interval, Knots
from exactformer.blueprint.coupling_kuhn import KuhnInterpolant
from exactformer.blueprint.sealing import Tensors, has_format, read_sealed, sealed
from exactformer.blueprint.storing import rational, rational_text, write_tensors

FORMAT = "exactformer-coupling-1"


def save_coupling(blueprint: CouplingBlueprint, path: str | Path) -> None:
    """Write a blueprint; an existing file is replaced only once all is written."""
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
    write_tensors(tensors, sealed(FORMAT, description, tensors), path)


def is_coupling_file(path: str | Path) -> bool:
    """Whether a file says that it holds a coupling's model."""
    return has_format(path, FORMAT)


def load_coupling(path: str | Path) -> CouplingBlueprint:
    """Read a blueprint; anything that is not what was saved raises."""
    return read_sealed(path, FORMAT, "coupling", _rebuild)


def _rebuild(description: Mapping[str, Any], tensors: Tensors) -> CouplingBlueprint:
    positions = description["positions"]
    box, pieces = _intervals(description["outer_box"]), int(description["outer_pieces"])
    outer = (
        Interpolant(Knots(box, pieces), tensors["outer"])
        if len(box) == 1
        else KuhnInterpolant(box, pieces, tensors["outer"])
    )
    knots = Knots(_intervals(description["intervals"]), int(description["pieces"]))
    return CouplingBlueprint(
        tau=int(description["tau"]),
        domain=_intervals(description["domain"])[0],
        positions=None if positions is None else tuple(map(rational, positions)),
        head_dim=int(description["head_dim"]),
        features=Interpolant(knots, tensors["features"]),
        outer=outer,
        metadata={str(k): str(v) for k, v in description["metadata"].items()},
    )


def _texts(intervals: Iterable[Interval]) -> list[list[str]]:
    return [[rational_text(low), rational_text(high)] for low, high in intervals]


def _intervals(texts: list[list[str]]) -> tuple[Interval, ...]:
    return tuple((rational(low), rational(high)) for low, high in texts)
