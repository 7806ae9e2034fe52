"""Programs next to tracr: time of evaluation, and programs that tracr compiles into something else.

    python -m benchmarks.programs_tracr CHECKOUT [--quick]

CHECKOUT is a copy of github.com/google-deepmind/tracr, which is not on PyPI; it needs jax, dm-haiku,
chex and einops. Its programs are those of its own library. Both models attend by softmax in float32.
tracr's model is called as its users call it, ``apply`` on one list of tokens after another, and with
what helps it: its forward pass compiled by ``jax.jit`` for the whole batch.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.tables import keep, markdown, origin, provenance, show

Row = dict[str, Any]
SIZES, FEW, SHORTEST = (1, 1000), 5, 0.05
"""Sequences of a batch; those that are given to ``apply``; seconds of a measurement."""
DECODED, APPLIED, RUN, JITTED = "decode", "apply", "model(ids)", "jax.jit"


def timed_programs() -> dict[str, tuple[Any, Any, Any, int]]:
    """Return programs of both libraries, ours first, with vocabulary and length."""
    from tracr.compiler import lib
    from tracr.rasp import rasp

    from exactformer.programs import library as own

    digits = [1, 2, 3, 4]
    return {
        "reverse, n = 16": (own.make_reverse(), lib.make_reverse(rasp.tokens), "abcd", 16),
        "sort, n = 5": (
            own.make_sort(),
            lib.make_sort(rasp.tokens, rasp.tokens, max_seq_len=5, min_key=1),
            *(digits, 5),
        ),
        "hist, n = 5": (own.make_hist(), lib.make_hist(), "abcd", 5),
    }


def wrong_programs() -> list[tuple[str, Any, Any, Any, int, Any]]:
    """Return programs of both languages that tracr compiles into something else, with an input."""
    from tracr.compiler import lib
    from tracr.rasp import rasp as theirs

    from exactformer import rasp
    from exactformer.programs import library as own

    def above(limit: float, flags: Any, language: Any, library: Any) -> Any:
        return language.Map(lambda x: x > limit, library.make_frac_prevs(flags))

    def alike(language: Any, library: Any) -> Any:
        some = above(0.4, language.tokens == "a", language, library)
        return language.SelectorWidth(language.Select(some, some, language.Comparison.EQ))

    return [
        ("length, n = 12", own.make_length(), lib.make_length(), "ab", 12, "a" * 12),
        (
            *("reverse, n = 10", own.make_reverse(), lib.make_reverse(theirs.tokens)),
            *("ab", 10, "aaaaabbbbb"),
        ),
        (
            "fraction of a so far > 0.6",
            above(0.6, rasp.tokens == "a", rasp, own),
            above(0.6, theirs.tokens == "a", theirs, lib),
            *("ab", 3, "aba"),
        ),
        ("positions alike in that > 0.4", alike(rasp, own), alike(theirs, lib), "ab", 3, "bba"),
        ("shift by 1", own.shift_by(1), lib.shift_by(1, theirs.tokens), "ab", 2, "bb"),
    ]


def both(program: Any, peer: Any, vocabulary: Any, length: int) -> tuple[Any, Any]:
    """Return our model of a program, by softmax in float32, and tracr's."""
    from tracr.compiler import compiling

    import exactformer as ef

    options = {"realisation": "softmax", "dtype": torch.float32}
    ours = ef.compile_program(program, vocabulary=vocabulary, max_length=length, **options)
    return ours, compiling.compile_rasp_to_model(peer, set(vocabulary), length)


def ways(program: Any, peer: Any, vocabulary: Any, length: int) -> dict[str, Callable[..., Any]]:
    """Return how both models map ids ``(batch, n)`` to outputs."""
    import jax

    model, other = both(program, peer, vocabulary, length)
    tokens, encoder = model.vocabulary, other.input_encoder
    first, numbers = encoder.bos_token, np.array([encoder.encoding_map[t] for t in tokens])
    forward = jax.jit(lambda ids: other.forward(other.params, ids).unembedded_output)

    def jitted(ids: np.ndarray) -> Any:
        begun = np.insert(numbers[ids], 0, encoder.encoding_map[first], axis=1)
        return forward(begun).block_until_ready()

    def listed(ids: np.ndarray) -> list[list[Any]]:
        return [[tokens[k] for k in row] for row in ids.tolist()]

    found: dict[str, Callable[..., Any]] = {
        DECODED: lambda ids: model.decode(listed(ids)),
        APPLIED: lambda ids: [other.apply([first, *row]).decoded for row in listed(ids)],
        RUN: lambda ids: model(torch.from_numpy(ids)).argmax(-1),
        JITTED: jitted,
    }
    return found


