"""Softmax models as users meet them: compile to a tolerance, save, load, prove, move, print."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import exactformer as ef
from exactformer.algebra.ridge import ridge_form
from exactformer.cli.app import app
from exactformer.core.formats import FORMATS
from exactformer.errors import InputError, RoundingError, WeightMismatchError
from exactformer.polynomials.constructions.softmax import softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.extrapolation_choice import MOST_HEADS, best_span, estimate
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.polynomials.proof.softmax_certificate import SoftmaxCertificate
from exactformer.polynomials.run.softmax import SoftmaxTransformer

TEXT = "x^3 + 2 x y - y"


def heads_of(model: ef.PolynomialModel) -> int:
    return int(model.blueprint.metadata["heads"])


@pytest.fixture(scope="module")
def model() -> ef.PolynomialModel:
    return ef.compile(TEXT, radius=2, construction="softmax", tolerance=1e-9)


def test_the_model_is_a_stock_module_within_its_bound(model: ef.PolynomialModel) -> None:
    assert isinstance(model.transformer, SoftmaxTransformer)
    assert isinstance(model.certificate, SoftmaxCertificate)
    assert model.executor == "literal"
    points = torch.tensor([[1.0, -0.5], [0.0, 2.0], [-1.25, 0.75]], dtype=torch.float64)
    x, y = points.T
    exact = x**3 + 2 * x * y - y
    assert torch.all((model(points) - exact).abs() <= model.certificate.bound(torch.float64))


def test_a_looser_tolerance_takes_fewer_heads() -> None:
    counts = []
    for tolerance in (1e-2, 1e-6, 1e-10, None):
        model = ef.compile(TEXT, radius=2, construction="softmax", tolerance=tolerance)
        if tolerance is not None:
            assert model.certificate.bound(torch.float64) <= tolerance
        counts.append(heads_of(model))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_the_fewest_heads_that_meet_the_tolerance_are_taken() -> None:
    p = ef.Polynomial.parse("x^3 + x")
    choice = best_span(3, FORMATS["float64"])
    three = certify_blueprint(softmax(ridge_form(p), Fraction(1), choice), p).bound("float64")
    for tolerance, heads in ((1.01 * three, 3), (0.99 * three, 4)):
        model = ef.compile(p, construction="softmax", tolerance=tolerance)
        assert model.certificate.bound("float64") <= tolerance
        assert heads_of(model) == heads


def test_without_tolerance_the_error_is_the_least_of_all_numbers_of_heads() -> None:
    p = ef.Polynomial.parse("x^2 + x")
    for dtype in (torch.float64, torch.float32, torch.float16):
        best = ef.compile(p, construction="softmax", dtype=dtype).certificate.bound(dtype)
        for heads in (1, 3, 6, MOST_HEADS):
            choice = best_span(heads, FORMATS[str(dtype)[6:]])
            other = certify_blueprint(softmax(ridge_form(p), Fraction(1), choice), p)
            assert best <= 1.02 * other.bound(dtype)


def test_the_best_span_beats_its_neighbours() -> None:
    for target in FORMATS.values():
        choice = best_span(4, target)
        for factor in (2, 4):
            for span in (choice.span * factor, choice.span / factor):
                assert estimate(choice, target) <= estimate(Extrapolation(4, span), target)


def test_a_tolerance_out_of_reach_is_refused_with_the_best_there_is() -> None:
    with pytest.raises(
        RoundingError, match=r"least certified error .* is [0-9.e-]+, with \d+ heads"
    ):
        ef.compile(TEXT, radius=2, construction="softmax", tolerance=1e-18)
    with pytest.raises(RoundingError, match="is not met"):
        ef.compile(TEXT, radius=2, tolerance=1e-18)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="positive"):
            ef.compile(TEXT, tolerance=wrong)


def test_there_is_no_fused_executor() -> None:
    with pytest.raises(InputError, match="softmax model runs as 'literal' only"):
        ef.compile(TEXT, construction="softmax", executor="fused")


def test_a_saved_model_is_proven_again(model: ef.PolynomialModel, tmp_path: Path) -> None:
    file = tmp_path / "law.safetensors"
    model.save(file)
    loaded = ef.load(file)
    assert loaded.certificate == model.certificate == ef.certify(file) == ef.certify(loaded, TEXT)
    x = torch.tensor([0.5, 1.0], dtype=torch.float64)
    assert torch.equal(loaded(x), model(x))
    with pytest.raises(ef.ExactformerError, match="does not compute the target"):
        ef.certify(file, "x^3 + 2 x y - 2 y")


def test_an_altered_module_is_noticed(model: ef.PolynomialModel) -> None:
    twin = copy.deepcopy(model)
    assert ef.certify(twin) == model.certificate
    twin.state_dict()["transformer.blocks.1.value.weight"][0, 0] += 1e-3
    with pytest.raises(WeightMismatchError, match="block 2, value projection"):
        ef.certify(twin)


def test_vectors_and_boxes() -> None:
    model = ef.compile(["x^2 + y", "x y"], domain=[(0, 1), (1, 3)], construction="softmax")
    value = model([0.5, 2.0])
    bound = model.certificate.bound(torch.float64)
    assert value.shape == (2,)
    assert abs(float(value[0]) - 2.25) <= bound
    assert abs(float(value[1]) - 1.0) <= bound
    assert bound < 1e-10


def test_the_trace_shows_attention_shared_with_the_null_token(model: ef.PolynomialModel) -> None:
    weights = model.trace([1.0, -0.5])["block 1 head 1 selection"]
    n = len(weights) - 2
    assert torch.allclose(weights.sum(dim=1), torch.ones(n + 2).double())
    for i in range(n):
        assert float(weights[i, i] + weights[i, n]) == pytest.approx(1, abs=1e-15)
        assert 0.2 < float(weights[i, i]) < 0.8
    assert float(weights[n, n + 1]) == pytest.approx(1, abs=1e-15)


def test_the_command_line_compiles_and_certifies(tmp_path: Path) -> None:
    file = tmp_path / "law.safetensors"
    runner = CliRunner()
    options = ["--construction", "softmax", "--tolerance", "1e-6"]
    made = runner.invoke(app, ["compile", TEXT, *options, "-o", str(file), "--json"])
    assert made.exit_code == 0
    certificate = json.loads(made.stdout)["certificate"]
    assert certificate["zero_error"] is False
    assert certificate["rounding"]["float64"]["value"] <= 1e-6
    shown = runner.invoke(app, ["certify", str(file)])
    assert shown.exit_code == 0
    assert "truncation" in shown.stdout
    assert runner.invoke(app, ["inspect", str(file)]).exit_code == 0
    points = tmp_path / "points.csv"
    points.write_text("x,y\n0.5,0.25\n")
    predicted = runner.invoke(app, ["predict", str(file), str(points)])
    assert predicted.exit_code == 0
