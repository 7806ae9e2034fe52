import json

import pytest

from exactformer.errors import ExperimentError, InputError
from exactformer.experiments import Experiment, Scale, reproduce
from exactformer.experiments.engine import runner
from exactformer.experiments.engine.provenance import command_line
from exactformer.experiments.engine.reproduce import tasks_of
from exactformer.experiments.engine.store import Store
from tests.experiments import toy


def cell_files(out):
    return sorted((out / "cells" / "toy").glob("*[0-9a-f].json"))


def test_every_cell_runs_once_and_a_second_run_repeats_none(tmp_path, marks):
    experiment = toy.toy(marks=marks)
    first = reproduce(experiment, jobs=2, out=tmp_path)
    second = reproduce(experiment, jobs=2, out=tmp_path)
    assert set(toy.runs(marks).values()) == {1}
    assert first.summary == second.summary
    assert (first.provenance.kept, second.provenance.kept) == (0, 10)


def test_processes_and_this_process_compute_the_same(tmp_path):
    alone = reproduce(toy.toy(), jobs=1, out=tmp_path / "alone")
    beside = reproduce(toy.toy(), jobs=2, out=tmp_path / "beside")
    assert [cell.metrics for cell in alone.summary.cells] == [
        cell.metrics for cell in beside.summary.cells
    ]


def test_a_larger_scale_keeps_the_cells_of_a_smaller_one(tmp_path, marks):
    reproduce(toy.toy(marks=marks), scale="smoke", jobs=1, out=tmp_path)
    larger = reproduce(toy.toy(marks=marks), scale="default", jobs=1, out=tmp_path)
    assert larger.provenance.kept == 4
    assert set(toy.runs(marks).values()) == {1}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_cell_is_recorded_and_stops_no_other(tmp_path, marks, jobs):
    experiment = toy.toy(marks=marks, faults={("small", 0): "raise"})
    with pytest.raises(ExperimentError, match=r"(?s)1 of 10 cells.*the toy is broken"):
        reproduce(experiment, jobs=jobs, out=tmp_path)
    assert len(cell_files(tmp_path)) == 9
    (record,) = (tmp_path / "cells" / "toy").glob("*.error.json")
    failure = json.loads(record.read_bytes())["failure"]
    assert failure["error"] == "ValueError: the toy is broken"
    assert "toy.py" in failure["traceback"]
    assert not (tmp_path / "toy.json").exists()


def test_the_next_run_retries_what_failed_and_only_that(tmp_path, marks):
    experiment = toy.toy(marks=marks, faults={("large", 1): "until-mended"})
    with pytest.raises(ExperimentError, match="not mended yet"):
        reproduce(experiment, jobs=1, out=tmp_path)
    (tmp_path / "marks" / "mended").touch()
    reproduce(experiment, jobs=1, out=tmp_path)
    counts = toy.runs(marks)
    assert counts.pop(("large", 1)) == 2
    assert set(counts.values()) == {1}
    assert not list((tmp_path / "cells" / "toy").glob("*.error.json"))


def test_a_cell_that_kills_its_worker_is_found_and_stops_no_other(tmp_path, marks):
    experiment = toy.toy(marks=marks, faults={("small", 1): "die"})
    with pytest.raises(ExperimentError, match=r"(?s)1 of 10 cells.*worker process died"):
        reproduce(experiment, jobs=2, out=tmp_path)
    assert len(cell_files(tmp_path)) == 9


def test_a_damaged_cell_is_run_again_and_no_other(tmp_path, marks):
    experiment = toy.toy(marks=marks)
    before = reproduce(experiment, jobs=1, out=tmp_path)
    damaged = cell_files(tmp_path)[3]
    damaged.write_bytes(damaged.read_bytes()[:-20])
    after = reproduce(experiment, jobs=1, out=tmp_path)
    assert sorted(toy.runs(marks).values()) == [1] * 9 + [2]
    assert before.summary.rows == after.summary.rows


