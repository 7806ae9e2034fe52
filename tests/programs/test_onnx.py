"""Programs in onnxruntime: outputs within the certified error, NaN for what is not an input."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.errors import ExecutionError, InputError, WeightMismatchError
from exactformer.programs import library
from exactformer.programs.onnx import onnx_file
from tests.cases.exports import session

pytest.importorskip("onnxruntime", reason="pip install exactformer[onnx]")

MODELS: dict[str, tuple[rasp.SOp, dict[str, Any]]] = {
    "reverse": (library.make_reverse(), {}),
    "hist, softmax": (library.make_hist(), {"realisation": "softmax"}),
    "hist, float32": (library.make_hist(), {"dtype": torch.float32}),
    "induction": (library.make_induction(), {"causal": True, "realisation": "softmax"}),
    "copy, without a beginning": (library.make_copy(), {"beginning": False, "causal": True}),
    "no layers": (rasp.tokens, {}),
    "a mean": (
        library.make_frac_prevs(rasp.tokens == "a"),
        {"realisation": "softmax", "dtype": torch.float32},
    ),
}


def compiled(name: str) -> ef.ProgramModel:
    program, options = MODELS[name]
    return ef.compile_program(program, vocabulary="abc", max_length=3, **options)


def padded() -> np.ndarray:
    """Return all inputs of up to three tokens, with padding, and one column more than is needed."""
    rows = [list(xs) for n in (1, 2, 3) for xs in product(range(3), repeat=n)]
    return np.array([row + [-1] * (4 - len(row)) for row in rows])


@pytest.mark.parametrize("optimise", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_within_the_certified_error(name: str, optimise: bool) -> None:
    model, ids = compiled(name), padded()
    found = session(onnx_file(model), optimise).run(None, {"ids": ids})[0]
    bound = model.certificate.bound()
    assert found.dtype == np.dtype(model.certificate.dtype)
    for row, output in zip(ids.tolist(), found, strict=True):
        tokens = [model.vocabulary[k] for k in row if k >= 0]
        wanted = model.program(tokens)
        assert model.decode_output(torch.from_numpy(output[: len(tokens)])) == wanted
        if model.program.numerical:
            ideal = np.array([[float(v)] for v in wanted])
        else:
            ideal = np.array([[float(v == other) for other in model.values] for v in wanted])
        assert np.abs(output[: len(tokens)].astype(np.float64) - ideal).max() <= bound
        assert (output[len(tokens) :] == 0).all()


@pytest.mark.parametrize("name", ["reverse", "copy, without a beginning"])
def test_what_is_not_an_input_is_answered_with_nan(name: str) -> None:
    run = session(onnx_file(compiled(name)))
    wrong = np.array([[0, 3, -1], [0, -2, -1], [0, -1, 1], [-1, -1, -1], [0, 1, 2**40], [0, 1, 2]])
    found = run.run(None, {"ids": wrong})[0]
    assert np.isnan(found[:-1]).all()
    assert np.isfinite(found[-1]).all()
    assert np.isnan(run.run(None, {"ids": np.array([[0, 1, 2, 0]])})[0]).all()


def test_a_file_has_words_that_decode_it(tmp_path: Path) -> None:
    model = compiled("reverse")
    model.to_onnx(tmp_path / "reverse.onnx")
    run = session((tmp_path / "reverse.onnx").read_bytes())
    words = run.get_modelmeta().custom_metadata_map
    vocabulary, values = json.loads(words["vocabulary"]), json.loads(words["values"])
    ids = np.array([[vocabulary.index(token) for token in "abc"]])
    places = run.run(None, {"ids": ids})[0].argmax(-1)[0]
    assert [values[k] for k in places] == list("cba")
    assert words["target"] == "reverse"
    assert words["max_length"] == "3"
    assert float(words["bound"]) == model.certificate.bound()


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    model = compiled("reverse")
    with pytest.raises(InputError, match=r"\.onnx"):
        model.to_onnx(tmp_path / "reverse.txt")
    with pytest.raises(ExecutionError, match="float64 or float32"):
        compiled("reverse").to(torch.bfloat16).to_onnx(tmp_path / "reverse.onnx")
    with torch.no_grad():
        model.network.unembed.weight.data[0, 0] += 1
    with pytest.raises(WeightMismatchError):
        model.to_onnx(tmp_path / "reverse.onnx")
    assert not list(tmp_path.iterdir())
