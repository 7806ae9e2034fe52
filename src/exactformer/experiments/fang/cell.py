"""The cell behind figure 2, table 1 and figure 3: one model learns one target from one sample."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from exactformer.experiments.engine.cell import Metrics, Parameters
from exactformer.experiments.fang.data import TARGETS, Array, Data, Target, draw
from exactformer.experiments.fang.networks import NETWORKS, errors, train_network

SOLVERS = ("least-squares", "sparse")
SURFACE = np.linspace(-30.0, 30.0, 25)


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
