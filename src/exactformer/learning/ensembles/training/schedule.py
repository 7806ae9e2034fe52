"""Learning rates step by step, as shares of the largest."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Schedule = Literal["one-cycle", "cosine", "constant"]


def rate_share(schedule: Schedule, step: int, steps: int, rise: float) -> float:
    """Return the share at a step, from 0; ``rise`` is how much of a cycle goes up."""
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return _cosine(1.0, 0.0, step / steps)
    top, end = rise * steps - 1, steps - 1
    if step <= top:
        return _cosine(1 / 25, 1.0, step / top) if top > 0 else 1.0
    return _cosine(1.0, 1 / 25e4, (step - top) / (end - top))


def warm_up(steps: int) -> Tensor:
    """Return all shares in float32: a straight rise over a tenth of the steps, a cosine to zero."""
    rise = max(1, steps // 10)
    time = torch.arange(steps, dtype=torch.float32)
    fall = ((time - rise) / max(1, steps - rise)).clamp(min=0)
    return torch.minimum((time + 1) / rise, (1 + torch.cos(torch.pi * fall)) / 2)


def _cosine(start: float, stop: float, share: float) -> float:
    return stop + (start - stop) * (1 + math.cos(math.pi * share)) / 2
