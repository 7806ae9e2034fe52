"""Sizes of polynomials and of sums of coordinates on a domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from flint import fmpq, fmpq_poly
from numpy.typing import ArrayLike, NDArray

from exactformer.algebra.chebyshev import absolute_sum, nearest_absolute_sum
from exactformer.algebra.rational import to_float, to_fmpq, to_fraction
from exactformer.core.arrays import Array
from exactformer.core.domain import Ball, Domain
from exactformer.core.matrix import Matrix
from exactformer.core.upper import Upper, above, next_above
from exactformer.polynomials.proof.folded_tables import Columns

Token = Mapping[int, fmpq_poly]
Bound = TypeVar("Bound")


def largest(polynomial: fmpq_poly, reach: Fraction) -> float:
    """Return a bound of |p(t)| on |t| ≤ reach, exact for monomials and Chebyshev polynomials."""
    terms = [(k, c) for k, c in enumerate(polynomial.coeffs()) if c != 0]
    if len(terms) == 1:
        ((k, c),) = terms
        return above(to_fraction(fmpq(c)) * reach**k)
    return _sum_above(polynomial, reach)


def value_range(polynomial: fmpq_poly, reach: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of a polynomial on |t| ≤ reach: its constant, give or take the rest."""
    constant = to_fraction(fmpq(polynomial[0]))
    rest = to_fraction(absolute_sum(polynomial - polynomial[0], reach))
    return constant - rest, constant + rest


def slope_bound(polynomial: fmpq_poly, reach: Fraction) -> float:
    """Return s with |p(t)| ≤ s·|t|/reach on |t| ≤ reach: reach·max|p(t)/t|; ∞ unless p(0) = 0.

    The largest |p| is no such s: T_3 is 1 at t = ½ already, and its slope bound is 3.
    """
    if polynomial[0] != 0:
        return np.inf
    quotient = fmpq_poly(polynomial.coeffs()[1:])
    return _sum_above(quotient * to_fmpq(reach), reach)


def _sum_above(polynomial: fmpq_poly, reach: Fraction) -> float:
    """Return ``above`` of the sum of absolute Chebyshev coefficients, zero only for zero."""
    if polynomial.degree() < 1 or reach == 0:
        return above(to_fraction(absolute_sum(polynomial, reach)))
    return next_above(nearest_absolute_sum(polynomial, reach))


class CoordinateSizes:
    """How large Σ_j w_j |x_j − o_j| gets on a domain for weights w ≥ 0, o the origin or the centre.

    In a ball round o that is ‖w‖·R, by Cauchy and Schwarz; otherwise coordinates are taken singly.
    """

    def __init__(self, domain: Domain, centred: bool = False) -> None:
        self.domain, self.centred = domain, centred

    def absolute(self, columns: ArrayLike, weights: Upper) -> Upper:
        """Return bounds for the weights of some coordinates, which are along the last axis."""
        moved = Upper(0.0) if self.centred else self._sum(columns, weights, self.domain.offset)
        if isinstance(self.domain, Ball):
            return _norm(weights) * Upper.of(self.domain.radius) + moved
        return self._sum(columns, weights, self.domain.extent) + moved

    def _sum(self, columns: ArrayLike, weights: Upper, size: Callable[[int], Fraction]) -> Upper:
        places = np.asarray(columns, dtype=int)
        sizes = np.array([above(size(j)) for j in range(places.max(initial=-1) + 1)])
        bounds: Upper = weights * sizes[places]
        return bounds.sum(-1)


def alike(matrix: Matrix) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], list[Fraction]]]:
    """Yield rows with equally many entries: their numbers, their columns, and all their values."""
    by_length: dict[int, list[int]] = {}
    for i, row in matrix.by_row.items():
        by_length.setdefault(len(row), []).append(i)
    for rows in by_length.values():
        entries = [matrix.by_row[i] for i in rows]
        columns = np.array([[j for j, _ in row] for row in entries])
        yield np.array(rows), columns, [value for row in entries for _, value in row]


def _norm(values: Upper) -> Upper:
    """Return a bound of the root of the sum of squares, which may themselves underflow."""
    largest = values.max(-1)
    parts = values / np.where(largest.nonzero, largest.values, 1.0)[..., None]
    return (parts * parts).sum(-1).root() * largest


class Sizes:
    """Bounds of polynomials on each token's own interval |t_i| ≤ reach_i, remembered."""

    def __init__(self, reach: Sequence[Fraction]) -> None:
        self.reach = list(reach)
        # Tokens with the same reach share their bounds; small integers are quick keys.
        classes = {r: k for k, r in enumerate(dict.fromkeys(reach))}
        self._class = [classes[r] for r in reach]
        # Keyed by identity, which is quick; holding the polynomial keeps its identity its own.
        self._known: dict[tuple[object, int, int], tuple[Any, fmpq_poly]] = {}
        self._streams: dict[int, tuple[Sequence[Token], Array]] = {}

    def size(self, token: int, entry: fmpq_poly) -> float:
        """Return a bound of |entry| for one token."""
        return self._find(_size_and_constant, token, entry)[0]

    def slope(self, token: int, entry: fmpq_poly) -> float | None:
        """Return the slope bound of an entry for one token; none for powers, where it is their size."""
        return self._find(_slope, token, entry)

    def range(self, token: int, entry: fmpq_poly) -> tuple[Fraction, Fraction]:
        """Return bounds of an entry for one token, from below and above."""
        return self._find(value_range, token, entry)

    def column(self, entries: Sequence[fmpq_poly]) -> Upper:
        """Return the bounds of one entry for every token, tokens × 1."""
        return Upper([[self.size(i, entry)] for i, entry in enumerate(entries)])

    def table(self, tokens: Sequence[Token], columns: Columns) -> Upper:
        """Return the bounds of every entry of a stream, tokens × columns."""
        return self.tables(tokens, columns)[0]

    def tables(self, tokens: Sequence[Token], columns: Columns) -> tuple[Upper, Array]:
        """Return the bounds, and |c| for the entries that are a constant c of float64 (else 0)."""
        key = id(tokens)
        if key not in self._streams:
            found = [
                (i, columns.place[dimension], *self._find(_size_and_constant, i, entry))
                for i, token in enumerate(tokens)
                for dimension, entry in token.items()
            ]
            self._streams[key] = tokens, np.array(found).reshape(-1, 4).T
        i, column, size, constant = self._streams[key][1]
        place = i.astype(int), column.astype(int)
        sizes, constants = np.zeros((2, len(tokens), columns.count))
        sizes[place], constants[place] = size, constant
        return Upper(sizes), constants

    def _find(
        self, bound: Callable[[fmpq_poly, Fraction], Bound], token: int, entry: fmpq_poly
    ) -> Bound:
        key = (bound, self._class[token], id(entry))
        if key not in self._known:
            self._known[key] = bound(entry, self.reach[token]), entry
        found: Bound = self._known[key][0]
        return found


def _slope(entry: fmpq_poly, reach: Fraction) -> float | None:
    if entry[0] == 0 and sum(a != 0 for a in entry.coeffs()) <= 1:
        return None
    return slope_bound(entry, reach)


def _size_and_constant(entry: fmpq_poly, reach: Fraction) -> tuple[float, float]:
    return largest(entry, reach), _constant(entry)


def _constant(entry: fmpq_poly) -> float:
    if entry.length() != 1:
        return 0.0
    value = abs(to_fraction(fmpq(entry[0])))
    nearest = to_float(value)
    return nearest if nearest < np.inf and Fraction(nearest) == value else 0.0
