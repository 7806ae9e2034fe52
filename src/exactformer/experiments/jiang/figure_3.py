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

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.jiang.power_law import PowerLaw, fit_power_law
from exactformer.experiments.jiang.vision import FULL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.cell import Cell
    from exactformer.experiments.engine.summary import Summary

DEEP, ONE_HEAD, BARE = "deep", "one head", "attention alone"
REGIMES = (DEEP, ONE_HEAD, BARE)
PRINTED = 0.27
AGREEMENT = 1e-4
B = "b of a·m_h^(−b) + c"
_PRINT: dict[str, Any] = {
    "printed": PRINTED,
    "place": "figure 3(b)",
    "note": "The paper set a = 1 and gave no interval.",
}

_ALONE = {
    "margin": 0, "mirror": False, "mix": False, "smoothing": 0.0, "drop_path": 0.0,
    "weight_decay": 0.0, "heads": 1, "exact": True,
}  # fmt: skip
_SMALL: dict[Scale, dict[str, Any]] = {
    Scale.SMOKE: {**_ALONE, "epochs": 3},
    Scale.DEFAULT: {**_ALONE, "epochs": 50, "train": 1000, "batch": 50, "rate": 3e-3},
    Scale.PAPER: {
        **_ALONE, "width": 64, "epochs": 150, "train": 10_000, "batch": 250, "rate": 3e-3,
    },
}  # fmt: skip
_SIZES: dict[Scale, dict[str, Any]] = {
    Scale.SMOKE: {"sizes": [1, 2, 4, 16], "seeds": 2, "inputs": 8, "train": 640},
    Scale.DEFAULT: {"sizes": [1, 2, 4, 8, 16], "seeds": 2, "inputs": 16},
    Scale.PAPER: {"sizes": [1, 2, 3, 4, 8, 16, 32, 64], "seeds": 3, "inputs": 32},
}
_DEEP: dict[Scale, dict[str, Any]] = {
    Scale.SMOKE: {"epochs": 3},
    Scale.DEFAULT: {"epochs": 3, "train": 2000},
    Scale.PAPER: {"epochs": 25},
}


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
    """Train the models of a regime and look at the last layer of each."""
    from exactformer.experiments.jiang.figure_3_training import learn

    return learn(parameters, device)


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


def _at(metric: str, m: int) -> Callable[[Cell], list[float]]:
    return lambda cell: curve(cell, metric)[m]


def _between(low: int, high: int) -> Callable[[Cell], list[float]]:
    return lambda cell: distances(cell)[low, high]


def _b(cell: Cell) -> float:
    found = law(cell)
    return float("nan") if found.verdict in ("flat", "rising") else found.b


def quantities(scale: Scale) -> list[Quantity]:
    """Errors at the ends, the fit, and how far neighbouring spectra are apart."""
    sizes, rows = _SIZES[scale]["sizes"], []

    def row(
        regime: str, label: str, value: Callable[[Cell], Any], drift: float, **more: Any
    ) -> None:
        where = {"regime": regime}
        name = f"{regime}: {label}"
        rows.append(Quantity(name, lambda cells: value(cells[0]), where, drift=drift, **more))

    for regime in REGIMES:
        for m in sizes:
            row(regime, f"training error, m_h = {m}", _at("train loss", m), 0.2)
        for m in (sizes[0], sizes[-1]):
            label = f"test accuracy, m_h = {m}"
            row(regime, label, _at("test accuracy", m), 0.1)
        row(regime, B, _b, float("inf"), **(_PRINT if regime == BARE else {}))
        row(regime, "b, from (95 %)", lambda c: law(c).interval[0], float("inf"))
        row(regime, "b, to (95 %)", lambda c: law(c).interval[1], float("inf"))
        row(regime, "a", lambda c: law(c).a, float("inf"))
        row(regime, "c", lambda c: law(c).c, 0.2)
        row(regime, "share of the variance between sizes explained", _explained, float("inf"))
        row(regime, "chance of such a curve if size did not matter", _flat, float("inf"))
        row(regime, "chance of missing the means so far if the law held", _bent, float("inf"))
        for low, high in pairwise(sizes):
            label = f"distance of spectra, m_h = {low} and {high}"
            row(regime, label, _between(low, high), 0.5)
        row(regime, f"distance of spectra between seeds, m_h = {sizes[-1]}", between_seeds, 0.5)
    return rows


def _explained(cell: Cell) -> float:
    return law(cell).explained


def _flat(cell: Cell) -> float:
    return law(cell).flat


def _bent(cell: Cell) -> float:
    return law(cell).bent


def _cell(summary: Summary, regime: str) -> Cell:
    (cell,) = summary.select(regime=regime)
    return cell


def _all_trained(summary: Summary) -> bool:
    return all(
        cell.metrics["diverged"] == 0 and cell.metrics["agreement"] <= AGREEMENT
        for cell in summary.cells
    )


def _beyond_smoke(holds: Callable[[Summary], bool]) -> Callable[[Summary], bool]:
    return lambda summary: summary.scale is Scale.SMOKE or holds(summary)


def _one_is_too_small(summary: Summary) -> bool:
    errors = list(curve(_cell(summary, BARE)).values())
    return min(errors[0]) > max(errors[-1])


def _size_matters_more_alone(summary: Summary) -> bool:
    costs = {}
    for regime in (DEEP, BARE):
        means = [sum(values) / len(values) for values in curve(_cell(summary, regime)).values()]
        costs[regime] = means[0] - means[-1]
    return costs[BARE] > costs[DEEP]


def _spectra_converge(summary: Summary) -> bool:
    return all(
        sum(found[-1]) < sum(found[0])
        for regime in REGIMES
        if (found := list(distances(_cell(summary, regime)).values()))
    )


def figure(summary: Summary) -> Figure:
    """Draw spectra and training errors, one row for each regime."""
    from exactformer.experiments.jiang.figure_3_drawing import head_size_figure

    return head_size_figure(summary)


EXPERIMENT = Experiment(
    name="jiang-figure-3",
    title="Head size of vision transformers: spectra and training error",
    claim="Spectra converge as heads grow, and the training error falls as a power of the head size.",
    source="Jiang and Li 2023, figure 3 and section 5.2",
    cells=cells,
    run=run,
    quantities=quantities,
    statements=(
        Statement(
            "no model diverges, and the scores extracted from each give its own attention within 1e-4",
            _all_trained,
            ours=True,
        ),
        Statement(
            "beyond smoke scale, attention alone: with m_h = 1 every seed ends with a larger training "
            "error than any with the largest head",
            _beyond_smoke(_one_is_too_small),
        ),
        Statement(
            "beyond smoke scale, a head of size 1 costs more training error where attention is alone "
            "than in the deep model",
            _beyond_smoke(_size_matters_more_alone),
            ours=True,
        ),
        Statement(
            "beyond smoke scale, spectra of the two largest sizes are closer in shape than those of "
            "the two smallest",
            _beyond_smoke(_spectra_converge),
        ),
    ),
    figure=figure,
)
