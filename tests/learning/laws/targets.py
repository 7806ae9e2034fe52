"""The paper's two targets with noisy samples, and what is in them."""

from typing import Any

import numpy as np

F1 = {(2, 0), (0, 2)}
F2 = {"x1^5", "x2^4", "x3^3", "x3 x4", "x5^2", "x6 x7 x8", "x9"}


def f1(X: Any) -> Any:
    return (X**2).sum(axis=1)


def f2(X: Any) -> Any:
    x = X.T
    return (
        x[0] ** 5
        + 3 * x[1] ** 4
        + 2 * x[2] ** 3
        + 5 * x[2] * x[3]
        + 3 * x[4] ** 2
        + 2 * x[5] * x[6] * x[7]
        + 2 * x[8]
    )


def f1_sample(seed: int) -> Any:
    """Return 9000 noisy training points and 1000 clean test points."""
    generator = np.random.default_rng(seed)
    X = 10 * generator.normal(size=(10_000, 2))
    y = f1(X[:9000]) + generator.normal(size=9000)
    return X[:9000], y, X[9000:], f1(X[9000:])


def f2_sample(seed: int) -> Any:
    """Return 45,000 noisy training points and 5000 clean test points."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(50_000, 10))
    y = f2(X[:45_000]) + generator.normal(size=45_000)
    return X[:45_000], y, X[45_000:], f2(X[45_000:])
