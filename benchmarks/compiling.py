"""Compile and certify by size; evaluate f₂* beside what people use for polynomials.

    python -m benchmarks.compiling

Each compilation runs in a process of its own (time after imports, peak memory of the process).
Evaluations run one after the other in one process, best of three, in float64 on two threads.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tables import write

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"
VARIABLES = [f"x{i + 1}" for i in range(10)]
POINTS = 200_000
CASES = ["f2", "dense 2 20", "dense 4 8", "dense 10 3", "dense 10 5"]


def polynomial(case: str) -> Any:
    from exactformer.algebra import Polynomial
    from exactformer.algebra.ridge.lattice import lattice_points

    if case == "f2":
        return Polynomial.parse(F2, VARIABLES)
    d, q = (int(n) for n in case.split()[1:])
    rng = np.random.default_rng(0)
    terms = {a: int(rng.integers(1, 100)) for s in range(q + 1) for a in lattice_points(d, s)}
    return Polynomial.from_terms(terms, VARIABLES[:d])


def compile_one(case: str, construction: str) -> dict[str, Any]:
    from exactformer.certificates import certify_blueprint
    from exactformer.model.compiling import draw, exact_radius

    target = polynomial(case)
    start = time.perf_counter()
    blueprint = draw(target, exact_radius(2), construction)
    drawn = time.perf_counter()
    certificate = certify_blueprint(blueprint, target)
    done = time.perf_counter()
    assert certificate.zero_error
    return {
        "case": case,
        "construction": construction,
        "terms": len(target),
        "tokens": blueprint.tokens,
        "compile s": drawn - start,
        "certify s": done - drawn,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "float64 bound / max|Q|": certificate.bound("float64") / certificate.scale,
    }


def apart(case: str, construction: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.compiling", case, construction]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def evaluations() -> list[dict[str, Any]]:
    import sympy
    import torch
    from sklearn.preprocessing import PolynomialFeatures

    import exactformer as ef

    torch.set_num_threads(2)
    target = polynomial("f2")
    fused, literal = (ef.compile(target, radius=4, executor=e) for e in ("fused", "literal"))
    rng = np.random.default_rng(0)
    points = rng.normal(size=(POINTS, 10))
    points *= 4 * rng.uniform(size=(POINTS, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    tensor = torch.from_numpy(points)
    symbols = sympy.symbols(VARIABLES)
    lambdified = sympy.lambdify(symbols, target.to_sympy(), "numpy")
    features = PolynomialFeatures(5).fit(points[:1])
    weights = np.array([float(target.coefficient(tuple(p))) for p in features.powers_])
    ways: dict[str, Callable[[], Any]] = {
        "exactformer, fused": lambda: fused(tensor).numpy(),
        "exactformer, literal": lambda: literal(tensor).numpy(),
        "exactformer, Polynomial.evaluate": lambda: target.evaluate(points),
        "sympy.lambdify (NumPy)": lambda: lambdified(*points.T),
        "scikit-learn PolynomialFeatures": lambda: _blocked(features, weights, points),
    }
    reference = target.evaluate(points.astype(np.longdouble))
    rows = []
    for name, way in ways.items():
        seconds, values = min((_timed(way) for _ in range(3)), key=lambda pair: pair[0])
        error = float(np.abs(values - reference).max())
        rows.append({"way": name, "seconds": seconds, "largest error": error})
    for row in rows:
        row["× fused"] = row["seconds"] / rows[0]["seconds"]
    return rows


def _blocked(features: Any, weights: Any, points: Any) -> Any:
    # All 3003 features of 200,000 points at once would take 4.8 GB.
    blocks = np.array_split(points, 50)
    return np.concatenate([features.transform(block) @ weights for block in blocks])


def _timed(way: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    values = way()
    return time.perf_counter() - start, values


def run() -> None:
    rows = [apart(case, c) for case in CASES for c in ("scaled", "paper")]
    write(
        "compiling",
        "Compile and certify",
        "Radius 2. Time after imports, peak memory of the whole process.",
        rows,
    )
    write(
        "evaluating",
        "Evaluate f₂*",
        f"{POINTS:,} points of the ball of radius 4, float64, best of three.",
        evaluations(),
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(compile_one(*sys.argv[1:])))
    else:
        run()
