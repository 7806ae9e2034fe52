"""Every mistake is one clear message of its own class, exit code 1 or 2, and never a traceback."""

import json
import re

import numpy as np
import pytest
import typer
from safetensors.numpy import save_file

from exactformer.cli.app import app
from exactformer.cli.support.usage import as_options

DENSE = "(a + b + c + d + f + g + h + i + j + k + l + m)^9"

COMPILE = {
    "an empty text": (["compile", ""], "ParseError", r"text ends where .* \(column 1\)"),
    "text that is no polynomial": (["compile", "x1 + * x2"], "ParseError", "column 6"),
    "a function": (
        ["compile", "sin(x)"],
        "ParseError",
        r"sin is a function, .* in Python, ef\.compile",
    ),
    "a product without a space": (
        ["compile", "2xy"],
        "ParseError",
        r"write x y \(or x\*y\), or declare it .* \(column 2\)",
    ),
    "code": (
        ["compile", "__import__('os').system('true')"],
        "ParseError",
        r"unexpected character .* \(column 12\)",
    ),
    "an unknown variable": (
        ["compile", "x + z", "--variables", "x,y"],
        "UnknownVariableError",
        "'z'; variables are x, y",
    ),
    "a variable named twice": (["compile", "x", "--variables", "x,x"], "InputError", "repeated: x"),
    "a negative radius": (["compile", "x", "--radius", "-1"], "InputError", "radius .*, not '-1'"),
    "radius zero": (["compile", "x", "--radius", "0"], "InputError", "radius .*, not '0'"),
    "a radius that is no number": (["compile", "x", "--radius", "big"], "InputError", "not 'big'"),
    "an infinite radius": (["compile", "x", "--radius", "inf"], "InputError", "not 'inf'"),
    "a radius beyond floats": (
        ["compile", "x", "--radius", "1e400"],
        "InputError",
        r"beyond 2\^±500",
    ),
    "a radius without end": (
        ["compile", "x", "--radius", "1e999999999"],
        "InputError",
        r"'1e999999999' is beyond 2\^±500",
    ),
    "an unknown construction": (
        ["compile", "x", "--construction", "magic"],
        "InputError",
        "--construction magic; choose one of scaled, paper",
    ),
    "unknown directions": (
        ["compile", "x", "--directions", "up"],
        "InputError",
        "--directions up; .*lattice",
    ),
    "an unknown executor": (
        ["compile", "x", "--executor", "magic"],
        "InputError",
        "--executor magic; .*literal, fused",
    ),
    "an unknown format": (
        ["compile", "x", "--dtype", "int8"],
        "InputError",
        "int8 is not one of float64, float32",
    ),
    "a format without guarantee": (
        ["compile", "x^9", "--radius", "1000", "--dtype", "float16"],
        "RoundingError",
        "power 9: the weight is beyond float16",
    ),
    "what would not fit": (
        ["compile", DENSE, "--directions", "lattice"],
        "SizeError",
        r"n = 167,960 tokens .* limit is 4\.0 GiB",
    ),
    "more memory than is allowed": (
        ["compile", "x^2 + y^2", "--memory-limit", "0.0000001"],
        "SizeError",
        r"limit is 0\.0 GiB.* try --directions tailored .* raise --memory-limit\n*$",
    ),
    "an output folder that is not there": (
        ["compile", "x", "-o", "nowhere/law.safetensors"],
        "InputError",
        "cannot write nowhere/law.safetensors: there is no folder nowhere",
    ),
    "an output that is no file": (["compile", "x", "-o", "."], "InputError", "not a file"),
    "standard output": (["compile", "x", "-o", "-"], "InputError", "standard output"),
}


@pytest.mark.parametrize(
    ("arguments", "kind", "words"), COMPILE.values(), ids=[k.replace(" ", "-") for k in COMPILE]
)
def test_compile_says_what_is_wrong(call, tmp_path, monkeypatch, arguments, kind, words):
    monkeypatch.chdir(tmp_path)
    check(call, arguments, kind, words)
    assert list(tmp_path.iterdir()) == []


NOT_PROVEN = ("IdentityError", "RoundingError", "AlteredFileError", "WeightMismatchError")


def check(call, arguments, kind, words, stdin=None):
    answer = call(*arguments, stdin=stdin)
    assert answer.code == (1 if kind in NOT_PROVEN else 2)
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert re.search(words, answer.err)
    assert "Traceback" not in answer.err
    assert len(answer.err) < 1000
    for_machines = call(*arguments, "--json", stdin=stdin)
    assert for_machines.code == answer.code
    assert for_machines.err == ""
    assert for_machines.json["error"] == kind
    assert re.search(words, for_machines.json["message"])


