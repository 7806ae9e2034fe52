"""The pool of worker processes: a long or hostile request stalls nobody but itself.

Every worker is a process of its own session that answers one request at a time. One that exceeds its
time is killed and replaced; one that exceeds its memory ends itself. A worker confirms a request before
it computes anything, so that one found dead is replaced without failing the request. Requests that
wait for a worker are counted, and refused beyond a stated number, so that threads of the server never
run out. A free worker goes to whoever occupies the fewest, and one asker's newest requests take the
place of her older ones, so that nobody shuts others out. Answers are kept, up to a number of bytes, so
that moving a slider back and forth costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from threading import Condition, Lock
from typing import Any

from exactformer.core.words import plural
from exactformer.studio.errors import BusyError, InvalidError, StudioError, TooLargeError
from exactformer.studio.playground.frames import (
    GoneError,
    LateError,
    encode,
    is_coming,
    receive,
    send,
)
from exactformer.studio.settings import Settings

LARGEST_REQUEST = 2**15
"""Bytes; less than a pipe holds, so that sending never waits."""
START_SECONDS = 60.0
_RESULT = b'{"result":'
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")


class WorkerFailedError(StudioError):
    """A worker ended, or failed in a way nobody foresaw."""

    status = 500


@dataclass(frozen=True)
class Limits:
    """What one request may take, and how many may wait."""

    workers: int = 2
    seconds: int = 10
    memory: int = 2**30
    """Bytes above what the libraries take."""
    waiting: int = 8
    waiting_each: int = 2
    """Requests of one asker that may wait at the same time."""
    kept: int = 32 * 2**20
    """Bytes of answers that are remembered."""

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Return what the studio was asked for."""
        return cls(
            workers=max(1, settings.playground_workers // settings.workers),
            seconds=ceil(settings.compile_seconds),
            memory=settings.compile_bytes,
            waiting=settings.compile_waiting,
            waiting_each=settings.compile_waiting_each,
        )


@dataclass(eq=False)
class _Ticket:
    """A request that waits; ``asker`` is empty where nobody in particular asks."""

    asker: str
    is_superseded: bool = False


class Worker:
    """One process and its two pipes."""

    def __init__(self, jobs: str, limits: Limits) -> None:
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        inherited = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        command = [sys.executable, "-P", "-m", "exactformer.studio.playground.worker"]
        self._process = subprocess.Popen(
            [*command, jobs, str(limits.memory), str(limits.seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={**inherited, **threads},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._is_ready = False

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether the process has loaded what it needs."""
        if not self._is_ready and is_coming(self._replies.fileno()):
            with suppress(LateError, GoneError):
                self.start(START_SECONDS)
        return self._is_ready

    @property
    def is_alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def start(self, seconds: float) -> None:
        """Wait until the process has loaded what it needs."""
        if not self._is_ready:
            receive(self._replies.fileno(), seconds)
            self._is_ready = True

    def begin(self, content: bytes, seconds: float) -> None:
        """Send one request; return when the process has begun to compute."""
        self.start(seconds)
        send(self._requests.fileno(), content)
        receive(self._replies.fileno(), seconds)

    def reply(self, seconds: float) -> bytes:
        """Return the reply to the request that was begun."""
        return receive(self._replies.fileno(), seconds)

    @property
    def used_up_its_time(self) -> bool:
        """Whether the process, which has ended, had computed for longer than it may."""
        return self._process.returncode == -signal.SIGXCPU

    def end(self) -> None:
        """Kill the process and whatever it started; wait for it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._requests, self._replies):
            pipe.close()


class Pool:
    """Workers that are started when they are first needed, and replaced when they end."""

    def __init__(
        self, limits: Limits | None = None, jobs: str = "exactformer.studio.playground.jobs"
    ) -> None:
        self.limits = limits or Limits()
        self._jobs = jobs
        self._idle: list[Worker] = []
        self._busy: dict[Worker, str] = {}
        self._queue: list[_Ticket] = []
        self._is_closed = False
        self._change = Condition()
        self._kept = _Kept(self.limits.kept)
        # Workers end with the thread that started them, so that one has to last.
        self._starter = ThreadPoolExecutor(1)

    def start(self) -> None:
        """Start the workers that are missing, without waiting for them."""
        with self._change:
            for worker in [worker for worker in self._idle if not worker.is_alive]:
                self._idle.remove(worker)
                worker.end()
            while not self._is_closed and len(self._idle) + len(self._busy) < self.limits.workers:
                self._idle.append(self._new())

    def kept(self, job: str, request: dict[str, Any]) -> bytes | None:
        """Return an answer given before, if it is remembered."""
        return self._kept.get(encode([job, request]))

    def answer(self, job: str, request: dict[str, Any], asker: str = "") -> bytes:
        """Return the answer to a request of ``asker`` as JSON, or raise what stands against it."""
        content = encode([job, request])
        if len(content) > LARGEST_REQUEST:
            raise TooLargeError(
                f"the request has {len(content):,} bytes, the limit is {LARGEST_REQUEST:,}"
            )
        if (known := self._kept.get(content)) is not None:
            return known
        with self._one(content, asker) as worker:
            reply = self._reply(worker)
            if not reply.startswith(_RESULT):
                message = json.loads(reply)
                if message["error"] != "input":
                    worker.end()
                raise self._refusal(message["error"], message["message"], message.get("remedy"))
        result = reply[len(_RESULT) : -1]
        self._kept.put(content, result)
        return result

    def close(self) -> None:
        """End all workers; requests under way are refused."""
        with self._change:
            self._is_closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
            self._change.notify_all()
        for worker in workers:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)
        with self._change:
            self._change.wait_for(lambda: not self._busy, START_SECONDS)
        for worker in workers:
            worker.end()
        self._starter.shutdown()

    def processes(self) -> list[int]:
        """Return the workers' process ids."""
        with self._change:
            return [worker.pid for worker in (*self._idle, *self._busy)]

    @contextmanager
    def _one(self, content: bytes, asker: str) -> Iterator[Worker]:
        """Lend a worker that has begun the request; one that is no longer fit is replaced."""
        self.start()
        worker = self._take(asker)
        try:
            if not self._begins(worker, content):
                worker = self._replacement(worker)
                if not self._begins(worker, content):
                    raise WorkerFailedError("a worker process did not start; try again")
            yield worker
        finally:
            with self._change:
                self._busy.pop(worker, None)
                if worker.is_alive and not self._is_closed:
                    self._idle.append(worker)
                self._change.notify_all()
            self.start()

    def _new(self) -> Worker:
        return self._starter.submit(Worker, self._jobs, self.limits).result()

    def _begins(self, worker: Worker, content: bytes) -> bool:
        """Return whether the worker begins the request; one that does not is gone.

        Whether a process is alive can only be known of the past: a worker may die, or be found dead,
        at any moment after it was last seen alive.
        """
        try:
            worker.begin(content, START_SECONDS)
        except LateError:
            worker.end()
            raise WorkerFailedError(
                f"a worker process did not start within {START_SECONDS:g} seconds; try again"
            ) from None
        except GoneError:
            worker.end()
            return False
        return True

    def _replacement(self, worker: Worker) -> Worker:
        """Return a new worker in the place of one that is gone, for the same request."""
        with self._change:
            if self._is_closed:
                raise BusyError("the studio is closing; try again in a few seconds")
            replacement = self._new()
            self._busy[replacement] = self._busy.pop(worker)
            return replacement

    def _take(self, asker: str) -> Worker:
        ticket = _Ticket(asker)
        with self._change:
            self._queue_up(ticket)
            try:
                came = self._change.wait_for(
                    lambda: (
                        self._is_closed
                        or ticket.is_superseded
                        or (self._idle and self._next() is ticket)
                    ),
                    self._longest_wait(),
                )
            finally:
                if ticket in self._queue:
                    self._queue.remove(ticket)
            if ticket.is_superseded:
                raise BusyError("a newer request of yours has taken the place of this one")
            if not came or self._is_closed:
                raise BusyError("no worker was free in time; try again in a few seconds")
            ready = [worker for worker in self._idle if worker.is_alive and worker.is_ready]
            worker = (ready or self._idle)[0]
            self._idle.remove(worker)
            self._busy[worker] = asker
            self._change.notify_all()  # the next ticket may find another worker idle
            return worker

    def _queue_up(self, ticket: _Ticket) -> None:
        """Let a ticket wait; beyond the asker's share, her oldest one makes room."""
        own = [other for other in self._queue if ticket.asker and other.asker == ticket.asker]
        if len(own) >= self.limits.waiting_each:
            own[0].is_superseded = True
            self._queue.remove(own[0])
            self._change.notify_all()
        elif len(self._queue) >= self.limits.waiting:
            raise BusyError(
                f"all workers are taken and {len(self._queue)} requests are waiting, which is the "
                "limit; try again in a few seconds"
            )
        self._queue.append(ticket)

    def _next(self) -> _Ticket:
        """Return whose turn it is: of those who occupy the fewest workers, the first."""
        taken = Counter(asker for asker in self._busy.values() if asker)
        return min(self._queue, key=lambda ticket: taken[ticket.asker])

    def _longest_wait(self) -> float:
        turns = 1 + self.limits.waiting / self.limits.workers
        return START_SECONDS + turns * self.limits.seconds

    def _reply(self, worker: Worker) -> bytes:
        try:
            return worker.reply(self.limits.seconds)
        except (LateError, GoneError) as error:
            worker.end()
            is_late = isinstance(error, LateError) or worker.used_up_its_time
        if is_late:
            raise BusyError(
                f"this takes longer than {plural(self.limits.seconds, 'second')}, the limit of the "
                "playground; ask for less, or run it on your own machine with the same words"
            )
        raise BusyError(
            "the worker that computed this has ended; the limits are "
            f"{plural(self.limits.seconds, 'second')} and {self.limits.memory / 2**30:g} GiB. "
            "Try again, or ask for less"
        )

    def _refusal(self, kind: str, message: str, remedy: dict[str, Any] | None) -> StudioError:
        if kind == "input":
            return InvalidError(message, remedy)
        if kind == "memory":
            limit = f"{self.limits.memory / 2**30:g} GiB"
            return TooLargeError(f"{message}; the playground's limit is {limit}: ask for less")
        return WorkerFailedError(f"{message}; the log of the server says how")


class _Kept:
    """Answers by the digest of their request, the latest used last."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, content: bytes) -> bytes | None:
        key = hashlib.sha256(content).digest()
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def put(self, content: bytes, answer: bytes) -> None:
        key = hashlib.sha256(content).digest()
        with self._lock:
            self._size += len(answer) - len(self._answers.pop(key, b""))
            self._answers[key] = answer
            while self._size > self._most:
                self._size -= len(self._answers.popitem(last=False)[1])
