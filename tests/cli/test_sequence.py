import re
from math import sqrt

import numpy as np
import pytest

import exactformer as ef
from exactformer.targets import SEQUENCE_MAPS

SMALL = ["--tokens", "2", "--delta", "1/4"]


def test_what_was_built_is_said(call):
    answer = call("sequence", "sort", *SMALL, "--form", "compact", "--at", "0.9,0.1")
    assert answer.code == 0
    words = " ".join(answer.out.split())
    assert "sort: every coordinate sorted over the tokens" in words
    assert "with positions" in words
    assert re.search(r"46: quantise 5, contextual mapping 9, values 32", words)
    assert "all 16 classes have their values, error zero" in words
    assert re.search(r"1 0\.9 [\d,]+ 0\.125 0\.1 0\.025", words)


def test_the_measured_error_of_sorting_is_its_closed_form(call):
    found = call("sequence", "sort", *SMALL, "--form", "compact", "--json").json
    closed = {"d_1": 2 / 4 / 4, "d_2": sqrt(2 / 12) / 4}
    for name, value in closed.items():
        measured = found["error"][name]
        assert abs(measured["value"] - value) <= 3 * measured["standard_error"]
        assert measured["samples"] == 20_000
    assert found["certificate"]["error"]["total"] == pytest.approx(closed["d_2"], rel=1e-3)
    assert found["layers"] == {"quantise": 5, "contextual mapping": 9, "values": 32}
    assert found["certificate"]["zero_error"] is True
    assert found["saved"] == []


@pytest.mark.parametrize("name", SEQUENCE_MAPS)
def test_every_map_is_compiled_with_the_positions_it_needs(call, name):
    found = call("sequence", name, *SMALL, "--samples", "0", "--json").json
    assert found["positional"] is not SEQUENCE_MAPS[name].equivariant
    assert found["error"] == {}


def test_ordinary_layers_come_as_near_as_asked_for(call):
    options = ["--realisation", "softmax-relu", "--tolerance", "0.01", "--at", "0.1 0.9"]
    options += ["--form", "compact"]
    found = call("sequence", "mean-subtract", *SMALL, *options, "--json").json
    assert found["example"]["output"] == [[pytest.approx(-0.375)], [pytest.approx(0.375)]]
    assert found["certificate"]["softness"]["ramp_mass"] > 0
    words = call("sequence", "mean-subtract", *SMALL, *options, "--samples", "0").out
    assert "past the threshold" in " ".join(words.split())


def test_an_estimate_is_not_called_a_bound(call):
    words = call("sequence", "softmax-attention", *SMALL, "--samples", "0").out
    assert "being estimated" in " ".join(words.split()).replace("│ │ ", "")
    assert "d_2(f, model) ≤" not in words
    assert "d_2(f, model) given L = " in call("sequence", "identity", *SMALL, "--samples", "0").out


def test_every_form_gives_the_same_example(call):
    outputs = []
    for form in ("compact", "paper", "four-layer"):
        options = ["--form", form, "--samples", "0", "--at", "0.1 0.9", "--json"]
        outputs.append(call("sequence", "mean-subtract", *SMALL, *options).json["example"])
    assert [example["output"] for example in outputs] == 3 * [[[-0.375], [0.375]]]


def test_the_saved_model_is_the_one_described(call, tmp_path):
    file = tmp_path / "mean.safetensors"
    found = call(
        "sequence", "mean-subtract", "--tokens", "2", "--dim", "2", "--delta", "1/2",
        "--support", "-1,1", "--at", "-0.9,0.1; 0.5,0.6", "--samples", "0", "-o", file, "--json",
    ).json  # fmt: skip
    model = ef.load(file)
    assert found["saved"] == [str(file)]
    assert found["support"] == ["-1", "1"]
    assert model([[-0.9, 0.1], [0.5, 0.6]]).tolist() == found["example"]["output"]
    assert np.allclose(found["example"]["map"], [[-0.7, -0.25], [0.7, 0.25]])


def test_the_journey_is_drawn(call, tmp_path):
    plot = tmp_path / "journey.png"
    answer = call("sequence", "identity", *SMALL, "--samples", "0", "--plot", plot)
    assert f"Saved {plot}" in answer.out.replace("\n", "")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_attention_takes_weights_from_a_file(call, tmp_path):
    """With scores 0 attention is the mean of the values."""
    file = tmp_path / "weights.npz"
    np.savez(file, query=[[0.0]], key=[[1.0]], value=[[2.0]])
    options = ["--weights", file, "--samples", "0", "--at", "0.1,0.9", "--json"]
    example = call("sequence", "softmax-attention", *SMALL, *options).json["example"]
    assert np.allclose(example["map"], [[1.0], [1.0]])


def test_the_maps_are_listed(call):
    answer = call("sequence", "--list")
    assert all(name in answer.out for name in SEQUENCE_MAPS)
    listed = call("sequence", "--list", "--json").json["maps"]
    assert {m["name"]: m["equivariant"] for m in listed}["sort"] is False


MISTAKES = {
    "no map": ([], "InputError", "--list"),
    "an unknown map": (["sotr"], "InputError", "did you mean sort"),
    "positions that are needed": (
        ["sort", "--no-positional"],
        "NotEquivariantError",
        "not permutation equivariant",
    ),
    "a delta that is no 1/N": (["sort", "--delta", "0.3"], "InputError", "1/N"),
    "a delta that is no number": (["sort", "--delta", "small"], "InputError", "--delta small"),
    "a support that is no interval": (["sort", "--support", "1"], "InputError", "two numbers"),
    "a support upside down": (["sort", "--support", "1,0"], "InputError", "low, high"),
    "an unknown form": (["sort", "--form", "five-layer"], "InputError", "compact"),
    "a tolerance of a hard model": (["sort", "--tolerance", "0.1"], "InputError", "softmax-relu"),
    "an example outside": (
        ["sort", *SMALL, "--at", "1,2"],
        "OutsideDomainError",
        "outside the sup",
    ),
    "an unknown realisation": (
        ["sort", "--realisation", "soft"],
        "InputError",
        "^--realisation soft; choose one of hard, softmax-relu$",
    ),
    "no tokens": (["sort", "--tokens", "0"], "InputError", "positive integer"),
    "an example of the wrong size": (["sort", *SMALL, "--at", "1"], "InputError", "2 numbers, not"),
    "an example that is no number": (["sort", *SMALL, "--at", "a,b"], "InputError", "numbers with"),
    "what would not fit": (
        ["sort", "--tokens", "8", "--dim", "8"],
        "SizeError",
        "layers",
    ),
    "a figure of another kind": (["sort", "--plot", "journey.jpg"], "InputError", r"\.png"),
    "a figure nowhere": (["sort", "--plot", "nowhere/j.png"], "InputError", "no folder"),
    "weights for another map": (["sort", "--weights", "w.npz"], "FileNotFoundError", "w.npz"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_message_and_exit_code_2(call, mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, kind, words = MISTAKES[mistake]
    answer = call("sequence", *arguments, "--json")
    assert answer.code == 2
    assert answer.json["error"] == kind
    assert re.search(words, answer.json["message"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"PK no zip", b"\x93NUMPY"])
def test_a_file_without_weights_is_refused(call, tmp_path, content):
    file = tmp_path / "weights.npz"
    file.write_bytes(content)
    answer = call("sequence", "softmax-attention", "--weights", file, "--json")
    assert answer.code == 2
    assert "query, key" in answer.json["message"]
    np.savez(file, query=[[1.0]])
    assert "query, key" in call("sequence", "softmax-attention", "--weights", file, "--json").out
