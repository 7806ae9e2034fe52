"""Training as in section 5 of the paper: SGD, one cycle of the learning rate, clipped gradients.

The data stay on the device, batches are drawn there, and nothing waits for the device but a few
reports. A run that stops can go on from its checkpoint and ends with the same bits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.errors import ExactformerError, FileFormatError
from exactformer.learning.laws.trained.network import count_parameters
from exactformer.learning.threads import one_torch_thread


class DivergenceError(ExactformerError):
    """Training left the finite numbers."""


@dataclass(frozen=True)
class TrainingProtocol:
    """The settings of a training run. The defaults are the paper's for f₂*.

    The paper leaves two of them out. ``clip`` is the largest norm of the gradient. ``momentum`` is
    constant unless ``cycled``: then it falls from 0.95 to 0.85 and rises again against the learning
    rate, as in the one-cycle policy the paper cites and as PyTorch's schedule does by itself.

    ``tolerance`` stops early when the training error has not fallen by that share over a tenth of
    the epochs.
    """

    epochs: int = 2000
    batch_size: int = 25_000
    initial_rate: float = 1e-4
    max_rate: float = 1e-3
    clip: float | None = 10.0
    momentum: float = 0.0
    cycled: bool = True
    tolerance: float | None = None


@dataclass(frozen=True)
class Progress:
    """One report: epochs done and to do, the last epoch's training error, seconds gone."""

    epoch: int
    epochs: int
    train_mse: float
    seconds: float


@dataclass(frozen=True)
class History:
    """What training saw. ``train_mse`` has one entry for each epoch."""

    train_mse: list[float]
    seconds: float
    diverged: bool

    def converged(self, change: float = 0.01) -> int | None:
        """Return the first epoch that changes the training error by less: the paper's rule."""
        for epoch in range(1, len(self.train_mse)):
            if abs(self.train_mse[epoch] - self.train_mse[epoch - 1]) < change:
                return epoch + 1
        return None


@dataclass(frozen=True)
class Points:
    """Rows ``x`` (N, d), labels ``y`` (N,), and weights if they differ."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> Points:
        """Return the points on a device."""
        weight = None if self.weight is None else self.weight.to(device, dtype)
        return Points(self.x.to(device, dtype), self.y.to(device, dtype), weight)


def train(
    network: nn.Module,
    points: Points,
    protocol: TrainingProtocol,
    *,
    seed: int = 0,
    checkpoint: Path | None = None,
    report: Callable[[Progress], None] | None = None,
    reports: int = 50,
) -> History:
    """Train ``network`` in place, on the device and in the type of its parameters.

    With ``checkpoint``, the run is saved at every report and goes on from the file if there is one.
    Divergence ends the run; the history records it.
    """
    run, epochs = _Run(network, points, protocol, seed), protocol.epochs
    every = max(1, epochs // max(1, reports))
    with one_torch_thread(run.products):
        if checkpoint is not None and checkpoint.exists():
            run.load(checkpoint)
        began, spent = time.perf_counter(), run.seconds
        while run.epoch < epochs:
            run.one_epoch()
            if run.epoch % every and run.epoch < epochs:
                continue
            run.synchronise()
            run.seconds = spent + time.perf_counter() - began
            if report is not None:
                report(Progress(run.epoch, epochs, run.train[-1], run.seconds))
            if checkpoint is not None:
                run.save(checkpoint)
            if run.diverged or run.settled():
                break
        run.synchronise()
    return History(run.train, run.seconds, run.diverged)


class _Run:
    """The state of a training run: everything that has to be the same after a stop."""

    def __init__(
        self, network: nn.Module, points: Points, protocol: TrainingProtocol, seed: int
    ) -> None:
        parameter = next(network.parameters())
        self.network, self.protocol, self.device = network, protocol, parameter.device
        self.points = points.to(parameter.device, parameter.dtype)
        self.batches = -(-len(points.x) // protocol.batch_size)
        self.optimiser = torch.optim.SGD(
            network.parameters(), lr=protocol.initial_rate, momentum=protocol.momentum
        )
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser,
            max_lr=protocol.max_rate,
            total_steps=protocol.epochs * self.batches + 1,
            div_factor=protocol.max_rate / protocol.initial_rate,
            cycle_momentum=protocol.cycled,
        )
        self.generator = torch.Generator(device=parameter.device).manual_seed(seed)
        self.products = count_parameters(network) * min(protocol.batch_size, len(points.x))
        self.epoch, self.seconds = 0, 0.0
        self.train: list[float] = []
        self.pending: list[Tensor] = []
        self.identity = {
            **asdict(protocol),
            "seed": seed,
            "data": _fingerprint(points.x, points.y, points.weight),
            "start": _fingerprint(*network.parameters()),
        }

    def one_epoch(self) -> None:
        """Go once through the rows in a fresh order, leaving the errors on the device."""
        order = torch.randperm(len(self.points.x), generator=self.generator, device=self.device)
        total = self.points.y.new_zeros(2)
        for rows in torch.split(order, self.protocol.batch_size):
            squares = (self.network(self.points.x[rows]) - self.points.y[rows]) ** 2
            if self.points.weight is None:
                square, count = squares.sum(), squares.new_full((), len(squares))
            else:
                weight = self.points.weight[rows]
                square, count = (weight * squares).sum(), weight.sum()
            self.optimiser.zero_grad(set_to_none=True)
            (square / count).backward()
            if self.protocol.clip is not None:
                nn.utils.clip_grad_norm_(self.network.parameters(), self.protocol.clip)
            self.optimiser.step()
            self.schedule.step()
            total += torch.stack([square.detach(), count])
        self.pending.append(total[0] / total[1])
        self.epoch += 1

    def synchronise(self) -> None:
        """Bring the errors of the epochs since the last report over from the device."""
        if self.pending:
            self.train += torch.stack(self.pending).double().cpu().tolist()
            self.pending = []

    @property
    def diverged(self) -> bool:
        """Whether an error is no longer a finite number."""
        return bool(self.train) and not torch.tensor(self.train[-1]).isfinite().item()

    def settled(self) -> bool:
        """Whether the training error has stopped falling, by the protocol's tolerance."""
        window = max(1, self.protocol.epochs // 10)
        if self.protocol.tolerance is None or len(self.train) < 2 * window:
            return False
        recent = sum(self.train[-window:])
        before = sum(self.train[-2 * window : -window])
        return before - recent < self.protocol.tolerance * before

    def save(self, path: Path) -> None:
        """Write the state beside ``path`` and move it there, so that no half file is left."""
        state = {
            "identity": self.identity,
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "generator": self.generator.get_state(),
            "epoch": self.epoch,
            "seconds": self.seconds,
            "train": self.train,
        }
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        torch.save(state, beside)
        os.replace(beside, path)

    def load(self, path: Path) -> None:
        """Go on from a saved state of this very run."""
        try:
            state: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
        except Exception as error:
            raise FileFormatError(f"{path} is not a checkpoint: {error}") from error
        if state.get("identity") != self.identity:
            changed = sorted(k for k, v in self.identity.items() if state["identity"].get(k) != v)
            raise FileFormatError(
                f"{path} belongs to another run (it differs in {', '.join(changed)}); "
                "remove the file or give another"
            )
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.generator.set_state(state["generator"].cpu())
        self.epoch, self.seconds, self.train = state["epoch"], state["seconds"], state["train"]


def _fingerprint(*tensors: Tensor | None) -> str:
    digest = sha256()
    for tensor in tensors:
        if tensor is not None:
            digest.update(repr(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().double().cpu().numpy().tobytes())
    return digest.hexdigest()
