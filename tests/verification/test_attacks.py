"""Attacks on the engine as a whole: extreme weights, other formats and orders, planted errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from flint import arb
from torch import Tensor, nn

import exactformer as ef
from exactformer.core.formats import FORMATS, REAL, Arithmetic
from exactformer.verification.balls import Ball
from exactformer.verification.decision import decide
from exactformer.verification.engine import Engine
from exactformer.verification.graph import Graph, read
from exactformer.verification.precise import logits, precision
from exactformer.verification.rules import Context
from tests.verification.executions import Execution, flushing
from tests.verification.models import every, net

CPU = torch.device("cpu")
KINDS: dict[str, dict[str, Any]] = {
    "attention": {"heads": 2},
    "masks by hand": {"causal": True, "by_hand": True},
    "causal layers": {"causal": True, "layers": 2},
    "units": {"act": "relu"},
    "norms": {"act": "gelu", "norm": True, "heads": 2, "by_hand": True},
    "smooth layers": {"act": "silu", "layers": 2, "last": False},
}
SIZES = {"tokens": 3, "length": 3, "width": 4}
IDS = every(3, 3)


class Shifted(nn.Module):
    """A network with a number for each answer added to its logits."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = net(**SIZES, **KINDS[kind])
        self.shift = nn.Parameter(torch.zeros(3))

    def forward(self, ids: Tensor) -> Tensor:
        return self.inner(ids) + self.shift


@cache
def graph_of(kind: str) -> Graph:
    return read(Shifted(kind).double().eval().requires_grad_(False), 3, CPU)


def shift_of(kind: str) -> int:
    """Return the node that holds the numbers added to the logits."""
    return next(k for k, node in enumerate(graph_of(kind).nodes) if node.name == "shift")


def weights(kind: str, seed: int, calm: bool = False) -> dict[int, Tensor]:
    """Return weights of very different magnitudes, with zeros, subnormal numbers and equal rows."""
    g = torch.Generator().manual_seed(seed)

    def toss(share: float) -> bool:
        return float(torch.rand((), generator=g)) < share

    made = {}
    wild = not calm and toss(0.3)
    for place, w in graph_of(kind).weights.items():
        exponent = float(torch.rand((), generator=g)) * (6 if wild else 1) - (3 if wild else 0.6)
        new = torch.randn(w.shape, generator=g, dtype=torch.float64) * 10**exponent
        if w.ndim == 2 and toss(0.2) and not calm:
            new[0] = new[-1]
        if toss(0.2) and not calm:
            new = new * (torch.rand(w.shape, generator=g) > 0.3)
        if toss(0.1) and not calm:
            new = torch.where(torch.rand(w.shape, generator=g) < 0.3, new * 1e-39, new)
        if toss(0.1) and not calm:
            new = new.sign()
        made[place] = new
    return made


def networks(kind: str, seed: int, dtype: torch.dtype, calm: bool = False) -> Graph:
    """Return a seeded network with weights in a format."""
    values = {place: w.to(dtype) for place, w in weights(kind, seed, calm).items()}
    return replace(graph_of(kind), weights=values, dtype=dtype)


def bounded(graph: Graph, arithmetic: Arithmetic, ids: Tensor) -> tuple[Ball, bool]:
    ctx = Context(arithmetic, CPU)
    return Engine(graph, arithmetic, CPU)(ids, ctx), ctx.overflow()


def inside(ball: Ball, run: Tensor) -> int:
    """Assert that a run lies in a ball where that says anything; return for how many logits it does."""
    known = torch.isfinite(ball.radius) & torch.isfinite(ball.c)
    assert not bool((ball.radius < 0).any())
    off = (run.double() - ball.c).abs()
    assert bool(((off <= ball.radius) | ~known).all())
    return int(known.sum())


def exactly_inside(ball: Ball, graph: Graph, ids: Tensor) -> int:
    """Assert that real arithmetic to 400 bits lies in a ball; return for how many logits it does."""
    count = 0
    for k, tokens in enumerate(ids.tolist()):
        exact = logits(graph, tokens).reshape(-1)
        pairs = zip(
            ball.c[k].reshape(-1).tolist(), ball.radius[k].reshape(-1).tolist(), strict=True
        )
        with precision(400):
            for x, (c, r) in zip(exact, pairs, strict=True):
                if r < float("inf") and x.is_finite():
                    assert abs(x - arb(c)) <= arb(r)
                    count += 1
    return count


def attack(kind: str, seed: int) -> Counter[str]:
    """Attack the balls of one network in every arithmetic; count the logits that were compared."""
    seen: Counter[str] = Counter()
    pick = torch.Generator().manual_seed(seed)
    some = IDS[torch.randperm(27, generator=pick)[:6]]
    single = networks(kind, seed, torch.float32)
    ball, _ = bounded(single, REAL, some)
    seen["real"] += exactly_inside(ball, single, some[:1])
    for name, count in (("float64", 1), ("float32", 3), ("bfloat16", 2), ("float16", 2)):
        dtype = getattr(torch, name)
        graph = networks(kind, seed, dtype)
        if not all(bool(torch.isfinite(w).all()) for w in graph.weights.values()):
            continue
        ball, overflow = bounded(graph, Arithmetic.of(FORMATS[name]), some)
        if overflow:
            continue
        for k in range(count):
            with flushing(name != "float16" and k % 2 == 1):
                run = Execution(graph, dtype, 10 * seed + k)(some)
            seen[name] += inside(ball, run)
        if name == "float32":
            seen["real in float32"] += exactly_inside(ball, graph, some[:1])
    return seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, pytest.param(500, marks=pytest.mark.slow)])
