import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from exactformer.errors import ExperimentError
from exactformer.experiments import reproduce
from exactformer.experiments.engine import runner
from tests.experiments import toy
from tests.waiting import PATIENCE, wait_until

pytest.importorskip("distributed")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Dask scheduler and two workers, as processes of their own; its address."""
    folder = tmp_path_factory.mktemp("dask")
    scheduler_file = folder / "scheduler.json"
    common = ["--scheduler-file", str(scheduler_file), "--no-dashboard"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
        "DASK_TEMPORARY_DIRECTORY": str(folder),
    }

    def start(kind, *options):
        command = [sys.executable, "-m", "dask", kind, *common, *options]
        with (folder / f"{kind}.log").open("w") as log:
            return subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    worker = start("worker", "--nworkers", "2", "--nthreads", "1", "--host", "127.0.0.1")

    def is_there():
        assert scheduler.poll() is None, (folder / "scheduler.log").read_text()
        return scheduler_file.exists() and scheduler_file.read_text().rstrip().endswith("}")

    try:
        wait_until(is_there)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runner, "_SECONDS_TO_CONNECT", PATIENCE)
            yield json.loads(scheduler_file.read_text())["address"]
    finally:
        for process in (worker, scheduler):
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_real_cluster_computes_the_grid_and_repeats_nothing(cluster, tmp_path, marks):
    experiment = toy.toy(marks=marks)
    there = reproduce(experiment, cluster=cluster, out=tmp_path / "there")
    again = reproduce(experiment, cluster=cluster, out=tmp_path / "there")
    assert set(toy.runs(marks).values()) == {1}
    assert again.provenance.kept == 10
    here = reproduce(experiment, jobs=1, out=tmp_path / "here")
    assert [cell.metrics for cell in there.summary.cells] == [
        cell.metrics for cell in here.summary.cells
    ]


@pytest.mark.slow
def test_on_a_cluster_failing_and_deadly_cells_stop_no_other(cluster, tmp_path):
    experiment = toy.toy(faults={("small", 1): "raise", ("large", 2): "die"})
    with pytest.raises(ExperimentError, match="2 of 10 cells") as caught:
        reproduce(experiment, cluster=cluster, out=tmp_path)
    assert "the toy is broken" in str(caught.value)
    assert "KilledWorker" in str(caught.value)


def test_an_address_where_nobody_answers_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(ExperimentError, match=r"No Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        reproduce(toy.toy(), cluster="tcp://127.0.0.1:9", out=tmp_path)
