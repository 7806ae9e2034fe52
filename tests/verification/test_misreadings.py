"""What could be read as another function: −∞ in weights, other inputs of a batch, rounded numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.core.formats import FORMATS, REAL, Arithmetic
from exactformer.errors import InputError
from exactformer.verification.balls import Ball
from exactformer.verification.engine import Engine
from exactformer.verification.graph import read
from exactformer.verification.rounding import softmax_enclosure
from exactformer.verification.rules import RULES, Context, NotCoveredError
from exactformer.verification.rules.products import linear

CPU = torch.device("cpu")
FLOAT32 = Arithmetic.of(FORMATS["float32"])
Change = Callable[["Table", Tensor], Tensor]


class Table(nn.Module):
    """A function of the last token's row and the ids, with weights to read in other ways."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.change = change
        self.rows = nn.Embedding(4, 4, _weight=torch.randn(4, 4, generator=generator))
        self.w = nn.Parameter(torch.randn(4, 4, generator=generator))
        self.b = nn.Parameter(torch.randn(4, generator=generator))
        self.register_buffer("none", torch.tensor([0.0, -torch.inf, 0.0, 0.0]))
        self.register_buffer("holes", torch.zeros(4, 4))
        self.holes[1, 2] = -torch.inf

    def last(self, ids: Tensor) -> Tensor:
        return self.rows(ids)[:, -1]

    def forward(self, ids: Tensor) -> Tensor:
        return self.change(self, ids)


def balls(change: Change, arithmetic: Arithmetic = FLOAT32) -> tuple[Ball, bool, Tensor]:
    """Return the ball of four inputs, whether something may overflow, and each input run alone."""
    model = Table(change).eval().requires_grad_(False)
    ids = torch.tensor([[0, 2], [3, 1], [1, 1], [2, 0]])
    ctx = Context(arithmetic, CPU)
    ball = Engine(read(model, 2, CPU), arithmetic, CPU)(ids, ctx)
    alone = torch.cat([model(row.expand(2, -1))[:1] for row in ids])
    return ball, ctx.overflow(), alone


MISREAD: dict[str, tuple[Change, str]] = {
    "a bias of −∞": (lambda m, t: functional.linear(m.last(t), m.w, m.none), "entries of −∞"),
    "a weight of −∞": (lambda m, t: functional.linear(m.last(t), m.holes), "entries of −∞"),
    "a row with −∞": (lambda m, t: functional.embedding(t, m.holes)[:, 0] * m.b, "entries of −∞"),
    "logits of −∞": (lambda m, t: functional.embedding(t, m.holes)[:, 0], "other than logits"),
    "a norm's bias of −∞": (
        lambda m, t: functional.layer_norm(m.last(t), [4], m.b, m.none),
        "entries of −∞",
    ),
    "a norm's scale of −∞": (
        lambda m, t: functional.layer_norm(m.last(t), [4], m.none, m.b),
        "entries of −∞",
    ),
    "ids of the batch reversed": (lambda m, t: m.last(t.flip(0)), "other inputs of its batch"),
    "ids of the batch sorted": (lambda m, t: m.last(t.sort(0)[0]), "other inputs of its batch"),
    "ids of the batch moved on": (lambda m, t: m.last(t.roll(1, 0)), "other inputs of its batch"),
    "ids moved on as one row": (lambda m, t: m.last(t.roll(1)), "inputs of its batch"),
    "ids summed along the batch": (lambda m, t: m.last(t.cumsum(0) % 4), "inputs of its batch"),
    "the size of the batch": (lambda m, t: m.last(t) + m.b * t.shape[0], "size of the batch"),
    "the size as a factor": (lambda m, t: m.last(t) * t.shape[0], "size of the batch"),
    "the size among ids": (lambda m, t: m.last((t + t.shape[0]) % 4), "size of the batch"),
    "the place in the batch": (
        lambda m, t: m.last(t) + functional.embedding(torch.arange(t.shape[0]) % 4, m.w),
        "from input to input",
    ),
    "the place among ids": (
        lambda m, t: m.last((t + torch.arange(t.shape[0])[:, None]) % 4),
        "from input to input",
    ),
    "a triangle along the batch": (lambda m, t: m.last(t).tril(), "triangle along the batch"),
    "a triangle of ones": (
        lambda m, t: m.last(t) * torch.ones(t.shape[0], 4).triu(),
        "triangle along the batch",
    ),
    "ids gathered from others": (lambda m, t: m.last(t.gather(0, t % 2)), "inputs of its batch"),
    "whole numbers that a cast rounds": (
        lambda m, t: m.last(t) + torch.arange(300, 304).to(torch.bfloat16).float(),
        "that bfloat16 rounds",
    ),
}


@pytest.mark.parametrize("name", MISREAD)
def test_what_would_be_misread_is_refused(name: str) -> None:
    change, words = MISREAD[name]
    with pytest.raises(InputError, match=f"(?s){words}"):
        balls(change)


