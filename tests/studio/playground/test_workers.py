"""Worker processes: what one request does, no other feels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exactformer.studio.errors import BusyError, InvalidError, StudioError, TooLargeError
from exactformer.studio.playground import frames
from exactformer.studio.playground.workers import Limits, Pool, Worker, WorkerFailedError
from tests.waiting import PATIENCE, program, wait_until

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = "tests.studio.playground.hostile_jobs"


def pool_of(**limits: Any) -> Pool:
    """A pool whose requests have more time than they ever need, unless asked otherwise."""
    pool = Pool(Limits(**({"seconds": 600, "memory": 2**28} | limits)), jobs=HOSTILE)
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
    with closing(pool_of()) as pool:
        yield pool


def ask(pool: Pool, job: str, **request: Any) -> Any:
    return json.loads(pool.answer(job, request))


def in_background(pool: Pool, job: str, **request: Any) -> Future[Any]:
    executor = ThreadPoolExecutor(1)
    future = executor.submit(ask, pool, job, **request)
    executor.shutdown(wait=False)
    return future


def at_work(pool: Pool, job: str, folder: Path) -> Future[Any]:
    """Ask in the background; return when a worker has begun. ``folder / "end"`` ends what waits."""
    begun, end = folder / "begun", folder / "end"
    future = in_background(pool, job, begun=str(begun), end=str(end))
    wait_until(lambda: begun.exists() or future.done())
    return future


def kill(process: int) -> None:
    """Kill a worker and wait for its end, but leave it to the pool to notice."""
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)


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


ENDLESS = ["wait", "loop", "loop without letting go"]


@pytest.mark.parametrize("job", ENDLESS)
def test_while_one_request_takes_forever_others_go_on(job: str, tmp_path: Path) -> None:
    with closing(pool_of()) as pool:
        late = at_work(pool, job, tmp_path)
        assert ask(pool, "echo", beside=job) == {"beside": job}
        assert not late.done()


@pytest.mark.parametrize("job", ENDLESS)
def test_a_request_over_its_time_is_ended_with_its_worker(job: str, tmp_path: Path) -> None:
    with closing(pool_of(seconds=1, workers=1)) as pool:
        (worker,) = pool.processes()
        with pytest.raises(BusyError, match="longer than 1 second,"):
            ask(pool, job, begun=str(tmp_path / "begun"), end=str(tmp_path / "end"))
        assert is_gone(worker)
        assert len(pool.processes()) == 1


def test_a_worker_that_ends_itself_for_its_time_is_reported_as_late(tmp_path: Path) -> None:
    with closing(pool_of(seconds=1, workers=1)) as pool:
        pool.limits = replace(pool.limits, seconds=600)  # the server's own limit never comes
        with pytest.raises(BusyError, match="takes longer than"):
            ask(pool, "loop", begun=str(tmp_path / "begun"))


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
    for process in killed:
        kill(process)
    assert ask(pool, "echo", after="kill") == {"after": "kill"}
    assert not set(killed) & set(pool.processes())


@pytest.fixture(params=["loading", "ready"])
def single(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool of one worker, which still loads or has answered before."""
    with closing(pool_of(workers=1)) as pool:
        if request.param == "ready":
            ask(pool, "echo", first=True)
        yield pool


