"""The settings of a training run, and the learning rate of every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

import torch
from torch import Tensor

from exactformer.core.options import choose, positive_integer
from exactformer.errors import InputError

Schedule = Literal["one-cycle", "cosine", "constant"]


@dataclass(frozen=True)
class EnsembleProtocol:
    """The settings of a training run.

    ``rate`` is the largest learning rate, of all models or of each. A "one-cycle" rises to it from a
    25th over the share ``rise`` of the steps and falls to a 250,000th, as PyTorch's ``OneCycleLR`` with
    a constant momentum; "cosine" only falls, to zero. ``clip`` is the largest norm of a model's
    gradient; ``weight_decay`` makes Adam into AdamW.

    Losses are reported ``reports`` times. With ``patience``, a model stops after so many reports in a
    row that did not lower its best loss by the share ``least_gain``: the loss of the validation set, or
    without one the mean training loss since the last report.

    ``finish`` = "lbfgs" adds up to ``finish_steps`` steps of L-BFGS on the first ``finish_rows``
    training sequences (all, unless given), from ``finish_memory`` pairs of curvature.

    ``precision`` "highest" multiplies float32 as such, "high" lets a GPU round factors to TF32.
    """

    steps: int = 10_000
    batch_size: int = 256
    rate: float | tuple[float, ...] = 1e-3
    schedule: Schedule = "one-cycle"
    rise: float = 0.3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None
    reports: int = 50
    patience: int | None = None
    least_gain: float = 0.0
    seed: int = 0
    finish: Literal["lbfgs"] | None = None
    finish_steps: int = 200
    finish_memory: int = 10
    finish_rows: int | None = None
    precision: Literal["highest", "high"] = "highest"

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        least = {"steps": 0, "finish_steps": 0, "batch_size": 1, "reports": 1, "finish_memory": 1}
        if_given = [name for name in ("patience", "finish_rows") if getattr(self, name) is not None]
        for name in (*least, *if_given):
            positive_integer(getattr(self, name), name, least.get(name, 1))
        if self.clip is not None and not self.clip > 0:
            raise InputError(f"clip is {self.clip}; a gradient's norm is cut to a positive number.")
        rates = self.rate if isinstance(self.rate, tuple) else (self.rate,)
        if not all(isinstance(rate, Real) and 0 <= rate < math.inf for rate in rates):
            raise InputError(
                f"rate is {self.rate}; it must be a number from 0 on, or a tuple of them."
            )
        if len(self.betas) != 2 or not all(0 < beta < 1 for beta in self.betas):
            raise InputError(f"betas are {self.betas}; there are two, both between 0 and 1.")
        choose("precision", self.precision, ("highest", "high"))
        choose("schedule", self.schedule, get_args(Schedule))
        if self.finish is not None:
            choose("finish", self.finish, ("lbfgs",))

    def rate_table(self, models: int) -> Tensor:
        """Return the learning rate of every step and model, (steps, M) in float64."""
        rates = self.rate if isinstance(self.rate, tuple) else (self.rate,) * models
        if len(rates) != models:
            raise InputError(f"rate has {len(rates)} entries for {models} models.")
        shares = [
            _rate_share(self.schedule, step, self.steps, self.rise) for step in range(self.steps)
        ]
        return torch.tensor(shares, dtype=torch.float64)[:, None] * torch.tensor(
            rates, dtype=torch.float64
        )


def _rate_share(schedule: Schedule, step: int, steps: int, rise: float) -> float:
    """Return the rate at a step, from 0, as a share of the largest; ``rise`` of a cycle goes up."""
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return _cosine(1.0, 0.0, step / steps)
    top, end = rise * steps - 1, steps - 1
    if step <= top:
        return _cosine(1 / 25, 1.0, step / top) if top > 0 else 1.0
    return _cosine(1.0, 1 / 25e4, (step - top) / (end - top))


def warm_up(steps: int) -> Tensor:
    """Return all rates as shares, in float32: up over a tenth of the steps, by a cosine to zero."""
    rise = max(1, steps // 10)
    time = torch.arange(steps, dtype=torch.float32)
    fall = ((time - rise) / max(1, steps - rise)).clamp(min=0)
    return torch.minimum((time + 1) / rise, (1 + torch.cos(torch.pi * fall)) / 2)


def _cosine(start: float, stop: float, share: float) -> float:
    return stop + (start - stop) * (1 + math.cos(math.pi * share)) / 2
