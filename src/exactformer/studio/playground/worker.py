"""What runs in a worker process: load everything once, then answer one request after another.

The process limits itself before it answers anything: memory by RLIMIT_AS above what the libraries
take, processor time by RLIMIT_CPU for every request, no core files, files of a few megabytes. None is
left behind when the server is killed: the kernel ends it with the thread that started it, and where
that cannot be asked for, it ends itself when its pipe closes.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any

from exactformer.errors import ExactformerError, ParseError
from exactformer.studio.playground.frames import LARGEST, GoneError, encode, receive, send

Jobs = Mapping[str, Callable[[dict[str, Any]], Any]]
FILE_BYTES = 64 * 2**20
PR_SET_PDEATHSIG = 1
PATIENCE = 2
"""Seconds of processor time beyond the wall-clock limit, which the server enforces."""


def main(module: str, memory: int, seconds: int) -> None:
    """Answer requests from standard input on standard output until it closes."""
    _end_with_the_server()
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)  # whatever a library prints goes to the log, not among the messages
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs: Jobs = import_module(module).JOBS
    import_module(module).warm_up()
    os.nice(5)  # pages go first
    _limit(memory)
    waiting: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    send(replies, b"{}")
    while True:
        content = waiting.get()
        _limit_time(seconds)
        send(replies, b"{}")  # from here on the request is not given to another worker
        send(replies, answer(jobs, content))


def answer(jobs: Jobs, content: bytes) -> bytes:
    """Return the reply to a request; after what is not an answer or wrong input, end the process."""
    try:
        name, request = json.loads(content)
        reply = encode({"result": jobs[name](request)})
        return reply if len(reply) <= LARGEST else _refusal("memory", "the answer is too long")
    except ParseError as error:  # without the pointer, which is for terminals
        line = "" if error.line is None else f"line {error.line}, "
        return _refusal("input", f"{error.problem} ({line}character {error.column})")
    except ExactformerError as error:
        return _refusal("input", str(error), getattr(error, "remedy", None))
    except MemoryError:
        return _refusal("memory", "memory ran out")
    except Exception as error:
        traceback.print_exc()
        is_memory = isinstance(error, RuntimeError) and "alloc" in str(error)  # as torch says it
        return _refusal("memory" if is_memory else "failure", "the computation failed")


def _refusal(kind: str, message: str, remedy: dict[str, Any] | None = None) -> bytes:
    return encode({"error": kind, "message": message, "remedy": remedy})


def _listen(pipe: int, waiting: SimpleQueue[bytes]) -> None:
    try:
        while True:
            waiting.put(receive(pipe))
    except GoneError:
        os._exit(0)


def _end_with_the_server() -> None:
    with suppress(AttributeError):  # not every C library has it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit(memory: int) -> None:
    try:
        with open("/proc/self/statm") as status:
            taken = int(status.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory))
    except OSError:  # a system that does not say how much is mapped, such as macOS
        Thread(target=watch, args=(largest_size() + memory,), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))


def watch(most: int) -> None:
    """End the process once it has grown beyond so many bytes."""
    while largest_size() <= most:
        time.sleep(0.05)
    os._exit(1)


def largest_size() -> int:
    """Return the most bytes of memory that the process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit_time(seconds: int) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    end = int(usage.ru_utime + usage.ru_stime) + seconds + PATIENCE
    resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
