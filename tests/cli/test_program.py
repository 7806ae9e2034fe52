"""``exactformer program`` and what the other commands do with its files."""

import json

import exactformer as ef


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
    assert call("export", path).code != 0


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
