"""Well-known systems, their laws as exponents and coefficients, and noisy trajectories of them."""

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

LORENZ = [
    {(1, 0, 0): -10.0, (0, 1, 0): 10.0},
    {(1, 0, 0): 28.0, (0, 1, 0): -1.0, (1, 0, 1): -1.0},
    {(1, 1, 0): 1.0, (0, 0, 1): -8 / 3},
]
VAN_DER_POL = [{(0, 1): 1.0}, {(1, 0): -1.0, (0, 1): 2.0, (2, 1): -2.0}]
LOTKA_VOLTERRA = [{(1, 0): 1.1, (1, 1): -0.4}, {(1, 1): 0.1, (0, 1): -0.4}]
STARTS = {
    "lorenz": (LORENZ, [-8.0, 7.0, 27.0], 10.0, 2000),
    "van der pol": (VAN_DER_POL, [2.0, 0.0], 20.0, 1000),
    "lotka-volterra": (LOTKA_VOLTERRA, [10.0, 5.0], 30.0, 600),
}


def trajectory(name, noise=0.0, seed=0, samples=None):
    """Return times, states with noise of that share of their deviation, and the law."""
    t, X = clean(name, samples or STARTS[name][3])
    noisy = X + noise * X.std(axis=0) * np.random.default_rng(seed).normal(size=X.shape)
    return t, noisy, STARTS[name][0]


@cache
def clean(name, samples):
    law, start, end, _ = STARTS[name]

    def slope(_, x):
        return [sum(c * np.prod(x ** np.array(a)) for a, c in one.items()) for one in law]

    t = np.linspace(0, end, samples)
    return t, solve_ivp(slope, (0, end), start, t_eval=t, rtol=1e-10, atol=1e-12).y.T


def found(law):
    """Return the terms of each equation with their coefficients."""
    return [{law.terms[j]: float(s.coefficients[j]) for j in s.active} for s in law.solutions]
