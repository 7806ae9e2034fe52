import json
import math
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from exactformer.claims import Verdict
from exactformer.errors import DriftError, FileFormatError, InputError
from exactformer.experiments import Row, find, reproduce
from exactformer.experiments.engine import provenance
from exactformer.experiments.engine.drift import agree
from exactformer.experiments.engine.result import load, refresh
from exactformer.experiments.engine.verdict import Outcome
from tests.experiments import toy


@pytest.fixture
def result(tmp_path):
    return reproduce(toy.toy(), jobs=1, out=tmp_path)


def test_a_saved_result_reads_back_equal(result, tmp_path):
    assert load(tmp_path / "toy.json", result.experiment) == result


def test_the_table_has_a_row_per_quantity(result):
    table = result.table
    assert list(table["quantity"]) == ["small, error", "large, error"]
    assert table["expected"][0] == 0.105
    assert table["seeds"][0] == 5
    assert table["ratio"][0] == pytest.approx(table["ours"][0] / 0.105)
    assert table["verdict"][0] == "agrees"


def test_the_claim_is_tested(result):
    assert result.statements == {"small is below large": True}
    upside_down = reproduce(toy.toy(factor=-1.0), jobs=1)
    assert upside_down.broken == ["small is below large"]
    assert upside_down.verdict is Verdict.BEYOND  # no paper claims it


def test_diverged_metrics_are_saved_as_strict_json_and_read_back(tmp_path):
    experiment = toy.toy(faults={("large", 0): "diverge"}, figure=None)
    result = reproduce(experiment, jobs=1, out=tmp_path)
    text = (tmp_path / "toy.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert load(tmp_path / "toy.json", result.experiment).summary["large, error"] == math.inf


def test_figures_have_the_same_bytes_every_time(tmp_path):
    result = reproduce(toy.toy(figure=None), jobs=1, out=tmp_path)
    first = {kind: (tmp_path / f"toy.{kind}").read_bytes() for kind in ("png", "svg")}
    result.save(tmp_path / "again")
    for kind, data in first.items():
        assert (tmp_path / "again" / f"toy.{kind}").read_bytes() == data
    assert b"<dc:date>" not in first["svg"]


def test_provenance_says_how_to_run_it_again_and_what_it_cost(result):
    origin = result.provenance
    assert origin.command == "exactformer reproduce toy --scale default"
    assert origin.seeds == (0, 1, 2, 3, 4)
    assert origin.cells == 10
    assert origin.seconds == sum(cell.seconds for cell in result.summary.cells)
    assert origin.date.endswith("+00:00")


def test_a_result_holds_nothing_about_who_made_it_or_where(tmp_path, monkeypatch):
    for name in ("USER", "LOGNAME", "HOSTNAME", "HOME"):
        monkeypatch.setenv(name, "/secret")
    for function in ("platform.node", "socket.gethostname"):
        monkeypatch.setattr(function, lambda: "secret")
    out = tmp_path / "secret"
    reproduce(toy.toy(figure=None), device="cpu", jobs=1, out=out)
    for path in [out / "toy.json", out / "toy.svg"]:
        text = path.read_text()
        assert "secret" not in text
        assert not re.search(r"""["' ]/(home|root|tmp|work|usr|Users)/""", text)


def test_the_commit_is_that_of_the_source_and_of_nothing_else(tmp_path, monkeypatch):
    commit, modified = provenance.git_state(tmp_path)  # no repository here
    assert (commit, modified) == (None, None)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    assert provenance.git_state(tmp_path) == (None, None)  # someone else's repository
    monkeypatch.setenv("PATH", "")
    assert provenance.git_state(tmp_path) == (None, None)  # no git


def test_check_passes_on_the_same_and_computes_every_cell_anew(tmp_path, marks):
    experiment = toy.toy(marks=marks)
    reproduce(experiment, jobs=1, out=tmp_path)
    stored = (tmp_path / "toy.json").read_bytes()
    for times in (2, 3):
        reproduce(experiment, jobs=1, out=tmp_path, check=True)
        assert set(toy.runs(marks).values()) == {times}
    assert (tmp_path / "toy.json").read_bytes() == stored
    assert not (tmp_path / "check").exists()


def test_check_fails_on_drift_and_names_the_row(tmp_path):
    reproduce(toy.toy(), jobs=1, out=tmp_path)
    drifted = toy.toy(factor=1.2)
    with pytest.raises(DriftError, match=r"2 of 2 rows:\n  large, error: stored 31\.\d+, now 37"):
        reproduce(drifted, jobs=1, out=tmp_path, check=True)


def test_check_needs_a_stored_result_of_the_same_scale(tmp_path):
    with pytest.raises(InputError, match="without --check first"):
        reproduce(toy.toy(), out=tmp_path, check=True)
    reproduce(toy.toy(), scale="smoke", jobs=1, out=tmp_path)
    with pytest.raises(InputError, match="check it with --scale smoke"):
        reproduce(toy.toy(), out=tmp_path, check=True)


def row(*values, drift=1e-6):
    return Row("e", values, None, None, "", Outcome.NOT_COMPARED, "", drift)


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        (row(1.0), row(1.0), True),
        (row(1.0), row(1.0 + 1e-7), True),
        (row(1.0), row(1.0 + 1e-5), False),
        (row(1.0), row(1.04, drift=0.05), True),
        (row(1.0), row(9.0, drift=math.inf), True),
        (row(0.9, 1.1), row(1.2, 1.4), True),  # 3 standard errors are 0.42
        (row(0.9, 1.1), row(1.4, 1.6), False),
        (row(math.nan), row(math.nan), True),
        (row(math.inf), row(math.nan), False),
        (row(1.0), row(math.nan), False),
        (row(0.0), row(0.0), True),
    ],
)
def test_drift_is_a_difference_beyond_three_standard_errors(was, now, same):
    assert agree(was, now) is same


