"""A server in small: starts workers, gives them work that takes forever, and waits to be killed.

`python -m tests.studio.playground.orphans FOLDER` prints the workers' process ids when they are at
work; the folder is for the marks they leave.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from threading import Thread

from exactformer.studio.errors import BusyError
from exactformer.studio.playground.workers import Limits, Pool
from tests.waiting import wait_until


def main(folder: Path) -> None:
    """Keep two workers busy, one of them without a break."""
    pool = Pool(Limits(workers=2, seconds=3600), jobs="tests.studio.playground.hostile_jobs")
    marks = [folder / "waiting", folder / "looping"]

    def ask(job: str, mark: Path) -> None:
        with contextlib.suppress(BusyError):
            pool.answer(job, {"begun": str(mark), "end": str(folder / "never")})

    pool.start()
    for job, mark in zip(("wait", "loop without letting go"), marks, strict=True):
        Thread(target=ask, args=(job, mark), daemon=True).start()
    wait_until(lambda: all(mark.exists() for mark in marks))
    print(*pool.processes(), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
