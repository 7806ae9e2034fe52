"""One pass each: what is computed of a block, and what all blocks together say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError
from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, products
from exactformer.learning.laws.law import Law
from exactformer.learning.laws.sparse.standard_errors import left_out_residuals
from exactformer.learning.laws.streamed.blocks import Block, Blocks
from exactformer.learning.laws.streamed.quadrature import Quadrature

Places = NDArray[np.int64]
Model = tuple[Array, Array]
"""A fit within a closure: coefficients (k,), and the matrix (k, k) that gives leverages."""

# Rows of a block that are worked on at once: features of them stay in a processor's cache.
_ROWS = 4096
_BYTES = 2 * 2**20


@dataclass(frozen=True)
class Features:
    """Some terms of the used columns, to be taken of the rows of a block."""

    columns: Columns
    used: Places
    exponents: list[Exponents]

    def pieces(self, block: Block) -> Iterator[tuple[slice, Array]]:
        """Yield (rows, φ) with φ of shape (rows, k), some rows at a time."""
        for rows, X in _pieces(block, self.used):
            yield rows, products(self.exponents, self.columns, X)


@dataclass(frozen=True)
class Moments:
    """Range, mean and co-moments of the columns [X | Y], and what the columns of X are made of.

    ``distinct`` has the values of each column of X, as far as they are fewer than asked for, and
    ``quadrature`` the sums of its powers.
    """

    count: int
    low: Array
    high: Array
    mean: Array
    comoments: Array
    distinct: list[Array]
    quadrature: Quadrature

    def joined(self, other: Moments, most: int, size: int) -> Moments:
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
            self.quadrature.joined(other.quadrature, size),
        )


def moments(blocks: Blocks, most: int, degree: int) -> Moments:
    """Return the moments of all rows, up to ``most`` distinct values, sums for a ``degree``."""
    if blocks.rows < 2:
        raise InputError("a law needs at least two rows")
    # Squares that overflow are refused by name, once the range of each column is known.
    with np.errstate(over="ignore", invalid="ignore"):
        found = blocks.map("ranges and moments", _moments, most, degree + 1)
        return reduce(lambda one, two: one.joined(two, most, degree + 1), found)


def _moments(block: Block, most: int, size: int) -> Moments:
    distinct = [_distinct(column, most) for column in block.X.T]
    total: Moments | None = None
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(block.X), _ROWS):
            rows = slice(start, start + _ROWS)
            z = np.column_stack([block.X[rows], block.Y[rows]])
            _check_finite(z, block.X.shape[1], block.start + start)
            mean = z.mean(axis=0)
            away = z - mean
            ends = z.min(axis=0), z.max(axis=0)
            rule = Quadrature.of(block.X[rows], size)
            one = Moments(len(z), *ends, mean, away.T @ away, distinct, rule)
            # The distinct values of the whole block are known already: none are to be joined.
            total = one if total is None else total.joined(one, 0, size)
    assert total is not None  # a block has rows
    return total


def _check_finite(Z: Array, columns: int, start: int) -> None:
    """Refuse what is not a number, by row and column."""
    if np.isfinite(Z).all():
        return
    row, column = (int(k) for k in np.argwhere(~np.isfinite(Z))[0])
    which = f"column {column + 1} of X" if column < columns else f"target {column - columns + 1}"
    raise InputError(
        f"row {start + row + 1}, {which} is {Z[row, column]}: leave such rows out "
        "(dropna) or fill them in"
    )


def _distinct(values: Array, most: int) -> Array:
    """Return up to ``most`` values of a column, or rows of a table, that differ."""
    head = np.unique(values[: 4 * most], axis=0)
    return (head if len(head) >= most else np.unique(values, axis=0))[:most]


def distinct_rows(blocks: Blocks, most: int) -> int:
    """Return how many rows of X differ, counting no further than ``most``."""
    found = blocks.map("rows that differ", _distinct_rows, most)
    return len(reduce(lambda one, two: _distinct(np.concatenate([one, two]), most), found))


def _distinct_rows(block: Block, most: int) -> Array:
    return _distinct(block.X, most)


def quadratures(blocks: Blocks, degree: int) -> Quadrature:
    """Return sums of the columns' powers for a higher degree."""
    rules = blocks.map(f"column polynomials up to degree {degree}", _quadrature, degree + 1)
    return reduce(lambda one, two: one.joined(two, degree + 1), rules)


def _quadrature(block: Block, size: int) -> Quadrature:
    rules = (
        Quadrature.of(block.X[start : start + _ROWS], size)
        for start in range(0, len(block.X), _ROWS)
    )
    return reduce(lambda one, two: one.joined(two, size), rules)


def products_with_each_other(block: Block, terms: Terms, used: Places) -> tuple[Array]:
    """Return the products of all terms and outputs with each other, (p + outputs, p + outputs)."""
    p = len(terms)
    total = np.zeros((p + block.Y.shape[1],) * 2)
    for rows, X in _pieces(block, used, 8 * len(total)):
        both = np.empty((len(total), len(X)))
        terms.features(terms.columns.evaluate(X), out=both[:p])
        both[p:] = block.Y[rows].T
        total += both @ both.T
    return (total,)


def square_norms(block: Block, terms: Terms, used: Places) -> tuple[Array]:
    """Return Σ φ_j² for every term."""
    total = np.zeros(len(terms))
    for _, features in terms.blocks(block.X[:, used]):
        total += np.square(features, out=features).sum(axis=1)
    return (total,)


