"""The solvers' errors by noise and by sample size.

Least squares over p terms can do no better than σ²p/n on average: the limit is drawn for all terms
of the dictionary and for those that are really there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from exactformer.experiments import Experiment, Metric, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.engine.cell import Cell, Metrics, Parameters
from exactformer.experiments.fang.cell import SOLVERS
from exactformer.experiments.fang.data import TARGETS, draw, fitted_power, mean_square
from exactformer.experiments.fang.names import named


@dataclass(frozen=True)
class Sweep:
    """One target: which solvers, sample sizes at σ = 1, and noise levels at the largest size."""

    target: str
    solvers: tuple[str, ...]
    sizes: tuple[int, ...]
    noises: tuple[float, ...]
    epochs: int = 600


_ALL = ("sgd", *SOLVERS)
_NOISES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
SEEDS = by_scale(2, 3, 5)
SWEEPS = by_scale(
    (
        Sweep("f1", _ALL, (100, 1000), (0.001, 1.0), 300),
        Sweep("f2-small", SOLVERS, (300, 2000), (0.001, 1.0)),
    ),
    (
        Sweep("f1", _ALL, (100, 300, 1000, 3000, 9000), _NOISES),
        Sweep("f2", SOLVERS, (4500, 9000, 18_000), _NOISES),
    ),
    (
        Sweep("f1", _ALL, (100, 300, 1000, 3000, 9000), _NOISES),
        Sweep("f2", SOLVERS, (4500, 9000, 18_000, 45_000), _NOISES),
    ),
)
NAMES = {"f1": "f₁*", "f2": "f₂*", "f2-small": "part of f₂*"}


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return one cell for each solver, sample size and seed; the largest size has all noises."""
    return [
        {
            "target": sweep.target,
            "solver": solver,
            "train": size,
            "test": 1000,
            "noises": sweep.noises if size == sweep.sizes[-1] else [1.0],
            "seed": seed,
            **({"epochs": sweep.epochs} if solver == "sgd" else {}),
        }
        for sweep in SWEEPS[scale]
        for seed in range(SEEDS[scale])
        for size in sweep.sizes
        for solver in sweep.solvers
    ]


def run(parameters: Parameters, device: str) -> Metrics:
    """Fit all noise levels at once, one output each; return their errors on the clean target."""
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

    target, seed = TARGETS[parameters["target"]], parameters["seed"]
    samples = [
        draw(target, parameters["train"], parameters["test"], seed, noise)
        for noise in parameters["noises"]
    ]
    options: dict[str, Any] = {}
    if parameters["solver"] == "sgd":
        options = {
            "epochs": parameters["epochs"],
            "batch_size": -(-parameters["train"] // 2),  # two batches an epoch, as in the paper
            "rescale": False,
            "device": device,
            "random_state": seed,
        }
    regressor = PolynomialAttentionRegressor(
        target.degree, solver=parameters["solver"], relevance=0.0, **options
    )
    regressor.fit(samples[0].x, np.column_stack([sample.y for sample in samples]))
    values = regressor.predict(samples[0].test_x)
    return {"test": [mean_square(v, samples[0].test_clean) for v in values.T]}


def limit(target: str, solver: str, noise: float, size: int) -> float:
    """Return σ²p/n: p counts the target's own terms for the sparse solver, else all terms."""
    polynomial = TARGETS[target]
    count = comb(polynomial.dimension + polynomial.degree, polynomial.degree)
    return noise**2 * (len(polynomial.terms) if solver == "sparse" else count) / size


def errors_by_noise(cells: Sequence[Cell]) -> dict[float, float]:
    """Return {σ: error} of one seed at the largest sample size."""
    largest = max(cells, key=lambda cell: int(cell.parameters["train"]))
    return dict(zip(largest.parameters["noises"], largest.metrics["test"], strict=True))


def errors_by_size(cells: Sequence[Cell]) -> dict[int, float]:
    """Return {n: error} of one seed at σ = 1."""
    found = {
        int(c.parameters["train"]): float(c.metrics["test"][c.parameters["noises"].index(1.0)])
        for c in cells
    }
    return dict(sorted(found.items()))


def _over_limit(cells: Sequence[Cell]) -> float:
    error = errors_by_size(cells)
    size = max(error)
    chosen = cells[0].parameters
    return error[size] / limit(chosen["target"], chosen["solver"], 1.0, size)


def _power_of_noise(cells: Sequence[Cell]) -> float:
    return fitted_power({noise: e for noise, e in errors_by_noise(cells).items() if noise <= 1})


ROWS: dict[str, tuple[Metric, float]] = {
    "error at σ = 1": (lambda cells: errors_by_noise(cells)[1.0], 0.02),
    "the same over σ²p/n": (_over_limit, 0.02),
    "error at the least noise": (lambda cells: min(errors_by_noise(cells).items())[1], 0.1),
    "power of σ, up to σ = 1": (_power_of_noise, 0.02),
    "power of n, at σ = 1": (lambda cells: fitted_power(errors_by_size(cells)), 0.05),
}


def quantities(scale: Scale) -> list[Quantity]:
    """Return five numbers for each target and solver; n is the largest unless it varies."""
    return [
        quantity
        for sweep in SWEEPS[scale]
        for quantity in rows(
            "{target}, {solver}, {row}",
            ROWS,
            {"target": {sweep.target: NAMES[sweep.target]}, "solver": named(sweep.solvers)},
        )
    ]


def _each(summary: Summary, solver: str, row: str) -> list[float]:
    """Return a row of a solver, for every target."""
    targets = [NAMES[sweep.target] for sweep in SWEEPS[summary.scale]]
    return [summary[f"{target}, {solver}, {row}"] for target in targets]


def _fitted(summary: Summary, row: str) -> list[float]:
    """Return a row of all that is fitted without training."""
    return _each(summary, "least squares", row) + _each(summary, "sparse", row)


EXPERIMENT = Experiment(
    name="fang-noise",
    title="Error against noise and sample size, beside the limit σ²p/n",
    claim="The solvers that need no training reach the statistical limit: the variance of the "
    "noise times the number of terms fitted over the sample size.",
    source="Fang et al. 2022, section 5, taken further",
    cells=cells,
    run=run,
    quantities=quantities,
    figure="exactformer.experiments.fang.drawing:noise",
)


@EXPERIMENT.states("without training, the error is within a factor of 4 of σ²p/n")
def _(summary: Summary) -> bool:
    return all(0.25 < ratio < 4 for ratio in _fitted(summary, "the same over σ²p/n"))


@EXPERIMENT.states("without training, the error falls as σ²")
def _(summary: Summary) -> bool:
    return all(abs(power - 2) < 0.1 for power in _fitted(summary, "power of σ, up to σ = 1"))


@EXPERIMENT.states("without training, the error falls with n, about as 1/n or faster")
def _(summary: Summary) -> bool:
    return max(_fitted(summary, "power of n, at σ = 1")) < -0.7


@EXPERIMENT.states("knowing which terms are there lowers the error")
def _(summary: Summary) -> bool:
    all_terms, known = (
        _each(summary, solver, "error at σ = 1") for solver in ("least squares", "sparse")
    )
    return all(a > b for a, b in zip(all_terms, known, strict=True))


@EXPERIMENT.states("at little noise training stops short of what the data allow")
def _(summary: Summary) -> bool:
    row = "f₁*, {}, error at the least noise"
    return summary[row.format("ATTENTION")] > 10 * summary[row.format("least squares")]
