"""Running one cell: in this process, and written to the store where there is one."""

import platform
import time
import traceback
from functools import cache
from pathlib import Path

from exactformer.errors import ExperimentError
from exactformer.experiments.engine.cell import Cell, Failure, Outcome, Task, plain, restore
from exactformer.experiments.engine.code_version import code_version
from exactformer.experiments.engine.store import Store


def execute(task: Task) -> Outcome:
    """Run ``task`` here. Whatever it raises is its outcome, so that it stops no other cell."""
    try:
        if code_version(task.run) != task.code:
            # A cell must not be filed under code that did not compute it.
            raise ExperimentError(
                "This worker has other code, or other versions of Python, torch or numpy, than "
                "the process that started the run."
            )
        start = time.perf_counter()
        metrics = plain(task.run(dict(task.parameters), task.device))
        seconds = time.perf_counter() - start
        if not isinstance(metrics, dict):
            raise ExperimentError(f"run returned a {type(metrics).__name__}, not a dictionary.")
        return Cell(task.parameters, restore(metrics), seconds, hardware(task.device))
    except Exception as error:
        return failure(task, error)


def execute_and_store(task: Task, store: Store) -> Outcome:
    """Run ``task`` unless another process has meanwhile; leave the outcome in ``store``."""
    with store.claim(task):
        outcome: Outcome | None = store.load(task)
        if outcome is None:
            outcome = execute(task)
            store.save(task, outcome)
        return outcome


def failure(task: Task, error: BaseException) -> Failure:
    """Return ``error`` as the outcome of ``task``."""
    line = traceback.format_exception_only(error)[-1].splitlines()[0]
    return Failure(task.parameters, line, "".join(traceback.format_exception(error)))


@cache
def hardware(device: str) -> str:
    """Return the model of the processor or GPU behind ``device``."""
    if device.startswith("cuda"):
        import torch

        return str(torch.cuda.get_device_name(device))
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
