"""What leaves the package computes the same polynomial, within the bound it carries."""

from __future__ import annotations

import io
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.core.files import write_bytes
from exactformer.errors import (
    ExecutionError,
    FileFormatError,
    InputError,
    SizeError,
    WeightMismatchError,
)
from exactformer.polynomials import export as exporting
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.run.literal import dense_bytes
from tests.cases.exports import FUSED, inner_points, model_of, session, worst_error

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "exporting.md"

# torch's exporter still calls what torch.jit deprecates
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
needs_onnx = pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="onnxruntime is not installed"
)


@needs_onnx
def test_an_onnx_file_says_what_it_is(tmp_path: Path) -> None:
    model = model_of("box", dtype=torch.float32)
    model.to_onnx(tmp_path / "law.onnx", executor="literal")
    told = session((tmp_path / "law.onnx").read_bytes()).get_modelmeta().custom_metadata_map
    assert told["target"] == "x^3 + x y"
    assert told["variables"] == "x, y"
    assert told["domain"] == str(model.blueprint.domain)
    assert float(told["bound"]) == model.certificate.bound("float32", "literal")
    assert (told["executor"], told["dtype"], told["outside"]) == ("literal", "float32", "nan")
    assert told["version"] == ef.__version__
    assert told["blueprint_digest"] == model.certificate.blueprint_digest


@needs_onnx
@pytest.mark.parametrize("name", ["vector", "box"])
@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_onnx_and_the_model_agree_on_what_is_outside(name: str, executor: str) -> None:
    """Round the boundary, and for points that are no numbers; vectors are marked as a whole."""
    model = model_of(name, executor=executor, outside="nan")
    domain = model.blueprint.domain
    centre = np.array([float(domain.offset(j)) for j in range(2)])
    extent = np.array([float(domain.extent(j)) for j in range(2)])
    steps = np.array([0, 1 - 2.0**-52, 1, 1 + 2.0**-34, 1 + 2.0**-32, 1.5, np.inf, -np.inf, np.nan])
    x = np.tile(centre, (2, len(steps), 1))
    for k in range(2):
        x[k, :, k] += extent[k] * steps
    x = x.reshape(-1, 2)
    (values,) = session(exporting.onnx_file(model)).run(None, {"x": x})
    marked = np.isnan(values)
    finite = np.isfinite(x).all(axis=1)
    assert (marked[finite] == np.isnan(model(x[finite]).numpy())).all()
    assert marked.reshape(18, -1)[:, 0].tolist() == ([False] * 4 + [True] * 5) * 2
    free = model_of(name, executor=executor, outside="allow")
    (values,) = session(exporting.onnx_file(free)).run(None, {"x": x[:6]})
    assert np.isfinite(values).all()


@needs_onnx
def test_the_size_of_a_literal_file_is_known_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ef.compile("(a + b + c + d)^5 - a", radius=1, directions="lattice")
    size = dense_bytes(model.blueprint, model.dtype)
    actual = len(exporting.onnx_file(model, "literal"))
    assert size < actual < 1.05 * size
    monkeypatch.setattr(exporting, "LARGEST_ONNX", size - 1)
    with pytest.raises(SizeError, match=r"n = 56 tokens and 0\.0 GiB .* executor='fused'"):
        exporting.onnx_file(model, "literal")
    assert len(exporting.onnx_file(model, "fused")) < size / 20


def test_without_onnx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ExecutionError, match=r"pip install 'exactformer\[onnx\]'"):
        model_of("box").to_onnx(tmp_path / "law.onnx")


@pytest.mark.parametrize("make", [f for _, f in exporting.FORMATS.values()])
def test_altered_weights_do_not_leave_under_the_certificate(make: Any) -> None:
    model = model_of("box")
    with torch.no_grad():
        model.transformer.features[0, 0] += 1e-9
    with pytest.raises(WeightMismatchError, match="F, token 1"):
        make(model)


def test_bfloat16_is_refused_where_nothing_computes_in_it() -> None:
    model = model_of("constant", dtype=torch.bfloat16)
    for refused in (exporting.onnx_file, lambda m: m.to_numpy(executor="literal")):
        with pytest.raises(InputError, match="bfloat16"):
            refused(model)


@pytest.mark.parametrize("make", [f for _, f in exporting.FORMATS.values()])
def test_unknown_executors_are_refused(make: Any) -> None:
    with pytest.raises(InputError, match="'literal' or 'fused' only"):
        make(model_of("constant"), "quantum")


