"""Losses over all sequences, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from exactformer.learning.ensembles.data import Sequences, sequences
from exactformer.learning.ensembles.models.base import Ensemble


def evaluate(
    ensemble: Ensemble,
    x: Any,
    y: Any,
    *,
    mask: Any = None,
    choice: Sequence[int] | None = None,
    rows: int = 1024,
) -> Tensor:
    """Return each model's mean squared error, (M,), ``rows`` sequences at a time.

    The arguments are those of :func:`~exactformer.learning.ensembles.train`.
    """
    return mean_losses(ensemble, sequences(ensemble, x, y, mask, choice), rows)


@torch.no_grad()
def mean_losses(ensemble: Ensemble, data: Sequences, rows: int) -> Tensor:
    """Return each model's loss over all of the data, (M,)."""
    total = data.x.new_zeros(ensemble.models)
    for piece, share in parts(data, rows, data.count):
        batch = data.take(piece)
        total += share * batch.losses(ensemble(batch.x, batch.mask))
    return total


def parts(data: Sequences, rows: int, count: int) -> Iterator[tuple[Tensor, float]]:
    """Yield the first ``count`` rows in pieces, each with its share of the tokens."""
    lengths = [min(rows, count - start) for start in range(0, count, rows)]
    pieces = torch.split(torch.arange(count, device=data.x.device), rows)
    tokens = lengths if data.mask is None else [int(data.mask[piece].sum()) for piece in pieces]
    for piece, size in zip(pieces, tokens, strict=True):
        yield piece, size / sum(tokens)
