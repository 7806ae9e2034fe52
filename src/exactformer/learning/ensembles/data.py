"""The sequences an ensemble learns from, on its device: batches, their order, and losses over all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from exactformer.errors import InputError
from exactformer.learning.ensembles.models.base import Ensemble


@dataclass(frozen=True)
class Sequences:
    """Inputs and targets of M models; what they share is stored once.

    ``x`` is (N, τ[, d]), or a bank (K, N, τ[, d]) of which ``x_choice`` (M,) is each model's own entry;
    ``y`` likewise. ``mask`` (N, τ) is true at tokens that are there.
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None
    x_choice: Tensor | None
    y_choice: Tensor | None

    @property
    def count(self) -> int:
        """N, the number of sequences."""
        return self.x.shape[0 if self.x_choice is None else 1]

    @property
    def tau(self) -> int:
        """The length of the sequences."""
        return self.x.shape[1 if self.x_choice is None else 2]

    def losses(self, ensemble: Ensemble, rows: Tensor) -> Tensor:
        """Return each model's mean squared error on ``rows``, over the tokens that are there, (M,)."""
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        prediction: Tensor = ensemble(_gather(self.x, rows, self.x_choice), mask)
        square = (prediction - _gather(self.y, rows, self.y_choice)).square()
        if mask is None:
            return square.flatten(1).mean(dim=1)
        weight = mask.to(square)
        if square.dim() == 4:
            square = square.mean(dim=-1)
        return (square * weight).sum(dim=(1, 2)) / weight.sum()


class RowOrder:
    """One permutation of the rows after another, cut into batches of one size.

    Every row comes once in ``count`` places, whether or not batches divide them. The order depends on
    ``source`` alone (PyTorch's own random numbers unless given), not on the device or the models.
    """

    def __init__(self, count: int, batch: int, source: torch.Generator | None = None) -> None:
        self.count, self.batch, self.source = count, batch, source
        self._left = torch.empty(0, dtype=torch.long)

    def next(self, steps: int) -> Tensor:
        """Return the rows of the next steps, (steps, batch)."""
        needed = steps * self.batch
        epochs = -(-max(0, needed - len(self._left)) // self.count)
        drawn = [torch.randperm(self.count, generator=self.source) for _ in range(epochs)]
        rows = torch.cat([self._left, *drawn])
        self._left = rows[needed:]
        return rows[:needed].view(steps, self.batch)


def sequences(
    ensemble: Ensemble,
    x: Any,
    y: Any,
    mask: Any = None,
    choice: Sequence[int] | None = None,
) -> Sequences:
    """Check arrays or tensors against an ensemble and bring them to its device and format."""
    parameter = next(ensemble.parameters())
    found_x, found_y = (torch.as_tensor(a).to(parameter.device, parameter.dtype) for a in (x, y))
    x_shared = _is_shared(found_x, ensemble.input_dim, "x")
    y_shared = _is_shared(found_y, ensemble.output_dim, "y")
    banks = {len(t) for t, s in ((found_x, x_shared), (found_y, y_shared)) if not s}
    picked = _choice(choice, banks, ensemble.models).to(parameter.device)
    shapes = [
        tuple(t.shape[0 if s else 1 :][:2]) for t, s in ((found_x, x_shared), (found_y, y_shared))
    ]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"x holds (sequences, tokens) = {shapes[0]} and y {shapes[1]}; they must agree."
        )
    if 0 in shapes[0]:
        raise InputError(f"(sequences, tokens) = {shapes[0]}: there is nothing to learn from.")
    choices = (None if x_shared else picked, None if y_shared else picked)
    if mask is None:
        return Sequences(found_x, found_y, None, *choices)
    there = torch.as_tensor(mask, dtype=torch.bool).to(parameter.device)
    if tuple(there.shape) != shapes[0]:
        raise InputError(f"mask has shape {tuple(there.shape)}; the sequences need {shapes[0]}.")
    if not there.any(dim=1).all():
        raise InputError("mask leaves a sequence without a token; drop that sequence.")
    found_x, found_y = (  # 0 where no token is: NaN, times nothing, would still be NaN
        values.masked_fill(~(there if entries == 1 else there.unsqueeze(-1)), 0.0)
        for values, entries in ((found_x, ensemble.input_dim), (found_y, ensemble.output_dim))
    )
    return Sequences(found_x, found_y, there, *choices)


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
        total += share * data.losses(ensemble, piece)
    return total


def parts(data: Sequences, rows: int, count: int) -> Iterator[tuple[Tensor, float]]:
    """Yield the first ``count`` rows in pieces, each with its share of the tokens."""
    lengths = [min(rows, count - start) for start in range(0, count, rows)]
    pieces = torch.split(torch.arange(count, device=data.x.device), rows)
    tokens = lengths if data.mask is None else [int(data.mask[piece].sum()) for piece in pieces]
    for piece, size in zip(pieces, tokens, strict=True):
        yield piece, size / sum(tokens)


def _is_shared(values: Tensor, entries: int, name: str) -> bool:
    rank = 2 if entries == 1 else 3
    last = "" if entries == 1 else f", {entries}"
    if values.dim() not in (rank, rank + 1) or (entries > 1 and values.shape[-1] != entries):
        raise InputError(
            f"{name} has shape {tuple(values.shape)}; it must be (N, τ{last}), shared by all models, "
            f"or (K, N, τ{last}) with one entry per model or choice= of them."
        )
    return values.dim() == rank


def _choice(choice: Sequence[int] | None, banks: set[int], models: int) -> Tensor:
    if len(banks) > 1:
        raise InputError(f"x and y have different numbers of entries to choose from: {banks}.")
    size = banks.pop() if banks else models
    if choice is None:
        if size != models:
            raise InputError(
                f"there are {size} sets of sequences and {models} models; choose one for each model "
                "by choice=."
            )
        return torch.arange(models)
    picked = torch.as_tensor(choice, dtype=torch.long)
    if picked.shape != (models,) or int(picked.min()) < 0 or int(picked.max()) >= size:
        raise InputError(f"choice= needs {models} numbers from 0 to {size - 1}.")
    return picked


def _gather(values: Tensor, rows: Tensor, choice: Tensor | None) -> Tensor:
    if choice is None:
        return values.index_select(0, rows)
    return values.index_select(1, rows).index_select(0, choice)
