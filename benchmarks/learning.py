"""Learning a polynomial law: ours beside scikit-learn and PySINDy, one process for each fit.

    python -m benchmarks.learning [--limit SECONDS] [--only D,Q,N]

Every method gets the same noisy sample and two cores. Test error is against the noise-free law, a
support is recovered if exactly the law's terms have non-zero coefficients, and memory is the peak of
the process (``ru_maxrss``), the data and the libraries included. What does not end within the limit
is stopped and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tables import HERE, keep, markdown, origin, provenance

LIMIT = 300
OURS = ("sparse", "least-squares")
CORES = 2

LAWS: dict[tuple[int, int, int], tuple[float, dict[str, int]]] = {
    (2, 2, 10_000): (10.0, {"x1^2": 1, "x2^2": 1}),
    (5, 3, 20_000): (1.0, {"x1^3": 1, "x2 x3": 2, "x4^2": -3, "x5": 1}),
    (10, 3, 45_000): (1.0, {"x3^3": 2, "x6 x7 x8": 2, "x3 x4": 5, "x5^2": 3, "x9": 2}),
    (10, 5, 45_000): (
        1.0,
        {"x1^5": 1, "x2^4": 3, "x3^3": 2, "x3 x4": 5, "x5^2": 3, "x6 x7 x8": 2, "x9": 2},
    ),
}
"""(d, q, N): standard deviation of the columns, and the law. First and last are the paper's."""

Fitted = tuple[Callable[[Any], Any], set[str]]


def ours_sparse(X: Any, y: Any, degree: int) -> Fitted:
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

    fitted = PolynomialAttentionRegressor(degree).fit(X, y)
    return fitted.predict, set(fitted.coef_table_.term)


def ours_least_squares(X: Any, y: Any, degree: int) -> Fitted:
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

    fitted = PolynomialAttentionRegressor(degree, solver="least-squares").fit(X, y)
    return fitted.predict, set()


def linear_regression(X: Any, y: Any, degree: int) -> Fitted:
    from sklearn.linear_model import LinearRegression

    return _sklearn(X, y, degree, LinearRegression())


def lasso(X: Any, y: Any, degree: int) -> Fitted:
    from sklearn.linear_model import LassoCV

    return _sklearn(X, y, degree, LassoCV(n_jobs=CORES))


def _sklearn(X: Any, y: Any, degree: int, estimator: Any) -> Fitted:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    features = PolynomialFeatures(degree, include_bias=False)
    pipeline = make_pipeline(features, StandardScaler(), estimator).fit(X, y)
    names = features.get_feature_names_out([f"x{i + 1}" for i in range(X.shape[1])])
    return pipeline.predict, set(names[estimator.coef_ != 0])


def sindy(X: Any, y: Any, degree: int) -> Fitted:
    import pysindy

    model = pysindy.SINDy(
        optimizer=pysindy.STLSQ(threshold=0.1),
        feature_library=pysindy.PolynomialLibrary(degree=degree),
    )
    names = [f"x{i + 1}" for i in range(X.shape[1])]
    model.fit(X, t=1.0, x_dot=y[:, None], feature_names=names)
    kept = model.coefficients()[0] != 0
    terms = {n for n, k in zip(model.get_feature_names(), kept, strict=True) if k}
    return lambda points: np.asarray(model.predict(points))[:, 0], terms


METHODS: dict[str, tuple[str, Callable[[Any, Any, int], Fitted]]] = {
    "sparse": ("exactformer, sparse", ours_sparse),
    "least-squares": ("exactformer, least squares", ours_least_squares),
    "linear": ("scikit-learn, LinearRegression", linear_regression),
    "lasso": ("scikit-learn, LassoCV", lasso),
    "sindy": ("PySINDy, STLSQ", sindy),
}


def sample(size: tuple[int, int, int], seed: int = 0) -> tuple[Any, Any, Any, Any]:
    d, _, rows = size
    spread, law = LAWS[size]
    generator = np.random.default_rng(seed)
    X = spread * generator.normal(size=(rows + 5000, d))
    clean = np.zeros(len(X))
    for term, coefficient in law.items():
        values = np.full(len(X), float(coefficient))
        for factor in term.split():
            name, _, power = factor.partition("^")
            values *= X[:, int(name[1:]) - 1] ** int(power or 1)
        clean += values
    noisy = clean[:rows] + generator.normal(size=rows)
    return X[:rows], noisy, X[rows:], clean[rows:]


