"""The figures of fang-noise and fang-outside: errors against what is varied, limits dashed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.fang.data import TARGETS
from exactformer.experiments.fang.drawing import band
from exactformer.experiments.fang.names import COLOURS, LABELS
from exactformer.figures.style import GREY, ORANGE, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary


def noise_figure(summary: Summary) -> Figure:
    """Draw a row for each target: error against σ on the left, against n on the right."""
    from matplotlib.figure import Figure

    from exactformer.experiments.fang.sizes import SWEEPS, errors_by_noise, errors_by_size, limit

    with exactformer_style():
        figure = Figure(figsize=(9.5, 7), layout="constrained")
        for sweep, (left, right) in zip(SWEEPS[summary.scale], figure.subplots(2, 2), strict=True):
            most, name = sweep.sizes[-1], TARGETS[sweep.target].formula
            for solver in sweep.solvers:
                cells = summary.select(target=sweep.target, solver=solver)
                _line(left, cells, errors_by_noise, solver)
                _line(right, cells, errors_by_size, solver)
            for solver in ("least-squares", "sparse"):
                bound = [limit(sweep.target, solver, noise, most) for noise in sweep.noises]
                _limit(left, sweep.noises, bound, solver)
                bound = [limit(sweep.target, solver, 1.0, size) for size in sweep.sizes]
                _limit(right, sweep.sizes, bound, solver)
            left.set(xlabel="σ, standard deviation of the noise", title=f"{name}\nn = {most:,}")
            right.set(xlabel="n, training points", title="σ = 1")
            for axes in (left, right):
                axes.set(xscale="log", yscale="log", ylabel="test MSE, clean target")
            right.set_xticks(sweep.sizes, [f"{size:,}" for size in sweep.sizes], minor=False)
            right.tick_params(axis="x", which="minor", labelbottom=False)
            left.legend()
    return figure


def _line(
    axes: Axes, cells: list[Cell], read: Callable[[Sequence[Cell]], dict[Any, float]], solver: str
) -> None:
    seeds = sorted({cell.seed for cell in cells})
    errors = [read([cell for cell in cells if cell.seed == seed]) for seed in seeds]
    values = [list(error.values()) for error in errors]
    label = LABELS[solver] + (", trained" if solver == "sgd" else "")
    band(axes, list(errors[0]), values, COLOURS[solver], label, marker="o")


def _limit(axes: Axes, x: Sequence[float], bound: list[float], solver: str) -> None:
    of = "terms of the target" if solver == "sparse" else "all terms"
    axes.plot(x, bound, "--", color=COLOURS[solver], linewidth=1, label=f"σ²p/n, {of}")


def outside_figure(summary: Summary) -> Figure:
    """Draw one panel for each function."""
    from matplotlib.figure import Figure

    from exactformer.experiments.fang.functions import FUNCTIONS
    from exactformer.experiments.fang.outside import NOISE, SIZES

    size = SIZES[summary.scale]
    degrees = list(size.degrees)
    with exactformer_style():
        figure = Figure(figsize=(10.5, 7), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True)
        for axes, (name, formula) in zip(panels.flat, FUNCTIONS.items(), strict=True):
            fits = {"function": name, "solver": "least-squares", "degrees": degrees}
            clean = _of_degrees(summary, {**fits, "noise": 0.0})
            axes.plot(degrees, clean.mean(axis=0), color=GREY, label="best polynomial, no noise")
            noise = [NOISE**2 * comb(degree + 2, 2) / size.train for degree in degrees]
            axes.plot(degrees, noise, "--", color=GREY, linewidth=1, label="σ²p/n")
            for solver in ("least-squares", "sparse"):
                found = _of_degrees(summary, {**fits, "solver": solver, "noise": NOISE})
                band(axes, degrees, found, COLOURS[solver], LABELS[solver], marker="o")
            for cell in summary.select(function=name, degrees=["auto"]):
                axes.plot(
                    cell.metrics["degree"], cell.metrics["test"], "*", markersize=11, color=ORANGE,
                    label="least squares, automatic degree" if cell.seed == 0 else None,
                )  # fmt: skip
            (trained,) = summary.select(function=name, solver="sgd")
            axes.plot(
                trained.metrics["degree"], trained.metrics["test"], "s:", color=COLOURS["sgd"],
                label="ATTENTION, trained",
            )  # fmt: skip
            axes.set(
                yscale="log", xlabel="degree", ylabel="test MSE, clean target",
                title=f"{name}: {formula}", ylim=(max(noise[0] / 3, 1e-7), None),
            )  # fmt: skip
            axes.set_xticks(range(0, degrees[-1] + 1, 4))
        panels[0, 0].legend(fontsize=7)
    return figure


def _of_degrees(summary: Summary, where: dict[str, Any]) -> Any:
    return np.array([cell.metrics["test"] for cell in summary.select(**where)])
