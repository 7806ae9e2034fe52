"""Targets that are not polynomials: how the error depends on the degree.

Three errors are kept apart: what the best polynomial of a degree leaves (fitted without noise), what
noise adds to it (σ²p/n), and what training leaves on top.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale
from exactformer.experiments.engine.cell import Cell, Metrics, Parameters
from exactformer.experiments.fang.data import Array, Data, fitted_power, mean_square, split

FUNCTIONS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "smooth": ("exp(−2‖x‖²)", lambda x: np.exp(-2 * (x**2).sum(axis=1))),
    "Runge": ("1 / (1 + 9‖x‖²)", lambda x: 1 / (1 + 9 * (x**2).sum(axis=1))),
    "kink": ("|x₁| + |x₂ − 0.3|", lambda x: np.abs(x[:, 0]) + np.abs(x[:, 1] - 0.3)),
    "step": ("sign(x₁ + x₂/2)", lambda x: np.sign(x[:, 0] + x[:, 1] / 2)),
}
"""From smooth to broken, on the square: in words, and at rows of x."""
NOISE = 0.1
# Squared error of the best polynomial of degree q, as a power of q, where it is a power.
POWERS = {"kink": -3.0, "step": -1.0}

POINTS = by_scale(
    {"train": 2000, "test": 1000}, {"train": 9000, "test": 2000}, {"train": 9000, "test": 5000}
)
DEGREES: dict[Scale, tuple[int, ...]] = by_scale(
    (1, 2, 4, 8, 12),
    (1, 2, 3, 4, 6, 8, 10, 12, 16, 20),
    (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20),
)
TRAINED: dict[Scale, tuple[int, ...]] = by_scale((2,), (2, 4, 8), (2, 4, 6, 8, 10))
EPOCHS = by_scale(25, 100)
SEEDS = by_scale(1, 3, 5)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return one cell for each function, solver and seed; it goes through the degrees."""
    degrees = DEGREES[scale]
    trained = {"solver": "sgd", "noise": NOISE, "degrees": TRAINED[scale], "epochs": EPOCHS[scale]}
    fitted: list[dict[str, Any]] = [
        {"solver": "sparse", "noise": NOISE, "degrees": degrees},
        {"solver": "least-squares", "noise": NOISE, "degrees": degrees},
        {"solver": "least-squares", "noise": 0.0, "degrees": degrees},
        {"solver": "least-squares", "noise": NOISE, "degrees": ["auto"]},
    ]
    return [
        {**way, "function": name, "seed": seed, **POINTS[scale]}
        for seed in range(SEEDS[scale])
        for way in (fitted if seed else [trained, *fitted])
        for name in FUNCTIONS
    ]


def sample(name: str, train: int, test: int, seed: int, noise: float) -> Data:
    """Draw points uniformly from the square [−1, 1]²."""
    of_points, of_noise = np.random.default_rng(seed).spawn(2)
    x = of_points.uniform(-1, 1, size=(test + train, 2))
    return split(x, FUNCTIONS[name][1](x), test, noise * of_noise.normal(size=test + train))


def run(parameters: Parameters, device: str) -> Metrics:
    """Fit every degree; return the errors on the clean target and how many terms were kept."""
    from exactformer.learning.laws.diagnosis import LawWarning
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

    names = ("train", "test", "seed", "noise")
    data = sample(parameters["function"], *(parameters[name] for name in names))
    options: dict[str, Any] = {}
    if parameters["solver"] == "sgd":
        options = {
            "epochs": parameters["epochs"],
            "batch_size": 500,
            "learning_rate": (1e-2, 1e-1),  # the paper's rates are made for larger values
            "device": device,
            "random_state": parameters["seed"],
        }
    found: dict[str, list[float]] = {"degree": [], "test": [], "terms": []}
    for degree in parameters["degrees"]:
        regressor = PolynomialAttentionRegressor(
            degree, solver=parameters["solver"], relevance=0.0, **options
        )
        with warnings.catch_warnings():  # that no polynomial holds the target is why it is here
            warnings.simplefilter("ignore", LawWarning)
            regressor.fit(data.x, data.y)
        found["degree"].append(regressor.degree_)
        found["test"].append(mean_square(regressor.predict(data.test_x), data.test_clean))
        if parameters["solver"] == "sparse":
            found["terms"].append(len(regressor.coef_table_))
    return found


