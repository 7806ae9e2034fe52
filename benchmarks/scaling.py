"""How cost grows: time and memory of compile, certify and evaluate against d and q.

    python -m benchmarks.scaling [--quick]

Dense polynomials on the unit ball, each in a process of its own; n = C(d−1+q, q) tokens, one
thread. Memory is what a stage makes the process grow by at most. Costs are fitted by

    log cost = a + b log n + c log q,

least squares over the sizes with 50 to 2500 tokens, and by log cost = a + b log d at a fixed degree
(log q in a fixed dimension), each exponent with its standard error. A stage stops being practical
where the fitted cost crosses a limit: extrapolated, not run. One larger size is run but not fitted,
and shows how far the extrapolation can be trusted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from math import comb, exp, log
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.measuring import peak_memory
from benchmarks.tables import HERE, keep, markdown, origin, provenance, show

DIMENSIONS = (2, 3, 4, 6, 8, 10, 12, 16)
DEGREES = (2, 3, 4, 5, 6, 8, 10, 12)
SMALLEST, LARGEST = 50, 2500
CHECKED = (10, 6)
"""Run, not fitted."""
POINTS = 10_000
ROUNDS = 5
STAGES = ("compile", "certify", "evaluate")
UNITS = ("s", "bytes")
LIMITS = {"s": 60.0, "bytes": 4 * 2**30}
MILLION = 1_000_000
"""The limit of evaluate is for so many points."""
FIXED_DEGREE, FIXED_DIMENSION = 3, 4
SHOWN_DIMENSIONS = (3, 5, 10)
FLAT = 0.3
"""Below this exponent nothing is extrapolated."""
QUICK = [(6, 3), (8, 3), (4, 5), (4, 6)]
FAR = 10_000
"""Degrees beyond this are not looked for."""

Row = dict[str, Any]


def tokens(d: int, q: int) -> int:
    """n of a dense polynomial."""
    return comb(d - 1 + q, q)


def grid(largest: int = LARGEST) -> list[tuple[int, int]]:
    """The (d, q) with at most so many tokens, smallest first."""
    cells = [(d, q) for d in DIMENSIONS for q in DEGREES if tokens(d, q) <= largest]
    return sorted(cells, key=lambda cell: tokens(*cell))


def one(d: int, q: int) -> Row:
    """Compile, certify and evaluate once, in this process, after a warm-up on a small case."""
    import torch

    torch.set_num_threads(1)
    costs(Case("dense 2 2"))
    return {"d": d, "q": q, "n": tokens(d, q)} | costs(Case(f"dense {d} {q}"))


def costs(case: Case) -> Row:
    """Return seconds and bytes of every stage."""
    import torch

    from exactformer.algebra import Target
    from exactformer.core.domain import Ball
    from exactformer.polynomials.compile import local_forms
    from exactformer.polynomials.constructions import construct
    from exactformer.polynomials.model import PolynomialModel
    from exactformer.polynomials.proof.certify import prove

    target, points = Target.coerce(case.target), torch.from_numpy(case.points(POINTS))
    ball = Ball(Fraction(case.radius))

    def build() -> Any:
        return construct("scaled", local_forms(target, ball), ball, target)

    blueprint, compiling = _stage("compile", build)
    proof, certifying = _stage("certify", lambda: prove(blueprint, target))
    model = PolynomialModel(blueprint, proof, executor="fused")
    _, evaluating = _stage("evaluate", lambda: model(points))
    again = [_stage("evaluate", lambda: model(points))[1]["evaluate s"] for _ in range(ROUNDS)]
    return compiling | certifying | evaluating | {"evaluate s": min(again)}


def _stage(name: str, action: Callable[[], Any]) -> tuple[Any, Row]:
    def timed() -> tuple[Any, float]:
        start = time.perf_counter()
        result = action()
        return result, time.perf_counter() - start

    (result, seconds), grown = peak_memory(timed)
    return result, {f"{name} s": seconds, f"{name} bytes": grown}


def apart(d: int, q: int) -> Row:
    """Do :func:`one` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--one", str(d), str(q)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    print(f"d = {d}, q = {q}, n = {row['n']}", file=sys.stderr, flush=True)
    return row


