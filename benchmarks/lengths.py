"""Adaptive degree in one dimension: how long our expansions are beside those of chebpy.

    python -m benchmarks.lengths [--quick]

Both are asked for the same largest error on [−1, 1]; chebpy takes it relative to the largest |f|.
The length is the number of Chebyshev coefficients, degree + 1. Errors are measured on the same
dense points, ours as the certified transformer in float64. chebpy looks for a plateau of the
coefficients and is usually more accurate than asked; ours looks for the lowest degree that was
measured to meet the tolerance. So ours is also asked for the error that chebpy has.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.tables import keep, markdown, origin, provenance, show

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp(x)": np.exp,
    "sin(40x)": lambda x: np.sin(40 * x),
    "cos(20x²)": lambda x: np.cos(20 * x**2),
    "1/(1 + 25x²)": lambda x: 1 / (1 + 25 * x**2),
    "tanh(5x)": lambda x: np.tanh(5 * x),
}
TOLERANCES = (1e-6, 1e-9, 1e-12)
LIMIT = 1.1
"""Ours may be so many times as long."""
DENSE = np.linspace(-1, 1, 20_001)

Row = dict[str, Any]


def chebpy_expansion(f: Callable[[Any], Any], tolerance: float) -> tuple[int, float]:
    """Return length and error of chebpy's expansion."""
    from chebpy import UserPreferences, chebfun

    exact = f(DENSE)
    with UserPreferences() as preferences:
        preferences.eps = tolerance / np.abs(exact).max()
        expansion = chebfun(f, [-1, 1])
        return expansion.funs[0].size, float(np.abs(expansion(DENSE) - exact).max())


def our_expansion(f: Callable[[Any], Any], tolerance: float) -> tuple[int, float]:
    """Return length and error of the transformer."""
    import exactformer as ef

    model = ef.compile(f, domain=[(-1, 1)], tolerance=tolerance)
    values = model(DENSE[:, None]).numpy()
    return model.approximation.degree + 1, float(np.abs(values - f(DENSE)).max())


def compare(name: str, tolerance: float) -> Row:
    """Return both lengths and errors for one function and tolerance."""
    from exactformer.errors import ToleranceError

    f = FUNCTIONS[name]
    theirs, their_error = chebpy_expansion(f, tolerance)
    ours, our_error = our_expansion(f, tolerance)
    row = {"function": name, "tolerance": tolerance, "ours": ours, "our error": our_error}
    try:
        as_accurate = our_expansion(f, 1.01 * their_error)[0]
    except ToleranceError:  # rounding in float64 alone is more than that
        as_accurate = None
    return row | {"chebpy": theirs, "chebpy error": their_error, "ours, as accurate": as_accurate}


def table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the comparison."""
    lines = [
        [
            row["function"],
            f"{row['tolerance']:.0e}",
            str(row["ours"]),
            str(row["chebpy"]),
            f"{row['ours'] / row['chebpy']:.2f}",
            f"{row['our error']:.1e}",
            f"{row['chebpy error']:.1e}",
            str(row["ours, as accurate"] or "–"),
        ]
        for row in rows
    ]
    header = ["function", "tolerance", "our length", "chebpy's", "ratio", "our error"]
    return [*header, "chebpy's error", "our length at chebpy's error"], lines


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    rows = contents["rows"]
    longest = max(row["ours"] / row["chebpy"] for row in rows)
    verdict = "met" if longest <= LIMIT else "**not met**"
    return [
        "Coefficients of adaptive expansions on [−1, 1], at the same tolerance, and the error each "
        "has on 20,001 points.",
        "",
        *markdown(*table(rows)),
        "",
        f"Asked for: at most {LIMIT} times as long as chebpy's. The largest ratio is {longest:.2f}: "
        f"{verdict}. chebpy is more accurate than asked; the last column is what we need to be as "
        "accurate (–: rounding in float64 is larger than that).",
        "",
        origin(contents["provenance"]),
    ]


def compare_lengths(quick: bool = False) -> None:
    """Run, print, and unless quick write the page; say so where chebpy is missing."""
    if find_spec("chebpy") is None:
        print("chebpy (pip install chebfun) is not installed: no comparison of lengths")
        return
    names, tolerances = (["exp(x)"], (1e-6,)) if quick else (list(FUNCTIONS), TOLERANCES)
    rows = [compare(name, tolerance) for name in names for tolerance in tolerances]
    show("Lengths of adaptive expansions", *table(rows))
    if not quick:
        run = provenance("lengths", ("exactformer", "chebfun", "numpy"))
        contents = {"rows": rows, "provenance": run}
        keep("lengths", "Adaptive degree in one dimension", page(contents), contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one function, nothing written")
    compare_lengths(parser.parse_args().quick)


if __name__ == "__main__":
    main()
