"""Training M models at once, each as if it were alone.

All models see the same rows in the same order; each has its own gradient norm to clip, its own early
stop and its own best weights. A model that stops is frozen to the bit while the others go on.

Nothing waits for the device but the reports: the rows of the steps up to the next report are sent
there ahead, and a step (gather, forward, backward, Adam) is one replayed graph on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from exactformer.learning.ensemble.adam import RowAdam
from exactformer.learning.ensemble.base import Ensemble
from exactformer.learning.ensemble.capture import repeated
from exactformer.learning.ensemble.data import Sequences, sequences
from exactformer.learning.ensemble.history import EnsembleHistory
from exactformer.learning.ensemble.lbfgs import minimise
from exactformer.learning.ensemble.memory import rows_that_fit
from exactformer.learning.ensemble.packing import PackedWeights
from exactformer.learning.ensemble.progress import progress
from exactformer.learning.ensemble.protocol import EnsembleProtocol


@dataclass(frozen=True)
class EnsembleProgress:
    """One report: steps done and to do, each model's loss, which still train, seconds gone."""

    step: int
    steps: int
    losses: Tensor
    training: Tensor
    seconds: float


def train(
    ensemble: Ensemble,
    x: Any,
    y: Any,
    protocol: EnsembleProtocol | None = None,
    *,
    mask: Any = None,
    choice: Sequence[int] | None = None,
    validation: tuple[Any, ...] | None = None,
    report: Callable[[EnsembleProgress], None] | None = None,
    capture: bool = True,
    memory_limit: int | None = None,
) -> EnsembleHistory:
    """Train an ensemble in place, on its device and in its format.

    Args:
        ensemble: M models; their weights are the start, and in the end the result.
        x: inputs (N, τ[, d]), shared, or a bank (K, N, τ[, d]).
        y: targets (N, τ[, o]) or a bank (K, N, τ[, o]).
        protocol: how to train.
        mask: (N, τ), true at tokens that are there; others are neither seen nor learnt.
        choice: which entry of the banks each model has; the i-th has the i-th unless given.
        validation: (x, y) or (x, y, mask) of sequences held out, with the same ``choice``. The weights
            handed back are then each model's best at the reports.
        report: called at every report.
        capture: replay steps as a CUDA graph where there is a GPU.
        memory_limit: refuse what takes more bytes; what the device has, unless given.
    """
    protocol = protocol or EnsembleProtocol()
    data = sequences(ensemble, x, y, mask, choice)
    held_out = None
    if validation is not None:
        vx, vy, *vmask = validation
        held_out = sequences(ensemble, vx, vy, vmask[0] if vmask else None, choice)
    batch = min(protocol.batch_size, data.count)
    rows = rows_that_fit(ensemble, data.tau, batch, memory_limit)
    total = protocol.steps + (protocol.finish_steps if protocol.finish else 0)
    with _precision(protocol.precision), progress(ensemble.models, total) as tell:
        run = _Run(ensemble, data, held_out, protocol, rows)
        try:
            run.descend(capture, report, tell)
            if protocol.finish == "lbfgs":
                run.finish(capture, tell)
            return run.history()
        finally:
            run.packed.release()


@torch.no_grad()
def evaluate(
    ensemble: Ensemble,
    x: Any,
    y: Any,
    *,
    mask: Any = None,
    choice: Sequence[int] | None = None,
    rows: int = 1024,
) -> Tensor:
    """Return each model's mean squared error, (M,), ``rows`` sequences at a time."""
    return _mean_losses(ensemble, sequences(ensemble, x, y, mask, choice), rows)


