"""Jobs that a worker should survive: they wait, loop, allocate, crash and talk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from exactformer.errors import InputError


def warm_up() -> None:
    """Nothing to load."""


def _begin(request: dict[str, Any]) -> None:
    """Leave a line in the request's file, so that tests see how often the work was begun."""
    with open(request["begun"], "a") as file:
        file.write("begun\n")


def _wait(request: dict[str, Any]) -> str:
    """Wait for the file that the request names, forever if need be."""
    _begin(request)
    while not os.path.exists(request["end"]):
        time.sleep(0.01)
    return "waited"


def _loop(request: dict[str, Any]) -> None:
    _begin(request)
    while True:
        pass


def _loop_without_letting_go(request: dict[str, Any]) -> int:
    """One long instruction, during which no other thread of the interpreter gets a turn."""
    _begin(request)
    return sum(range(10**15))


def _crash(request: dict[str, Any]) -> None:
    _begin(request)
    os.abort()


def _allocate(request: dict[str, Any]) -> int:
    return len(bytearray(request["bytes"]))


def _refuse(request: dict[str, Any]) -> None:
    raise InputError("this is wrong, do that instead")


def _talk(request: dict[str, Any]) -> str:
    print("among the messages?", flush=True)
    os.write(1, b'{"result": "forged"}')
    return "answer"


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "echo": lambda request: request,
    "pid": lambda request: os.getpid(),
    "environment": lambda request: sorted(os.environ),
    "wait": _wait,
    "loop": _loop,
    "loop without letting go": _loop_without_letting_go,
    "allocate": _allocate,
    "crash": _crash,
    "fail": lambda request: 1 // 0,
    "infinity": lambda request: float("inf"),
    "refuse": _refuse,
    "long": lambda request: "x" * (40 * 2**20),
    "talk": _talk,
}
