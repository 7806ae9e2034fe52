"""Sizes of the models of table 1, and their training, at every scale."""

from typing import Any

from exactformer.experiments.engine.experiment import Scale, by_scale

TRANSFORMER, CAUSAL, LSTM = "transformer", "causal transformer", "lstm"
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
