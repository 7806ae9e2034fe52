"""Evidence for claims: the stored result of an experiment, its presentation and its figure.

Results are read and judged by the experiments' engine; nothing here judges. A file is read again
when it changes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from exactformer.errors import FileFormatError
from exactformer.experiments.engine.presentation import Presentation, present, waiting
from exactformer.experiments.engine.result import Result, load
from exactformer.experiments.registry import find, names
from exactformer.studio.errors import NotFoundError

FIGURE_TYPES = {"png": "image/png", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class Evidence:
    """The stored result of an experiment as pages show it; without one, how to make it."""

    shown: Presentation
    result: Result | None = None
    figures: tuple[str, ...] = ()
    figure_size: tuple[int, int] | None = None


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
        return Evidence(waiting(find(experiment)))
    try:
        return _stored(path, changed)
    except FileFormatError as error:
        return Evidence(waiting(find(experiment), str(error)))


def changed_at(folder: Path | None) -> object:
    """Return which stored runs there are and when each was written: another value after a change."""
    try:
        files = list(folder.iterdir()) if folder else []
        return sorted((path.name, path.stat().st_mtime_ns) for path in files)
    except OSError:
        return None


def of_claim(folder: Path | None, experiment: str | None) -> Evidence | None:
    """Return what a stored run says about a claim; nothing where no known experiment speaks."""
    return of(folder, experiment) if experiment and experiment in names() else None


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


@lru_cache(maxsize=200)
def _stored(path: Path, changed: int) -> Evidence:
    result = load(path, find(path.stem))
    return Evidence(
        present(result),
        result,
        figures=tuple(kind for kind in FIGURE_TYPES if path.with_suffix(f".{kind}").is_file()),
        figure_size=_size(path.with_suffix(".png")),
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
