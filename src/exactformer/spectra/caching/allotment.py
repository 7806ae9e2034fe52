"""Ranks of all layers for a given size of the cache: the directions that cost most, wherever they are.

The cost of leaving out a direction, ½ λ, is in nats of the loss whatever the layer, so that the best
ranks for a total of R are those of the R largest λ over all layers. With prediction from below, λ
depends on the ranks below: a threshold is searched at which the ranks add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

import torch
from torch import Tensor

from exactformer.spectra.caching.latents import basis
from exactformer.spectra.caching.moments import LayerMoments, spread

_TRIES = 3
_NEAR = 0.03
"""Share of the total by which the ranks at a threshold may be off; the rest is made up at the end."""


def largest(spectra: Sequence[Tensor], total: int) -> list[int]:
    """Return how many of each spectrum are among the ``total`` largest of all.

    >>> largest([torch.tensor([5.0, 1.0]), torch.tensor([4.0, 3.0])], 3)
    [1, 2]
    """
    values = torch.cat(list(spectra))
    owner = torch.cat([torch.full((len(s),), i) for i, s in enumerate(spectra)])
    chosen = owner[torch.argsort(values.cpu(), descending=True, stable=True)[:total]]
    return torch.bincount(chosen, minlength=len(spectra)).tolist()


def allot(moments: Sequence[LayerMoments], total: int, lookback: int) -> list[int]:
    """Return a rank for every layer, ``total`` of them together, by predicted loss."""
    spectra = [basis(m.mean, m.covariance, m.roots).values for m in moments]
    ranks = largest(spectra, total)
    if lookback == 0 or total == 0 or total >= sum(len(s) for s in spectra):
        return ranks
    threshold = float(torch.cat(spectra).sort(descending=True).values[total - 1])
    seen: list[tuple[float, int]] = []
    for _ in range(_TRIES):
        spectra = _spectra_above(moments, threshold, lookback)
        found = sum(int((s > threshold).sum()) for s in spectra)
        seen.append((threshold, found))
        if abs(found - total) <= _NEAR * total:
            break
        threshold = _next(seen, total)
    return largest(spectra, total)


def _spectra_above(
    moments: Sequence[LayerMoments], threshold: float, lookback: int
) -> list[Tensor]:
    """Return λ of every layer when all layers keep what is above a threshold."""
    spectra: list[Tensor] = []
    latents: list[Tensor] = []
    for layer in moments:
        below = latents[-lookback:]
        rows = torch.cat([layer.sample, *below], dim=1)
        squares = (rows.mT @ rows).double()  # in single precision, which is enough for ranks
        found = basis(*spread(len(rows), rows.sum(dim=0).double(), squares), layer.roots)
        rank = int((found.values > threshold).sum())
        lower = rows[:, len(layer.mean) :]
        latents.append(found.keep(rank)(layer.sample, lower))
        spectra.append(found.values)
    return spectra


def _next(seen: Sequence[tuple[float, int]], total: int) -> float:
    """Return a threshold nearer to the total: the secant of ranks against the logarithm."""
    if len(seen) == 1:
        return seen[0][0] * max(0.05, min(20.0, seen[0][1] / total)) ** 2
    (first, many), (second, few) = seen[-2:]
    if many == few or first == second:
        return second * (0.7 if few < total else 1.4)
    slope = (log(second) - log(first)) / (few - many)
    step = max(-3.0, min(3.0, slope * (total - few)))
    return exp(log(second) + step)
