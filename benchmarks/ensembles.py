"""Models of figure 1, made small, trained one by one and as one ensemble, in the same run.

    python -m benchmarks.ensembles

Three ways take the same steps from the same weights on the same rows: a plain ``nn.Module`` with
``torch.optim.Adam``, as people train one model after another; this package with one model; this
package with all. Useful operations are the multiplications and additions of the linear maps and the
attention, three times those of the forward pass, as the gradient of a product takes two products.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Size:
    """How large the comparison is; ``steps`` of each way in each of ``rounds``."""

    heads: tuple[int, ...] = (1, 2, 4)
    seeds: int = 8
    width: int = 32
    features: int = 8
    tau: int = 8
    batch: int = 32
    rows: int = 2048
    terms: int = 4
    steps: tuple[int, int, int] = (100, 100, 100)
    compared: int = 30
    rounds: int = 3


SMALL = Size()
TOY = Size((1, 2), 2, 8, 4, 4, 8, 64, 2, (5, 5, 5), 5, 1)


def measure(size: Size) -> dict[str, Any]:
    """Time the three ways in turn and compare their losses."""
    import torch

    from benchmarks.tables import provenance

    began = time.perf_counter()
    torch.set_float32_matmul_precision("highest")
    torch.set_num_threads(1)  # products this small are slower by two
    models = configurations(size)
    x, y = sample(size)
    seconds: dict[str, list[float]] = {"plain": [], "one": [], "ensemble": []}
    for turn in range(size.rounds):
        seconds["plain"].append(plain(size, models[turn % len(models)], x, y, size.steps[0])[1])
        seconds["one"].append(ensemble(size, [models[turn % len(models)]], x, y, size.steps[1])[1])
        seconds["ensemble"].append(ensemble(size, models, x, y, size.steps[2])[1])
    made = build(models)
    rates = {
        way: steps * (len(models) if way == "ensemble" else 1) / median(seconds[way])
        for way, steps in zip(seconds, size.steps, strict=True)
    }
    operations = 6 * made.multiplications(size.tau) * size.batch
    return {
        "provenance": provenance("ensembles", ("exactformer", "torch")),
        "size": asdict(size),
        "models": len(models),
        "model steps/s": rates,
        "seconds": seconds,
        "operations a model step": operations,
        "TFLOP/s": {way: rate * operations / 1e12 for way, rate in rates.items()},
        "TFLOP/s of batched products": product_rate(size, len(models)),
        "loss difference": compare(size, models, x, y),
        "total seconds": time.perf_counter() - began,
    }


def configurations(size: Size) -> list[Any]:
    from exactformer.learning.ensembles import AttentionConfiguration

    return [
        AttentionConfiguration(
            head, seed, size.width, features=size.features, value_dim=size.features
        )
        for head in size.heads
        for seed in range(size.seeds)
    ]


def sample(size: Size) -> tuple[Any, Any]:
    """Sequences of figure 1: ρ = Σ_k k^(−1) φ_k(u) φ_k(v), φ_k = √2 sin 2πkx, F = f = identity."""
    rng = np.random.default_rng(0)
    x = rng.random((size.rows, size.tau))
    k = np.arange(1, size.terms + 1)
    features = np.sqrt(2 / k) * np.sin(2 * np.pi * k * x[..., None])
    scores = features @ features.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    y = (weights @ x[..., None])[..., 0] / weights.sum(axis=-1)
    return _tensor(x), _tensor(y)


def _tensor(values: Any) -> Any:
    import torch

    return torch.as_tensor(values, dtype=torch.float32)


def build(models: list[Any]) -> Any:
    from exactformer.learning.ensembles import AttentionEnsemble

    return AttentionEnsemble(models)


def ensemble(
    size: Size, models: list[Any], x: Any, y: Any, steps: int, reports: int = 1
) -> tuple[Any, float]:
    """Train with this package; return the reported losses (M, reports) and the seconds."""
    from exactformer.learning.ensembles import EnsembleProtocol, train

    protocol = EnsembleProtocol(steps=steps, batch_size=size.batch, reports=reports)
    history = train(build(models), x, y, protocol)
    return history.losses, history.seconds


def plain(size: Size, model: Any, x: Any, y: Any, steps: int) -> tuple[Any, float]:
    """Train one model as people do; return the losses (steps,) and the seconds."""
    import torch

    network = PlainTransformer(model)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=1e-3, total_steps=steps, cycle_momentum=False
    )
    rows = order(len(x), size.batch, steps)
    losses = []
    for step in range(-3, steps):
        if step == 0:  # three steps that do not count: libraries choose kernels at first calls
            began = time.perf_counter()
        chosen = rows[max(step, 0)]
        loss = (network(x[chosen]) - y[chosen]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        if step >= 0:
            optimiser.step()
            schedule.step()
            losses.append(loss.detach())
    return torch.stack(losses).double().cpu().numpy(), time.perf_counter() - began


def order(count: int, batch: int, steps: int) -> Any:
    """Return the rows that the package takes with seed 0."""
    import torch

    source = torch.Generator().manual_seed(0)
    epochs = -(-steps * batch // count)
    rows = torch.cat([torch.randperm(count, generator=source) for _ in range(epochs)])
    return rows[: steps * batch].reshape(steps, batch)


def PlainTransformer(model: Any) -> Any:  # noqa: N802
    """Return equation (5) as a ``torch.nn.Module`` with a configuration's first weights."""
    import torch
    from torch import nn

    from exactformer.learning.ensembles import AttentionEnsemble

    weights = AttentionEnsemble([model]).weights(0)

    def linear(weight: str, bias: str | None = None) -> nn.Linear:
        layer = nn.Linear(*reversed(weights[weight].shape), bias=bias is not None)
        layer.weight.data.copy_(weights[weight])
        if bias is not None:
            layer.bias.data.copy_(weights[bias])
        return layer

    def network(name: str) -> nn.Sequential:
        layers: list[nn.Module] = []
        for depth in range(model.depth):
            layers += [linear(f"{name}.weights.{depth}", f"{name}.biases.{depth}"), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = network("inner"), network("outer")
            self.query, self.key, self.value = linear("query"), linear("key"), linear("value")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.inner(x.unsqueeze(-1))
            attention = (self.query(h) @ self.key(h).mT).softmax(dim=-1)
            return self.outer(attention @ self.value(h)).squeeze(-1)

    return Plain()


def compare(size: Size, models: list[Any], x: Any, y: Any) -> dict[str, float]:
    """Return the largest relative difference of losses, step by step, of three models."""
    few = sorted({0, len(models) // 2, len(models) - 1})
    together = ensemble(size, models, x, y, size.compared, size.compared)[0][few]
    alone = np.stack(
        [ensemble(size, [models[i]], x, y, size.compared, size.compared)[0][0] for i in few]
    )
    plainly = np.stack([plain(size, models[i], x, y, size.compared)[0] for i in few])
    return {
        "one and ensemble": float(np.max(np.abs(alone / together - 1))),
        "plain and ensemble": float(np.max(np.abs(plainly / together - 1))),
    }


def product_rate(size: Size, models: int) -> float:
    """Return the rate of the ensemble's largest products alone, one hidden layer of all models."""
    import torch

    a = torch.randn(models, size.batch * size.tau, size.width)
    b = torch.randn(models, size.width, size.width)
    calls = 10
    for _ in range(3):
        torch.bmm(a, b)
    began = time.perf_counter()
    for _ in range(calls):
        torch.bmm(a, b)
    return 2 * a.numel() * size.width * calls / (time.perf_counter() - began) / 1e12


WAYS = {
    "plain": "one by one, `nn.Module` and `torch.optim.Adam`",
    "one": "one by one, as ensembles of one",
    "ensemble": "all as one ensemble",
}


def table(results: dict[str, Any], stored: bool = True) -> None:
    """Show what was measured, and store it."""
    from benchmarks.tables import keep, markdown, origin, show

    rates, operations = results["model steps/s"], results["TFLOP/s"]
    columns = ("way", "model steps a second", "against one by one", "TFLOP/s")
    cells = [
        [
            text,
            f"{rates[way]:,.0f}",
            f"{rates[way] / rates['plain']:.1f} ×",
            f"{operations[way]:.3g}",
        ]
        for way, text in WAYS.items()
    ]
    title = "Training models one by one and as an ensemble"
    show(title, columns, cells)
    size, difference = results["size"], results["loss difference"]
    note = (
        f"{results['models']} models, width {size['width']}, depth 3, n = d_v = {size['features']}, "
        f"τ = {size['tau']}, batches of {size['batch']}, float32. A step of a model takes "
        f"{results['operations a model step'] / 1e9:.2g} billion operations; the batched products of "
        f"its largest layers alone run at {results['TFLOP/s of batched products']:.3g} TFLOP/s. "
        f"Over {size['compared']} steps losses of three models differ by at most "
        f"{difference['one and ensemble']:.1e} (one by one, as ensembles of one) and "
        f"{difference['plain and ensemble']:.1e} (plain) from the ensemble's, relatively."
    )
    if stored:
        made = origin(results["provenance"])
        keep("ensembles", title, [note, "", *markdown(columns, cells), "", made], results)


def run(quick: bool = False) -> None:
    """Measure and store; toys if ``quick``."""
    table(measure(TOY if quick else SMALL), stored=not quick)


if __name__ == "__main__":
    run()
