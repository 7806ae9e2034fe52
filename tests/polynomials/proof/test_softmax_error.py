"""Truncation, leakage and rounding of softmax transformers: never exceeded, each of them real.

The tolerance is the bound; references are exact rational values of the target.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.formats import FORMATS, float_format
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.softmax import softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.proof.softmax_error import (
    ErrorBound,
    roundings_of_a_weight,
    softmax_bound,
)
from exactformer.polynomials.proof.softmax_symbolic import run_softmax
from exactformer.polynomials.run.softmax import SoftmaxTransformer
from tests.cases.adversary import DTYPES, worst_error
from tests.cases.polynomials import RADII, random_polynomial

KERNELS = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION)
CHOICES = {
    torch.float64: [(12, "13/8"), (8, "3/4"), (2, "1/8"), (5, "6")],
    torch.float32: [(6, "2"), (11, "19/4"), (1, "1/8")],
    torch.bfloat16: [(2, "3"), (1, "1")],
    torch.float16: [(3, "3"), (1, "1/2")],
}
NOT_VACUOUS = 300


def bound_of(blueprint: Blueprint, dtype: torch.dtype) -> ErrorBound:
    slack = 1 + Fraction(1, 2**32)
    return softmax_bound(
        run_softmax(blueprint, blueprint.domain.enlarged(slack)), float_format(dtype)
    )


def observed(blueprint: Blueprint, p: Polynomial, dtype: torch.dtype, **options: int) -> Fraction:
    return worst_error(SoftmaxTransformer(blueprint, dtype), blueprint, p, dtype, **options)


@pytest.mark.spread(3)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bound_holds_against_an_adversary(dtype: torch.dtype, kernel: SDPBackend) -> None:
    rng = random.Random(f"{dtype} {kernel}")
    for k in range(3):
        d, q = rng.choice([(1, 2), (1, 5), (2, 2), (2, 4), (3, 3), (4, 2)])
        p = random_polynomial(rng, d, q, rng.choice(["sparse", "dense", "monomial"]))
        heads, span = rng.choice(CHOICES[dtype])
        form = ridge_form(p, rng.choice(["tailored", "lattice"]))
        blueprint = softmax(form, rng.choice(RADII), Extrapolation(heads, Fraction(span)))
        bound = bound_of(blueprint, dtype).total
        if bound is None:
            continue
        with sdpa_kernel(kernel):
            assert observed(blueprint, p, dtype, count=20, rounds=4, seed=k) <= Fraction(bound)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_bounds_are_not_vacuous(dtype: torch.dtype) -> None:
    p = Polynomial.parse("x^5 - 3 x^2 y^2 + y^3 + 2 x y")
    for heads, span in CHOICES[dtype]:
        blueprint = softmax(ridge_form(p), Fraction(3, 2), Extrapolation(heads, Fraction(span)))
        bound = bound_of(blueprint, dtype).total
        assert bound is not None
        worst = observed(blueprint, p, dtype, count=40, rounds=6)
        assert worst <= Fraction(bound) < NOT_VACUOUS * worst


def test_truncation_is_seen_almost_in_full() -> None:
    """One product, rounding out of the way: the module errs by 8/π² of the bound and more."""
    p = Polynomial.parse("x^2")
    for heads in (1, 2, 3, 4):
        blueprint = softmax(ridge_form(p), Fraction(1), Extrapolation(heads, Fraction(2)))
        bound = bound_of(blueprint, torch.float64)
        assert bound.total is not None
        assert bound.truncation is not None
        error = abs(SoftmaxTransformer(blueprint)(torch.ones(1, 1).double()).item() - 1)
        assert 0.8 * bound.truncation < error <= bound.total < 1.001 * bound.truncation


def test_small_nodes_amplify_rounding_as_bounded() -> None:
    """ε ≤ 1/512 makes the heads' values thousands: the error is within, and near, the bound."""
    p = Polynomial.parse("x^2")
    blueprint = softmax(ridge_form(p), Fraction(1), Extrapolation(3, Fraction(1, 512)))
    bound = bound_of(blueprint, torch.float64)
    assert bound.total is not None
    assert bound.truncation is not None
    assert bound.truncation < 1e-3 * bound.total
    x = torch.linspace(-1, 1, 20001, dtype=torch.float64)
    error = float((SoftmaxTransformer(blueprint)(x[:, None]) - x**2).abs().max())
    assert bound.total / 100 < error <= bound.total  # how near depends on the exponential at hand


def test_truncation_of_one_block_is_carried_through_the_next() -> None:
    """t⁸ at t = 1 has the errors of seven products; the bound has them all, and little else."""
    p = Polynomial.parse("x^8")
    for heads in (2, 3, 4):
        blueprint = softmax(ridge_form(p), Fraction(1), Extrapolation(heads, Fraction(1)))
        bound = bound_of(blueprint, torch.float64).total
        single = Extrapolation(heads, Fraction(1)).truncation()
        error = abs(SoftmaxTransformer(blueprint)(torch.ones(1, 1).double()).item() - 1)
        assert bound is not None
        assert 5 * single < error <= bound < 1.5 * error


