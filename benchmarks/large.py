"""Laws of data larger than memory: rows per second and memory, ours beside scikit-learn's streaming.

    python -m benchmarks.large [--rows N,N,…] [--quick]

Ten columns, noise of variance 1, all terms of degree 2, blocks of rows on disk, two cores, one process
for each fit; memory is the whole process at its peak. scikit-learn makes one pass with
PolynomialFeatures, StandardScaler and SGDRegressor (partial_fit, defaults), which gives coefficients of
all terms and no intervals; ours makes as many passes as its search takes. Test error is against the
noise-free law. Seconds are those of a busy machine; processor seconds are not, and include imports.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import HERE, keep, markdown, origin, provenance, show

COLUMNS, DEGREE = 10, 2
ROWS = (1_000_000, 10_000_000)
IN_MEMORY = 1_000_000
PIECE = 250_000


def law(X: Any) -> Any:
    return X[:, 0] ** 2 - 2 * X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 1


def pieces(rows: int) -> Any:
    """Yield the data, always the same."""
    for place, start in enumerate(range(0, rows, PIECE)):
        generator = np.random.default_rng(place)
        X = generator.normal(size=(min(PIECE, rows - start), COLUMNS))
        yield X, law(X) + generator.normal(size=len(X))


def write(folder: Path, rows: int) -> None:
    from exactformer.learning.laws.streamed.blocks import BlockWriter

    writer = BlockWriter(folder, COLUMNS, 1)
    for X, y in pieces(rows):
        writer.write(np.column_stack([X, y]))
    writer.finished(False)


def ours(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.learning.laws.streamed.blocks import StoredBlocks

    passes = 0

    class Counted(StoredBlocks):
        def map(self, what: str, function: Any, *arguments: Any) -> Any:
            nonlocal passes
            passes += 1
            return super().map(what, function, *arguments)

    blocks = Counted(folder, rows, COLUMNS, 1, False)
    fitted = PolynomialAttentionRegressor(DEGREE).fit_blocks(blocks, None, True)
    return fitted.predict, {"formula": fitted.formula_, "passes": passes}


def in_memory(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

    files = sorted(folder.glob("*.npy"), key=lambda path: int(path.stem))
    numbers = np.concatenate([np.load(path) for path in files])
    fitted = PolynomialAttentionRegressor(DEGREE).fit(numbers[:, :-1], numbers[:, -1])
    return fitted.predict, {"formula": fitted.formula_, "passes": None}


def scikit_learn(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    from sklearn.linear_model import SGDRegressor
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    features, scaler = PolynomialFeatures(DEGREE, include_bias=False), StandardScaler()
    model = SGDRegressor(random_state=0)
    for path in sorted(folder.glob("*.npy"), key=lambda path: int(path.stem)):
        numbers = np.load(path)
        table = features.fit_transform(numbers[:, :-1])
        model.partial_fit(scaler.partial_fit(table).transform(table), numbers[:, -1])
    predict = lambda X: model.predict(scaler.transform(features.transform(X)))  # noqa: E731
    return predict, {"formula": "", "passes": 1}


METHODS = {
    "blocks": ("exactformer, passes over blocks", ours),
    "memory": ("exactformer, in memory", in_memory),
    "sklearn": ("scikit-learn, SGDRegressor by partial_fit", scikit_learn),
}


def one(method: str, folder: Path, rows: int) -> dict[str, Any]:
    began, cpu = time.perf_counter(), time.process_time()
    predict, facts = METHODS[method][1](folder, rows)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    X = np.random.default_rng(10**6).normal(size=(5000, COLUMNS))
    error = float(np.mean((predict(X) - law(X)) ** 2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**facts, "seconds": seconds, "cpu": cpu, "test_mse": error, "peak_mib": peak}


def apart(method: str, folder: Path, rows: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.large", "--one", method]
    command += ["--folder", str(folder), "--rows", str(rows)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=HERE.parent, env=dict(os.environ)
    )
    return {"method": method, "rows": rows, **json.loads(done.stdout.splitlines()[-1])}


def run(quick: bool = False, sizes: tuple[int, ...] = ROWS) -> list[dict[str, Any]]:
    """Run everything; print a table, and write Markdown and JSON unless it is quick."""
    found = []
    for rows in (100_000,) if quick else sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), rows)
            for method in METHODS:
                if method != "memory" or rows <= IN_MEMORY:
                    found.append(apart(method, Path(name), rows))
                    print(found[-1], file=sys.stderr)
    header = [
        "rows",
        "method",
        "passes",
        "seconds",
        "CPU s",
        "rows per CPU s",
        "peak MiB",
        "test MSE",
    ]
    cells = [
        [
            f"{row['rows']:,}",
            METHODS[row["method"]][0],
            str(row["passes"] or "–"),
            f"{row['seconds']:.1f}",
            f"{row['cpu']:.1f}",
            f"{row['rows'] / row['cpu']:,.0f}",
            f"{row['peak_mib']:.0f}",
            f"{row['test_mse']:.1e}",
        ]
        for row in found
    ]
    title = "Laws of data larger than memory"
    show(title, header, cells)
    if not quick:
        assert __doc__ is not None
        note = " ".join(__doc__.split("\n\n")[2].split())
        same = {row["formula"] for row in found if row["rows"] == IN_MEMORY and row["formula"]}
        said = (
            f"At {IN_MEMORY:,} rows the law in memory and the law from blocks are "
            + ("the same" if len(same) == 1 else "**different**")
            + f": {'; '.join(f'`{text}`' for text in sorted(same))}."
        )
        run_of = provenance("large", ("exactformer", "scikit-learn", "numpy"))
        parts = [note, "", *markdown(header, cells), "", said, "", origin(run_of)]
        keep("large", title, parts, {"note": note, "provenance": run_of, "rows": found})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", help="sizes, with commas")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sizes = ROWS if chosen.rows is None else tuple(int(n) for n in chosen.rows.split(","))
    if chosen.one:
        print(json.dumps(one(chosen.one, chosen.folder, sizes[0])))
    else:
        run(chosen.quick, sizes)


if __name__ == "__main__":
    main()
