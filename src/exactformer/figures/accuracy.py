"""How exact a compiled model is, in one picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core.domain import points_in_ball
from exactformer.core.words import at_least, at_most, plural
from exactformer.figures.style import BLUE, GREEN, GREY, ORANGE, diverging, exactformer_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.algebra import Polynomial
    from exactformer.polynomials.model import PolynomialModel


_COLOURS = {"literal": BLUE, "fused": GREEN}
_WORDS = {"literal": "every matrix carried out", "fused": "its proven closed form"}


def accuracy_figure(
    model: PolynomialModel, polynomial: Polynomial, errors: Mapping[str, NDArray[Any]], title: str
) -> Figure:
    """Draw model against polynomial, errors against their bounds, and one attention.

    ``errors`` holds |computed − exact| at random points, by executor.
    """
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


def _subtitle(model: PolynomialModel) -> str:
    blueprint, counts = model.blueprint, model.blueprint.counts()
    return (
        f"{plural(blueprint.tokens, 'token')}, {plural(blueprint.depth, 'attention block')}, "
        f"{plural(counts.free, 'free parameter')}; in exact arithmetic the error is zero on "
        f"the whole ball ‖x‖ ≤ {at_least(float(blueprint.radius), 6)}"
    )


def _along_a_circle(
    path: Axes, residual: Axes, model: PolynomialModel, polynomial: Polynomial
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


def _distribution(axes: Axes, model: PolynomialModel, errors: Mapping[str, NDArray[Any]]) -> None:
    """Observed errors, and the lines that none of them can cross."""
    bounds = {name: model.certificate.bound(model.dtype, name) for name in errors}
    if not all(bounds.values()):
        axes.set_axis_off()
        axes.text(0, 0.5, "no rounding error: certified to be zero", transform=axes.transAxes)
        return
    seen = {name: values[values > 0] for name, values in errors.items()}
    lows = [float(np.quantile(values, 0.002)) for values in seen.values() if len(values)]
    highest = max(bounds.values())
    low = max(min(lows, default=0.0), 1e-7 * highest)
    bins = np.geomspace(low, highest, 110).tolist()
    for name, values in seen.items():
        axes.hist(
            values, bins=bins, color=_COLOURS[name], alpha=0.75,
            label=f"{_WORDS[name]}: largest {scientific(float(errors[name].max()))}",
        )  # fmt: skip
        axes.axvline(
            bounds[name], color=_COLOURS[name], linewidth=2,
            label=f"certified bound {scientific(float(at_most(bounds[name])))}, never passed",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(low, highest * 2)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.5)
    axes.legend(loc="upper left", fontsize=8.5, labelspacing=0.55)
    count = len(next(iter(errors.values())))
    axes.set_title(f"Rounding error at {count:,} random points")
    axes.set_xlabel(f"|transformer − polynomial|, {str(model.dtype).removeprefix('torch.')}")
    axes.set_ylabel("points a bin")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="x", visible=False)


def scientific(value: float) -> str:
    """Return a number as matplotlib sets it: 1.04×10⁻¹¹."""
    digits, exponent = f"{value:.2e}".split("e")
    return rf"${digits} \times 10^{{{int(exponent)}}}$"


def _attention(figure: Figure, axes: Axes, model: PolynomialModel) -> None:
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


def _lively_point(model: PolynomialModel) -> NDArray[Any]:
    """Return the point of a sample whose tokens have the largest features."""
    blueprint = model.blueprint
    sample = points_in_ball(512, len(blueprint.variables), float(blueprint.radius), seed=1)
    features = np.abs(sample @ blueprint.embedding.features.floats().T)
    return np.asarray(sample[np.argmax(np.sqrt(features).sum(axis=1))])
