"""The curve of universality: known rates, and what compiled models err."""

from math import pi

import numpy as np
import pytest
from scipy.special import iv

from exactformer.experiments import Cell, Scale, Summary
from exactformer.experiments.own import universality


def test_the_known_rate_of_exp_is_the_first_term_left_out():
    for n in range(4, 12):
        assert universality.known("exp", n) == pytest.approx(2 * iv(n + 1, 1), rel=0.06)


def test_the_known_rate_of_the_kink_is_the_tail_of_its_series_at_zero():
    for n in (2, 8, 64):
        tail = sum(4 / pi / (4 * k * k - 1) for k in range(n // 2 + 1, 400_000))
        assert universality.known("|x|", n) == pytest.approx(tail, rel=1e-3)


def test_the_known_rate_of_the_wave_bounds_its_chebyshev_series():
    nodes = np.polynomial.chebyshev.chebpts1(200)
    series = np.polynomial.chebyshev.chebfit(nodes, np.sin(20 + 20 * nodes), 80)
    for n in (10, 20, 30, 40):
        tail = np.abs(series[n + 1 :]).sum()
        assert 0.3 * universality.known("sin 40x", n) <= tail <= universality.known("sin 40x", n)


def test_a_compiled_polynomial_errs_as_the_curve_says():
    parameters = {"function": "exp", "degrees": [3, 6], "compiled": [3, 6]}
    found = universality.run(parameters, "cpu")
    for model, error in zip(found["models"], found["errors"], strict=True):
        assert abs(model["error"] - error) <= model["bound"] + 1e-15
    parameters = {"function": "sin 40x", "degrees": [30], "compiled": [30]}
    (model,) = universality.run(parameters, "cpu")["models"]
    assert model["bound"] < 1e-10 < model["error"]


def test_a_transformer_that_errs_otherwise_is_noticed():
    (agree,) = [s for s in universality.EXPERIMENT.statements if s.text.startswith("transformers")]
    for error, holds in ((1e-5, True), (2e-5, False)):
        metrics = {
            "degrees": [4],
            "errors": [1e-5],
            "models": [{"degree": 4, "error": error, "bound": 1e-14}],
        }
        cell = Cell({"function": "exp"}, metrics, 0.0, "")
        assert agree.holds(Summary(Scale.SMOKE, (), (cell,))) is holds
