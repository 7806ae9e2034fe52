"""Table 1 of Jiang & Li: the first ten tokens or patches come last, and the transformer learns on.

Multi30k (29,000 pairs) and a small encoder-decoder stand for WMT14 (4.5 million) and the base
model, CIFAR-10 from scratch for a pretrained ViT-B/16: those need other data, and days. BLEU
differs from corpus to corpus, so scores are not held against the published ones. What is compared is
the share of the score that is kept, against a control that learns on for as long with nothing moved.

Beside these stand the weights before they learn on, and translators whose position table is moved
along, which need to learn nothing. The contrast that section 6 argues for is an RNN. Proposition
6.1 is about answers due at every step; an LSTM that has read everything before it answers does not
fall under it. Both are measured: LSTMs that translate or classify, and models that name the token
at every place (:mod:`token_recall`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Cell, Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.jiang.vision import full_size
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRANSFORMER, CAUSAL, LSTM = "transformer", "causal transformer", "lstm"
ORIGINAL, MOVED = "original", "moved"
NAMERS, ORDERS = (TRANSFORMER, CAUSAL, LSTM), (ORIGINAL, MOVED)

SEEDS = by_scale(1, 1, 3)

_FEW = {"data": "made-up", "train": 2000, "tested": 100, "vocabulary": 320}
_FEW |= {"tokens": 8, "moved": 3, "batch": 32}
_SOME = {"data": "multi30k", "train": 8000, "tested": 300, "vocabulary": 2000}
_SOME |= {"tokens": 40, "moved": 10, "batch": 64}
_ALL = {"data": "multi30k", "train": 29_000, "tested": 1000, "vocabulary": 8000}
_ALL |= {"tokens": 40, "moved": 10, "batch": 256}

TRANSLATORS: dict[Scale, dict[str, dict[str, Any]]] = by_scale(
    {
        TRANSFORMER: {**_FEW, "width": 48, "layers": 1, "heads": 4, "hidden": 96, "dropout": 0.0}
        | {"steps": 250, "fine_steps": 250, "rate": 4e-3},
        LSTM: {**_FEW, "width": 48, "layers": 1, "dropout": 0.0}
        | {"steps": 250, "fine_steps": 150, "rate": 8e-3},
    },
    {
        TRANSFORMER: {**_SOME, "width": 64, "layers": 2, "heads": 4, "hidden": 128, "dropout": 0.1}
        | {"steps": 700, "fine_steps": 350, "rate": 3e-3},
        LSTM: {**_SOME, "width": 128, "layers": 1, "dropout": 0.1}
        | {"steps": 700, "fine_steps": 350, "rate": 3e-3},
    },
    {
        TRANSFORMER: {**_ALL, "width": 256, "layers": 3, "heads": 4, "hidden": 512, "dropout": 0.3}
        | {"steps": 4000, "fine_steps": 1600, "rate": 1.5e-3},
        LSTM: {**_ALL, "width": 512, "layers": 2, "dropout": 0.3}
        | {"steps": 2000, "fine_steps": 700, "rate": 1e-3},
    },
)
TUNING: dict[Scale, dict[str, Any]] = by_scale(
    {"tune_epochs": 6, "tune_rate": 5e-3, "moved": 3},
    {"tune_epochs": 3, "tune_rate": 2e-3, "moved": 10},
    {"tune_epochs": 20, "tune_rate": 1e-3, "moved": 10},
)
READERS: dict[Scale, dict[str, Any]] = by_scale(
    {"data": "synthetic", "train": 1280, "patch": 4, "moved": 5, "batch": 64}
    | {"width": 32, "layers": 1, "dropout": 0.0}
    | {"steps": 150, "fine_steps": 60, "rate": 5e-3},
    {"data": "cifar10", "train": 10_000, "patch": 4, "moved": 10, "batch": 128}
    | {"width": 96, "layers": 1, "dropout": 0.1}
    | {"steps": 500, "fine_steps": 250, "rate": 2e-3},
    {"data": "cifar10", "train": 50_000, "patch": 4, "moved": 10, "batch": 500}
    | {"width": 320, "layers": 2, "dropout": 0.1}
    | {"steps": 1800, "fine_steps": 600, "rate": 1e-3},
)
NAMING: dict[Scale, dict[str, Any]] = by_scale(
    {**_FEW, "width": 48, "layers": 1, "heads": 4, "steps": 150, "rate": 5e-3},
    {**_SOME, "vocabulary": 500, "tokens": 32}
    | {"width": 96, "layers": 1, "heads": 4, "steps": 500, "rate": 3e-3},
    {**_ALL, "vocabulary": 1000, "tokens": 32}
    | {"width": 256, "layers": 2, "heads": 4, "steps": 800, "rate": 1e-3},
)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Translators and namers by seed; vision transformers of all seeds are one cell."""
    seeds = range(SEEDS[scale])
    translators = [
        {"task": "translation", "model": model, "seed": seed, **sizes}
        for seed, (model, sizes) in product(seeds, TRANSLATORS[scale].items())
    ]
    namers = [
        {"task": "naming", "model": model, "order": order, "seed": seed, **NAMING[scale]}
        for seed, model, order in product(seeds, NAMERS, ORDERS)
    ]
    readers = [{"task": "images", "model": LSTM, "seed": seed, **READERS[scale]} for seed in seeds]
    tuned = {**full_size(scale), **TUNING[scale], "seed": 0}
    vision = {"task": "images", "model": TRANSFORMER, **tuned}
    return [*translators, *namers, *readers, vision]


