"""Coupling blueprints in files: lossless, sealed, without pickle."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from exactformer.core import header
from exactformer.core.files import FileKind
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Interpolant
from exactformer.couplings.kuhn import MOST_COORDINATES
from exactformer.errors import FileFormatError

FILE = FileKind("coupling", CouplingBlueprint)
SHORTEST = Fraction(1, 2**900)
"""The least length of an interval; its inverse, times the pieces, is a weight that float64 holds."""
STATED = "stated by the file"
"""The source of a bound that was read, not computed: a file holds no functions to compute it from."""


def save_coupling(blueprint: CouplingBlueprint, path: str | Path) -> None:
    """Write a blueprint; an existing file is replaced only once all is written."""
    FILE.save(blueprint, path)


def coupling_digest(blueprint: CouplingBlueprint) -> str:
    """Return a SHA-256 over every weight and name: equal for equal blueprints only."""
    return FILE.digest(blueprint)


def load_coupling(path: str | Path) -> CouplingBlueprint:
    """Read a blueprint; anything that is not what was saved raises."""
    return FILE.load(path, _checked)


def _checked(blueprint: CouplingBlueprint) -> CouplingBlueprint:
    """Return a blueprint whose numbers float64 holds, its bound marked as a statement from now on."""
    outer = blueprint.outer
    box = outer.knots.intervals if isinstance(outer, Interpolant) else outer.box
    if len(box) > MOST_COORDINATES:
        raise FileFormatError(f"F̂ takes {len(box):,} numbers; the limit is {MOST_COORDINATES}")
    for low, high in (blueprint.domain, *box):
        if not float(low) < float(high) or high - low < SHORTEST:
            raise FileFormatError(f"[{float(low)}, {float(high)}] is not an interval of float64")
    for place in (
        *blueprint.domain,
        *(e for side in box for e in side),
        *(blueprint.positions or ()),
    ):
        if abs(place) >= header.MOST_FLOAT:
            raise FileFormatError("an interval or a position is beyond float64")
    if "bound" not in blueprint.metadata:
        return blueprint
    bound = header.mapping(header.parse(blueprint.metadata["bound"], floats=True), "bound")
    stated = json.dumps({**bound, "source": STATED})
    return replace(blueprint, metadata={**blueprint.metadata, "bound": stated})
