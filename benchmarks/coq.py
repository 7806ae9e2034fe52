"""Coq's check of a law by size, next to Python's certificate.

    python -m benchmarks.coq

Times are processor time, which other work on the machine does not lengthen. The first row is a law so
small that its time is that of loading Coq's real numbers. A row with a float format has the theorem
about the rounded closed form besides the exact one.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import exactformer as ef
from benchmarks.cases import Case
from benchmarks.tables import write
from exactformer.algebra import Polynomial, Target
from exactformer.coq.check import check_law
from exactformer.coq.installation import built_rounding, find_coq
from exactformer.coq.law import law
from exactformer.polynomials.proof.certify import certify_blueprint

RADIUS = 2
CASES = [
    ("x^2", "scaled", ""),
    ("f2", "scaled", ""),
    ("f2", "paper", ""),
    ("f2", "doubling", ""),
    ("f2", "chebyshev", ""),
    ("x^20", "scaled", ""),
    ("x^40", "chebyshev", ""),
    ("x1 x2 x3 x4 x5 x6 x7", "scaled", ""),
    ("x1 x2 x3 x4 x5 x6 x7 x8", "scaled", ""),
    ("dense 4 8", "scaled", ""),
    ("dense 4 8", "paper", ""),
    ("dense 9 4", "scaled", ""),
    ("dense 9 4", "chebyshev", ""),
    ("x^2", "softmax", ""),
    ("x^4", "softmax", ""),
    ("x^6", "softmax", ""),
    ("x1 x2 x3", "softmax", ""),
    ("x1 x2 x3 x4", "softmax", ""),
    ("f2", "softmax", ""),
    ("x^2", "scaled", "float64"),
    ("f2", "scaled", "float64"),
    ("f2", "scaled", "float32"),
    ("f2", "chebyshev", "float64"),
    ("x^20", "scaled", "float64"),
    ("x^40", "chebyshev", "float64"),
    ("x1 x2 x3 x4 x5 x6 x7", "scaled", "float64"),
    ("dense 4 8", "scaled", "float64"),
    ("dense 9 4", "scaled", "float64"),
]
QUICK = CASES[:2]


def check_one(name: str, construction: str, rounding: str) -> dict[str, Any]:
    named = name == "f2" or name.startswith("dense")
    target = Target.coerce(Case(name).target if named else Polynomial.parse(name))
    executor = "literal" if construction == "softmax" else "fused"
    options = {"construction": construction, "executor": executor}
    blueprint = ef.compile(target, radius=RADIUS, **options).blueprint
    start = time.process_time()
    certify_blueprint(blueprint, target)
    certified = time.process_time()
    text = law(blueprint, target, rounding=rounding or None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    check_law(text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "polynomial": name,
        "construction": construction,
        "rounding": rounding,
        "terms": sum(map(len, target)),
        "degree": target.degree,
        "tokens": blueprint.tokens,
        "blocks": blueprint.depth,
        "file kB": len(text.encode()) / 1000,
        "Python s": certified - start,
        "Coq s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def run(quick: bool = False) -> None:
    """Check every case, print the table, and unless quick write it."""
    coq = find_coq()
    built_rounding(coq)
    rows = [check_one(*case) for case in (QUICK if quick else CASES)]
    note = f"Radius {RADIUS}. Processor time of the certificate in Python and of Coq {coq.version}."
    write("coq", "Laws checked by Coq", note, rows, stored=not quick)


if __name__ == "__main__":
    run()