READ: dict[str, Change] = {
    "a part of the ids": lambda m, t: m.last(t[:, :-1]),
    "ids moved by a token": lambda m, t: m.last(torch.cat([t[:, 1:], t[:, :1]], 1)),
    "a function of ids": lambda m, t: m.last((t[:, :1] * 2 + t) % 4),
    "ids reversed": lambda m, t: m.last(t.flip(1)),
    "places of tokens": lambda m, t: (
        m.rows(t) + functional.embedding(torch.arange(2).expand(t.shape), m.w)
    )[:, 1],
    "ids after another": lambda m, t: m.last(functional.pad(t, (1, 0), value=3)),
    "ids moved on": lambda m, t: m.last(t.roll(1, 1)),
    "ids in order": lambda m, t: m.last(t.sort(1)[0]),
    "ids as one row": lambda m, t: m.rows(t.flatten()).unflatten(0, (-1, 2))[:, 0],
    "a stored row times a number": lambda m, t: m.last(t) + (m.b * 0.5).view(2, 2).view(4),
    "one bias for all": lambda m, t: torch.addmm(m.b[:1], m.last(t), m.w),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_holds_each_input_run_alone(name: str) -> None:
    ball, overflow, alone = balls(READ[name])
    assert not overflow
    off = (alone.double() - ball.c).abs()
    assert bool((off <= ball.radius).all())
    assert ball.radius.shape == ball.c.shape


def test_weights_that_a_module_rounds_itself_are_off_by_that() -> None:
    """A float32 table, cast to the bfloat16 of the rest: that is one rounding, of nothing before."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.rows = nn.Embedding(50, 8)
            self.bias = nn.Parameter(torch.randn(8).bfloat16())

        def forward(self, ids: Tensor) -> Tensor:
            return self.rows(ids)[:, 0].to(torch.bfloat16) + self.bias

    model, ids = Mixed().eval().requires_grad_(False), torch.arange(50)[:, None]
    graph = read(model, 1, CPU)
    assert graph.dtype == torch.bfloat16
    ball = Engine(graph, Arithmetic.of(FORMATS["bfloat16"]), CPU)(ids)
    assert bool(((model(ids).double() - ball.c).abs() <= ball.radius).all())


def test_a_format_of_less_range_is_refused() -> None:
    """float16 has more digits than bfloat16, and takes 1e-9 for zero."""
    ctx = Context(Arithmetic.of(FORMATS["bfloat16"]), CPU)
    with pytest.raises(NotCoveredError, match="float16 inside bfloat16"):
        RULES["aten.to.dtype"](ctx, Ball(torch.full((1, 2), 1e-9)), torch.float16)


OVERFLOWS: dict[str, Change] = {
    "a quotient by 1e39": lambda m, t: (m.last(t) * 1e37) / 1e39,
    "zero times 1e39": lambda m, t: (m.last(t) * 0.0) * 1e39,
    "queries scaled by 1e30": lambda m, t: functional.scaled_dot_product_attention(
        m.rows(t) * 1e30, m.rows(t) * 1e-30, m.rows(t), scale=1e30
    )[:, 0],
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_numbers_that_the_format_cannot_hold_are_noticed(name: str) -> None:
    _, overflow, _ = balls(OVERFLOWS[name])
    assert overflow


def test_a_quotient_may_be_a_product_with_a_reciprocal_that_is_flushed() -> None:
    ctx = Context(FLOAT32, CPU)
    x = torch.full((1, 2), 1.5e38, dtype=torch.float64)
    ball = RULES["aten.div.Tensor"](ctx, Ball(x), 1.5e38)
    for quotient in (1.0, 0.0):
        assert bool(((quotient - ball.c).abs() <= ball.radius).all())


def test_one_bias_for_all_outputs_has_the_norm_of_all() -> None:
    ctx = Context(FLOAT32, CPU)
    zero, radius = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    x = Ball(torch.zeros(1, 3, dtype=torch.float64))
    ball = RULES["aten.addmm.default"](ctx, Ball(zero, radius), x, Ball(torch.ones(3, 16).double()))
    assert float(ball.spread) >= 4


@pytest.mark.parametrize("arithmetic", [REAL, Arithmetic.of(FORMATS["float64"])])
def test_radii_whose_squares_underflow_are_kept(arithmetic: Arithmetic) -> None:
    """A weight known to 1e-170, an input of 1e200: the output is known to 1e30, not to 1e-300."""
    ctx = Context(arithmetic, CPU)
    w = Ball(
        torch.zeros(1, 2, dtype=torch.float64), torch.full((1, 2), 1e-170, dtype=torch.float64)
    )
    x = Ball(torch.full((1, 2), 1e200, dtype=torch.float64))
    assert float(linear(ctx, x, w).radius) >= 2e30


def test_the_softmax_of_scores_that_float64_rounds_by_more_than_one() -> None:
    """Neighbours of 1e17 are 16 apart: c ± 7 rounds to c, and weights of e^−14 must stay inside."""
    n = 1000
    c = torch.full((1, n), 1e17, dtype=torch.float64)
    lower, _, upper = softmax_enclosure(c, torch.full_like(c, 7.0), None)
    least, most = (
        1 / (1 + (n - 1) * torch.tensor(s, dtype=torch.float64).exp()) for s in (14.0, -14.0)
    )
    assert float(lower[0, 0]) <= float(least)
    assert float(upper[0, 0]) >= float(most)
