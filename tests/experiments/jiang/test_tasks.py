"""Figures 4 to 6 and the floor of symmetry: what is measured, and that a wrong number is noticed."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from exactformer.experiments import Cell, Scale, Summary, find
from exactformer.experiments.jiang import equivariance as jiang_equivariance
from exactformer.experiments.jiang import figure_6 as jiang_figure_6
from exactformer.experiments.jiang.tasks_training import (
    attention,
    compare,
    composition,
    construct,
    measure,
    outputs,
    start,
)
from exactformer.learning import ensembles
from exactformer.learning.ensembles import train
from exactformer.targets import AverageBySelection, CentreOfGravity, NearestPoint, attend

SMALL = {"head_dim": 4, "seed": 0, "width": 8, "features": 6, "value_dim": 5, "models": 2}
TASKS = [NearestPoint(tau=3), CentreOfGravity(tau=6), AverageBySelection(tau=4, k=2)]


def ensemble(task, gain=1.0, tied=False):
    return start(task, {**SMALL, "gain": gain, "tied": tied}, "cpu")


def holds(name, words, *cells, scale=Scale.SMOKE):
    (statement,) = [s for s in find(name).statements if words in s.text]
    return statement.holds(Summary(scale, (), tuple(Cell(p, m, 0.0, "") for p, m in cells)))


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_one_token_alone_shows_the_readout_of_its_value(task):
    models = ensemble(task)
    at, learnt = composition(task, models, task.sample(5, 0))
    x = task.sample(5, 0)
    tokens = torch.as_tensor(
        task.encode(x)[task.attention(x).max(axis=-2) > 0], dtype=torch.float32
    )
    inside = models.inner(tokens) @ models.value.mT
    by_hand = models.outer(inside).detach().numpy()
    assert learnt.shape == (2, len(at), task.output_dim)
    assert np.abs(learnt - by_hand).max() <= 1e-6


def test_constant_sequences_show_it_too_where_there_are_no_positions():
    task = NearestPoint(tau=3)
    models, token = ensemble(task, gain=3.0), task.sample(1, 0)[:, :1]
    constant = np.repeat(token, 3, axis=1)
    _, learnt = composition(task, models, constant)
    assert np.abs(outputs(task, models, constant) - learnt[:, None, :1]).max() <= 1e-6


def test_larger_weights_make_attention_less_uniform_and_tied_ones_look_at_themselves():
    task = CentreOfGravity(tau=6)
    x = task.sample(50, 0)
    plain, large, tied = (
        attention(task, ensemble(task, *options), x) for options in ((1.0,), (10.0,), (10.0, True))
    )
    assert np.abs(plain - 1 / 6).max() < np.abs(large - 1 / 6).max()
    own = [np.diagonal(weights, axis1=-2, axis2=-1).mean() for weights in (large, tied)]
    assert own[1] > own[0]


def test_attention_is_compared_row_by_row():
    meant = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    weights = np.array([[[[0.25, 0.75], [0.25, 0.75]]], [[[1.0, 0.0], [0.5, 0.5]]]])
    found = compare(weights, meant)
    assert found["right"] == [0.5, 1.0]  # of two tokens that should have as much, either is right
    assert found["misplaced"] == [0.5, 0.0]
    assert found["pooled_right"] == [1.0, 1.0]
    assert found["pooled_misplaced"] == [0.25, 0.0]


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_errors_are_those_of_the_answers(task):
    models, x = ensemble(task), task.sample(30, 1)
    found, answers = measure(task, models, x), task(x)
    for model, mse in enumerate(found["mse"]):
        assert mse == pytest.approx(((outputs(task, models, x)[model] - answers) ** 2).mean())
    assert np.allclose(attend(task, x, task.attention(x)), answers)


def test_a_sharper_construction_is_nearer():
    errors = [
        construct(AverageBySelection(), {"tests": 200, "seed": 0, "sharpness": sharpness})
        for sharpness in (2.0, 8.0)
    ]
    assert errors[1]["mse"] < 1e-4 * errors[0]["mse"]
    assert max(found["beyond"] for found in errors) <= 1e-8
    assert errors[0]["rank"] == 6


@pytest.mark.parametrize("name", ["jiang-figure-4", "jiang-figure-5", "jiang-figure-6"])
def test_a_limit_that_is_missed_is_noticed(name):
    good = {"best_right": 1.0, "best_mse": 0.0, "best_misplaced": 0.0, "best_composition_rms": 0.0}
    bad = {"best_right": 0.5, "best_mse": 1.0, "best_misplaced": 1.0, "best_composition_rms": 1.0}
    for words in ("largest weight", "F̂∘f̂ is"):
        for scale in Scale:
            assert holds(name, words, ({"kind": "trained"}, good), scale=scale)
            assert not holds(name, words, ({"kind": "trained"}, bad), scale=scale)
    for beyond in (0.0, 1e-3):
        cell = ({"kind": "constructed", "sharpness": 1.0}, {"beyond": beyond})
        assert holds(name, "no construction", cell) is (beyond == 0)


@pytest.mark.parametrize("exponent", [-1.0, -0.5])
def test_another_rate_of_the_hard_max_is_noticed(exponent):
    cells = [
        ({"kind": "constructed", "sharpness": s}, {"mse": s**exponent})
        for s in (10.0, 1e2, 1e3, 1e4)
    ]
    assert holds("jiang-figure-4", "falls like", *cells) is (exponent == -1)


def test_figure_6_has_the_input_of_equation_66():
    (cell, *_) = jiang_figure_6.EXPERIMENT.cells(Scale.FULL)
    short = {**cell, "models": 1, "steps": 1, "sequences": 8, "tests": 8, "width": 8}
    found = jiang_figure_6.run(short, "cpu")
    assert np.array(found["x"])[0, 2:].tolist() == [4, 5, 5]
    assert np.array(found["meant"])[5] == pytest.approx([1 / 3, 0, 0, 0, 0, 0, 1 / 3, 1 / 3])


TARGETS = jiang_equivariance.TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_the_nearest_equivariant_map_is_the_mean_over_all_orders(target):
    T = jiang_equivariance.matrix(target, 5)
    mean = np.mean([T[np.ix_(p, p)] for p in permutations(range(5))], axis=0)
    assert np.abs(mean - jiang_equivariance.nearest_equivariant(T)).max() <= 1e-14


@pytest.mark.parametrize("target", TARGETS)
def test_no_equivariant_polynomial_goes_below_the_floor(target):
    """Least squares over x(t), the mean, squares and products: the floor, to 4 standard errors."""
    T, rng = jiang_equivariance.matrix(target, 5), np.random.default_rng(0)
    x = rng.random((20_000, 5))
    mean = np.repeat(x.mean(axis=1, keepdims=True), 5, axis=1)
    features = np.stack([np.ones_like(x), x, mean, x * mean, x**2, mean**2], axis=-1).reshape(-1, 6)
    y = (x @ T.T).reshape(-1)
    away = (y - features @ np.linalg.lstsq(features, y, rcond=None)[0]).reshape(x.shape) ** 2
    spread = away.mean(axis=1).std() / len(x) ** 0.5
    assert abs(away.mean() - jiang_equivariance.floor(T)) <= 4 * spread + 1e-12


@pytest.mark.parametrize("tau", [3, 5, 7])
@pytest.mark.parametrize("target", ["reverse", "first"])
def test_of_an_odd_number_of_tokens_only_the_mean_is_left(target, tau):
    T = jiang_equivariance.matrix(target, tau)
    assert np.abs(jiang_equivariance.nearest_equivariant(T) - 1 / tau).max() <= 1e-15
    assert jiang_equivariance.floor(T) == pytest.approx((1 - 1 / tau) / 12)


def test_a_model_that_diverged_is_not_the_best(monkeypatch):
    def one_diverged(*arguments, **options):
        return replace(train(*arguments, **options), final=np.array([np.nan, 0.1]))

    monkeypatch.setattr(ensembles, "train", one_diverged)
    (cell, *_) = jiang_equivariance.cells(Scale.SMOKE)
    short = {**cell, "models": 2, "steps": 2, "sequences": 64, "tests": 8, "width": 8}
    found = jiang_equivariance.run(short, "cpu")
    assert found["best_mse"] == found["mse"][1]


def test_a_model_below_the_floor_or_far_above_it_is_noticed():
    for ratio in (0.9, 1.0, 1.1):
        cell = ({"target": "reverse", "positions": False}, {"over_floor": ratio})
        assert holds("jiang-equivariance", "within 2 %", cell) is (ratio == 1.0)
    for deviation in (1e-15, 1e-6):
        cell = ({"positions": False}, {"equivariant": True, "deviation": deviation})
        assert holds("jiang-equivariance", "double precision", cell) is (deviation < 1e-12)
