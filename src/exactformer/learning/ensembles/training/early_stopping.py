"""Early stopping: each model's best loss so far, and which models no longer gain."""

from __future__ import annotations

import torch
from torch import Tensor

from exactformer.learning.ensembles.data import Sequences, mean_losses
from exactformer.learning.ensembles.models.base import Ensemble
from exactformer.learning.ensembles.training.adam import RowAdam
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol


class EarlyStopping:
    """Every model's losses since the last report, its least loss so far and the weights that had it.

    A model's score is its loss on the validation set if there is one, else its mean training loss since
    the last report. Best weights are kept in the first case only: in the second, the loss belongs to
    weights that have changed since.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        weights: Tensor,
        validation: Sequences | None,
        protocol: EnsembleProtocol,
    ) -> None:
        self.ensemble, self.validation, self.protocol = ensemble, validation, protocol
        self.total = weights.new_zeros(ensemble.models, dtype=torch.float64)
        self.counted = torch.zeros_like(self.total)
        self.best = torch.full_like(self.total, torch.inf)
        self.best_weights = None if validation is None else weights.clone()
        self._to_beat = self.best.clone()
        self._waiting = torch.zeros_like(self.total)

    def record(self, losses: Tensor, alive: Tensor) -> None:
        """Add the losses of one step."""
        self.total.add_(torch.where(alive, losses, 0))
        self.counted.add_(alive)

    @torch.no_grad()
    def report(self, weights: Tensor, adam: RowAdam, rows: int) -> tuple[Tensor, Tensor]:
        """Return training losses and scores (M,); stop the models whose patience has run out."""
        trained = self.total / self.counted  # not a number where a model had stopped before
        scores = trained
        if self.validation is not None:
            scores = mean_losses(self.ensemble, self.validation, rows).double()
            scores = torch.where(self.counted > 0, scores, torch.nan)
        better = scores < self.best
        self.best = torch.where(better, scores, self.best)
        if self.best_weights is not None:
            self.best_weights = torch.where(better.unsqueeze(1), weights, self.best_weights)
        gained = scores < self._to_beat * (1 - self.protocol.least_gain)
        self._to_beat = torch.where(gained, scores, self._to_beat)
        self._waiting = torch.where(gained, 0, self._waiting + 1)
        if self.protocol.patience is not None:
            adam.alive.logical_and_(self._waiting < self.protocol.patience)
        self.total.zero_()
        self.counted.zero_()
        return trained, scores
