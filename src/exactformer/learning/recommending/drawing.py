"""A recommendation as a picture: what stays unexplained, the memory kernel, the spectra."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactformer.figures.style import BLUE, GREY, INK, ORANGE, exactformer_style, subplots
from exactformer.learning.recommending.comparison import FAMILIES, RNN, TRANSFORMER
from exactformer.learning.recommending.description import headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.learning.recommending.recommend import Recommendation

_PREFIX = "explained: "
_LEAST = 1e-6
"""Shares below this are drawn at it."""
_FEW_CHANNELS = 4


def draw(recommendation: Recommendation) -> Figure:
    """Draw the three panels."""
    with exactformer_style():
        figure, (errors, memory, spectra) = subplots(13, 4, 1, 3, width_ratios=(1.3, 1, 1))
        _unexplained(errors, recommendation)
        _kernel(memory, recommendation)
        _spectra(spectra, recommendation)
        answer = recommendation.verdict, recommendation.reason, recommendation.confidence
        figure.suptitle(headline(*answer))
    return figure


def _unexplained(axes: Axes, recommendation: Recommendation) -> None:
    """Draw 1 − share explained for every model, on a logarithmic axis, with its interval."""
    found = [one for one in recommendation.evidence if one.name.startswith(_PREFIX)]
    names = [one.name.removeprefix(_PREFIX) for one in found]
    for row, (name, one) in enumerate(zip(names, found, strict=True)):
        value, low, high = (max(1 - share, _LEAST) for share in (one.value, one.high, one.low))
        colour = _colour(name)
        size = 9 if name in FAMILIES else 5
        axes.plot([low, high], [row, row], color=colour, lw=1.5)
        axes.plot(value, row, "s" if name in FAMILIES else "o", color=colour, markersize=size)
    axes.set_yticks(range(len(names)), names)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set_color(_colour(name))
        label.set_fontweight("bold" if name in FAMILIES else "normal")
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color=GREY, lw=0.8, ls=":")
    axes.set(xlabel="share of the held-out variance left unexplained", title="Errors")


def _colour(name: str) -> str:
    rnn, transformer = (name == family or name in FAMILIES[family] for family in (RNN, TRANSFORMER))
    if rnn == transformer:
        return INK
    return BLUE if transformer else ORANGE


def _kernel(axes: Axes, recommendation: Recommendation) -> None:
    """Draw κ(s) by channel, or its size where channels are many."""
    from matplotlib.ticker import MaxNLocator

    length, d, k = recommendation.kernel.shape
    kernel = recommendation.kernel.reshape(length, d * k)
    error = recommendation.kernel_error.reshape(length, d * k)
    if d * k > _FEW_CHANNELS:
        kernel, error = (np.linalg.norm(part, axis=1, keepdims=True) for part in (kernel, error))
    lags = np.arange(length)
    for channel in range(kernel.shape[1]):
        middle, half = kernel[:, channel], 2 * error[:, channel]
        (line,) = axes.plot(lags, middle, "o-", markersize=3, lw=1)
        low = middle - half if d * k <= _FEW_CHANNELS else np.maximum(middle - half, 0)
        axes.fill_between(lags, low, middle + half, color=line.get_color(), alpha=0.2)
    axes.axhline(0, color=GREY, lw=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    size = "size of κ(s), all channels" if d * k > _FEW_CHANNELS else "κ(s), ± 2 standard errors"
    axes.set(xlabel="lag s, tokens", ylabel=size, title="Memory: time-invariant linear map")


def _spectra(axes: Axes, recommendation: Recommendation) -> None:
    """Draw the singular values of score and Hankel matrix, each over its first."""
    from matplotlib.ticker import MaxNLocator

    spectra = (
        ("score ρ", recommendation.singular_values, BLUE),
        ("Hankel matrix of κ", recommendation.hankel, ORANGE),
    )
    for label, values, colour in spectra:
        if len(values) and values[0] > 0:
            relative = values / values[0]
            shown = relative[: max(1, int((relative > _LEAST).sum()))]
            axes.plot(
                np.arange(1, len(shown) + 1), shown, "o-", color=colour, label=label,
                markersize=4, lw=1,
            )  # fmt: skip
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="k", ylabel=r"$\sigma_k / \sigma_1$", title="Spectra")
    axes.legend()