def test_without_out_cells_go_to_the_cache_and_nothing_else_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reproduce(toy.toy(), scale="smoke", jobs=1)
    assert len(list((tmp_path / "cache" / "cells" / "toy").glob("*.json"))) == 4
    assert not (tmp_path / "results").exists()


def test_a_gpu_gets_one_queue_in_this_process_and_cells_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"GPU behind {device}")
    monkeypatch.setattr(runner, "in_processes", lambda *arguments: pytest.fail("processes"))
    reproduce(toy.toy(), jobs=1, out=tmp_path)
    result = reproduce(toy.toy(), device="cuda", out=tmp_path)
    assert {cell.metrics["device"] for cell in result.summary.cells} == {"cuda"}
    assert result.provenance.kept == 0
    assert result.provenance.device == "GPU behind cuda"
    assert result.provenance.command == "exactformer reproduce toy --scale default --device cuda"


def returns_a_number(parameters, device):
    return 3.0


def returns_an_object(parameters, device):
    return {"model": object()}


@pytest.mark.parametrize(
    ("run", "complaint"),
    [(returns_a_number, "float, not a dictionary"), (returns_an_object, "is a object")],
)
def test_metrics_that_cannot_be_kept_are_a_failure_that_says_so(tmp_path, run, complaint):
    experiment = Experiment("odd", "", "", "", lambda scale: [{"seed": 0}], run, ())
    with pytest.raises(ExperimentError, match=complaint):
        reproduce(experiment, out=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"scale": "huge"}, "smoke, default, full"),
        ({"device": "abacus"}, "use cpu or cuda"),
        ({"device": "cuda"}, "No CUDA device is available"),
        ({"device": "mps"}, "cpu or cuda"),
        ({"jobs": 0}, "at least 1"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named_with_the_way_out(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=complaint):
        reproduce(toy.toy(), out=tmp_path, **arguments)


def test_a_grid_that_is_empty_or_repeats_itself_is_refused(tmp_path):
    twice = Experiment("twice", "", "", "", lambda scale: [{"seed": 0}] * 2, toy.run, ())
    with pytest.raises(ExperimentError, match="this cell twice"):
        reproduce(twice, out=tmp_path)
    empty = Experiment("empty", "", "", "", lambda scale: [], toy.run, ())
    random = Experiment("random", "", "", "", lambda scale: [{"seed": 0.5}], toy.run, ())
    with pytest.raises(ExperimentError, match="not a whole number"):
        reproduce(random, out=tmp_path)
    with pytest.raises(ExperimentError, match="no cells at scale smoke"):
        reproduce(empty, scale="smoke", out=tmp_path)


def test_progress_is_told_line_by_line_outside_a_terminal(tmp_path, capsys, monkeypatch):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("exactformer.progress.monotonic", lambda: next(clock))
    reproduce(toy.toy(), scale="smoke", jobs=1, out=tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["toy: 2 of 4 cells, about 12 s left", "toy: 4 of 4 cells"]


@pytest.mark.parametrize(
    ("device", "jobs", "processes"),
    [("cuda", None, 1), ("cuda", 2, 2), ("cpu", 1, 1), ("cpu", 2, 2), ("cpu", 9, 3)],
)
def test_cells_run_in_as_many_processes_as_asked(device, jobs, processes, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(runner, "in_processes", lambda tasks, store, jobs: asked.append(jobs))
    tasks = tasks_of(toy.toy(seeds=3), Scale.SMOKE, device)[:3]
    runner.run(tasks, Store(tmp_path), jobs)
    assert asked == ([processes] if processes > 1 else [])


def test_processes_that_share_a_gpu_are_named_in_the_command():
    assert command_line("x", Scale.FULL, "cuda:0", 3).endswith("--device cuda --jobs 3")
    assert command_line("x", Scale.FULL, "cuda").endswith("--device cuda")
    assert command_line("x", Scale.FULL, "cpu", 3).endswith("--scale full")