def lines_of_numpy() -> Any:
    """The function that the guide prints, as it prints it."""
    (code,) = re.findall(
        r"```python title=\"evaluate\.py\"\n(.*?)```", GUIDE.read_text(), re.DOTALL
    )
    assert len(code.strip().splitlines()) <= 16
    scope: dict[str, Any] = {}
    exec(code, scope)
    return scope["evaluate"]


@pytest.mark.spread(4)
@pytest.mark.parametrize("name", FUSED)
def test_a_few_lines_of_numpy_evaluate_the_arrays(name: str) -> None:
    evaluate = lines_of_numpy()
    for dtype in (torch.float64, torch.float32, torch.float16):
        model = model_of(name, dtype=dtype, executor="fused")
        x = inner_points(model, 40)
        with np.load(io.BytesIO(exporting.npz_file(model)), allow_pickle=False) as stored:
            values = evaluate(stored, x)
            bound = float(stored["bound"])
        assert values.dtype == np.promote_types(x.dtype, np.float32)
        assert bound == model.certificate.bound(dtype, "fused")
        assert worst_error(model, x, values) <= bound


def test_literal_arrays_are_every_matrix_by_path() -> None:
    model = model_of("paper")
    arrays = model.to_numpy(executor="literal")
    for path, matrix in model.blueprint.matrices():
        assert arrays[path].shape == matrix.shape
        assert all(arrays[path][i, j] == float(value) for i, j, value in matrix)
        assert np.count_nonzero(arrays[path]) == matrix.nonzeros
    assert arrays["blocks.0.selection"] == "one-hot maximum"
    assert arrays["blocks.0.activation"] == "relu"
    assert model.blueprint.dimensions[int(arrays["embedding.dimension"])] == "feature"


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("executor", "outside"),
    [*(("fused", o) for o in PolynomialModel.OUTSIDE), ("literal", "raise")],
)
def test_exported_programs_agree_on_any_batch(executor: str, outside: str) -> None:
    model = model_of("vector", executor=executor, outside=outside)
    bound = model.certificate.bound("float64", executor)
    x = torch.from_numpy(inner_points(model, 7))
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file).module()
    for count in (0, 1, 2, 100):
        points = torch.from_numpy(inner_points(model, count, seed=count))
        values = again(points)
        assert torch.equal(program.module()(points), values)
        assert values.shape == (count, 3)
        assert np.abs((values - model(points)).numpy()).max(initial=0) <= 2 * bound
    far = again(torch.full((1, 2), 9.0, dtype=torch.float64))
    assert bool(far.isfinite().all() if outside == "allow" else far.isnan().all())


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    ("name", "executor"), [("box", "fused"), ("box", "literal"), ("softmax", "literal")]
)
def test_a_pt2_file_carries_the_words(name: str, executor: str) -> None:
    model = model_of(name)
    extra = {"exactformer.json": ""}
    file = io.BytesIO(exporting.pt2_file(model, executor))
    program = torch.export.load(file, extra_files=extra).module()
    told = json.loads(extra["exactformer.json"])
    assert told == exporting.about(model, executor) | {"outside": "nan"}
    x = inner_points(model, 20)
    values = program(torch.from_numpy(x)).detach().numpy()
    assert worst_error(model, x, values) <= float(told["bound"])


def test_exporting_for_points_that_would_be_rounded_is_refused() -> None:
    model = model_of("box", dtype=torch.float32)
    with pytest.raises(InputError, match="not covered by the certificate"):
        torch.export.export(model, (torch.zeros(2, 2, dtype=torch.float64),))


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileFormatError, match="not a plain file"):
        write_bytes(b"new", tmp_path)
    with pytest.raises(FileFormatError, match="cannot write"):
        write_bytes(b"new", tmp_path / "missing" / "law.onnx")
    file = tmp_path / "law.onnx"
    file.write_bytes(b"old")
    with monkeypatch.context() as full:
        full.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
        with pytest.raises(FileFormatError, match="disk full"):
            write_bytes(b"new", file)
    assert (list(tmp_path.iterdir()), file.read_bytes()) == ([file], b"old")
    write_bytes(b"new", file)
    assert (list(tmp_path.iterdir()), file.read_bytes()) == ([file], b"new")


def test_the_name_of_an_onnx_file_ends_with_onnx(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.txt: the name of an ONNX file ends with \.onnx"):
        ef.compile("x^2").to_onnx(tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())
