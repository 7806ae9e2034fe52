import json
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from exactformer.cli.app import COMMANDS
from exactformer.cli.commands.fit import fit
from exactformer.errors import (
    ExactformerError,
    FileFormatError,
    InputError,
    SizeError,
)

app = typer.Typer()
app.command()(fit)


def run(*arguments, stdin=None):
    """Run the command; what it raises is what the application turns into exit code 2."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    if isinstance(result.exception, ExactformerError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def law(rows=500):
    generator = np.random.default_rng(0)
    x, v = generator.normal(size=(2, rows))
    return pd.DataFrame({"x": x, "v": v, "y": 2 * x**2 - x * v + 0.1 * generator.normal(size=rows)})


@pytest.fixture
def csv(tmp_path):
    def write(frame, **options):
        path = tmp_path / "data.csv"
        frame.to_csv(path, index=False, **options)
        return path

    return write


def test_the_formula_its_errors_and_where_extrapolation_begins(csv):
    text = run(csv(law()), "--target", "y", "--degree", "3")
    assert "y = 2.00" in text
    assert "x v" in text
    assert "R² 0.99" in text
    assert "95% interval" in text
    assert "█" in text
    assert "Extrapolation begins outside these ranges" in text


def test_json_for_machines(csv):
    contents = json.loads(run(csv(law()), "-t", "y", "--json"))
    assert {t["term"] for t in contents["terms"]} == {"x^2", "x v"}
    assert contents["rows"] == 500
    assert contents["box"].keys() == {"x", "v"}
    assert contents["saved"] == []


def test_the_saved_model_is_the_law(csv, tmp_path):
    from exactformer.polynomials.check import load

    contents = json.loads(run(csv(law()), "-t", "y", "--json", "-o", tmp_path / "law.safetensors"))
    model = load(tmp_path / "law.safetensors")
    assert model.target == contents["exact"]


def test_a_residual_plot(csv, tmp_path):
    run(csv(law()), "-t", "y", "--plot", tmp_path / "residuals.png")
    assert (tmp_path / "residuals.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_understood(csv, separator):
    assert "y = 2.00" in run(csv(law(), sep=separator), "-t", "y")


def test_all_solvers(csv):
    path = csv(law())
    assert "500 rows" in run(path, "-t", "y", "--solver", "least-squares", "--degree", "2")
    assert "500 rows" in run(path, "-t", "y", "--solver", "sgd", "--degree", "2", "--epochs", "20")


def test_odd_names_are_explained(csv):
    text = run(csv(law().rename(columns={"x": "Mass (kg)"})), "-t", "y")
    assert "where Mass_kg is 'Mass (kg)'\n" in text


def test_a_law_with_odd_names_predicts_from_its_own_table(csv, tmp_path, call):
    path = csv(law().rename(columns={"x": "Mass (kg)", "v": "1/v"}))
    run(path, "-t", "y", "-o", tmp_path / "law.safetensors")
    answer = call("predict", tmp_path / "law.safetensors", path, "--ignore-extra")
    assert (answer.code, len(answer.out.splitlines())) == (0, 501), answer.err


def test_a_table_from_a_pipe_is_read_like_a_file(csv, tmp_path):
    path = csv(law())
    assert run("-", "-t", "y", "--json", stdin=path.read_bytes()) == run(path, "-t", "y", "--json")
    law().to_parquet(tmp_path / "data.parquet")
    parquet = (tmp_path / "data.parquet").read_bytes()
    assert run("-", "-t", "y", "--json", stdin=parquet) == run(path, "-t", "y", "--json")
    with pytest.raises(SizeError, match=r"standard input has more than 0\.1 MiB"):
        run("-", "-t", "y", "--memory-limit", "0.0001", stdin=b"x" * 2**20)


def test_several_targets_are_one_model(csv, tmp_path, call):
    path = csv(law().assign(z=lambda f: f.x - f.v))
    text = run(path, "-t", "y,z", "-o", tmp_path / "both.safetensors", "--plot", tmp_path / "r.png")
    assert "z = x - v" in text
    contents = json.loads(run(path, "-t", "y, z", "--json"))
    assert contents["formula"][1] == "x - v"
    assert [t["output"] for t in contents["terms"]] == ["y", "y", "z", "z"]
    answer = call("predict", tmp_path / "both.safetensors", path, "--ignore-extra")
    assert answer.out.startswith("y,z\n"), answer.err


def test_row_labels_are_noticed_and_left_out(tmp_path):
    law().to_csv(tmp_path / "labelled.csv")
    contents = json.loads(run(tmp_path / "labelled.csv", "-t", "y", "--json"))
    assert contents["variables"] == {"x": "x", "v": "v"}
    assert "taken for row labels and left out" in contents["notes"][0]
    law().assign(id=range(500)).to_csv(tmp_path / "numbered.csv", index=False)
    contents = json.loads(run(tmp_path / "numbered.csv", "-t", "y", "--json"))
    assert "column 'id' counts the rows" in contents["notes"][0]


def test_a_table_without_a_header_needs_names(csv):
    path = csv(law(), header=False)
    with pytest.raises(InputError, match=r"has no header: its first line is 0.125.*--names"):
        run(path, "-t", "y")
    assert "y = 2.00" in run(path, "-t", "y", "--names", "x,v,y")
    with pytest.raises(InputError, match=r"--names has 2 names, the first line of .* 3 cells"):
        run(path, "-t", "y", "--names", "x,y")
    assert "2 = 2.00" in run(csv(law().set_axis([0, 1, 2], axis=1)), "-t", "2")


def test_rows_with_missing_values_are_left_out_on_request_and_counted(csv):
    holed = law()
    holed.loc[[7, 9], "x"], holed.loc[7, "y"] = None, None
    path = csv(holed)
    with pytest.raises(InputError, match=r"column 'x' has 2 missing.*--missing drop"):
        run(path, "-t", "y")
    contents = json.loads(run(path, "-t", "y", "--missing", "drop", "--json"))
    assert contents["rows"] == 498
    assert contents["notes"][0] == "2 of 500 rows have a missing value and are left out"
    whole = json.loads(run(csv(holed.dropna()), "-t", "y", "--json"))
    assert contents["exact"] == whole["exact"]


def test_a_long_table_is_cut_short(csv):
    text = run(csv(law()), "-t", "y", "--solver", "least-squares", "--degree", "8")
    assert "the 40 most significant of 45" in text


def test_copies_and_constants_are_reported(csv):
    text = run(csv(law().assign(copy=lambda f: f.x, one=1.0)), "-t", "y")
    assert "copy (identical to x)" in text
    assert "Constant, so not used: one" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(place="north"), "column 'place' is not numeric; row 1 has 'north'"),
        (lambda f: f.assign(x=f.x.where(f.index != 7)), "column 'x' has 1 missing value.*row 8"),
        (lambda f: f.assign(y=f.y.where(f.index != 7, np.inf)), "'y' has 1 infinite value.*row 8"),
        (lambda f: f.assign(x=f.index + 2**60), r"column 'x' has integers up to .*2\^53"),
        (lambda f: f.drop(columns="y"), "no column 'y'; it has x, v"),
        (lambda f: f[["y"]], "no column besides the target"),
        (lambda f: f.head(1), r"1 row\(s\)"),
    ],
)
def test_what_cannot_be_learned_from_is_said_and_where(csv, change, message):
    with pytest.raises(InputError, match=message):
        run(csv(change(law())), "--target", "y")


def test_chosen_columns_leave_the_rest_alone(csv):
    path = csv(law().assign(place="north"))
    assert "y = 2.00" in run(path, "-t", "y", "--columns", "x, v")
    with pytest.raises(InputError, match="cannot be one of the columns"):
        run(path, "-t", "y", "--columns", "x,y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-t", "y,y"), "--target has a name twice"),
        (("-t", " "), "--target names no column"),
        (("-t", "y", "--names", "x,x,y"), "--names has a name twice"),
        (("-t", "y", "--columns", "x,x"), "--columns has a name twice"),
        (("-t", "y", "--missing", "maybe"), "choose one of raise, drop"),
    ],
)
def test_names_are_given_once(csv, options, message):
    with pytest.raises(InputError, match=message):
        run(csv(law(20)), *options)


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(FileFormatError, match="is not a file"):
        run(tmp_path / "absent.csv", "-t", "y")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(FileFormatError, match="is not a CSV table"):
        run(tmp_path / "empty.csv", "-t", "y")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3,4\n")
    with pytest.raises(FileFormatError, match="is not a CSV table"):
        run(tmp_path / "ragged.csv", "-t", "b")
    (tmp_path / "twice.csv").write_text("a,a,y\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match="repeated: a"):
        run(tmp_path / "twice.csv", "-t", "y")


@pytest.mark.parametrize("compression", ["gzip", "bz2", "xz", "zip"])
def test_a_compressed_table_is_refused_with_the_way_out(tmp_path, call, compression):
    packed = tmp_path / "packed.csv"
    law().to_csv(packed, index=False, compression=compression)
    answer = call("fit", packed, "--target", "y")
    assert answer.code == 2
    assert "unpack it" in answer.err


def test_lines_may_end_as_on_old_machines(csv, tmp_path, call):
    table, old = csv(law()), tmp_path / "old.csv"
    old.write_bytes(table.read_bytes().replace(b"\n", b"\r"))
    assert call("fit", old, "--target", "y").out == call("fit", table, "--target", "y").out


def test_parquet_needs_its_reader_and_says_so(tmp_path, monkeypatch):
    def absent(path):
        raise ImportError

    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", absent)
    with pytest.raises(InputError, match=r"exactformer\[parquet\]"):
        run(tmp_path / "data.parquet", "-t", "y")


def test_parquet_is_read_like_any_table(tmp_path, monkeypatch):
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(pd, "read_parquet", lambda path: law())
    assert "y = 2.00" in run(tmp_path / "data.parquet", "-t", "y")


@pytest.mark.parametrize("degree", ["two", "0", "2.5"])
def test_a_degree_is_a_whole_number_or_auto(csv, degree):
    with pytest.raises(InputError, match="whole number from 1"):
        run(csv(law()), "-t", "y", "--degree", degree)


def test_a_robust_loss_finds_the_law_among_outliers(csv):
    spoilt = law()
    spoilt.loc[:9, "y"] += 100
    plain, robust = (
        json.loads(run(csv(spoilt), "-t", "y", "--degree", "2", "--loss", loss, "--json"))
        for loss in ("squared", "huber")
    )
    assert {t["term"] for t in robust["terms"]} == {"x^2", "x v"}
    assert any("--loss huber or --loss trimmed" in note for note in plain["notes"])


def test_functions_besides_powers(csv, call, tmp_path):
    generator = np.random.default_rng(0)
    x = generator.uniform(1, 3, size=300)
    table = pd.DataFrame({"x": x, "y": 2 * np.sin(x) + 1 / x + 1e-3 * generator.normal(size=300)})
    saved = tmp_path / "law.safetensors"
    arguments = (csv(table), "-t", "y", "--degree", "1", "--features", "sin, 1/x")
    contents = json.loads(run(*arguments, "--json", "-o", saved))
    assert {t["term"] for t in contents["terms"]} == {"sin(x)", "(1/x)"}
    assert "sin(x)" in contents["exact"]
    assert "sin(x)" in run(*arguments, "--report", tmp_path / "law.html")
    exact = ("-o", tmp_path / "exact.safetensors", "--model-tolerance", "1e-30")
    refused = call("fit", *arguments, *exact, "--json")
    assert refused.code == 1
    assert refused.json["error"] == "ToleranceError"
    assert "Allow a larger --model-tolerance, or" in refused.json["message"]
    across = table.assign(x=x - 2)
    notes = json.loads(run(csv(across), *arguments[1:], "--json"))["notes"]
    assert any("functions left out: (1/x)" in note for note in notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--loss", "cubed"), "--loss cubed: choose one of squared, huber, trimmed"),
        (("--features", "gamma"), "'gamma' is not known; choose from sin, cos"),
        (("--features", "sin,sin"), "sin is given more than once"),
        (("--features", "sin", "--solver", "sgd"), "--features and --loss are for --solver sparse"),
        (("--relevance", "-1"), "--relevance -1.0: give a share"),
        (("--significance", "2"), "--significance 2.0: must lie between 0 and 1"),
    ],
)
def test_options_that_mean_nothing_are_refused_in_their_own_words(csv, call, options, message):
    answer = call("fit", csv(law(20)), "-t", "y", *options)
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_too_large_is_refused_with_the_line_that_samples_its_rows(
    tmp_path, monkeypatch, call, kind
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"large.{kind}"
    if kind == "csv":
        law(2000).to_csv(path, index=False, sep=";")
    else:
        law(2000).to_parquet(path)
    answer = call("fit", path, "--target", "y", "--memory-limit", path.stat().st_size / 2.0**31)
    assert answer.code == 2
    said = " ".join(answer.err.split())
    line = said.partition("sample the rows, ")[2].partition(", or raise --memory-limit")[0]
    (tmp_path / "sample.py").write_text(f"import pandas\nimport pyarrow.parquet\n{line}\n")
    subprocess.run([sys.executable, "sample.py"], check=True)
    assert len(pd.read_csv("sample.csv")) == 200
    assert "x^2" in call("fit", "sample.csv", "--target", "y").out


@pytest.mark.slow
def test_a_million_rows(tmp_path):
    path = tmp_path / "large.csv"
    law(1_000_000).to_csv(path, index=False)
    contents = json.loads(run(path, "-t", "y", "--json"))
    assert {t["term"] for t in contents["terms"]} == {"x^2", "x v"}
    assert contents["noise"] == pytest.approx(0.1, rel=0.01)


def test_every_example_of_the_help_runs(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    table = law(120).set_axis(["a", "b", "y"], axis=1)
    table.to_csv("measurements.csv", index=False)
    table.assign(z=table.a).to_parquet("measurements.parquet")
    for example in COMMANDS["fit"]:
        piped, _, words = example.rpartition(" | exactformer ")
        stdin = (tmp_path / piped.split()[1]).read_text() if piped else None
        answer = call(*shlex.split(words), stdin=stdin)
        assert answer.code == 0, (example, answer.err)
