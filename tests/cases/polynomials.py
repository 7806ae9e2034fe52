"""Random polynomials: few and many variables, sparse and dense, huge and tiny coefficients.

``polynomials()`` is the strategy; ``random_polynomial`` draws from the same kinds with a plain
generator, for the campaigns that run thousands without hypothesis' bookkeeping.
"""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from math import comb

from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.ring import Exponents

MAX_DIMENSION = 6
MAX_DEGREE = 8
KINDS = ("zero", "constant", "monomial", "sparse", "dense", "huge", "tiny", "mixed")
RADII = tuple(Fraction(r) for r in ("1/1000", "1/3", "0.7", "1", "3/2", "10", "1000", "1000000"))


def names(dimension: int) -> list[str]:
    return [f"x{i + 1}" for i in range(dimension)]


def monomials(dimension: int, degree: int) -> list[Exponents]:
    """Every exponent vector of at most this degree."""
    return [a for a in product(range(degree + 1), repeat=dimension) if sum(a) <= degree]


def lattice_width(dimension: int, degree: int) -> int:
    """n_q of the paper, written down again rather than imported."""
    return comb(dimension - 1 + degree, degree)


def shapes(max_width: int) -> list[tuple[int, int]]:
    """The (d, q) with d ≤ 6, q ≤ 8 whose lattice has at most ``max_width`` directions."""
    return [
        (d, q)
        for d in range(1, MAX_DIMENSION + 1)
        for q in range(MAX_DEGREE + 1)
        if lattice_width(d, q) <= max_width
    ]


def random_exponents(rng: random.Random, dimension: int, degree: int) -> Exponents:
    """One exponent vector of at most this degree, the total degree uniform."""
    exponents = [0] * dimension
    for _ in range(rng.randint(0, degree)):
        exponents[rng.randrange(dimension)] += 1
    return tuple(exponents)


def random_coefficient(rng: random.Random, kind: str) -> Fraction:
    small = Fraction(rng.choice([-1, 1]) * rng.randint(1, 99), rng.randint(1, 99))
    if kind == "huge" or (kind == "mixed" and rng.random() < 0.3):
        return small * 10 ** rng.randint(10, 40)
    if kind == "tiny" or (kind == "mixed" and rng.random() < 0.3):
        return small / 10 ** rng.randint(10, 40)
    return small


def random_polynomial(
    rng: random.Random, dimension: int, degree: int, kind: str, dense_limit: int = 200
) -> Polynomial:
    """Return a polynomial of at most this degree; ``kind`` is one of KINDS."""
    if kind == "zero":
        exponents: list[Exponents] = []
    elif kind == "constant":
        exponents = [(0,) * dimension]
    elif kind == "monomial":
        exponents = [random_exponents(rng, dimension, degree)]
    elif kind == "dense" and comb(dimension + degree, degree) <= dense_limit:
        exponents = monomials(dimension, degree)
    else:
        exponents = [random_exponents(rng, dimension, degree) for _ in range(rng.randint(2, 8))]
    terms = {a: random_coefficient(rng, kind) for a in exponents}
    return Polynomial.from_terms(terms, names(dimension))


def random_point(rng: random.Random, dimension: int, radius: Fraction) -> list[Fraction]:
    """A rational point of the closed ball; a third of them within 1e-6 of its boundary."""
    direction = [rng.gauss(0, 1) for _ in range(dimension)]
    norm = sum(c * c for c in direction) ** 0.5 or 1.0
    length = rng.choice([rng.random(), rng.random() ** 4, 1 - 1e-6])
    point = [Fraction(c / norm * length).limit_denominator(10**6) * radius for c in direction]
    while sum(c * c for c in point) > radius * radius:
        point = [c * Fraction(999_999, 1_000_000) for c in point]
    return point


def coefficients() -> st.SearchStrategy[Fraction]:
    """Rationals, zero left out: small ones, and 1e±40."""
    small = st.builds(
        Fraction, st.integers(-99, 99).filter(bool), st.integers(min_value=1, max_value=99)
    )
    scale = st.sampled_from([Fraction(1)] * 4 + [Fraction(10) ** k for k in (-40, -7, 7, 40)])
    return st.builds(lambda a, b: a * b, small, scale)


@st.composite
def polynomials(
    draw: st.DrawFn, max_width: int = 60, min_dimension: int = 1, dense_limit: int = 60
) -> Polynomial:
    """Polynomials with d ≤ 6, q ≤ 8 whose lattice has at most ``max_width`` directions."""
    d, q = draw(st.sampled_from([s for s in shapes(max_width) if s[0] >= min_dimension]))
    every = monomials(d, q)
    kind = draw(st.sampled_from(["zero", "constant", "monomial", "sparse", "sparse", "dense"]))
    if kind == "zero":
        chosen: list[Exponents] = []
    elif kind == "constant":
        chosen = [(0,) * d]
    elif kind == "dense" and len(every) <= dense_limit:
        chosen = every
    else:
        size = 1 if kind == "monomial" else 8
        chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=size, unique=True))
    terms = {a: draw(coefficients()) for a in chosen}
    return Polynomial.from_terms(terms, names(d))


def radii() -> st.SearchStrategy[Fraction]:
    return st.sampled_from(RADII)


@st.composite
def points(draw: st.DrawFn, dimension: int, radius: Fraction) -> list[Fraction]:
    """Rational points of the closed ball."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    return random_point(rng, dimension, radius)
