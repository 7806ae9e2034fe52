"""Corners in which simpler rules are false, each with the run that contradicts them.

A float32 run is torch's own, or one written out where an order of summation matters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb
from torch import Tensor, nn
from torch.nn import functional

import exactformer as ef
from exactformer.core.formats import FORMATS, REAL, Arithmetic
from exactformer.errors import InputError
from exactformer.verification.balls import Ball, norm_above, spectral_norm
from exactformer.verification.engine import Engine
from exactformer.verification.graph import read
from exactformer.verification.precise import logits, numbers, precision
from exactformer.verification.rules import RULES
from exactformer.verification.rules.attention import weights
from exactformer.verification.rules.products import linear
from tests.verification.balls import FLOAT32, context, double, holds
from tests.verification.models import net

CPU = torch.device("cpu")


# Softmax


def test_softmax_of_wide_balls_holds_their_corners() -> None:
    ball = weights(context(REAL), Ball(double([0, -10]), double([30, 0])))
    assert holds(ball, double([-30, -10]).softmax(-1))
    assert holds(ball, double([30, -10]).softmax(-1))


def test_softmax_holds_random_points_to_400_bits() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, size = int(rng.integers(2, 6)), 10 ** rng.uniform(-8, 2.8)
        c, r = rng.normal(size=(2, n)) * size
        r = abs(r)
        ball = weights(context(REAL), Ball(double(c.tolist()), double(r.tolist())))
        signs = rng.choice([-1.0, 1.0, 0.0], size=n)
        with precision(400):
            terms = [(arb(x) + arb(s) * arb(y)).exp() for x, s, y in zip(c, signs, r, strict=True)]
            total = sum(terms, arb(0))
            for k, term in enumerate(terms):
                away = abs(term / total - arb(float(ball.c[0, k])))
                assert away <= arb(float(ball.radius[0, k]))


def test_scores_that_cancel_move_all_the_weight() -> None:
    """2²⁶ + 3.9 is 2²⁶ in float32: the score 15.6 comes out as 0, and loses against 8."""
    query = double([2.0**26, 3.9, 3.9, 3.9, 3.9, -(2.0**26), 1.0]).float()[None]
    keys = double([1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 8]).float()[None]
    values = double([1.0, 0.0], [0.0, 1.0]).float()[None]
    attend = RULES["aten.scaled_dot_product_attention.default"]
    ball = attend(context(), *(Ball(x.double()) for x in (query, keys, values)), scale=1.0)
    exact = functional.scaled_dot_product_attention(
        query.double(), keys.double(), values.double(), scale=1.0
    )
    score = torch.zeros((), dtype=torch.float32)
    for term in query[0, 0] * keys[0, 0]:
        score = score + term
    run = torch.stack([score, torch.tensor(8.0)]).softmax(-1)[None, None] @ values
    assert abs(float(exact[0, 0, 0] - run[0, 0, 0])) > 0.99
    assert holds(ball, exact)
    assert holds(ball, run)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e-3, 7.5, None])
def test_every_scale_means_what_it_says(scale: float | None) -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 2, 4, 8, dtype=torch.float64) for _ in range(3))
    attend = RULES["aten.scaled_dot_product_attention.default"]
    for arithmetic, run in ((REAL, torch.float64), (FLOAT32, torch.float32)):
        ball = attend(context(arithmetic), *map(Ball, (q, k, v)), scale=scale)
        found = functional.scaled_dot_product_attention(
            q.to(run), k.to(run), v.to(run), scale=scale
        )
        assert bool((ball.radius >= 0).all())
        assert holds(ball, found)


def test_masks_of_the_lowest_number_keep_weights_tight() -> None:
    torch.manual_seed(2)
    scores = torch.randn(1, 4, 4, dtype=torch.float64)
    lowest = torch.finfo(torch.float32).min
    mask = torch.full((4, 4), lowest, dtype=torch.float64).triu(1)
    ctx = context()
    masked = RULES["aten.add.Tensor"](ctx, Ball(scores), Ball(mask))
    assert not ctx.overflow()  # the lowest number and a score round to the lowest number
    assert bool(torch.isfinite((scores + mask).float()).all())
    RULES["aten.add.Tensor"](ctx, Ball(mask), Ball(mask))
    assert ctx.overflow()
    ball = weights(context(), masked)
    assert holds(ball, (scores + mask).float().softmax(-1))
    assert float(ball.radius.max()) < 1e-4


# Overflow, and what is not a number


class Chain(nn.Module):
    """Numbers that multiply one after another, from a table of two."""

    def __init__(self, *factors: float, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.tensor([[0.0, 1.0]], dtype=dtype))
        self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False, dtype=dtype) for _ in factors)
        for layer, factor in zip(self.layers, factors, strict=True):
            layer.weight.data = torch.eye(2, dtype=dtype) * factor

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)[:, 0]
        for layer in self.layers:
            x = layer(x)
        return x


def verdict(model: nn.Module, **options: Any) -> Any:
    return ef.verify(
        model.eval().requires_grad_(False),
        lambda tokens: 1,
        vocabulary=[0],
        answers=[0, 1],
        length=1,
        show_progress=False,
        **options,
    )


@pytest.mark.parametrize(
    ("factors", "dtype"),
    [((1e25, 1e25, 1e-38), torch.float32), ((100.0, 1000.0, 1e-3), torch.float16)],
)
def test_an_intermediate_result_that_overflows_proves_nothing(
    factors: tuple[float, ...], dtype: torch.dtype
) -> None:
    model = Chain(*factors, dtype=dtype)
    run = model(torch.zeros(1, 1, dtype=torch.long))
    assert not bool(torch.isfinite(run).all())
    found = verdict(model)
    assert found.agrees is None
    assert any("overflow" in reason for reason in found.reasons)
    assert verdict(Chain(*factors), arithmetic="real").agrees


def test_what_is_not_finite_is_refused_or_proves_nothing() -> None:
    for value in (torch.inf, torch.nan):
        model = net(tokens=3, length=2)
        model.positions[0, 0] = value
        with pytest.raises(InputError, match="not finite"):
            ef.verify(model, max, vocabulary=range(3), length=2)
    model = net(tokens=3, length=2).double()
    model.blocks[0].attention.q.weight.mul_(1e160)
    model.blocks[0].attention.k.weight.mul_(1e160)
    for arithmetic in ("real", "float64"):
        options: dict[str, Any] = {"vocabulary": range(3), "length": 2, "arithmetic": arithmetic}
        found = ef.verify(model, max, show_progress=False, **options)
        if arithmetic == "float64":
            assert found.right == 0


# Sums and products


def test_a_computed_weight_is_a_ball() -> None:
    a = Ball(double([2.0**25, 1.0, -(2.0**25)]))
    b = Ball(torch.ones(3, 1, dtype=torch.float64))
    made = RULES["aten.matmul.default"](context(axis=None), a, b)
    run = (a.c[0, 0].float() + a.c[0, 1].float()) + a.c[0, 2].float()
    assert float(run) == 0
    out = linear(context(), Ball(double([1.0])), made)
    assert holds(out, run.reshape(1, 1))
    assert holds(out, double([1.0]))
    affine = RULES["aten.layer_norm.default"]
    x = double([1.0, 2.0, 3.0, 4.0])
    scale = Ball(torch.ones(4, dtype=torch.float64), torch.full((4,), 0.5, dtype=torch.float64))
    found = affine(context(), Ball(x), [4], scale)
    assert holds(found, functional.layer_norm(x, [4], scale.c * 1.5))


def test_a_number_repeated_along_a_token_has_the_norm_of_all() -> None:
    x = Ball(torch.zeros(1, 256, dtype=torch.float64))
    one = Ball(double([0.0]), double([1.0]))
    total = RULES["aten.add.Tensor"](context(), x, one)
    assert holds(total, torch.ones(1, 256))


def test_numbers_in_the_code_are_rounded() -> None:
    x = torch.tensor([[-0.1]])
    run = x + 0.1
    assert float(run) == 0
    ball = RULES["aten.add.Tensor"](context(), Ball(x.double()), 0.1)
    assert holds(ball, run)
    assert holds(ball, x.double() + 0.1)
    times = RULES["aten.mul.Tensor"](context(), Ball(x.double()), 0.3)
    assert holds(times, x * 0.3)
    assert holds(times, x.double() * 0.3)


def test_a_bias_may_come_first_in_the_sum() -> None:
    x = torch.ones(1, 64)
    run = torch.tensor(2.0**24)
    for _ in range(64):
        run = run + 0.5
    assert float(run) == 2.0**24
    w = Ball(torch.full((1, 64), 0.5, dtype=torch.float64))
    ball = linear(
        context(), Ball(x.double()), w, Ball(torch.tensor([2.0**24], dtype=torch.float64))
    )
    assert holds(ball, run.reshape(1, 1))


def test_a_parameter_may_be_read_as_zero() -> None:
    """1e-39 is subnormal in float32: a processor that flushes multiplies by 0."""
    model = Chain(1.0)
    model.layers[0].weight.data = torch.tensor([[0.0, 0.0], [0.0, 1e-39]])
    model.table = nn.Embedding.from_pretrained(torch.tensor([[0.0, 1e38]]))
    graph = read(model.eval().requires_grad_(False), 1, CPU)
    ball = Engine(graph, FLOAT32, CPU)(torch.zeros(1, 1, dtype=torch.long))
    assert holds(ball, double([0.0, 0.0]))
    assert holds(ball, double([0.0, 0.1]))


def test_norms_that_underflow_are_not_zero() -> None:
    small = torch.full((3, 4), 1e-200, dtype=torch.float64)
    assert bool((norm_above(small) >= 2e-200).all())


def test_the_norm_of_a_matrix_is_never_below_its_largest_singular_value() -> None:
    torch.manual_seed(3)
    for k in range(60):
        shape = torch.randint(1, 40, (2,)).tolist()
        w = torch.randn(shape, dtype=torch.float64) * 10.0 ** (k % 9 * 30 - 120)
        if k % 3 == 0:
            w = w[:, :1] @ torch.randn(1, shape[1], dtype=torch.float64)
        true = float(torch.linalg.svdvals(w)[0])
        assert true <= float(spectral_norm(w)) * (1 + 1e-13)
        assert float(spectral_norm(w)) <= true * 1.06
    assert float(spectral_norm(torch.zeros(3, 2, dtype=torch.float64))) == 0
    assert not bool(
        torch.isfinite(spectral_norm(torch.full((2, 2), torch.nan, dtype=torch.float64)))
    )


def test_what_underflows_counts_where_a_large_weight_multiplies_it() -> None:
    x = Ball(double([1e-305]), double([1e-310]))
    w = Ball(torch.tensor([[1e300]], dtype=torch.float64))
    assert holds(linear(context(REAL), x, w), double([(1e-305 + 1e-310) * 1e300]))


def test_a_cast_rounds() -> None:
    x = torch.tensor([[1 + 2.0**-9, 1 + 2.0**-10]], dtype=torch.float64)
    cast = RULES["aten.to.dtype"]
    ball = cast(context(Arithmetic.of(FORMATS["bfloat16"])), Ball(x), torch.bfloat16)
    assert holds(ball, x.bfloat16())
    assert not bool((x.bfloat16().double() == x).any())


@pytest.mark.parametrize("name", ["gelu", "gelu by tanh", "silu", "tanh", "sigmoid", "sin", "cos"])
def test_no_slope_is_steeper_than_its_rule_says(name: str) -> None:
    kind, _, form = name.partition(" by ")
    options = {"approximate": form} if form else {}
    points = torch.linspace(-12, 12, 200_001, dtype=torch.float64).requires_grad_(True)
    function = {"gelu": functional.gelu, "silu": functional.silu}.get(kind) or getattr(torch, kind)
    (slopes,) = torch.autograd.grad(function(points, **options).sum(), points)
    radius = double([1.0])
    ball = RULES[f"aten.{kind}.default"](context(REAL), Ball(double([0.5]), radius), **options)
    assert float(slopes.abs().max()) < float(ball.radius) < float(slopes.abs().max()) * 1.002


# LayerNorm


def exact_norm(x: Tensor, eps: float) -> Any:
    y = numbers(x)
    y = y - sum(y, arb(0)) / len(y)
    return y * ((y * y).sum() / len(y) + arb(eps)).rsqrt()


@pytest.mark.parametrize("d", [4, 32, 1024])
def test_layer_norm_holds_its_values_to_400_bits(d: int) -> None:
    """Also of vectors that are nearly constant, and so short that 1/σ is concave in their length."""
    torch.manual_seed(d)
    norm = RULES["aten.layer_norm.default"]
    for size, offset, radius in (
        *((1.0, 0.0, 0.0), (1e-3, 1e3, 0.0), (1e-9, 1.0, 0.0), (1.0, 0.0, 1e-3)),
        *((1e-3, 0.0, 2e-3), (1e-4, 0.0, 1e-3), (1e-2, 5.0, 1e-2)),
    ):
        c = torch.randn(1, d, dtype=torch.float64) * size + offset
        r = torch.rand(1, d, dtype=torch.float64) * radius
        for direction in (
            torch.sign(torch.randn(1, d, dtype=torch.float64)),
            torch.sign(c - offset),
        ):
            for sign in (-1, 1):
                x = c + sign * r * direction * (1 - 1e-12)
                ball = norm(context(REAL), Ball(c, r), [d], eps=1e-5)
                with precision(400):
                    away = exact_norm(x[0], 1e-5) - numbers(ball.c[0])
                    inside = zip(away, ball.radius[0].tolist(), strict=True)
                    assert all(abs(a) <= arb(b) for a, b in inside)
                    assert sum((a * a for a in away), arb(0)) <= arb(float(ball.spread[0])) ** 2
                run = functional.layer_norm(x.float(), [d]).double()
                wide = norm(context(), Ball(c, r + c.abs() * 2.0**-23), [d], eps=1e-5)
                assert holds(wide, run)


# Graphs


class Aliased(nn.Module):
    """Adds in place, through a view of what it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.tensor([[0.0, 1.0], [2.0, 0.5]]))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)[:, 0] * 2.0
        x.view(-1, 2).add_(3.0)
        return x