def test_a_worker_that_dies_before_it_is_lent_fails_no_request(
    single: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, killed = single._take, single.processes()

    def kill_and_take(asker: str) -> Worker:
        for process in killed:
            kill(process)
        return take(asker)

    monkeypatch.setattr(single, "_take", kill_and_take)
    assert ask(single, "echo", still="here") == {"still": "here"}
    assert not set(killed) & set(single.processes())


def test_a_worker_that_dies_after_it_is_lent_fails_no_request(
    single: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, killed = single._take, single.processes()

    def take_and_kill(asker: str) -> Worker:
        worker = take(asker)
        kill(worker.pid)
        return worker

    monkeypatch.setattr(single, "_take", take_and_kill)
    assert ask(single, "echo", still="here") == {"still": "here"}
    assert not set(killed) & set(single.processes())


def test_a_dead_worker_that_the_system_still_calls_alive_fails_no_request(
    single: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process counts as running until the last of its threads has gone."""
    (killed,) = single.processes()
    kill(killed)
    monkeypatch.setattr(Worker, "is_alive", True)
    assert ask(single, "echo", still="here") == {"still": "here"}
    assert killed not in single.processes()


def test_a_request_whose_worker_died_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(pool_of(workers=1, waiting=1)) as pool:
        take, others = pool._take, []

        def take_and_kill_while_the_queue_fills(asker: str) -> Worker:
            monkeypatch.undo()
            worker = take(asker)
            kill(worker.pid)
            others.append(in_background(pool, "echo", turn=2))
            wait_until(lambda: len(pool._queue) == 1)
            return worker

        monkeypatch.setattr(pool, "_take", take_and_kill_while_the_queue_fills)
        assert ask(pool, "echo", turn=1) == {"turn": 1}
        assert [other.result(PATIENCE) for other in others] == [{"turn": 2}]


def test_workers_that_cannot_start_are_reported_and_not_tried_forever() -> None:
    with (
        closing(Pool(Limits(workers=1), jobs="tests.studio.playground.no_such_jobs")) as pool,
        pytest.raises(WorkerFailedError, match="did not start"),
    ):
        ask(pool, "echo")


def test_a_worker_killed_at_work_fails_its_request_only(pool: Pool, tmp_path: Path) -> None:
    victim = at_work(pool, "wait", tmp_path)
    (worker,) = pool._busy
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(BusyError, match="has ended"):
        victim.result(PATIENCE)
    assert ask(pool, "echo", still="here") == {"still": "here"}


def test_a_request_that_ended_its_worker_is_not_tried_again(pool: Pool, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with pytest.raises(BusyError, match="has ended"):
        ask(pool, "crash", begun=str(begun))
    assert begun.read_text() == "begun\n"
    assert ask(pool, "echo", after="crash") == {"after": "crash"}


def test_many_clients_at_once_all_get_their_own_answer() -> None:
    with closing(pool_of(waiting=40)) as pool, ThreadPoolExecutor(40) as clients:
        answers = clients.map(lambda k: ask(pool, "echo", k=k), range(200))
        assert [answer["k"] for answer in answers] == list(range(200))


def test_beyond_the_queue_requests_are_refused_at_once(tmp_path: Path) -> None:
    with closing(pool_of(workers=1, waiting=1)) as pool:
        first = at_work(pool, "wait", tmp_path)
        second = in_background(pool, "echo", k=2)
        wait_until(lambda: len(pool._queue) == 1)
        with pytest.raises(BusyError, match="1 requests are waiting, which is the limit"):
            ask(pool, "echo", k=3)
        (tmp_path / "end").touch()
        assert [first.result(PATIENCE), second.result(PATIENCE)] == ["waited", {"k": 2}]


def test_answers_are_remembered_up_to_a_number_of_bytes() -> None:
    with closing(pool_of(workers=1, kept=30)) as pool:
        assert ask(pool, "pid") == ask(pool, "pid")
        known = pool.kept("pid", {})
        assert known is not None
        (worker,) = pool.processes()
        kill(worker)
        assert pool.answer("pid", {}) == known
        ask(pool, "echo", text="x" * 20)
        assert pool.kept("pid", {}) is None


def test_refusals_are_not_remembered(pool: Pool) -> None:
    with pytest.raises(InvalidError):
        ask(pool, "refuse")
    assert pool.kept("refuse", {}) is None


def test_closing_ends_workers_and_requests(tmp_path: Path) -> None:
    with closing(pool_of()) as pool:
        request = at_work(pool, "wait", tmp_path)
        processes = pool.processes()
        pool.close()
        with pytest.raises(StudioError):
            request.result(PATIENCE)
        assert all(map(is_gone, processes))
        with pytest.raises(BusyError):
            pool.answer("echo", {})
        assert pool.processes() == []


def test_no_worker_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.studio.playground.orphans", str(tmp_path)]
    with program(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        workers = [int(pid) for pid in server.stdout.readline().split()]
        assert len(workers) == 2
        assert not any(map(is_gone, workers))
    wait_until(lambda: all(map(is_gone, workers)))


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
    watched = """
from threading import Semaphore, Thread
from exactformer.studio.playground import worker
size, looks = worker.largest_size, Semaphore(0)
def look():
    looks.release()
    return size()
worker.largest_size = look
Thread(target=worker.watch, args=(size() + 2**27,), daemon=True).start()
kept = [b"x" * 2**20 for _ in range({megabytes})]
looks = Semaphore(0)
for _ in range(3):
    looks.acquire()
"""
    for megabytes, status in ((32, 0), (400, 1)):
        # Through a shell: Linux counts what the parent of a new process had, which here is a lot.
        code = watched.format(megabytes=megabytes)
        run = ["/bin/sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, code]
        assert subprocess.run(run, timeout=PATIENCE).returncode == status


def test_a_message_longer_than_the_limit_is_not_even_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, (frames.LARGEST + 1).to_bytes(8, "big"))
    with pytest.raises(frames.GoneError):
        frames.receive(reading, 1)
    os.close(reading)
    os.close(writing)


def asked_by(pool: Pool, asker: str, job: str, **request: Any) -> Future[bytes]:
    """Ask in the background as somebody; return when the request waits or is under way."""
    before = [*pool._queue, *pool._busy]
    executor = ThreadPoolExecutor(1)
    future = executor.submit(pool.answer, job, request, asker)
    executor.shutdown(wait=False)
    wait_until(lambda: [*pool._queue, *pool._busy] != before or future.done())
    return future


def test_nobody_shuts_others_out(tmp_path: Path) -> None:
    with closing(pool_of(workers=1, waiting=8)) as pool:
        first = at_work(pool, "wait", tmp_path)
        begun = tmp_path / "order"
        held = [
            asked_by(pool, "mallory", "wait", begun=str(begun), end=str(tmp_path / "end"), n=n)
            for n in range(2)
        ]
        assert len(pool._queue) == 2
        newest = asked_by(pool, "mallory", "echo", n=2)
        with pytest.raises(BusyError, match="newer request of yours"):
            held[0].result(PATIENCE)
        assert len(pool._queue) == 2
        other = asked_by(pool, "ada", "echo", whose="ada")
        (tmp_path / "end").touch()
        assert json.loads(other.result(PATIENCE)) == {"whose": "ada"}
        assert first.result(PATIENCE) == "waited"
        assert json.loads(newest.result(PATIENCE)) == {"n": 2}


def test_a_free_worker_goes_to_whoever_occupies_the_fewest(tmp_path: Path) -> None:
    with closing(pool_of(workers=2)) as pool:
        ends = [tmp_path / "end 1", tmp_path / "end 2"]
        held = [
            asked_by(pool, "mallory", "wait", begun=str(tmp_path / "begun"), end=str(end))
            for end in ends
        ]
        wait_until(lambda: not pool._queue)
        last = tmp_path / "last"
        greedy = asked_by(pool, "mallory", "wait", begun=str(last), end=str(tmp_path / "end 3"))
        other = asked_by(pool, "ada", "echo", whose="ada")
        ends[0].touch()
        assert json.loads(other.result(PATIENCE)) == {"whose": "ada"}
        (tmp_path / "end 3").touch()
        ends[1].touch()
        for future in (*held, greedy):
            assert json.loads(future.result(PATIENCE)) == "waited"
