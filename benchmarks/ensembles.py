"""Sixty models of figure 1 trained one by one and as one ensemble, in the same run.

    python -m benchmarks.ensembles                    # all of it; small where there is no GPU
    python -m benchmarks.ensembles measure RESULTS    # the numbers alone
    python -m benchmarks.ensembles table RESULTS
    python -m benchmarks.ensembles profile            # where the time of a step goes on a GPU

Three ways take the same steps from the same weights on the same rows: a plain ``nn.Module`` with
``torch.optim.Adam``, as people train one model after another; this package with one model; this
package with all. Useful operations are the multiplications and additions of the linear maps and the
attention, three times those of the forward pass, as the gradient of a product takes two products.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Size:
    """How large the comparison is; ``steps`` of each way in each of ``rounds``."""

    heads: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    seeds: int = 10
    width: int = 128
    features: int = 32
    tau: int = 16
    batch: int = 256
    rows: int = 16_384
    terms: int = 16
    steps: tuple[int, int, int] = (300, 1000, 400)
    compared: int = 100
    rounds: int = 3


FULL = Size()
SMALL = Size((1, 2, 4), 8, 32, 8, 8, 32, 2048, 4, (100, 100, 100), 30, 3)
TOY = Size((1, 2), 2, 8, 4, 4, 8, 64, 2, (5, 5, 5), 5, 1)


def measure(size: Size, device: str) -> dict[str, Any]:
    """Time the three ways in turn and compare their losses."""
    import torch

    from benchmarks.tables import provenance
    from exactformer.learning.ensembles import EnsembleProtocol
    from exactformer.learning.ensembles.training.memory import sequence_bytes, weight_bytes

    began = time.perf_counter()
    torch.set_float32_matmul_precision("highest")
    if device == "cpu":
        torch.set_num_threads(1)  # products this small are slower by two
    models = configurations(size)
    x, y = sample(size, device)
    seconds: dict[str, list[float]] = {"plain": [], "one": [], "ensemble": []}
    for turn in range(size.rounds):
        seconds["plain"].append(plain(size, models[turn % len(models)], x, y, size.steps[0])[1])
        seconds["one"].append(ensemble(size, [models[turn % len(models)]], x, y, size.steps[1])[1])
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds["ensemble"].append(ensemble(size, models, x, y, size.steps[2])[1])
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    made = build(size, models, x)
    rates = {
        way: steps * (len(models) if way == "ensemble" else 1) / median(seconds[way])
        for way, steps in zip(seconds, size.steps, strict=True)
    }
    operations = 6 * made.multiplications(size.tau) * size.batch
    return {
        "provenance": provenance("ensembles", ("exactformer", "torch"))
        | ({"machine": torch.cuda.get_device_name()} if device == "cuda" else {}),
        "gpu": device == "cuda",
        "size": asdict(size),
        "models": len(models),
        "model steps/s": rates,
        "seconds": seconds,
        "operations a model step": operations,
        "TFLOP/s": {way: rate * operations / 1e12 for way, rate in rates.items()},
        "TFLOP/s of batched products": product_rate(size, len(models), device),
        "bytes": {
            "predicted": weight_bytes(made, EnsembleProtocol())
            + size.batch * sequence_bytes(made, size.tau),
            "measured": peak,
        },
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


def sample(size: Size, device: str) -> tuple[Any, Any]:
    """Sequences of figure 1: ρ = Σ_k k^(−1) φ_k(u) φ_k(v), φ_k = √2 sin 2πkx, F = f = identity."""
    rng = np.random.default_rng(0)
    x = rng.random((size.rows, size.tau))
    k = np.arange(1, size.terms + 1)
    features = np.sqrt(2 / k) * np.sin(2 * np.pi * k * x[..., None])
    scores = features @ features.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    y = (weights @ x[..., None])[..., 0] / weights.sum(axis=-1)
    return _tensor(x, device), _tensor(y, device)


def _tensor(values: Any, device: str) -> Any:
    import torch

    return torch.as_tensor(values, dtype=torch.float32, device=device)


def build(size: Size, models: list[Any], x: Any) -> Any:
    from exactformer.learning.ensembles import AttentionEnsemble

    return AttentionEnsemble(models, device=x.device)


def ensemble(
    size: Size, models: list[Any], x: Any, y: Any, steps: int, reports: int = 1
) -> tuple[Any, float]:
    """Train with this package; return the reported losses (M, reports) and the seconds."""
    from exactformer.learning.ensembles import EnsembleProtocol, train

    protocol = EnsembleProtocol(steps=steps, batch_size=size.batch, reports=reports)
    history = train(build(size, models, x), x, y, protocol)
    return history.losses, history.seconds


def plain(size: Size, model: Any, x: Any, y: Any, steps: int) -> tuple[Any, float]:
    """Train one model as people do; return the losses (steps,) and the seconds."""
    import torch

    network = PlainTransformer(size, model, x.device)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=1e-3, total_steps=steps, cycle_momentum=False
    )
    rows = order(len(x), size.batch, steps).to(x.device)
    losses = []
    for step in range(-3, steps):
        if step == 0:  # three steps that do not count: libraries choose kernels at first calls
            began = _now(x.device)
        chosen = rows[max(step, 0)]
        loss = (network(x[chosen]) - y[chosen]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        if step >= 0:
            optimiser.step()
            schedule.step()
            losses.append(loss.detach())
    return torch.stack(losses).double().cpu().numpy(), _now(x.device) - began


def order(count: int, batch: int, steps: int) -> Any:
    """Return the rows that the package takes with seed 0."""
    import torch

    source = torch.Generator().manual_seed(0)
    epochs = -(-steps * batch // count)
    rows = torch.cat([torch.randperm(count, generator=source) for _ in range(epochs)])
    return rows[: steps * batch].reshape(steps, batch)


def _now(device: Any) -> float:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def PlainTransformer(size: Size, model: Any, device: Any) -> Any:  # noqa: N802
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

    return Plain().to(device)


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


def product_rate(size: Size, models: int, device: str) -> float:
    """Return the rate of the ensemble's largest products alone, one hidden layer of all models."""
    import torch

    a = torch.randn(models, size.batch * size.tau, size.width, device=device)
    b = torch.randn(models, size.width, size.width, device=device)
    calls = 50 if device == "cuda" else 10
    for _ in range(3):
        torch.bmm(a, b)
    began = _now(a.device)
    for _ in range(calls):
        torch.bmm(a, b)
    return 2 * a.numel() * size.width * calls / (_now(a.device) - began) / 1e12