@pytest.fixture(params=["missing", "folder", "empty", "text", "foreign", "truncated", "damaged"])
def bad_file(request, law, tmp_path):
    path = tmp_path / "law.safetensors"
    content = law.read_bytes()
    match request.param:
        case "folder":
            path.mkdir()
        case "empty":
            path.touch()
        case "text":
            path.write_text("x^2 + y^2\n" * 100)
        case "foreign":
            save_file({"weight": np.ones(3)}, path)
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "damaged":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return path


@pytest.mark.parametrize("command", ["certify", "predict", "inspect"])
def test_a_file_that_is_no_model_is_refused(call, bad_file, command):
    arguments = [command, bad_file, *(["-"] if command == "predict" else [])]
    answer = call(*arguments, "--json", stdin="1,1\n")
    assert answer.json["error"] in ("AlteredFileError", "FileFormatError", "WeightMismatchError")
    assert answer.code == (1 if answer.json["error"] in NOT_PROVEN else 2)
    assert str(bad_file) in answer.json["message"] or "altered" in answer.json["message"]
    assert "Traceback" not in call(*arguments, stdin="1,1\n").err


POINTS = {
    "too few cells": ("1\n", "InputError", "line 1: 1 cell where 2 are needed"),
    "too many cells": ("1,2\n1,2,3\n", "InputError", "line 2: 3 cells where 2 are needed"),
    "a word": ("1,2\n\n0.5,half\n", "InputError", r"line 3, column 2 \(y\): 'half'"),
    "a word in the first line": ("1,half\n", "InputError", r"line 1, column 2 \(y\): 'half'"),
    "an empty cell": ("1,2\n1,\n", "InputError", r"line 2, column 2 \(y\): ''"),
    "empty cells": ("1,2\n,\n", "InputError", r"line 2, column 1 \(x\): ''"),
    "a number with underscores": ("0_1,2\n", "InputError", r"line 1, column 1 \(x\): '0_1'"),
    "NaN": ("1,1\n1,nan\n", "InputError", r"line 2, column 2 \(y\): 'nan' is not a finite"),
    "infinity": ("1,-inf\n", "InputError", r"line 1, column 2 \(y\): '-inf' is not a finite"),
    "an overflow": ("1e999,0\n", "InputError", "column 1 .* not a finite"),
    "nothing": ("", "InputError", "standard input is empty"),
    "blank lines": ("\n\n  \n", "InputError", "is empty"),
    "an unknown column": ("x,y,z\n1,1,1\n", "InputError", "z is not a variable.*--ignore-extra"),
    "a missing column": ("x,z\n1,1\n", "InputError", "no column is named y"),
    "a repeated column": ("x,y,x\n1,1,1\n", "InputError", "repeats x"),
    "a foreign header": ("a,b\n1,1\n", "InputError", "no column is named x, y"),
    "a point off the ball": (
        "1,1\n3,4\n",
        "OutsideDomainError",
        "line 2: the point has norm 5, outside ‖x‖ ≤ 2",
    ),
}


@pytest.mark.parametrize(
    ("text", "kind", "words"), POINTS.values(), ids=[k.replace(" ", "-") for k in POINTS]
)
def test_predict_names_line_and_column(call, law, text, kind, words):
    answer = call("predict", law, stdin=text)
    assert answer.code == 2
    assert re.search(words, answer.err)
    assert call("predict", law, "--json", stdin=text).json["error"] == kind