def run(parameters: Mapping[str, Any], device: str) -> Mapping[str, Any]:
    """Train one model, alter the order, train on, and score it each time."""
    if parameters["task"] == "translation":
        from exactformer.experiments.jiang.translation import learn_to_translate

        return learn_to_translate(parameters, device)
    if parameters["task"] == "naming":
        from exactformer.experiments.jiang.token_recall import learn_to_name

        return learn_to_name(parameters, device)
    if parameters["model"] == LSTM:
        from exactformer.experiments.jiang.moved_patches import learn_patches

        return learn_patches(parameters, device)
    from exactformer.experiments.jiang.moved_patches import moved_accuracies

    return moved_accuracies(parameters, device)


def _values(cells: Sequence[Cell], metric: str) -> list[float]:
    """Return a metric over all seeds of a cell, or over cells."""
    found = [cell.metrics[metric] for cell in cells]
    return [one for value in found for one in (value if isinstance(value, list) else [value])]


def _kept(cells: Sequence[Cell]) -> list[float]:
    """Return what is left of the score of the control, which has learnt for as long."""
    pairs = zip(_values(cells, MOVED), _values(cells, "control"), strict=True)
    return [moved / control for moved, control in pairs]


SCORES = {"images": "accuracy", "translation": "BLEU"}
TABLE: dict[str, Any] = {
    "original": ORIGINAL,
    "moved, not trained on": "moved at once",
    "moved, trained on": MOVED,
    "original, trained on": "control",
    "moved over original, both trained on": _kept,
}
ALONG = "BLEU, transformer, moved with positions, not trained on"
GUESS = "naming, most frequent token, places first in the original"
QUANTITIES = [
    *(
        quantity
        for task, score in SCORES.items()
        for quantity in rows(
            f"{score}, {{model}}, {{row}}",
            TABLE,
            {"model": (TRANSFORMER, LSTM)},
            {"task": task},
            drift=0.05,
        )
    ),
    Quantity(ALONG, "places moved too", {"task": "translation", "model": TRANSFORMER}, drift=0.05),
    *rows(
        "naming, {model}, {order}, {row}",
        {"places first in the original": "first", "other places": "rest"},
        {"model": NAMERS, "order": ORDERS},
        {"task": "naming"},
        drift=0.1,
    ),
    Quantity(GUESS, "guess", {"task": "naming", "model": LSTM, "order": MOVED}, drift=0.1),
]


_ROWS = {
    "original": "original",
    "moved, not trained on": "moved",
    "moved, trained on": "moved,\ntrained on",
    "original, trained on": "original,\ntrained on",
}
_MODELS = {TRANSFORMER: ("transformer", BLUE), LSTM: ("LSTM", ORANGE)}
_NAMERS = {
    TRANSFORMER: ("transformer", BLUE),
    CAUSAL: ("transformer,\nlooks back", GREEN),
    LSTM: ("LSTM", ORANGE),
}


def draw(summary: Summary) -> Figure:
    """Draw accuracy and BLEU in both orders, and the share of tokens named at their place."""
    figure, (images, translation, naming) = subplots(13, 4, 1, 3)
    _scores(images, summary, "images")
    images.set(title="Images", ylabel="share of test images named rightly")
    _scores(translation, summary, "translation")
    translation.set(title="Translation", ylabel="BLEU")
    _naming(naming, summary)
    for axes in (images, translation, naming):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
        axes.grid(axis="x", visible=False)
    return figure


