"""The targets of Fang et al., section 5, and the noisy samples they are learnt from.

Labels are noisy, y = f*(x) + ε. An error on noisy labels cannot fall below the variance of ε; an
error against the clean target can reach zero. The paper trains on the former and, by its numbers,
tests against the latter, so a sample keeps both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Target:
    """A polynomial as (coefficient, {variable: power}), for x ~ N(0, spread²·I)."""

    formula: str
    dimension: int
    degree: int
    spread: float
    terms: tuple[tuple[float, Mapping[int, int]], ...]

    def __call__(self, x: Array) -> Array:
        """Return the clean values at rows of ``x``."""
        total = np.zeros(len(x))
        for coefficient, powers in self.terms:
            total += coefficient * np.prod([x[:, j - 1] ** k for j, k in powers.items()], axis=0)
        return total

    @property
    def monomials(self) -> set[str]:
        """The terms by name, as a fitted table writes them."""
        return {
            " ".join(f"x{j}" if k == 1 else f"x{j}^{k}" for j, k in powers.items())
            for _, powers in self.terms
        }


TARGETS = {
    "f1": Target("x₁² + x₂²", 2, 2, 10.0, ((1, {1: 2}), (1, {2: 2}))),
    "f2": Target(
        "x₁⁵ + 3x₂⁴ + 2x₃³ + 5x₃x₄ + 3x₅² + 2x₆x₇x₈ + 2x₉",
        10,
        5,
        1.0,
        (
            (1, {1: 5}),
            (3, {2: 4}),
            (2, {3: 3}),
            (5, {3: 1, 4: 1}),
            (3, {5: 2}),
            (2, {6: 1, 7: 1, 8: 1}),
            (2, {9: 1}),
        ),
    ),
    # What seconds can learn: terms of f₂* up to degree three, in variables of their own.
    "f2-small": Target(
        "2x₁³ + 5x₁x₂ + 3x₃² + 2x₄",
        4,
        3,
        1.0,
        ((2, {1: 3}), (5, {1: 1, 2: 1}), (3, {3: 2}), (2, {4: 1})),
    ),
}


@dataclass(frozen=True)
class Data:
    """Points to train on with noisy labels, points to test on with clean and noisy ones."""

    x: Array
    y: Array
    test_x: Array
    test_clean: Array
    test_noisy: Array


def draw(target: Target, train: int, test: int, seed: int, noise: float = 1.0) -> Data:
    """Draw i.i.d. points; samples of one seed share their test points and are nested in size."""
    of_points, of_noise = np.random.default_rng(seed).spawn(2)
    x = target.spread * of_points.normal(size=(test + train, target.dimension))
    return split(x, target(x), test, noise * of_noise.normal(size=test + train))


def split(x: Array, clean: Array, test: int, noise: Array) -> Data:
    """Keep the first rows for testing: rows are i.i.d., so any choice is a random one."""
    noisy = clean + noise
    return Data(x[test:], noisy[test:], x[:test], clean[:test], noisy[:test])


def mean_square(values: Array, labels: Array) -> float:
    """Return the mean squared error, infinite or NaN where training left the finite numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean((values.astype(np.float64) - labels) ** 2))


def fitted_power(errors: Mapping[Any, float]) -> float:
    """Return the power by which errors grow with what they are listed by: a line in logarithms."""
    return float(np.polyfit(np.log(list(errors)), np.log(list(errors.values())), 1)[0])
