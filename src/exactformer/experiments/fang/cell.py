"""The cell behind figure 2, table 1 and figure 3: one model learns one target from one sample.

The model is one of the paper's three networks, trained by its protocol and measured on the way, or
a solver that needs no training.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments.engine.cell import Metrics, Parameters
from exactformer.experiments.fang.data import TARGETS, Array, Data, Target, draw, mean_square

if TYPE_CHECKING:
    from exactformer.learning.laws.trained.training import Progress

NETWORKS = ("attention", "depth", "width")
SOLVERS = ("least-squares", "sparse")
SURFACE = np.linspace(-30.0, 30.0, 25)

_POINTS_OF_A_CURVE = 80


@dataclass(frozen=True)
class Size:
    """Points, directions (or hidden units) and protocol: the parameters of a network's cell."""

    target: str
    train: int
    test: int
    width: int
    epochs: int
    batch: int
    clip: float


Clips = tuple[float | None, ...]
"""Thresholds of clipping to compare with."""


def all_cells(size: Size, seeds: int, other_clips: Clips) -> list[dict[str, Any]]:
    """Return networks and solvers on every seed, and on the first networks with other thresholds."""
    sample = {"target": size.target, "train": size.train, "test": size.test}
    solvers = [
        {**sample, "model": model, "seed": seed} for seed in range(seeds) for model in SOLVERS
    ]
    clipped = [
        {**cell, "clip": clip} for clip in other_clips for cell in network_cells(size, seeds=1)
    ]
    return [*network_cells(size, seeds), *solvers, *clipped]


def network_cells(size: Size, seeds: int) -> list[dict[str, Any]]:
    """Return the three networks on every seed, by the paper's protocol."""
    return [
        {**asdict(size), "model": model, "seed": seed}
        for seed in range(seeds)
        for model in NETWORKS
    ]


def run(parameters: Parameters, device: str) -> Metrics:
    """Learn; return the errors on noisy and clean labels, the cost, and what was found."""
    target = TARGETS[parameters["target"]]
    data = draw(target, parameters["train"], parameters["test"], parameters["seed"])
    if parameters["model"] in NETWORKS:
        metrics, values = train_network(parameters, target, data, device)
    else:
        metrics, values = fit(parameters["model"], target, data)
    metrics |= errors(values, data)
    if target.dimension == 2 and parameters["seed"] == 0:  # one surface of each model is drawn
        grid = np.stack(np.meshgrid(SURFACE, SURFACE), axis=-1).reshape(-1, 2)
        metrics["surface"] = np.round(values(grid), 2).reshape(len(SURFACE), -1)
    return metrics


def fit(solver: str, target: Target, data: Data) -> tuple[dict[str, Any], Callable[[Array], Array]]:
    """Fit without training; say which terms of the target were found, and which besides."""
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

    began = time.perf_counter()
    regressor = PolynomialAttentionRegressor(target.degree, solver=solver, relevance=0.0)
    regressor.fit(data.x, data.y)
    metrics: dict[str, Any] = {"minutes": (time.perf_counter() - began) / 60}
    if solver == "sparse":
        found = set(regressor.coef_table_["term"])
        metrics |= {
            "missed": len(target.monomials - found),
            "spurious": len(found - target.monomials),
            "exact": float(found == target.monomials),
            "formula": regressor.formula_,
        }
    return metrics, regressor.predict


def train_network(
    parameters: Parameters, target: Target, data: Data, device: str
) -> tuple[dict[str, Any], Callable[[Array], Array]]:
    """Train the network a cell asks for; return its metrics and the function it has learnt."""
    import torch

    from exactformer.experiments.fang.networks import build, predict
    from exactformer.learning.laws.trained.network import count_parameters
    from exactformer.learning.laws.trained.training import Points, TrainingProtocol, train

    seed, epochs, batch = parameters["seed"], parameters["epochs"], parameters["batch"]
    network = build(parameters["model"], target, parameters["width"], seed, device)
    points = Points(torch.as_tensor(data.x), torch.as_tensor(data.y)).to(
        torch.device(device), torch.float32
    )
    if device != "cpu":  # kernels are compiled on first use, which is no part of the run time
        network(points.x[:batch]).mean().backward()
        network.zero_grad()
    values = partial(predict, network)
    watch = _Watch(values, data, epochs)
    history = train(
        network,
        points,
        TrainingProtocol(epochs, batch, clip=parameters["clip"]),
        seed=seed,
        report=watch,
        reports=epochs,
    )
    converged = np.nan if history.diverged else history.converged() or epochs
    metrics = {
        "free": count_parameters(network),
        "diverged": history.diverged,
        "converged": converged,
        "epochs": len(history.train_mse),
        "minutes": watch.training / 60,
        "curve": watch.curve,
    }
    return metrics, values


@dataclass
class _Watch:
    """Takes all three errors at epochs evenly spread on a logarithmic scale."""

    values: Callable[[Array], Array]
    data: Data
    epochs: int
    watching: float = 0.0
    """Seconds that were spent here."""
    training: float = 0.0
    """Seconds that were not, up to the last report."""
    curve: dict[str, list[float]] = field(
        default_factory=lambda: {"epoch": [], "train": [], "test": [], "test_noisy": []}
    )

    def __post_init__(self) -> None:
        places = np.geomspace(1, self.epochs, _POINTS_OF_A_CURVE)
        self.places = set(np.rint(places).astype(int).tolist())

    def __call__(self, progress: Progress) -> None:
        self.training = progress.seconds - self.watching
        if progress.epoch not in self.places:
            return
        began = time.perf_counter()
        self.curve["epoch"].append(progress.epoch)
        for name, error in errors(self.values, self.data).items():
            self.curve[name].append(error)
        self.watching += time.perf_counter() - began


def errors(values: Callable[[Array], Array], data: Data) -> dict[str, float]:
    """Return the error on the training labels, against the clean target, and on noisy labels."""
    at_test = values(data.test_x)
    return {
        "train": mean_square(values(data.x), data.y),
        "test": mean_square(at_test, data.test_clean),
        "test_noisy": mean_square(at_test, data.test_noisy),
    }
