"""The second-order finish: L-BFGS on the full loss, all models at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from exactformer.learning.ensembles.data import Sequences
from exactformer.learning.ensembles.evaluation import parts
from exactformer.learning.ensembles.models.base import Ensemble
from exactformer.learning.ensembles.training.capture import repeated
from exactformer.learning.ensembles.training.lbfgs import Minimum, Objective, minimise
from exactformer.learning.ensembles.training.packing import PackedWeights
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol


def finish(
    ensemble: Ensemble,
    packed: PackedWeights,
    data: Sequences,
    protocol: EnsembleProtocol,
    sound: Tensor,
    rows: int,
    capture: bool,
    tell: Callable[[int], None],
) -> Minimum:
    """Minimise the loss over the training sequences from the packed weights, where ``sound`` (M,)."""
    count = min(protocol.finish_rows or data.count, data.count)
    objective = _full_loss(ensemble, packed, data, rows, count, capture)
    steps, memory = protocol.finish_steps, protocol.finish_memory
    return minimise(objective, packed.values.clone(), steps, memory, sound, tell)


def _full_loss(
    ensemble: Ensemble, packed: PackedWeights, data: Sequences, rows: int, count: int, capture: bool
) -> Objective:
    """Return the function from weights (M, P) to losses and gradients over ``count`` rows."""
    losses, gradient = packed.values.new_zeros(ensemble.models), torch.zeros_like(packed.gradient)
    pieces = list(parts(data, rows, count))

    def evaluate() -> None:
        losses.zero_()
        gradient.zero_()
        for piece, share in pieces:
            batch = data.take(piece)
            with torch.enable_grad():
                part = share * batch.losses(ensemble(batch.x, batch.mask))
                packed.differentiate(part)
            losses.add_(part.detach())
            gradient.add_(packed.gradient)

    evaluated = repeated(evaluate, [losses, gradient, packed.gradient], capture)

    def objective(weights: Tensor) -> tuple[Tensor, Tensor]:
        packed.values.copy_(weights)
        evaluated(1)
        return losses, gradient

    return objective
