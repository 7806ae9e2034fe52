"""Simpler layers in place of attention, as the abstract of Yun et al. announces, on real data.

Attention computes contextual mappings, which is all the proof asks of it; so might something
simpler. A bilinear projection across tokens and separable convolutions are tried alone and mixed
with attention, all with the same number of parameters, on masked words (Multi30k, English) and on
classes of images from their patches (CIFAR-10, JPEG copy). Of every trained layer it is asked how
close it comes to a contextual mapping: how many tokens do not have a code of their own?

The paper's own runs (BERT on a large corpus) are beyond one GPU; scale "paper" is the full run here.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.cell import Metrics, Parameters
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.engine.summary import Summary

if TYPE_CHECKING:
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


SEEDS = {Scale.SMOKE: 1, Scale.DEFAULT: 2, Scale.PAPER: 2}
SIZES = {
    Scale.SMOKE: (
        Task("words", "synthetic", 16, 32, 2, 4, 64, 6, 64, 5e-3, 100, 0.0),
        Task("patches", "synthetic", 16, 32, 2, 4, 64, 5, 64, 5e-3, 20, 0.0, train=1280),
    ),
    Scale.DEFAULT: (
        Task("words", "multi30k", 32, 64, 2, 4, 128, 4, 128, 2e-3, 600),
        Task("patches", "cifar10", 64, 64, 2, 4, 128, 4, 128, 2e-3, 60, train=10_000),
    ),
    Scale.PAPER: (
        Task("words", "multi30k", 32, 128, 4, 4, 512, 40, 512, 2e-3, 2014),
        Task("patches", "cifar10", 64, 128, 4, 4, 512, 24, 512, 2e-3, 256),
    ),
}


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
SEPARATION = "last layer, smallest separation over spread"
PARAMETERS, SECONDS = "parameters of the encoder", "seconds of training"

ROWS = {
    PERPLEXITY: ("perplexity", 0.05),
    ACCURACY: ("accuracy", 0.05),
    PARAMETERS: ("parameters", 0.0),
    SECONDS: ("seconds", math.inf),
    FIRST: ("first_shared", 0.2),
    LAST: ("last_shared", 0.2),
    SEPARATION: ("last_separation", 1.0),
}


def label(task: str, model: str, row: str) -> str:
    """Return the name of a row of the table."""
    return f"{TASKS[task]}, {model}, {row}"


def quantities(_scale: Scale) -> Iterator[Quantity]:
    """Yield seven numbers for each task and model; perplexity is for words alone."""
    for task in TASKS:
        for model in MODELS:
            for row, (metric, drift) in ROWS.items():
                if task == "words" or row != PERPLEXITY:
                    where = {"task": task, "model": model}
                    yield Quantity(label(task, model, row), metric, where, drift=drift)


def _perplexity(summary: Summary, model: str) -> float:
    return summary[label("words", model, PERPLEXITY)]


def _equal_sizes(summary: Summary) -> bool:
    sizes = {
        (task, model): summary[label(task, model, PARAMETERS)] for task in TASKS for model in MODELS
    }
    return all(
        abs(size / sizes[task, "attention"] - 1) <= 0.01 for (task, _), size in sizes.items()
    )


def _attention_leads_on_words(summary: Summary) -> bool:
    others = (_perplexity(summary, model) for model in ("bilinear", "convolution"))
    return _perplexity(summary, "attention") < min(others)


def _mixed_keeps_up(summary: Summary) -> bool:
    mixed = _perplexity(summary, "convolution below attention")
    return mixed <= 1.02 * _perplexity(summary, "attention")


def _convolution_leads_on_patches(summary: Summary) -> bool:
    accuracy = {model: summary[label("patches", model, ACCURACY)] for model in MODELS}
    return accuracy["convolution"] > accuracy["attention"]


def _shared(summary: Summary, model: str, row: str) -> float:
    return summary[label("words", model, row)]


def _windows_are_not_contexts(summary: Summary) -> bool:
    return _shared(summary, "convolution", FIRST) > 0 == _shared(summary, "attention", FIRST)


def _attention_on_top_mends_it(summary: Summary) -> bool:
    mended = ("attention", "convolution below attention")
    return (
        _shared(summary, "convolution", LAST)
        > 0
        == sum(_shared(summary, model, LAST) for model in mended)
    )


def figure(summary: Summary) -> "Figure":
    """Draw what each model reaches, and how its layers do as contextual mappings."""
    from exactformer.experiments.yun.alternatives_drawing import alternatives_figure

    return alternatives_figure(summary)


EXPERIMENT = Experiment(
    name="yun-alternatives",
    title="Bilinear projections and separable convolutions in place of attention",
    claim="Attention is ahead where context is words; simpler layers below it cost nothing; and only "
    "layers that see the whole sequence give every token a code of its own.",
    source="Yun et al. 2020, abstract",
    ours=True,
    cells=cells,
    run=run,
    quantities=lambda scale: tuple(quantities(scale)),
    statements=(
        Statement("all models of a task have as many parameters, within 1 %", _equal_sizes),
        Statement(
            "on masked words attention is ahead of bilinear projections and of convolutions, each "
            "alone",
            _attention_leads_on_words,
        ),
        Statement(
            "on masked words convolutions below attention come within 2 % of the perplexity of "
            "attention alone, or pass it",
            _mixed_keeps_up,
        ),
        Statement(
            "on image patches convolutions alone are ahead of attention alone",
            _convolution_leads_on_patches,
        ),
        Statement(
            "a first layer of convolutions gives equal codes to words in different sentences, one of "
            "attention does not",
            _windows_are_not_contexts,
        ),
        Statement(
            "with attention on top every word of every sentence has its own code at the end, with "
            "convolutions alone not",
            _attention_on_top_mends_it,
        ),
    ),
    figure=figure,
)
