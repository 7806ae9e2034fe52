"""Blocks that multiply Chebyshev polynomials: exact, shallow, and stable where powers are not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import fmpq_poly
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer.algebra import Polynomial
from exactformer.algebra.chebyshev import absolute_sum, from_powers, to_powers
from exactformer.algebra.rational import to_fmpq
from exactformer.algebra.ridge import ridge_form
from exactformer.polynomials.constructions.chebyshev import chebyshev
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certify import Proof
from exactformer.polynomials.proof.symbolic import run_symbolic
from tests.examples import examples

fractions = st.fractions(-5, 5, max_denominator=12)


@given(st.lists(fractions, min_size=1, max_size=12))
@settings(max_examples=examples(60))
def test_powers_and_chebyshev_polynomials_are_two_ways_to_write_the_same(powers) -> None:
    c = from_powers(powers)
    assert to_powers(c) == powers
    t = Fraction(3, 7)
    values = [Fraction(1), t]
    while len(values) < len(c):
        values.append(2 * t * values[-1] - values[-2])
    assert sum(a * t**s for s, a in enumerate(powers)) == sum(
        ck * value for ck, value in zip(c, values, strict=False)
    )
    assert sum(map(abs, c)) <= sum(map(abs, powers))
    size = absolute_sum(fmpq_poly([to_fmpq(a) for a in powers]), Fraction(1))
    assert size == sum((to_fmpq(abs(ck)) for ck in c), to_fmpq(Fraction(0)))


@pytest.mark.parametrize("q", [1, 2, 3, 7, 8, 9, 60])
def test_the_stream_holds_chebyshev_polynomials_and_depth_is_logarithmic(q: int) -> None:
    form = ridge_form(Polynomial.parse(f"x^{q} + 1"))
    blueprint = chebyshev(form, Fraction(1))
    assert blueprint.depth == (q - 1).bit_length()
    run = run_symbolic(blueprint, Fraction(1))
    stream = run.blocks[-1].output[0] if run.blocks else run.tokens[0]
    before, T = fmpq_poly([1]), fmpq_poly([0, 1])
    for s in range(2, q + 1):
        before, T = T, 2 * fmpq_poly([0, 1]) * T - before
        assert stream[blueprint.dimensions.index(f"Chebyshev {s}")] == T


def test_degree_60_keeps_thirteen_digits_where_powers_keep_eight() -> None:
    """sin(20 u) on [−1, 1] by its interpolant of degree 60, certified."""
    coefficients = np.polynomial.chebyshev.chebinterpolate(lambda u: np.sin(20 * u + 1), 60)
    powers = to_powers([Fraction(c) for c in coefficients])
    target = Polynomial.from_terms({(s,): a for s, a in enumerate(powers)}, ["x"])
    x = np.linspace(-1, 1, 301)
    exact = [target.at([v]) for v in x]
    worst = {}
    for name in ("chebyshev", "scaled"):
        model = ef.compile(target, construction=name)
        for executor in ("fused", "literal"):
            module = PolynomialModel(model.blueprint, Proof(model.certificate), executor=executor)
            errors = [
                abs(Fraction(v) - e)
                for v, e in zip(module(x[:, None]).tolist(), exact, strict=True)
            ]
            bound = model.certificate.bound(torch.float64, executor)
            assert max(errors) <= bound
            worst[name, executor] = float(max(errors)), bound
    for executor in ("fused", "literal"):
        error, bound = worst["chebyshev", executor]
        assert error < 1e-13
        assert bound < 2e-12
        assert worst["scaled", executor][0] > 1e4 * error
