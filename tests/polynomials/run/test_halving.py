"""Sums by halving: they are sums, and no term meets more additions than the bounds count."""

from __future__ import annotations

from math import ceil, log2

import pytest
import torch

from exactformer.polynomials.run.halving import additions, halving_sum


class Depth(torch.Tensor):
    """x + y = 1 + max(x, y): how many additions a term has been through."""

    def __add__(self, other: torch.Tensor) -> torch.Tensor:
        return 1 + torch.maximum(self.as_subclass(torch.Tensor), other).as_subclass(Depth)

    def sum(self, *args: object, **options: object) -> torch.Tensor:  # type: ignore[override]
        """Refuse: its order is the device's."""
        raise AssertionError("this sum has no fixed order")


@pytest.mark.parametrize("first", [True, False])
def test_no_term_meets_more_additions_than_are_counted(first: bool) -> None:
    for size in (*range(1, 301), 511, 512, 513, 2001, 2002):
        shape = (size, 2) if first else (2, size)
        start = torch.zeros(shape, dtype=torch.float64).as_subclass(Depth)
        deepest = halving_sum(start, 0 if first else -1).as_subclass(torch.Tensor)
        assert float(deepest.max()) == additions(size) == ceil(log2(size))


def test_both_axes_are_summed_in_one_order() -> None:
    generator = torch.Generator().manual_seed(0)
    for size in range(1, 301):
        terms = torch.randn(size, 3, generator=generator)
        assert torch.equal(halving_sum(terms, 0), halving_sum(terms.T.contiguous()))
        whole = torch.arange(size, dtype=torch.float64)
        assert float(halving_sum(whole)) == size * (size - 1) / 2
