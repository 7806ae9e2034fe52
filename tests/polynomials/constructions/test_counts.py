"""Theorem 3.5's counts, and where its printed bounds stop holding."""

from fractions import Fraction
from math import comb

import pytest

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.algebra.ridge.lattice import lattice_points
from exactformer.polynomials.constructions.paper import paper
from exactformer.polynomials.constructions.scaled import scaled


def dense(d: int, q: int) -> Polynomial:
    terms = {a: 1 for s in range(q + 1) for a in lattice_points(d, s)}
    return Polynomial.from_terms(terms, [f"x{i + 1}" for i in range(d)])


SIZES = [(d, q) for d in range(1, 6) for q in range(1, 7) if comb(d - 1 + q, q) <= 60]


@pytest.mark.parametrize(("d", "q"), SIZES)
@pytest.mark.parametrize("directions", ["lattice", "tailored"])
def test_paper_has_exactly_the_theorems_counts(d: int, q: int, directions: str) -> None:
    blueprint = paper(ridge_form(dense(d, q), directions), Fraction(2))
    n, counts = blueprint.tokens, blueprint.counts()
    assert counts.per_block == (2 * n + 8,) * q
    assert counts.depth == q
    assert counts.width == n + q + 2
    assert counts.free == n * d + n * q + 1
    assert counts.total == n * d + 3 * n * q + 8 * q + 1


@pytest.mark.parametrize(("d", "q"), SIZES)
def test_the_printed_bounds_hold_and_are_strict_exactly_for_d_and_q_above_one(
    d: int, q: int
) -> None:
    counts = paper(ridge_form(dense(d, q), "lattice"), Fraction(2)).counts()
    free_bound = d ** (q + 1) + q * d**q + 1
    total_bound = d ** (q + 1) + 3 * q * d**q + 8 * q + 1
    assert counts.free <= free_bound
    assert counts.total <= total_bound
    strict = d >= 2 and q >= 2
    assert (counts.free < free_bound) is strict
    assert (counts.total < total_bound) is strict


@pytest.mark.parametrize(("d", "q"), SIZES)
def test_scaled_saves_a_block_and_four_weights_a_block(d: int, q: int) -> None:
    blueprint = scaled(ridge_form(dense(d, q), "lattice"), Fraction(2))
    n, counts = blueprint.tokens, blueprint.counts()
    assert counts.per_block == (2 * n + 4,) * (q - 1)
    assert counts.free == n * d + n * q + 1


def test_the_printed_experiments_count_more_directions_than_the_lemma() -> None:
    # f₁*: 41 free parameters, d = q = 2; f₂*: a hidden layer of 4368 units, d = 10, q = 5.
    assert [n for n in range(1, 99) if n * 2 + n * 2 + 1 == 41] == [10]
    assert comb(2 + 2 + 1, 2) == 10
    assert comb(10 + 5 + 1, 5) == 4368
    assert (comb(2 - 1 + 2, 2), comb(10 - 1 + 5, 5)) == (3, 2002)
