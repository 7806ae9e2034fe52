"""The figures of Fang's experiments."""

import math
from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments import Cell, Scale, Summary
from exactformer.experiments.engine.verdict import published
from exactformer.experiments.fang.cell import NETWORKS, SURFACE
from exactformer.experiments.fang.data import TARGETS
from exactformer.experiments.fang.figure_2 import CLIP
from exactformer.experiments.fang.names import COLOURS, ERRORS, LABELS, MODELS, TEST, TRAIN
from exactformer.experiments.fang.noise import SWEEPS, errors_by_noise, errors_by_size, limit
from exactformer.experiments.fang.outside import DEGREES, FUNCTIONS, NOISE, POINTS
from exactformer.experiments.fang.table_1 import EPOCHS, SIZES
from exactformer.figures.style import BLUE, GREY, ORANGE, list_down, subplots

_MARKERS = dict(zip(ERRORS, ("s", "o", "D"), strict=True))
_TITLES = (
    "Training error (noisy labels)",
    "Test error (clean target)",
    "Generalisation gap (noisy labels)",
)
_AXES = ("training MSE", "test MSE", "|test − training MSE|")
_HIGHEST = 2 * float(SURFACE[-1]) ** 2


def table_1(summary: Summary) -> Figure:
    """Draw errors of all models on the left, thresholds of clipping on the right."""
    figure, (left, right) = subplots(10.5, 4.2, 1, 2, width_ratios=[1.15, 1])
    _errors(left, summary)
    published = {model: summary.row(f"{LABELS[model]}, {TEST}").published for model in NETWORKS}
    clipping_panel(right, summary, SIZES[summary.scale].clip, published)
    return figure


def _errors(axes: Axes, summary: Summary) -> None:
    for place, model in enumerate(MODELS):
        for shift, error in enumerate(ERRORS):
            row = summary.row(f"{LABELS[model]}, {error}")
            height = place + 0.2 * (shift - 1)
            fill = "full" if error == TEST else "none"
            if math.isfinite(row.mean):
                below = min(row.spread or 0.0, 0.9 * row.mean)  # a logarithmic axis ends above zero
                look: Any = {"fmt": _MARKERS[error], "color": BLUE, "capsize": 2, "elinewidth": 1}
                look |= {"fillstyle": fill, "label": error if place == 0 else None}
                axes.errorbar(row.mean, height, xerr=[[below], [row.spread or 0.0]], **look)
            if row.published is not None:
                published_ring(axes, row.published, height)
    if any(row.published is not None for row in summary.rows):
        published_ring(axes, math.nan, math.nan, label="paper")
    axes.axvline(1, color=GREY, linewidth=1, linestyle="--", label="variance of the noise")
    axes.set(xscale="log", xlabel="mean squared error (mean and spread over seeds)")
    axes.set_title(f"Learning {'f₂*' if SIZES[summary.scale].target == 'f2' else 'a part of f₂*'}")
    list_down(axes, [LABELS[model] for model in MODELS])
    axes.legend(loc="best")


def figure_2(summary: Summary) -> Figure:
    """Draw five surfaces, errors in their titles, and a panel on clipping."""
    figure = Figure(figsize=(10.5, 6.8))
    for place, model in enumerate(MODELS):
        row, column = divmod(place, 3)
        box = (0.01 + 0.33 * column, 0.52 - 0.5 * row, 0.29, 0.4)
        _surface(figure.add_axes(box, projection="3d"), summary, model)
    published = {model: summary.row(f"{LABELS[model]}, {TEST}").published for model in NETWORKS}
    clipping_panel(figure.add_axes((0.745, 0.09, 0.24, 0.34)), summary, CLIP, published)
    return figure


def _surface(axes: Any, summary: Summary, model: str) -> None:
    cells = summary.select(model=model, seed=0)
    cell = next(cell for cell in cells if cell.parameters.get("clip", CLIP) == CLIP)
    x, y = np.meshgrid(SURFACE, SURFACE)
    look = {"cmap": "viridis", "vmin": 0, "vmax": _HIGHEST}
    look |= {"linewidth": 0, "rstride": 1, "cstride": 1}
    axes.plot_surface(x, y, np.array(cell.metrics["surface"]), **look)
    row = summary.row(f"{LABELS[model]}, {TEST}")
    published = "" if row.published is None else f"  (paper {_shown(row.published)})"
    axes.set_title(f"{LABELS[model]}\nMSE {_shown(row.mean)}{published}", loc="center")
    axes.set(xlabel="x₁", ylabel="x₂", zlabel="learnt f₁*", zlim=(0, _HIGHEST))
    axes.tick_params(labelsize=6, pad=0)


