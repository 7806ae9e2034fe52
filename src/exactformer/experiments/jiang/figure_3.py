"""Figure 3 of Jiang and Li: what the size of its heads does to a vision transformer.

Models with m_h = 1 … 64, alike in all else down to their first weights, are trained alike on CIFAR-10
(JPEG copy), three seeds each. The paper draws (a) the singular values of the scores, first head of the
last layer, averaged over images, and (b) the training error with the fit m^(−0.27) + 1.05. The error
here is the cross-entropy on training images as they are; of the fit a·m^(−b) + c all three are free.

How much m_h matters depends on what else a model has, so there are several regimes:

    deep               6 layers of 4 heads with feed-forward parts: attention is not the bottleneck
    one head           2 narrow layers of one head, with feed-forward parts as wide as the tokens
    attention alone    1 narrow layer of one head and nothing else: all that is not linear in a patch
                       has to come from attention, which is the bottleneck

The last two are trained on fewer images, as they are, and for long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.core.words import plural
from exactformer.experiments import (
    Cell,
    Experiment,
    Metric,
    Quantity,
    Scale,
    Summary,
    by_scale,
    rows,
)
from exactformer.experiments.jiang.power_law import PowerLaw, fit_power_law
from exactformer.experiments.jiang.vision import (
    FULL,
    configuration,
    ensemble_of,
    image_data,
    recipe,
)
from exactformer.figures.style import BLUE, GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.models.vision import VisionTransformer

DEEP, ONE_HEAD, BARE = "deep", "one head", "attention alone"
REGIMES = (DEEP, ONE_HEAD, BARE)
PUBLISHED = 0.27
AGREEMENT = 1e-4
B = "b of a·m_h^(−b) + c"

_ALONE = {"margin": 0, "mirror": False, "mix": False, "smoothing": 0.0, "drop_path": 0.0}
_ALONE |= {"weight_decay": 0.0, "heads": 1, "exact": True}
_SMALL: dict[Scale, dict[str, Any]] = by_scale(
    {**_ALONE, "epochs": 3},
    {**_ALONE, "epochs": 50, "train": 1000, "batch": 50, "rate": 3e-3},
    {**_ALONE, "width": 64, "epochs": 150, "train": 10_000, "batch": 250, "rate": 3e-3},
)
_SIZES: dict[Scale, dict[str, Any]] = by_scale(
    {"sizes": [1, 2, 4, 16], "seeds": 2, "inputs": 8, "train": 640},
    {"sizes": [1, 2, 4, 8, 16], "seeds": 2, "inputs": 16},
    {"sizes": [1, 2, 3, 4, 8, 16, 32, 64], "seeds": 3, "inputs": 32},
)
_DEEP = by_scale({"epochs": 3}, {"epochs": 3, "train": 2000}, {"epochs": 25})


def _regime(scale: Scale, name: str) -> dict[str, Any]:
    """Return what a regime changes in the full-size model."""
    if name == DEEP:
        return _DEEP[scale]
    small = _SMALL[scale]
    width = small.get("width", FULL[scale]["width"])
    layers, hidden = (2, width) if name == ONE_HEAD else (1, 0)
    return {**small, "layers": layers, "value_dim": width, "hidden": hidden}


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for each regime, with all sizes and seeds trained together."""
    return [
        {
            "regime": regime,
            **FULL[scale],
            **_SIZES[scale],
            **_regime(scale, regime),
            "head_dim": max(_SIZES[scale]["sizes"]),
            "seed": 0,
        }
        for regime in REGIMES
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Train the models of a regime as one ensemble and look at the last layer of each.

    Every metric is a list by head size of lists by seed.
    """
    from exactformer.experiments.models.vision import score, train_vision
    from exactformer.experiments.models.vision.model import normalised

    sizes, seeds = parameters["sizes"], parameters["seeds"]
    members = [
        configuration(parameters, head_dim=m, seed=seed) for m in sizes for seed in range(seeds)
    ]
    data = image_data(parameters, device)
    ensemble = ensemble_of(members, device, exact=parameters.get("exact", False))
    history = train_vision(ensemble, data.train, data.train_labels, recipe(parameters, seed=0))
    train = score(ensemble, data.train, data.train_labels)
    test = score(ensemble, data.test, data.test_labels)
    inputs = normalised(data.test[: parameters["inputs"]]).cpu()
    looked = [last_layer(ensemble.member(k).cpu(), inputs) for k in range(ensemble.models)]

    def by_size(values: list[Any]) -> list[list[Any]]:
        return [values[k : k + seeds] for k in range(0, len(values), seeds)]

    return {
        "train loss": by_size(train.loss),
        "train accuracy": by_size(train.accuracy),
        "test loss": by_size(test.loss),
        "test accuracy": by_size(test.accuracy),
        "spectra": by_size([found["mean"] for found in looked]),
        "effective rank": by_size([found["effective rank"] for found in looked]),
        "all effective ranks": by_size([found["all"] for found in looked]),
        "agreement": max(found["agreement"] for found in looked),
        "diverged": sum(history.diverged),
        "curve": [by_size(losses) for losses in history.losses],
        "parameters": [configuration(parameters, head_dim=m).parameters for m in sizes],
        "seconds": history.seconds,
        "steps": history.steps,
    }


def last_layer(model: VisionTransformer, inputs: Any) -> dict[str, Any]:
    """Return the mean spectrum of the first head of the last layer, and effective ranks of all."""
    from exactformer.spectra import spectrum

    found = spectrum(model, inputs, device="cpu", progress=False)
    last = found.layers[-1]
    return {
        "mean": last.mean[0].tolist(),
        "effective rank": float(last.effective_rank[0]),
        "all": [float(layer.effective_rank.mean()) for layer in found.layers],
        "agreement": found.agreement,
    }


Curve = dict[int, list[float]]


def curve(cell: Cell, metric: str = "train loss") -> Curve:
    """Return the values of all seeds by head size."""
    return dict(zip(cell.parameters["sizes"], cell.metrics[metric], strict=True))


def law(cell: Cell) -> PowerLaw:
    """Return the fit to the training errors of a regime."""
    return fit_power_law(curve(cell))


def distances(cell: Cell) -> dict[tuple[int, int], list[float]]:
    """Return how far spectra of neighbouring sizes are apart, seed by seed.

    ½ Σ |p_k − p'_k| with p_k = σ_k/Σσ: 0 for equal shapes, 1 at most.
    """
    spectra = dict(zip(cell.parameters["sizes"], cell.metrics["spectra"], strict=True))
    return {
        (low, high): [apart(*pair) for pair in zip(spectra[low], spectra[high], strict=True)]
        for low, high in pairwise(spectra)
    }


def between_seeds(cell: Cell) -> list[float]:
    """Return the same distance for models of the largest size that differ in the seed alone."""
    largest = cell.metrics["spectra"][-1]
    return [apart(one, two) for place, one in enumerate(largest) for two in largest[place + 1 :]]


def apart(one: Sequence[float], two: Sequence[float]) -> float:
    """Return the distance of two spectra in shape."""
    shapes = []
    for values in (one, two):
        padded = [*values, *[0.0] * (max(len(one), len(two)) - len(values))]
        shapes.append([value / sum(values) for value in padded])
    return float(sum(abs(p - q) for p, q in zip(*shapes, strict=True)) / 2)


def _b(cell: Cell) -> float:
    found = law(cell)
    return nan if found.verdict in ("flat", "rising") else found.b


def _table(sizes: Sequence[int]) -> dict[str, tuple[Metric, float]]:
    """Return the rows of one regime: what is read off its one cell, and how far that may drift."""

    def at(metric: str, m: int) -> Metric:
        return lambda cells: curve(cells[0], metric)[m]

    def between(low: int, high: int) -> Metric:
        return lambda cells: distances(*cells)[low, high]

    return {
        **{f"training error, m_h = {m}": (at("train loss", m), 0.2) for m in sizes},
        **{
            f"test accuracy, m_h = {m}": (at("test accuracy", m), 0.1)
            for m in (sizes[0], sizes[-1])
        },
        B: (lambda cells: _b(*cells), inf),
        "b, from (95 %)": (lambda cells: law(*cells).interval[0], inf),
        "b, to (95 %)": (lambda cells: law(*cells).interval[1], inf),
        "a": (lambda cells: law(*cells).a, inf),
        "c": (lambda cells: law(*cells).c, 0.2),
        "share of the variance between sizes explained": (lambda c: law(*c).explained, inf),
        "chance of such a curve if size did not matter": (lambda c: law(*c).flat, inf),
        "chance of missing the means so far if the law held": (lambda c: law(*c).bent, inf),
        **{
            f"distance of spectra, m_h = {low} and {high}": (between(low, high), 0.5)
            for low, high in pairwise(sizes)
        },
        f"distance of spectra between seeds, m_h = {sizes[-1]}": (
            lambda cells: between_seeds(*cells),
            0.5,
        ),
    }


def quantities(scale: Scale) -> list[Quantity]:
    """Return errors at the ends, the fit, and how far neighbouring spectra are apart."""
    fitted = f"{BARE}: {B}"
    return rows(
        "{regime}: {row}",
        _table(_SIZES[scale]["sizes"]),
        {"regime": REGIMES},
        note={fitted: "The paper has 0.27, with a = 1 and no interval."},
    )


_FAINT = 1e-4
"""Shares of σ₁ below this are not drawn."""


def draw(summary: Summary) -> Figure:
    """Draw one row for each regime: spectra on the left, training error on the right."""
    figure, panels = subplots(10.5, 3.9 * len(REGIMES), len(REGIMES), 2, squeeze=False)
    for regime, (left, right) in zip(REGIMES, panels, strict=True):
        cell = summary.cell(regime=regime)
        _spectra(left, cell)
        _errors(right, cell)
    return figure


def _described(cell: Cell) -> str:
    p = cell.parameters
    heads = "one head" if p["heads"] == 1 else f"{p['heads']} heads"
    rest = "with feed-forward" if p["hidden"] else "no feed-forward"
    return f"{plural(p['layers'], 'layer')}, {heads}, {rest}"


def _spectra(axes: Axes, cell: Cell) -> None:
    import matplotlib

    sizes = cell.parameters["sizes"]
    colours = matplotlib.colormaps["viridis"](np.linspace(0.92, 0.05, len(sizes)))
    for m, colour, spectra in zip(sizes, colours, cell.metrics["spectra"], strict=True):
        for place, values in enumerate(spectra):
            share = np.array(values) / values[0]
            share = np.where(share > _FAINT, share, np.nan)
            label = f"{m}" if place == 0 else None
            k = np.arange(1, len(values) + 1)
            axes.plot(k, share, color=colour, lw=1.2, marker="." if m < 4 else None, label=label)
    axes.set(xscale="log", yscale="log", xlabel="k", ylabel="mean σ$_k$ / mean σ$_1$")
    axes.set_title(
        f"{cell.parameters['regime']}: spectra, first head of the last layer", fontsize=9
    )
    axes.legend(title="head size $m_h$", fontsize=8, title_fontsize=8, ncols=2, loc="lower left")


def _errors(axes: Axes, cell: Cell) -> None:
    errors, found = curve(cell), law(cell)
    sizes = np.array(list(errors), dtype=np.float64)
    means = np.array([np.mean(values) for values in errors.values()])
    for size, values in errors.items():
        axes.plot([size] * len(values), values, "_", color=BLUE, ms=9, mew=1.2)
    axes.plot(sizes, means, "o", color=BLUE, ms=4.5, label="mean of the seeds")
    m = np.geomspace(sizes[0], sizes[-1])
    if found.verdict == "flat":
        label = "flat within the spread of seeds: no power law"
        axes.axhline(float(np.mean(means)), color=GREY, ls="--", lw=1.2, label=label)
    else:
        low, high = found.interval
        reach = f"{low:.2f} to {'∞' if np.isinf(high) else f'{high:.2f}'}"
        name = {"bent": "misses the means", "rising": "rises"}.get(found.verdict, "power law")
        label = f"{found.a:.2g}·$m_h^{{-{found.b:.2f}}}$ + {found.c:.3g}  (b: {reach}; {name})"
        axes.plot(m, found(m), color=ORANGE, lw=1.5, label=label)
        a, c = np.polyfit(sizes**-PUBLISHED, means, 1)
        label = f"b = {PUBLISHED}, as the paper's"
        axes.plot(m, a * m**-PUBLISHED + c, ":", color=GREY, lw=1.3, label=label)
    axes.set(xscale="log", xlabel="head size $m_h$", ylabel="training error (cross-entropy)")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.minorticks_off()
    axes.set_title(f"{cell.parameters['regime']}: {_described(cell)}", fontsize=9)
    axes.legend(fontsize=8)


EXPERIMENT = Experiment(
    name="jiang-figure-3",
    title="Head size of vision transformers: spectra and training error",
    claim="Spectra converge as heads grow, and the training error falls as a power of the head size.",
    source="Jiang and Li 2023, figure 3 and section 5.2",
    cells=cells,
    run=run,
    quantities=quantities,
    figure=draw,
)


@EXPERIMENT.states(
    "no model diverges, and the scores extracted from each give its own attention within 1e-4",
)
def _(summary: Summary) -> bool:
    return summary.every("", "diverged == 0 and agreement <= @AGREEMENT")


@EXPERIMENT.states(
    "beyond smoke scale, attention alone: with m_h = 1 every seed ends with a larger training "
    "error than any with the largest head"
)
def _(summary: Summary) -> bool | None:
    errors = list(curve(summary.cell(regime=BARE)).values())
    return None if summary.scale is Scale.SMOKE else min(errors[0]) > max(errors[-1])


@EXPERIMENT.states(
    "beyond smoke scale, a head of size 1 costs more training error where attention is alone "
    "than in the deep model",
)
def _(summary: Summary) -> bool | None:
    largest = max(_SIZES[summary.scale]["sizes"])
    deep, bare = (
        summary[f"{regime}: training error, m_h = 1"]
        - summary[f"{regime}: training error, m_h = {largest}"]
        for regime in (DEEP, BARE)
    )
    return None if summary.scale is Scale.SMOKE else bare > deep


@EXPERIMENT.states(
    "beyond smoke scale, spectra of the two largest sizes are closer in shape than those of "
    "the two smallest"
)
def _(summary: Summary) -> bool | None:
    if summary.scale is Scale.SMOKE:
        return None
    return all(
        sum(found[-1]) < sum(found[0])
        for regime in REGIMES
        if (found := list(distances(summary.cell(regime=regime)).values()))
    )


@EXPERIMENT.states(
    "beyond smoke scale, in some regime a power law fits and its interval holds 0.27"
)
def _(summary: Summary) -> bool | None:
    if summary.scale is Scale.SMOKE:
        return None
    laws = [law(summary.cell(regime=regime)) for regime in REGIMES]
    return any(
        one.verdict not in ("flat", "bent", "rising")
        and one.interval[0] <= PUBLISHED <= one.interval[1]
        for one in laws
    )
