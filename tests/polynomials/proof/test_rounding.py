"""Rounding: the adversary never exceeds the certified bound, and the bound is not vacuous.

The tolerance of these tests is the certificate. References are exact rational values of the target at
the very floats that the module was given.
"""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.constructions.paper import paper
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.proof.certificate import EXECUTORS, PolynomialCertificate
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import fuse
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from exactformer.polynomials.run.literal import LiteralTransformer
from tests.cases.adversary import DTYPES, worst_error
from tests.cases.blueprints import direct_form
from tests.cases.polynomials import RADII, names, random_polynomial
from tests.examples import examples

NOT_VACUOUS = 1000
SHAPES = ((1, 1), (1, 3), (1, 8), (2, 2), (2, 4), (2, 8), (3, 4), (4, 3), (4, 5), (6, 2), (6, 4))
F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


def module_of(blueprint: Blueprint, executor: str, dtype: torch.dtype) -> torch.nn.Module:
    if executor == "literal":
        return LiteralTransformer(blueprint, dtype)
    return FusedTransformer(fuse(run_symbolic(blueprint, blueprint.radius)), dtype)


def bound_of(certificate: PolynomialCertificate, executor: str, dtype: torch.dtype) -> float | None:
    table = certificate.rounding if executor == "literal" else certificate.fused
    bound = table[str(dtype).removeprefix("torch.")]
    return bound.value


def attack(
    blueprint: Blueprint, p: Polynomial, dtype: torch.dtype, executor: str, **options: int
) -> tuple[float, Fraction] | None:
    """Return bound and worst error found; None where nothing is guaranteed."""
    bound = bound_of(certify_blueprint(blueprint, p), executor, dtype)
    if bound is None:
        return None
    worst = worst_error(module_of(blueprint, executor, dtype), blueprint, p, dtype, **options)
    assert worst <= Fraction(bound), (str(p), blueprint.construction, executor, dtype)
    return bound, worst


@pytest.mark.spread(10)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_the_bound_holds_against_an_adversary(
    construction: str, dtype: torch.dtype, executor: str
) -> None:
    rng = random.Random(f"{construction} {dtype} {executor}")
    for k in range(3):
        d, q = rng.choice(SHAPES[:8])
        p = random_polynomial(rng, d, q, rng.choice(["sparse", "dense", "monomial"]))
        form = ridge_form(p, rng.choice(["tailored", "lattice", "spread"]))
        blueprint = CONSTRUCTIONS[construction](form, rng.choice(RADII))
        found = attack(blueprint, p, dtype, executor, count=30, rounds=5, seed=k)
        assert found is None or found[1] <= Fraction(found[0])


@pytest.mark.spread(2)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_scaled_bounds_are_not_vacuous(dtype: torch.dtype, executor: str) -> None:
    rng = random.Random(4)
    for family in ("tailored", "lattice", "spread"):
        d, q = rng.choice(SHAPES[3:8])
        p = random_polynomial(rng, d, q, "dense")
        blueprint = scaled(ridge_form(p, family), rng.choice(RADII))
        result = attack(blueprint, p, dtype, executor, count=60, rounds=8)
        assert result is not None
        bound, worst = result
        assert bound < NOT_VACUOUS * worst


def test_f2_of_the_paper_in_every_format() -> None:
    p = Polynomial.parse(F2, names(10))
    blueprint = scaled(ridge_form(p), Fraction(4))
    for dtype in DTYPES:
        for executor in EXECUTORS:
            result = attack(blueprint, p, dtype, executor, count=60, rounds=6)
            assert result is not None
            assert result[0] < NOT_VACUOUS * result[1]


def test_bounds_of_many_tokens_are_not_vacuous() -> None:
    """252 tokens: errors add up in the bound, and cancel at random in what is seen."""
    p = random_polynomial(random.Random(1), 6, 4, "dense", dense_limit=1000)
    blueprint = scaled(ridge_form(p, "spread"), Fraction(2))
    assert blueprint.tokens == 252
    for dtype in (torch.float32, torch.bfloat16):
        result = attack(blueprint, p, dtype, "fused", count=40, rounds=4)
        assert result is not None
        assert result[0] < NOT_VACUOUS * result[1]


