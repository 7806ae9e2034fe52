"""Experiments run on request, at smoke scale: one at a time, in a worker process, cell by cell.

A run is the same for everybody, so whoever asks while it is under way watches the same one. What it
found stays in memory until the next run of that experiment or the end of the server.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Literal

from exactformer.errors import ExactformerError
from exactformer.experiments.engine.cell import Cell, restore
from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.engine.presentation import Item, Presentation, present
from exactformer.experiments.engine.provenance import command_line, record
from exactformer.experiments.engine.result import Result
from exactformer.experiments.engine.summary import summarise
from exactformer.experiments.engine.work import hardware
from exactformer.experiments.registry import find
from exactformer.studio.errors import BusyError, NotFoundError
from exactformer.studio.playground.workers import Limits, Pool
from exactformer.studio.storage.base import now

logger = logging.getLogger(__name__)

MOST_WAITING = 4
JOBS = "exactformer.studio.playground.cells"

RUNNABLE = frozenset(
    "universality fang-figure-2 fang-table-1 "
    "fang-figure-3 fang-noise fang-outside yun-contextual yun-rate yun-positions yun-softmax "
    "yun-sizes jiang-figure-1 jiang-table-2 jiang-table-3 jiang-figure-4 jiang-figure-5 "
    "jiang-figure-6 jiang-equivariance jiang-mixing".split()
)
"""Experiments whose smoke scale needs no data from elsewhere and about a minute at most."""

State = Literal["waiting", "running", "finished", "failed"]


@dataclass
class Run:
    """A run of an experiment: how far it is, and what it found."""

    experiment: str
    total: int
    state: State = "waiting"
    problem: str = ""
    begun_at: datetime = field(default_factory=now)
    ended_at: datetime | None = None
    cells: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    shown: Presentation | None = None

    @property
    def done(self) -> int:
        """How many of its parts are done."""
        return len(self.cells)

    @property
    def is_under_way(self) -> bool:
        """Whether it has not ended yet."""
        return self.state in ("waiting", "running")


@dataclass(frozen=True)
class Line:
    """A quantity: as published, as stored, and as found just now; a dash where there is none."""

    label: str
    reference: str
    ours: str
    now: str


def compared(stored: Presentation, run: Presentation) -> list[Line]:
    """Return every quantity of a run beside the stored run's and the paper's, in their order."""
    kept = {line.label: line for part in (stored.paper, stored.beyond) for line in part.lines}
    fresh = {line.label: line for part in (run.paper, run.beyond) for line in part.lines}
    order = [label for label in kept if label in fresh]
    order += [label for label in fresh if label not in kept]
    return [
        Line(
            label,
            (kept.get(label) or fresh[label]).reference,
            kept[label].ours if label in kept else "–",
            fresh[label].ours,
        )
        for label in order
    ]


def statements(run: Presentation) -> list[Item]:
    """Return every statement that a run has tested, the paper's first."""
    return [item for part in (run.paper, run.beyond) for item in part.items]


class Runs:
    """The runs of a server. ``limits`` are those of one cell."""

    def __init__(
        self, limits: Limits, jobs: str = JOBS, runnable: Collection[str] = RUNNABLE
    ) -> None:
        self.runnable = runnable
        self._pool = Pool(limits, jobs)
        self._one_by_one = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._runs: dict[str, Run] = {}

    def of(self, experiment: str) -> Run | None:
        """Return the latest run of an experiment, if there was one since the server started."""
        return self._runs.get(experiment)

    def start(self, experiment: str, allow: Callable[[], None] = lambda: None) -> Run:
        """Begin a run, unless one is under way; ``allow`` may refuse a new one."""
        if experiment not in self.runnable:
            raise NotFoundError("This experiment cannot be run here: it needs data, or more time.")
        with self._lock:
            known = self._runs.get(experiment)
            if known is not None and known.is_under_way:
                return known
            if sum(run.is_under_way for run in self._runs.values()) >= MOST_WAITING:
                raise BusyError("Other experiments are running. Try again in a minute.")
            allow()
            run = Run(experiment, len(find(experiment).cells(Scale.SMOKE)))
            self._runs[experiment] = run
        self._one_by_one.submit(self._carry_out, run)
        return run

    def close(self) -> None:
        """End what is under way."""
        self._one_by_one.shutdown(wait=False, cancel_futures=True)
        self._pool.close()

    def _carry_out(self, run: Run) -> None:
        run.state = "running"
        begun = time.perf_counter()
        try:
            self._compute(run)
            run.seconds = time.perf_counter() - begun
            run.shown = _presented(run)
            run.state = "finished"
        except ExactformerError as error:
            run.problem, run.state = str(error), "failed"
        except Exception:
            logger.exception("the run of %s has failed", run.experiment)
            run.problem, run.state = "The run has failed; the server's log says how.", "failed"
        finally:
            run.ended_at = now()

    def _compute(self, run: Run) -> None:
        for number in range(run.total):
            asked = {
                "experiment": run.experiment,
                "number": number,
                "run": run.begun_at.isoformat(),
            }
            run.cells.append(json.loads(self._pool.answer("cell", asked)))


def _presented(run: Run) -> Presentation:
    """Return what the cells of a finished run show."""
    experiment = find(run.experiment)
    cells = [
        Cell(each["parameters"], restore(each["metrics"]), each["seconds"], hardware("cpu"))
        for each in run.cells
    ]
    summary = summarise(experiment, Scale.SMOKE, cells)
    command = command_line(experiment.name, Scale.SMOKE, "cpu")
    origin = record(command, "", cells, 0, run.seconds)
    return present(Result.of(experiment, summary, origin))
