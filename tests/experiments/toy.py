"""Toy experiments: their cells leave a mark when they run, and wait or fail on request.

Where the environment names a gate, a folder, cells wait there until a test lets them pass.
"""

import math
import os
import random
import signal
import time
import uuid
from contextlib import suppress
from pathlib import Path

from exactformer.experiments import Experiment, Quantity, by_scale

SEEDS = by_scale(2, 5, 8)


GATE = "TOY_GATE"


def let_pass(gate, count):
    """Let so many more cells finish that wait at a gate."""
    gate.mkdir(parents=True, exist_ok=True)
    for _ in range(count):
        (gate / uuid.uuid4().hex).touch()


def wait_at(gate):
    """Wait for leave to finish, and take it; it counts for one cell."""
    while True:
        for leave in gate.glob("*"):
            with suppress(FileNotFoundError):  # another cell took it
                leave.unlink()
                return
        time.sleep(0.005)


def run(parameters, device):
    marks = parameters.get("marks")
    if marks:
        mark = f"{parameters['model']}-{parameters['seed']}-{uuid.uuid4().hex}"
        Path(marks, mark).touch()
    if GATE in os.environ:
        wait_at(Path(os.environ[GATE]))
    fault = parameters.get("fault")
    if fault == "raise":
        raise ValueError("the toy is broken")
    if fault == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "until-mended" and not Path(marks, "mended").exists():
        raise ValueError("not mended yet")
    if fault == "diverge":
        return {"error": math.inf, "curve": [1.0, math.inf, math.nan]}
    draw = random.Random(f"{parameters['model']} {parameters['seed']}")
    level = {"small": 0.1, "large": 30.0}[parameters["model"]] * parameters.get("factor", 1.0)
    return {
        "error": level * (1 + 0.1 * draw.random()),
        "curve": [level * (1 + math.exp(-step)) for step in range(5)],
        "device": device,
    }


def blank(summary):
    """Draw nothing, at once: few tests are about figures, and those ask for the usual one, None."""
    from matplotlib.figure import Figure

    return Figure(figsize=(1, 1))


def toy(name="toy", faults=None, seeds=None, figure=blank, **parameters):
    """An experiment of two models; ``faults`` maps (model, seed) to what goes wrong there."""

    def cells(scale):
        grid = []
        for seed in range(seeds or SEEDS[scale]):
            for model in ("small", "large"):
                cell = {"model": model, "seed": seed, **parameters}
                if fault := (faults or {}).get((model, seed)):
                    cell["fault"] = fault
                grid.append(cell)
        return grid

    experiment = Experiment(
        name=name,
        title="A small model beside a large one",
        claim="The small model's error is below the large one's.",
        source="Nobody 2000, Table 0",
        cells=cells,
        run=run,
        figure=figure,
        quantities=(
            Quantity(
                "small, error", "error", {"model": "small"}, expected=0.105, place="Table 0, row 1"
            ),
            Quantity("large, error", "error", {"model": "large"}),
        ),
    )

    @experiment.states("small is below large")
    def _(summary):
        return summary["small, error"] < summary["large, error"]

    return experiment


def runs(marks):
    """How often each (model, seed) has been started, by the marks it left."""
    counts = {}
    for mark in Path(marks).glob("*-*-*"):
        model, seed, _ = mark.name.split("-")
        counts[model, int(seed)] = counts.get((model, int(seed)), 0) + 1
    return counts