def fit(rows: list[Row], column: str, variables: str) -> Row:
    """Fit log cost = a + Σ b_v log v; return a, and every b_v with its standard error."""
    X = np.array([[1.0, *(log(row[v]) for v in variables)] for row in rows])
    y = np.log([max(row[column], 1e-9) for row in rows])
    solution = np.linalg.lstsq(X, y, rcond=None)[0]
    residual = y - X @ solution
    freedom = len(rows) - X.shape[1]
    variance = residual @ residual / freedom if freedom > 0 else np.nan
    errors = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
    exponents = zip(variables, solution[1:].tolist(), errors[1:].tolist(), strict=True)
    return {"a": float(solution[0]), **{v: {"exponent": b, "error": e} for v, b, e in exponents}}


def fits(rows: list[Row]) -> list[Row]:
    """Fit every stage's time and memory: in n and q, in d at one degree, in q in one dimension."""
    large = [row for row in rows if SMALLEST <= row["n"] <= LARGEST]
    return [
        {
            "stage": stage,
            "unit": unit,
            "both": fit(large, f"{stage} {unit}", "nq"),
            "d": fit([r for r in large if r["q"] == FIXED_DEGREE], f"{stage} {unit}", "d"),
            "q": fit([r for r in large if r["d"] == FIXED_DIMENSION], f"{stage} {unit}", "q"),
        }
        for unit in UNITS
        for stage in STAGES
    ]


def cost(found: Row, d: int, q: int) -> float:
    """Return what the fit says of a size."""
    line = found["both"]
    power = line["n"]["exponent"] * log(tokens(d, q)) + line["q"]["exponent"] * log(q)
    return exp(line["a"] + power)


def limit(found: Row) -> float:
    """Return what a stage may cost; for evaluate the time of a million points counts."""
    is_evaluation = (found["stage"], found["unit"]) == ("evaluate", "s")
    return LIMITS[found["unit"]] * (POINTS / MILLION if is_evaluation else 1)


def largest_degree(found: Row, d: int) -> int:
    """Return the largest degree in d variables whose fitted cost is within the limit."""
    most = limit(found)
    return next((q for q in range(1, FAR) if cost(found, d, q + 1) > most), FAR)


