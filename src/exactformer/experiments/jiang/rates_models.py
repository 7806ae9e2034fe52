"""The models of figure 1: constructed, trained from there, and trained from scratch.

All of them answer the same held-out sequences, drawn in float32 so that the reference in float64 sees
the very inputs the models see. Errors are mean squares over sequences and tokens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from exactformer.couplings.run.fused import FusedCoupling
from exactformer.couplings.run.tables import KnotTable
from exactformer.couplings.target import Sines
from exactformer.experiments.jiang.rates import TAU, TERMS, singular_values
from exactformer.experiments.models.warm_start import cosines, warm_start
from exactformer.learning.ensembles import (
    AttentionConfiguration,
    AttentionEnsemble,
    EnsembleProtocol,
    train,
)
from exactformer.targets import Coupling, sine_family

_ROWS = 512  # sequences at a time: 256 features in float64 are large
_TEST_SEED = 2**20  # a stream apart from those of training


def target(alpha: float, rank: str) -> Coupling:
    """Return the relationship of section 5.1."""
    return sine_family(singular_values(alpha, rank), TAU)


def draw(count: int, seed: int, device: str) -> Tensor:
    """Return uniform sequences (count, τ) of float32, the same on every device."""
    return torch.rand(count, TAU, generator=torch.Generator().manual_seed(seed)).to(device)


def draw_test(parameters: Mapping[str, Any], device: str) -> Tensor:
    """Return the held-out sequences of all curves."""
    return draw(parameters["test"], _TEST_SEED + parameters["seed"], device)


def answer(relationship: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Evaluate in blocks."""
    with torch.no_grad():
        return torch.cat([relationship(rows) for rows in torch.split(x, _ROWS)], dim=-2)


def mean_squares(prediction: Tensor, exact: Tensor) -> list[float]:
    """Return the mean squared error of every model, for predictions (M, B, τ)."""
    return [float(e) for e in (prediction.double() - exact).square().flatten(-2).mean(dim=-1)]


def constructed(
    alpha: float, ranks: Iterable[str], heads: Sequence[int], pieces: int
) -> FusedCoupling:
    """Carry out Theorem 4.1 for every rank and head size: √σ_k φ_k, √σ_k ψ_k at the knots, k ≤ m_h."""
    knots = torch.linspace(0, 1, pieces + 1, dtype=torch.float64)
    largest = max(heads)
    tables = []
    for rank in ranks:
        sigma = torch.zeros(largest, dtype=torch.float64)
        kept = singular_values(alpha, rank)[:largest]
        sigma[: len(kept)] = torch.as_tensor(kept)
        waves = Sines(largest)(knots) * sigma.sqrt()
        for head in heads:
            own = waves * (torch.arange(largest) < head)
            tables.append(torch.cat([own, own, knots[:, None]], dim=1))
    return FusedCoupling(KnotTable(torch.stack(tables)), None, largest)


def constructed_errors(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Measure the construction in float32 and in float64, and the target's own formula in float32."""
    alpha, heads, pieces = (parameters[name] for name in ("alpha", "heads", "pieces"))
    x = draw_test(parameters, device)
    found: dict[str, Any] = {"float32": {}, "float64": {}, "formula in float32": {}}
    for rank in TERMS:
        relationship = target(alpha, rank)
        exact = answer(relationship, x.double())
        model = constructed(alpha, [rank], heads, pieces).to(device)
        for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
            found[name][rank] = mean_squares(answer(model.to(dtype), x.to(dtype)), exact)
        found["formula in float32"][rank] = mean_squares(answer(relationship, x)[None], exact)[0]
    return found


def warm_errors(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Train every constructed model further, all head sizes and ranks at once."""
    alpha, heads, pieces = (parameters[name] for name in ("alpha", "heads", "pieces"))
    x, y = _training(parameters, device)
    start = constructed(alpha, TERMS, heads, pieces).to(device, torch.float32)
    sines = Sines(parameters["sines"])(torch.linspace(0, 1, pieces + 1, dtype=torch.float64))
    tuned = warm_start(
        start,
        x,
        y,
        choice=_choice(len(heads)),
        directions=torch.cat([sines, cosines(pieces + 1, parameters["cosines"])], dim=1),
        protocol=_protocol(parameters),
    )
    return {"mse": _by_rank(tuned.model, parameters, device)}


def scratch_errors(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Train equation (5) from PyTorch's own start: errors by rank, head size and start."""
    heads, starts = parameters["heads"], parameters["starts"]
    x, y = _training(parameters, device)
    configurations = [
        AttentionConfiguration(
            head,
            seed=parameters["seed"] + start,
            width=parameters["width"],
            depth=parameters["depth"],
            features=parameters["features"],
            value_dim=parameters["features"],
        )
        for _ in TERMS
        for head in heads
        for start in range(starts)
    ]
    ensemble = AttentionEnsemble(configurations, device=device)
    train(ensemble, x, y, _protocol(parameters), choice=_choice(len(heads) * starts))
    errors = _by_rank(ensemble, parameters, device)
    return {
        "mse": {
            rank: [curve[i : i + starts] for i in range(0, len(curve), starts)]
            for rank, curve in errors.items()
        }
    }


def _training(parameters: Mapping[str, Any], device: str) -> tuple[Tensor, Tensor]:
    """Return sequences (N, τ) and the answers of every rank, (ranks, N, τ)."""
    x = draw(parameters["sequences"], parameters["seed"], device)
    exact = [answer(target(parameters["alpha"], rank), x.double()) for rank in TERMS]
    return x, torch.stack(exact).float()


def _choice(models: int) -> list[int]:
    return [place for place in range(len(TERMS)) for _ in range(models)]


def _protocol(parameters: Mapping[str, Any]) -> EnsembleProtocol:
    """Adam with one cycle. A square mean over 100 steps, not 1000: that leaves plateaus sooner."""
    return EnsembleProtocol(
        steps=parameters["steps"],
        batch_size=parameters["batch"],
        rate=parameters["rate"],
        betas=(0.9, 0.99),
        seed=parameters["seed"],
    )


def _by_rank(
    models: Callable[[Tensor], Tensor], parameters: Mapping[str, Any], device: str
) -> dict[str, list[float]]:
    """Return the errors on the held-out sequences, of models that come rank by rank."""
    x = draw_test(parameters, device)
    return {
        rank: mean_squares(own, answer(target(parameters["alpha"], rank), x.double()))
        for rank, own in zip(TERMS, answer(models, x).chunk(len(TERMS)), strict=True)
    }