def _scores(axes: Axes, summary: Summary, task: str) -> None:
    for shift, (model, (name, colour)) in zip((-0.2, 0.2), _MODELS.items(), strict=True):
        found = [summary.row(f"{SCORES[task]}, {model}, {row}") for row in _ROWS]
        places = [place + shift for place in range(len(found))]
        axes.bar(places, [row.mean for row in found], 0.36, color=colour, alpha=0.85, label=name)
        for place, row in zip(places, found, strict=True):
            axes.plot([place] * len(row.values), row.values, "_", color=INK, markersize=8)
    look: Any = {"color": GREY, "markersize": 6, "label": "published, other data", "linestyle": ""}
    known = [summary.row(f"{SCORES[task]}, {TRANSFORMER}, {row}").published for row in _ROWS]
    there = {place - 0.2: value for place, value in enumerate(known) if value is not None}
    axes.plot([*there], [*there.values()], "D", **look)
    axes.set_xticks(range(len(_ROWS)), list(_ROWS.values()))


def named(model: str, order: str) -> str:
    """Return the row of the tokens that are moved, as a model names them."""
    return f"naming, {model}, {order}, places first in the original"


def _naming(axes: Axes, summary: Summary) -> None:
    for shift, order, alpha in ((-0.2, ORIGINAL, 0.35), (0.2, MOVED, 0.9)):
        means = [summary[named(model, order)] for model in NAMERS]
        places = [place + shift for place in range(len(means))]
        colours = [colour for _, colour in _NAMERS.values()]
        axes.bar(places, means, 0.36, color=colours, alpha=alpha)
        axes.bar(0, 0, color=INK, alpha=alpha, label=order)
    axes.axhline(summary[GUESS], color=INK, lw=1, ls="--", label="most frequent token")
    axes.set_xticks(range(len(NAMERS)), [name for name, _ in _NAMERS.values()])
    axes.set(title="An answer at every place", ylabel="share right of the tokens that are moved")


EXPERIMENT = Experiment(
    name="jiang-table-1",
    title="Order in time: images and translation, the first ten moved to the end",
    claim="A transformer keeps its score when the first ten inputs are moved to the end and it learns "
    "on; what answers step by step and looks back only cannot.",
    source="Jiang & Li 2023, Table 1 and Propositions 6.1, 6.2",
    cells=cells,
    run=run,
    quantities=QUANTITIES,
    figure=draw,
)


@EXPERIMENT.states("at full size the vision transformer names 82 % or more")
def _(summary: Summary) -> bool:
    at_full_size = summary.scale is Scale.FULL
    return not at_full_size or summary["accuracy, transformer, original"] >= 0.82


@EXPERIMENT.states("trained on with moved patches, it is within 3 points of the original")
def _(summary: Summary) -> bool:
    original = summary["accuracy, transformer, original"]
    return summary["accuracy, transformer, moved, trained on"] >= original - 0.03


@EXPERIMENT.states(
    "trained on with moved tokens, the translator is within 2 BLEU of the original and of the "
    "control"
)
def _(summary: Summary) -> bool:
    original, control = (
        summary[f"BLEU, transformer, {row}"] for row in ("original", "original, trained on")
    )
    return summary["BLEU, transformer, moved, trained on"] >= max(original, control) - 2.0


@EXPERIMENT.states(
    "before it has learnt on, the translator has at most half of the BLEU it has afterwards, "
    "and the vision transformer nine tenths of the accuracy",
)
def _(summary: Summary) -> bool:
    return all(
        summary[f"{score}, transformer, moved, not trained on"]
        <= share * summary[f"{score}, transformer, moved, trained on"]
        for score, share in (("BLEU", 0.5), ("accuracy", 0.9))
    )


@EXPERIMENT.states(
    "with its positions moved along, the translator has the same BLEU within 0.1, untrained",
)
def _(summary: Summary) -> bool:
    return abs(summary[ALONG] - summary["BLEU, transformer, original"]) <= 0.1


@EXPERIMENT.states("a transformer names 99 % of the tokens that were first, in both orders")
def _(summary: Summary) -> bool:
    return all(summary[named(TRANSFORMER, order)] >= 0.99 for order in ORDERS)


@EXPERIMENT.states(
    "an LSTM and a transformer that looks back do so in the original order; moved, they name "
    "at most half",
)
def _(summary: Summary) -> bool:
    return all(
        summary[named(model, ORIGINAL)] >= 0.99 and summary[named(model, MOVED)] <= 0.5
        for model in (CAUSAL, LSTM)
    )
