"""Products, attention, softmax and norms over all inputs of 2 bits of significand and 2 of exponent."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
import torch

from exactformer.verification.balls import Ball
from exactformer.verification.rules.attention import attention, softmax
from exactformer.verification.rules.normalisation import layer_norm, rms_norm
from exactformer.verification.rules.pointwise import gelu, power, relu, rsqrt, sigmoid, silu, tanh
from exactformer.verification.rules.products import div, linear, scores
from tests.verification.tiny.formats import FLUSHING, Array, Tightness, Tiny, sums, tensor

FEW = Tiny(2, -1, 1).numbers
"""All numbers of 2 + 2 bits: 0, ±¼ to ±3."""
EIGHT = Tiny(precision=8, low=-14, high=15)


def every(k: int, share: float = 1.0, seed: int = 1) -> Array:
    """All rows of k of the few numbers, or a seeded part of them."""
    count = len(FEW) ** k
    chosen = np.arange(count)
    if share < 1:
        chosen = np.random.default_rng(seed).choice(count, int(count * share), replace=False)
    places = (chosen[:, None] // len(FEW) ** np.arange(k)) % len(FEW)
    return np.asarray(FEW[places])


SOME = pytest.mark.parametrize("part", [0.01, pytest.param(1.0, marks=pytest.mark.slow)])


@pytest.mark.parametrize("flushing", FLUSHING)
@pytest.mark.parametrize("scale", [-6, -4, -2, 0, 1])
def test_affine_sums_over_all_inputs_orders_and_fused_products(flushing: str, scale: int) -> None:
    """x₁w₁ + x₂w₂ + b for all of 15⁵ inputs, in 4 bits."""
    form, used = Tiny(flushing=flushing), Tightness()
    x, w = every(2) * 2.0**scale, every(3)
    w[:, 2] *= 2.0**scale
    balls = [form.ball(part) for part in (x, w[:, :2], w[:, 2])]
    ball = linear(form.context, *balls)
    scored = scores(form.context, balls[0], balls[1].turned, 0)
    x1, x2 = x[:, 0, None], x[:, 1, None]
    w1, w2, b = (np.broadcast_to(w[:, k], (len(x), len(w))) for k in range(3))
    first, second = form.times(x1, w1), form.times(x2, w2)
    for run in sums(form.add, [first, second, b]):
        used.compare(ball, run)
    inner = [form.fused(x1, w1, b), form.fused(x1, w1, second)]
    used.compare(ball, form.fused(x2, w2, inner[0]))
    used.compare(ball, form.add(inner[1], b))
    used.compare(ball, form.fused(x1, w1, form.fused(x2, w2, b)))
    used.compare(scored, form.add(first, second))
    used.compare(scored, inner[1])
    used.compare(scored, x1 * w1 + x2 * w2)


def exponentials(form: Tiny, x: Array, n: int) -> Iterator[Array]:
    """Yield exponentials that are off by a unit in the last place, in every combination of keys."""
    right = form.round(np.exp(form.taken(x)))
    exponent = np.where(right > 0, np.frexp(right)[1] - 1, form.low)
    spacing = np.maximum(exponent, form.low) - form.precision + 1
    for steps in product((-1, 0, 1), repeat=n):
        yield form.round(np.maximum(right + np.ldexp(np.array(steps, dtype=float), spacing), 0.0))


@pytest.mark.parametrize("flushing", FLUSHING)
@pytest.mark.parametrize(("n", "scale"), [(2, 1.0), (2, 4.0), (3, 1.0), (3, 0.25)])
def test_softmax_over_all_inputs(flushing: str, n: int, scale: float) -> None:
    """Exponentials off by a unit, sums in every order, quotients or products with a reciprocal."""
    form, used = EIGHT.but(flushing), Tightness()
    x = every(n) * scale
    ball = softmax(form.context, form.ball(x), -1)
    gap = form.add(x, -x.max(-1, keepdims=True))
    for top in exponentials(form, gap, n):
        for total in sums(form.add, list(top.T)):
            used.compare(ball, form.over(top, total[:, None]))
            used.compare(ball, form.times(top, form.over(np.ones(1), total[:, None])))
    e = np.exp(x - x.max(-1, keepdims=True))
    used.compare(ball, e / e.sum(-1, keepdims=True))
    assert used.share > 0.05


@pytest.mark.parametrize("flushing", FLUSHING)
@SOME
def test_attention_over_all_inputs(flushing: str, part: float) -> None:
    """Two keys of one number each: q, k, v for all of 15⁵ inputs, by weights and by fused sums."""
    form, used = EIGHT.but(flushing), Tightness()
    rows = every(5, part)
    q, k, v = rows[:, :1], rows[:, 1:3], rows[:, 3:]
    cubes = [form.ball(t[..., None]) for t in (q, k, v)]
    ball = attention(form.context, *cubes, scale=0.5)
    ball = Ball(ball.c[..., 0], ball.radius[..., 0], ball.spread[..., 0])
    exact = np.exp(0.5 * q * k)
    used.compare(ball, (exact * v).sum(-1, keepdims=True) / exact.sum(-1, keepdims=True))
    for s in (
        form.times(form.times(q, k), np.array(0.5)),
        form.times(form.times(q, np.array(0.5)), k),
    ):
        gap = form.add(s, -s.max(-1, keepdims=True))
        for e in exponentials(form, gap, 2):
            total = form.add(e[:, :1], e[:, 1:])
            p = form.over(e, total)
            weighed = form.times(p, v)
            used.compare(ball, form.add(weighed[:, :1], weighed[:, 1:]))
            used.compare(ball, form.fused(p[:, :1], v[:, :1], weighed[:, 1:]))
            raised = form.times(e, v)
            used.compare(ball, form.over(form.add(raised[:, :1], raised[:, 1:]), total))
            # One key after another: what there is, is rescaled where a larger score comes.
            for i, j in ((0, 1), (1, 0)):
                top = np.maximum(s[:, i], s[:, j])
                old = form.round(np.exp(form.add(s[:, i], -top)))[:, None]
                new = form.round(np.exp(form.add(s[:, j], -top)))[:, None]
                one = form.add(form.times(old, np.ones(1)), new)
                run = form.add(form.times(old, v[:, i, None]), form.times(new, v[:, j, None]))
                used.compare(ball, form.over(run, one))


def centred(form: Tiny, x: Array, order: tuple[int, ...]) -> tuple[Array, Array]:
    """Return a row less its mean, and its variance: a sum one after another, in an order."""
    total = x[:, order[0]]
    for k in order[1:]:
        total = form.add(total, x[:, k])
    d = np.array(float(x.shape[1]))
    y = form.add(x, -form.over(total, d)[:, None])
    squares = form.times(y, y)
    variance = squares[:, order[0]]
    for k in order[1:]:
        variance = form.fused(y[:, k], y[:, k], variance)
    return y, form.over(variance, d)


def welford(form: Tiny, x: Array, order: tuple[int, ...]) -> tuple[Array, Array]:
    """Return a row less its mean, and its variance, by one pass over its numbers."""
    mean, squares = x[:, order[0]], np.zeros(len(x))
    for count, k in enumerate(order[1:], 2):
        delta = form.add(x[:, k], -mean)
        mean = form.add(mean, form.over(delta, np.array(float(count))))
        squares = form.add(squares, form.times(delta, form.add(x[:, k], -mean)))
    return form.add(x, -mean[:, None]), form.over(squares, np.array(float(x.shape[1])))


@pytest.mark.parametrize("flushing", FLUSHING)
@pytest.mark.parametrize(
    ("d", "eps", "offset"), [(2, 0.25, 0.0), (3, 2.0**-8, 0.0), (3, 2.0**-8, 8.0)]
)
def test_layer_norm_over_all_inputs(flushing: str, d: int, eps: float, offset: float) -> None:
    """Two passes and Welford's formula, in every order of a row; in 10 bits."""
    form, used = Tiny(10, -14, 15, flushing), Tightness()
    x = every(d) + offset
    ball = layer_norm(form.context, form.ball(x), [d], eps=eps)
    y = x - x.mean(-1, keepdims=True)
    used.compare(ball, y / np.sqrt((y * y).mean(-1, keepdims=True) + eps))
    for order in permutations(range(d)):
        for formula in (centred, welford):
            y, variance = formula(form, x, order)
            sigma = form.round(np.sqrt(form.add(variance, np.array(eps))))[:, None]
            used.compare(ball, form.over(y, sigma))
            used.compare(ball, form.times(y, form.over(np.ones(1), sigma)))
    assert used.share > 0.01
    mean = form.over(form.add(form.times(x, x)[:, 0], form.times(x, x)[:, 1]), np.array(2.0))
    if d == 2:
        sigma = form.round(np.sqrt(form.add(mean, np.array(eps))))[:, None]
        used.compare(rms_norm(form.context, form.ball(x), [2], eps=eps), form.over(x, sigma))


