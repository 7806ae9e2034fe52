"""Run an experiment, or what is left of it, and compare it with the paper."""

import sys
import time
from pathlib import Path

from exactformer.core.folders import cache_folder
from exactformer.errors import ExperimentError, InputError
from exactformer.experiments.engine.cell import Cell, Failure, Task, plain
from exactformer.experiments.engine.code_version import code_version
from exactformer.experiments.engine.drift import check as check_drift
from exactformer.experiments.engine.experiment import Experiment, Scale
from exactformer.experiments.engine.provenance import command_line, record
from exactformer.experiments.engine.result import Result, load
from exactformer.experiments.engine.runner import run
from exactformer.experiments.engine.store import Store
from exactformer.experiments.engine.summary import check_rows, summarise
from exactformer.experiments.registry import find
from exactformer.progress import progress

_MOST_FAILURES_SHOWN = 5


def reproduce(
    name: str | Experiment,
    scale: str = "default",
    device: str = "cpu",
    jobs: int | None = None,
    cluster: str | None = None,
    out: str | Path | None = None,
    check: bool = False,
) -> Result:
    """Run the experiment called ``name`` and return its :class:`Result`.

    Cells run in ``jobs`` processes (unless given, every core, or one for a GPU), or on the Dask
    cluster at the address ``cluster``. Each finished cell is kept in ``out``/cells, or in the
    user's cache without ``out``; a run that is stopped goes on where it was. With ``out``, the
    result is written there as NAME.json, NAME.png and NAME.svg.

    ``check`` runs every cell anew, writes nothing and raises :class:`DriftError` where the stored
    result in ``out`` (or in :func:`results_folder`) disagrees beyond the spread over seeds.
    """
    experiment = find(name) if isinstance(name, str) else name
    size, device = _scale(scale), _device(device)
    stored = None
    if check:
        stored = _stored(experiment, size, Path(out) if out else results_folder(size))
    root = Path(out) / "cells" if out else cache_folder("cells")
    store = Store(root.with_name("check") if check else root)
    tasks = tasks_of(experiment, size, device)
    start = time.perf_counter()
    cells, kept = _finish(experiment, tasks, store, jobs, cluster)
    summary = summarise(experiment, size, cells)
    command = command_line(experiment.name, size, device, jobs)
    origin = record(command, tasks[0].code, cells, kept, time.perf_counter() - start)
    result = Result.of(experiment, summary, origin)
    if stored:
        store.forget(experiment.shelf)  # the next check shall compute its cells, too
        check_drift(stored, result)
    elif out:
        result.save(out)
    return result


def results_folder(scale: Scale) -> Path:
    """Where the command line keeps results: ``results`` is for runs at full scale.

    The smaller scales have folders inside it, so that a quick run never replaces a full one.
    """
    return Path("results") if scale is Scale.FULL else Path("results") / scale


def tasks_of(experiment: Experiment, scale: Scale, device: str) -> list[Task]:
    """Return the grid of ``experiment`` as tasks, in its own order."""
    code = code_version(experiment.run)
    tasks = [
        Task(experiment.shelf, plain(parameters, "parameters"), device, code, experiment.run)
        for parameters in experiment.cells(scale)
    ]
    if not tasks:
        raise ExperimentError(f"{experiment.name} has no cells at scale {scale}.")
    for task in tasks:
        if not isinstance(task.parameters.get("seed", 0), int):
            raise ExperimentError(f"The seed of {task.parameters} is not a whole number.")
    check_rows(experiment, scale, [task.parameters for task in tasks])
    keys = [task.key for task in tasks]
    if len(set(keys)) < len(keys):
        twice = next(task for task in tasks if keys.count(task.key) > 1)
        raise ExperimentError(f"{experiment.name} has this cell twice: {twice.parameters}.")
    return tasks


def _finish(
    experiment: Experiment, tasks: list[Task], store: Store, jobs: int | None, cluster: str | None
) -> tuple[list[Cell], int]:
    """Run what is not finished; return all cells, and how many were finished. Raise if any fails."""
    left = [task for task in tasks if store.load(task) is None]
    kept, failures = len(tasks) - len(left), 0
    if kept:
        already = f"{experiment.name}: {kept} of {len(tasks)} cells are finished already"
        print(already, file=sys.stderr)
    bar = progress(experiment.name, len(tasks), unit="cells", done=kept, patience=0, lines=True)
    try:
        with bar as update:
            for done, outcome in enumerate(run(left, store, jobs, cluster), start=kept + 1):
                failures += isinstance(outcome, Failure)
                update(done, f"{failures} failed" if failures else "")
    except KeyboardInterrupt as stop:
        finished = sum(store.load(task) is not None for task in tasks)
        stop.add_note(
            f"Stopped with {finished} of {len(tasks)} cells finished and kept in {store.root}.\n"
            f"Run the same command again to go on from there."
        )
        raise
    cells = [store.load(task) for task in tasks]
    if failed := [task for task, cell in zip(tasks, cells, strict=True) if cell is None]:
        raise ExperimentError(_failure_message(experiment, failed, len(tasks), store))
    return [cell for cell in cells if cell], kept


def _failure_message(experiment: Experiment, failed: list[Task], total: int, store: Store) -> str:
    lines = [
        f"{len(failed)} of {total} cells of {experiment.name} failed; the others are kept. "
        f"Run the same command again to retry these:"
    ]
    for task in failed[:_MOST_FAILURES_SHOWN]:
        failure = store.load_failure(task)
        lines.append(f"  {task.parameters}: {failure.error if failure else 'no record'}")
    if len(failed) > _MOST_FAILURES_SHOWN:
        lines.append(f"  and {len(failed) - _MOST_FAILURES_SHOWN} more")
    lines.append(f"Traceback of the first: {store.error_path(failed[0])}")
    return "\n".join(lines)


def _stored(experiment: Experiment, scale: Scale, folder: Path) -> Result:
    path = folder / f"{experiment.name}.json"
    if not path.is_file():
        raise InputError(
            f"There is no {path} to check against; run the same command without --check first."
        )
    stored = load(path, experiment)
    if stored.scale is not scale:
        raise InputError(
            f"{path} holds a run at scale {stored.scale}; check it with --scale {stored.scale} "
            f"--out {folder}."
        )
    return stored


def _scale(scale: str) -> Scale:
    try:
        return Scale(scale)
    except ValueError:
        raise InputError(f"scale is {scale!r}; it is one of {', '.join(Scale)}.") from None


def _device(device: str) -> str:
    if device == "cpu":
        return device
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise InputError(f"{device!r} is no device: use cpu or cuda.") from error
    if kind != "cuda":
        raise InputError(f"Experiments run on cpu or cuda, not on {device!r}.")
    if not torch.cuda.is_available():
        raise InputError("No CUDA device is available here; leave out --device cuda.")
    return device
