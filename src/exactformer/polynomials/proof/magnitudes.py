"""Sizes of polynomials and of sums of coordinates on a domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_poly

from exactformer.algebra.chebyshev import absolute_sum
from exactformer.algebra.rational import to_float, to_fraction
from exactformer.core.arrays import Array
from exactformer.core.domain import Ball, Domain
from exactformer.core.upper import Upper, above

Token = Mapping[int, fmpq_poly]


def largest(polynomial: fmpq_poly, reach: Fraction) -> float:
    """Return a bound of |p(t)| on |t| ≤ reach, exact for monomials and Chebyshev polynomials."""
    terms = [(k, c) for k, c in enumerate(polynomial.coeffs()) if c != 0]
    if len(terms) == 1:
        ((k, c),) = terms
        return above(to_fraction(fmpq(c)) * reach**k)
    return above(to_fraction(absolute_sum(polynomial, reach)))


def slope_bound(polynomial: fmpq_poly, reach: Fraction) -> float:
    """Return s with |p(t)| ≤ s·|t|/reach on |t| ≤ reach: reach·max|p(t)/t|; ∞ unless p(0) = 0.

    The largest |p| is no such s: T_3 is 1 at t = ½ already, and its slope bound is 3.
    """
    if polynomial[0] != 0:
        return np.inf
    quotient = fmpq_poly(polynomial.coeffs()[1:])
    return above(reach * to_fraction(absolute_sum(quotient, reach)))


class CoordinateSizes:
    """How large Σ_j w_j |x_j − o_j| gets on a domain for weights w ≥ 0, o the origin or the centre.

    In a ball round o that is ‖w‖·R, by Cauchy and Schwarz; otherwise coordinates are taken singly.
    """

    def __init__(self, domain: Domain, centred: bool = False) -> None:
        self.domain, self.centred = domain, centred

    def absolute(self, columns: Sequence[int], weights: Upper) -> Upper:
        """Return a bound for the weights of some coordinates."""
        moved = Upper(0.0) if self.centred else self._sum(columns, weights, self.domain.offset)
        if isinstance(self.domain, Ball):
            return _norm(weights) * Upper.of(self.domain.radius) + moved
        return self._sum(columns, weights, self.domain.extent) + moved

    def _sum(
        self, columns: Sequence[int], weights: Upper, size: Callable[[int], Fraction]
    ) -> Upper:
        return (weights * np.array([above(size(j)) for j in columns])).sum()


def _norm(values: Upper) -> Upper:
    """Return a bound of the root of the sum of squares, which may themselves underflow."""
    largest = values.max()
    if not largest.nonzero:
        return largest
    parts = values / largest.values
    return (parts * parts).sum().root() * largest


class Sizes:
    """Bounds of polynomials on each token's own interval |t_i| ≤ reach_i, remembered."""

    def __init__(self, reach: Sequence[Fraction]) -> None:
        self.reach = list(reach)
        # Tokens with the same reach share their bounds; small integers are quick keys.
        classes = {r: k for k, r in enumerate(dict.fromkeys(reach))}
        self._class = [classes[r] for r in reach]
        # Keyed by identity, which is quick; holding the polynomial keeps its identity its own.
        self._known: dict[tuple[int, int], tuple[fmpq_poly, float, float]] = {}
        self._streams: dict[int, tuple[Sequence[Token], Array]] = {}

    def size(self, token: int, entry: fmpq_poly) -> float:
        """Return a bound of |entry| for one token."""
        return self._lookup(token, entry)[1]

    def table(self, tokens: Sequence[Token], columns: int) -> Upper:
        """Return the bounds of every entry of a stream, tokens × columns."""
        return self.tables(tokens, columns)[0]

    def tables(self, tokens: Sequence[Token], columns: int) -> tuple[Upper, Array]:
        """Return the bounds, and |c| for the entries that are a constant c of float64 (else 0)."""
        key = id(tokens)
        if key not in self._streams:
            found = [
                (i, column, *self._lookup(i, entry)[1:])
                for i, token in enumerate(tokens)
                for column, entry in token.items()
            ]
            self._streams[key] = tokens, np.array(found).reshape(-1, 4).T
        i, column, size, constant = self._streams[key][1]
        place = i.astype(int), column.astype(int)
        sizes, constants = np.zeros((2, len(tokens), columns))
        sizes[place], constants[place] = size, constant
        return Upper(sizes), constants

    def _lookup(self, token: int, entry: fmpq_poly) -> tuple[fmpq_poly, float, float]:
        key = (self._class[token], id(entry))
        if key not in self._known:
            self._known[key] = entry, largest(entry, self.reach[token]), _constant(entry)
        return self._known[key]


def _constant(entry: fmpq_poly) -> float:
    if entry.length() != 1:
        return 0.0
    value = abs(to_fraction(fmpq(entry[0])))
    nearest = to_float(value)
    return nearest if nearest < np.inf and Fraction(nearest) == value else 0.0
