"""Finished cells on disk: one file each, written whole or not at all, trusted only if intact.

    cells/NAME/KEY.json          a finished cell
    cells/NAME/KEY.error.json    the last failure of a cell; it is tried again on the next run
    cells/NAME/lock              one byte per key, locked while a process works on that cell

``KEY`` is the SHA-256 of experiment, parameters, kind of device and code version. The file repeats
what the key is made of and carries a digest of itself, so that a damaged or misplaced file is
found out; such a cell is run again.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exactformer.core.whole_files import whole_file
from exactformer.experiments.engine.cell import (
    Cell,
    Failure,
    Outcome,
    Task,
    fingerprint,
    plain,
    restore,
)

try:
    import fcntl
except ImportError:  # Windows: two runs at once may both compute a cell; neither can spoil it
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Store:
    """The cells under ``root``, for any number of processes at once."""

    root: Path

    def path(self, task: Task) -> Path:
        """Where the finished cell of ``task`` is or will be."""
        return self.root / task.experiment / f"{task.key}.json"

    def error_path(self, task: Task) -> Path:
        """Where the last failure of ``task`` is or will be."""
        return self.root / task.experiment / f"{task.key}.error.json"

    def load(self, task: Task) -> Cell | None:
        """Return the finished cell of ``task``, or ``None`` if there is no intact one."""
        content = _read(self.path(task))
        if content is None or content.get("key") != task.key:
            return None
        cell = content["cell"]
        return Cell(**{**cell, "metrics": restore(cell["metrics"])})

    def load_failure(self, task: Task) -> Failure | None:
        """Return the last failure of ``task`` that no success has followed."""
        content = _read(self.error_path(task))
        return None if content is None else Failure(**content["failure"])

    def save(self, task: Task, outcome: Outcome) -> None:
        """Put ``outcome`` on disk; call it inside :meth:`claim`."""
        if isinstance(outcome, Failure):
            _write(self.error_path(task), {"failure": asdict(outcome)})
        else:
            _write(self.path(task), {"key": task.key, "code": task.code, "cell": asdict(outcome)})
            self.error_path(task).unlink(missing_ok=True)

    @contextmanager
    def claim(self, task: Task) -> Iterator[None]:
        """Wait until no other process works on ``task``, and keep others away from it.

        A killed run can leave a worker behind that is still busy with a cell; the next run waits
        for it here and finds the cell finished. The lock dies with its process.
        """
        folder = self.root / task.experiment
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("ab") as lock:
            if fcntl is not None:
                fcntl.lockf(lock, fcntl.LOCK_EX, 1, int(task.key[:15], 16))
            for unfinished in folder.glob(f"{task.key[:40]}*.partial"):
                unfinished.unlink(missing_ok=True)
            yield

    def forget(self, experiment: str) -> None:
        """Delete every cell of ``experiment``."""
        shutil.rmtree(self.root / experiment, ignore_errors=True)
        with suppress(OSError):  # the root, too, once nothing is left in it
            self.root.rmdir()


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` holds either all of it or what it held before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if hasattr(os, "O_DIRECTORY"):  # the new name, too, must survive a power cut
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write(path: Path, content: dict[str, Any]) -> None:
    content = plain(content, path.name)
    sealed = {**content, "sha256": fingerprint(content)}
    write_atomically(path, json.dumps(sealed, indent=1).encode())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
        intact = content.pop("sha256") == fingerprint(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return content if intact else None
