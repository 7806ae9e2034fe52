"""The stored runs of a folder, as the ledger of claims reads them."""

from functools import lru_cache
from pathlib import Path

from exactformer.claims import Run, Runs
from exactformer.errors import FileFormatError
from exactformer.experiments.engine.result import load
from exactformer.experiments.registry import find, names


def stored_runs(folder: Path | None) -> Runs:
    """Return the runs that ``folder`` holds; a file that cannot be read is no run."""

    def of(name: str) -> Run | None:
        path = folder / f"{name}.json" if folder else None
        try:
            return _read(path, path.stat().st_mtime_ns) if path else None
        except (OSError, FileFormatError):
            return None

    return of


@lru_cache(maxsize=200)
def _read(path: Path, changed: int) -> Run | None:
    if path.stem not in names():
        return None
    result = load(path, find(path.stem))
    return None if result.unjudged else result.run
