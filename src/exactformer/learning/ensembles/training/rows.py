"""The order in which all models see the rows."""

from __future__ import annotations

import torch
from torch import Tensor


class RowOrder:
    """One permutation of the rows after another, cut into batches of one size.

    Every row comes once in ``count`` places, whether or not batches divide them; the order depends
    on the seed alone, not on the device or on how many models learn.
    """

    def __init__(self, count: int, batch: int, seed: int) -> None:
        self.count, self.batch = count, batch
        self._source = torch.Generator().manual_seed(seed)
        self._left = torch.empty(0, dtype=torch.long)

    def next(self, steps: int) -> Tensor:
        """Return the rows of the next steps, (steps, batch)."""
        needed = steps * self.batch
        epochs = -(-max(0, needed - len(self._left)) // self.count)
        drawn = [torch.randperm(self.count, generator=self._source) for _ in range(epochs)]
        rows = torch.cat([self._left, *drawn])
        self._left = rows[needed:]
        return rows[:needed].view(steps, self.batch)
