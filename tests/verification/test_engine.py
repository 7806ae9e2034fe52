"""Balls hold what executions compute: real numbers to 400 bits, and float32 in other orders."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from exactformer.core.formats import FORMATS, REAL, Arithmetic
from exactformer.verification.balls import Ball
from exactformer.verification.engine import Engine
from exactformer.verification.graph import read
from exactformer.verification.precise import logits
from tests.verification.models import every, net

CPU = torch.device("cpu")
FLOAT32 = Arithmetic.of(FORMATS["float32"])
KINDS: dict[str, dict[str, Any]] = {
    "attention": {"heads": 2},
    "attention by hand": {"heads": 2, "by_hand": True},
    "causal": {"causal": True, "layers": 2},
    "causal by hand": {"causal": True, "by_hand": True},
    "units": {"act": "relu"},
    "smooth units": {"act": "silu", "last": False},
    "norms": {"act": "gelu", "norm": True},
    "two layers with norms": {"act": "gelu", "norm": True, "layers": 2, "last": False},
}


def balls(module: torch.nn.Module, ids: Tensor, arithmetic: Arithmetic) -> Ball:
    return Engine(read(module, ids.shape[1], CPU), arithmetic, CPU)(ids)


def inside(ball: Ball, values: Tensor) -> bool:
    return bool(((values.double() - ball.c).abs() <= ball.radius).all())


@pytest.mark.parametrize("kind", KINDS)
def test_real_balls_hold_the_logits_to_400_bits(kind: str) -> None:
    model = net(3, 1.5, tokens=5, length=4, **KINDS[kind])
    ids = every(5, 4)[::97]
    found = balls(model, ids, REAL)
    graph = read(model, 4, CPU)
    for k, tokens in enumerate(ids.tolist()):
        exact = logits(graph, tokens).reshape(-1)
        c, r = found.c[k].reshape(-1).tolist(), found.radius[k].reshape(-1).tolist()
        assert all(abs(x - y) <= z for x, y, z in zip(exact, c, r, strict=True))
    assert 0 < float(found.radius.max()) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_float32_balls_hold_executions_of_a_permuted_stream(kind: str) -> None:
    """Permuting the stream changes no function, only the order of every sum."""
    model = net(4, tokens=5, length=4, **KINDS[kind])
    ids = every(5, 4)[::13]
    found = balls(model, ids, FLOAT32)
    assert inside(found, model(ids))
    assert inside(found, model.double()(ids))
    weights = model.float().state_dict()
    for seed in range(3):
        order = torch.randperm(16, generator=torch.Generator().manual_seed(seed))
        moved = {}
        for name, w in weights.items():
            into = name.endswith(("o.weight", "mlp.2.weight", "mlp.2.bias")) or "norm" in name
            moved[name] = w[order] if into else w if name.endswith("mlp.0.bias") else w[..., order]
        other = net(4, tokens=5, length=4, **KINDS[kind])
        other.load_state_dict(moved)
        assert inside(found, other(ids))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_balls_of_short_formats_hold_their_executions(name: str) -> None:
    model = net(5, tokens=5, length=4, act="relu", heads=2).to(getattr(torch, name))
    ids = every(5, 4)[::13]
    found = balls(model, ids, Arithmetic.of(FORMATS[name]))
    assert inside(found, model(ids))
    assert float(found.radius.max()) < 10


def test_the_oracle_is_the_model() -> None:
    model = net(6, tokens=5, length=4, **KINDS["two layers with norms"])
    ids = every(5, 4)[::211]
    exact = [
        [[float(x) for x in row] for row in logits(read(model, 4, CPU), t)] for t in ids.tolist()
    ]
    np.testing.assert_allclose(exact, model.double()(ids).numpy(), atol=1e-12)


class Stock(torch.nn.Module):
    """PyTorch's own encoder layer, which puts the batch second inside."""

    def __init__(self, first: bool, act: str) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.embedding = torch.nn.Embedding(5, 16)
        self.layer = torch.nn.TransformerEncoderLayer(
            *(16, 2, 32), dropout=0.0, batch_first=True, norm_first=first, activation=act
        )

    def forward(self, ids: Tensor) -> Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.layer(self.embedding(ids), src_mask=mask)


@pytest.mark.parametrize(("first", "act"), [(True, "gelu"), (False, "relu")])
def test_stock_encoder_layers_are_read_as_they_are(first: bool, act: str) -> None:
    model = Stock(first, act).eval().requires_grad_(False)
    ids = every(5, 4)[::29]
    found = balls(model, ids, FLOAT32)
    assert inside(found, model(ids))
    assert float(found.radius.median()) < 1e-2
    real = balls(model, ids, REAL)
    assert inside(real, model.double()(ids))
    assert float(real.radius.max()) < 1e-9