def profile(size: Size) -> None:
    """Print the kernels of a step, longest first."""
    import torch
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    x, y = sample(size, "cuda")
    models = configurations(size)
    ensemble(size, models, x, y, 10)
    with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        ensemble(size, models, x, y, 50)
    averages = found.key_averages()
    print(averages.table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=90))
    print(torch.cuda.get_device_name())


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
    size, difference, memory = results["size"], results["loss difference"], results["bytes"]
    measured = memory["measured"]
    note = (
        f"{results['models']} models, width {size['width']}, depth 3, n = d_v = {size['features']}, "
        f"τ = {size['tau']}, batches of {size['batch']}, float32. A step of a model takes "
        f"{results['operations a model step'] / 1e9:.2g} billion operations; the batched products of "
        f"its largest layers alone run at {results['TFLOP/s of batched products']:.3g} TFLOP/s. "
        f"Over {size['compared']} steps losses of three models differ by at most "
        f"{difference['one and ensemble']:.1e} (one by one, as ensembles of one) and "
        f"{difference['plain and ensemble']:.1e} (plain) from the ensemble's, relatively."
    )
    if measured is not None:
        note += (
            f" Memory: {memory['predicted'] / 2**30:.2g} GiB predicted, "
            f"{measured / 2**30:.2g} GiB at most in use."
        )
    name = "ensembles" if results["gpu"] else "ensembles-cpu"
    if stored:
        made = origin(results["provenance"])
        keep(name, title, [note, "", *markdown(columns, cells), "", made], results)


def run(quick: bool = False) -> None:
    """Measure and store: at full size where there is a GPU, small elsewhere, toys if ``quick``."""
    import torch

    device = "cuda" if torch.cuda.is_available() and not quick else "cpu"
    size = TOY if quick else FULL if device == "cuda" else SMALL
    table(measure(size, device), stored=not quick)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(prog="python -m benchmarks.ensembles")
    parser.add_argument("command", nargs="?", choices=["measure", "table", "profile"])
    parser.add_argument("results", nargs="?", type=Path)
    arguments = parser.parse_args()
    cuda = torch.cuda.is_available()
    if arguments.command == "measure":
        results = measure(FULL if cuda else SMALL, "cuda" if cuda else "cpu")
        arguments.results.write_text(json.dumps(results, indent=1))
        print(json.dumps(results, indent=1))
    elif arguments.command == "table":
        table(json.loads(arguments.results.read_text()))
    elif arguments.command == "profile":
        profile(FULL)
    else:
        run()


if __name__ == "__main__":
    main()
