"""An expansion on the CPU: monomials and their sums, block by block.

Blocks are larger than a core's own cache: calls of NumPy, which several threads make in turn, cost more
than what the shared cache is slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.core.matrix import Matrix
from exactformer.core.weights import dense
from exactformer.polynomials.run.closed_form import SHORT
from exactformer.polynomials.run.closed_form_cpu import one_thread
from exactformer.polynomials.run.compiled_run import Surface
from exactformer.polynomials.run.monomial_plan import Expansion

_BYTES, _FEWEST, _MOST = 2**23, 128, 2**14  # of a block's monomials; points of a block


class Expanded:
    """Points ``(N, d)`` to values ``(m, N)``; weights are the exact ones, rounded once."""

    def __init__(self, plan: Expansion, dtype: torch.dtype) -> None:
        self.plan, self.dtype = plan, dtype
        self.outputs = len(plan.readings[0].weights)
        self.weights = [
            torch.cat([dense(m, dtype, lambda i, j: "a coefficient") for m in reading.weights])
            for reading in plan.readings
        ]
        self.centre: NDArray[Any] | None = None
        if plan.centre:
            entries = {(j, 0): c for j, c in enumerate(plan.centre)}
            column = Matrix.of(len(plan.centre), 1, entries)
            self.centre = dense(column, dtype, lambda i, j: "the domain's centre").numpy()

    @torch.no_grad()
    def __call__(
        self, x: Tensor, dtype: torch.dtype, surface: Surface | None = None
    ) -> Tensor | None:
        """Evaluate in the weights' format at points of it or a narrower one; round to ``dtype``.

        None is returned where a surface is to be tested as well.
        """
        if surface is not None:
            return None
        rows = len(self.plan.monomials)
        size = min(_MOST, max(_FEWEST, _BYTES // (rows * self.dtype.itemsize)))
        values = x.new_empty((self.outputs, len(x)), dtype=dtype)
        room: _Workspace | None = None
        with one_thread():
            for block, result in zip(
                torch.split(x, size), torch.split(values, size, dim=1), strict=True
            ):
                if room is None or room.points != len(block):  # the first, and a shorter last one
                    room = _Workspace(self, len(block), block.shape[1])
                room.fill(block.to(self.dtype).numpy())
                result.copy_(room.read())
        return values


class _Workspace:
    """Room for the monomials of a block, and the views that are multiplied and added.

    NumPy does that: its calls begin several times sooner than torch's, which is what counts here.
    """

    def __init__(self, parent: Expanded, points: int, dimension: int) -> None:
        plan = parent.plan
        self.points, self.centre = points, parent.centre
        self.rows = parent.weights[0].new_empty(len(plan.monomials), points)
        self.values = self.rows.new_empty(parent.outputs, points)
        rows = self.rows.numpy()
        rows[0] = 1
        self.variables = rows[1 : 1 + dimension]
        self.products, end = [], 1 + dimension
        for j, first, last in plan.steps:
            begin, end = end, end + last - first
            self.products.append((rows[first:last], rows[j], rows[begin:end]))
        self.readings = []
        for weights, reading in zip(parent.weights, plan.readings, strict=True):
            sums = weights.new_empty(len(weights), points)
            columns = self.rows[reading.first : reading.first + weights.shape[1]]
            runs, begin = [], 0
            for output in self.values.numpy():
                for run in reading.runs:
                    part = sums.numpy()[begin : begin + run.count]
                    factors = None if run.first is None else rows[run.first : run.first + run.count]
                    runs.append(
                        (output, part, factors, None if run.outer is None else rows[run.outer])
                    )
                    begin += run.count
            self.readings.append((weights, columns, sums, runs))

    def fill(self, block: NDArray[Any]) -> None:
        """Compute the monomials at some points."""
        np.copyto(self.variables, block.T)
        if self.centre is not None:
            self.variables -= self.centre
        for factor, variable, product in self.products:
            np.multiply(factor, variable, out=product)

    def read(self) -> Tensor:
        """Return the outputs at these points."""
        self.values.zero_()
        for weights, columns, sums, runs in self.readings:
            torch.mm(weights, columns, out=sums)
            for output, part, factors, outer in runs:
                if factors is not None:
                    np.multiply(part, factors, out=part)
                total = _sum(part)
                if outer is not None:
                    np.multiply(total, outer, out=total)
                np.add(output, total, out=output)
        return self.values


def _sum(rows: NDArray[Any]) -> NDArray[Any]:
    """Sum the first axis in place: halves are added until few rows are left."""
    while (size := len(rows)) > SHORT:
        half = size // 2
        np.add(rows[:half], rows[size - half :], out=rows[:half])
        rows = rows[: size - half]
    total: NDArray[Any] = rows[0]
    for row in rows[1:]:
        np.add(total, row, out=total)
    return total
