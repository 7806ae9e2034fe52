"""Worker processes: what one request does, no other feels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from exactformer.studio.errors import BusyError, InvalidError, StudioError, TooLargeError
from exactformer.studio.playground import frames
from exactformer.studio.playground.workers import Limits, Pool

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = "tests.studio.playground.hostile_jobs"


def pool_of(**limits: Any) -> Pool:
    pool = Pool(Limits(**({"seconds": 30, "memory": 2**28} | limits)), jobs=HOSTILE)
    pool.start()
    return pool


@pytest.fixture(scope="module", autouse=True)
def _path() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setenv("STUDIO_SECRET", "never to be seen by a worker")
        yield


@pytest.fixture(scope="module")
def pool(_path: None) -> Iterator[Pool]:
    pool = pool_of()
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def hasty(_path: None) -> Iterator[Pool]:
    """A pool whose requests have two seconds."""
    pool = pool_of(seconds=2)
    yield pool
    pool.close()


def ask(pool: Pool, job: str, **request: Any) -> Any:
    return json.loads(pool.answer(job, request))


def in_background(pool: Pool, job: str, **request: Any) -> Future[Any]:
    executor = ThreadPoolExecutor(1)
    future = executor.submit(ask, pool, job, **request)
    executor.shutdown(wait=False)
    return future


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked about yet counts as ended, too."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_answers_are_what_the_job_gave(pool: Pool) -> None:
    request = {"text": "ρ(u, v) \\ \" '", "numbers": [1, 0.1, 1e300, None, True]}
    assert ask(pool, "echo", **request) == request


@pytest.mark.parametrize("job", ["sleep", "loop", "loop without letting go"])
def test_a_request_over_its_time_is_ended_while_others_go_on(hasty: Pool, job: str) -> None:
    late = in_background(hasty, job, seconds=1000)
    wait_until(lambda: len(hasty._busy) == 1)
    assert ask(hasty, "echo", beside=job) == {"beside": job}
    assert not late.done()
    with pytest.raises(BusyError, match="longer than 2 seconds"):
        late.result(30)
    assert len(hasty.processes()) == 2


def test_memory_has_a_limit_and_the_message_says_which(pool: Pool) -> None:
    assert ask(pool, "allocate", bytes=2**20) == 2**20
    with pytest.raises(TooLargeError, match=r"limit is 0\.25 GiB"):
        ask(pool, "allocate", bytes=2**29)
    assert ask(pool, "echo", after="memory") == {"after": "memory"}


@pytest.mark.parametrize(
    ("job", "error", "words"),
    [
        ("refuse", InvalidError, "this is wrong, do that instead"),
        ("fail", StudioError, "the log of the server says how"),
        ("infinity", StudioError, "the log of the server says how"),
        ("no such job", StudioError, "the log of the server says how"),
        ("crash", BusyError, "has ended"),
        ("long", TooLargeError, "the answer is too long"),
    ],
)
def test_what_goes_wrong_is_told_and_over(
    pool: Pool, job: str, error: type[StudioError], words: str
) -> None:
    with pytest.raises(error, match=words):
        ask(pool, job)
    assert ask(pool, "echo", after=job) == {"after": job}


def test_wrong_input_does_not_cost_a_worker(pool: Pool) -> None:
    before = set(pool.processes())
    with pytest.raises(InvalidError):
        ask(pool, "refuse")
    assert set(pool.processes()) == before


def test_what_a_library_prints_does_not_get_among_the_messages(pool: Pool) -> None:
    assert ask(pool, "talk") == "answer"


def test_workers_know_nothing_of_the_servers_secrets(pool: Pool) -> None:
    assert "STUDIO_SECRET" in os.environ
    assert "STUDIO_SECRET" not in ask(pool, "environment")


def test_a_request_is_bounded_before_it_is_sent(pool: Pool) -> None:
    with pytest.raises(TooLargeError, match="the limit is 32,768"):
        ask(pool, "echo", text="x" * 40_000)


def test_idle_workers_that_were_killed_are_replaced(pool: Pool) -> None:
    killed = pool.processes()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(map(is_gone, killed)))
    assert ask(pool, "echo", after="kill") == {"after": "kill"}
    assert not set(killed) & set(pool.processes())


def test_a_worker_killed_at_work_fails_its_request_only(pool: Pool) -> None:
    victim = in_background(pool, "sleep", seconds=25, why="to be killed")
    wait_until(lambda: len(pool._busy) == 1)
    (worker,) = pool._busy
    worker.start(20)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(BusyError):
        victim.result(20)
    assert ask(pool, "echo", still="here") == {"still": "here"}


def test_many_clients_at_once_all_get_their_own_answer() -> None:
    pool = pool_of(waiting=40)
    with ThreadPoolExecutor(40) as clients:
        answers = clients.map(lambda k: ask(pool, "echo", k=k), range(200))
        assert [answer["k"] for answer in answers] == list(range(200))
    pool.close()


def test_beyond_the_queue_requests_are_refused_at_once() -> None:
    pool = pool_of(workers=1, waiting=1)
    first = in_background(pool, "sleep", seconds=1, k=1)
    wait_until(lambda: len(pool._busy) == 1)
    second = in_background(pool, "sleep", seconds=0, k=2)
    wait_until(lambda: pool._waiting == 1)
    with pytest.raises(BusyError, match="1 requests are waiting, which is the limit"):
        ask(pool, "sleep", seconds=0, k=3)
    assert [first.result(20), second.result(20)] == ["slept", "slept"]
    pool.close()


def test_answers_are_remembered_up_to_a_number_of_bytes() -> None:
    pool = pool_of(workers=1, kept=30)
    assert ask(pool, "pid") == ask(pool, "pid")
    known = pool.kept("pid", {})
    assert known is not None
    (worker,) = pool.processes()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker))
    assert pool.answer("pid", {}) == known
    ask(pool, "echo", text="x" * 20)
    assert pool.kept("pid", {}) is None
    pool.close()


def test_refusals_are_not_remembered(pool: Pool) -> None:
    with pytest.raises(InvalidError):
        ask(pool, "refuse")
    assert pool.kept("refuse", {}) is None


def test_closing_ends_workers_and_requests() -> None:
    pool = pool_of()
    request = in_background(pool, "sleep", seconds=1000)
    wait_until(lambda: len(pool._busy) == 1)
    processes = pool.processes()
    pool.close()
    with pytest.raises(StudioError):
        request.result(20)
    assert all(map(is_gone, processes))
    with pytest.raises(BusyError):
        pool.answer("echo", {})
    assert pool.processes() == []


def test_no_worker_outlives_a_server_that_is_killed() -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.studio.playground.orphans"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    workers = [int(pid) for pid in server.stdout.readline().split()]
    assert len(workers) == 2
    assert not any(map(is_gone, workers))
    server.kill()
    server.wait()
    server.stdout.close()
    wait_until(lambda: all(map(is_gone, workers)), seconds=30)


def test_asking_whether_a_message_comes_takes_nothing_of_it() -> None:
    reading, writing = os.pipe()
    assert not frames.is_coming(reading)
    frames.send(writing, b"{}")
    assert frames.is_coming(reading)
    assert frames.receive(reading, 10) == b"{}"
    assert not frames.is_coming(reading)
    os.close(writing)
    assert frames.is_coming(reading)
    with pytest.raises(frames.GoneError):
        frames.receive(reading, 10)
    os.close(reading)


def test_where_memory_cannot_be_limited_it_is_watched() -> None:
    program = """
import threading, time
from exactformer.studio.playground.worker import largest_size, watch
threading.Thread(target=watch, args=(largest_size() + 2**27,), daemon=True).start()
kept = [b"x" * 2**20 for _ in range({megabytes})]
time.sleep({patience})
"""
    for megabytes, patience, status in ((32, 0.3, 0), (400, 60, 1)):
        # Through a shell: Linux counts what the parent of a new process had, which here is a lot.
        code = program.format(megabytes=megabytes, patience=patience)
        run = ["/bin/sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, code]
        assert subprocess.run(run, timeout=60).returncode == status


def test_a_message_longer_than_the_limit_is_not_even_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, (frames.LARGEST + 1).to_bytes(8, "big"))
    with pytest.raises(frames.GoneError):
        frames.receive(reading, 1)
    os.close(reading)
    os.close(writing)
