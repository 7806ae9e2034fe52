"""Simpler layers in place of attention, as the abstract of Yun et al. announces, on real data.

Attention computes contextual mappings, which is all the proof asks of it; so might something
simpler. A bilinear projection across tokens and separable convolutions are tried alone and mixed
with attention, all with the same number of parameters, on masked words (Multi30k, English) and on
classes of images from their patches (CIFAR-10, JPEG copy). Of every trained layer it is asked how
close it comes to a contextual mapping: how many tokens do not have a code of their own?

The paper's own runs (BERT on a large corpus) are beyond one GPU; scale "paper" is the full run here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments import Experiment, Metrics, Parameters, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, list_down, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Kind of the lower and of the upper half of the layers.
MODELS = {
    "attention": ("attention", "attention"),
    "bilinear": ("bilinear", "bilinear"),
    "convolution": ("convolution", "convolution"),
    "convolution below attention": ("convolution", "attention"),
    "attention below convolution": ("attention", "convolution"),
}
TASKS = {"words": "masked words", "patches": "image patches"}


@dataclass(frozen=True)
class Task:
    """What is learnt from what, and how large the models are."""

    task: str
    data: str
    tokens: int
    width: int
    layers: int
    heads: int
    hidden: int
    epochs: int
    batch: int
    rate: float
    probe: int
    dropout: float = 0.1
    kernel: int = 3
    patch: int = 4
    train: int = 50_000


SEEDS = by_scale(1, 2, 3)
SIZES = by_scale(
    (
        Task("words", "synthetic", 16, 32, 2, 4, 64, 6, 64, 5e-3, 100, 0.0),
        Task("patches", "synthetic", 16, 32, 2, 4, 64, 5, 64, 5e-3, 20, 0.0, train=1280),
    ),
    (
        Task("words", "multi30k", 32, 64, 2, 4, 128, 4, 128, 2e-3, 600),
        Task("patches", "cifar10", 64, 64, 2, 4, 128, 4, 128, 2e-3, 60, train=10_000),
    ),
    (
        Task("words", "multi30k", 32, 128, 4, 4, 512, 40, 512, 2e-3, 2014),
        Task("patches", "cifar10", 64, 128, 4, 4, 512, 24, 512, 2e-3, 256),
    ),
)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return one cell for each seed, task and model."""
    return [
        {**asdict(size), "model": model, "seed": seed}
        for seed in range(SEEDS[scale])
        for size in SIZES[scale]
        for model in MODELS
    ]


def run(parameters: Parameters, device: str) -> Metrics:
    """Train one model, test it, and probe its layers."""
    from exactformer.experiments.yun.alternatives_training import learn

    lower, upper = MODELS[parameters["model"]]
    half = parameters["layers"] // 2
    return learn(parameters, [lower] * half + [upper] * (parameters["layers"] - half), device)


PERPLEXITY, ACCURACY = "perplexity", "share named rightly"
FIRST = "first layer, tokens without a code of their own"
LAST = "last layer, tokens without a code of their own"
PARAMETERS = "parameters of the encoder"

ROWS = {
    PERPLEXITY: ("perplexity", 0.05),
    ACCURACY: ("accuracy", 0.05),
    PARAMETERS: ("parameters", 0.0),
    "seconds of training": ("seconds", math.inf),
    FIRST: ("first_shared", 0.2),
    LAST: ("last_shared", 0.2),
    "last layer, smallest separation over spread": ("last_separation", 1.0),
}


_COLOURS = dict(zip(MODELS, (BLUE, ORANGE, GREEN, INK, GREY), strict=True))
_MARKERS = dict(zip(MODELS, "osD^v", strict=True))


def draw(summary: Summary) -> Figure:
    """Draw results above, a ring for every seed and a bar for the mean; layers below, by depth."""
    figure, ((words, patches), below) = subplots(10.5, 6.4, 2, 2)
    _results(words, summary, "words", "perplexity")
    words.set(title="Masked words", xlabel="perplexity on the test split (lower is better)")
    _results(patches, summary, "patches", "accuracy")
    patches.set(title="Image patches", xlabel="share of test images named rightly")
    for axes, task in zip(below, ("words", "patches"), strict=True):
        _layers(axes, summary, task)
    below[0].set_title("Layers, words in sentences")
    below[1].set_title("Layers, patches when one is changed")
    handles, labels = below[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(MODELS))
    return figure


