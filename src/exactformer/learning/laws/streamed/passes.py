"""One pass each: what is computed of a block, and what all blocks together say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError
from exactformer.learning.laws.dictionary.columns import Array, Columns, orthonormal_columns
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, products
from exactformer.learning.laws.law import Law
from exactformer.learning.laws.sparse.standard_errors import left_out_residuals
from exactformer.learning.laws.streamed.blocks import Block, Blocks

Places = NDArray[np.int64]

# Rows of a block that are worked on at once: features of them stay in a processor's cache.
_ROWS = 4096


@dataclass(frozen=True)
class Moments:
    """Range, mean and co-moments of the columns [X | Y], and their few distinct values.

    ``distinct`` has the values of each column of X, as far as they are fewer than asked for.
    """

    count: int
    low: Array
    high: Array
    mean: Array
    comoments: Array
    distinct: list[Array]

    def joined(self, other: Moments, most: int) -> Moments:
        """Return the moments of both sets of rows together."""
        count = self.count + other.count
        step = other.mean - self.mean
        return Moments(
            count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.mean + step * (other.count / count),
            self.comoments
            + other.comoments
            + np.outer(step, step) * (self.count * other.count / count),
            [
                one if len(one) >= most else np.union1d(one, two)[:most]
                for one, two in zip(self.distinct, other.distinct, strict=True)
            ],
        )


def moments(blocks: Blocks, most: int) -> Moments:
    """Return the moments of all rows, and up to ``most`` distinct values of each column."""
    total: Moments | None = None
    # Squares that overflow are refused by name, once the range of each column is known.
    with np.errstate(over="ignore", invalid="ignore"):
        for one in blocks.map("ranges and moments", _moments, most):
            total = one if total is None else total.joined(one, most)
    if total is None or total.count < 2:
        raise InputError("a law needs at least two rows")
    return total


def _moments(block: Block, most: int) -> Moments:
    Z = np.column_stack([block.X, block.Y])
    if not np.isfinite(Z).all():
        row, column = (int(k) for k in np.argwhere(~np.isfinite(Z))[0])
        d = block.X.shape[1]
        which = f"column {column + 1} of X" if column < d else f"target {column - d + 1}"
        raise InputError(
            f"row {block.start + row + 1}, {which} is {Z[row, column]}: leave such rows out "
            "(dropna) or fill them in"
        )
    distinct = [_distinct(column, most) for column in block.X.T]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = Z.mean(axis=0)
        comoments = (Z - mean).T @ (Z - mean)
    return Moments(len(Z), Z.min(axis=0), Z.max(axis=0), mean, comoments, distinct)


def _distinct(column: Array, most: int) -> Array:
    head = np.unique(column[: 4 * most])
    return (head if len(head) >= most else np.unique(column))[:most]


def column_recurrences(
    blocks: Blocks, found: Moments, degree: int, used: Places, known: Columns | None
) -> Columns:
    """Return the recurrences of the used columns, one pass per degree beyond those known."""
    counts = np.array([len(found.distinct[j]) for j in used.tolist()])
    mean = found.mean[used]
    spread = np.sqrt(found.comoments.diagonal()[used] / found.count)

    def sums(columns: Columns, k: int) -> tuple[Array, Array]:
        total = blocks.sum(f"column polynomials of degree {k + 1}", _recurrence, columns, used, k)
        # Σ p² is the number of rows up to rounding; what is measured is more exact than what is not.
        return total[0] / found.count, total[1] / found.count

    return orthonormal_columns(mean, spread, counts, degree, sums, known)


def _recurrence(block: Block, columns: Columns, used: Places, k: int) -> tuple[Array, Array]:
    """Return Σ u p_k² and Σ (u p_k − s_k p_{k−1})², with u about the place where a_k is guessed."""
    first, second = np.zeros(len(used)), np.zeros(len(used))
    for start in range(0, len(block.X), _ROWS):
        X = block.X[start : start + _ROWS][:, used]
        u = ((X - columns.center) / columns.scale).T
        values = columns.evaluate(X)[: k + 1]
        following = u * values[k] - (columns.s[k][:, None] * values[k - 1] if k else 0.0)
        first += np.einsum("dn,dn->d", following, values[k])
        second += np.einsum("dn,dn->d", following, following)
    return first, second


def square_norms(block: Block, terms: Terms, used: Places) -> tuple[Array]:
    """Return Σ φ_j² for every term."""
    total = np.zeros(len(terms))
    for _, features in terms.blocks(block.X[:, used]):
        total += np.square(features, out=features).sum(axis=1)
    return (total,)


def products_of_all(
    block: Block,
    terms: Terms,
    used: Places,
    output: int,
    active: list[Exponents],
    coefficients: Array,
    new: list[Exponents],
) -> tuple[Array, float]:
    """Return ⟨φ_j, r⟩ and ⟨φ_j, φ_new⟩ for every term, (p, 1 + new), and ‖r‖²."""
    X = block.X[:, used]
    residual = block.Y[:, output] - _fitted(X, terms.columns, active, coefficients)
    right = np.column_stack([residual, *_in_pieces(X, terms.columns, new)])
    total = np.zeros((len(terms), right.shape[1]))
    for rows, features in terms.blocks(X):
        total += features @ right[rows]
    return total, float(residual @ residual)


def grams(
    block: Block, columns: Columns, used: Places, old: list[Exponents], new: list[Exponents]
) -> tuple[Array, Array]:
    """Return the products of new terms with old and new ones, (old + new, new), and with Y."""
    gram = np.zeros((len(old) + len(new), len(new)))
    right = np.zeros((len(new), block.Y.shape[1]))
    for start in range(0, len(block.X), _ROWS):
        rows = slice(start, start + _ROWS)
        phi = products([*old, *new], columns, block.X[rows][:, used])
        gram += phi.T @ phi[:, len(old) :]
        right += phi[:, len(old) :].T @ block.Y[rows]
    return gram, right


def residual_products(
    block: Block,
    columns: Columns,
    used: Places,
    output: int,
    active: list[Exponents],
    coefficients: Array,
) -> tuple[Array, float]:
    """Return ⟨φ_j, r⟩ for the terms of a fit, and ‖r‖²."""
    inner, square = np.zeros(len(active)), 0.0
    for start in range(0, len(block.X), _ROWS):
        rows = slice(start, start + _ROWS)
        phi = products(active, columns, block.X[rows][:, used])
        residual = block.Y[rows, output] - phi @ coefficients
        inner += phi.T @ residual
        square += float(residual @ residual)
    return inner, square


def left_out_squares(
    block: Block,
    columns: Columns,
    used: Places,
    output: int,
    closure: list[Exponents],
    coefficients: Array,
    projection: Array,
    influence: Array,
) -> tuple[Array]:
    """Return Σ_i u_ij² e_i², with e_i the residual of row i had it been left out.

    ``projection`` (k, k) gives leverages φᵀ P φ, ``influence`` (k, m) the u of m coefficients.
    """
    total = np.zeros(influence.shape[1])
    for start in range(0, len(block.X), _ROWS):
        rows = slice(start, start + _ROWS)
        phi = products(closure, columns, block.X[rows][:, used])
        left_out = left_out_residuals(phi, block.Y[rows, output], coefficients, projection)
        total += left_out**2 @ (phi @ influence) ** 2
    return (total,)


Model = tuple[Array, Array]
"""A fit within a closure: coefficients (k,), and the matrix (k, k) that gives leverages."""


def _sizes_left_out(
    block: Block,
    columns: Columns,
    used: Places,
    output: int,
    closure: list[Exponents],
    models: Sequence[Model],
) -> Array:
    """Return |e_i| of each model, (models, n)."""
    found = np.empty((len(models), len(block.X)))
    for start in range(0, len(block.X), _ROWS):
        rows = slice(start, start + _ROWS)
        phi = products(closure, columns, block.X[rows][:, used])
        for own, model in zip(found, models, strict=True):
            own[rows] = np.abs(left_out_residuals(phi, block.Y[rows, output], *model))
    return found


def rows_nearer(
    block: Block,
    columns: Columns,
    used: Places,
    output: int,
    closure: list[Exponents],
    models: Sequence[Model],
) -> tuple[int]:
    """Return how many rows, each left out, are nearer to the first model than to the second."""
    first, second = _sizes_left_out(block, columns, used, output, closure, models)
    return (int((second > first).sum()),)


def next_digits(
    block: Block,
    columns: Columns,
    used: Places,
    output: int,
    closure: list[Exponents],
    models: Sequence[Model],
    places: Sequence[tuple[int, int]],
    shift: int,
) -> tuple[Places]:
    """Count the |e_i| of a model that begin with given bits, by their next sixteen bits.

    ``places`` has (model, beginning): all bits from ``shift`` + 16 on. The bits of floats without a
    sign are ordered as the floats are.
    """
    bits = _sizes_left_out(block, columns, used, output, closure, models).view(np.uint64)
    counts = np.zeros((len(places), 2**16), dtype=np.int64)
    for own, (model, beginning) in zip(counts, places, strict=True):
        head = bits[model] >> np.uint64(shift)
        tail = head[head >> np.uint64(16) == beginning] & np.uint64(2**16 - 1)
        own += np.bincount(tail.astype(np.int64), minlength=2**16)
    return (counts,)


def laws_against(
    block: Block, terms: Terms, used: Places, laws: Sequence[Law]
) -> tuple[Array, Array, Array]:
    """Return ⟨φ_j, r⟩ (p, outputs) and ‖φ_j‖² for every term, and ‖r‖² of each law."""
    left = block.Y - np.column_stack([law.values(block.X) for law in laws])
    inner, norms = np.zeros((len(terms), left.shape[1])), np.zeros(len(terms))
    for rows, features in terms.blocks(block.X[:, used]):
        inner += features @ left[rows]
        norms += np.square(features, out=features).sum(axis=1)
    return inner, norms, np.square(left).sum(axis=0)


def excess_squares(block: Block, output: int, simple: Law, law: Law) -> tuple[float, float]:
    """Return Σ e and Σ e² for the excess e of one law's squared residuals over another's."""
    y = block.Y[:, output]
    excess = (y - simple.values(block.X)) ** 2 - (y - law.values(block.X)) ** 2
    return float(excess.sum()), float(excess @ excess)


def squares_of(block: Block, laws: Sequence[Law]) -> tuple[Array]:
    """Return the square of each output's residual."""
    return (np.array([_square(block, k, law) for k, law in enumerate(laws)]),)


def _square(block: Block, output: int, law: Law) -> float:
    residual = block.Y[:, output] - law.values(block.X)
    return float(residual @ residual)


def largest_departure(
    block: Block, column: int, others: list[int], slopes: Array, centre: Array
) -> tuple[Array, Array]:
    """Return the largest distance of a column from a linear function of others, and from its mean."""
    away = block.X - centre
    left = away[:, column] - away[:, others] @ slopes
    return np.array([np.abs(left).max()]), np.array([np.abs(away[:, column]).max()])


def _fitted(X: Array, columns: Columns, active: list[Exponents], coefficients: Array) -> Array:
    out = np.empty(len(X))
    for start in range(0, len(X), _ROWS):
        rows = slice(start, start + _ROWS)
        out[rows] = products(active, columns, X[rows]) @ coefficients
    return out


def _in_pieces(X: Array, columns: Columns, exponents: list[Exponents]) -> list[Array]:
    if not exponents:
        return []
    pieces = [
        products(exponents, columns, X[start : start + _ROWS]) for start in range(0, len(X), _ROWS)
    ]
    return [np.concatenate(pieces)]
