"""Time and memory, measured so that ratios mean something on a machine with other work on it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 4.0
"""A call that would take more seconds than this is measured on fewer points, and scaled."""

SHORTEST = 0.02
"""Calls are repeated until they take this long together."""

PATIENCE = 15.0
"""After so many seconds a way is not measured again."""


@dataclass(frozen=True)
class Timing:
    """Seconds for a call on ``points`` points; measured on fewer where that would take too long."""

    seconds: float
    points: int
    measured_on: int
    rounds: int

    @property
    def scaled(self) -> bool:
        """Whether the seconds are an extrapolation."""
        return self.measured_on < self.points


def interleaved(
    ways: Mapping[str, Callable[[np.ndarray], Any]], points: np.ndarray, rounds: int
) -> dict[str, Timing]:
    """Time every way in turn, several rounds; the best round of each counts.

    In turn, so that other work on the machine meets all of them; the best, because whatever
    disturbs a measurement makes it longer.
    """
    sizes = {name: _size(way, points) for name, way in ways.items()}
    calls = {name: _calls(ways[name], points[: sizes[name]]) for name in ways}
    best = dict.fromkeys(ways, float("inf"))
    spent = dict.fromkeys(ways, 0.0)
    done = dict.fromkeys(ways, 0)
    for _ in range(rounds):
        for name, way in ways.items():
            if spent[name] < PATIENCE:
                seconds = _timed(way, points[: sizes[name]], calls[name])
                best[name] = min(best[name], seconds / calls[name])
                spent[name] += seconds
                done[name] += 1
    return {
        name: Timing(best[name] * len(points) / sizes[name], len(points), sizes[name], done[name])
        for name in ways
    }


def _size(way: Callable[[np.ndarray], Any], points: np.ndarray) -> int:
    """Return how many of the points can be had in ``LONGEST`` seconds; this also warms up."""
    size = 1
    while True:
        seconds = _timed(way, points[:size])
        if size == len(points):
            return size
        following = min(10 * size, len(points))
        if seconds * following / size > LONGEST:
            return size
        size = following


def _calls(way: Callable[[np.ndarray], Any], points: np.ndarray) -> int:
    return max(1, int(np.ceil(SHORTEST / max(_timed(way, points), 1e-9))))


def _timed(way: Callable[[np.ndarray], Any], points: np.ndarray, calls: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        way(points)
    return time.perf_counter() - start


def peak_memory(action: Callable[[], Any]) -> tuple[Any, int]:
    """Return what an action returns, and by how many bytes the process grew at most meanwhile.

    Linux keeps the largest size a process ever had and lets it be reset. What the allocator holds
    in reserve is handed back first; otherwise memory of earlier work would be used again unseen.
    """
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    result = action()
    return result, _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
