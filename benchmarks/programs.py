"""Programs: widths and layers next to tracr's for the same programs, and the time of compiling.

    python -m benchmarks.programs [--quick]

tracr's shapes are those of its compiler at commit 9ce2b8c, for its own versions of the programs with
the same vocabulary and length: layers, heads, width of the stream and hidden units. Large programs have
no peer; their time of compiling and certifying is given, in seconds of one processor.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from benchmarks.tables import keep, markdown, origin, provenance, show

Row = dict[str, Any]
Shape = tuple[int, int, int, int]


def cases() -> dict[str, tuple[Any, Any, int, bool, Shape | None]]:
    """Return programs with vocabulary, length, whether causal, and tracr's shape where it is known."""
    from exactformer import rasp
    from exactformer.programs import library as lib

    letters, digits = "abcd", [1, 2, 3, 4]
    return {
        "reverse, n = 5": (lib.make_reverse(), letters, 5, False, (4, 1, 42, 30)),
        "reverse, n = 16": (lib.make_reverse(), letters, 16, False, (4, 1, 108, 272)),
        "reverse, n = 32": (lib.make_reverse(), letters, 32, False, (4, 1, 204, 1056)),
        "shuffle_dyck2, n = 5": (
            *(lib.make_shuffle_dyck(["()", "{}"]), "(){}", 5, False),
            (8, 4, 54, 212),
        ),
        "shuffle_dyck3, n = 6": (
            *(lib.make_shuffle_dyck(["()", "{}", "[]"]), "(){}[]", 6, False),
            (9, 6, 72, 438),
        ),
        "sort, n = 5": (lib.make_sort(), digits, 5, False, (3, 1, 42, 20)),
        "sort_freq, n = 5": (lib.make_sort_freq(), digits, 5, False, (5, 1, 65, 30)),
        "frac_prevs, n = 5": (
            *(lib.make_frac_prevs(rasp.tokens == "l"), "helo", 5, False),
            (2, 1, 13, 1),
        ),
        "detect_pattern ab, n = 5": (
            *(lib.detect_pattern(rasp.tokens, "ab"), "ab", 5, False),
            (2, 1, 17, 4),
        ),
        "sort, 50 of 50": (lib.make_sort(), range(50), 50, False, None),
        "hist, n = 200": (lib.make_hist(), "abcdefgh", 200, False, None),
        "induction, n = 1000": (lib.make_induction(), "abcdefgh", 1000, True, None),
    }


def measure(name: str) -> Row:
    """Compile and certify one program, with softmax in float32."""
    import exactformer as ef

    expression, vocabulary, length, causal, peer = cases()[name]
    start = time.process_time()
    model = ef.compile_program(
        expression,
        vocabulary=vocabulary,
        max_length=length,
        causal=causal,
        realisation="softmax",
        dtype=torch.float32,
    )
    seconds, sizes = time.process_time() - start, model.blueprint.sizes
    shape = tuple(sizes[key] for key in ("layers", "heads", "width", "hidden"))
    return {
        "program": name,
        "ours": list(shape),
        "tracr": None if peer is None else list(peer),
        "bound": float(model.certificate.bound()),
        "seconds": seconds,
    }


def table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return names of columns and cells."""
    names = ["program", "layers, heads, width, hidden", "tracr's", "error bound", "seconds"]
    cells = [
        [
            row["program"],
            ", ".join(map(str, row["ours"])),
            "–" if row["tracr"] is None else ", ".join(map(str, row["tracr"])),
            f"{row['bound']:.2g}",
            f"{row['seconds']:.1f}",
        ]
        for row in rows
    ]
    return names, cells


def run(quick: bool = False) -> list[Row]:
    """Measure all programs, or the small ones, and unless quick write the page."""
    rows = [measure(name) for name, case in cases().items() if not quick or case[2] <= 6]
    show("Programs as transformers", *table(rows))
    if not quick:
        run = provenance("programs", ("exactformer", "torch", "numpy"))
        note = (
            "Softmax attention in float32, certified for every input. Seconds of one processor, for "
            "compiling and certifying. tracr's shapes are those of its compiler for its own versions "
            "of these programs."
        )
        page = [note, "", *markdown(*table(rows)), "", origin(run)]
        keep("programs", "Programs as transformers", page, {"rows": rows, "provenance": run})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small programs, nothing written")
    run(parser.parse_args().quick)
