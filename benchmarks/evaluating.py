"""Evaluate polynomials: ours beside what people use, ratios in one run.

    python -m benchmarks.evaluating [--quick] [--threads N]

Every way is called with points in an array and returns values in an array; ours with its check that
the points lie in the certified ball. All run in turn in one process on the same points, several
rounds, the best counts (:mod:`benchmarks.measuring`). What would take more than a few seconds is
measured on fewer points and marked. Errors are against exact rational arithmetic. Memory is what a
fresh process grows by at most during the call, the output not counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import timeit
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.measuring import interleaved, peak_memory
from benchmarks.peers import PEERS, Evaluate, UnavailableError, compiled
from benchmarks.tables import HERE, keep, markdown, origin, provenance, show

OURS, LITERAL = "exactformer", "literal module"
DTYPES = ("float64", "float32")
BATCHES = (1, 1000, 1_000_000)
ROUNDS = 5
THREADS = 2
EXACT_POINTS = 200
LARGE = Case("dense 10 5")
ONE_POINT = 30e-6
"""Seconds that a call with one point may take."""
PACKAGES = ("exactformer", "torch", "numpy", "numba", "scikit-learn", "sympy", "multivar-horner")

Row = dict[str, Any]


def build(case: Case, dtype: str) -> tuple[dict[str, Evaluate], dict[str, str]]:
    """Return the ways there are for a case, and why the others are missing."""
    ways, missing = {}, {}
    for name, peer in PEERS.items():
        try:
            ways[name] = peer(case, dtype)
        except UnavailableError as reason:
            missing[name] = str(reason)
    return ways, missing


def times(
    case: Case, dtype: str, ways: dict[str, Evaluate], batches: tuple[int, ...], rounds: int
) -> list[Row]:
    """Time all ways on every batch size."""
    rows = []
    for batch in batches:
        # What takes microseconds is disturbed more easily, and soon measured again.
        timings = interleaved(ways, case.points(batch, dtype), rounds * (5 if batch == 1 else 1))
        label = {"case": case.label, "dtype": dtype}
        rows += [{**label, "way": name, **asdict(t)} for name, t in timings.items()]
        print(f"{case.label} {dtype} {batch:,} points", file=sys.stderr, flush=True)
    return rows


def errors(case: Case, dtype: str, ways: dict[str, Evaluate]) -> list[Row]:
    """Compare all ways with exact arithmetic; relative to the largest |Q| met on the ball."""
    certificate = compiled(case, dtype).certificate
    points = case.points(EXACT_POINTS, dtype)
    exact = [case.target.at(point.tolist()) for point in points]
    rows = []
    for name, way in ways.items():
        few = 1 if name == LITERAL and certificate.tokens > 1000 else EXACT_POINTS
        computed = zip(way(points[:few]).tolist(), exact, strict=False)
        error = max(abs(type(q)(value) - q) for value, q in computed)
        row = {"case": case.label, "dtype": dtype, "way": name, "points": few}
        rows.append({**row, "error": float(error) / certificate.scale})
    bound = certificate.bound() / certificate.scale
    return [*rows, {"case": case.label, "dtype": dtype, "way": "certified bound", "error": bound}]


def memory(way: str, case: Case, dtype: str, batches: tuple[int, ...]) -> list[Row]:
    """Measure the extra memory of one way, in this process."""
    evaluate = PEERS[way](case, dtype)
    evaluate(case.points(1000, dtype))
    rows = []
    for batch in batches:
        points = case.points(batch, dtype)
        values, grown = peak_memory(partial(evaluate, points))
        row = {"case": case.label, "dtype": dtype, "way": way, "points": batch}
        rows.append({**row, "extra bytes": max(0, grown - values.nbytes)})
    return rows


def parts(case: Case, dtype: str) -> list[Row]:
    """Time the parts of a call of ours with one point, each by itself."""
    import torch

    from exactformer.polynomials.run import closed_form_module, compiled_run

    evaluate, array = PEERS[OURS](case, dtype), case.points(1, dtype)
    model, points = compiled(case).to(getattr(torch, dtype)), torch.from_numpy(array)
    module, nothing = model.transformer, torch.nn.Identity()
    if compiled_run.kernels() is None or module._expanded is None:
        return []
    weights = tuple(module._parameters[name] for name in module._proven)

    def seconds(action: Callable[[], Any]) -> float:
        return min(timeit.repeat(action, number=100, repeat=200)) / 100

    found = {
        "array to tensor and back": seconds(lambda: torch.from_numpy(array).numpy()),
        "torch's Module.__call__": seconds(lambda: nothing(points)),
        "is anything but values wanted": seconds(lambda: closed_form_module.is_plain(points)),
        "are the weights the proven ones": seconds(
            lambda: compiled_run.same(weights, module._proven)
        ),
        "kernel: points, their test, terms, values": seconds(
            lambda: module._expanded(points, points.dtype, model._edge)
        ),
    }
    whole = seconds(lambda: evaluate(array))
    found["types, shapes, format, hooks and what is left"] = whole - sum(found.values())
    found["the whole call"] = whole
    label = {"case": case.label, "dtype": dtype}
    return [{**label, "part": part, "seconds": spent} for part, spent in found.items()]


def memory_apart(way: str, case: Case, dtype: str, batches: tuple[int, ...]) -> list[Row]:
    """Measure the extra memory of one way, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.evaluating", "--memory", way, dtype, case.name]
    command += map(str, batches)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE.parent)
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def run(
    cases: tuple[Case, ...] = CASES,
    batches: tuple[int, ...] = BATCHES,
    rounds: int = ROUNDS,
    biggest: Case = LARGE,
    threads: int = THREADS,
    lean: tuple[str, ...] = tuple(w for w in PEERS if w not in (LITERAL, "multivar_horner")),
) -> dict[str, Any]:
    """Measure everything."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        contents = _measured(cases, batches, rounds)
    small, large = batches[-1] // 10, batches[-1]
    contents["memory"] = [
        r for w in lean for r in memory_apart(w, biggest, "float64", (small, large))
    ]
    contents["parts"] = [row for case in cases for row in parts(case, "float64")]
    contents["tokens"] = {case.label: compiled(case).certificate.tokens for case in cases}
    contents["threads"] = threads
    contents["provenance"] = provenance(f"evaluating --threads {threads}", PACKAGES)
    return contents


def _measured(cases: tuple[Case, ...], batches: tuple[int, ...], rounds: int) -> dict[str, Any]:
    contents: dict[str, Any] = {"times": [], "errors": [], "missing": []}
    for case in cases:
        for dtype in DTYPES:
            ways, missing = build(case, dtype)
            contents["times"] += times(case, dtype, ways, batches, rounds)
            contents["errors"] += errors(case, dtype, ways)
            contents["missing"] += [
                {"case": case.label, "dtype": dtype, "way": way, "why": why}
                for way, why in missing.items()
            ]
    return contents


def _find(rows: list[Row], **wanted: Any) -> Row | None:
    return next((r for r in rows if all(r[k] == v for k, v in wanted.items())), None)


def _groups(rows: list[Row], *keys: str) -> list[dict[str, Any]]:
    found = dict.fromkeys(tuple(row[k] for k in keys) for row in rows)
    return [dict(zip(keys, values, strict=True)) for values in found]


def time_table(contents: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the one table: our time, and how many times longer the others take."""
    peers = [name for name in PEERS if name != OURS]
    lines = []
    for group in _groups(contents["times"], "case", "dtype", "points"):
        ours = _find(contents["times"], way=OURS, **group)
        assert ours is not None
        line = [group["case"], group["dtype"], f"{group['points']:,}", _duration(ours["seconds"])]
        for name in peers:
            row = _find(contents["times"], way=name, **group)
            line.append("–" if row is None else _ratio(row, ours["seconds"]))
        lines.append(line)
    return ["case", "format", "points", "exactformer", *(f"{name}, ×" for name in peers)], lines


