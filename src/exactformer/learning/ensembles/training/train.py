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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.errors import InputError
from exactformer.learning.ensembles.data import RowOrder, Sequences, mean_losses, parts, sequences
from exactformer.learning.ensembles.models.base import Ensemble, generators
from exactformer.learning.ensembles.training.adam import RowAdam
from exactformer.learning.ensembles.training.early_stopping import EarlyStopping
from exactformer.learning.ensembles.training.lbfgs import Objective, minimise
from exactformer.learning.ensembles.training.memory import rows_that_fit
from exactformer.learning.ensembles.training.packed_weights import PackedWeights
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol
from exactformer.progress import Update, progress


@dataclass(frozen=True)
class EnsembleProgress:
    """One report: steps done and to do, each model's loss, which still train, seconds gone."""

    step: int
    steps: int
    losses: Tensor
    training: Tensor
    seconds: float


@dataclass(frozen=True)
class EnsembleHistory:
    """Losses in float64, with a first axis for the model.

    ``losses`` (M, R) are mean training losses since the report before, ``validation`` (M, R) those of
    the validation set, if there was one; they are NaN after a model has stopped. ``report_steps`` (R,)
    are the steps of the reports, ``steps`` (M,) how many each model trained. ``best`` (M,) is the least
    reported loss (of validation, if there was one), ``final`` (M,) the loss of the returned weights (on
    the validation set, else on all training sequences). ``diverged`` (M,): the loss left the finite
    numbers, and the model stopped before that. ``finish`` (M, F) are the full losses of the
    second-order finish, step by step.
    """

    losses: NDArray[Any]
    validation: NDArray[Any] | None
    report_steps: NDArray[Any]
    steps: NDArray[Any]
    best: NDArray[Any]
    final: NDArray[Any]
    diverged: NDArray[Any]
    finish: NDArray[Any] | None
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
        memory_limit: refuse what takes more bytes; what the device has, unless given.
    """
    protocol = protocol or EnsembleProtocol()
    data = sequences(ensemble, x, y, mask, choice)
    held_out = None
    if validation is not None:
        if len(validation) not in (2, 3):
            raise InputError(
                f"validation is (x, y) or (x, y, mask), not {len(validation)} of them."
            )
        vx, vy, *vmask = validation
        held_out = sequences(ensemble, vx, vy, vmask[0] if vmask else None, choice)
    batch = min(protocol.batch_size, data.count)
    rows = rows_that_fit(ensemble, protocol, data.tau, batch, memory_limit)
    total = protocol.steps + (protocol.finish_steps if protocol.finish else 0)
    with (
        product_precision(protocol.precision),
        progress(f"{ensemble.models} models", total, unit="steps") as update,
    ):
        run = _Run(ensemble, data, held_out, protocol, rows)
        try:
            run.descend(report, update)
            if protocol.finish == "lbfgs":
                run.finish(update)
            return run.history()
        finally:
            run.packed.release()


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
        self.adam = RowAdam(self.packed.values, protocol)
        self.stopping = EarlyStopping(ensemble, self.packed.values, held_out, protocol)
        self.reports: list[tuple[int, Tensor, Tensor]] = []
        self.finish_losses: Tensor | None = None
        self.seconds = 0.0

    def descend(
        self,
        report: Callable[[EnsembleProgress], None] | None,
        update: Update,
    ) -> None:
        """Take all steps of Adam, with reports in between."""
        steps, device = self.protocol.steps, self.packed.values.device
        if not steps:
            return
        every = -(-steps // self.protocol.reports)
        batch_size = min(self.protocol.batch_size, self.data.count)
        order = RowOrder(self.data.count, batch_size, *generators([self.protocol.seed]))
        rows = order.next(every).to(device)
        place = torch.zeros(1, dtype=torch.long, device=device)

        def step() -> None:
            batch = rows.index_select(0, place.remainder(every)).squeeze(0)
            losses = self.data.losses(self.ensemble, batch)
            self.packed.differentiate(losses)
            self.adam.step(self.packed.values, self.packed.gradient, losses.detach())
            self.stopping.record(losses.detach(), self.adam.alive)
            place.add_(1)

        began = time.perf_counter()
        for start in range(0, steps, every):
            if start:
                rows.copy_(order.next(every))
            done = min(start + every, steps)
            for _ in range(start, done):
                step()
            trained, scores = self.stopping.report(self.packed.values, self.adam, self.rows)
            trained, scores, training = torch.stack([trained, scores, self.adam.alive]).cpu()
            self.reports.append((done, trained, scores))
            self.seconds = time.perf_counter() - began
            update(done)
            if report is not None:
                report(EnsembleProgress(done, steps, scores, training > 0, self.seconds))
            if not bool(training.any()):
                break
        if self.stopping.best_weights is not None:
            self.packed.values.copy_(self.stopping.best_weights)

    def finish(self, update: Update) -> None:
        """Minimise the full loss by L-BFGS; with a validation set, keep what is better there."""
        before, loss_before = self.packed.values.clone(), self._losses()
        minimum = minimise(
            self._full_loss(),
            before.clone(),
            self.protocol.finish_steps,
            self.protocol.finish_memory,
            self.adam.finite,
            lambda done: update(self.protocol.steps + done),
        )
        self.finish_losses = minimum.losses.double().cpu()
        self.packed.values.copy_(minimum.weights)
        if self.held_out is not None:
            worse = ~(self._losses() < loss_before).unsqueeze(1)
            self.packed.values.copy_(torch.where(worse, before, minimum.weights))

    def _full_loss(self) -> Objective:
        """Return the function from weights (M, P) to losses and gradients over the finish's rows."""
        packed = self.packed
        losses = packed.values.new_zeros(self.ensemble.models)
        gradient = torch.zeros_like(packed.gradient)
        count = min(self.protocol.finish_rows or self.data.count, self.data.count)
        pieces = list(parts(self.data, self.rows, count))

        def objective(weights: Tensor) -> tuple[Tensor, Tensor]:
            packed.values.copy_(weights)
            losses.zero_()
            gradient.zero_()
            for piece, share in pieces:
                with torch.enable_grad():
                    part = share * self.data.losses(self.ensemble, piece)
                    packed.differentiate(part)
                losses.add_(part.detach())
                gradient.add_(packed.gradient)
            return losses, gradient

        return objective

    def history(self) -> EnsembleHistory:
        """Return the losses of the run."""
        none = torch.zeros(2, self.ensemble.models, 0, dtype=torch.float64)
        columns = [torch.stack(report[1:])[..., None] for report in self.reports]
        losses, scores = torch.cat([none, *columns], dim=2).numpy()
        return EnsembleHistory(
            losses=losses,
            validation=None if self.held_out is None else scores,
            report_steps=np.array([step for step, *_ in self.reports], dtype=np.int64),
            steps=self.adam.steps.cpu().numpy(),
            best=self.stopping.best.cpu().numpy(),
            final=self._losses().double().cpu().numpy(),
            diverged=~self.adam.finite.cpu().numpy(),
            finish=None if self.finish_losses is None else self.finish_losses.numpy(),
            seconds=self.seconds,
        )

    def _losses(self) -> Tensor:
        """Return the losses of the weights as they are, of validation if there is any."""
        return mean_losses(self.ensemble, self.held_out or self.data, self.rows)


@contextmanager
def product_precision(name: str) -> Iterator[None]:
    """Multiply float32 as such ("highest"), or let a GPU round factors ("high"), for a while."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
