"""Change of basis between products of orthonormal polynomials and powers of x, exact on request.

Both bases span the polynomials of a downward closed set of exponents, and the change from one to
the other is a product of one small triangular matrix per column:

    φ_β = Σ_{α ≤ β} Π_j C_j[β_j, α_j] x^α,        x^α = Σ_{β ≤ α} Π_j D_j[α_j, β_j] φ_β.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from decimal import localcontext
from fractions import Fraction
from itertools import product
from math import ceil, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from exactformer.learning.laws.dictionary.columns import Array, Columns
from exactformer.learning.laws.dictionary.terms import Exponents

# The fewest digits of Decimals, and those left when all that can cancel has cancelled.
_DIGITS, _LEFT = 80, 40
# Logarithms to the base two are known to better than this.
_MARGIN = 1e-6


def to_powers(closed: list[Exponents], columns: Columns, number: type[Any] = float) -> NDArray[Any]:
    """Return P (k, k) with φ_β = Σ_α P[α, β] x^α on a downward closed list of exponents."""
    return _dense(closed, _tables(closed, columns.powers, number), number)


def to_products(
    closed: list[Exponents], columns: Columns, number: type[Any] = float
) -> NDArray[Any]:
    """Return its inverse: M (k, k) with x^α = Σ_β M[β, α] φ_β."""
    return _dense(closed, _tables(closed, columns.expansions, number), number)


def to_powers_sparse(closed: list[Exponents], columns: Columns) -> csr_array:
    """Return P in float64 for thousands of terms, most of whose entries are zero."""
    return csr_array(_entries(closed, _tables(closed, columns.powers, float)))


def to_products_sparse(closed: list[Exponents], columns: Columns) -> csr_array:
    """Return M likewise."""
    return csr_array(_entries(closed, _tables(closed, columns.expansions, float)))


def enough_digits(exponents: Iterable[Exponents], columns: Columns) -> AbstractContextManager[Any]:
    """Return a context in which Decimals of powers of x may cancel and still leave what floats hold.

    With centre c and scale s, both changes of basis have numbers of the size (|c|/s)^k. A covariance
    of powers, brought back to products, is made of six of them.
    """
    lengths = np.log10(2 + np.abs(columns.center) / columns.scale)
    longest = max((float(np.dot(alpha, lengths)) for alpha in exponents), default=0.0)
    return localcontext(prec=max(_DIGITS, _LEFT + ceil(6 * longest)))


def expand(
    coefficients: Mapping[Exponents, Any], columns: Columns, number: type[Any] = Fraction
) -> dict[Exponents, Any]:
    """Return Σ_β c_β φ_β as {α: coefficient of x^α}."""
    return _collect(coefficients, _tables(coefficients, columns.powers, number), number)


def contract(
    coefficients: Mapping[Exponents, Any], columns: Columns, number: type[Any] = Fraction
) -> dict[Exponents, Any]:
    """Return Σ_α c_α x^α as {β: coefficient of φ_β}."""
    return _collect(coefficients, _tables(coefficients, columns.expansions, number), number)


def shorten(
    terms: Mapping[Exponents, Fraction], reach: Array, tolerance: float
) -> dict[Exponents, Fraction]:
    """Round coefficients to floats, or to as many bits as keep values within ``tolerance``.

    ``reach`` bounds |x_j|, so Σ_α |δc_α| Π_j reach_j^α_j bounds the change of the polynomial there.
    Powers far from the origin cancel (years, kelvins), and then 53 bits are not enough.
    """
    with np.errstate(divide="ignore"):
        lengths, allowed = np.log2(reach).tolist(), float(np.log2(tolerance))
    sizes = [
        log2(abs(c.numerator))
        - log2(c.denominator)
        + sum(e * length for e, length in zip(alpha, lengths, strict=True) if e)
        for alpha, c in terms.items()
        if c
    ]
    size = np.logaddexp2.reduce(sizes) + _MARGIN
    bits = 53
    while bits < 4096 and size > allowed + bits:
        bits += 16
    return {alpha: _round(c, bits) for alpha, c in terms.items()}


def _tables(
    exponents: Iterable[Exponents], table: Callable[..., NDArray[Any]], number: type[Any]
) -> list[NDArray[Any]]:
    """Return the table of every column, as far as the exponents need it."""
    highest = map(max, zip(*exponents, strict=True))
    one = np.array([[number(1)]])
    return [table(j, top, number) if top else one for j, top in enumerate(highest)]


def _dense(closed: list[Exponents], tables: list[NDArray[Any]], number: type[Any]) -> NDArray[Any]:
    dtype = float if number is float else object
    matrix = np.full((len(closed), len(closed)), number(0), dtype=dtype)
    values, places = _entries(closed, tables)
    matrix[places] = values
    return matrix


def _entries(
    closed: list[Exponents], tables: list[NDArray[Any]]
) -> tuple[list[Any], tuple[list[int], list[int]]]:
    """Return values, and their places; no row and no column is empty, for each α is below itself."""
    place = {alpha: i for i, alpha in enumerate(closed)}
    found = [(f, place[a], j) for j, beta in enumerate(closed) for a, f in _below(beta, tables)]
    values, rows, columns = (list(part) for part in zip(*found, strict=True))
    return values, (rows, columns)


def _collect(
    coefficients: Mapping[Exponents, Any], tables: list[NDArray[Any]], number: type[Any]
) -> dict[Exponents, Any]:
    total: dict[Exponents, Any] = {}
    for beta, coefficient in coefficients.items():
        value = number(coefficient)
        for alpha, factor in _below(beta, tables):
            total[alpha] = total.get(alpha, number(0)) + value * factor
    return total


def _below(beta: Exponents, tables: list[NDArray[Any]]) -> Iterator[tuple[Exponents, Any]]:
    """Yield each α ≤ β with the product of the columns' factors."""
    present = [(j, k) for j, k in enumerate(beta) if k]
    alpha = list(beta)
    for choice in product(*(range(k + 1) for _, k in present)):
        factor = tables[0][0, 0] if tables else 1
        for (j, k), i in zip(present, choice, strict=True):
            alpha[j] = i
            factor = factor * tables[j][k, i]
        yield tuple(alpha), factor


def _round(value: Fraction, bits: int) -> Fraction:
    if value == 0:
        return value
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if bits == 53 and abs(exponent) < 1000:  # neither too large nor too small for a float
        return Fraction(float(value))
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - bits + 1)
    return round(value / unit) * unit