def fit_table(found: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return exponents and limits."""
    lines = []
    for stage in found:
        parts = [stage["both"]["n"], stage["both"]["q"], stage["d"]["d"], stage["q"]["q"]]
        exponents = [f"{part['exponent']:.2f} ± {part['error']:.2f}" for part in parts]
        what = "time" if stage["unit"] == "s" else "memory"
        lines.append([f"{stage['stage']}, {what}", *exponents, *_reaches(stage)])
    exponents = ["n^", "× q^", f"d^ (q = {FIXED_DEGREE})", f"q^ (d = {FIXED_DIMENSION})"]
    return ["", *exponents, *(f"largest q, d = {d}" for d in SHOWN_DIMENSIONS)], lines


def _reaches(stage: Row) -> list[str]:
    if stage["both"]["n"]["exponent"] < FLAT:
        return ["hardly grows"] * len(SHOWN_DIMENSIONS)
    degrees = [(d, largest_degree(stage, d)) for d in SHOWN_DIMENSIONS]
    return [f"{q} (n = {_rounded(tokens(d, q))})" for d, q in degrees]


def check_table(contents: Row) -> tuple[list[str], list[list[str]]]:
    """Return what the fits say of the size that was run but not fitted, and what it took."""
    row = contents["check"]
    lines = []
    for stage in contents["fits"]:
        measured = row[f"{stage['stage']} {stage['unit']}"]
        told = cost(stage, row["d"], row["q"])
        size, unit = (1, "s") if stage["unit"] == "s" else (2**20, "MiB")
        name = f"{stage['stage']}, {unit}"
        lines.append(
            [name, *(f"{x / size:.3g}" for x in (told, measured)), f"{measured / told:.2f}"]
        )
    return [f"(d, q) = ({row['d']}, {row['q']})", "extrapolated", "measured", "ratio"], lines


def cost_table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return what was measured."""
    header = ["d", "q", "n", *(f"{s}, s" for s in STAGES), *(f"{s}, MiB" for s in STAGES)]
    lines = [
        [
            *(str(row[k]) for k in ("d", "q", "n")),
            *(f"{row[f'{s} s']:.3g}" for s in STAGES),
            *(f"{row[f'{s} bytes'] / 2**20:.1f}" for s in STAGES),
        ]
        for row in rows
    ]
    return header, lines


def page(contents: Row) -> list[str]:
    """Return the stored run as Markdown."""
    return [
        f"Dense polynomials on the unit ball, n = C(d−1+q, q) tokens, one thread; evaluate is "
        f"{POINTS:,} points in float64. Fitted: cost ∝ n^b q^c over all sizes with n ≥ {SMALLEST}, "
        "cost ∝ d^b at one degree, cost ∝ q^b in one dimension, each exponent ± its standard error. "
        "Largest q: where the fitted cost crosses 60 s (evaluate: for a million points) or 4 GiB. "
        "These sizes are **extrapolated**, from sizes up to "
        f"n = {max(r['n'] for r in contents['rows']):,}; the second table shows one such "
        "extrapolation beside a measurement.",
        "",
        *markdown(*fit_table(contents["fits"])),
        "",
        *markdown(*check_table(contents)),
        "",
        '??? note "What was measured"',
        "",
        *("    " + line for line in markdown(*cost_table(contents["rows"]))),
        "",
        origin(contents["provenance"]),
    ]


def draw_figure(rows: list[Row], found: list[Row]) -> Any:
    """Draw time and memory against n, the fitted lines at one degree, and the limits."""
    from matplotlib.figure import Figure

    from exactformer.figures.style import BLUE, GREEN, GREY, ORANGE, exactformer_style

    colours = dict(zip(STAGES, (BLUE, ORANGE, GREEN), strict=True))
    with exactformer_style():
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        for axes, unit in zip(figure.subplots(1, 2), UNITS, strict=True):
            size = 1 if unit == "s" else 2**20
            for stage, colour in colours.items():
                costs = [row[f"{stage} {unit}"] / size for row in rows]
                axes.plot([row["n"] for row in rows], costs, "o", markersize=3.5, color=colour)
                line = next(f for f in found if (f["stage"], f["unit"]) == (stage, unit))["both"]
                n = np.array([SMALLEST, 10_000])
                level = exp(line["a"]) * FIXED_DEGREE ** line["q"]["exponent"] / size
                label = f"{stage}, n^{line['n']['exponent']:.2f} at q = {FIXED_DEGREE}"
                axes.plot(n, level * n ** line["n"]["exponent"], color=colour, label=label)
            axes.axhline(LIMITS[unit] / size, color=GREY, linestyle="--", linewidth=1)
            axes.set(xscale="log", yscale="log", xlabel="tokens n")
            axes.set_ylabel("time (s)" if unit == "s" else "memory (MiB)")
            axes.legend(fontsize="small")
    return figure


def run(cells: list[tuple[int, int]], check: tuple[int, int] = CHECKED) -> Row:
    """Measure every cell, fit, and measure one more."""
    rows = [apart(d, q) for d, q in cells]
    contents = {"rows": rows, "fits": fits(rows), "check": apart(*check)}
    packages = ("exactformer", "torch", "numpy", "python-flint")
    return contents | {"provenance": provenance("scaling", packages)}


def scale(quick: bool = False) -> None:
    """Run, print, and unless quick write page and figure."""
    contents = run(QUICK, QUICK[0]) if quick else run(grid())
    show("How cost grows", *fit_table(contents["fits"]))
    show("How far to trust it", *check_table(contents))
    show("What was measured", *cost_table(contents["rows"]))
    if not quick:
        from exactformer.figures import save_figure

        keep("scaling", "How cost grows", page(contents), contents)
        figure = draw_figure(contents["rows"], contents["fits"])
        for kind in ("png", "svg"):
            save_figure(figure, HERE / f"scaling.{kind}")


def _rounded(n: int) -> str:
    """Return two digits of a whole number; more would promise too much."""
    return f"{int(float(f'{n:.2g}')):,}" if n < 1e9 else f"{n:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(one(*chosen.one)))
    else:
        scale(chosen.quick)


if __name__ == "__main__":
    main()
