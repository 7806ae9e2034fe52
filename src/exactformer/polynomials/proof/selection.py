"""Proof that every token selects itself on the whole ball, with the smallest margin.

For token i and another token j the scores differ by

    ⟨q_i, k_i⟩ − ⟨q_i, k_j⟩ = Σ_r q_i[r]·(k_i[r] − k_j[r]).

A row r that only token i's query and key use (its position) contributes q_i[r]·k_i[r], whoever j is.
In a shared row split k = κ + k̃ into its constant and the rest: constants that are equal for all
tokens cancel, and what remains is at most |q_i k̃_i| + |q_i k̃_j|. Each factor is bounded on its token's
own interval |t| ≤ r = ‖F‖R. On a ball there is a second bound of the product, for q_i(0) = 0: a
polynomial through zero obeys |p(t)| ≤ s(p)·|t|/r with s(p) = r·max|p(t)/t|, so that

    |q_i k̃_j| ≤ s(q_i)·s(k̃_j)·|t_i t_j|/(r_i r_j) ≤ s(q_i)·s(k̃_j)·(1 + |cos(F_i, F_j)|)/2,

since |t_i t_j| ≤ R²·(‖F_i‖‖F_j‖ + |F_i·F_j|)/2 is the exact largest value of a product of two linear
forms on a ball. For powers of t, s is the largest value itself; for Chebyshev polynomials it is larger,
and the first bound is the better one. Where k is smaller than k̃, a row is not split.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq_poly

from exactformer.algebra.rational import to_float
from exactformer.core.arrays import Array
from exactformer.core.domain import Ball
from exactformer.core.upper import Upper, above, below
from exactformer.errors import SelectionError
from exactformer.polynomials.proof.magnitudes import Sizes, slope_bound
from exactformer.polynomials.proof.symbolic import HeadRun, SymbolicRun, Token, value_range

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


@np.errstate(all="ignore")
def prove_selection(run: SymbolicRun) -> SelectionProof:
    """Bound every margin from below; raise where one is not positive."""
    pairs = _PairBounds(run)
    margins = []
    for b, block in enumerate(run.blocks, start=1):
        heads = [_margins(head, run.sizes, pairs) for head in block.heads]
        for h, margin in enumerate(heads, start=1):
            token = int(np.argmin(margin))  # the first that is not a number, if there is one
            if not margin[token] > 0:
                raise SelectionError(
                    f"block {b}{f', head {h}' if len(heads) > 1 else ''}: token {token + 1} is not "
                    f"shown to select itself on {run.blueprint.domain} "
                    f"(its margin is only known to be above {margin[token]:.3g})"
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


def _margins(head: HeadRun, sizes: Sizes, pairs: _PairBounds) -> Array:
    owner = _private_rows(head)
    n = len(head.queries)
    certain = np.array([_private_margin(head, owner, i, sizes.reach[i]) for i in range(n)])
    shared = sorted(
        {r for tokens in (head.queries, head.keys) for t in tokens for r in t} - set(owner)
    )
    if n == 1:
        return np.array([np.inf])
    if not shared:
        return certain
    column = {r: c for c, r in enumerate(shared)}
    queries = sizes.table([_restrict(t, column) for t in head.queries], len(shared))
    whole = sizes.table([_restrict(t, column) for t in head.keys], len(shared))
    varying = sizes.table([_restrict(_varying(t), column) for t in head.keys], len(shared))
    spread = Upper([_constant_spread(head.keys, r) for r in shared])
    split = varying.max(0).values + spread.values / 2 <= whole.max(0).values
    varying, spread = varying.where(split) + whole.where(~split), spread.where(split)
    own = (queries * (varying + spread)).sum(1)
    slopes = (
        _slopes([_restrict(t, column) for t in head.queries], queries, sizes),
        _slopes([_restrict(_varying(t), column) for t in head.keys], varying, sizes),
    )
    result = np.empty(n)
    for start in range(0, n, _CHUNK):
        rows_here = slice(start, min(start + _CHUNK, n))
        cosines = pairs.cosines(rows_here)
        other = Upper.zeros(cosines.shape)
        for c in range(len(shared)):
            bound = queries[rows_here, c : c + 1] * varying[:, c]
            if split[c]:
                sloped = slopes[0][rows_here, c : c + 1] * slopes[1][:, c]
                bound = bound.or_below(sloped * cosines)
            other = other + bound
        chunk = np.arange(rows_here.start, rows_here.stop)
        other[chunk - start, chunk] = 0
        result[rows_here] = _left(certain[rows_here], own[rows_here] + other.max(1))
    return result


def _left(margin: Array, loss: Upper) -> Array:
    """Return what a loss leaves of a margin at least."""
    return np.nextafter(margin - loss.values, -np.inf)


def _slopes(tokens: list[Token], largest: Upper, sizes: Sizes) -> Upper:
    """Return the slope bounds of every entry, tokens × columns; those of powers are their sizes."""
    result = largest.copy()
    for i, token in enumerate(tokens):
        for column, entry in token.items():
            if entry[0] != 0 or sum(a != 0 for a in entry.coeffs()) > 1:
                result[i, column] = slope_bound(entry, sizes.reach[i])
    return result


def _private_rows(head: HeadRun) -> dict[int, int]:
    """Return ``{row: token}`` for the rows of the head that a single token uses."""
    users: dict[int, set[int]] = {}
    for tokens in (head.queries, head.keys):
        for i, token in enumerate(tokens):
            for row in token:
                users.setdefault(row, set()).add(i)
    return {row: next(iter(tokens)) for row, tokens in users.items() if len(tokens) == 1}


def _private_margin(head: HeadRun, owner: dict[int, int], i: int, reach: Fraction) -> float:
    own = fmpq_poly([])
    for row, query in head.queries[i].items():
        if row in head.keys[i] and row in owner:
            own += query * head.keys[i][row]
    return below(value_range(own, reach)[0])


def _restrict(token: Token, column: dict[int, int]) -> Token:
    return {column[row]: entry for row, entry in token.items() if row in column}


def _varying(token: Token) -> Token:
    return {row: entry - entry[0] for row, entry in token.items()}


def _constant_spread(keys: list[Token], row: int) -> float:
    constants = [key[row][0] if row in key else fmpq_poly([])[0] for key in keys]
    low, high = min(constants), max(constants)
    difference = high - low
    return above(Fraction(int(difference.p), int(difference.q)))
