"""One run of a module in place of its balls: measured, and called so."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exactformer.core.formats import REAL
from exactformer.verification.balls import Ball
from exactformer.verification.engine import Engine
from exactformer.verification.graph import Graph


class Measured(Engine):
    """Logits as this machine computes them, with radii of zero."""

    def __init__(self, module: nn.Module, graph: Graph, device: torch.device) -> None:
        self.module, self.graph, self.arithmetic, self.device = module, graph, REAL, device

    def __call__(self, ids: Tensor, ctx: Any = None, observe: Any = None) -> Ball:
        """Run the module."""
        with torch.no_grad():
            return Ball(self.module(ids).to(torch.float64))