def measure(name: str, rounds: int) -> list[Row]:
    """Return the times of one program, a row per batch size."""
    program, peer, vocabulary, length = timed_programs()[name]
    ids = np.random.default_rng(0).integers(0, len(vocabulary), (max(SIZES), length))
    calls = ways(program, peer, vocabulary, length)
    rows = []
    for size in SIZES:
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(rounds + 1):  # the first one compiles
            for way, call in calls.items():
                best[way] = min(best[way], _seconds(call, ids[:size], way))
        rows.append(
            {
                "program": name,
                "batch": size,
                **best,
                "decode : apply": best[APPLIED] / best[DECODED],
                "model(ids) : jax.jit": best[JITTED] / best[RUN],
            }
        )
    return rows


def _seconds(call: Callable[..., Any], ids: np.ndarray, way: str) -> float:
    """Return the processor time of a call; ``apply`` takes one sequence after another, so a few do."""
    given = ids[:FEW] if way == APPLIED else ids
    start, calls = time.process_time(), 0
    while time.process_time() - start < SHORTEST:
        call(given)
        calls += 1
    return (time.process_time() - start) / calls * len(ids) / len(given)


def compare() -> list[Row]:
    """Return what both models make of programs that tracr compiles into something else."""
    from exactformer import rasp

    rows = []
    for name, program, peer, vocabulary, length, text in wrong_programs():
        model, other = both(program, peer, vocabulary, length)
        rows.append(
            {
                "program": name,
                "input": text,
                "the program's": rasp.evaluate(program, text),
                "exactformer": model.decode(text),
                "tracr": other.apply([other.input_encoder.bos_token, *text]).decoded[1:],
            }
        )
    return rows


def timing_table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return names of columns and cells."""
    names = ["program", "batch", DECODED, f"tracr's {APPLIED}", "times faster"]
    names += [RUN, f"tracr under {JITTED}", "times faster"]
    cells = []
    for row in rows:
        ours, theirs, own, peer = (_duration(row[way]) for way in (DECODED, APPLIED, RUN, JITTED))
        ratios = (row[key] for key in ("decode : apply", "model(ids) : jax.jit"))
        faster = (f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}" for ratio in ratios)
        cells.append([row["program"], str(row["batch"]), ours, theirs, next(faster)])
        cells[-1] += [own, peer, next(faster)]
    return names, cells


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def outcome_table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return names of columns and cells."""
    names = ["program", "input", "the program's", "exactformer", "tracr"]

    def text(values: Any) -> str:
        shown = values if isinstance(values, str) else " ".join(map(str, map(_plain, values)))
        return shown if len(shown) <= 30 else f"{shown[:27]}…"

    return names, [[row["program"], *(text(row[name]) for name in names[1:])] for row in rows]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def run(quick: bool = False) -> None:
    """Measure and, unless quick, write the page."""
    names = list(timed_programs())[: 1 if quick else None]
    timed = [row for name in names for row in measure(name, 1 if quick else 3)]
    found = compare()
    show("Evaluation", *timing_table(timed))
    show("Programs that tracr compiles into something else", *outcome_table(found))
    if not quick:
        versions = ("exactformer", "torch", "jax", "dm-haiku", "numpy")
        write(timed, found, provenance("programs_tracr", versions))


def write(timed: list[Row], found: list[Row], origin_of: dict[str, Any]) -> None:
    """Write the page."""
    note = (
        "Processor time of one call, all threads together, in turn and the best of three rounds: the "
        "machine had other work. tracr at commit 9ce2b8c; its apply takes one sequence at a time, and "
        f"its time for {max(SIZES)} is that of {FEW}, scaled."
    )
    page = [
        *(note, "", *markdown(*timing_table(timed)), ""),
        "Programs that tracr compiles without a word into something else, each on one input:",
        *("", *markdown(*outcome_table(found)), "", origin(origin_of)),
    ]
    contents = {"times": timed, "outcomes": _texts(found), "provenance": origin_of}
    keep("programs_tracr", "Programs next to tracr", page, contents)


def _texts(rows: list[Row]) -> list[Row]:
    return [
        {k: v if isinstance(v, str) else list(map(str, map(_plain, v))) for k, v in row.items()}
        for row in rows
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", help="a copy of tracr's repository")
    parser.add_argument("--quick", action="store_true", help="one program, nothing written")
    options = parser.parse_args()
    sys.path.append(options.checkout)
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    torch.set_num_threads(1)
    run(options.quick)
