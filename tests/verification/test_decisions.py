"""No decision is contradicted by arithmetic of hundreds of bits, whatever is claimed."""

from dataclasses import replace

import pytest
import torch

from exactformer.core.formats import FORMATS, REAL, Arithmetic
from exactformer.verification.balls import Ball
from exactformer.verification.decision import compare, decide, sure
from exactformer.verification.engine import Engine
from exactformer.verification.graph import read
from exactformer.verification.precise import logits
from tests.verification.models import every, net

CPU = torch.device("cpu")
ARITHMETICS = [REAL, *(Arithmetic.of(FORMATS[name]) for name in ("float32", "bfloat16"))]


def double(*values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("norm", [False, True])
def test_no_decision_is_contradicted_to_400_bits(norm: bool, count: int) -> None:
    """Weights with equal and nearly equal rows make ties and margins of every size."""
    base = read(net(tokens=3, length=2, width=8, act="relu", norm=norm), 2, CPU)
    ids = every(3, 2)
    generator = torch.Generator().manual_seed(9)
    decided = 0
    for _ in range(count):
        weights = {}
        for place, w in base.weights.items():
            new = torch.randn(w.shape, generator=generator) * (float(w.std()) or 1.0)
            if w.shape == (3, 8):  # logits that differ by 10⁻⁹ to 1 of themselves, or by nothing
                exponent = float(torch.rand((), generator=generator)) * -9
                new[2] = new[1] * (1 + 10.0**exponent)
                new[0] = new[1]
            weights[place] = new
        graph = replace(base, weights=weights)
        balls = [Engine(graph, a, CPU)(ids) for a in ARITHMETICS]
        for k, tokens in enumerate(ids.tolist()):
            exact = list(logits(graph, tokens))
            for ball in balls:
                one = Ball(ball.c[k : k + 1, None], ball.radius[k : k + 1, None])
                for answer in range(3):
                    found = decide(one, torch.tensor([[answer]]))
                    others = [x for j, x in enumerate(exact) if j != answer]
                    if bool(found.right[0]):
                        decided += 1
                        assert all(x < exact[answer] for x in others)
                    if bool(found.wrong[0]):
                        assert any(x > exact[answer] for x in others)
    assert decided > 0


def test_what_is_not_a_number_decides_nothing() -> None:
    answers = torch.tensor([[0]])
    for c, r in (
        ([2.0, torch.nan], [0.0, 0.0]),
        ([torch.nan, 1.0], [0.0, 0.0]),
        ([2.0, 1.0], [0.0, torch.nan]),
        ([2.0, 1.0], [torch.inf, 0.0]),
        ([torch.inf, 1.0], [0.0, 0.0]),
        ([1.0, 1.0], [0.0, 0.0]),
        ([1.0, 3.0, torch.nan], [0.0, 0.0, 0.0]),
    ):
        ball = Ball(double([c]), double([r]))
        found = decide(ball, answers)
        assert not bool(found.right.any() or found.wrong.any()), (c, r)
        assert not bool(sure(ball)[1].any())
        assert not bool(compare(ball, ball).right.any())


def test_margins_within_their_radii_are_open_and_others_are_not() -> None:
    answers = torch.tensor([[0]])
    for gap, right, wrong in ((1.0, True, False), (0.5, False, False), (-1.0, False, True)):
        ball = Ball(double([[gap, 0.0]]), double([[0.25, 0.25]]))
        found = decide(ball, answers)
        assert (bool(found.right[0]), bool(found.wrong[0])) == (right, wrong)
