"""Cells of experiments at smoke scale: what the worker process of a run can be asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def warm_up() -> None:
    """Load what every cell needs."""
    import torch

    torch.set_num_threads(1)


def run_cell(request: dict[str, Any]) -> dict[str, Any]:
    """Run one cell of an experiment; non-finite numbers are words, as in stored results."""
    from exactformer.experiments.engine.cell import plain
    from exactformer.experiments.engine.experiment import Scale
    from exactformer.experiments.registry import find

    experiment = find(request["experiment"])
    parameters = plain(experiment.cells(Scale.SMOKE)[request["number"]], "parameters")
    begun = time.perf_counter()
    metrics = plain(experiment.run(dict(parameters), "cpu"))
    return {
        "parameters": parameters,
        "metrics": metrics,
        "seconds": time.perf_counter() - begun,
    }


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {"cell": run_cell}
