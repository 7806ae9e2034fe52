import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import exactformer as ef

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # of torch's exporter


@pytest.fixture
def model(law, tmp_path):
    """The saved model, in a folder of its own."""
    return Path(shutil.copy(law, tmp_path))


X = np.array([[0.5, -1.0], [1.0, 1.0]])


def run(kind, file):
    if kind == "onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(file)
        return session.run(None, {"x": X})[0]
    if kind == "torch":
        return torch.export.load(file).module()(torch.from_numpy(X)).numpy()
    with np.load(file, allow_pickle=False) as arrays:
        t = X @ arrays["features"].T
        powers = [(c * t ** (s + 1)).sum(axis=1) for s, c in enumerate(arrays["coefficients"])]
        return sum(powers) + arrays["bias"]


@pytest.mark.parametrize(("kind", "ending"), [("onnx", "onnx"), ("numpy", "npz"), ("torch", "pt2")])
def test_a_file_beside_the_model_computes_the_same(call, model, kind, ending):
    answer = call("export", model, "--format", kind, "--executor", "fused")
    assert answer.code == 0
    file = model.with_suffix(f".{ending}")
    shown = " ".join(answer.out.split())
    assert f"{file.stat().st_size:,} bytes" in shown
    assert "of the polynomial on ‖x‖ ≤ 2." in shown
    assert np.abs(run(kind, str(file)) - ef.load(model)(X).numpy()).max() < 1e-13


@pytest.mark.parametrize("option", ["-o", "--out"])
def test_the_summary_in_json_is_what_the_file_says(call, law, tmp_path, option):
    pytest.importorskip("onnx")
    file = tmp_path / "deep" / "x.onnx"
    file.parent.mkdir()
    told = call(
        *("export", law, option, file, "--executor", "literal", "--dtype", "float32", "--json")
    ).json
    certificate = ef.load(law).certificate
    assert told["bound"] == certificate.bound("float32", "literal")
    assert told["target"] == "x^2 + 3 x y - 1/2 y"
    assert (told["format"], told["executor"], told["dtype"]) == ("onnx", "literal", "float32")
    assert (told["saved"], told["bytes"]) == ([str(file)], file.stat().st_size)


@pytest.mark.parametrize("outside", ["nan", "allow"])
def test_points_off_the_ball_are_marked_or_let_through(call, model, outside):
    call("export", model, "--format", "torch", "--outside", outside)
    program = torch.export.load(str(model.with_suffix(".pt2"))).module()
    far = program(torch.full((1, 2), 9.0, dtype=torch.float64))
    assert bool(far.isnan()) == (outside == "nan")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "pdf"], "choose one of onnx, numpy, torch"),
        (["--outside", "raise"], "choose one of nan, allow"),
        (["--executor", "quantum"], "'literal' or 'fused' only"),
        (["--dtype", "bfloat16"], "bfloat16"),
        (["-o", "/no/such/folder/law.onnx"], "cannot write"),
    ],
)
def test_mistakes_are_explained_and_leave_nothing_behind(call, model, options, message):
    answer = call("export", model, *options, "--json")
    assert answer.code == 2
    assert message in json.loads(answer.out)["message"]
    assert list(model.parent.iterdir()) == [model]


def test_help_shows_examples(call):
    shown = call("export", "--help").out
    assert "exactformer export law.safetensors --format numpy" in " ".join(shown.split())


@pytest.mark.parametrize(("kind", "ending"), [("onnx", "txt"), ("numpy", "onnx"), ("torch", "npz")])
def test_another_ending_is_refused_before_any_work(call, model, kind, ending):
    answer = call("export", model, "--format", kind, "-o", model.with_suffix(f".{ending}"))
    assert answer.code == 2
    assert f"for --format {kind}" in answer.err
    assert not model.with_suffix(f".{ending}").exists()
