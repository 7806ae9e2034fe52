"""How exact a compiled model is, in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.figures.architecture import dense
from exactformer.figures.sampling import points_in_ball
from exactformer.figures.style import BLUE, GREY, INK, ORANGE, diverging, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.algebra import Polynomial
    from exactformer.model import CompiledModel


def accuracy_figure(
    model: CompiledModel, polynomial: Polynomial, errors: NDArray[Any], title: str
) -> Figure:
    """Draw model against polynomial, observed ``errors`` against the bound, and one attention."""
    from matplotlib.figure import Figure

    with exactformer_style():
        figure = Figure(figsize=(13, 4.9))
        grid = figure.add_gridspec(
            2, 3, width_ratios=(1.25, 1.1, 0.85), height_ratios=(2.2, 1),
            left=0.062, right=0.975, top=0.80, bottom=0.125, wspace=0.27, hspace=0.14,
        )  # fmt: skip
        figure.text(0.022, 0.93, title, fontsize=15, fontweight="bold")
        figure.text(0.022, 0.885, _subtitle(model), color=GREY)
        path, residual = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
        _along_a_circle(path, residual, model, polynomial)
        _distribution(figure.add_subplot(grid[:, 1]), model, errors)
        _attention(figure, figure.add_subplot(grid[:, 2]), model)
    return figure


def _subtitle(model: CompiledModel) -> str:
    blueprint, counts = model.blueprint, model.blueprint.counts()
    return (
        f"{blueprint.tokens} tokens, {blueprint.depth} attention blocks, {counts.free} free "
        f"parameters; in exact arithmetic the error is zero on the whole ball "
        f"‖x‖ ≤ {float(blueprint.radius):g}"
    )


def _along_a_circle(
    path: Axes, residual: Axes, model: CompiledModel, polynomial: Polynomial
) -> None:
    """Both functions on a great circle of the sphere; below, what is left between them."""
    degrees = np.linspace(0, 360, 721)
    points = _circle(polynomial, float(model.blueprint.radius), np.radians(degrees))
    computed = model(points).numpy()
    exact = polynomial.evaluate(points.astype(np.longdouble))

    path.plot(
        degrees, exact.astype(float), color=ORANGE, linewidth=6, alpha=0.4, label="polynomial"
    )
    path.plot(degrees, computed, color=BLUE, linewidth=1.4, label="transformer")
    path.set_title("The polynomial and its transformer")
    path.set_ylabel("value")
    path.tick_params(labelbottom=False)
    path.set(xlim=(0, 360), xticks=range(0, 361, 90))
    path.legend(loc="best")

    difference = (computed - exact).astype(float)
    largest = max(float(np.abs(difference).max()), np.finfo(float).tiny)
    exponent = int(np.floor(np.log10(largest)))
    residual.plot(degrees, difference * 10.0**-exponent, color=BLUE, linewidth=0.7)
    reach = 1.3 * largest * 10.0**-exponent
    residual.set(xlim=(0, 360), xticks=range(0, 361, 90), ylim=(-reach, reach))
    residual.set_xlabel("angle on a great circle of the ball (degrees)")
    residual.set_ylabel(f"difference ($10^{{{exponent}}}$)")


def _circle(polynomial: Polynomial, radius: float, angle: NDArray[Any]) -> NDArray[Any]:
    """Return points of the great circle through a highest and a lowest value of a sample."""
    d = polynomial.dimension
    sample = points_in_ball(4096, d, 1.0)
    sample /= np.linalg.norm(sample, axis=1, keepdims=True)
    values = polynomial.evaluate(radius * sample)
    first, second = sample[np.argmax(values)], sample[np.argmin(values)]
    across = second - (second @ first) * first
    across /= np.linalg.norm(across) or 1.0
    points = np.outer(np.cos(angle), first) + np.outer(np.sin(angle), across)
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(radius * points / np.maximum(norms, 1))


def _distribution(axes: Axes, model: CompiledModel, errors: NDArray[Any]) -> None:
    """Observed errors, and the line that none of them can cross."""
    bound = model.certificate.bound(model.dtype)
    if bound == 0:
        axes.set_axis_off()
        axes.text(0, 0.5, "no rounding error: certified to be zero", transform=axes.transAxes)
        return
    seen = errors[errors > 0]
    largest = float(seen.max()) if len(seen) else bound / 10
    low = max(float(np.quantile(seen, 0.001)), largest * 1e-6) if len(seen) else bound * 1e-4
    bins = np.geomspace(low, max(largest, low * 10), 70)
    axes.hist(seen[seen >= low], bins=bins.tolist(), color=BLUE, alpha=0.85)
    axes.set_xscale("log")
    axes.set_xlim(low, bound * 2.5)
    top = axes.get_ylim()[1] * 1.2
    axes.set_ylim(0, top)
    axes.axvspan(bound, bound * 2.5, color=ORANGE, alpha=0.12, linewidth=0)
    axes.axvline(bound, color=ORANGE, linewidth=2)
    axes.text(
        0.03, 0.97, f"certified bound {scientific(bound)}\nno point of the ball can pass it",
        color=ORANGE, ha="left", va="top", fontweight="bold", transform=axes.transAxes,
        linespacing=1.5,
    )  # fmt: skip
    if len(seen):
        _gap(axes, largest, bound, top)
    axes.set_title(f"Rounding error at {len(errors):,} random points")
    axes.set_xlabel(f"|transformer − polynomial|, {str(model.dtype).removeprefix('torch.')}")
    axes.set_ylabel("points a bin")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="x", visible=False)


def _gap(axes: Axes, largest: float, bound: float, top: float) -> None:
    """Mark the largest error seen and how far the bound lies above it."""
    axes.plot([largest] * 2, [0, 0.42 * top], color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(
        "", (bound, 0.3 * top), (largest, 0.3 * top),
        arrowprops={"arrowstyle": "<->", "color": INK, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
    )  # fmt: skip
    middle = float(np.sqrt(largest * bound))
    axes.text(middle, 0.31 * top, f"{bound / largest:.0f}×", ha="center", va="bottom", fontsize=9)
    axes.text(
        largest * 1.15, 0.385 * top, f"largest seen\n{scientific(largest)}", va="bottom",
        fontsize=8, linespacing=1.4,
    )  # fmt: skip


def scientific(value: float) -> str:
    """Return a number as matplotlib sets it: 1.04×10⁻¹¹."""
    digits, exponent = f"{value:.2e}".split("e")
    return rf"${digits} \times 10^{{{int(exponent)}}}$"


def _attention(figure: Figure, axes: Axes, model: CompiledModel) -> None:
    """The scores of the first block at one input: each token's largest is its own."""
    axes.grid(False)
    if not model.blueprint.depth:
        axes.set_axis_off()
        axes.text(0, 0.5, "a linear function needs no attention", transform=axes.transAxes)
        return
    from matplotlib.colors import SymLogNorm

    trace = model.trace(_lively_point(model))
    scores = next(trace[name] for name in trace if name.endswith("scores")).numpy()
    n, scale = len(scores), float(np.abs(scores).max())
    mesh = axes.pcolormesh(
        scores, cmap=diverging(), norm=SymLogNorm(0.2, vmin=-scale, vmax=scale),
        edgecolors="white", linewidth=0.8 if n <= 40 else 0, rasterized=n > 40,
    )  # fmt: skip
    axes.plot(
        scores.argmax(axis=1) + 0.5, np.arange(n) + 0.5, "o", fillstyle="none", color="white",
        markersize=min(9, 90 / n), markeredgewidth=1.2,
    )  # fmt: skip
    axes.set(xlim=(0, n), ylim=(n, 0), aspect="equal")
    ticks = np.arange(0, n, max(1, n // 11))
    axes.set_xticks(ticks + 0.5, ticks + 1)
    axes.set_yticks(ticks + 0.5, ticks + 1)
    axes.tick_params(length=0)
    axes.set_title("Attention of block 1 at one input")
    axes.set_xlabel("key: token")
    axes.set_ylabel("query: token")
    bar = figure.colorbar(mesh, ax=axes, orientation="horizontal", fraction=0.045, pad=0.13)
    levels = [v for v in (-3, -1, -0.3, 0, 0.3, 1, 3) if abs(v) <= scale]
    bar.set_ticks(levels, labels=[f"{v:g}" for v in levels])
    bar.minorticks_off()
    bar.set_label("score; ring: what the token selects")
    bar.outline.set_visible(False)


def _lively_point(model: CompiledModel) -> NDArray[Any]:
    """Return the point of a sample whose tokens have the largest features."""
    blueprint = model.blueprint
    sample = points_in_ball(512, len(blueprint.variables), float(blueprint.radius), seed=1)
    features = np.abs(sample @ dense(blueprint.embedding.features).T)
    return np.asarray(sample[np.argmax(np.sqrt(features).sum(axis=1))])
