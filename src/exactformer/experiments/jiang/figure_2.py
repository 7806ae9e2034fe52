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
from numpy.typing import NDArray

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.jiang.vision import full_size, image_data, trained
from exactformer.experiments.real_data import MADE_UP, minilm, multi30k
from exactformer.figures.style import GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.spectra import Spectrum

VISION, SENTENCES = "vision", "minilm"
NAMES = {VISION: "vision transformer", SENTENCES: "MiniLM"}
TOKENS = 64
LEADING = 8
"""How many singular values count as leading."""
_KEPT = 96
"""Inputs whose spectra are kept for drawing."""


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for each model; the vision transformer's has all its seeds."""
    common = {"inputs": by_scale(16, 64, 256)[scale], "seed": 0}
    sentences = {"tokens": TOKENS, "made_up": scale is Scale.SMOKE}
    return [
        {"model": VISION, **full_size(scale), **common},
        {"model": SENTENCES, **sentences, **common},
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the spectra of one model, its control's, and how concentrated they are."""
    if parameters["model"] == VISION:
        return _vision(parameters, device)
    from exactformer.spectra.preparation import load
    from exactformer.spectra.texts import tokenizer_at

    folder = minilm()
    return measured(_spectrum(load(folder), texts(parameters, tokenizer_at(folder))))


def _vision(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Analyse the trained vision transformers, one per seed."""
    import torch

    from exactformer.experiments.models.vision.model import normalised

    known = trained(parameters, device)
    images = normalised(image_data(parameters, "cpu").test[: parameters["inputs"]])
    batches = list(torch.split(images, 32))
    found = [measured(_spectrum(one.model(), batches, one.configuration.seed)) for one in known]
    values = {name: [each[name] for each in found] for name in found[0] if name not in _DRAWN}
    return {
        **values,
        **{name: found[0][name] for name in _DRAWN},
        "accuracy": [one.accuracy for one in known],
        "train loss": [one.train_loss for one in known],
        "training seconds": known[0].seconds,
        "trained on": known[0].hardware,
    }


def texts(parameters: Mapping[str, Any], tokenizer: Any) -> list[dict[str, Any]]:
    """Return batches of texts of exactly so many tokens: sentences in a row, cut where they end."""
    count, tokens = parameters["inputs"], parameters["tokens"]
    random = np.random.default_rng(parameters["seed"])
    if parameters["made_up"]:
        lines = [MADE_UP[k] for k in random.integers(len(MADE_UP), size=16 * count)]
    else:
        lines = random.permutation(np.array(multi30k("test_2016_flickr"))).tolist()
    whole: list[str] = []
    place = 0
    while len(whole) < count:
        text: list[str] = []
        while sum(len(line.split()) for line in text) < tokens:
            text.append(lines[place % len(lines)])
            place += 1
        whole.append(" ".join(text))
    options = {"return_tensors": "pt", "truncation": True, "max_length": tokens}
    return [dict(tokenizer(whole[k : k + 32], **options)) for k in range(0, count, 32)]


_DRAWN = ("violins", "control means", "layers", "head_dim")


def measured(found: Spectrum) -> dict[str, Any]:
    """Return the numbers of the table, and what is drawn: the first head of first and last layer."""
    assert found.control is not None
    heads = [(0, 0), (len(found.layers) - 1, 0)]
    return {
        **_concentration(found),
        **{f"control {name}": value for name, value in _concentration(found.control).items()},
        "cv by layer": [_variation(layer).mean(axis=1).tolist() for layer in found.layers],
        "agreement": found.agreement,
        "violins": [_short(found.layers[at].samples[:, head]) for at, head in heads],
        "control means": [_short(found.control.layers[at].mean[head]) for at, head in heads],
        "layers": len(found.layers),
        "head_dim": found.layers[0].head_dim,
    }


def _concentration(found: Spectrum) -> dict[str, float]:
    table = found.table
    variations = np.concatenate([_variation(layer) for layer in found.layers])
    return {
        "cv": float(np.median(variations)),
        "cv first": float(np.median(_variation(found.layers[0])[0])),
        "effective": float(table["effective_rank"].mean()),
        "rank": float(table["rank"].mean()),
        "needed": float(table["dim_99"].mean()),
    }


def _variation(layer: Any) -> NDArray[np.float64]:
    """Return spread over mean of the leading singular values, (heads, LEADING)."""
    mean, spread = (part[:, :LEADING] for part in (layer.mean, layer.spread))
    return np.asarray(spread / np.maximum(mean, np.finfo(np.float64).tiny))


def _spectrum(model: Any, inputs: Any, seed: int = 0) -> Spectrum:
    from exactformer.spectra import spectrum

    return spectrum(
        model,
        inputs,
        control="reinitialised",
        samples=_KEPT,
        seed=seed,
        device="cpu",
        progress=False,
    )


def _short(values: Any) -> list[Any]:
    """Return numbers to four digits: they are only drawn."""
    rounded: list[Any] = np.vectorize(lambda v: float(f"{v:.4g}"))(values).tolist()
    return rounded


_ROWS = {
    "cv": "coefficient of variation of σ₁ … σ₈ over inputs, median of all heads",
    "cv first": "coefficient of variation of σ₁ … σ₈, first head of the first layer",
    "effective": "effective rank, mean of all heads",
    "rank": "numerical rank, mean of all heads",
    "needed": "head dimension for 99 % of the energy, mean of all heads",
}


_RESOLVED = 1e-6
"""Values below this share of the largest are rounding, and not drawn."""


def draw(summary: Summary) -> Figure:
    """Draw first and last layer of each model, one row a model."""
    figure, panels = subplots(12, 7.2, len(NAMES), 2)
    for row, (model, name) in zip(panels, NAMES.items(), strict=True):
        metrics = summary.cell(model=model).metrics
        drawn = zip(metrics["violins"], metrics["control means"], ("first", "last"), strict=True)
        for axes, (samples, control, which) in zip(row, drawn, strict=True):
            _panel(axes, np.array(samples), np.array(control))
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
    return all(summary[f"{name}: {_ROWS['cv']}"] < 0.5 for name in NAMES.values())


@EXPERIMENT.states("the effective rank is below the numerical rank")
def _(summary: Summary) -> bool:
    return all(
        summary[f"{name}: {_ROWS['effective']}"] < summary[f"{name}: {_ROWS['rank']}"]
        for name in NAMES.values()
    )