class _Run:
    """The state of one training run."""

    def __init__(
        self,
        ensemble: Ensemble,
        data: Sequences,
        held_out: Sequences | None,
        protocol: EnsembleProtocol,
        rows: int,
    ) -> None:
        self.ensemble, self.data, self.held_out = ensemble, data, held_out
        self.protocol, self.rows = protocol, rows
        self.packed = PackedWeights(ensemble)
        weights, models = self.packed.values, ensemble.models
        self.adam = RowAdam(weights, protocol)
        self.total = weights.new_zeros(models, dtype=torch.float64)
        self.counted = torch.zeros_like(self.total)
        self.best = torch.full_like(self.total, torch.inf)
        self.milestone = self.best.clone()
        self.waiting = torch.zeros_like(self.adam.steps)
        self.best_weights = None if held_out is None else weights.clone()
        self.reports: list[tuple[int, Tensor, Tensor]] = []
        self.finish_losses: Tensor | None = None
        self.seconds = 0.0

    def descend(
        self,
        capture: bool,
        report: Callable[[EnsembleProgress], None] | None,
        tell: Callable[[int], None],
    ) -> None:
        """Take all steps of Adam, looking at the losses in between."""
        steps, device = self.protocol.steps, self.packed.values.device
        every = max(1, -(-steps // self.protocol.reports))
        order = _RowOrder(self.data.count, self.protocol)
        rows = order.next(every).to(device)
        place = torch.zeros(1, dtype=torch.long, device=device)

        def step() -> None:
            batch = self.data.take(rows.index_select(0, place.remainder(every)).squeeze(0))
            losses = batch.losses(self.ensemble(batch.x, batch.mask))
            self.packed.differentiate(losses)
            losses = losses.detach()
            self.adam.step(self.packed.values, self.packed.gradient, losses)
            self.total.add_(torch.where(self.adam.alive, losses, 0))
            self.counted.add_(self.adam.alive)
            place.add_(1)

        changed = [self.packed.values, self.packed.gradient, place, self.total, self.counted]
        advance = repeated(step, [*changed, *self.adam.state], capture and steps > 0)
        began = time.perf_counter()
        for done in range(0, steps, every):
            if done:
                rows.copy_(order.next(every))
                place.zero_()
            count = min(every, steps - done)
            advance(count)
            losses, training = self._look(done + count)
            self.seconds = time.perf_counter() - began
            tell(done + count)
            if report is not None:
                report(EnsembleProgress(done + count, steps, losses, training, self.seconds))
            if not bool(training.any()):
                break
        if self.best_weights is not None and self.reports:
            self.packed.values.copy_(self.best_weights)

    @torch.no_grad()
    def _look(self, step: int) -> tuple[Tensor, Tensor]:
        """Note the losses; keep what is best; stop models that no longer gain."""
        loss = self.total / self.counted  # not a number where a model has stopped
        judged = loss
        if self.held_out is not None:
            judged = _mean_losses(self.ensemble, self.held_out, self.rows).double()
            judged = torch.where(self.counted > 0, judged, torch.nan)
        better = judged < self.best
        self.best = torch.where(better, judged, self.best)
        if self.best_weights is not None:
            column = better.unsqueeze(1)
            self.best_weights = torch.where(column, self.packed.values, self.best_weights)
        gained = judged < self.milestone * (1 - self.protocol.least_gain)
        self.milestone = torch.where(gained, judged, self.milestone)
        self.waiting = torch.where(gained, 0, self.waiting + 1)
        if self.protocol.patience is not None:
            self.adam.alive.logical_and_(self.waiting < self.protocol.patience)
        self.total.zero_()
        self.counted.zero_()
        seen = torch.stack([loss, judged, self.adam.alive.to(loss)]).cpu()
        self.reports.append((step, seen[0], seen[1]))
        return seen[1], seen[2] > 0

    def finish(self, capture: bool, tell: Callable[[int], None]) -> None:
        """Minimise the full loss by L-BFGS; with a validation set keep the better of the two."""
        weights, gradient = self.packed.values, self.packed.gradient
        losses, total = weights.new_zeros(len(weights)), torch.zeros_like(gradient)
        limit = self.protocol.finish_rows or self.data.count
        parts = list(_parts(self.data, self.rows, limit))

        def full_loss() -> None:
            losses.zero_()
            total.zero_()
            for rows, share in parts:
                batch = self.data.take(rows)
                with torch.enable_grad():
                    part = share * batch.losses(self.ensemble(batch.x, batch.mask))
                    self.packed.differentiate(part)
                losses.add_(part.detach())
                total.add_(gradient)

        evaluated = repeated(full_loss, [losses, total, gradient], capture)

        def objective(at: Tensor) -> tuple[Tensor, Tensor]:
            weights.copy_(at)
            evaluated(1)
            return losses, total

        before = weights.clone()
        found = minimise(
            objective,
            before,
            self.protocol.finish_steps,
            self.protocol.finish_memory,
            self.adam.finite,
            lambda done: tell(self.protocol.steps + done),
        )
        self.finish_losses = found.losses.double().cpu()
        kept = found.weights
        if self.held_out is not None:
            after = self._losses_at(found.weights)
            kept = torch.where((after < self._losses_at(before)).unsqueeze(1), kept, before)
        weights.copy_(kept)

    def _losses_at(self, weights: Tensor) -> Tensor:
        self.packed.values.copy_(weights)
        return _mean_losses(self.ensemble, self.held_out or self.data, self.rows)

    def history(self) -> EnsembleHistory:
        """Return what was seen."""
        final = _mean_losses(self.ensemble, self.held_out or self.data, self.rows).double()
        empty = torch.zeros(self.ensemble.models, 0, dtype=torch.float64)
        trained = torch.stack([r[1] for r in self.reports], dim=1) if self.reports else empty
        judged = torch.stack([r[2] for r in self.reports], dim=1) if self.reports else empty
        return EnsembleHistory(
            losses=trained.numpy(),
            validation=None if self.held_out is None else judged.numpy(),
            report_steps=torch.tensor([r[0] for r in self.reports]).numpy(),
            steps=self.adam.steps.cpu().numpy(),
            best=self.best.cpu().numpy(),
            final=final.cpu().numpy(),
            diverged=~self.adam.finite.cpu().numpy(),
            finish=None if self.finish_losses is None else self.finish_losses.numpy(),
            seconds=self.seconds,
        )


class _RowOrder:
    """One permutation of the rows after another, cut into batches of one size."""

    def __init__(self, count: int, protocol: EnsembleProtocol) -> None:
        self.count, self.batch = count, min(protocol.batch_size, count)
        self.source = torch.Generator().manual_seed(protocol.seed)
        self.left = torch.empty(0, dtype=torch.long)

    def next(self, steps: int) -> Tensor:
        """Return the rows of the next steps, (steps, batch)."""
        needed = steps * self.batch
        parts, size = [self.left], len(self.left)
        while size < needed:
            parts.append(torch.randperm(self.count, generator=self.source))
            size += self.count
        rows = torch.cat(parts)
        self.left = rows[needed:]
        return rows[:needed].reshape(steps, self.batch)


def _parts(data: Sequences, rows: int, limit: int) -> Iterator[tuple[Tensor, float]]:
    """Yield the rows of pieces of the data, each with its share of the tokens."""
    count = min(limit, data.count)
    device = data.x.device
    whole = count * data.tau if data.mask is None else int(data.mask[:count].sum())
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        size = (stop - start) * data.tau if data.mask is None else int(data.mask[start:stop].sum())
        yield torch.arange(start, stop, device=device), size / whole


@torch.no_grad()
def _mean_losses(ensemble: Ensemble, data: Sequences, rows: int) -> Tensor:
    total: Tensor | None = None
    for piece, share in _parts(data, rows, data.count):
        batch = data.take(piece)
        losses = share * batch.losses(ensemble(batch.x, batch.mask))
        total = losses if total is None else total + losses
    assert total is not None
    return total


@contextmanager
def _precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
