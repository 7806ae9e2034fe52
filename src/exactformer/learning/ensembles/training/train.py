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

from exactformer.errors import InputError
from exactformer.learning.ensembles.data import Sequences, sequences
from exactformer.learning.ensembles.evaluation import mean_losses
from exactformer.learning.ensembles.models.base import Ensemble
from exactformer.learning.ensembles.training.adam import RowAdam
from exactformer.learning.ensembles.training.capture import repeated
from exactformer.learning.ensembles.training.finishing import finish
from exactformer.learning.ensembles.training.history import EnsembleHistory
from exactformer.learning.ensembles.training.judging import Judge
from exactformer.learning.ensembles.training.memory import rows_that_fit
from exactformer.learning.ensembles.training.packing import PackedWeights
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol
from exactformer.learning.ensembles.training.rows import RowOrder
from exactformer.progress import progress


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
        _precision(protocol.precision),
        progress(f"{ensemble.models} models", total, unit="steps") as tell,
    ):
        run = _Run(ensemble, data, held_out, protocol, rows)
        try:
            run.descend(capture, report, tell)
            if protocol.finish == "lbfgs":
                run.finish(capture, tell)
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
        self.judge = Judge(ensemble, self.packed.values, held_out, protocol)
        self.seen: list[tuple[int, Tensor, Tensor]] = []
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
        if not steps:
            return
        every = -(-steps // self.protocol.reports)
        batch_size = min(self.protocol.batch_size, self.data.count)
        order = RowOrder(self.data.count, batch_size, self.protocol.seed)
        rows = order.next(every).to(device)
        place = torch.zeros(1, dtype=torch.long, device=device)

        def step() -> None:
            batch = self.data.take(rows.index_select(0, place.remainder(every)).squeeze(0))
            losses = batch.losses(self.ensemble(batch.x, batch.mask))
            self.packed.differentiate(losses)
            self.adam.step(self.packed.values, self.packed.gradient, losses.detach())
            self.judge.hear(losses.detach(), self.adam.alive)
            place.add_(1)

        state = [*self.packed.state, *self.adam.state, *self.judge.state, place]
        advance = repeated(step, state, capture)
        began = time.perf_counter()
        for start in range(0, steps, every):
            if start:
                rows.copy_(order.next(every))
            done = min(start + every, steps)
            advance(done - start)
            trained, judged = self.judge.look(self.packed.values, self.adam, self.rows)
            trained, judged, training = torch.stack([trained, judged, self.adam.alive]).cpu()
            self.seen.append((done, trained, judged))
            self.seconds = time.perf_counter() - began
            tell(done)
            if report is not None:
                report(EnsembleProgress(done, steps, judged, training > 0, self.seconds))
            if not bool(training.any()):
                break
        if self.judge.best_weights is not None:
            self.packed.values.copy_(self.judge.best_weights)

    def finish(self, capture: bool, tell: Callable[[int], None]) -> None:
        """Minimise the full loss; with a validation set, keep what is better there."""
        before, loss_before = self.packed.values.clone(), self._losses()
        found = finish(
            self.ensemble,
            self.packed,
            self.data,
            self.protocol,
            self.adam.finite,
            self.rows,
            capture,
            lambda done: tell(self.protocol.steps + done),
        )
        self.finish_losses = found.losses.double().cpu()
        self.packed.values.copy_(found.weights)
        if self.held_out is not None:
            worse = ~(self._losses() < loss_before).unsqueeze(1)
            self.packed.values.copy_(torch.where(worse, before, found.weights))

    def history(self) -> EnsembleHistory:
        """Return what was seen."""
        none = torch.zeros(self.ensemble.models, 0, dtype=torch.float64)
        trained = torch.stack([s[1] for s in self.seen], dim=1) if self.seen else none
        judged = torch.stack([s[2] for s in self.seen], dim=1) if self.seen else none
        return EnsembleHistory(
            losses=trained.numpy(),
            validation=None if self.held_out is None else judged.numpy(),
            report_steps=torch.tensor([s[0] for s in self.seen], dtype=torch.long).numpy(),
            steps=self.adam.steps.cpu().numpy(),
            best=self.judge.best.cpu().numpy(),
            final=self._losses().double().cpu().numpy(),
            diverged=~self.adam.finite.cpu().numpy(),
            finish=None if self.finish_losses is None else self.finish_losses.numpy(),
            seconds=self.seconds,
        )

    def _losses(self) -> Tensor:
        """Return the losses of the weights as they are, of validation if there is any."""
        return mean_losses(self.ensemble, self.held_out or self.data, self.rows)


@contextmanager
def _precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
