"""Trained models of several kinds: every input decided, and counts those of brute force."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import exactformer as ef
from tests.verification.models import every, trained

pytestmark = pytest.mark.slow


def largest(ids: Tensor) -> Tensor:
    return ids.amax(1)


def previous(ids: Tensor) -> Tensor:
    return torch.cat([ids[:, :1], ids[:, :-1]], 1)


def modular(ids: Tensor) -> Tensor:
    return ids.sum(1) % 31


def induction(ids: Tensor) -> Tensor:
    """The token after the latest earlier occurrence of the current one, else 4."""
    answers = torch.full_like(ids, 4)
    for i in range(ids.shape[1]):
        for j in range(1, i + 1):
            answers[:, i] = torch.where(ids[:, j - 1] == ids[:, i], ids[:, j], answers[:, i])
    return answers


MODELS: dict[str, tuple[Callable[[Tensor], Tensor], int, dict[str, Any]]] = {
    "previous token": (previous, 800, {"tokens": 4, "length": 8, "causal": True, "last": False}),
    "induction": (
        *(induction, 3000),
        {"tokens": 4, "length": 8, "answers": 5, "heads": 2, "layers": 2, "causal": True}
        | {"last": False},
    ),
    "addition mod 31": (
        *(modular, 2500),
        {"tokens": 31, "length": 2, "width": 64, "heads": 2, "act": "relu"},
    ),
    "max of four over 16": (largest, 1500, {"tokens": 16, "length": 4, "act": "relu"}),
    "max with norms": (largest, 1500, {"tokens": 16, "length": 4, "act": "gelu", "norm": True}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_input_is_decided_as_brute_force_counts(name: str) -> None:
    task, steps, options = MODELS[name]
    width = options.get("width", 32)
    model = trained(task, steps, **(options | {"width": width}))
    tokens, length = options["tokens"], options["length"]
    ids = every(tokens, length)
    wrong = 0
    double = model.double()
    for part in ids.split(8192):
        off = double(part).argmax(-1) != task(part)
        wrong += int(off.reshape(len(part), -1).any(1).sum())
    model.float()
    for arithmetic in ("real", "float32"):
        found = ef.verify(
            *(model, task),
            vocabulary=range(tokens),
            length=length,
            answers=range(options.get("answers", tokens)),
            arithmetic=arithmetic,
            batched=True,
            show_progress=False,
        )
        assert (found.wrong, found.doubtful) == (wrong, 0), str(found)
        assert found.right == tokens**length - wrong
