"""Rules mean what torch means, argument by argument, and refuse what they do not name."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor

from exactformer.core.formats import REAL
from exactformer.verification.balls import Ball
from exactformer.verification.rules import RULES, NotCoveredError
from exactformer.verification.rules.table import bind
from tests.verification.balls import FLOAT32, context


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
