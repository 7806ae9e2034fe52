"""Laws of data larger than memory: rows per second and memory, ours beside scikit-learn's streaming.

    python -m benchmarks.large [--rows N,N,…] [--quick]

Ten columns, noise of variance 1, all terms of degree 2, blocks of rows on disk (88 bytes per row), one
fit after another, each in a process of its own. Ours makes as many passes as its search takes, on two
threads or on two worker processes of a Dask cluster. scikit-learn makes one pass on one core, with
PolynomialFeatures, StandardScaler and SGDRegressor (partial_fit, defaults), or with PolynomialFeatures
and sums for the normal equations: coefficients of all terms, no selection, no intervals. Test error is
against the noise-free law. Memory is the peak of the process, for Dask that of the larger worker.
Processor seconds are those of all processes of a fit, and include imports; seconds depend on what else
the machine does.
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
ROWS = (1_000_000, 10_000_000, 100_000_000)
WORKERS = 2
TOLD = ("coefficient", "standard_error")
IN_MEMORY = 1_000_000
# The largest number of rows that a method is measured at; all but one have no need to hold them.
MOST = {"memory": IN_MEMORY}
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


def files(folder: Path) -> list[Path]:
    """Return the stored blocks in order."""
    return sorted(folder.glob("*.npy"), key=lambda path: int(path.stem))


def stored(path: Path) -> tuple[Any, Any]:
    """Return the rows of a block, X and y."""
    numbers = np.load(path)
    end = len(numbers) // (COLUMNS + 1) * COLUMNS
    return numbers[:end].reshape(-1, COLUMNS), numbers[end:]


def facts(fitted: Any, passes: int | None) -> dict[str, Any]:
    """Return what is written down of one of our laws."""
    table = fitted.coef_table_[["term", *TOLD]]
    return {"formula": fitted.formula_, "table": table.to_dict("records"), "passes": passes}


def counted(kind: Any) -> Any:
    """Return a class of blocks that counts its passes."""

    class Counted(kind):  # type: ignore[misc]
        passes = 0

        def map(self, what: str, function: Any, *arguments: Any) -> Any:
            self.passes += 1
            return super().map(what, function, *arguments)

    return Counted


def ours(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.learning.laws.streamed.blocks import StoredBlocks

    blocks = counted(StoredBlocks)(folder, rows, COLUMNS, 1, False)
    fitted = PolynomialAttentionRegressor(DEGREE).fit_blocks(blocks, None, True)
    return fitted.predict, facts(fitted, blocks.passes)


def on_a_cluster(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    import dask.array as da
    from dask.delayed import delayed
    from distributed import Client, LocalCluster

    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
    from exactformer.learning.laws.streamed.blocks import ROWS as BLOCK
    from exactformer.learning.laws.streamed.blocks import DaskBlocks

    read = delayed(stored, nout=2)
    pairs = [
        (da.from_delayed(X, (length, COLUMNS), float), da.from_delayed(y, (length,), float))
        for place, (X, y) in enumerate(map(read, files(folder)))
        for length in [min(BLOCK, rows - place * BLOCK)]
    ]
    X, y = map(da.concatenate, zip(*pairs, strict=True))
    with (
        LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        blocks = counted(DaskBlocks)(X, y)
        fitted = PolynomialAttentionRegressor(DEGREE).fit_blocks(blocks, None, True)
        used = client.run(spent).values()
    cpu, peaks = zip(*used, strict=True)
    return fitted.predict, {
        **facts(fitted, blocks.passes),
        "workers_cpu": sum(cpu),
        "workers_mib": max(peaks),
    }


def spent() -> tuple[float, float]:
    """Return the processor seconds of this process and its peak memory in MiB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def in_memory(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    from exactformer.learning.laws.regressor import PolynomialAttentionRegressor

    X, y = map(np.concatenate, zip(*map(stored, files(folder)), strict=True))
    fitted = PolynomialAttentionRegressor(DEGREE).fit(X, y)
    return fitted.predict, facts(fitted, None)


def descent(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    from sklearn.linear_model import SGDRegressor
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    features, scaler = PolynomialFeatures(DEGREE, include_bias=False), StandardScaler()
    model = SGDRegressor(random_state=0)
    for path in files(folder):
        X, y = stored(path)
        table = features.fit_transform(X)
        model.partial_fit(scaler.partial_fit(table).transform(table), y)
    predict = lambda X: model.predict(scaler.transform(features.transform(X)))  # noqa: E731
    return predict, {"passes": 1}


def normal_equations(folder: Path, rows: int) -> tuple[Any, dict[str, Any]]:
    from sklearn.preprocessing import PolynomialFeatures

    features = PolynomialFeatures(DEGREE)
    gram, right = 0.0, 0.0
    for path in files(folder):
        X, y = stored(path)
        table = features.fit_transform(X)
        gram, right = gram + table.T @ table, right + table.T @ y
    coefficients = np.linalg.solve(gram, right)
    return lambda X: features.transform(X) @ coefficients, {"passes": 1}


METHODS = {
    "blocks": ("exactformer, two threads", ours),
    "dask": ("exactformer, two Dask workers", on_a_cluster),
    "memory": ("exactformer, in memory", in_memory),
    "sklearn": ("scikit-learn, SGDRegressor by partial_fit", descent),
    "normal": ("scikit-learn's features, normal equations", normal_equations),
}


def one(method: str, folder: Path, rows: int) -> dict[str, Any]:
    began = time.perf_counter()
    predict, found = METHODS[method][1](folder, rows)
    seconds, (cpu, peak) = time.perf_counter() - began, spent()
    X = np.random.default_rng(10**6).normal(size=(5000, COLUMNS))
    error = float(np.mean((predict(X) - law(X)) ** 2))
    cpu, peak = cpu + found.pop("workers_cpu", 0.0), found.pop("workers_mib", peak)
    return {**found, "seconds": seconds, "cpu": cpu, "test_mse": error, "peak_mib": peak}


def apart(method: str, folder: Path, rows: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.large", "--one", method]
    command += ["--folder", str(folder), "--rows", str(rows)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=HERE.parent, env=dict(os.environ)
    )
    return {"method": method, "rows": rows, **json.loads(done.stdout.splitlines()[-1])}


def agreement(laws: list[dict[str, Any]]) -> str:
    """Return in words whether laws of the same rows are the same, and how far they are apart."""
    formulas = sorted({row["formula"] for row in laws})
    text = f"At {IN_MEMORY:,} rows the laws in memory, by threads and by Dask are "
    if len(formulas) > 1:
        return text + f"**different**: {'; '.join(f'`{formula}`' for formula in formulas)}."
    tables = [[term[k] for term in row["table"] for k in TOLD] for row in laws]
    away = max(abs(a / b - 1) for one in tables for a, b in zip(one, tables[0], strict=True))
    text += (
        f"the same to the last printed digit, `{formulas[0]}`; coefficients and standard errors "
    )
    return text + f"differ by at most {away:.1e} of themselves."


def run(quick: bool = False, sizes: tuple[int, ...] = ROWS) -> list[dict[str, Any]]:
    """Run everything; print a table, and write Markdown and JSON unless it is quick."""
    found = []
    for rows in (100_000,) if quick else sizes:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), rows)
            for method in METHODS:
                if rows <= MOST.get(method, rows):
                    found.append(apart(method, Path(name), rows))
                    print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    tell(found, stored=not quick)
    return found


def tell(found: list[dict[str, Any]], stored: bool) -> None:
    """Print a table, and write Markdown and JSON where it is to be stored."""
    header = [
        "rows",
        "method",
        "passes",
        "seconds",
        "rows per second",
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
            f"{row['rows'] / row['seconds']:,.0f}",
            f"{row['cpu']:.1f}",
            f"{row['rows'] / row['cpu']:,.0f}",
            f"{row['peak_mib']:.0f}",
            f"{row['test_mse']:.1e}",
        ]
        for row in found
    ]
    title = "Laws of data larger than memory"
    show(title, header, cells)
    if stored:
        assert __doc__ is not None
        note = " ".join(__doc__.split("\n\n")[2].split())
        said = agreement([row for row in found if row["rows"] == IN_MEMORY and "formula" in row])
        run_of = provenance("large", ("exactformer", "scikit-learn", "numpy"))
        parts = [note, "", *markdown(header, cells), "", said, "", origin(run_of)]
        keep("large", title, parts, {"note": note, "provenance": run_of, "rows": found})


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