def _errors(cells: Sequence[Cell]) -> dict[int, float]:
    (cell,) = cells
    return dict(zip(cell.metrics["degree"], cell.metrics["test"], strict=True))


def _best(cells: Sequence[Cell], highest: int = 20) -> float:
    return min(error for degree, error in _errors(cells).items() if degree <= highest)


def _best_degree(cells: Sequence[Cell]) -> float:
    errors = _errors(cells)
    return float(min(errors, key=errors.__getitem__))


def _last(cells: Sequence[Cell]) -> float:
    return list(_errors(cells).values())[-1]


def _power(cells: Sequence[Cell]) -> float:
    """Return the power of q by which the error falls, from degree 4 on."""
    return fitted_power({q: e for q, e in _errors(cells).items() if q >= 4})


def quantities(scale: Scale) -> Iterator[Quantity]:
    """Yield the best error, the price of not knowing the degree, and the rate without noise."""
    degrees, up_to_8 = list(DEGREES[scale]), partial(_best, highest=8)
    for name in FUNCTIONS:
        noisy = {"function": name, "solver": "least-squares", "noise": NOISE, "degrees": degrees}
        clean, auto = {**noisy, "noise": 0.0}, {**noisy, "degrees": ["auto"]}
        sparse = {**noisy, "solver": "sparse"}
        trained = {"function": name, "solver": "sgd"}
        yield Quantity(f"{name}, best degree", _best_degree, noisy, drift=0.5)
        yield Quantity(f"{name}, least squares at its best degree", _best, noisy, drift=1e-3)
        yield Quantity(f"{name}, least squares at its best up to 8", up_to_8, noisy, drift=1e-3)
        yield Quantity(f"{name}, least squares, automatic degree", _last, auto, drift=1e-3)
        yield Quantity(f"{name}, sparse at the highest degree", _last, sparse, drift=1e-3)
        yield Quantity(f"{name}, ATTENTION at its best degree", _best, trained, drift=0.1)
        yield Quantity(f"{name}, highest degree without noise", _last, clean, drift=1e-2)
        if name in POWERS:
            yield Quantity(f"{name}, power of the degree without noise", _power, clean, drift=1e-2)


EXPERIMENT = Experiment(
    name="fang-outside",
    title="Targets that are not polynomials: error against degree",
    claim="Off the polynomials the model approximates: the error falls with the degree as fast as "
    "the target is smooth, until noise takes over.",
    source="Fang et al. 2022, Corollary 3.7, taken to noisy data",
    cells=cells,
    run=run,
    quantities=quantities,
    figure="exactformer.experiments.fang.drawing:outside",
)


@EXPERIMENT.states("the smoother the target, the less a high degree leaves of it")
def _(summary: Summary) -> bool:
    left = [summary[f"{name}, highest degree without noise"] for name in FUNCTIONS]
    return left[0] < 0.01 * left[1] and max(left[:3]) < 0.1 * left[3]


@EXPERIMENT.states("for a kink and a step the squared error falls as q⁻³ and q⁻¹, within 0.6")
def _(summary: Summary) -> bool:
    return all(
        abs(summary[f"{name}, power of the degree without noise"] - power) < 0.6
        for name, power in POWERS.items()
    )


@EXPERIMENT.states(
    "the automatic degree, which goes up to 8, costs at most a fifth over the best one"
)
def _(s: Summary) -> bool:
    return all(
        s[f"{name}, least squares, automatic degree"]
        < 1.2 * s[f"{name}, least squares at its best up to 8"]
        for name in FUNCTIONS
    )


@EXPERIMENT.states("the sparse solver is not hurt by a dictionary of too high a degree")
def _(s: Summary) -> bool:
    return all(
        s[f"{name}, sparse at the highest degree"]
        < 1.2 * s[f"{name}, least squares at its best degree"]
        for name in FUNCTIONS
    )
