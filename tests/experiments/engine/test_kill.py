import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from exactformer.experiments import reproduce
from exactformer.experiments.engine.result import load
from tests.experiments import toy
from tests.waiting import PATIENCE, program, wait_until

RUN = """
import sys
from exactformer.experiments import reproduce
from tests.experiments.toy import toy
seeds, jobs, out = sys.argv[1:]
reproduce(toy(seeds=int(seeds)), jobs=int(jobs), out=out)
"""


@contextmanager
def running(out, seeds, jobs, gate=None):
    root = Path(__file__).parents[3]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}",
        "JOBLIB_TEMP_FOLDER": str(out),
    }
    if gate is not None:
        environment[toy.GATE] = str(gate)
    with program(
        [sys.executable, "-c", RUN, str(seeds), str(jobs), str(out)],
        cwd=root,
        env=environment,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    ) as process:
        yield process


def run_to_its_end(out, seeds, jobs):
    with running(out, seeds, jobs) as process:
        assert process.wait(PATIENCE) == 0


def finished(out):
    """The finished cells, each with the file's identity: a rewritten cell is another file."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in (out / "cells" / "toy").glob("*.json")
    }


def kill_at_random(process, out, gate, draw):
    """Kill while starting, or while a cell is stored or computed after up to two have finished.

    Sometimes the whole group dies, sometimes only the parent, which leaves its workers behind. When
    exactly depends on chance and changes nothing: at most three more cells finish.
    """
    if draw.random() < 0.8:
        more = draw.choice([0, 1, 1, 2])
        enough = len(finished(out)) + more
        toy.let_pass(gate, more)
        wait_until(lambda: len(finished(out)) >= enough or process.poll() is not None)
        toy.let_pass(gate, draw.choice([0, 1]))
        time.sleep(draw.uniform(0, 0.02))
    else:
        time.sleep(draw.uniform(0, 1.5))
    if draw.random() < 0.5:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
        for litter in Path("/dev/shm").glob(f"sem.loky-{process.pid}-*"):
            litter.unlink()  # joblib's own cleaner died with the group
    process.wait()


def outcome(out):
    result = load(out / "toy.json", toy.toy())
    return result.summary.rows, [(cell.parameters, cell.metrics) for cell in result.summary.cells]


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    ("kills", "seeds", "jobs"),
    [pytest.param(20, 35, 2, marks=pytest.mark.slow), (4, 10, 2), (4, 10, 1)],
)
def test_a_run_killed_many_times_ends_as_an_undisturbed_one(tmp_path, kills, seeds, jobs):
    draw = random.Random(kills)
    disturbed, undisturbed = tmp_path / "disturbed", tmp_path / "undisturbed"
    kept = {}
    for number in range(kills):
        gate = tmp_path / "gates" / str(number)
        with running(disturbed, seeds, jobs, gate) as process:
            kill_at_random(process, disturbed, gate, draw)
        now = finished(disturbed)
        assert kept.items() <= now.items(), "a finished cell was lost or run again"
        kept = now
    assert len(kept) < 2 * seeds, "the kills came too late to disturb anything"
    run_to_its_end(disturbed, seeds, jobs)
    reproduce(toy.toy(seeds=seeds), jobs=1, out=undisturbed)
    assert kept.items() <= finished(disturbed).items()
    assert outcome(disturbed) == outcome(undisturbed)
    assert not list(disturbed.rglob("*.partial"))


@pytest.mark.spread(1)
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_run_keeps_what_is_finished_and_goes_on(tmp_path, jobs):
    toy.let_pass(tmp_path / "gate", 3)
    with running(tmp_path, 6, jobs, tmp_path / "gate") as process:
        wait_until(lambda: len(finished(tmp_path)) == 3 or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) != 0
    kept = finished(tmp_path)
    assert len(kept) == 3
    run_to_its_end(tmp_path, 6, jobs)
    assert kept.items() <= finished(tmp_path).items()


def test_a_worker_whose_parent_was_gone_before_its_first_cell_ends_too():
    code = """
import os, signal
from exactformer.experiments.engine.runner import _end_with_parent
_end_with_parent(parent=os.getpid())  # whoever its parent is, it is another process
signal.pause()
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE).returncode == 1
