"""Messages over a pipe: eight bytes of length, then JSON. Never pickle.

Reading has a deadline and a largest size, because the other end may be slow, broken or hostile.
"""

from __future__ import annotations

import json
import os
import select
from time import monotonic
from typing import Any

LARGEST = 32 * 2**20
"""Bytes of one message."""
_LENGTH = 8


class LateError(Exception):
    """The message did not come in time."""


class GoneError(Exception):
    """The other end has closed the pipe, or sends what is no message."""


def encode(message: Any) -> bytes:
    """Return a message as JSON; a number that JSON has not is an error, not a word of its own."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def send(pipe: int, content: bytes) -> None:
    """Write one message; raise if the other end is gone."""
    left = memoryview(len(content).to_bytes(_LENGTH, "big") + content)
    try:
        while left:
            left = left[os.write(pipe, left) :]
    except OSError as error:
        raise GoneError from error


def receive(pipe: int, seconds: float | None = None) -> bytes:
    """Read one message, within ``seconds`` if given."""
    deadline = None if seconds is None else monotonic() + seconds
    length = int.from_bytes(_read(pipe, _LENGTH, deadline), "big")
    if length > LARGEST:
        raise GoneError
    return _read(pipe, length, deadline)


def is_coming(pipe: int) -> bool:
    """Say whether there is anything to read, without waiting; the end of the pipe counts, too."""
    watch = select.poll()
    watch.register(pipe, select.POLLIN)
    return bool(watch.poll(0))


def _read(pipe: int, size: int, deadline: float | None) -> bytes:
    found = bytearray()
    watch = select.poll()
    watch.register(pipe, select.POLLIN)
    while len(found) < size:
        if deadline is not None:
            left = deadline - monotonic()
            if left <= 0 or not watch.poll(1000 * left):
                raise LateError
        part = os.read(pipe, min(size - len(found), 2**20))
        if not part:
            raise GoneError
        found += part
    return bytes(found)
