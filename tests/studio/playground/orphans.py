"""A server in small: starts workers, gives them work that takes forever, and waits to be killed.

`python -m tests.studio.playground.orphans` prints the workers' process ids when they are at work.
"""

from __future__ import annotations

import contextlib
import time
from threading import Thread

from exactformer.studio.errors import BusyError
from exactformer.studio.playground.workers import Limits, Pool


def main() -> None:
    """Keep two workers busy, one of them without a break."""
    pool = Pool(Limits(workers=2, seconds=600), jobs="tests.studio.playground.hostile_jobs")

    def ask(job: str) -> None:
        with contextlib.suppress(BusyError):
            pool.answer(job, {"seconds": 1000})

    pool.start()
    for job in ("sleep", "loop without letting go"):
        Thread(target=ask, args=(job,), daemon=True).start()
    while len(pool._busy) < 2 or not all(worker._is_ready for worker in pool._busy):
        time.sleep(0.02)
    time.sleep(0.2)
    print(*pool.processes(), flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    main()
