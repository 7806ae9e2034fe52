"""Sums in every order, over all inputs of a format of 4 bits of significand and 4 of exponent."""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from exactformer.verification.rounding import loss, share
from exactformer.verification.rules import RULES
from exactformer.verification.rules.pointwise import relu
from exactformer.verification.rules.products import add, linear, mul, sub
from tests.verification.tiny.formats import FLUSHING, Array, Tightness, Tiny, sums

FORMAT = Tiny()
BAD = len(FORMAT.numbers)


@cache
def table(flushing: str) -> NDArray[np.uint8]:
    """The sum of any two numbers by place; what overflows has a place of its own."""
    form, numbers = FORMAT.but(flushing), FORMAT.numbers
    made = form.add(numbers[:, None], numbers[None, :])
    places = np.searchsorted(numbers, np.where(np.isfinite(made), made, 0.0))
    whole = np.full((BAD + 1, BAD + 1), BAD, dtype=np.uint8)
    whole[:BAD, :BAD] = np.where(np.isfinite(made), places, BAD)
    return whole


def attack(places: NDArray[np.uint8], flushing: str) -> float:
    """Sum rows of numbers in every order; return the largest part of the bound that an order uses."""
    form, plus = FORMAT.but(flushing), table(flushing)
    numbers = np.append(FORMAT.numbers, np.nan)
    terms = [numbers[column] for column in places]
    exact, size = sum(terms), sum(map(np.abs, terms))
    assert isinstance(exact, np.ndarray)
    a, k = form.context.arithmetic, len(places)
    bound = share(a, k - 1) * size + loss(a, k - 1)
    if flushing == "what is read":
        bound = bound + sum(np.where(np.abs(t) < a.normal, np.abs(t), 0.0) for t in terms)
    worst = 0.0
    for found in sums(lambda x, y: plus[x, y], list(places)):
        off = np.abs(numbers[found] - exact) / bound
        worst = max(worst, float(np.nanmax(off)))
    assert worst <= 1
    return worst


def all_sorted(k: int) -> NDArray[np.uint8]:
    """All choices of k numbers, up to their order."""
    if k == 2:
        rows = np.array(list(combinations_with_replacement(range(BAD), 2)), dtype=np.uint8)
        return rows.T
    first, second = all_sorted(2).astype(np.int64)
    reps = BAD - second
    third = np.concatenate([np.arange(s, BAD) for s in second])
    columns = np.stack([np.repeat(first, reps), np.repeat(second, reps), third])
    return columns.astype(np.uint8)


@pytest.mark.parametrize("flushing", FLUSHING)
def test_sums_of_two_over_all_inputs(flushing: str) -> None:
    form = FORMAT.but(flushing)
    numbers, used = form.numbers, Tightness()
    a, b = np.repeat(numbers, BAD)[:, None], np.tile(numbers, BAD)[:, None]
    for rule, sign in ((add, 1), (sub, -1)):
        used.compare(rule(form.context, form.ball(a), form.ball(b)), form.add(a, sign * b))
    used.compare(mul(form.context, form.ball(a), form.ball(b)), form.times(a, b))
    assert used.count > 100_000
    assert used.share > 0.5


@pytest.mark.parametrize(
    "flushing", ["never", pytest.param("before rounding", marks=pytest.mark.slow)]
)
def test_sums_of_three_over_all_inputs_and_orders(flushing: str) -> None:
    assert attack(all_sorted(3), flushing) > 0.4


@pytest.mark.parametrize("flushing", FLUSHING)
@pytest.mark.parametrize("count", [25_000, pytest.param(2_500_000, marks=pytest.mark.slow)])
def test_sums_of_four_and_five_in_all_orders(flushing: str, count: int) -> None:
    """The whole run has 10⁷ inputs, 2,500,000 for each way of flushing."""
    generator = np.random.default_rng(1)
    for first in range(0, count, 50_000):
        some = min(50_000, count - first)
        places = generator.integers(0, BAD, (5, some)).astype(np.uint8)
        close = generator.integers(BAD // 2 - 12, BAD // 2 + 13, (5, some)).astype(np.uint8)
        places = np.where(generator.random(some) < 0.4, close, places)
        attack(places[:4], flushing)
        attack(places, flushing)


def maximum(form: Tiny, a: Array, b: Array) -> Array:
    """Return a + max(b − a, 0), as two units compute it."""
    return form.add(a, np.maximum(form.taken(form.add(b, -a)), 0.0))


@pytest.mark.parametrize("flushing", FLUSHING)
def test_units_and_the_hard_maximum_over_all_inputs(flushing: str) -> None:
    form = FORMAT.but(flushing)
    ctx, used = form.context, Tightness()
    a, b = np.repeat(form.numbers, BAD)[:, None], np.tile(form.numbers, BAD)[:, None]
    x, y = form.ball(a), form.ball(b)
    two = add(ctx, x, relu(ctx, sub(ctx, y, x)))
    run = maximum(form, a, b)
    used.compare(two, run)
    used.compare(two, np.maximum(a, b))
    for c in form.numbers[::40]:
        z = form.ball(np.full_like(a, c))
        three = add(ctx, two, relu(ctx, sub(ctx, z, two)))
        used.compare(three, maximum(form, run, np.full_like(a, c)))
        used.compare(three, np.maximum(np.maximum(a, b), c))


@pytest.mark.parametrize("flushing", FLUSHING)
def test_sums_that_overflow_are_noticed(flushing: str) -> None:
    """The rows with the least magnitudes among those that overflow, one at a time."""
    form = FORMAT.but(flushing)
    generator = np.random.default_rng(2)
    rows = generator.choice(form.numbers, (200_000, 3))
    runs = form.add(form.add(rows[:, 0], rows[:, 1]), rows[:, 2])
    over = rows[~np.isfinite(runs)]
    assert len(over)
    pairs = rows[~np.isfinite(form.add(rows[:, 0], rows[:, 1]))][:, :2]
    for a, b in pairs[np.argsort(np.abs(pairs.sum(1)))[:60]]:
        ctx = Tiny(flushing=flushing).context
        add(ctx, form.ball(np.array([[a]])), form.ball(np.array([[b]])))
        assert ctx.overflow()
    ones = form.ball(np.ones((1, 3)))
    for row in over[np.argsort(np.abs(over).sum(1))[:60]]:
        ctx = Tiny(flushing=flushing).context
        linear(ctx, form.ball(row[None]), ones)
        assert ctx.overflow()
        ctx = Tiny(flushing=flushing).context
        RULES["aten.mean.dim"](ctx, form.ball(row[None]), [-1])
        assert ctx.overflow()


def test_formats_with_too_few_bits_for_a_sum_have_no_finite_radius() -> None:
    """Where k·u is ½ or more, γ has no meaning: radii are infinite or no number, never negative."""
    form = Tiny(precision=2)
    assert form.context.arithmetic.gamma(2) == np.inf
    for precision, width in ((2, 1), (4, 7), (8, 127), (8, 1000)):
        form = Tiny(precision=precision, low=-126, high=127)
        ctx = form.context
        x = form.ball(np.random.default_rng(3).standard_normal((4, width)))
        w = form.ball(np.eye(width)[: min(width, 5)] * 1.5)
        for rule in (linear, lambda c, a, b: RULES["aten.matmul.default"](c, a, b.turned)):
            assert not torch.isfinite(rule(ctx, x, w).radius).any()
        assert ctx.overflow()
        assert not (RULES["aten.layer_norm.default"](ctx, x, [width]).radius < 0).any()
        assert not torch.isfinite(RULES["aten.layer_norm.default"](ctx, x, [width]).radius).any()