@pytest.mark.parametrize("flushing", FLUSHING)
def test_functions_of_one_number_over_all_inputs(flushing: str) -> None:
    """Formulas of several rounded steps, in 8 bits."""
    form, used = EIGHT.but(flushing), Tightness()
    x = form.numbers[np.abs(form.numbers) < 64][:, None]
    ball, ctx = form.ball(x), form.context
    one, half = np.ones(1), np.array(0.5)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        e = form.round(np.exp(form.taken(-x)))
        logistic = form.over(one, form.add(one, e))
        used.compare(sigmoid(ctx, ball), logistic)
        used.compare(silu(ctx, ball), form.over(x, form.add(one, e)))
        used.compare(silu(ctx, ball), form.times(x, logistic))
        used.compare(tanh(ctx, ball), form.round(np.tanh(form.taken(x))))
        erf = torch.erf(tensor(form.taken(form.times(x, form.round(np.array(0.5**0.5)))))).numpy()
        used.compare(
            gelu(ctx, ball), form.times(form.times(x, half), form.add(one, form.round(erf)))
        )
        used.compare(power(ctx, ball, 2), form.times(x, x))
        used.compare(power(ctx, ball, 3), form.times(form.times(x, x), x))
        root = form.over(one, form.round(np.sqrt(form.taken(x))))
        used.compare(rsqrt(ctx, ball), root)
        for divisor in (3.0, 0.25, 100.0):
            b = form.round(np.full(1, divisor))
            quotient = div(ctx, ball, divisor)
            used.compare(quotient, form.over(x, b))
            used.compare(quotient, form.times(x, form.over(one, b)))


