"""What tests of rules share: contexts, tensors, and whether a ball holds a tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from exactformer.core.formats import FORMATS, Arithmetic
from exactformer.verification.balls import Ball
from exactformer.verification.rules import Context

CPU = torch.device("cpu")
FLOAT32 = Arithmetic.of(FORMATS["float32"])


def context(arithmetic: Arithmetic = FLOAT32, axis: int | None = 0) -> Context:
    return Context(arithmetic, CPU, axis=axis)


def double(*values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def holds(ball: Ball, values: Tensor) -> bool:
    """Whether values lie inside, entry by entry and as tokens."""
    off = (values.double() - ball.c).abs()
    tokens = torch.linalg.vector_norm(off, dim=-1)
    return bool((off <= ball.radius).all() and (tokens <= ball.spread * (1 + 1e-12)).all())