def one(method: str, size: tuple[int, int, int]) -> dict[str, Any]:
    """Fit once, in this process."""
    X, y, X_test, y_test = sample(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        METHODS[method][1](X[:500], y[:500], 1)  # imports are not what is compared
        began = time.perf_counter()
        predict, terms = METHODS[method][1](X, y, size[1])
        seconds = time.perf_counter() - began
        error = float(np.mean((predict(X_test) - y_test) ** 2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    true = set(LAWS[size][1])
    return {
        "test_mse": error,
        "recovered": terms == true,
        "spurious": len(terms - true) if terms else None,
        "seconds": seconds,
        "peak_mib": peak,
    }


def apart(method: str, size: tuple[int, int, int], limit: float) -> dict[str, Any]:
    """Fit once, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.learning", "--one", method]
    command += ["--only", ",".join(map(str, size))]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(CORES))
    row: dict[str, Any] = {"d": size[0], "q": size[1], "rows": size[2], "method": method}
    row["load_before"] = round(os.getloadavg()[0], 2)  # others at work make every time longer
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            check=True,
            cwd=HERE.parent,
            env={**os.environ, **threads},
        )
    except subprocess.TimeoutExpired:
        return {**row, "stopped_after": limit}
    except subprocess.CalledProcessError as error:
        return {**row, "failed": error.stderr.strip().splitlines()[-1:] or [str(error)]}
    return {**row, **json.loads(done.stdout.splitlines()[-1])}


def run(
    limit: float = LIMIT, sizes: list[tuple[int, int, int]] | None = None
) -> list[dict[str, Any]]:
    """Run every method on every size; print a table, write Markdown and JSON."""
    from rich.console import Console
    from rich.table import Table

    rows = []
    for size in sizes or list(LAWS):
        for method in METHODS:
            rows.append(apart(method, size, limit))
            print(f"{size} {method}: {rows[-1].get('seconds', 'stopped')}", file=sys.stderr)
    header, lines = _lines(rows)
    table = Table(*header, title="Learning a law from noisy data")
    for line in lines:
        table.add_row(*line)
    Console(width=120).print(table)
    if sizes is None:
        _write(rows, limit)
    return rows


def _lines(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    header = [
        "(d, q, N)",
        "method",
        "test MSE",
        "support",
        "seconds",
        "× ours",
        "peak MiB",
        "× ours",
    ]
    ours = {(r["d"], r["q"], r["rows"]): r for r in rows if r["method"] == "sparse"}
    lines = []
    for row in rows:
        size = (row["d"], row["q"], row["rows"])
        label = [f"({size[0]}, {size[1]}, {size[2]:,})", METHODS[row["method"]][0]]
        if "seconds" not in row:
            why = (
                f"stopped after {row['stopped_after']:g} s" if "stopped_after" in row else "failed"
            )
            lines.append([*label, why, "", "", "", "", ""])
            continue
        extra = row["spurious"]
        support = (
            "exact" if row["recovered"] else "all terms" if extra is None else f"+{extra} wrong"
        )
        times, memory = (row[k] / ours[size][k] for k in ("seconds", "peak_mib"))
        lines.append(
            [
                *label,
                f"{row['test_mse']:.2g}",
                support,
                f"{row['seconds']:.2f}",
                f"{times:.1f}",
                f"{row['peak_mib']:.0f}",
                f"{memory:.1f}",
            ]
        )
    return header, lines


def _not_ahead(rows: list[dict[str, Any]]) -> list[str]:
    """Say where another method did at least as well as the sparse solver."""
    said = []
    names = {"test_mse": "error", "seconds": "time", "peak_mib": "memory"}
    for row in rows:
        here = [r for r in rows if all(r[k] == row[k] for k in ("d", "q", "rows"))]
        ours = next(r for r in here if r["method"] == "sparse")
        as_good = [w for k, w in names.items() if row.get(k, np.inf) <= 1.01 * ours[k]]
        if row["method"] not in OURS and as_good:
            size = f"({row['d']}, {row['q']}, {row['rows']:,})"
            said.append(f"- {size}: {METHODS[row['method']][0]} in {', '.join(as_good)}.")
    if not said:
        return ["No other method is as good as the sparse solver in error, time or memory."]
    return [
        "Where another method is as good as the sparse solver or better (PySINDy is given a "
        "threshold that separates the law's coefficients from the noise; with the same terms it has "
        "the same error):",
        "",
        *said,
    ]


def _write(rows: list[dict[str, Any]], limit: float) -> None:
    versions = ("exactformer", "scikit-learn", "pysindy", "numpy")
    made = provenance("learning", versions)
    contents = {"provenance": made, "limit_seconds": limit, "rows": rows}
    keep("learning", "Learning a law from noisy data", page(contents), contents)


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    rows = contents["rows"]
    loads = [row["load_before"] for row in rows]
    return [
        "Noise of variance 1, test error against the noise-free law, two cores, one process for "
        "each fit; memory is the whole process at its peak. "
        f"Limit {contents['limit_seconds']:g} s a fit. The load before a fit was {min(loads):g} to "
        f"{max(loads):g} (others were at work, if it is above 2).",
        "",
        *markdown(*_lines(rows)),
        "",
        *_not_ahead(rows),
        "",
        origin(contents["provenance"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each fit")
    parser.add_argument("--only", help="one size, as D,Q,N")
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    size = None if chosen.only is None else tuple(int(n) for n in chosen.only.split(","))
    if chosen.one:
        print(json.dumps(one(chosen.one, size)))  # type: ignore[arg-type]
    else:
        run(chosen.limit, None if size is None else [size])  # type: ignore[list-item]


if __name__ == "__main__":
    main()
