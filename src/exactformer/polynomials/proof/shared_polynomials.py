"""Arithmetic on the polynomials of a stream, which tokens have in common: each result is found once.

A result is one object wherever it occurs, so that what is known of it is found by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import fmpq_poly

from exactformer.algebra.rational import to_fmpq
from exactformer.core.matrix import Matrix

Token = dict[int, fmpq_poly]
"""The dimensions of a token that are not identically zero."""


class Sharing:
    """Sums, products and images of entries, remembered."""

    def __init__(self) -> None:
        # Keyed by identity, which is quick; the entries are kept with the result, so it stays theirs.
        self._known: dict[tuple[object, ...], tuple[fmpq_poly, ...]] = {}

    def constant(self, value: Fraction) -> fmpq_poly:
        """Return a constant."""
        key = value.numerator, value.denominator  # whose hashes are quick, unlike a Fraction's
        return self._find(key, (), lambda: fmpq_poly([to_fmpq(value)]))

    def same(self, entry: fmpq_poly) -> fmpq_poly:
        """Return the one object for all entries of this value."""
        return self._find(("=", *entry.coeffs()), (), lambda: entry)

    def scaled(self, entry: fmpq_poly, weight: Fraction) -> fmpq_poly:
        """Return a multiple."""
        if weight == 1:
            return entry
        key = id(entry), weight.numerator, weight.denominator
        return self._find(key, (entry,), lambda: entry * to_fmpq(weight))

    def product(self, a: fmpq_poly, b: fmpq_poly) -> fmpq_poly:
        """Return a product."""
        return self._find(("·", id(a), id(b)), (a, b), lambda: a * b)

    def added(self, a: fmpq_poly | None, b: fmpq_poly) -> fmpq_poly:
        """Return a sum; nothing counts as zero."""
        if a is None:
            return b
        return self._find(("+", id(a), id(b)), (a, b), lambda: a + b)

    def add(self, token: Token, change: Token) -> None:
        """Add to the dimensions of a token."""
        for dimension, entry in change.items():
            token[dimension] = self.added(token.get(dimension), entry)

    def applied(self, matrix: Matrix, token: Token) -> Token:
        """Return W·z."""
        result: Token = {}
        columns = matrix.by_column
        for dimension, entry in token.items():
            for row, weight in columns.get(dimension, ()):
                result[row] = self.added(result.get(row), self.scaled(entry, weight))
        return result

    def dot(self, query: Token, key: Token) -> fmpq_poly:
        """Return ⟨q, k⟩."""
        total: fmpq_poly | None = None
        for row, entry in query.items():
            if row in key:
                total = self.added(total, self.product(entry, key[row]))
        return self.same(fmpq_poly([])) if total is None else total

    def _find(
        self,
        key: tuple[object, ...],
        entries: tuple[fmpq_poly, ...],
        find: Callable[[], fmpq_poly],
    ) -> fmpq_poly:
        if key not in self._known:
            self._known[key] = (find(), *entries)
        return self._known[key][0]
