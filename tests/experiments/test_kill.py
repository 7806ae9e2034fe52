import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exactformer.experiments.engine.result import load
from tests.experiments import toy

PAUSE = 0.06
RUN = f"""
import sys
from exactformer.experiments import reproduce
from tests.experiments.toy import toy
seeds, jobs, out = sys.argv[1:]
reproduce(toy(seeds=int(seeds), pause={PAUSE}), jobs=int(jobs), out=out)
"""


def start(out, seeds, jobs):
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(seeds), str(jobs), str(out)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "JOBLIB_TEMP_FOLDER": str(out)},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )


def finished(out):
    """The finished cells, each with the file's identity: a rewritten cell is another file."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in (out / "cells" / "toy").glob("*.json")
    }


def kill_at_random(process, out, draw):
    """Kill while starting, or some way into a cell after up to two more have finished.

    Sometimes the whole group dies, sometimes only the parent, which leaves its workers behind.
    """
    enough = len(finished(out)) + draw.choice([0, 1, 1, 2])
    deadline = time.monotonic() + (draw.uniform(0, 1.5) if draw.random() < 0.2 else 60)
    while process.poll() is None and time.monotonic() < deadline and len(finished(out)) < enough:
        time.sleep(0.005)
    time.sleep(draw.uniform(0, 1.5 * PAUSE))
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


@pytest.mark.parametrize(
    ("kills", "seeds", "jobs"),
    [pytest.param(20, 35, 2, marks=pytest.mark.slow), (4, 10, 2), (4, 10, 1)],
)
def test_a_run_killed_many_times_ends_as_an_undisturbed_one(tmp_path, kills, seeds, jobs):
    draw = random.Random(kills)
    disturbed, undisturbed = tmp_path / "disturbed", tmp_path / "undisturbed"
    kept = {}
    for _ in range(kills):
        kill_at_random(start(disturbed, seeds, jobs), disturbed, draw)
        now = finished(disturbed)
        assert kept.items() <= now.items(), "a finished cell was lost or run again"
        kept = now
    assert len(kept) < 2 * seeds, "the kills came too late to disturb anything"
    assert start(disturbed, seeds, jobs).wait(60) == 0
    assert start(undisturbed, seeds, jobs).wait(60) == 0
    assert kept.items() <= finished(disturbed).items()
    assert outcome(disturbed) == outcome(undisturbed)
    assert not list(disturbed.rglob("*.tmp"))


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_run_keeps_what_is_finished_and_goes_on(tmp_path, jobs):
    process = start(tmp_path, 6, jobs)
    while not finished(tmp_path):
        time.sleep(0.01)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) != 0
    kept = finished(tmp_path)
    assert 0 < len(kept) < 12
    assert start(tmp_path, 6, jobs).wait(60) == 0
    assert kept.items() <= finished(tmp_path).items()
