"""What training an ensemble saw, model by model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class EnsembleHistory:
    """Arrays in float64 with a first axis for the model.

    ``losses`` (M, R) are mean training losses since the report before, ``validation`` (M, R) those of
    the validation set, if there was one; they are not numbers after a model has stopped.
    ``report_steps`` (R,) says when. ``steps`` (M,) is how many steps each model trained, ``best`` (M,)
    the least reported loss (of validation, if there was one), ``final`` (M,) the loss of the weights
    handed back (on the validation set, else on all training sequences). ``diverged`` (M,): the loss
    left the finite numbers, and the model stopped before that. ``finish`` (M, F) are the full losses
    of the second-order finish, step by step.
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

    @property
    def model_steps_per_second(self) -> float:
        """Steps of all models together in a second of descent."""
        return float(self.steps.sum()) / self.seconds
