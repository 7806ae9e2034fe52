"""What stored runs say about claims: status, numbers beside print, figure, command, provenance.

Everything is read from ``results/NAME.json`` as the experiments' engine wrote it; nothing here
judges. A file is read again when it changes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from exactformer.errors import FileFormatError
from exactformer.experiments.engine.cell import restore
from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.engine.provenance import command_line
from exactformer.experiments.engine.result import read
from exactformer.experiments.engine.verdict import Verdict
from exactformer.experiments.registry import find, names
from exactformer.progress import duration
from exactformer.studio.database.library import Claim
from exactformer.studio.errors import NotFoundError

FIGURE_TYPES = {"png": "image/png", "svg": "image/svg+xml"}
NO_RUN = "no stored run"


@dataclass(frozen=True)
class Row:
    """A quantity: what the paper printed, and the mean and spread of ours."""

    label: str
    place: str
    printed: float | None
    ours: float
    spread: float | None
    ratio: float | None
    seeds: int
    verdict: str
    why: str


@dataclass(frozen=True)
class Provenance:
    """Where a stored run comes from."""

    date: str
    device: str
    wall_time: str
    commit: str
    version: str
    scale: str
    seeds: int


@dataclass(frozen=True)
class Evidence:
    """What the stored run of an experiment shows; without one, how to make it."""

    experiment: str
    title: str
    claim: str
    source: str
    status: str
    why: str
    command: str
    rows: tuple[Row, ...] = ()
    statements: Mapping[str, bool] = field(default_factory=dict)
    provenance: Provenance | None = None
    figures: tuple[str, ...] = ()
    figure_size: tuple[int, int] | None = None

    @property
    def printed_rows(self) -> tuple[Row, ...]:
        """The quantities the paper prints a number for."""
        return tuple(row for row in self.rows if row.printed is not None)

    @property
    def holding(self) -> int:
        """How many statements of the claim hold."""
        return sum(self.statements.values())


def of(folder: Path | None, experiment: str) -> Evidence:
    """Return the evidence of ``experiment`` from the stored runs in ``folder``."""
    if experiment not in names():
        raise NotFoundError(f"there is no experiment {experiment[:60]!r}")
    path = folder / f"{experiment}.json" if folder else None
    try:
        changed = path.stat().st_mtime_ns if path else None
    except OSError:
        changed = None
    if path is None or changed is None:
        return _not_run(experiment, "There is no stored run yet; the command makes one.")
    try:
        return _stored(path, changed)
    except FileFormatError as error:
        return _not_run(experiment, str(error))
    except (KeyError, TypeError, ValueError) as error:
        return _not_run(experiment, f"The stored run is not whole: {error!r}.")


def of_claim(folder: Path | None, claim: Claim) -> Evidence | None:
    """Return what a stored run says about ``claim``; nothing where no known experiment speaks."""
    return of(folder, name) if (name := claim.experiment) and name in names() else None


def figure(folder: Path | None, experiment: str, kind: str) -> Path:
    """Return the file of an experiment's figure; names are looked up, never put together."""
    known = {
        (name, suffix): folder / f"{name}.{suffix}"
        for name in (names() if folder else [])
        for suffix in FIGURE_TYPES
        if folder
    }
    path = known.get((experiment, kind))
    if path is None or not path.is_file():
        raise NotFoundError(f"there is no stored figure {experiment[:60]}.{kind[:10]}")
    return path


def number(value: float | None) -> str:
    """Write a number as tables do: about three digits, thousands apart, or a dash.

    >>> number(0.10934), number(None), number(10237.27), number(1.2e-7), number(41.0)
    ('0.109', '–', '10,237', '1.2e−7', '41')
    """
    if value is None or not math.isfinite(value):
        return "–" if value is None else "diverged"
    if (value == int(value) and abs(value) < 1000) or 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    digits, sign, exponent = f"{value:.3g}".partition("e")
    return f"{digits}e{int(exponent)}".replace("-", "−") if sign else digits.replace("-", "−")


def finite(value: float | None) -> float | None:
    """Return ``value`` if it is a number that JSON has."""
    return value if value is not None and math.isfinite(value) else None


def _not_run(name: str, why: str) -> Evidence:
    experiment = find(name)
    return Evidence(
        experiment=name,
        title=experiment.title,
        claim=experiment.claim,
        source=experiment.source,
        status=NO_RUN,
        why=why,
        command=command_line(name, Scale.DEFAULT, "cpu"),
    )


@lru_cache(maxsize=200)
def _stored(path: Path, changed: int) -> Evidence:
    content = read(path)
    origin = content["provenance"]
    return Evidence(
        experiment=content["experiment"],
        title=content["title"],
        claim=content["claim"],
        source=content["source"],
        status=str(Verdict(content["verdict"])),
        why=content["why"],
        command=origin["command"],
        rows=tuple(map(_row, restore(content["rows"]))),
        statements=content["statements"],
        provenance=Provenance(
            date=origin["date"],
            device=origin["device"],
            wall_time=duration(origin["wall_seconds"]),
            commit=origin["commit"] or "unknown",
            version=origin["version"],
            scale=content["scale"],
            seeds=len(origin["seeds"]),
        ),
        figures=tuple(kind for kind in FIGURE_TYPES if path.with_suffix(f".{kind}").is_file()),
        figure_size=_size(path.with_suffix(".png")),
    )


def _row(row: dict[str, Any]) -> Row:
    return Row(
        label=row["label"],
        place=row["place"],
        printed=row["printed"],
        ours=row["mean"],
        spread=row["spread"],
        ratio=row["ratio"],
        seeds=len(row["values"]),
        verdict=row["verdict"],
        why=row["why"],
    )


def _size(picture: Path) -> tuple[int, int] | None:
    """Return width and height of a PNG, so that a page can keep its place free."""
    try:
        with picture.open("rb") as file:
            head = file.read(24)
    except OSError:
        return None
    if len(head) < 24 or head[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    width, height = struct.unpack(">II", head[16:24])
    return width, height
