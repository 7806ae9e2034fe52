"""Proof that every token selects itself on the whole ball, with the smallest margin.

For token i and another token j the scores differ by

    ⟨q_i, k_i⟩ − ⟨q_i, k_j⟩ = Σ_r q_i[r]·(k_i[r] − k_j[r]).

A row r that only token i's key uses (its position) contributes q_i[r]·k_i[r], whoever j is.
In any other row split k = κ + k̃ into its constant and the rest: constants that are equal for all
tokens cancel, and what remains is at most |q_i k̃_i| + |q_i k̃_j|. Each factor is bounded on its token's
own interval |t| ≤ r = ‖F‖R. On a ball there is a second bound of the product, for q_i(0) = 0: a
polynomial through zero obeys |p(t)| ≤ s(p)·|t|/r with s(p) = r·max|p(t)/t|, so that

    |q_i k̃_j| ≤ s(q_i)·s(k̃_j)·|t_i t_j|/(r_i r_j) ≤ s(q_i)·s(k̃_j)·(1 + |cos(F_i, F_j)|)/2,

since |t_i t_j| ≤ R²·(‖F_i‖‖F_j‖ + |F_i·F_j|)/2 is the exact largest value of a product of two linear
forms on a ball. For powers of t, s is the largest value itself; for Chebyshev polynomials it is larger,
and the first bound is the better one. Where k is smaller than k̃, a row is not split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq_poly
from numpy.typing import NDArray

from exactformer.algebra.rational import to_float
from exactformer.core.arrays import Array
from exactformer.core.domain import Ball
from exactformer.core.upper import Mask, Upper, above, below
from exactformer.core.words import at_least
from exactformer.errors import SelectionError
from exactformer.polynomials.proof.magnitudes import Sizes
from exactformer.polynomials.proof.shared_polynomials import Sharing, Token
from exactformer.polynomials.proof.symbolic import HeadRun, SymbolicRun

_CHUNK = 512


@dataclass(frozen=True)
class SelectionProof:
    """Lower bounds of the margin by block, head and token; all positive."""

    margins: tuple[tuple[Array, ...], ...]

    @property
    def smallest(self) -> float | None:
        """The smallest margin of all; ``None`` for a model without attention."""
        values = [float(head.min()) for block in self.margins for head in block]
        return min(values, default=None)


def prove_selection(run: SymbolicRun) -> SelectionProof:
    """Bound every margin from below; raise where one is not positive."""
    found = iter(_margins([h for b in run.blocks for h in b.heads], run.sizes, _PairBounds(run)))
    margins = []
    for b, block in enumerate(run.blocks, start=1):
        heads = [next(found) for _ in block.heads]
        for h, margin in enumerate(heads, start=1):
            token = int(np.argmin(margin))  # the first that is not a number, if there is one
            if not margin[token] > 0:
                raise SelectionError(
                    f"block {b}{f', head {h}' if len(heads) > 1 else ''}: token {token + 1} is not "
                    f"shown to select itself on {run.blueprint.domain} "
                    f"(its margin is only known to be above {at_least(margin[token])})"
                )
        margins.append(tuple(heads))
    return SelectionProof(tuple(margins))


class _PairBounds:
    """Largest |t_i t_j|, relative to the product of reaches, a chunk of rows at a time."""

    def __init__(self, run: SymbolicRun) -> None:
        self.is_ball = isinstance(run.domain, Ball)
        features = run.blueprint.embedding.features
        dense = np.zeros(features.shape)
        for i, row in features.by_row.items():
            scale = max(abs(value) for _, value in row)
            for j, value in row:
                dense[i, j] = to_float(value / scale)
        norms = np.linalg.norm(dense, axis=1, keepdims=True)
        self.unit = dense / np.where(norms > 0, norms, 1)
        # A unit vector of d coordinates is off by less than (d + 4)·2⁻⁵³, a product of two of them by
        # less than d·2⁻⁵³ more; the rest is for terms of second order.
        self.slack = (3 * features.columns + 9) * 2.0**-53

    def cosines(self, rows: slice) -> Upper:
        """Return (1 + |cos|)/2 for these rows against all tokens; 1 but for balls."""
        if not self.is_ball:
            return Upper(np.ones((len(self.unit[rows]), len(self.unit))))
        cosine = Upper(np.abs(self.unit[rows] @ self.unit.T)) + self.slack
        return ((1 + cosine) / 2).or_below(1.0)


@np.errstate(all="ignore")
def _margins(heads: Sequence[HeadRun], sizes: Sizes, pairs: _PairBounds) -> list[Array]:
    n = len(sizes.reach)
    if n == 1:
        return [np.array([np.inf]) for _ in heads]
    losses = [_Losses.of(head, sizes) for head in heads]
    margins = [loss.certain.copy() for loss in losses]
    for start in range(0, n, _CHUNK):
        rows = slice(start, min(start + _CHUNK, n))
        cosines: Upper | None = None
        nearest: dict[bytes, Upper] = {}
        for loss, margin in zip(losses, margins, strict=True):
            if not loss.queries.shape[1]:
                continue
            if cosines is None:
                cosines = pairs.cosines(rows)
                cosines[np.arange(rows.stop - start), np.arange(start, rows.stop)] = 0
            key = loss.group.tobytes()
            if key not in nearest:
                nearest[key] = _largest_by_group(cosines, loss.group)
            margin[rows] = _left(margin[rows], loss.at(rows, nearest[key]))
    return margins


@dataclass(frozen=True)
class _Losses:
    """What the shared rows of a head can take from every token's margin.

    Another token is met by its keys alone, so tokens with the same bounds of keys form a group.
    """

    certain: Array
    """What the private rows give, from below."""
    own: Upper
    queries: Upper
    """Tokens × shared rows, as are the slopes."""
    query_slopes: Upper
    varying: Upper
    """Groups × shared rows, as are the slopes."""
    key_slopes: Upper
    split: Mask
    """By shared row."""
    group: NDArray[np.int64]
    """By token; groups are numbered as they appear."""

    @classmethod
    def of(cls, head: HeadRun, sizes: Sizes) -> _Losses:
        owner = _private_rows(head)
        shared = sorted(_shared_rows(head, owner))
        rests = _Rests()
        # What a row of its own gives a token is certain, and no loss.
        others = [
            {r: entry for r, entry in query.items() if owner.get(r) != i}
            for i, query in enumerate(head.queries)
        ]
        queries = _table(others, shared, sizes.size)
        whole = _table(head.keys, shared, sizes.size)
        varying = _table(head.keys, shared, lambda i, entry: sizes.size(i, rests.of(entry)))
        spread = Upper([_constant_spread(head.keys, r) for r in shared])
        split = varying.max(0).values + spread.values / 2 <= whole.max(0).values
        varying, spread = varying.where(split) + whole.where(~split), spread.where(split)
        steep = _table(head.keys, shared, lambda i, entry: sizes.slope(i, rests.of(entry)), varying)
        group, first = _groups(np.hstack([varying.values, steep.values]))
        return cls(
            _private_margins(head, owner, sizes),
            (queries * (varying + spread)).sum(1),
            queries,
            _table(others, shared, sizes.slope, queries),
            varying[first],
            steep[first],
            split,
            group,
        )

    def at(self, rows: slice, cosines: Upper) -> Upper:
        """Return the loss of some tokens, ``cosines`` being the largest with others of each group."""
        other = Upper.zeros(cosines.shape)
        for c, split in enumerate(self.split):
            bound = self.queries[rows, c : c + 1] * self.varying[:, c]
            if split:
                sloped = self.query_slopes[rows, c : c + 1] * self.key_slopes[:, c]
                bound = bound.or_below(sloped * cosines)
            other = other + bound
        return self.own[rows] + other.where(cosines.nonzero).max(1)


def _largest_by_group(cosines: Upper, group: NDArray[np.int64]) -> Upper:
    """Return the largest of every group of columns; zero where a token is alone in its group."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(group.max() + 1))
    return Upper(np.maximum.reduceat(cosines.values[:, order], starts, axis=1))


