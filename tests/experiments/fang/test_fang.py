"""Fang's experiments: the paper's sizes, one computation behind two of them, divergence kept."""

import math
import subprocess
import sys
from math import comb

import pytest
import torch

from exactformer.experiments import Scale, find
from exactformer.experiments.engine.cell import Cell, plain, restore
from exactformer.experiments.engine.reproduce import tasks_of
from exactformer.experiments.engine.summary import summarise
from exactformer.experiments.fang import cell as fang_cell
from exactformer.experiments.fang.cell import run
from exactformer.experiments.fang.data import TARGETS
from exactformer.experiments.fang.networks import build
from exactformer.learning.laws.trained.training import Progress

NAMES = ["fang-figure-2", "fang-table-1", "fang-figure-3", "fang-noise", "fang-outside"]

SMALL = {
    "target": "f2-small",
    "train": 300,
    "test": 200,
    "seed": 0,
    "width": 56,
    "epochs": 4,
    "batch": 100,
    "clip": 10.0,
}


def networks(name, scale=Scale.FULL):
    return [cell for cell in find(name).cells(scale) if "clip" in cell]


def test_full_scale_has_the_papers_sizes_and_five_seeds():
    sizes = ("target", "train", "test", "width", "epochs", "batch")
    for name, expected in {
        "fang-table-1": ("f2", 45_000, 5000, 4368, 2000, 25_000),
        "fang-figure-3": ("f2", 45_000, 5000, 4368, 2000, 25_000),
        "fang-figure-2": ("f1", 9000, 1000, 10, 600, 5000),
    }.items():
        cells = networks(name)
        assert {tuple(cell[size] for size in sizes) for cell in cells} == {expected}
        assert {cell["seed"] for cell in cells} == set(range(5))


@pytest.mark.parametrize(
    ("target", "width", "counts"),
    [
        ("f1", 10, {"attention": 41, "width": 41, "depth": 57}),
        ("f2", 4368, {"attention": 65_521, "width": 52_417, "depth": 74_041}),
    ],
)
def test_networks_have_the_papers_free_parameters(target, width, counts):
    chosen = TARGETS[target]
    assert width == comb(chosen.dimension + chosen.degree + 1, chosen.degree)
    for model, count in counts.items():
        network = build(model, chosen, width, 0, "cpu")
        assert sum(p.numel() for p in network.parameters()) == count


def test_figure_3_is_drawn_from_the_cells_of_table_1():
    for scale in Scale:
        table, figure = (
            {task.key for task in tasks_of(find(name), scale, "cpu")}
            for name in ("fang-table-1", "fang-figure-3")
        )
        assert figure < table


def test_time_spent_on_watching_is_not_taken_for_training(monkeypatch):
    clock = iter(range(0, 100, 5))  # every look takes five seconds
    monkeypatch.setattr(fang_cell.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(fang_cell, "errors", lambda *_: {})
    watch = fang_cell._Watch(torch.nn.Identity(), None, 2)
    watch(Progress(1, 2, 0.5, 1.0))
    watch(Progress(2, 2, 0.5, 1.0 + 5.0 + 1.0))
    assert (watch.training, watch.watching) == (2.0, 10.0)


@pytest.mark.parametrize("model", ["attention", "depth", "width"])
def test_a_cell_gives_the_same_numbers_twice_and_its_curve_ends_in_them(model):
    first, again = (dict(run({**SMALL, "model": model}, "cpu")) for _ in range(2))
    for name in ("train", "test", "test_noisy"):
        assert first[name] == again[name] == first["curve"][name][-1]
    assert first["curve"]["epoch"] == [1, 2, 3, 4]
    assert first["minutes"] > 0


def test_noisy_test_labels_cost_their_variance():
    metrics = run({**SMALL, "model": "sparse", "train": 2000, "test": 5000}, "cpu")
    assert metrics["test"] < 0.05
    assert metrics["test_noisy"] == pytest.approx(metrics["test"] + 1, abs=0.08)


def test_a_target_that_is_no_polynomial_is_fitted_without_warnings():
    cell = {"function": "kink", "solver": "sparse", "noise": 0.1, "degrees": [1, 2]}
    metrics = find("fang-outside").run({**cell, "train": 2000, "test": 100, "seed": 0}, "cpu")
    assert metrics["degree"] == [1, 2]


def test_divergence_is_a_result_that_is_kept_tabled_and_drawn():
    experiment = find("fang-table-1")
    cells = []
    for parameters in experiment.cells(Scale.DEFAULT):
        metrics = {"train": 1.0, "test": 0.1, "test_noisy": 1.1, "exact": 1.0}
        metrics |= {"minutes": 1.0, "converged": 9}
        if parameters.get("clip", 0) is None and parameters["model"] == "attention":
            quick = {"train": 900, "width": 200, "epochs": 5}
            metrics = dict(run({**parameters, **quick}, "cpu"))
            assert metrics["diverged"]
            assert math.isnan(metrics["test"])
            assert math.isnan(metrics["converged"])
        cells.append(Cell(parameters, restore(plain(metrics)), 1.0, "a processor"))
    summary = summarise(experiment, Scale.DEFAULT, cells)
    assert math.isnan(summary["ATTENTION, no clipping, test (clean target)"])
    experiment.draw(summary).draw_without_rendering()


WITHOUT_FLINT = """
import sys
sys.modules["flint"] = None
from exactformer.experiments import reproduce
assert not reproduce(sys.argv[2], scale="smoke", jobs=1, out=sys.argv[1]).broken
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_holds_without_flint(name, tmp_path):
    command = [sys.executable, "-W", "error", "-c", WITHOUT_FLINT, str(tmp_path), name]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
