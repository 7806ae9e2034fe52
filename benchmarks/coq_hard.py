"""Coq's check of programs and sequence maps by size, next to Python's certificate.

    python -m benchmarks.coq_hard

Times are processor time, which other work on the machine does not lengthen. *Inputs* are those that the
theorem is about: sequences of tokens, or of cells.
"""

from __future__ import annotations

import resource
import time
from fractions import Fraction
from typing import Any

import exactformer as ef
from benchmarks.tables import write
from exactformer.coq.check import check_law
from exactformer.coq.installation import built_library, find_coq
from exactformer.coq.prove import law_of
from exactformer.programs.library import PROGRAMS

PROGRAM_CASES = [
    ("length", "ab", 4),
    ("reverse", "abc", 5),
    ("reverse", "abcde", 10),
    ("hist", "abcde", 10),
    ("shift", "abcdefgh", 20),
    ("frac_prevs", "abx", 10),
    ("shuffle_dyck1", "()", 8),
    ("most_frequent", "ab", 6),
    ("sort", "abc", 5),
]
SEQUENCE_CASES = [
    (2, 1, 8, "four-layer"),
    (3, 1, 8, "four-layer"),
    (2, 2, 4, "four-layer"),
    (2, 1, 4, "compact"),
    (2, 1, 4, "paper"),
]


def program_row(name: str, vocabulary: str, longest: int) -> dict[str, Any]:
    model = ef.compile_program(PROGRAMS[name](), vocabulary=vocabulary, max_length=longest)
    inputs = sum(len(vocabulary) ** m for m in range(1, longest + 1))
    told = f"{name}, {len(vocabulary)} tokens, length {longest}"
    return {"model": told, "inputs": inputs, **check_one(model)}


def sequence_row(tokens: int, dim: int, cells: int, form: str) -> dict[str, Any]:
    model = ef.compile_sequence(
        lambda x: x - x.mean(axis=0), tokens=tokens, dim=dim, delta=Fraction(1, cells), form=form
    )
    told = f"mean-subtract, {form}, {tokens} × {dim}, {cells} cells"
    return {"model": told, "inputs": model.table.grid.points**tokens, **check_one(model)}


def check_one(model: ef.ProgramModel | ef.SequenceModel) -> dict[str, Any]:
    start = time.process_time()
    law = law_of(model)
    proven = time.process_time()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    check_law(law.text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "file kB": len(law.text.encode()) / 1000,
        "Python s": proven - start,
        "Coq s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def run(quick: bool = False) -> None:
    """Check every case, print the table, and unless quick write it."""
    coq = find_coq()
    built_library(coq)
    rows = [program_row(*case) for case in (PROGRAM_CASES[:1] if quick else PROGRAM_CASES)]
    rows += [sequence_row(*case) for case in (SEQUENCE_CASES[:1] if quick else SEQUENCE_CASES)]
    note = f"Processor time of the certificate in Python, with the file, and of Coq {coq.version}."
    write("coq-hard", "Programs and sequence maps checked by Coq", note, rows, stored=not quick)


if __name__ == "__main__":
    run()
