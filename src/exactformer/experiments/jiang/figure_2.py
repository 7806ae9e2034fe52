"""Figure 2 of Jiang and Li: are the singular values of the scores much alike on all inputs?

The paper draws a violin for each singular value of the first head of ViT-B/16, sees that they are
concentrated, and concludes that a few inputs show the rank of the coupling. Two models are asked here:

    vision     the transformer trained here on CIFAR-10 (JPEG copy), on test images of 64 patches
    MiniLM     a pretrained sentence encoder, on texts of 64 tokens from Multi30k's test sentences

each beside its control, the same architecture with weights drawn anew: what is concentrated there is so
because of the shape, not because of anything learnt. For each head the measure is the coefficient of
variation of σ_k over inputs, its median over the leading k; beside it stand numerical and effective
rank. At smoke scale MiniLM's sentences are put together from a few words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.jiang.vision import full_size
from exactformer.figures.style import GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VISION, SENTENCES = "vision", "minilm"
NAMES = {VISION: "vision transformer", SENTENCES: "MiniLM"}
TOKENS = 64


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for each model; the vision transformer's has all its seeds."""
    inputs = by_scale(16, 64, 256)[scale]
    sentences = {
        "model": SENTENCES,
        "inputs": inputs,
        "tokens": TOKENS,
        "made_up": scale is Scale.SMOKE,
        "seed": 0,
    }
    return [{"model": VISION, "inputs": inputs, **full_size(scale), "seed": 0}, sentences]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the spectra of one model, its control's, and how concentrated they are."""
    from exactformer.experiments.jiang import figure_2_spectra as spectra

    if parameters["model"] == VISION:
        return spectra.vision(parameters, device)
    return spectra.sentences(parameters, device)


_ROWS = {
    "cv": "coefficient of variation of σ₁ … σ₈ over inputs, median of all heads",
    "cv first": "coefficient of variation of σ₁ … σ₈, first head of the first layer",
    "effective": "effective rank, mean of all heads",
    "rank": "numerical rank, mean of all heads",
    "needed": "head dimension for 99 % of the energy, mean of all heads",
}


def _mean(summary: Summary, model: str, metric: str) -> float:
    value = summary.cell(model=model).metrics[metric]
    return sum(value) / len(value) if isinstance(value, list) else float(value)


_RESOLVED = 1e-6
"""Values below this share of the largest are rounding, and not drawn."""


def draw(summary: Summary) -> Figure:
    """Draw first and last layer of each model, one row a model."""
    figure, panels = subplots(12, 7.2, len(NAMES), 2)
    for row, (model, name) in zip(panels, NAMES.items(), strict=True):
        cell = summary.cell(model=model)
        last = cell.metrics["layers"] - 1
        for place, (axes, layer) in enumerate(zip(row, (0, last), strict=True)):
            samples = np.array(cell.metrics["violins"][place])
            control = np.array(cell.metrics["control means"][place])
            _panel(axes, samples, control)
            which = "first" if layer == 0 else "last"
            axes.set_title(f"{name}: first head of the {which} layer", fontsize=9)
    panels[0, 0].legend(fontsize=8)
    return figure


def _panel(axes: Axes, samples: Any, control: Any) -> None:
    """One violin for each k over inputs, of log σ_k."""
    from exactformer.spectra.drawing import label_powers, violins

    floor = _RESOLVED * samples.max()
    violins(axes, samples, floor, points=50)
    k = np.arange(1, samples.shape[1] + 1)
    means, others = (np.where(v > floor, v, np.nan) for v in (samples.mean(axis=0), control))
    axes.plot(k, np.log10(means), ".", color=ORANGE, ms=4, label="mean over inputs")
    axes.plot(k, np.log10(others), "--", color=GREY, lw=1.2, label="control: weights drawn anew")
    label_powers(axes)


EXPERIMENT = Experiment(
    name="jiang-figure-2",
    title="Singular values of scores over inputs",
    claim="The singular values of a head's scores are concentrated over inputs.",
    source="Jiang and Li 2023, figure 2 and section 5.2",
    cells=cells,
    run=run,
    quantities=[
        *rows(
            "{model}{row}",
            {
                f"{', control' if control else ''}: {label}": control + metric
                for metric, label in _ROWS.items()
                for control in ("", "control ")
            },
            {"model": NAMES},
            drift=0.1,
        ),
        Quantity(f"{NAMES[VISION]}: test accuracy", "accuracy", {"model": VISION}, drift=0.05),
    ],
    figure=draw,
)


@EXPERIMENT.states(
    "the median coefficient of variation of the leading singular values is below one half"
)
def _(summary: Summary) -> bool:
    return all(_mean(summary, model, "cv") < 0.5 for model in NAMES)


@EXPERIMENT.states("the effective rank is below the numerical rank", ours=True)
def _(summary: Summary) -> bool:
    return all(
        _mean(summary, model, "effective") < _mean(summary, model, "rank") for model in NAMES
    )
