"""Waiting for an event in tests; the limit only serves to end a hang, however busy the machine is."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 300
"""Seconds."""


def wait_until(holds: Callable[[], object], pause: float = 0.01) -> None:
    """Wait until ``holds()`` is true."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"waited {PATIENCE} seconds in vain"
        time.sleep(pause)


@contextmanager
def ended_if_it_hangs() -> Iterator[None]:
    """Raise in the main thread if the block never ends."""

    def end(number: int, frame: object) -> None:
        raise AssertionError(f"not done after {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def program(command: list[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that has ended, and whose pipes are closed, when the block is left."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