def _results(axes: Axes, summary: Summary, task: str, metric: str) -> None:
    for place, (model, colour) in enumerate(_COLOURS.items()):
        values = [float(c.metrics[metric]) for c in summary.select(task=task, model=model)]
        axes.plot(values, [place] * len(values), "o", color=colour, fillstyle="none")
        axes.plot(np.mean(values), place, "|", color=colour, markersize=16, markeredgewidth=2)
    list_down(axes, list(MODELS))


def _layers(axes: Axes, summary: Summary, task: str) -> None:
    for model, colour in _COLOURS.items():
        shared = np.array([c.metrics["shared"] for c in summary.select(task=task, model=model)])
        depth = np.arange(1, shared.shape[1] + 1)
        axes.plot(
            depth + 0.03 * (list(MODELS).index(model) - 2),  # lines at zero lie on each other
            100 * shared.mean(axis=0),
            marker=_MARKERS[model],
            markersize=6,
            fillstyle="none",
            linewidth=1.2,
            color=colour,
            label=model,
        )
    axes.set_xticks(depth)
    axes.set(xlabel="layer", ylabel="tokens without a code\nof their own (%)")


def _words(summary: Summary, model: str, row: str) -> float:
    return summary[f"{TASKS['words']}, {model}, {row}"]


EXPERIMENT = Experiment(
    name="yun-alternatives",
    title="Bilinear projections and separable convolutions in place of attention",
    claim="Attention is ahead where context is words; simpler layers below it cost nothing; and only "
    "layers that see the whole sequence give every token a code of its own.",
    source="Yun et al. 2020, abstract",
    cells=cells,
    run=run,
    quantities=[
        quantity
        for quantity in rows("{task}, {model}, {row}", ROWS, {"task": TASKS, "model": list(MODELS)})
        if quantity.metric != "perplexity" or quantity.where["task"] == "words"
    ],
    figure=draw,
)


@EXPERIMENT.states("all models of a task have as many parameters, within 1 %")
def _(summary: Summary) -> bool:
    sizes = {
        (task, model): summary[f"{task}, {model}, {PARAMETERS}"]
        for task, model in product(TASKS.values(), MODELS)
    }
    return all(
        abs(size / sizes[task, "attention"] - 1) <= 0.01 for (task, _), size in sizes.items()
    )


@EXPERIMENT.states(
    "on masked words attention is ahead of bilinear projections and of convolutions, each alone"
)
def _(summary: Summary) -> bool:
    others = (_words(summary, model, PERPLEXITY) for model in ("bilinear", "convolution"))
    return _words(summary, "attention", PERPLEXITY) < min(others)


@EXPERIMENT.states(
    "on masked words convolutions below attention come within 2 % of the perplexity of "
    "attention alone, or pass it"
)
def _(summary: Summary) -> bool:
    mixed = _words(summary, "convolution below attention", PERPLEXITY)
    return mixed <= 1.02 * _words(summary, "attention", PERPLEXITY)


@EXPERIMENT.states("on image patches convolutions alone are ahead of attention alone")
def _(summary: Summary) -> bool:
    accuracy = {model: summary[f"{TASKS['patches']}, {model}, {ACCURACY}"] for model in MODELS}
    return accuracy["convolution"] > accuracy["attention"]


@EXPERIMENT.states(
    "a first layer of convolutions gives equal codes to words in different sentences, one of "
    "attention does not"
)
def _(summary: Summary) -> bool:
    return _words(summary, "convolution", FIRST) > 0 == _words(summary, "attention", FIRST)


@EXPERIMENT.states(
    "with attention on top every word of every sentence has its own code at the end, with "
    "convolutions alone not"
)
def _(summary: Summary) -> bool:
    mended = (_words(summary, m, LAST) for m in ("attention", "convolution below attention"))
    return _words(summary, "convolution", LAST) > 0 == sum(mended)
