"""``exactformer program`` and what the other commands do with its files."""

import io
import json
import sys

import pytest

import exactformer as ef
from exactformer.cli.support.tokens import lines_of
from exactformer.errors import FileFormatError


def test_a_program_is_compiled_shown_and_saved(call, tmp_path):
    path = tmp_path / "reverse.safetensors"
    answer = call("program", "reverse", "--vocabulary", "abc", "--max-length", "4", "-o", path)
    assert answer.code == 0
    assert "opposite index" in answer.out
    assert ef.load(path).decode("abc") == ["c", "b", "a"]
    assert call("certify", path, "reverse").code == 0
    assert call("certify", path, "copy").code == 1
    assert call("predict", path, stdin="abc\nba\n").out.split() == ["c,b,a", "a,b"]
    assert "max_length" not in call("inspect", path).out
    data = json.loads(call("inspect", path, "--at", "ab", "--json").out)
    assert data["family"] == "programs"
    assert "reverse" in data["trace"]
    assert call("inspect", path, "--plot", tmp_path / "circuit.png").code == 0
    assert (tmp_path / "circuit.png").exists()
    assert call("inspect", path, "--matrices").code == 2


def test_dimensions_that_compare_with_shares_are_shown_from_the_first_to_the_last(call, tmp_path):
    path = tmp_path / "length.safetensors"
    call("program", "length", "--vocabulary", "ab", "--max-length", "4", "-o", path)
    shares = [name for name in ef.load(path).blueprint.dimensions if "length: above 0." in name]
    last = shares[-1].removeprefix("length: above ")
    assert f"{shares[0]} … {last}" in " ".join(call("inspect", path).out.split())


def test_certify_holds_a_file_to_the_inputs_that_are_given(call, tmp_path):
    path = tmp_path / "reverse.safetensors"
    call("program", "reverse", "--vocabulary", "ab", "--max-length", "3", "-o", path)
    answer = call(
        "certify", path, "reverse", "--vocabulary", "b,a", "--max-length", "3", "--everywhere"
    )
    assert answer.code == 0
    for wrong in (["--vocabulary", "abc"], ["--max-length", "4"], ["--causal"]):
        assert call("certify", path, "reverse", *wrong).code == 1
    text = "Aggregate(Select(indices, length - 1 - indices, EQ), tokens)"
    assert call("certify", path, text).code == 0


class Endless(io.TextIOBase):
    """A line without an end, of which nobody may ask for all."""

    def readline(self, size=-1):
        assert size > 0
        return "a" * size


def test_a_line_that_does_not_end_is_refused_before_all_of_it_is_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Endless())
    with pytest.raises(FileFormatError, match="a line has more than 1,048,576 characters"):
        next(lines_of(None))


def test_a_program_is_exported_as_onnx(call, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "hist.safetensors"
    call("program", "hist", "--vocabulary", "ab", "--max-length", "3", "-o", path)
    answer = call("export", path, "--dtype", "float32")
    assert answer.code == 0
    assert "of the program's outputs on 1 to 3 tokens" in " ".join(answer.out.split())
    run = onnxruntime.InferenceSession(path.with_suffix(".onnx"))
    assert run.run(None, {"ids": [[0, 0, 1]]})[0].argmax(-1).tolist() == [[1, 1, 0]]
    for wrong in (["--format", "numpy"], ["--format", "torch"], ["--outside", "allow"]):
        assert call("export", path, *wrong, "--force").code == 2


def test_a_program_is_read_from_a_file_and_drawn(call, tmp_path):
    file, plot = tmp_path / "reverse.rasp", tmp_path / "circuit.svg"
    file.write_text(
        "opposite = length - 1 - indices\nAggregate(Select(indices, opposite, EQ), tokens)\n"
    )
    told = call(
        *("program", "--file", file, "--vocabulary", "ab", "--max-length", "3"),
        *("--at", "aab", "--plot", plot, "--json"),
    ).json
    assert told["example"]["output"] == ["b", "a", "a"]
    assert told["saved"] == [str(plot)]
    assert "layer 0, head 0" in plot.read_text()
    written = call("program", "length - indices", "--max-length", "3", "--at", "ab", "--json").json
    assert written["example"]["output"] == ["2", "1"]
    file.write_text("__import__('os').system('true')")
    answer = call("program", "--file", file)
    assert answer.code == 2
    assert "line 1" in answer.err
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in call("program", "--file", file).err
    assert call("program", "--file", tmp_path / "nowhere.rasp").code == 2
    assert call("program", "reverse", "--file", file).code == 2


def test_programs_are_listed_and_described_as_data(call):
    assert "induction" in call("program", "--list").out
    answer = call(
        *("program", "sort", "--vocabulary", "3,1,2", "--max-length", "3"),
        *("--realisation", "softmax", "--at", "3,1", "--json"),
    )
    data = json.loads(answer.out)
    assert data["example"] == {"input": ["3", "1"], "output": ["1", "3"]}
    assert data["certificate"]["zero_error"] is False
    assert data["circuit"]["components"]


def test_mistakes_are_explained(call):
    assert call("program").code == 2
    assert "choose one of" in call("program", "sing").err
    assert call("program", "reverse", "--vocabulary", "a,,b").code == 2
    assert call("program", "induction", "--max-length", "0").code == 2