@pytest.mark.parametrize("content", ["", "[]", '{"format": "other"}', '{"format": 1', None])
def test_a_file_that_is_no_result_is_refused(result, tmp_path, content):
    path = tmp_path / "toy.json"
    if content is None:
        whole = json.loads(path.read_text())
        del whole["rows"]
        content = json.dumps(whole)
    path.write_text(content)
    with pytest.raises(FileFormatError, match=r"toy\.json"):
        load(path, result.experiment)


def changed(path, **fields):
    """A stored result with other content."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return path


def test_stored_words_decide_nothing(result, tmp_path):
    statements = {"small is below large": False}
    path = changed(tmp_path / "toy.json", verdict="not reproduced", statements=statements)
    read = load(path, result.experiment)
    assert read.verdict is Verdict.BEYOND
    assert read.statements == {"small is below large": True}


def test_derived_words_are_written_back(result, tmp_path):
    path = tmp_path / "toy.json"
    whole = path.read_bytes()
    assert not refresh(path, result.experiment)
    changed(path, verdict="not reproduced", why="So it says.")
    assert refresh(path, result.experiment)
    assert path.read_bytes() == whole


def test_a_row_that_a_file_lacks_follows_from_its_cells(result, tmp_path):
    rows = json.loads((tmp_path / "toy.json").read_text())["rows"]
    read = load(changed(tmp_path / "toy.json", rows=rows[1:]), result.experiment)
    assert read.summary.row("small, error") == result.summary.row("small, error")


def test_a_statement_that_a_file_lacks_follows_from_its_numbers(result, tmp_path):
    read = load(changed(tmp_path / "toy.json", statements={}), result.experiment)
    assert read.statements == {"small is below large": True}


def test_a_statement_whose_numbers_a_file_lacks_is_as_the_run_tested_it(result, tmp_path):
    read = load(changed(tmp_path / "toy.json", rows=[], cells=[]), result.experiment)
    assert read.statements == {"small is below large": True}


def test_what_a_claim_needs_and_a_file_lacks_is_named_and_not_guessed(result, tmp_path):
    path = changed(tmp_path / "toy.json", rows=[], cells=[], statements={})
    read = load(path, find("jiang-figure-2"))
    assert read.verdict is Outcome.NOT_COMPARED
    assert "the median coefficient of variation" in read.why


def test_a_row_that_this_version_does_not_have_is_kept_and_not_judged(result, tmp_path):
    fewer = replace(result.experiment, quantities=result.experiment.quantities[1:], statements=())
    read = load(tmp_path / "toy.json", fewer)
    assert read.summary.row("small, error").verdict is Outcome.NOT_COMPARED


RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_the_words_in_a_stored_result_are_those_that_follow_from_it(path):
    stored = json.loads(path.read_text())
    read = load(path, find(path.stem))
    assert not read.unjudged
    assert stored["verdict"] == read.verdict
    assert stored["why"] == read.why
    assert stored["statements"] == read.statements


@pytest.mark.parametrize(
    "name",
    [
        "fang-figure-2",
        "fang-figure-3",
        "fang-table-1",
        "jiang-mixing",
        "jiang-table-1",
        "jiang-table-2",
    ],
)
def test_figures_of_stored_results_can_be_drawn_again(name):
    """At full scale published values are drawn, too."""
    assert load(RESULTS / f"{name}.json", find(name)).figure().axes
