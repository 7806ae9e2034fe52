import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exactformer.cli.app import app
from exactformer.errors import ExperimentError
from exactformer.experiments import names, register, registry
from exactformer.experiments import reproduce as reproduce_in_python
from tests.experiments import toy
from tests.waiting import PATIENCE, program, wait_until


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    register(toy.toy())
    return tmp_path


def call(*arguments):
    answer = CliRunner().invoke(app, list(arguments))
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    return answer


def test_the_list_names_every_experiment_in_text_and_json():
    text = call("reproduce", "--list").stdout
    assert all(name in text for name in names())
    listed = json.loads(call("reproduce", "--list", "--json").stdout)
    assert [entry["name"] for entry in listed["experiments"]] == names()


def test_listing_experiments_imports_nothing_heavy():
    code = (
        "import sys; from exactformer.experiments import find, names; [find(n) for n in names()];"
        "heavy = {'torch', 'pandas', 'matplotlib', 'sklearn', 'sympy', 'joblib', 'distributed'};"
        "print(heavy & sys.modules.keys())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_a_run_prints_the_comparison_and_stores_it_by_scale(here):
    answer = call("reproduce", "toy", "--scale", "full", "--jobs", "1")
    assert answer.exit_code == 0
    for part in ("0.105", "agrees", "✓ small is below large", "16 cells", "results/toy.json"):
        assert part in answer.stdout
    assert (here / "results" / "toy.json").exists()
    call("reproduce", "toy", "--scale", "smoke", "--jobs", "1")
    assert json.loads((here / "results" / "toy.json").read_text())["scale"] == "full"
    assert (here / "results" / "smoke" / "toy.json").exists()


def test_json_output_is_the_result_and_nothing_else(here):
    printed = json.loads(call("reproduce", "toy", "--jobs", "1", "--out", "o", "--json").stdout)
    assert printed.pop("saved") == ["o/toy.json", "o/toy.png", "o/toy.svg"]
    assert printed == json.loads((here / "o" / "toy.json").read_text())


def test_an_unknown_name_is_answered_with_the_nearest():
    answer = call("reproduce", "toi")
    assert answer.exit_code == 2
    assert "no experiment 'toi'. Did you mean toy?" in answer.stderr
    with pytest.raises(ExperimentError, match="--list"):
        reproduce_in_python("something-else-entirely")


@pytest.mark.parametrize("arguments", [[], ["toy", "--all"]])
def test_one_name_or_all_must_be_asked_for(arguments):
    answer = call("reproduce", *arguments)
    assert answer.exit_code == 2
    assert "--all" in answer.stderr


def test_check_leaves_with_0_when_nothing_changed_and_1_on_drift():
    call("reproduce", "toy", "--jobs", "1", "--out", "o")
    assert call("reproduce", "toy", "--jobs", "1", "--out", "o", "--check").exit_code == 0
    register(toy.toy(factor=2.0))
    answer = call("reproduce", "toy", "--jobs", "1", "--out", "o", "--check")
    assert answer.exit_code == 1
    assert "has drifted" in answer.stderr


def test_smoke_scale_leaves_with_1_when_the_direction_is_wrong():
    register(toy.toy(factor=-1.0))
    answer = call("reproduce", "toy", "--scale", "smoke", "--jobs", "1", "--out", "o")
    assert answer.exit_code == 1
    assert "✗ small is below large" in answer.stdout


def test_all_goes_on_after_a_failure_and_leaves_with_2(here, monkeypatch):
    monkeypatch.setattr(registry, "_MODULES", {})  # the built-in ones have tests of their own
    register(toy.toy("broken", faults={("small", 0): "raise"}))
    register(toy.toy("later"))
    answer = call("reproduce", "--all", "--scale", "smoke", "--jobs", "1", "--out", "o")
    assert answer.exit_code == 2
    assert "the toy is broken" in answer.stderr
    assert (here / "o" / "later.json").exists()


def test_the_report_command_prints_where_the_page_is(here):
    call("reproduce", "toy", "--scale", "full", "--jobs", "1")
    assert call("report").stdout.strip() == "results/report.html"
    assert "<!doctype html>" in (here / "results" / "report.html").read_text()
    assert "results/report.html exists" in call("report").stderr
    again = call("report", "--json", "--force")
    assert json.loads(again.stdout) == {"saved": ["results/report.html"]}


def test_ctrl_c_leaves_with_130_and_says_how_to_go_on(here):
    code = (
        "from tests.experiments.toy import toy;"
        "from exactformer.experiments import register; register(toy());"
        "from exactformer.cli import main; main()"
    )
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", code, "reproduce", "toy", "--jobs", "1", "--out", "o"]
    environment = {**os.environ, "PYTHONPATH": root, toy.GATE: str(here / "gate")}
    toy.let_pass(here / "gate", 3)
    with program(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        cells = here / "o" / "cells" / "toy"
        wait_until(lambda: len(list(cells.glob("*.json"))) == 3 or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, -signal.SIGINT)  # a shell says 130 of both
    assert "3 of 10 cells finished and kept in o/cells" in errors
    assert "Run the same command again" in errors
    assert "Traceback" not in errors


def test_a_stored_result_is_not_replaced_without_force(here):
    call("reproduce", "toy", "--jobs", "1", "-o", "o")
    before = (here / "o" / "toy.json").read_bytes()
    answer = call("reproduce", "toy", "--jobs", "1", "-o", "o")
    assert answer.exit_code == 2
    assert "o/toy.json exists" in answer.stderr
    assert "--force" in answer.stderr
    assert (here / "o" / "toy.json").read_bytes() == before
    assert call("reproduce", "toy", "--jobs", "1", "-o", "o", "--force").exit_code == 0


def test_a_statement_that_does_not_hold_leaves_with_1_at_every_scale():
    register(toy.toy(factor=-1.0))
    answer = call("reproduce", "toy", "--jobs", "1", "-o", "o", "--json")
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["statements"] == {"small is below large": False}


def test_numbers_that_are_not_finite_are_null_in_json():
    register(toy.toy(faults={("small", 0): "diverge"}))
    answer = call("reproduce", "toy", "--jobs", "1", "-o", "o", "--json")
    rows = {row["label"]: row["mean"] for row in json.loads(answer.stdout)["rows"]}
    assert rows["small, error"] is None
    assert answer.exit_code == 1


def test_json_of_all_holds_results_and_errors(monkeypatch):
    monkeypatch.setattr(registry, "_MODULES", {})
    register(toy.toy("broken", faults={("small", 0): "raise"}))
    answer = call("reproduce", "--all", "--scale", "smoke", "--jobs", "1", "-o", "o", "--json")
    told = json.loads(answer.stdout)
    assert answer.exit_code == 2
    assert [error["experiment"] for error in told["errors"]] == ["broken"]
    assert [result["experiment"] for result in told["results"]] == ["toy"]
    assert told["saved"] == ["o/toy.json", "o/toy.png", "o/toy.svg"]