def _groups(table: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of every row, equal rows together, and the first row of every group."""
    known: dict[bytes, int] = {}
    group = np.array([known.setdefault(row.tobytes(), len(known)) for row in table])
    return group, np.unique(group, return_index=True)[1]


def _table(
    tokens: Sequence[Token],
    rows: Sequence[int],
    bound: Callable[[int, fmpq_poly], float | None],
    otherwise: Upper | None = None,
) -> Upper:
    """Return bounds of some rows, tokens × rows; where there is none, those given or zero."""
    table = Upper.zeros((len(tokens), len(rows))) if otherwise is None else otherwise.copy()
    for i, token in enumerate(tokens):
        for c, row in enumerate(rows):
            if row in token and (found := bound(i, token[row])) is not None:
                table[i, c] = found
    return table


class _Rests:
    """Entries without their constants, each found once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[fmpq_poly, fmpq_poly]] = {}

    def of(self, entry: fmpq_poly) -> fmpq_poly:
        if id(entry) not in self._known:
            self._known[id(entry)] = entry - entry[0], entry
        return self._known[id(entry)][0]


def _left(margin: Array, loss: Upper) -> Array:
    """Return what a loss leaves of a margin at least."""
    return np.nextafter(margin - loss.values, -np.inf)


def _private_rows(head: HeadRun) -> dict[int, int]:
    """Return ``{row: token}`` for the rows of the head that the key of a single token uses."""
    users: dict[int, list[int]] = {}
    for i, key in enumerate(head.keys):
        for row in key:
            users.setdefault(row, []).append(i)
    return {row: tokens[0] for row, tokens in users.items() if len(tokens) == 1}


def _shared_rows(head: HeadRun, owner: dict[int, int]) -> set[int]:
    """Return the rows that several keys use, or one key and the query of another token."""
    shared = {row for key in head.keys for row in key if row not in owner}
    for i, query in enumerate(head.queries):
        shared.update(row for row in query if owner.get(row, i) != i)
    return shared


def _private_margins(head: HeadRun, owner: dict[int, int], sizes: Sizes) -> Array:
    """Return what the rows of its own give every token at least."""
    shared, margins = Sharing(), []
    for i, (query, key) in enumerate(zip(head.queries, head.keys, strict=True)):
        own = {row: entry for row, entry in query.items() if owner.get(row) == i}
        margins.append(below(sizes.range(i, shared.dot(own, key))[0]))
    return np.array(margins)


def _constant_spread(keys: list[Token], row: int) -> float:
    constants = [key[row][0] if row in key else fmpq_poly([])[0] for key in keys]
    low, high = min(constants), max(constants)
    difference = high - low
    return above(Fraction(int(difference.p), int(difference.q)))