def test_heads_that_do_not_extrapolate_get_the_bound_of_a_single_tanh() -> None:
    """Equal shares of the slope keep the linear part, but nothing cancels."""
    p = Polynomial.parse("x^2")
    good = softmax(ridge_form(p), Fraction(1), Extrapolation(2, Fraction(1)))
    block = good.blocks[0]
    power, one, null = (good.dimensions.index(name) for name in ("power 2", "one", "null"))
    equal = [
        replace(
            head,
            value=Matrix.of(
                good.width, good.width, {(power, one): 1 / node, (power, null): -1 / node}
            ),
        )
        for head, node in zip(
            block.attention.heads, Extrapolation(2, Fraction(1)).nodes, strict=True
        )
    ]
    attention = replace(block.attention, heads=tuple(equal))
    plain = replace(good, blocks=(replace(block, attention=attention),))
    error = abs(SoftmaxTransformer(plain)(torch.ones(1, 1).double()).item() - 1)
    bound, better = bound_of(plain, torch.float64), bound_of(good, torch.float64)
    assert bound.total is not None
    assert better.total is not None
    assert better.total < error <= bound.total < 2 * error


def test_leakage_is_real_and_counted() -> None:
    """A weak mask e^(−20) lets others in: the error exceeds truncation and rounding, not the bound."""
    p = Polynomial.parse("x^2 - y^2")
    strong = softmax(ridge_form(p), Fraction(1), Extrapolation(8, Fraction(3, 4)))

    def weakened(matrix: Matrix) -> Matrix:
        entries = {
            place: 20 * (1 if value > 0 else -1) if abs(value) == 64 else value
            for place, value in matrix.entries.items()
        }
        return Matrix.of(matrix.rows, matrix.columns, entries)

    block = strong.blocks[0]
    heads = tuple(replace(h, query=weakened(h.query)) for h in block.attention.heads)
    weak = replace(
        strong, blocks=(replace(block, attention=replace(block.attention, heads=heads)),)
    )
    bound = bound_of(weak, torch.float64)
    assert bound.total is not None
    assert bound.truncation is not None
    assert bound.rounding is not None
    worst = observed(weak, p, torch.float64, count=20, rounds=4)
    assert Fraction(bound.truncation + bound.rounding) < worst <= Fraction(bound.total)
    unharmed = bound_of(strong, torch.float64)
    assert unharmed.leakage is not None
    assert unharmed.leakage < 1e-20


def test_more_heads_trade_truncation_for_rounding() -> None:
    p = Polynomial.parse("x^4 + x y")
    bounds = [
        bound_of(softmax(ridge_form(p), Fraction(1), Extrapolation(k, Fraction(1))), torch.float64)
        for k in (2, 4, 8)
    ]
    truncation, rounding = [b.truncation for b in bounds], [b.rounding for b in bounds]
    assert truncation == sorted(truncation, reverse=True)
    assert rounding == sorted(rounding)


def test_numbers_too_large_for_a_format_give_a_reason_instead_of_a_bound() -> None:
    p = Polynomial.parse("x^4")
    blueprint = softmax(ridge_form(p), Fraction(10**6), Extrapolation(2, Fraction(1)))
    found = bound_of(blueprint, torch.float16)
    assert found.total is None
    assert "float16" in found.reason


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("tokens", [2, 16, 17, 600, 1100])
def test_kernels_weigh_as_they_are_assumed_to(
    tokens: int, dtype: torch.dtype, kernel: SDPBackend
) -> None:
    """Two tokens share, wherever they stand among masked ones; key blocks hold 512, so some rescale."""
    rng = np.random.default_rng(tokens)
    logit = torch.tensor([*np.linspace(-6, 6, 101), *rng.normal(size=100) * 1e-3], dtype=dtype)
    query = torch.zeros(len(logit), 8, dtype=dtype)
    query[:, 0], query[:, 1] = logit, 1
    limit = roundings_of_a_weight(FORMATS[str(dtype)[6:]], 0.0)
    for own, null in ((0, tokens - 1), (tokens - 1, 0), (tokens // 2, tokens // 2 - 1)):
        key = torch.zeros(tokens, 8, dtype=dtype)
        key[:, 1] = torch.from_numpy(-64.0 * rng.integers(1, 12, tokens)).to(dtype)
        key[own, 0], key[own, 1], key[null, 1] = 1, 0, 0
        value = torch.zeros(tokens, 8, dtype=dtype)
        value[own, 0] = value[null, 1] = 1
        with sdpa_kernel(kernel):
            parts = (part[None, None] for part in (query, key, value))
            mixed = scaled_dot_product_attention(*parts, scale=1.0)[0, 0]
        exact = logit.to(torch.float64).numpy().astype(np.longdouble)
        for column, sign in ((0, -1), (1, 1)):
            share = 1 / (1 + np.exp(sign * exact))
            wrong = np.abs(mixed[:, column].double().numpy() / share - 1)
            allowed = (limit + 5 + 8 * np.abs(exact)) * torch.finfo(dtype).eps / 2
            assert np.all(wrong <= allowed)
    zero = torch.zeros(1, 1, tokens, 8, dtype=dtype)
    ones = torch.ones(1, 1, tokens, 8, dtype=dtype)
    with sdpa_kernel(kernel):  # exp(0) = 1: equal weights of ones sum to one
        even = scaled_dot_product_attention(zero, zero, ones, scale=1.0)
    assert torch.allclose(even, ones, rtol=tokens * torch.finfo(dtype).eps, atol=0)
