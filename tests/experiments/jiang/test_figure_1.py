"""Figure 1: what is known beforehand, that models are what they claim, that statements can fail."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.couplings.compile import compile_coupling
from exactformer.experiments import Cell, Scale, Summary
from exactformer.experiments.jiang import figure_1 as figure
from exactformer.experiments.jiang import rates as rates
from exactformer.experiments.jiang import rates_models as models
from exactformer.theory import bound
from tests.examples import examples


@pytest.mark.parametrize("alpha", rates.ALPHAS)
@pytest.mark.parametrize("head", [1, 3, 7])
def test_tail_and_diagonal_are_integrals_of_what_is_cut_off(alpha, head):
    sigma = rates.singular_values(alpha, "∞")[:20]
    x = (np.arange(200) + 0.5) / 200  # midpoints integrate these waves exactly
    waves = np.sqrt(2) * np.sin(2 * np.pi * np.outer(x, np.arange(1, 21)))
    rest = (waves[:, head:] * sigma[head:]) @ waves[:, head:].T
    assert (rest**2).mean() == pytest.approx(rates.tail(sigma, head), rel=1e-12)
    assert (np.diag(rest) ** 2).mean() == pytest.approx(rates.diagonal(sigma, head), rel=1e-12)


def test_interpolation_moves_the_kernel_by_no_more_than_it_may():
    sigma, pieces = rates.singular_values(1.0, "6"), 40
    model = models.constructed(1.0, ["6"], [6], pieces)
    x = torch.linspace(0, 1, 1001, dtype=torch.float64)
    with torch.no_grad():
        table = model.features(x)[0]
    kernel = table[:, :6] @ table[:, 6:12].T
    exact = models.target(1.0, "6").rho.matrix(x, x)
    moved, allowed = float((kernel - exact).abs().max()), rates.interpolation(sigma, 6, pieces)
    assert allowed / 4 <= moved <= allowed


@settings(max_examples=examples(60))
@given(
    alpha=st.floats(0.6, 3),
    rank=st.sampled_from(list(rates.TERMS)),
    head=st.integers(1, 20),
    pieces=st.integers(4, 400),
    seed=st.integers(0, 2**16),
)
def test_no_constructed_model_passes_its_bound(alpha, rank, head, pieces, seed):
    x = models.draw(64, seed, "cpu").double()
    model = models.constructed(alpha, [rank], [head], pieces)
    (error,) = models.mean_squares(
        models.answer(model, x), models.answer(models.target(alpha, rank), x)
    )
    assert error <= rates.bound(rates.singular_values(alpha, rank), head, pieces)


@pytest.mark.parametrize("alpha", rates.ALPHAS)
def test_the_theory_knows_only_a_little_more_than_the_closed_form(alpha):
    general = bound(models.target(alpha, "6"), head_dim=3, ff_width=160_000).mean_squared
    closed = rates.bound(rates.singular_values(alpha, "6"), 3, 160_000)
    assert 0.8 * closed <= general <= closed * (1 + 1e-6)


@pytest.mark.parametrize("head", [1, 3])
def test_the_construction_is_that_of_the_compiler(head):
    target = models.target(1.0, "6")
    compiled = compile_coupling(target, head_dim=head, ff_width=128)
    model = models.constructed(1.0, ["6"], [head, 6], 128)
    x = models.draw(32, 1, "cpu").double()
    with torch.no_grad():
        torch.testing.assert_close(model(x)[0], compiled(x), rtol=0, atol=1e-9)


def test_every_curve_answers_the_same_sequences_and_none_it_was_trained_on():
    parameters = {"test": 100, "seed": 0}
    test = models.draw_test(parameters, "cpu")
    assert torch.equal(test, models.draw_test(parameters, "cpu"))
    trained = models.draw(4096, 0, "cpu")
    assert not torch.isin(test, trained).all(dim=1).any()


def test_a_power_law_has_its_exponent_for_a_slope():
    heads = [1, 2, 4, 8, 16, 32]
    found = rates.slope(heads, [1.0, 9.0] + [5 * m**-1.7 for m in heads[2:]], 4, 32)
    assert found.value == pytest.approx(-1.7)
    assert found.half < 1e-6
    assert rates.slope(heads, [m**-2.0 for m in heads], 16, 32).half == float("inf")


def test_an_interval_of_the_slope_holds_the_truth_as_often_as_it_says():
    draws, heads = np.random.default_rng(0), [4, 6, 8, 12, 16]
    fits = [
        rates.slope(heads, [m**-1.5 * np.exp(0.3 * draws.normal()) for m in heads], 4, 16)
        for _ in range(1000)
    ]
    share = np.mean([abs(fit.value + 1.5) <= fit.half for fit in fits])
    assert abs(share - 0.95) <= 4 * np.sqrt(0.95 * 0.05 / 1000)


def test_errors_come_by_rank_head_size_and_start():
    sizes = {"alpha": 1.0, "heads": [1, 2], "test": 32, "seed": 0}
    training = {"sequences": 64, "steps": 2, "batch": 8, "rate": 1e-3}
    network = {"starts": 3, "width": 8, "depth": 2, "features": 4}
    scratch = models.scratch_errors({**sizes, **training, **network}, "cpu")["mse"]
    assert {rank: np.shape(e) for rank, e in scratch.items()} == dict.fromkeys(rates.TERMS, (2, 3))
    warm = models.warm_errors({**sizes, **training, "pieces": 64, "sines": 4, "cosines": 4}, "cpu")[
        "mse"
    ]
    assert {rank: np.shape(e) for rank, e in warm.items()} == dict.fromkeys(rates.TERMS, (2,))


def cells():
    """Make up a run in which all that is claimed holds."""
    found = []
    for alpha in rates.ALPHAS:
        heads = [1, 2, 4, 6, 8, 16]
        built = {"alpha": alpha, "kind": "constructed", "heads": heads, "pieces": 2**15}
        closed = figure.closed_forms(built)
        error = {
            rank: [
                0.1 * m ** (1.2 - 2 * alpha) * t or 1e-15 for m, t in zip(heads, tail, strict=True)
            ]
            for rank, tail in closed["tail"].items()
        }
        exact = {r: [e if e > 1e-14 else 1e-18 for e in curve] for r, curve in error.items()}
        error["∞"] = exact["∞"] = [0.05 * m ** (1.2 - 2 * alpha) / 16 for m in heads]
        measured = {"float32": error, "float64": exact, **closed}
        measured["formula in float32"] = dict.fromkeys(rates.TERMS, 2e-15)
        found.append(Cell(built, measured, 0.0, ""))
        half = {rank: [e / 4 for e in curve] for rank, curve in error.items()}
        found.append(Cell({**built, "kind": "warm"}, {"mse": half}, 0.0, ""))
        levels = {"2": 1e-7, "6": 1e-6, "∞": 1e-3}
        trained = {rank: [[level / m, 1e-2] for m in heads] for rank, level in levels.items()}
        found.append(Cell({**built, "kind": "scratch", "starts": 2}, {"mse": trained}, 0.0, ""))
    return found


def broken(found):
    """Return the statements that do not hold."""
    summary = Summary(Scale.FULL, (), tuple(found))
    return [one.text for one in figure.EXPERIMENT.statements if not one.holds(summary)]


def test_a_good_run_breaks_no_statement():
    assert broken(cells()) == []


@pytest.mark.parametrize("errors", [[1e-6, np.nan], [np.nan, 1e-6]])
def test_the_best_start_is_one_that_did_not_diverge(errors):
    found = deepcopy(cells())
    found[2].metrics["mse"]["2"][1] = errors
    assert figure.curve(found[:3], "scratch", "2")[2] == 1e-6


@pytest.mark.parametrize(
    ("words", "kind", "alpha", "metric", "rank", "head", "value"),
    [
        ("formula in float32", "constructed", 1, "float32", "2", 1, 5e-15),
        ("formula in float32", "constructed", 2, "float32", "6", 3, 5e-15),
        ("the corrected bound", "constructed", 1, "float64", "6", 3, 1e-12),
        ("theory's tail", "constructed", 2, "float64", "6", 2, 3e-3),
        ("from scratch", "scratch", 1, "mse", "2", 1, [2e-5, 1e-3]),
        ("the better of", "warm", 1, "mse", "6", 5, 2e-15),
        ("a third of its error", "warm", 2, "mse", "∞", 0, 2e-3),
        ("more slowly", "constructed", 1, "float32", "∞", 5, 1e-7),
    ],
)
def test_each_statement_can_fail(words, kind, alpha, metric, rank, head, value):
    found = deepcopy(cells())
    cell = Summary(Scale.FULL, (), tuple(found)).cell(kind=kind, alpha=alpha)
    cell.metrics[metric][rank][head] = value
    assert any(words in text for text in broken(found))


def test_the_figure_has_a_panel_for_each_decay():
    drawn = figure.EXPERIMENT.draw(Summary(Scale.FULL, (), tuple(cells())))
    titles = [axes.get_title(loc="left") for axes in drawn.axes if axes.get_title(loc="left")]
    assert [title[:3] for title in titles] == ["(a)", "(b)"]
