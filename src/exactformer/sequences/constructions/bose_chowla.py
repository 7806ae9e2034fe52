"""Numbers whose sums of n tell which n they were: B_n sequences of Bose and Chowla (1962).

Let q be a prime power and θ a primitive element of the field of q^n elements. For every c of the
subfield of q elements let a_c be the exponent with θ^(a_c) = θ + c. Then the sums of n such numbers,
equal ones allowed, are all different: if two were equal, Π(θ + c_i) = Π(θ + c'_i), and the difference
would be a polynomial of degree below n with θ as a root.

The field is that of polynomials over the integers modulo p, reduced modulo a primitive polynomial; the
powers of its root θ = x are tabulated by doubling.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count, product

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@lru_cache(maxsize=32)
def sum_distinct_numbers(count: int, terms: int) -> tuple[int, ...]:
    """Return so many numbers from 0 up, whose sums of ``terms`` are all different.

    >>> sum_distinct_numbers(4, 2)
    (0, 1, 3, 7)
    """
    if terms == 1:
        return tuple(range(count))
    p, m = prime_power(count)
    q = p**m
    powers = _powers(p, m * terms)
    weights = p ** np.arange(m * terms)
    exponents = np.empty(q**terms, dtype=np.int64)
    exponents[powers @ weights] = np.arange(q**terms - 1)
    step = (q**terms - 1) // (q - 1)
    subfield = np.vstack([np.zeros_like(powers[:1]), powers[::step]])
    shifted = (subfield + powers[1]) % p
    numbers = np.sort(exponents[shifted @ weights])
    # A common offset adds n times itself to every sum, so the first may be taken off.
    return tuple(int(a) for a in numbers[:count] - numbers[0])


def prime_power(least: int) -> tuple[int, int]:
    """Return (p, m) with the smallest prime power p^m that is at least ``least``.

    >>> prime_power(15), prime_power(10)
    ((2, 4), (11, 1))
    """
    for q in count(max(2, least)):
        primes = _primes(q)
        if len(primes) == 1:
            p, m = primes[0], 1
            while p**m < q:
                m += 1
            return p, m
    raise AssertionError("there are infinitely many primes")


def _primes(value: int) -> list[int]:
    """Return the primes that divide a number."""
    primes = []
    divisor = 2
    while divisor * divisor <= value:
        if value % divisor == 0:
            primes.append(divisor)
            while value % divisor == 0:
                value //= divisor
        divisor += 1
    return [*primes, value] if value > 1 else primes


def _powers(p: int, degree: int) -> Integers:
    """Return 1, θ, θ², …, all p^degree − 1 of them, as rows of coefficients."""
    order = p**degree - 1
    step = _companion(p, degree)
    powers = np.zeros((1, degree), dtype=np.int64)
    powers[0, 0] = 1
    while len(powers) < order:
        powers = np.vstack([powers, powers @ step % p])
        step = step @ step % p
    return powers[:order]


def _companion(p: int, degree: int) -> Integers:
    """Return multiplication by the root of a primitive polynomial: the matrix has order p^degree − 1.

    Then its powers are p^degree − 1 different units, so the polynomials modulo it form a field.
    """
    order = p**degree - 1
    identity = np.eye(degree, dtype=np.int64)
    parts = [order // prime for prime in _primes(order)]
    for coefficients in product(range(p), repeat=degree):
        if coefficients[-1] == 0:
            continue
        matrix = np.zeros((degree, degree), dtype=np.int64)
        matrix[:-1, 1:] = np.eye(degree - 1, dtype=np.int64)
        matrix[-1] = [-c % p for c in reversed(coefficients)]
        powers = (_power(matrix, e, p) for e in parts)
        if (_power(matrix, order, p) == identity).all() and not any(
            (power == identity).all() for power in powers
        ):
            return matrix
    raise AssertionError("every finite field has a primitive polynomial")


def _power(matrix: Integers, exponent: int, p: int) -> Integers:
    result = np.eye(len(matrix), dtype=np.int64)
    while exponent:
        if exponent & 1:
            result = result @ matrix % p
        matrix = matrix @ matrix % p
        exponent >>= 1
    return result
