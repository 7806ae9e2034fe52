"""Zero error, literally: the exact executor equals the polynomial, and the identity is proven.

The exact executor selects for itself (it takes the largest of all scores, whoever's it is) and shares
no code with the proofs, so every agreement here checks selection and identity at once.
"""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.errors import IdentityError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.proof.certify import SLACK, certify_blueprint
from exactformer.polynomials.proof.identity import prove_identity
from exactformer.polynomials.proof.selection import prove_selection
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.exact import run_exact
from tests.cases.polynomials import (
    KINDS,
    RADII,
    lattice_width,
    names,
    polynomials,
    radii,
    random_point,
    random_polynomial,
    shapes,
)
from tests.examples import examples

FAMILIES = ("lattice", "tailored", "spread")


def prove(blueprint: Blueprint, p: Polynomial) -> None:
    """Selection and identity, as a certificate proves them."""
    run = run_symbolic(blueprint, blueprint.radius * SLACK)
    prove_selection(run)
    assert prove_identity(run, p) == len(p)


@given(
    polynomials(max_width=36, dense_limit=40),
    radii(),
    st.sampled_from(sorted(CONSTRUCTIONS)),
    st.sampled_from(FAMILIES),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(300))
def test_the_model_is_the_polynomial(
    p: Polynomial, radius: Fraction, construction: str, family: str, rng: random.Random
) -> None:
    blueprint = CONSTRUCTIONS[construction](ridge_form(p, family), radius)
    prove(blueprint, p)
    for _ in range(2):
        x = random_point(rng, p.dimension, radius)
        assert run_exact(blueprint, x) == p.at(x)


def campaign(seed: int, count: int, max_width: int) -> int:
    """Check ``count`` random models; return how many points agreed."""
    rng = random.Random(seed)
    every, points = shapes(max_width), 0
    for _ in range(count):
        d, q = rng.choice(every)
        kind = rng.choice(KINDS)
        wide = lattice_width(d, q) > 100
        p = random_polynomial(rng, d, q, "sparse" if wide and kind == "dense" else kind)
        construction = rng.choice(sorted(CONSTRUCTIONS))
        family = rng.choice(("tailored", "auto") if wide else FAMILIES)
        radius = rng.choice(RADII)
        blueprint = CONSTRUCTIONS[construction](ridge_form(p, family), radius)
        prove(blueprint, p)
        for _ in range(2 if blueprint.tokens < 60 else 1):
            x = random_point(rng, d, radius)
            assert run_exact(blueprint, x) == p.at(x), (str(p), construction, family, radius, x)
            points += 1
    return points


@pytest.mark.slow
def test_thousands_of_models_are_their_polynomials_without_one_exception() -> None:
    with ProcessPoolExecutor(2) as pool:
        small = pool.map(campaign, range(20), [200] * 20, [40] * 20)
        large = pool.map(campaign, range(100, 104), [25] * 4, [1300] * 4)
        assert sum(small) + sum(large) >= 8_000


@pytest.mark.spread(12)
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
@pytest.mark.parametrize(
    ("text", "radius"),
    [
        ("0", 1),
        ("0 x", 1),
        ("5/7", 3),
        ("0 x + 0 y + 2", Fraction(1, 10)),
        ("x", Fraction(1, 1000)),
        ("x^8", 10**6),
        ("1e40 x^3 - 1e-40 y", Fraction(1, 2)),
        ("x y", 1),
        ("(x + y + z)^4 - 3", 2),
    ],
)
def test_small_cases(construction: str, text: str, radius: Fraction) -> None:
    p = Polynomial.parse(text)
    blueprint = CONSTRUCTIONS[construction](ridge_form(p), Fraction(radius))
    certificate = certify_blueprint(blueprint, p)
    assert certificate.terms == len(p)
    rng = random.Random(0)
    for _ in range(5):
        x = random_point(rng, p.dimension, Fraction(radius))
        assert run_exact(blueprint, x) == p.at(x)


@given(polynomials(max_width=20), st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_any_other_target_is_refused(p: Polynomial, rng: random.Random) -> None:
    blueprint = CONSTRUCTIONS["scaled"](ridge_form(p), Fraction(1))
    run = run_symbolic(blueprint, Fraction(1))
    exponents = tuple(rng.randint(0, 3) for _ in p.variables)
    change = Fraction(rng.choice([-1, 1]), 10 ** rng.randint(0, 400))
    other = p + Polynomial.from_terms({exponents: change}, p.variables)
    with pytest.raises(IdentityError):
        prove_identity(run, other)


def test_a_target_with_other_variables_is_refused() -> None:
    p = Polynomial.parse("x + y")
    run = run_symbolic(CONSTRUCTIONS["scaled"](ridge_form(p), Fraction(1)), Fraction(1))
    for variables in (["y", "x"], ["x", "y", "z"]):
        with pytest.raises(IdentityError, match="variables"):
            prove_identity(run, p.on(variables))


def test_the_refusal_names_the_terms_even_where_no_float_holds_them() -> None:
    p = Polynomial.parse("x^2", names(1)[:0] or ["x"])
    run = run_symbolic(CONSTRUCTIONS["scaled"](ridge_form(p), Fraction(1)), Fraction(1))
    other = p + Polynomial.from_terms({(1,): 10**400, (3,): 1, (4,): 1, (5,): 1}, ["x"])
    with pytest.raises(IdentityError, match=r"x\^5 \(off by -1\).* and 1 more"):
        prove_identity(run, other)


def test_the_refusal_calls_the_constant_term_by_its_name() -> None:
    p = Polynomial.parse("x y + y^2")
    run = run_symbolic(CONSTRUCTIONS["scaled"](ridge_form(p), Fraction(1)), Fraction(1))
    with pytest.raises(IdentityError, match=r"differs in the constant term \(off by -2\)$"):
        prove_identity(run, p + Polynomial.from_terms({(0, 0): 2}, p.variables))
    with pytest.raises(IdentityError, match=r"differs in y \(off by -2\)$"):
        prove_identity(run, p + Polynomial.from_terms({(0, 1): 2}, p.variables))
