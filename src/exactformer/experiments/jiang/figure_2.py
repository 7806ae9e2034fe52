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
from itertools import product
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.jiang.vision import full_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

VISION, SENTENCES = "vision", "minilm"
NAMES = {VISION: "vision transformer", SENTENCES: "MiniLM"}
LEADING = 8
"""How many singular values count as leading."""
TOKENS = 64


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for each model; the vision transformer's has all its seeds."""
    inputs = {Scale.SMOKE: 16, Scale.DEFAULT: 64, Scale.PAPER: 256}[scale]
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


def quantities(_scale: Scale) -> list[Quantity]:
    """Concentration and rank of each model and its control; the accuracy of the one trained here."""
    rows = [
        Quantity(f"{NAMES[model]}{', control' if control else ''}: {label}",
                 f"control {metric}" if control else metric, {"model": model}, drift=0.1)
        for model, (metric, label), control in product(NAMES, _ROWS.items(), (False, True))
    ]  # fmt: skip
    where = {"model": VISION}
    return [*rows, Quantity(f"{NAMES[VISION]}: test accuracy", "accuracy", where, drift=0.05)]


def _mean(summary: Summary, model: str, metric: str) -> float:
    (cell,) = summary.select(model=model)
    value = cell.metrics[metric]
    return sum(value) / len(value) if isinstance(value, list) else float(value)


def _concentrated(summary: Summary) -> bool:
    return all(_mean(summary, model, "cv") < 0.5 for model in NAMES)


def _low_rank(summary: Summary) -> bool:
    return all(
        _mean(summary, model, "effective") < _mean(summary, model, "rank") for model in NAMES
    )


def figure(summary: Summary) -> Figure:
    """Draw the violins of each model's first head beside the control's mean."""
    from exactformer.experiments.jiang.figure_2_drawing import violins

    return violins(summary)


EXPERIMENT = Experiment(
    name="jiang-figure-2",
    title="Singular values of scores over inputs",
    claim="The singular values of a head's scores are concentrated over inputs.",
    source="Jiang and Li 2023, figure 2 and section 5.2",
    cells=cells,
    run=run,
    quantities=quantities,
    statements=(
        Statement(
            "the median coefficient of variation of the leading singular values is below one half",
            _concentrated,
        ),
        Statement("the effective rank is below the numerical rank", _low_rank, ours=True),
    ),
    figure=figure,
)