def test_no_ball_is_left(kind: str, count: int) -> None:
    """Real arithmetic to 400 bits, and random orders in four formats, fused and flushed or not."""
    seen: Counter[str] = Counter()
    for seed in range(count):
        seen += attack(kind, seed)
    assert seen["real"] > 0
    assert seen["float32"] > 0


def plant(kind: str, seed: int) -> tuple[Graph, Tensor, int] | None:
    """Return a network, answers that it gives but on one input, and the number of that input.

    The answers are the network's own; then a number is added to one logit, just so large that the
    input with the least margin turns.
    """
    graph = networks(kind, seed, torch.float64, calm=True)
    zero = torch.zeros(3, dtype=torch.float64)
    graph = replace(graph, weights=graph.weights | {shift_of(kind): zero})
    values = Execution(graph, torch.float64, seed)(IDS)
    values = values if values.ndim == 3 else values[:, None]
    top = values.topk(2, -1)
    margins, places = (top.values[..., 0] - top.values[..., 1]).min(-1)
    least = margins.sort()
    first, second = least.values[:2].tolist()
    if not 1e-6 < first < 0.999 * second:
        return None
    number = int(least.indices[0])
    answer = int(top.indices[number, places[number], 1])
    shift = zero.clone()
    shift[answer] = first * (1 + 1e-7)
    return (
        replace(graph, weights=graph.weights | {shift_of(kind): shift}),
        top.indices[..., 0],
        number,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, pytest.param(170, marks=pytest.mark.slow)])
def test_planted_errors_near_the_margin_are_found(kind: str, count: int) -> None:
    """In real arithmetic and float64 these alone are wrong; no execution contradicts an answer."""
    for found, seed in planted(kind, count):
        graph, answers, number = found
        expected = torch.zeros(27, dtype=torch.bool)
        expected[number] = True
        for arithmetic in (REAL, Arithmetic.of(FORMATS["float64"])):
            ball, _ = bounded(graph, arithmetic, IDS)
            decision = decide(ball if ball.c.ndim == 3 else _placed(ball), answers)
            assert not bool((decision.wrong & ~expected).any())
            assert not bool((decision.right & expected).any())
            for place in (~decision.right & ~decision.wrong).nonzero()[:, 0].tolist():
                assert exactly_right(graph, place, answers[place]) != (place == number)
        single = replace(
            graph, weights={k: w.float() for k, w in graph.weights.items()}, dtype=torch.float32
        )
        ball, overflow = bounded(single, Arithmetic.of(FORMATS["float32"]), IDS)
        assert not overflow
        decision = decide(ball if ball.c.ndim == 3 else _placed(ball), answers)
        for k in range(3):
            run = Execution(single, torch.float32, 3 * seed + k)(IDS)
            says = (run if run.ndim == 3 else run[:, None]).argmax(-1)
            wrong = (says != answers).any(-1)
            assert not bool((decision.right & wrong).any())
            assert not bool((decision.wrong & ~wrong).any())


def exactly_right(graph: Graph, place: int, answers: Tensor) -> bool:
    """Decide one input in real arithmetic to 400 bits; equal logits decide nothing and raise."""
    rows = logits(graph, IDS[place].tolist()).reshape(len(answers), -1)
    others = [
        (row[k], row[a])
        for row, a in zip(rows, answers.tolist(), strict=True)
        for k in range(3)
        if k != a
    ]
    assert all(x < y or x > y for x, y in others)
    return all(x < y for x, y in others)


def planted(kind: str, count: int) -> list[tuple[tuple[Graph, Tensor, int], int]]:
    """Return so many networks with planted errors, and their seeds."""
    made: list[tuple[tuple[Graph, Tensor, int], int]] = []
    seed = 0
    while len(made) < count:
        found = plant(kind, seed)
        if found is not None:
            made.append((found, seed))
        seed += 1
    return made


def _placed(ball: Ball) -> Ball:
    return Ball(ball.c[:, None], ball.radius[:, None])


def test_a_planted_error_is_found_through_the_door() -> None:
    (graph, answers, number), _ = planted("units", 1)[0]
    model = Shifted("units").double().eval().requires_grad_(False)
    names = [node.name for node in graph.nodes]
    model.load_state_dict({names[k]: w for k, w in graph.weights.items()})
    verdict = ef.verify(
        *(model, lambda t: int(answers[t[0] * 9 + t[1] * 3 + t[2], 0])),
        vocabulary=range(3),
        length=3,
        show_progress=False,
    )
    assert [case.number for case in verdict.counterexamples] == [number]
    assert (verdict.right, verdict.wrong, verdict.doubtful) == (26, 1, 0)