@pytest.mark.parametrize("flushing", FLUSHING)
def test_networks_of_two_layers_in_random_orders(flushing: str) -> None:
    """Balls with radii go through further sums: units of seeded networks in 8 bits."""
    form, used = EIGHT.but(flushing), Tightness()
    generator = np.random.default_rng(4)
    for scale in (-5, 0, 3):
        x = generator.choice(FEW, (300, 3)) * 2.0**scale
        w, b, v = (generator.choice(FEW, s) * 2.0 ** (scale // 2) for s in ((4, 3), (4,), (2, 4)))
        hidden = relu(form.context, linear(form.context, form.ball(x), form.ball(w), form.ball(b)))
        ball = linear(form.context, hidden, form.ball(v))
        for _ in range(20):
            run = [b[None, :], *(form.times(x[:, k, None], w[None, :, k]) for k in range(3))]
            h = np.maximum(_in_some_order(form, run, generator), 0.0)
            terms = [form.times(h[:, k, None], v[None, :, k]) for k in range(4)]
            used.compare(ball, _in_some_order(form, terms, generator))
    assert used.share > 0.05


def _in_some_order(form: Tiny, terms: list[Array], generator: np.random.Generator) -> Array:
    order = generator.permutation(len(terms))
    total = terms[order[0]]
    for k in order[1:]:
        total = form.add(total, terms[k])
    return total
