"""Names and colours of the models of Fang et al. in tables and figures."""

from collections.abc import Iterable

from exactformer.experiments import Statement, Summary
from exactformer.experiments.fang.cell import NETWORKS, SOLVERS

MODELS = (*NETWORKS, *SOLVERS)

LABELS = {
    "attention": "ATTENTION",
    "depth": "NN_depth",
    "width": "NN_width",
    "least-squares": "least squares",
    "sparse": "sparse",
    "sgd": "ATTENTION",
}

TRAIN, TEST, NOISY = "train (noisy labels)", "test (clean target)", "test (noisy labels)"
SUPPORT = "exact support, share of seeds"
ERRORS = {TRAIN: "train", TEST: "test", NOISY: "test_noisy"}

COLOURS = {
    "attention": "#1d5fa8",
    "sgd": "#1d5fa8",
    "depth": "#8c4fa3",
    "width": "#b8860b",
    "least-squares": "#2a8c6a",
    "sparse": "#1f2937",
}


def named(models: Iterable[str]) -> dict[str, str]:
    """Return models with their names in tables."""
    return {model: LABELS[model] for model in models}


def clip_name(clip: float | None) -> str:
    """Return a clipping threshold as rows and axes name it."""
    return "no clipping" if clip is None else f"clip {clip:g}"


def test_error(summary: Summary, model: str) -> float:
    """Return the error of a model on the clean target."""
    return summary[f"{LABELS[model]}, {TEST}"]


FINDS_THE_TERMS = Statement(
    "the sparse solver finds exactly the terms of the target on every seed",
    lambda s: s[f"sparse, {SUPPORT}"] == 1,
)
ADDS_THE_VARIANCE = Statement(
    "noisy test labels add their variance, 1, to the error of every good fit",
    lambda s: all(
        abs(s[f"{LABELS[model]}, {NOISY}"] - test_error(s, model) - 1) < 0.2
        for model in ("attention", *SOLVERS)
    ),
)