def error_table(contents: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return largest errors and our bound, relative to the largest |Q|."""
    names = ["certified bound", *PEERS]
    lines = []
    for group in _groups(contents["errors"], "case", "dtype"):
        rows = [_find(contents["errors"], way=name, **group) for name in names]
        cells = ["–" if row is None else f"{row['error']:.1e}" for row in rows]
        lines.append([group["case"], group["dtype"], *cells])
    return ["case", "format", *names], lines


def parts_table(contents: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the parts of a call with one point, case by case."""
    rows = contents["parts"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    lines = []
    for part in dict.fromkeys(row["part"] for row in rows):
        found = [_find(rows, case=case, part=part) for case in cases]
        lines.append([part, *(_duration(row["seconds"]) for row in found if row)])
    return ["part", *cases], lines


def memory_table(contents: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the extra memory of each way, by number of points."""
    rows = contents["memory"]
    sizes = sorted({row["points"] for row in rows})
    lines = []
    for way in dict.fromkeys(row["way"] for row in rows):
        found = [_find(rows, way=way, points=size) for size in sizes]
        lines.append([way, *(f"{row['extra bytes'] / 2**20:.1f}" for row in found if row)])
    return ["way", *(f"MiB at {size:,} points" for size in sizes)], lines


def targets(contents: dict[str, Any]) -> list[list[str]]:
    """Return what was asked for, what was measured, and whether that is met."""

    def ratio(way: str, **group: Any) -> float:
        row, ours = (_find(contents["times"], way=w, **group) for w in (way, OURS))
        return row["seconds"] / ours["seconds"] if row and ours else float("nan")

    most = BATCHES[-1]
    asked = []
    for way in ("scikit-learn", "scikit-learn, order F"):
        for dtype, least in (("float64", 5), ("float32", 8)):
            value = ratio(way, case=LARGE.label, dtype=dtype, points=most)
            asked.append(
                (f"≥ {least}× {way}, {LARGE.label}, {dtype}, {most:,} points", value, least)
            )
    for points in BATCHES[1:]:
        others = {
            (w, group["case"], group["dtype"]): ratio(w, **group)
            for group in _groups(contents["times"], "case", "dtype", "points")
            if group["points"] == points
            for w in PEERS
            if w not in (OURS, LITERAL)
        }
        closest = min((k for k in others if others[k] == others[k]), key=others.__getitem__)
        what = f"≥ 1× every peer in every case, {points:,} points (closest: {', '.join(closest)})"
        asked.append((what, others[closest], 1))
    for dtype in DTYPES:
        value = ratio(LITERAL, case=LARGE.label, dtype=dtype, points=most)
        tokens = contents["tokens"][LARGE.label]
        asked.append((f"≥ 1000× the literal module at n = {tokens}, {dtype}", value, 1000))
    lines = [[what, _times(v), "met" if v >= least else "**not met**"] for what, v, least in asked]
    single = max(r["seconds"] for r in contents["times"] if (r["way"], r["points"]) == (OURS, 1))
    what = f"one point in less than {_duration(ONE_POINT)}, the slowest case"
    lines.append([what, _duration(single), "met" if single < ONE_POINT else "**not met**"])
    small, large = (r["extra bytes"] / 2**20 for r in contents["memory"] if r["way"] == OURS)
    constant = large <= 1.5 * small + 8
    what = f"constant extra memory, {LARGE.label}: {most // 10:,} to {most:,} points"
    said = f"{small:.1f} to {large:.1f} MiB"
    return [*lines, [what, said, "met" if constant else "**not met**"]]


def winners(contents: dict[str, Any]) -> list[str]:
    """Say where another way is faster than ours."""
    groups = _groups(contents["times"], *_GROUP)
    ours = {tuple(g.values()): _find(contents["times"], way=OURS, **g) for g in groups}
    lines = []
    for name in PEERS:
        rows = [r for r in contents["times"] if r["way"] == name]
        ahead = [r for r in rows if r["seconds"] < ours[tuple(r[k] for k in _GROUP)]["seconds"]]
        if ahead:
            sizes = [r["points"] for r in ahead]
            by_size = (f"{sizes.count(n)} with {n:,} points" for n in dict.fromkeys(sorted(sizes)))
            lines.append(
                f"- {name} is faster in {len(ahead)} of {len(rows)}: {', '.join(by_size)}."
            )
    return lines or ["No other way is faster in any case."]


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    whys = dict.fromkeys((m["why"], m["dtype"]) for m in contents["missing"])
    return [
        f"Time of a call, and how many times longer the others take in the same run, "
        f"threads: {contents['threads']}. Bold: the other is faster. ~: measured on fewer points and "
        "scaled. f₂* on the ball of radius 4, dense polynomials (d, q) on the unit ball.",
        "",
        *markdown(*time_table(contents)),
        "",
        *(f"– {why}." for why, dtype in whys if dtype == "float64" or "float64 only" in why),
        "",
        *winners(contents),
        "",
        "What was asked for:",
        "",
        *markdown(["", "measured", ""], targets(contents)),
        "",
        f"Largest error at {EXACT_POINTS} points against exact arithmetic, relative to the largest "
        "|Q|, and the bound that our certificate guarantees on the whole ball:",
        "",
        *markdown(*error_table(contents)),
        "",
        *_parts_lines(contents),
        f"Largest growth of the process during a call, beside input and output, {LARGE.label} in "
        "float64 (peers are given their points in chunks; left alone, scikit-learn would need "
        "24 GB for a million points):",
        "",
        *markdown(*memory_table(contents)),
        "",
        origin(contents["provenance"]),
    ]


def _parts_lines(contents: dict[str, Any]) -> list[str]:
    if not contents.get("parts"):  # without numba there is nothing to take apart
        return []
    text = "Where a call of ours with one point spends its time, in float64:"
    return [text, "", *markdown(*parts_table(contents)), ""]


_GROUP = ("case", "dtype", "points")


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _ratio(row: Row, ours: float) -> str:
    mark = "~" if row["measured_on"] < row["points"] else ""
    text = mark + _times(row["seconds"] / ours)
    return text if row["seconds"] >= ours else f"**{text}**"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    parser.add_argument("--threads", type=int, default=THREADS, help="for torch and BLAS")
    parser.add_argument("--memory", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.memory:
        way, dtype, case, *batches = chosen.memory
        print(json.dumps(memory(way, Case(case), dtype, tuple(map(int, batches)))))
    else:
        evaluate(chosen.quick, chosen.threads)


def evaluate(quick: bool = False, threads: int = THREADS) -> None:
    """Run, print, and unless quick write the page."""
    if quick:
        small = Case("dense 2 4")
        contents = run((small, Case("dense 3 3")), (1, 100), 1, small, threads, (OURS,))
    else:
        contents = run(threads=threads)
        keep("evaluating", "Evaluate polynomials", page(contents), contents)
    show("Evaluate polynomials: our time, the others' relative to it", *time_table(contents))
    show("Largest error relative to max |Q|", *error_table(contents))
    if contents["parts"]:
        show("Parts of a call with one point", *parts_table(contents))
    show("Extra memory", *memory_table(contents))
    if not quick:
        show("What was asked for", ["", "measured", ""], targets(contents))


if __name__ == "__main__":
    main()
