"""Functions on the square that are not polynomials, from smooth to broken, and samples of them."""

import numpy as np

from exactformer.experiments.fang.data import Array, Data, split

FUNCTIONS = {
    "smooth": "exp(−2‖x‖²)",
    "Runge": "1 / (1 + 9‖x‖²)",
    "kink": "|x₁| + |x₂ − 0.3|",
    "step": "sign(x₁ + x₂/2)",
}


def function(name: str, x: Array) -> Array:
    """Return a target's clean values at rows of ``x``."""
    if name == "smooth":
        return np.asarray(np.exp(-2 * (x**2).sum(axis=1)))
    if name == "Runge":
        return np.asarray(1 / (1 + 9 * (x**2).sum(axis=1)))
    if name == "kink":
        return np.asarray(np.abs(x[:, 0]) + np.abs(x[:, 1] - 0.3))
    return np.asarray(np.sign(x[:, 0] + x[:, 1] / 2))


def sample(name: str, train: int, test: int, seed: int, noise: float) -> Data:
    """Draw points uniformly from the square [−1, 1]²."""
    of_points, of_noise = np.random.default_rng(seed).spawn(2)
    x = of_points.uniform(-1, 1, size=(test + train, 2))
    return split(x, function(name, x), test, noise * of_noise.normal(size=test + train))
