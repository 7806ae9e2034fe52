"""Waiting for an event in tests; the limit only serves to end a hang, however busy the machine is."""

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds."""


def wait_until(holds: Callable[[], object], pause: float = 0.01) -> None:
    """Wait until ``holds()`` is true."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"waited {PATIENCE:g} seconds in vain"
        time.sleep(pause)
