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
from exactformer.verification.rules import RULES, Context, NotCoveredError
from exactformer.verification.rules.attention import weights
from exactformer.verification.rules.products import linear
from exactformer.verification.rules.table import bind
from tests.verification.models import net

CPU = torch.device("cpu")
FLOAT32 = Arithmetic.of(FORMATS["float32"])


def context(arithmetic: Arithmetic = FLOAT32, axis: int | None = 0) -> Context:
    return Context(arithmetic, CPU, torch.float32, axis=axis)


def double(*values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def holds(ball: Ball, values: Tensor) -> bool:
    """Whether values lie inside, entry by entry and as tokens."""
    off = (values.double() - ball.c).abs()
    tokens = torch.linalg.vector_norm(off, dim=-1)
    return bool((off <= ball.radius).all() and (tokens <= ball.spread * (1 + 1e-12)).all())


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
    masked = RULES["aten.add.Tensor"](context(), Ball(scores), Ball(mask))
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


# Arguments


def calls() -> dict[str, tuple[Any, ...]]:
    """One call of each kind, and with each argument another than usual."""
    torch.manual_seed(4)
    x, y = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    w, b = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    row = torch.randn(4, dtype=torch.float64)
    mask = torch.tensor([[True, False, True, True]])
    op = torch.ops.aten
    return {
        "linear": (op.linear.default, x, w),
        "linear with a bias": (op.linear.default, x, w, b),
        "addmm": (op.addmm.default, b, x[0], w.mT.contiguous()),
        "matmul": (op.matmul.default, x, y.mT),
        "add": (op.add.Tensor, x, y),
        "a number added": (op.add.Tensor, x, 0.1),
        "sub": (op.sub.Tensor, x, row),
        "mul": (op.mul.Tensor, x, y),
        "div": (op.div.Tensor, x, y.abs() + 1),
        "a quotient": (op.div.Tensor, x, 3.0),
        "neg": (op.neg.default, x),
        "mean": (op.mean.dim, x, [-1], True),
        "mean over tokens": (op.mean.dim, x, [1]),
        "softmax": (op.softmax.int, x, -1),
        "softmax by its number": (op.softmax.int, x, 2),
        "layer norm": (op.layer_norm.default, x, [4], row, row, 0.1),
        "rms norm": (op.rms_norm.default, x, [4], row, 1e-3),
        "relu": (op.relu.default, x),
        "gelu": (op.gelu.default, x),
        "silu": (op.silu.default, x),
        "tanh": (op.tanh.default, x),
        "sigmoid": (op.sigmoid.default, x),
        "cos": (op.cos.default, x),
        "sin": (op.sin.default, x),
        "square": (op.pow.Tensor_Scalar, x, 2),
        "cube": (op.pow.Tensor_Scalar, x, 3.0),
        "rsqrt": (op.rsqrt.default, x.abs() + 0.1),
        "view": (op.view.default, x, [2, 3, 2, 2]),
        "view of all": (op.reshape.default, x, [2, 12]),
        "transpose": (op.transpose.int, x, -1, 1),
        "permute": (op.permute.default, x, [0, 2, 1]),
        "unsqueeze": (op.unsqueeze.default, x, 1),
        "unsqueeze at the end": (op.unsqueeze.default, x, -1),
        "squeeze": (op.squeeze.dim, x[:, :1], 1),
        "expand": (op.expand.default, x[:, :1], [2, 3, -1]),
        "slice": (op.slice.Tensor, x, 1, 1, 3),
        "slice in steps": (op.slice.Tensor, x, 2, 0, 4, 2),
        "select": (op.select.int, x, 1, -1),
        "select by the other end": (op.select.int, x, -2, 0),
        "cat": (op.cat.default, [x, y], 1),
        "cat along the token": (op.cat.default, [x, y], -1),
        "split": (op.split.Tensor, x, 3, 2),
        "where": (op.where.self, mask, x, y),
        "masked fill": (op.masked_fill.Scalar, x, mask, -1e9),
        "triu": (op.triu.default, x, 1),
    }


@pytest.mark.parametrize("name", calls())
@pytest.mark.parametrize("radius", [0.0, 1e-3])
def test_rules_mean_what_torch_means(name: str, radius: float) -> None:
    target, *args = calls()[name]
    generator = torch.Generator().manual_seed(5)

    def ball(value: Any, apart: bool) -> Any:
        if isinstance(value, list) and isinstance(value[0], Tensor):
            return [ball(part, apart) for part in value]
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        r = torch.rand(value.shape, generator=generator, dtype=torch.float64) * radius
        return Ball(value, r if radius else None) if not apart else value + r * 0.999

    function = RULES[str(target)]
    for arithmetic, dtype in ((REAL, torch.float64), (FLOAT32, torch.float32)):
        generator.manual_seed(5)
        bound = bind(target, function, [ball(a, False) for a in args], {})
        found = function(context(arithmetic), **bound)
        generator.manual_seed(5)
        moved = [ball(a, True) for a in args]
        if dtype == torch.float32:
            moved = [_rounded(a, radius) for a in moved]
            if not radius and any(isinstance(a, Tensor | list) for a in args):
                continue  # the arguments themselves are rounded
        values = target(*moved)
        pairs = zip(found, values, strict=True) if isinstance(found, list) else [(found, values)]
        for one, value in pairs:
            assert one.shape == value.shape
            off = (value.double() - one.c).abs()
            assert bool((off <= one.radius + (1e-12 if not radius else 0)).all()), float(off.max())
            assert bool((torch.linalg.vector_norm(off, dim=-1) <= one.spread + 1e-12).all())


def _rounded(value: Any, radius: float) -> Any:
    if isinstance(value, list):
        return [_rounded(part, radius) for part in value]
    floats = isinstance(value, Tensor) and value.is_floating_point()
    return (value - 1e-4 * radius).float() if floats else value


REFUSED: dict[str, tuple[Any, ...]] = {
    "alpha": ("add.Tensor", {"alpha": 2}),
    "dropout_p": ("scaled_dot_product_attention.default", {"dropout_p": 0.5}),
    "scale_grad_by_freq": ("embedding.default", {"scale_grad_by_freq": True}),
    "beta": ("addmm.default", {"beta": 2}),
    "ord": ("sub.Tensor", {"alpha": 0.5}),
    "dtype": ("mean.dim", {"dtype": torch.float64}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_argument_that_a_rule_does_not_name_is_refused(name: str) -> None:
    operator, kwargs = REFUSED[name]
    packet, overload = operator.split(".")
    target = getattr(getattr(torch.ops.aten, packet), overload)
    with pytest.raises(NotCoveredError):
        bind(target, RULES[f"aten.{operator}"], [], kwargs)


@pytest.mark.parametrize("operator", sorted(RULES))
def test_no_rule_overlooks_an_argument(operator: str) -> None:
    """Each argument of each operator is named by its rule, or refused unless it has its default."""
    _, packet, overload = operator.split(".")
    target = getattr(getattr(torch.ops.aten, packet), overload, None)
    if target is None:
        pytest.skip("this torch has no such operator")
    from inspect import signature

    known = set(signature(RULES[operator]).parameters) - {"ctx"}
    for argument in target._schema.arguments:
        name = "input" if argument.name == "self" else argument.name
        if name not in known:
            with pytest.raises(NotCoveredError):
                bind(target, RULES[operator], [], {argument.name: object()})


def test_axes_that_would_mix_tokens_or_inputs_are_refused() -> None:
    x = Ball(torch.randn(3, 3, 3, dtype=torch.float64))
    for operator, *args in (
        ("softmax.int", 0),
        ("softmax.int", 1),
        ("layer_norm.default", [3, 3]),
        ("mean.dim", [0]),
        ("mean.dim", [1, 2]),
        ("select.int", 0, 1),
        ("slice.Tensor", 0, 1, 2),
        ("pow.Tensor_Scalar", 0.5),
        ("dropout.default", 0.5, True),
        ("to.dtype", torch.float16),
        ("gelu.default",),
    ):
        packet, overload = operator.split(".")
        target = getattr(getattr(torch.ops.aten, packet), overload)
        function = RULES[f"aten.{operator}"]
        extra = {"approximate": "erf"} if packet == "gelu" else {}
        with pytest.raises(NotCoveredError):
            function(context(), **bind(target, function, [x, *args], extra))


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
