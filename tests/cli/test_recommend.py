"""``exactformer recommend``: files in, an answer out."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from exactformer.cli.app import app

pytestmark = pytest.mark.usefixtures("hardly_trained")


@pytest.fixture
def call():
    def run(*arguments):
        answer = CliRunner().invoke(app, ["recommend", *(str(a) for a in arguments)])
        assert answer.exception is None or isinstance(answer.exception, SystemExit)
        return answer

    return run


def test_sequences_of_a_file_are_answered_in_words_and_drawn(call, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.random((20, 4))
    np.savez(tmp_path / "few.npz", inputs=x, outputs=np.cumsum(x, axis=1))
    answer = call(tmp_path / "few.npz", "--plot", tmp_path / "few.png")
    assert answer.exit_code == 0
    assert "Undecided between transformer and RNN" in answer.stdout
    assert "95 % interval" in answer.stdout
    assert (tmp_path / "few.png").stat().st_size > 1000


def test_a_table_is_cut_into_windows_and_answered_in_json(call, tmp_path):
    rng = np.random.default_rng(1)
    load = rng.normal(size=120)
    heat = np.convolve(load, 0.5 ** np.arange(9))[:120]
    rows = "\n".join(f"{a},{b}" for a, b in zip(load, heat, strict=True))
    (tmp_path / "t.csv").write_text("load,heat\n" + rows)
    table = tmp_path / "t.csv", "--target", "heat", "--length", 6
    data = json.loads(call(*table, "--horizon", 0, "--json").stdout)
    assert (data["verdict"], data["reason"]) == ("undecided", "few sequences")
    assert data["evidence"][0]["name"] == "sequences"
    assert data["evidence"][0]["value"] == 19  # 39 windows, three readings apart, half of them new
    assert np.shape(data["kernel"]) == (6, 1, 1)


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("t.csv", "a,b\n1,2\n3,4\n", "name the column to predict by --target"),
        ("x.npz", "not an archive", "is not an .npz file"),
        ("none.npz", None, "is not an .npz file"),
    ],
)
def test_files_that_do_not_fit_are_refused(call, tmp_path, name, contents, words):
    if contents is not None:
        (tmp_path / name).write_text(contents)
    answer = call(tmp_path / name)
    assert answer.exit_code == 2
    assert words in " ".join(answer.stderr.split())


def test_an_archive_without_outputs_is_refused(call, tmp_path):
    np.savez(tmp_path / "x.npz", inputs=np.zeros((4, 3)))
    answer = call(tmp_path / "x.npz")
    assert answer.exit_code == 2
    assert "has no array outputs; it has inputs" in " ".join(answer.stderr.split())


@pytest.mark.parametrize("option", ["--target", "--columns", "--length", "--horizon", "--stride"])
def test_what_is_meant_for_tables_is_not_ignored_for_sequences(call, tmp_path, option):
    np.savez(tmp_path / "x.npz", inputs=np.zeros((4, 3)), outputs=np.zeros((4, 3)))
    answer = call(tmp_path / "x.npz", option, "1")
    assert answer.exit_code == 2
    assert f"leave out what is for tables: {option}" in " ".join(answer.stderr.split())
