"""Coupling blueprints in one safetensors file, lossless and without pickle.

Values at knots are float64 tensors, which is what they are; knots and positions are hexadecimal
rationals in the header's JSON, and a SHA-256 seals the whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.blueprint.coupling import CouplingBlueprint
from exactformer.blueprint.coupling_interpolant import Interpolant, Interval, Knots
from exactformer.blueprint.coupling_kuhn import KuhnInterpolant
from exactformer.blueprint.storing import rational, rational_text, write_tensors
from exactformer.errors import ExactformerError, FileFormatError

FORMAT = "exactformer-coupling-1"
Tensors = dict[str, NDArray[Any]]


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
    text = json.dumps(description, sort_keys=True)
    seal = _seal(text, tensors)
    write_tensors(tensors, {"format": FORMAT, "blueprint": text, "seal": seal}, path)


def is_coupling_file(path: str | Path) -> bool:
    """Whether a file says that it holds a coupling's model."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except (SafetensorError, OSError, ValueError):
        return False


def load_coupling(path: str | Path) -> CouplingBlueprint:
    """Read a blueprint; anything that is not what was saved raises."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError(f"{path} is truncated or not a safetensors file: {error}") from None
    if metadata.get("format") != FORMAT:
        raise FileFormatError(f"{path} holds no coupling (expected format {FORMAT!r})")
    try:
        if metadata["seal"] != _seal(metadata["blueprint"], tensors):
            raise FileFormatError(f"{path} is not what was saved: its seal is broken")
        return _rebuild(json.loads(metadata["blueprint"]), tensors)
    except FileFormatError:
        raise
    except (ExactformerError, KeyError, TypeError, ValueError, IndexError) as error:
        raise FileFormatError(f"{path} does not describe a coupling: {error}") from None


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


def _seal(description: str, tensors: Tensors) -> str:
    content = hashlib.sha256((FORMAT + description).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        content.update(f"{name}{tensor.dtype}{tensor.shape}".encode())
        content.update(np.ascontiguousarray(tensor).tobytes())
    return content.hexdigest()
