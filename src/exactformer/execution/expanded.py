"""An expansion on the CPU: monomials and their sums, block by block in a core's cache."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from exactformer.blueprint import Matrix
from exactformer.execution.expanding import Expansion
from exactformer.execution.fused_blocks import one_thread, sum_rows
from exactformer.execution.weights import dense

_BYTES, _FEWEST, _MOST = 2**20, 128, 2**13  # of a block's monomials; points of a block


class Expanded:
    """Points ``(N, d)`` to values ``(m, N)``; weights are the exact ones, rounded once."""

    def __init__(self, plan: Expansion, dtype: torch.dtype) -> None:
        tables = [dense(m, dtype, lambda i, j: "a coefficient") for m in plan.weights]
        self.weights = torch.cat(tables)
        self.steps, self.low, self.rows = plan.steps, plan.low, len(plan.monomials)
        self.outputs = len(tables)
        self.centre: Tensor | None = None
        if plan.centre:
            column = Matrix.of(len(plan.centre), 1, {(j, 0): c for j, c in enumerate(plan.centre)})
            self.centre = dense(column, dtype, lambda i, j: "the domain's centre")

    @torch.no_grad()
    def __call__(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Evaluate in the weights' format at points of it or a narrower one; round to ``dtype``."""
        size = min(_MOST, max(_FEWEST, _BYTES // (self.rows * self.weights.itemsize)))
        values = torch.empty((self.outputs, len(x)), dtype=dtype)
        part: _Workspace | None = None
        with one_thread():
            for block, result in zip(
                torch.split(x, size), torch.split(values, size, dim=1), strict=True
            ):
                if part is None or part.points != len(block):  # the first, and a shorter last one
                    part = _Workspace(self, len(block), block.shape[1])
                part.fill(block.to(self.weights.dtype), self.centre)
                torch.mm(self.weights, part.rows, out=part.sums)
                if not self.low:
                    result.copy_(part.sums)
                    continue
                low = part.rows[: self.low]
                for output, own in zip(result, torch.split(part.sums, self.low), strict=True):
                    output.copy_(sum_rows(own.mul_(low)))
        return values


class _Workspace:
    """Room for the monomials of a block, and the views that its steps multiply.

    NumPy multiplies: its calls begin several times sooner than torch's, which is what counts here.
    """

    def __init__(self, plan: Expanded, points: int, dimension: int) -> None:
        self.points = points
        self.rows = plan.weights.new_empty(plan.rows, points)
        self.sums = plan.weights.new_empty(len(plan.weights), points)
        rows = self.rows.numpy()
        rows[0] = 1
        self.variables = rows[1 : 1 + dimension]
        self.products, end = [], 1 + dimension
        for j, first, last in plan.steps:
            begin, end = end, end + last - first
            self.products.append((rows[first:last], rows[j], rows[begin:end]))

    def fill(self, block: Tensor, centre: Tensor | None) -> None:
        """Compute the monomials at some points."""
        np.copyto(self.variables, block.numpy().T)
        if centre is not None:
            self.variables -= centre.numpy()
        for factor, variable, product in self.products:
            np.multiply(factor, variable, out=product)
