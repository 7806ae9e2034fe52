"""Ridge forms (Lemma 3.3): the identity is exact for every family; norms, widths, amplification."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from math import comb, factorial, prod

import pytest
from flint import fmpq, fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import RidgeForm, ridge_form
from exactformer.algebra.ridge.form import norm_bound
from exactformer.algebra.ridge.lattice import lattice_points, lattice_ridges
from exactformer.errors import InputError, SizeError
from tests.cases.polynomials import (
    KINDS,
    lattice_width,
    monomials,
    names,
    polynomials,
    random_polynomial,
    shapes,
)
from tests.examples import examples

FAMILIES = ("auto", "lattice", "spread", "tailored")
F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


def check(form: RidgeForm, p: Polynomial) -> None:
    """Identity, norms and shape, all exactly."""
    assert form.to_polynomial() == p
    assert form.constant == p.constant
    assert all(sum(c * c for c in row) <= 1 for row in form.directions)
    assert len(form.directions) == len(form.beta) == form.width >= 1
    assert all(len(row) == p.degree for row in form.beta)


@given(polynomials(max_width=60), st.sampled_from(FAMILIES))
@settings(max_examples=examples(250))
def test_every_family_represents_the_polynomial_exactly(p: Polynomial, family: str) -> None:
    check(ridge_form(p, family), p)


@given(polynomials(max_width=60))
@settings(max_examples=examples(60))
def test_widths(p: Polynomial) -> None:
    n_q = lattice_width(p.dimension, p.degree) if p.degree else 1
    assert ridge_form(p, "lattice").width == n_q
    twice = 2 if p.degree and p.dimension > 1 else 1  # on a line all directions are parallel
    assert ridge_form(p, "spread").width == twice * n_q
    assert ridge_form(p, "auto").width <= min(n_q, ridge_form(p, "tailored").width)


@pytest.mark.slow
def test_thousands_of_random_polynomials_have_exact_ridge_forms() -> None:
    rng = random.Random(7)
    every = shapes(1287)
    for _ in range(3_000):
        d, q = rng.choice(every)
        p = random_polynomial(rng, d, q, rng.choice(KINDS))
        families = FAMILIES if lattice_width(d, q) <= 60 else ("auto", "lattice", "tailored")
        for family in families:
            check(ridge_form(p, family), p)


def test_f2_needs_eleven_directions() -> None:
    p = Polynomial.parse(F2, names(10))
    form = ridge_form(p)
    check(form, p)
    assert (form.width, form.family) == (11, "tailored")


def test_directions_of_tailored_forms_are_never_parallel() -> None:
    p = Polynomial.parse("(x + 2y - z)^4 + x y z + (x - y)^3")
    directions = ridge_form(p, "tailored").directions
    for i, a in enumerate(directions):
        for b in directions[:i]:
            dot = sum(s * t for s, t in zip(a, b, strict=True))
            assert dot**2 < sum(s * s for s in a) * sum(t * t for t in b)


@pytest.mark.parametrize(("d", "q"), [(1, 5), (2, 1), (2, 4), (3, 3), (4, 2), (3, 5), (5, 3)])
def test_lattice_coefficients_are_those_of_an_exact_linear_solve(d: int, q: int) -> None:
    """The closed form against FLINT: Σ_α β_α (α·x)^s = Q_s over the nodes of order s."""
    p = random_polynomial(random.Random(d * 100 + q), d, q, "dense", dense_limit=10**6)
    ridges = lattice_ridges(p)
    for s in range(1, q + 1):
        nodes = [a for a in lattice_points(d, q) if a[0] >= q - s]
        basis = [a for a in monomials(d, s) if sum(a) == s]
        assert len(nodes) == len(basis) == comb(d - 1 + s, s)
        matrix = fmpq_mat(
            [
                [
                    fmpq(factorial(s), prod(factorial(e) for e in a))
                    * prod(v**e for v, e in zip(node, a, strict=True))
                    for node in nodes
                ]
                for a in basis
            ]
        )
        right = fmpq_mat([[fmpq(c.numerator, c.denominator)] for c in map(p.coefficient, basis)])
        solution = matrix.solve(right)
        for k, node in enumerate(nodes):
            assert ridges[node].get(s, fmpq(0)) == solution[k, 0]


def test_amplification_of_the_lattice_is_what_facts_says_and_spread_is_lower() -> None:
    """In the setting of the known figures (random dense form) but smaller: d = 5, q = 5."""
    rng = random.Random(1)
    terms = {a: Fraction(rng.gauss(0, 1)) for a in monomials(5, 5) if sum(a) == 5}
    p = Polynomial.from_terms(terms, names(5))
    lattice, spread = (ridge_form(p, f).amplification() for f in ("lattice", "spread"))
    assert 1 <= spread < lattice < 1e3
    assert ridge_form(Polynomial.parse("x^3")).amplification(5) == pytest.approx(1)


@pytest.mark.slow
def test_amplification_for_d_10_and_q_5_is_about_220() -> None:
    rng = random.Random(1)
    terms = {a: Fraction(rng.gauss(0, 1)) for a in product(range(6), repeat=10) if sum(a) == 5}
    lattice = ridge_form(Polynomial.from_terms(terms, names(10)), "lattice")
    assert lattice.width == 2002
    assert 50 < lattice.amplification() < 1e3


@given(st.lists(st.integers(-2000, 2000), min_size=1, max_size=6))
@settings(max_examples=examples(200))
def test_norm_bounds_are_above_and_close(vector: list[int]) -> None:
    bound, square = norm_bound(tuple(vector)), sum(v * v for v in vector)
    if square:
        assert bound**2 >= square
        assert (bound - Fraction(1, 1024)) ** 2 < square
        assert bound.denominator <= 1024


@pytest.mark.spread(10)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", ["x^142", "x^99 y", "x^130 y^3", "(x+y)^60", "5", "0", "0 x"])
def test_high_degrees_and_constants(text: str, family: str) -> None:
    p = Polynomial.parse(text)
    check(ridge_form(p, family), p)


def test_limits_are_named() -> None:
    wide = Polynomial.parse("(a+b+c+d+e+f+g+h)^12")
    with pytest.raises(SizeError, match="n_q"):
        ridge_form(wide, "spread")
    with pytest.raises(SizeError, match="directions"):
        ridge_form(Polynomial.parse(" ".join(f"x{i}" for i in range(30))), "lattice")
    with pytest.raises(SizeError, match="polarisation"):
        ridge_form(Polynomial.parse(" ".join(f"x{i}" for i in range(30))), "tailored")
    with pytest.raises(InputError, match="choose one of"):
        ridge_form(Polynomial.parse("x"), "random")
