"""Evaluate polynomials: both executors, with their bounds, next to what people use.

    python -m benchmarks.evaluating [--quick] [--threads N]

Every way is called with points in an array and returns values in an array; ours with its check that
the points lie in the certified ball. All run in turn in one process on the same points, several
rounds, the best counts (:mod:`benchmarks.measuring`). What would take more than a few seconds is
measured on fewer points and marked. Errors are against exact rational arithmetic.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.measuring import interleaved
from benchmarks.peers import PEERS, Evaluate, compiled
from benchmarks.tables import keep, markdown, origin, provenance, show
from exactformer.polynomials.sizes import multiply_adds

EXECUTORS = ("literal", "fused")
LITERAL = 10**9
"""Multiply-adds per point beyond which the literal executor is not measured."""
DTYPES = ("float64", "float32")
BATCHES = (1, 1000, 100_000)
ROUNDS, EXACT_POINTS = 3, 100
PACKAGES = ("exactformer", "torch", "numpy", "scikit-learn")

Row = dict[str, Any]


def measured(case: Case, dtype: str, batches: tuple[int, ...], rounds: int) -> list[Row]:
    """Return bound, error and times of every way there is for a case."""
    model = compiled(case)
    certificate, dear = model.certificate, multiply_adds(model.blueprint) > LITERAL
    ways: dict[str, Evaluate] = {
        name: peer(case, dtype) for name, peer in PEERS.items() if name != "literal" or not dear
    }
    points = case.points(EXACT_POINTS, dtype)
    exact = [case.target.at(point.tolist()) for point in points]
    rows = {}
    for name, way in ways.items():
        computed = zip(way(points).tolist(), exact, strict=True)
        error = max(abs(type(q)(value) - q) for value, q in computed)
        rows[name] = {"case": case.label, "dtype": dtype, "way": name, "tokens": certificate.tokens}
        rows[name]["error"] = float(error) / certificate.scale
        if name in EXECUTORS:
            rows[name]["bound"] = certificate.bound(dtype, name) / certificate.scale
    for batch in batches:
        for name, timing in interleaved(ways, case.points(batch, dtype), rounds).items():
            rows[name][str(batch)] = asdict(timing)
    print(f"{case.label} {dtype}", file=sys.stderr, flush=True)
    return list(rows.values())


def table(contents: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return bounds, errors and points per second."""
    batches = contents["batches"]
    head = ["case", "tokens", "format", "way", "bound", "error"]
    lines = []
    for row in contents["rows"]:
        bound = f"{row['bound']:.1e}" if "bound" in row else "–"
        speeds = [_speed(row[str(batch)]) for batch in batches]
        name = [row["case"], str(row["tokens"]), row["dtype"], row["way"]]
        lines.append([*name, bound, f"{row['error']:.1e}", *speeds])
    return [*head, *(f"points/s at {batch:,}" for batch in batches)], lines


def _speed(timing: Row) -> str:
    mark = "~" if timing["measured_on"] < timing["points"] else ""
    return f"{mark}{timing['points'] / timing['seconds']:.1e}"


def evaluate(quick: bool = False, threads: int = 1) -> None:
    """Run, print, and unless quick write the page."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    cases = (Case("dense 2 4"), Case("dense 3 3")) if quick else CASES
    batches, rounds = ((1, 100), 1) if quick else (BATCHES, ROUNDS)
    with threadpool_limits(threads):
        rows = [row for c in cases for d in DTYPES for row in measured(c, d, batches, rounds)]
    contents = {"rows": rows, "batches": batches, "threads": threads}
    contents["tokens"] = {row["case"]: row["tokens"] for row in rows}
    if not quick:
        contents["provenance"] = provenance(f"evaluating --threads {threads}", PACKAGES)
        lines = [
            f"Certified bound and largest error at {EXACT_POINTS} points, both relative to the largest "
            f"|Q|, and points per second, threads: {threads}. ~: measured on fewer points and scaled. "
            "f₂* on the ball of radius 4, dense polynomials (d, q) on the unit ball.",
            "",
            *markdown(*table(contents)),
            "",
            origin(contents["provenance"]),
        ]
        keep("evaluating", "Evaluate polynomials", lines, contents)
    show("Bounds, errors and points per second", *table(contents))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    parser.add_argument("--threads", type=int, default=1, help="for torch and BLAS")
    chosen = parser.parse_args()
    evaluate(chosen.quick, chosen.threads)