ARRAYS = {
    "three columns": (np.zeros((4, 3)), r"shape \(4, 3\)"),
    "three axes": (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
    "text": (np.array([["a", "b"]]), "real numbers"),
    "complex": (np.zeros((1, 2), dtype=complex), "real numbers"),
    "truth values": (np.zeros((1, 2), dtype=bool), "real numbers"),
    "not finite": (np.array([[0.0, 0.0], [0.0, np.inf]]), r"row 2, column 2 \(y\): inf"),
    "off the ball": (np.array([[0.0, 0.0], [9.0, 0.0]]), "row 2: the point has norm 9"),
}


@pytest.mark.parametrize(
    ("array", "words"), ARRAYS.values(), ids=[k.replace(" ", "-") for k in ARRAYS]
)
def test_predict_refuses_arrays_that_are_no_points(call, law, tmp_path, array, words):
    np.save(tmp_path / "points.npy", array)
    answer = call("predict", law, tmp_path / "points.npy")
    assert answer.code == 2
    assert re.search(words, answer.err)


def test_predict_never_unpickles(call, law, tmp_path):
    np.save(tmp_path / "points.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert call("predict", law, tmp_path / "points.npy").code == 2


def test_predict_refuses_truncated_arrays_and_foreign_bytes(call, law, tmp_path):
    np.save(tmp_path / "points.npy", np.zeros((100, 2)))
    content = (tmp_path / "points.npy").read_bytes()
    (tmp_path / "points.npy").write_bytes(content[:-50])
    assert "not a complete NPY" in call("predict", law, tmp_path / "points.npy").err
    (tmp_path / "points.csv").write_bytes(b"\xff\xfe1\x00,\x001\x00")
    assert "neither UTF-8" in call("predict", law, tmp_path / "points.csv").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.csv"], "missing.csv does not exist"),
        (["-", "--outside", "maybe"], "raise, nan, allow"),
        (["-", "-o", "values.txt"], r"\.csv or \.npy"),
        (["-", "-o", "nowhere/values.csv"], "nowhere/values.csv"),
        (["-", "--dtype", "int4"], "int4 is not one of float64"),
    ],
)
def test_predict_refuses_bad_options(call, law, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    answer = call("predict", law, *arguments, stdin="1,1\n")
    assert answer.code == 2
    assert re.search(words, answer.err)


def test_nothing_is_written_when_a_later_line_is_wrong(call, law, tmp_path):
    out = tmp_path / "values.csv"
    out.write_text("what was there before\n")
    text = "1,1\n" * 10_000 + "1,one\n"
    assert "line 10001, column 2" in call("predict", law, "-o", out, "--force", stdin=text).err
    assert out.read_text() == "what was there before\n"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plot", "figure.jpg"], r"\.png, \.svg or \.pdf"),
        (["--plot", "nowhere/figure.png"], "there is no folder nowhere"),
        (["--plot", "figure.png"], "--plot shows models of programs"),
        (["--at", "1"], "2 coordinates"),
        (["--at", "1,one"], "numbers with commas"),
        (["--at", "3,4"], "outside ‖x‖ ≤ 2"),
        (["--at", "nan,0"], "not finite"),
    ],
)
def test_inspect_refuses_bad_options(call, law, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    answer = call("inspect", law, *arguments)
    assert answer.code == 2
    assert re.search(words, answer.err)
    assert list(tmp_path.iterdir()) == []


def test_certify_refuses_another_polynomial(call, law):
    check(call, ["certify", law, "x^2 + 3 x y"], "IdentityError", "differs in y")
    check(call, ["certify", law, "x^2 + z"], "UnknownVariableError", "'z'")


def test_usage_mistakes_are_json_too_when_json_is_asked_for(call):
    answer = call("compile", "--json")
    assert answer.code == 2
    assert answer.json == {"error": "UsageError", "message": "Missing argument 'EXPR'."}
    assert json.loads(call("compile", "x", "--jason", "--json").out)["error"] == "UsageError"


def test_a_disk_that_fails_is_a_message(call, law, monkeypatch, tmp_path):
    def fail(*_):
        raise OSError(28, "No space left on device", "values.csv")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    answer = call("predict", law, "-o", tmp_path / "values.csv", stdin="1,1\n")
    assert answer.code == 2
    assert answer.err == "error: values.csv: No space left on device\n"


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["text", "json"])
def test_a_report_without_results_leaves_with_2_and_writes_nothing(call, tmp_path, as_json):
    answer = call("report", "--results", tmp_path / "missing", *as_json)
    assert answer.code == 2
    assert "is not a folder" in (answer.json["message"] if as_json else answer.err)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_constant_is_called_the_constant_term(call, law):
    answer = call("certify", law, "x^2 + 3 x y - y/2 + 1/3")
    assert answer.code == 1
    assert "it differs in the constant term (off by -0.333)" in answer.err


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("try form='four-layer'", "try --form four-layer"),
        ("a larger tolerance= or tolerance=0.5.", "a larger --tolerance or --tolerance 0.5."),
        ("delta=Fraction(1, 8) would do", "--delta 1/8 would do"),
        ("radius=2 is not an option of it", "radius=2 is not an option of it"),
    ],
)
def test_arguments_of_python_are_spelled_as_options_of_the_command(message, said):
    command = typer.main.get_command(app).commands["sequence"]
    assert as_options(message, command) == said