@given(st.integers(-498, 498), st.integers(1, 4), st.sampled_from(["float64", "float32"]))
@example(exponent=498, q=1, name="float64")
@settings(max_examples=examples(40))
def test_bounds_follow_the_scale_of_the_ball(exponent: int, q: int, name: str) -> None:
    """Powers of two move exponents only, so (R·2^k, Q/2^kq) must have the bound of (R, Q)."""
    shift = Fraction(2) ** (exponent // q)
    p = Polynomial.parse(f"x^{q} + 3/7 (x + y)^{q} - y/5")
    moved = Polynomial.from_terms(
        {a: c / shift ** sum(a) for a, c in p.terms().items()}, p.variables
    )
    here = certify_blueprint(scaled(ridge_form(p), Fraction(3, 7)), p)
    there = certify_blueprint(scaled(ridge_form(moved), Fraction(3, 7) * shift), moved)
    ours, theirs = here.rounding[name].value, there.rounding[name].value
    if theirs is None:  # float32 has fewer exponents than the ball asks for
        assert name == "float32"
        return
    if name == "float64" or abs(exponent) < 60:
        assert ours == pytest.approx(theirs, rel=1e-6, abs=0)
    else:
        assert theirs >= ours * (1 - 1e-6)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("radius", "float32_paper", "float64_paper"),
    [(1, 4e-7, 6e-16), (5, 1e-5, 2e-14), (10, 8e-5, 2e-13), (30, 3e-3, 5e-12)],
)
def test_the_rounding_table_of_the_paper_and_of_scaled(
    radius: int, float32_paper: float, float64_paper: float
) -> None:
    """Known: largest error / B^q for n = 8, q = 5, t uniform in [−B, B]; scaled stays at row one.

    One coordinate at a time, so that every point lies in the ball of radius B and M = B.
    """
    q, n = 5, 8
    form = direct_form(np.eye(n, dtype=int).tolist(), [[0, 0, 0, 0, 1]] * n)
    rng = np.random.default_rng(0)
    expected = {torch.float32: (float32_paper, 4e-7), torch.float64: (float64_paper, 6e-16)}
    for dtype, (printed, first_row) in expected.items():
        points = rng.uniform(-radius, radius, size=(1000, n))
        x = torch.from_numpy(points).to(dtype)
        power = x.double().numpy().astype(np.longdouble) ** q
        for build, typical in ((paper, printed), (scaled, first_row)):
            module = LiteralTransformer(build(form, Fraction(radius)), dtype)
            each = [module(x * torch.eye(n, dtype=dtype)[i]) for i in range(n)]
            computed = torch.stack(each, dim=1).double().numpy()
            error = np.abs(computed - power).max() / float(radius) ** q
            assert typical / 10 < error < 4 * typical


def campaign(seed: int, count: int) -> list[tuple[str, str, str, int, int, float]]:
    """Attack random models; return (construction, executor, dtype, d, q, bound/worst)."""
    torch.set_num_threads(1)
    rng = random.Random(seed)
    found = []
    for k in range(count):
        d, q = rng.choice(SHAPES)
        p = random_polynomial(rng, d, q, rng.choice(["sparse", "dense", "monomial", "mixed"]))
        form = ridge_form(p, rng.choice(["tailored", "lattice", "spread"]))
        if form.width > 150:
            continue
        construction = rng.choice(["scaled", "scaled", "paper", "doubling"])
        blueprint = CONSTRUCTIONS[construction](form, rng.choice(RADII))
        for dtype in DTYPES:
            for executor in EXECUTORS:
                result = attack(blueprint, p, dtype, executor, count=40, rounds=8, seed=k)
                if result is not None and result[1]:
                    ratio = float(Fraction(result[0]) / result[1])
                    found.append((construction, executor, str(dtype)[6:], d, q, ratio))
    return found


@pytest.mark.slow
def test_the_bound_holds_at_length_and_scaled_is_never_vacuous() -> None:
    with ProcessPoolExecutor(2) as pool:
        found = [row for part in pool.map(campaign, range(8), [25] * 8) for row in part]
    assert len(found) > 800
    for construction, executor, dtype, d, q, ratio in found:
        if construction == "scaled" and dtype != "float16":
            assert ratio < NOT_VACUOUS, (executor, dtype, d, q, ratio)
