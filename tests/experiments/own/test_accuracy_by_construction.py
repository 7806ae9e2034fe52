from fractions import Fraction
from math import cos, pi

import numpy as np
import pytest
from scipy.special import iv

from exactformer.experiments import (
    Cell,
    Row,
    Scale,
    Summary,
)
from exactformer.experiments.engine.verdict import Outcome
from exactformer.experiments.own import accuracy_by_construction, universality
from exactformer.experiments.own.accuracy_by_construction import cells, pairs, target


@pytest.fixture(scope="module")
def measured():
    """What a handful of cells measure, by construction."""
    chosen = {"target": "dense", "degree": 3, "radius": "7", "format": "float32"}
    size = {"points": 20, "rounds": 2, "seed": 0}
    return {
        c: accuracy_by_construction.run({**chosen, **size, "construction": c}, "cpu")
        for c in accuracy_by_construction.CONSTRUCTIONS
    }


@pytest.mark.parametrize("q", [2, 5, 16, 60])
def test_the_oscillating_target_is_the_chebyshev_polynomial_stretched(q):
    polynomial = target("oscillating", q, Fraction(3))
    assert polynomial.degree == q
    for angle in np.linspace(0, pi, 9).tolist():
        assert float(polynomial.at([3 * Fraction(cos(angle))])) == pytest.approx(
            cos(q * angle), abs=q * q * 1e-15
        )


def test_the_dense_target_has_its_degree_and_the_same_values_on_every_ball():
    near, far = target("dense", 5, Fraction(1)), target("dense", 5, Fraction(100))
    assert near.degree == far.degree == 5
    assert len(near) > 40
    point = [Fraction(1, 3), Fraction(-1, 5), Fraction(1, 7)]
    assert near.at(point) == far.at([100 * x for x in point])


def test_no_error_passes_its_bound_and_none_is_zero(measured):
    for found in measured.values():
        for error, bound in pairs(Cell({}, found, 0.0, "")):
            assert 0 < error <= bound


def test_softmax_has_no_closed_form_and_all_others_have_one(measured):
    assert {c for c, found in measured.items() if "fused" not in found} == {"softmax"}


def test_errors_are_found_exactly(monkeypatch):
    """A module that is off by a known amount is measured to be off by just that."""
    from exactformer.polynomials.run.literal import LiteralTransformer

    honest = LiteralTransformer.forward

    def off(self, *arguments, **options):
        return honest(self, *arguments, **options) + 2.0**-10

    monkeypatch.setattr(LiteralTransformer, "forward", off)
    cell = {"target": "oscillating", "construction": "scaled", "degree": 4, "radius": "1"}
    found = accuracy_by_construction.run(
        {**cell, "format": "float64", "points": 20, "rounds": 2, "seed": 0}, "cpu"
    )
    assert found["literal"] == pytest.approx(2.0**-10, rel=1e-9)
    assert found["literal"] > found["literal bound"]


@pytest.mark.parametrize("scale", Scale)
def test_every_sweep_is_in_the_grid_once(scale):
    grid = cells(scale)
    keys = [tuple(sorted(cell.items())) for cell in grid]
    assert len(set(keys)) == len(keys)
    assert {cell["construction"] for cell in grid} == set(accuracy_by_construction.CONSTRUCTIONS)
    assert max(cell["degree"] for cell in grid) == 60


def test_the_statements_notice_an_error_beyond_its_bound():
    experiment = accuracy_by_construction.EXPERIMENT
    honest = {"depth": 2.0, "literal": 1e-16, "literal bound": 1e-15}
    (bounded,) = [s for s in experiment.statements if s.text.startswith("no observed")]
    for metrics, holds in ((honest, True), ({**honest, "fused": 2.0, "fused bound": 1.0}, False)):
        cell = Cell({"construction": "scaled"}, metrics, 0.0, "")
        assert bounded.holds(Summary(Scale.SMOKE, (), (cell,))) is holds


def test_depths_that_are_not_the_logarithm_of_the_degree_are_noticed():
    (shallow,) = [s for s in accuracy_by_construction.EXPERIMENT.statements if "log₂" in s.text]
    for degree, depth in ((2, 1), (5, 3), (8, 3), (9, 4), (16, 4), (60, 6)):
        for claimed, holds in ((depth, True), (depth + 1, False)):
            parameters = {"construction": "doubling", "degree": degree}
            cell = Cell(parameters, {"depth": float(claimed)}, 0.0, "")
            assert shallow.holds(Summary(Scale.SMOKE, (), (cell,))) is holds


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


def test_what_has_no_guarantee_is_left_out():
    """In float16 the paper's blocks overflow on a ball of radius 10; the closed form does not."""
    cell = {"target": "dense", "construction": "paper", "degree": 5, "radius": "10"}
    found = accuracy_by_construction.run(
        {**cell, "format": "float16", "points": 5, "rounds": 1, "seed": 0}, "cpu"
    )
    assert "literal" not in found
    assert 0 < found["fused"] <= found["fused bound"]


def test_errors_that_grow_faster_than_the_square_of_the_degree_are_noticed():
    experiment = accuracy_by_construction.EXPERIMENT
    (keeps,) = [s for s in experiment.statements if "q²" in s.text]
    for growth, holds in ((2.0, True), (2.3, False)):
        cells = [
            Cell(
                {"target": "oscillating", "construction": "chebyshev", "degree": q, "format": f},
                {"literal": 1e-16 * q**growth},
                0.0,
                "",
            )
            for q in (4, 16, 60)
            for f in accuracy_by_construction.FORMATS
        ]
        rows = [
            Row(
                f"T_4, {f}, chebyshev",
                (1e-16 * 4**growth,),
                None,
                None,
                "",
                Outcome.NOT_COMPARED,
                "",
                0,
            )
            for f in accuracy_by_construction.FORMATS
        ]
        assert keeps.holds(Summary(Scale.SMOKE, tuple(rows), tuple(cells))) is holds
