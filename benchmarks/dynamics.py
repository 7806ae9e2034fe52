"""Differential equations from noisy trajectories: ours beside PySINDy.

    python -m benchmarks.dynamics

Every method gets the same trajectories and polynomials up to degree 3. Noise is a share of each state's
standard deviation. A support is exact if all equations have the law's terms and no other; the error is
the largest relative error of a coefficient of the law, a missing one counting as 1, and its median over
seeds is shown. PySINDy is told a threshold, half of the smallest coefficient; ours is told nothing.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.tables import HERE, keep, markdown, origin, provenance, show

Law = list[dict[tuple[int, ...], float]]
SYSTEMS: dict[str, tuple[Law, list[float], float, int]] = {
    "Lorenz": (
        [
            {(1, 0, 0): -10.0, (0, 1, 0): 10.0},
            {(1, 0, 0): 28.0, (0, 1, 0): -1.0, (1, 0, 1): -1.0},
            {(1, 1, 0): 1.0, (0, 0, 1): -8 / 3},
        ],
        [-8.0, 7.0, 27.0],
        10.0,
        2000,
    ),
    "van der Pol": (
        [{(0, 1): 1.0}, {(1, 0): -1.0, (0, 1): 2.0, (2, 1): -2.0}],
        [2.0, 0.0],
        20.0,
        1000,
    ),
    "Lotka–Volterra": (
        [{(1, 0): 1.1, (1, 1): -0.4}, {(1, 1): 0.1, (0, 1): -0.4}],
        [10.0, 5.0],
        30.0,
        600,
    ),
}
NOISE = (0.01, 0.05, 0.1)
SEEDS = 3
DEGREE = 3


def trajectory(name: str, noise: float, seed: int) -> tuple[Any, Any]:
    law, start, end, count = SYSTEMS[name]

    def slope(_: float, x: Any) -> list[Any]:
        return [sum(c * np.prod(x ** np.array(a)) for a, c in one.items()) for one in law]

    t = np.linspace(0, end, count)
    X = solve_ivp(slope, (0, end), start, t_eval=t, rtol=1e-10, atol=1e-12).y.T
    return t, X + noise * X.std(axis=0) * np.random.default_rng(seed).normal(size=X.shape)


def ours(t: Any, X: Any, method: str) -> Law:
    import exactformer as ef

    found = ef.fit_dynamics(t, X, degree=DEGREE, method=method)
    return [{found.terms[j]: float(s.coefficients[j]) for j in s.active} for s in found.solutions]


def sindy(t: Any, X: Any, least: float, smoothed: bool) -> Law:
    import pysindy

    way = pysindy.SmoothedFiniteDifference() if smoothed else pysindy.FiniteDifference()
    library = pysindy.PolynomialLibrary(degree=DEGREE)
    model = pysindy.SINDy(
        optimizer=pysindy.STLSQ(threshold=least / 2),
        differentiation_method=way,
        feature_library=library,
    )
    model.fit(X, t=t)
    return _named(model, X.shape[1])


def weak_sindy(t: Any, X: Any, least: float) -> Law:
    import pysindy

    library = pysindy.WeakPDELibrary(
        function_library=pysindy.PolynomialLibrary(degree=DEGREE, include_bias=False),
        spatiotemporal_grid=t,
        is_uniform=True,
        K=200,
    )
    model = pysindy.SINDy(optimizer=pysindy.STLSQ(threshold=least / 2), feature_library=library)
    model.fit(X, t=t)
    return _named(model, X.shape[1])


def _named(model: Any, dimension: int) -> Law:
    """Return the coefficients by exponents, read from PySINDy's names such as ``x0^2 x1``."""
    law: Law = []
    for row in np.asarray(model.coefficients()):
        terms = {}
        for name, value in zip(model.get_feature_names(), row.tolist(), strict=True):
            if value:
                terms[_exponents(name, dimension)] = value
        law.append(terms)
    return law


def _exponents(name: str, dimension: int) -> tuple[int, ...]:
    """Read ``x0^2 x1``, or ``x0x0x1``, which a weak library writes."""
    import re

    alpha = [0] * dimension
    for variable, power in re.findall(r"x(\d)(?:\^(\d))?", name):
        alpha[int(variable)] += int(power or 1)
    return tuple(alpha)


METHODS: dict[str, Callable[[Any, Any, float], Law]] = {
    "exactformer, weak form": lambda t, X, _: ours(t, X, "weak"),
    "exactformer, smoothing": lambda t, X, _: ours(t, X, "smoothing"),
    "PySINDy, finite differences": lambda t, X, least: sindy(t, X, least, False),
    "PySINDy, smoothed differences": lambda t, X, least: sindy(t, X, least, True),
    "PySINDy, weak form": weak_sindy,
}


def one(name: str, noise: float, method: str, seeds: int) -> dict[str, Any]:
    exact, errors, seconds = 0, [], []
    law = SYSTEMS[name][0]
    least = min(abs(c) for one in law for c in one.values())
    for seed in range(seeds):
        t, X = trajectory(name, noise, seed)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = METHODS[method](t, X, least)
        seconds.append(time.perf_counter() - began)
        exact += all(a.keys() == b.keys() for a, b in zip(found, law, strict=True))
        errors.append(
            max(
                abs(a.get(k, 0.0) / c - 1)
                for a, b in zip(found, law, strict=True)
                for k, c in b.items()
            )
        )
    return {
        "system": name,
        "noise": noise,
        "method": method,
        "seeds": seeds,
        "exact": exact,
        "error": float(np.median(errors)),
        "seconds": float(np.median(seconds)),
    }


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Run everything; print a table, and write Markdown and JSON unless it is quick."""
    rows = []
    for name in SYSTEMS:
        for noise in NOISE[:1] if quick else NOISE:
            for method in METHODS:
                rows.append(one(name, noise, method, 1 if quick else SEEDS))
                print(rows[-1], file=sys.stderr)
    header = ["system", "noise", "method", "exact support", "error", "seconds"]
    cells = [
        [
            row["system"],
            f"{row['noise']:.0%}",
            row["method"],
            f"{row['exact']} of {row['seeds']}",
            f"{row['error']:.2g}",
            f"{row['seconds']:.2f}",
        ]
        for row in rows
    ]
    show("Differential equations from noisy trajectories", header, cells)
    if not quick:
        assert __doc__ is not None
        note = " ".join(__doc__.split("\n\n")[2].split())
        run_of = provenance("dynamics", ("exactformer", "pysindy", "numpy"))
        parts = [note, "", *markdown(header, cells), "", origin(run_of)]
        contents = {"note": note, "provenance": run_of, "rows": rows}
        keep("dynamics", "Differential equations from noisy trajectories", parts, contents)
        print(HERE / "dynamics.md")
    return rows


if __name__ == "__main__":
    run("--quick" in sys.argv)
