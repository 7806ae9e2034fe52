"""Doubling: logarithmic depth, the same function, the same proofs."""

from fractions import Fraction
from math import ceil, log2

import pytest

import exactformer as ef
from exactformer.algebra.ridge import ridge_form
from exactformer.polynomials.constructions.doubling import doubling
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.run.exact import run_exact


@pytest.mark.parametrize("q", range(1, 18))
def test_depth_is_the_logarithm_of_the_degree(q: int) -> None:
    form = ridge_form(ef.Polynomial.parse(f"x^{q} + x y"))
    degree = max(q, 2)
    blueprint = doubling(form, Fraction(2))
    assert blueprint.depth == ceil(log2(degree))
    assert sum(len(b.attention.heads) for b in blueprint.blocks) == degree - 1
    assert blueprint.width == scaled(form, Fraction(2)).width


def test_five_to_eight_take_three_blocks_and_nine_to_sixteen_four() -> None:
    depths = [
        doubling(ridge_form(ef.Polynomial.parse(f"x^{q}")), Fraction(1)).depth for q in range(1, 17)
    ]
    assert depths == [0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("target", ["x^7 - 3 x^2 y^3 + 1/2", "x", "4", "(x + y + z)^5"])
@pytest.mark.parametrize("radius", ["1/7", "3"])
def test_it_is_exact_and_certified_like_the_rest(target: str, radius: str) -> None:
    polynomial = ef.Polynomial.parse(target)
    model = ef.compile(polynomial, radius, construction="doubling", executor="literal")
    assert model.certificate.zero_error
    point = [Fraction(radius) / (3 + k) for k in range(polynomial.dimension)]
    assert run_exact(model.blueprint, point) == polynomial.at(point)
    exact = float(polynomial.at([float(p) for p in point]))
    error = abs(float(model([float(p) for p in point])) - exact)
    assert error <= model.certificate.bound("float64", "literal") + abs(exact) * 2**-53


def test_every_head_has_as_many_weights_as_a_scaled_block() -> None:
    form = ridge_form(ef.Polynomial.parse("x^8 + y^8"))
    n = form.width
    assert doubling(form, Fraction(1)).counts().per_block == tuple(
        h * (2 * n + 4) for h in (1, 2, 4)
    )