def _shown(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.2g}"


def figure_3(summary: Summary) -> Figure:
    """Draw three panels over the epochs: the mean over seeds within their range."""
    figure, panels = subplots(11, 4, 1, 3, sharex=True)
    for model in NETWORKS:
        curves = [cell.metrics["curve"] for cell in summary.select(model=model)]
        length = min(len(curve["epoch"]) for curve in curves)  # a diverged run ends early
        epochs = curves[0]["epoch"][:length]
        train, test, noisy = (
            np.array([curve[name][:length] for curve in curves])
            for name in ("train", "test", "test_noisy")
        )
        for axes, values in zip(panels, (train, test, np.abs(noisy - train)), strict=True):
            band(axes, epochs, values, COLOURS[model], LABELS[model])
    for axes, title, label in zip(panels, _TITLES, _AXES, strict=True):
        axes.set(xscale="log", yscale="log", xlabel="epoch", ylabel=label, title=title)
    panels[0].axhline(1, color=GREY, linewidth=1, linestyle="--", label="variance of the noise")
    _convergence(panels[0], summary)
    if summary.scale is Scale.FULL:
        known = published("fang-table-1")
        for axes, row in zip(panels, (TRAIN, TEST), strict=False):
            for model in NETWORKS:
                if value := known.get(f"{LABELS[model]}, {row}"):
                    published_ring(axes, epochs[-1], value.number, clip_on=False)
        published_ring(panels[0], np.nan, np.nan, label="paper, at the end")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return figure


def _convergence(axes: Axes, summary: Summary) -> None:
    """Mark along the bottom where the paper's rule calls a network converged, ours and published."""
    bottom = axes.get_xaxis_transform()
    for model in NETWORKS:
        row = summary.row(f"{LABELS[model]}, {EPOCHS}")
        look: Any = {"color": COLOURS[model], "transform": bottom}
        axes.plot(row.values, [0.03] * len(row.values), "|", markersize=9, **look)
        if row.published is not None:
            axes.plot(row.published, 0.03, "v", markeredgecolor=ORANGE, markersize=7, **look)
    axes.plot([], [], "|", color=GREY, markersize=9, label="converged by the paper's rule")
    if summary.scale is Scale.FULL:
        axes.plot(
            [], [], "v", color=GREY, markeredgecolor=ORANGE, markersize=7, label="the same, printed"
        )


def noise(summary: Summary) -> Figure:
    """Draw a row for each target: error against σ on the left, against n on the right."""
    figure, panels = subplots(9.5, 7, 2, 2)
    for sweep, (left, right) in zip(SWEEPS[summary.scale], panels, strict=True):
        target, most = sweep.target, sweep.sizes[-1]
        for solver in sweep.solvers:
            cells = summary.select(target=target, solver=solver)
            _line(left, cells, errors_by_noise, solver)
            _line(right, cells, errors_by_size, solver)
        for solver, terms in (("least-squares", "all terms"), ("sparse", "terms of the target")):
            look: Any = {"color": COLOURS[solver], "linewidth": 1, "label": f"σ²p/n, {terms}"}
            by_noise = [limit(target, solver, noise, most) for noise in sweep.noises]
            left.plot(sweep.noises, by_noise, "--", **look)
            by_size = [limit(target, solver, 1.0, size) for size in sweep.sizes]
            right.plot(sweep.sizes, by_size, "--", **look)
        title = f"{TARGETS[target].formula}\nn = {most:,}"
        left.set(xlabel="σ, standard deviation of the noise", title=title)
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


