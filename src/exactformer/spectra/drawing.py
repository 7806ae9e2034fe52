"""Figures of spectra: the violin of figure 2, the decay of figure 3(a), and what every head needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError
from exactformer.figures.style import BLUE, GREY, ORANGE, PALE, exactformer_style, subplots
from exactformer.spectra.layers import LayerSpectrum
from exactformer.theory.decay import STRAIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.spectra.result import Spectrum

_MOST_VIOLINS = 64


def draw(spectrum: Spectrum, which: str | int, head: int, kind: str) -> Figure:
    """Draw a head's spectrum, or what all heads need."""
    layer = spectrum.layer(which)
    if not 0 <= head < layer.heads:
        raise InputError(f"head {head}: {layer.name!r} has {layer.heads}, counted from 0")
    with exactformer_style():
        if kind == "needed":
            figure, axes = subplots(6.4, 1.6 + 0.22 * len(spectrum.layers))
            _needed(axes, spectrum)
        elif kind == "both":
            figure, (left, right) = subplots(10, 3.8, 1, 2)
            _violin(left, layer, head)
            _decay(right, spectrum, layer, head)
        elif kind in ("violin", "decay"):
            figure, axes = subplots(5.6, 3.8)
            if kind == "violin":
                _violin(axes, layer, head)
            else:
                _decay(axes, spectrum, layer, head)
        else:
            raise InputError(f"kind {kind!r}: choose both, violin, decay or needed")
    return figure


def _violin(axes: Axes, layer: LayerSpectrum, head: int) -> None:
    """One violin for each k, over inputs, of log σ_k where it can be told from zero."""
    floor = float(layer.resolution[head])
    shown = min(layer.head_dim, _MOST_VIOLINS)
    violins(axes, layer.samples[:, head, :shown].astype(np.float64), floor)
    means = layer.mean[head, :shown]
    seen = means > floor
    axes.plot(np.arange(1, shown + 1)[seen], np.log10(means[seen]), ".", color=ORANGE, ms=4)
    label_powers(axes)
    axes.set_title(f"{layer.name}, head {head}: {len(layer.samples)} inputs", fontsize=9)


def violins(axes: Axes, samples: NDArray[Any], floor: float, points: int = 100) -> None:
    """Draw one violin for each k of log σ_k, samples (n, k), where values are above the floor."""
    above = {k: values[values > floor] for k, values in enumerate(samples.T, start=1)}
    parts = {k: np.log10(seen) for k, seen in above.items() if len(seen) > 1 and np.ptp(seen) > 0}
    if parts:
        look: Any = {"widths": 0.9, "showextrema": False, "points": points}
        bodies: Any = axes.violinplot(list(parts.values()), list(parts), **look)
        for body in bodies["bodies"]:
            body.set(facecolor=BLUE, alpha=0.55, edgecolor="none")


def label_powers(axes: Axes) -> None:
    """Label the logarithms of singular values by the powers of ten that they are."""
    low, high = (int(f(v)) for f, v in zip((np.floor, np.ceil), axes.get_ylim(), strict=True))
    ticks = range(low, high + 1, max(1, (high - low) // 5))
    axes.set_yticks(list(ticks), [f"$10^{{{t}}}$" for t in ticks])
    axes.set(xlabel="k", ylabel="σ$_k$ of the scores")


def _decay(axes: Axes, spectrum: Spectrum, layer: LayerSpectrum, head: int) -> None:
    """The mean spectra of a layer's heads, one of them marked; its power law and the control."""
    k = np.arange(1, layer.head_dim + 1)
    for other in range(layer.heads):
        _line(axes, layer, other, color=PALE, lw=1, label="other heads" if other == 0 else None)
    _line(axes, layer, head, color=BLUE, lw=2, label=f"head {head}")
    if spectrum.control is not None:
        place = [one.name for one in spectrum.layers].index(layer.name)
        control = spectrum.control.layers[place]
        _line(axes, control, head, color=GREY, lw=1.5, ls="--", label="control")
    law = layer.decay(head).power
    if law is not None and layer.fitted == "mean" and law.explained >= STRAIGHT:
        label = f"k$^{{-{law.rate:.2f}}}$"
        axes.plot(k, law.constant * k**-law.rate, ":", color=ORANGE, lw=1.2, label=label)
    axes.set(xscale="log", yscale="log", xlabel="k", ylabel="mean σ$_k$ over inputs")
    axes.set_title(f"{layer.name}: decay", fontsize=9)
    axes.legend(fontsize=8)


def _line(axes: Axes, layer: LayerSpectrum, head: int, **look: Any) -> None:
    values = np.where(layer.mean[head] > layer.resolution[head], layer.mean[head], np.nan)
    axes.plot(np.arange(1, layer.head_dim + 1), values, **look)


def _needed(axes: Axes, spectrum: Spectrum) -> None:
    """A cell for each layer and head: the dimension that keeps 99.9 % with one basis for all inputs."""
    most = max(layer.heads for layer in spectrum.layers)
    cells = np.full((len(spectrum.layers), most), np.nan)
    for place, layer in enumerate(spectrum.layers):
        cells[place, : layer.heads] = [layer.shared(h, 0.999) for h in range(layer.heads)]
    size = max(layer.head_dim for layer in spectrum.layers)
    image = axes.imshow(cells, cmap="Blues", vmin=0, vmax=size, aspect="auto")
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            colour = "white" if value > 0.6 * size else "black"
            axes.text(
                column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=7
            )
    axes.set_yticks(range(len(cells)), [layer.name for layer in spectrum.layers], fontsize=7)
    axes.set(xlabel="head")
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label="head dimension for 99.9 %")