def test_what_is_written_through_a_view_is_seen() -> None:
    ids = torch.tensor([[0], [1]])
    ball = Engine(read(Aliased().eval(), 1, CPU), REAL, CPU)(ids)
    assert holds(ball, Aliased()(ids))


def test_several_outputs_are_refused() -> None:
    class Pair(Aliased):
        def forward(self, ids: Tensor) -> Any:
            x = super().forward(ids)
            return x, x + 1.0

    with pytest.raises(InputError, match="returns 2 tensors"):
        read(Pair().eval(), 1, CPU)


# Whole networks with extreme weights


EXTREME = {
    "heads": {"heads": 2, "width": 8, "by_hand": True, "causal": True},
    "norms": {"act": "gelu", "norm": True, "width": 8},
    "units": {"act": "relu", "width": 8},
}


@pytest.mark.parametrize("kind", EXTREME)
@pytest.mark.parametrize("count", [25, pytest.param(2000, marks=pytest.mark.slow)])
def test_no_network_of_extreme_weights_leaves_its_balls(kind: str, count: int) -> None:
    """Magnitudes from 10⁻¹² to 10⁶, equal rows, zeros: real arithmetic to 400 bits is inside."""
    base = read(net(tokens=3, length=3, **EXTREME[kind]).double(), 3, CPU)
    generator = torch.Generator().manual_seed(6)
    ids = torch.tensor([[0, 2, 1]])
    for _ in range(count):
        changed = {}
        for place, w in base.weights.items():
            exponent = float(torch.rand((), generator=generator)) * 5 - 3
            new = torch.randn(w.shape, generator=generator, dtype=torch.float64) * 10**exponent
            if w.ndim == 2 and float(torch.rand((), generator=generator)) < 0.3:
                new[0] = new[-1]
            changed[place] = new * (torch.rand(w.shape, generator=generator) > 0.1)
        graph = replace(base, weights=changed)
        ball = Engine(graph, REAL, CPU)(ids)
        exact = logits(graph, ids[0].tolist()).reshape(-1)
        for x, c, r in zip(exact, ball.c.reshape(-1), ball.radius.reshape(-1), strict=True):
            assert not abs(x - arb(float(c))) > arb(float(r)) or not np.isfinite(float(r))
