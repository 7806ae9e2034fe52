"""How far apart codes are that have to differ.

Of two tokens the codes have to differ if their contexts are not permutations of each other, or if
they are distinct columns of one input. For every token the nearest code of that kind is found:

* numbers by sorting. Between two elements of different classes there is an adjacent pair of
  different classes, so neighbours in order decide, and nothing is compared twice;
* vectors by blocks of |a|² + |b|² − 2a·b in double precision, the nearest then measured directly;
  equal vectors, where that formula has only rounding to offer, are found by sorting as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Indices = NDArray[np.int64]
Nearest = tuple[NDArray[np.float64], Indices, float]

_BLOCK = 2**24


@dataclass(frozen=True)
class Tokens:
    """For every token: its input, its place there, its column's name, its class of contexts."""

    owner: Indices
    place: Indices
    column: Indices
    context: Indices


def nearest(codes: Tensor, tokens: Tokens) -> Nearest:
    """Return each token's distance to the nearest code it must not have, whose, and the spread."""
    integers = None if codes.is_floating_point() else codes
    codes = codes.double()
    centred = codes - codes.mean(dim=0)
    spread = float(centred.square().sum(dim=1).mean().sqrt())
    if codes.shape[1] == 1:
        numbers = (codes if integers is None else integers)[:, 0].cpu().numpy()
        return *_nearest_numbers(numbers, numbers, tokens), spread
    distance, partner = _nearest_vectors(centred, tokens)
    _, equal = torch.unique(codes, dim=0, return_inverse=True)
    names = equal.cpu().numpy()
    gap, other = _nearest_numbers(names, names, tokens)
    return np.where(gap == 0, 0.0, distance), np.where(gap == 0, other, partner), spread


def exact_nearest(codes: Sequence[tuple[Fraction, ...]], tokens: Tokens) -> Nearest:
    """Return the same for rational codes: a distance is zero only if the codes are equal.

    Gaps between numbers are taken before rounding; vectors are compared exactly, and distances
    between unequal ones are those of their nearest floats.
    """
    names = {code: rank for rank, code in enumerate(sorted(set(codes)))}
    ranks = np.array([names[code] for code in codes])
    floats = torch.tensor([[float(v) for v in code] for code in codes], dtype=torch.float64)
    if len(codes[0]) == 1:
        spread = float((floats - floats.mean()).square().mean().sqrt())
        numbers = np.array([code[0] for code in codes], dtype=object)
        return *_nearest_numbers(numbers, ranks, tokens), spread
    gap, partner = _nearest_numbers(ranks, ranks, tokens)
    distance, other, spread = nearest(floats, tokens)
    distance = np.maximum(distance, np.nextafter(0.0, 1.0))
    return np.where(gap == 0, 0.0, distance), np.where(gap == 0, partner, other), spread


def _nearest_numbers(
    codes: NDArray[Any], ranks: NDArray[Any], tokens: Tokens
) -> tuple[NDArray[np.float64], Indices]:
    """Take the nearer of the nearest other context and the nearest other column of one's input.

    ``ranks`` are in the order of ``codes``, which may be Fractions.
    """
    everywhere = np.zeros(len(codes), dtype=np.int64)
    far, whose = _nearest_of_another_kind(codes, ranks, everywhere, tokens.context)
    near, whose_column = _nearest_of_another_kind(codes, ranks, tokens.owner, tokens.column)
    return np.minimum(far, near), np.where(near < far, whose_column, whose)


def _nearest_of_another_kind(
    codes: NDArray[Any], ranks: NDArray[Any], group: Indices, kind: Indices
) -> tuple[NDArray[np.float64], Indices]:
    """Return each element's distance to the nearest of its group that is of another kind."""
    order = np.lexsort((ranks, group))
    codes, group, kind = codes[order], group[order], kind[order]
    count = len(codes)
    changes = np.flatnonzero((kind[1:] != kind[:-1]) | (group[1:] != group[:-1])) + 1
    run = np.searchsorted(changes, np.arange(count), side="right")
    edges = np.concatenate([[0], changes, [count]])
    found = np.full(count, np.inf)
    partner = np.arange(count)
    for neighbour in (edges[run] - 1, edges[run + 1]):
        inside = np.clip(neighbour, 0, count - 1)
        valid = (neighbour == inside) & (group[inside] == group)
        distance = np.where(valid, np.abs(codes - codes[inside]).astype(np.float64), np.inf)
        partner = np.where(distance < found, inside, partner)
        found = np.minimum(found, distance)
    result, whose = np.empty(count), np.empty(count, dtype=np.int64)
    result[order], whose[order] = found, order[partner]
    return result, whose


def _nearest_vectors(codes: Tensor, tokens: Tokens) -> tuple[NDArray[np.float64], Indices]:
    # By contexts: what a block of tokens may share is then within a window of the matrix.
    order = np.argsort(tokens.context, kind="stable")
    ends = np.searchsorted(tokens.context[order], tokens.context[order], side="right").tolist()
    begins = np.searchsorted(tokens.context[order], tokens.context[order]).tolist()
    codes = codes[order]
    owner, column, context = (
        torch.as_tensor(part[order], device=codes.device)
        for part in (tokens.owner, tokens.column, tokens.context)
    )
    squares = codes.square().sum(dim=1)
    count, step = len(codes), max(1, _BLOCK // len(codes))
    partners, found = [], []
    for start in range(0, count, step):
        stop = min(start + step, count)
        rows, window = slice(start, stop), slice(begins[start], ends[stop - 1])
        apart = torch.addmm(squares, codes[rows], codes.T, alpha=-2)  # |a|² is left out of a row
        may_agree = context[rows, None] == context[window]
        may_agree &= (owner[rows, None] != owner[window]) | (column[rows, None] == column[window])
        apart[:, window].masked_fill_(may_agree, torch.inf)
        value, index = apart.min(dim=1)
        partners.append(index)
        found.append(torch.isfinite(value))
    partner = torch.cat(partners)
    distance = (codes - codes[partner]).square().sum(dim=1).sqrt()
    distance = torch.where(torch.cat(found), distance, torch.inf)
    result, whose = np.empty(count), np.empty(count, dtype=np.int64)
    result[order], whose[order] = distance.cpu().numpy(), order[partner.cpu().numpy()]
    return result, whose
