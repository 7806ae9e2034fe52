"""Looking at the losses now and then: what is best, and who no longer gains."""

from __future__ import annotations

import torch
from torch import Tensor

from exactformer.learning.ensembles.data import Sequences
from exactformer.learning.ensembles.evaluation import mean_losses
from exactformer.learning.ensembles.models.base import Ensemble
from exactformer.learning.ensembles.training.adam import RowAdam
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol


class Judge:
    """Every model's losses since the last look, its least loss so far and the weights that had it.

    Models are judged by the validation set if there is one, else by the mean training loss since the
    last look; best weights are kept in the first case only, as in the second the loss belongs to
    weights that have changed meanwhile.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        weights: Tensor,
        held_out: Sequences | None,
        protocol: EnsembleProtocol,
    ) -> None:
        self.ensemble, self.held_out, self.protocol = ensemble, held_out, protocol
        self.total = weights.new_zeros(ensemble.models, dtype=torch.float64)
        self.counted = torch.zeros_like(self.total)
        self.best = torch.full_like(self.total, torch.inf)
        self.best_weights = None if held_out is None else weights.clone()
        self._to_beat = self.best.clone()
        self._waiting = torch.zeros_like(self.total)

    @property
    def state(self) -> list[Tensor]:
        """What a step changes."""
        return [self.total, self.counted]

    def hear(self, losses: Tensor, alive: Tensor) -> None:
        """Note the losses of one step."""
        self.total.add_(torch.where(alive, losses, 0))
        self.counted.add_(alive)

    @torch.no_grad()
    def look(self, weights: Tensor, adam: RowAdam, rows: int) -> tuple[Tensor, Tensor]:
        """Return training and judged losses (M,); stop those that have waited long enough."""
        trained = self.total / self.counted  # not a number where a model had stopped before
        judged = trained
        if self.held_out is not None:
            judged = mean_losses(self.ensemble, self.held_out, rows).double()
            judged = torch.where(self.counted > 0, judged, torch.nan)
        better = judged < self.best
        self.best = torch.where(better, judged, self.best)
        if self.best_weights is not None:
            self.best_weights = torch.where(better.unsqueeze(1), weights, self.best_weights)
        gained = judged < self._to_beat * (1 - self.protocol.least_gain)
        self._to_beat = torch.where(gained, judged, self._to_beat)
        self._waiting = torch.where(gained, 0, self._waiting + 1)
        if self.protocol.patience is not None:
            adam.alive.logical_and_(self._waiting < self.protocol.patience)
        self.total.zero_()
        self.counted.zero_()
        return trained, judged