def products_of_all(
    block: Block, terms: Terms, output: int, active: Features, coefficients: Array, new: Features
) -> tuple[Array]:
    """Return ⟨φ_j, r⟩ and ⟨φ_j, φ_new⟩ for every term, (p, 1 + new)."""
    fitted = np.concatenate([phi @ coefficients for _, phi in active.pieces(block)])
    columns = np.concatenate([phi for _, phi in new.pieces(block)])
    right = np.column_stack([block.Y[:, output] - fitted, columns])
    total = np.zeros((len(terms), right.shape[1]))
    for rows, features in terms.blocks(block.X[:, active.used]):
        total += features @ right[rows]
    return (total,)


def grams(block: Block, features: Features, old: int) -> tuple[Array, Array]:
    """Return the products of all but the first ``old`` terms with all of them, and with Y."""
    count = len(features.exponents)
    gram, right = np.zeros((count, count - old)), np.zeros((count - old, block.Y.shape[1]))
    for rows, phi in features.pieces(block):
        gram += phi.T @ phi[:, old:]
        right += phi[:, old:].T @ block.Y[rows]
    return gram, right


def triangles(
    blocks: Blocks, what: str, lists: list[Features], output: int | None = None
) -> list[Array]:
    """Return R of the QR decomposition of each of some lists of terms; sums lose half its digits.

    The last column is that of an output, if one is given.
    """
    found = blocks.map(what, _triangles, lists, output)
    return reduce(lambda one, two: [*map(_stacked, one, two)], found)


def _triangles(block: Block, lists: list[Features], output: int | None) -> list[Array]:
    found = []
    for features in lists:
        triangle = np.zeros((0, len(features.exponents) + (output is not None)))
        for rows, phi in features.pieces(block):
            more = phi if output is None else np.column_stack([phi, block.Y[rows, output]])
            triangle = _stacked(triangle, more)
        found.append(triangle)
    return found


def _stacked(one: Array, two: Array) -> Array:
    return np.asarray(np.linalg.qr(np.concatenate([one, two]), mode="r"))


def residual_products(
    block: Block, features: Features, output: int, coefficients: Array
) -> tuple[Array, float]:
    """Return ⟨φ_j, r⟩ for the terms of a fit, and ‖r‖²."""
    inner, square = np.zeros(len(coefficients)), 0.0
    for rows, phi in features.pieces(block):
        residual = block.Y[rows, output] - phi @ coefficients
        inner += phi.T @ residual
        square += float(residual @ residual)
    return inner, square


def left_out_squares(
    block: Block, closure: Features, output: int, model: Model, influence: Array
) -> tuple[Array]:
    """Return Σ_i u_ij² e_i², with e_i the residual of row i had it been left out.

    ``influence`` (k, m) gives the u of m coefficients.
    """
    total = np.zeros(influence.shape[1])
    for rows, phi in closure.pieces(block):
        left_out = left_out_residuals(phi, block.Y[rows, output], *model)
        total += left_out**2 @ (phi @ influence) ** 2
    return (total,)


def _sizes_left_out(block: Block, closure: Features, output: int, models: Sequence[Model]) -> Array:
    """Return |e_i| of each model, (models, n)."""
    found = np.empty((len(models), len(block.X)))
    for rows, phi in closure.pieces(block):
        for own, model in zip(found, models, strict=True):
            own[rows] = np.abs(left_out_residuals(phi, block.Y[rows, output], *model))
    return found


def rows_nearer(
    block: Block, closure: Features, output: int, models: Sequence[Model]
) -> tuple[int]:
    """Return how many rows, each left out, are nearer to the first model than to the second."""
    first, second = _sizes_left_out(block, closure, output, models)
    return (int((second > first).sum()),)


def next_digits(
    block: Block,
    closure: Features,
    output: int,
    models: Sequence[Model],
    places: Sequence[tuple[int, int]],
    shift: int,
) -> tuple[Places]:
    """Count the |e_i| of a model that begin with given bits, by their next sixteen bits.

    ``places`` has (model, beginning): all bits from ``shift`` + 16 on. The bits of floats without a
    sign are ordered as the floats are.
    """
    bits = _sizes_left_out(block, closure, output, models).view(np.uint64)
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
    left = (y - law.values(block.X) for y, law in zip(block.Y.T, laws, strict=True))
    return (np.array([float(residual @ residual) for residual in left]),)


def largest_departure(
    block: Block, column: int, others: list[int], slopes: Array, centre: Array
) -> tuple[float, float]:
    """Return the largest distance of a column from a linear function of others, and from its mean."""
    away = block.X - centre
    left = away[:, column] - away[:, others] @ slopes
    return float(np.abs(left).max()), float(np.abs(away[:, column]).max())


def _pieces(block: Block, used: Places, row_bytes: int = 0) -> Iterator[tuple[slice, Array]]:
    """Yield (rows, used columns of X), few enough rows that what is made of them stays in a cache."""
    step = min(_ROWS, max(16, _BYTES // row_bytes)) if row_bytes else _ROWS
    whole = len(used) == block.X.shape[1]
    for start in range(0, len(block.X), step):
        rows = slice(start, start + step)
        yield rows, block.X[rows] if whole else block.X[rows][:, used]