def outside(summary: Summary) -> Figure:
    """Draw one panel for each function."""
    degrees, points = list(DEGREES[summary.scale]), POINTS[summary.scale]["train"]
    figure, panels = subplots(10.5, 7, 2, 2, sharex=True)
    for axes, (name, (formula, _)) in zip(panels.flat, FUNCTIONS.items(), strict=True):
        fits = {"function": name, "solver": "least-squares", "degrees": degrees}
        clean = _of_degrees(summary, {**fits, "noise": 0.0})
        axes.plot(degrees, clean.mean(axis=0), color=GREY, label="best polynomial, no noise")
        noise = [NOISE**2 * comb(degree + 2, 2) / points for degree in degrees]
        axes.plot(degrees, noise, "--", color=GREY, linewidth=1, label="σ²p/n")
        for solver in ("least-squares", "sparse"):
            found = _of_degrees(summary, {**fits, "solver": solver, "noise": NOISE})
            band(axes, degrees, found, COLOURS[solver], LABELS[solver], marker="o")
        for cell in summary.select(function=name, degrees=["auto"]):
            label = "least squares, automatic degree" if cell.seed == 0 else None
            look: Any = {"markersize": 11, "color": ORANGE, "label": label}
            axes.plot(cell.metrics["degree"], cell.metrics["test"], "*", **look)
        (trained,) = summary.select(function=name, solver="sgd")
        look = {"color": COLOURS["sgd"], "label": "ATTENTION, trained"}
        axes.plot(trained.metrics["degree"], trained.metrics["test"], "s:", **look)
        axes.set(yscale="log", xlabel="degree", ylabel="test MSE, clean target")
        axes.set(title=f"{name}: {formula}", ylim=(max(noise[0] / 3, 1e-7), None))
        axes.set_xticks(range(0, degrees[-1] + 1, 4))
    panels[0, 0].legend(fontsize=7)
    return figure


def _of_degrees(summary: Summary, where: dict[str, Any]) -> Any:
    return np.array([cell.metrics["test"] for cell in summary.select(**where)])


def clipping_panel(
    axes: Axes, summary: Summary, used: float, published: Mapping[str, float | None]
) -> None:
    """Draw the clean test error of the first seed against the threshold; crosses diverged."""
    networks = summary.frame.query("seed == 0 and model in @NETWORKS").fillna({"clip": math.inf})
    found = networks.pivot(index="clip", columns="model", values="metric test")
    finite = found.to_numpy()[np.isfinite(found)]
    top = 10 ** math.ceil(math.log10(finite.max()) + 1)
    for shift, model in enumerate(NETWORKS):
        values, colour, value = found[model].to_numpy(), COLOURS[model], published.get(model)
        lost = ~np.isfinite(values)
        axes.plot(np.where(lost, np.nan, values), "o-", color=colour, label=LABELS[model])
        for place in np.flatnonzero(lost):
            axes.plot(place + 0.12 * (shift - 1), top, "x", color=colour, clip_on=False)
        if value is not None:
            axes.axhline(value, color=colour, linestyle=":", linewidth=1)
    axes.axvline(list(found.index).index(used), color=GREY, linewidth=6, alpha=0.15, zorder=0)
    axes.set(
        yscale="log",
        ylim=(finite.min() / 3, top),
        xlim=(-0.3, len(found) - 0.7),
        xlabel="largest norm of the gradient (shaded: used)",
        ylabel="test MSE, clean target",
        title="Threshold of clipping, one seed",
    )
    axes.set_xticks(range(len(found)), [f"{clip:g}".replace("inf", "none") for clip in found.index])
    handles = axes.get_legend_handles_labels()[0]
    if any(value is not None for value in published.values()):
        handles.append(axes.plot([], [], ":", color=GREY, label="paper")[0])
    handles.append(axes.plot([], [], "x", color=GREY, label="diverged")[0])
    axes.legend(
        handles=handles, ncols=2, fontsize=7, frameon=True, framealpha=0.8, edgecolor="none"
    )


def band(axes: Axes, x: Sequence[float], values: Any, colour: str, label: str, **line: Any) -> None:
    """Draw the mean over seeds, ``values`` (seeds, points), within its smallest and largest."""
    values = np.asarray(values, dtype=float)
    axes.plot(x, values.mean(axis=0), color=colour, label=label, **line)
    if len(values) > 1:
        axes.fill_between(
            x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0
        )


def published_ring(axes: Axes, x: float, y: float, **marker: Any) -> None:
    """Mark a published value."""
    options: dict[str, Any] = {"marker": "o", "markersize": 10, "fillstyle": "none"}
    options |= {"color": ORANGE, **marker}
    axes.plot([x], [y], linestyle="none", zorder=5, **options)
