"""How the solvers' errors depend on the noise and on the size of the sample.

Least squares over p terms can do no better than σ²p/n on average: the limit is drawn for all terms
of the dictionary and for those that are really there.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments.engine.cell import Cell, Metrics, Parameters
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.fang.data import TARGETS, draw, mean_square
from exactformer.experiments.fang.learning import SOLVERS
from exactformer.experiments.fang.names import LABELS
from exactformer.experiments.fang.sizes import (
    SEEDS,
    SWEEPS,
    errors_by_noise,
    errors_by_size,
    limit,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    regressor = PolynomialAttentionRegressor(target.degree, solver=parameters["solver"], **options)
    regressor.fit(samples[0].x, np.column_stack([sample.y for sample in samples]))
    values = regressor.predict(samples[0].test_x)
    return {"test": [mean_square(v, samples[0].test_clean) for v in values.T]}


def _at_one(cells: Sequence[Cell]) -> float:
    return errors_by_noise(cells)[1.0]


def _quiet(cells: Sequence[Cell]) -> float:
    return min(errors_by_noise(cells).items())[1]


def _over_limit(cells: Sequence[Cell]) -> float:
    error = errors_by_size(cells)
    size = max(error)
    chosen = cells[0].parameters
    return error[size] / limit(chosen["target"], chosen["solver"], 1.0, size)


def _power_of_noise(cells: Sequence[Cell]) -> float:
    error = {noise: e for noise, e in errors_by_noise(cells).items() if noise <= 1}
    return _slope(error)


def _power_of_size(cells: Sequence[Cell]) -> float:
    return _slope(errors_by_size(cells))


def _slope(error: dict[Any, float]) -> float:
    return float(np.polyfit(np.log(list(error)), np.log(list(error.values())), 1)[0])


ROWS = {
    "error at σ = 1": (_at_one, 0.02),
    "the same over σ²p/n": (_over_limit, 0.02),
    "error at the least noise": (_quiet, 0.1),
    "power of σ, up to σ = 1": (_power_of_noise, 0.02),
    "power of n, at σ = 1": (_power_of_size, 0.05),
}


def quantities(scale: Scale) -> Iterator[Quantity]:
    """Yield five numbers for each target and solver; n is the largest unless it varies."""
    for sweep in SWEEPS[scale]:
        for solver in sweep.solvers:
            for row, (metric, drift) in ROWS.items():
                where = {"target": sweep.target, "solver": solver}
                yield Quantity(_label(sweep.target, solver, row), metric, where, drift=drift)


def _label(target: str, solver: str, row: str) -> str:
    name = {"f1": "f₁*", "f2": "f₂*", "f2-small": "part of f₂*"}[target]
    return f"{name}, {LABELS[solver]}, {row}"


def _each(summary: Summary, solvers: Sequence[str], row: str) -> list[float]:
    return [
        summary[_label(sweep.target, solver, row)]
        for sweep in SWEEPS[summary.scale]
        for solver in sweep.solvers
        if solver in solvers
    ]


def _training_stops_short(summary: Summary) -> bool:
    trained, fitted = (
        summary[_label("f1", solver, "error at the least noise")]
        for solver in ("sgd", "least-squares")
    )
    return trained > 10 * fitted


def figure(summary: Summary) -> "Figure":
    """Draw error against noise and against sample size for each target, limits dashed."""
    from exactformer.experiments.fang.sweeps_drawing import noise_figure

    return noise_figure(summary)


EXPERIMENT = Experiment(
    name="fang-noise",
    title="Error against noise and sample size, beside the limit σ²p/n",
    claim="The solvers that need no training reach the statistical limit: the variance of the "
    "noise times the number of terms fitted over the sample size.",
    source="Fang et al. 2022, section 5, taken further",
    ours=True,
    cells=cells,
    run=run,
    quantities=lambda scale: tuple(quantities(scale)),
    statements=(
        Statement(
            "without training, the error is within a factor of 4 of σ²p/n",
            lambda s: all(0.25 < r < 4 for r in _each(s, SOLVERS, "the same over σ²p/n")),
        ),
        Statement(
            "without training, the error falls as σ²",
            lambda s: all(abs(r - 2) < 0.1 for r in _each(s, SOLVERS, "power of σ, up to σ = 1")),
        ),
        Statement(
            "without training, the error falls with n, about as 1/n or faster",
            lambda s: max(_each(s, SOLVERS, "power of n, at σ = 1")) < -0.7,
        ),
        Statement(
            "knowing which terms are there lowers the error",
            lambda s: all(
                a > b
                for a, b in zip(
                    _each(s, ["least-squares"], "error at σ = 1"),
                    _each(s, ["sparse"], "error at σ = 1"),
                    strict=True,
                )
            ),
        ),
        Statement(
            "at little noise training stops short of what the data allow", _training_stops_short
        ),
    ),
    figure=figure,
)
