"""Coroutines in tests: a browser's driver keeps a loop of its own running in the main thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def complete(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine in a thread where no other loop is running; return its answer."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
