"""Compile and certify by size.

    python -m benchmarks.compiling

Each compilation runs in a process of its own (time after imports, peak memory of the process).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from fractions import Fraction
from typing import Any

from benchmarks.cases import CASES, Case
from benchmarks.tables import write

RADIUS = 2
CONSTRUCTIONS = ("scaled", "paper")


def compile_one(case: str, construction: str) -> dict[str, Any]:
    from exactformer.algebra import Target
    from exactformer.core.domain import Ball
    from exactformer.polynomials.compile import local_forms
    from exactformer.polynomials.constructions import construct
    from exactformer.polynomials.proof.certify import certify_blueprint

    polynomial = Case(case).target
    target = Target.coerce(polynomial)
    start = time.perf_counter()
    ball = Ball(Fraction(RADIUS))
    blueprint = construct(construction, local_forms(target, ball), ball, target)
    drawn = time.perf_counter()
    certificate = certify_blueprint(blueprint, target)
    done = time.perf_counter()
    assert certificate.zero_error
    return {
        "case": case,
        "construction": construction,
        "terms": len(polynomial),
        "tokens": blueprint.tokens,
        "compile s": drawn - start,
        "certify s": done - drawn,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "float64 bound / max|Q|": certificate.bound("float64") / certificate.scale,
    }


def apart(case: str, construction: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.compiling", case, construction]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def run(quick: bool = False) -> None:
    """Compile every case, print the table, and unless quick write it."""
    names = ["f2", "dense 2 4"] if quick else [case.name for case in CASES]
    rows = [apart(name, construction) for name in names for construction in CONSTRUCTIONS]
    note = f"Radius {RADIUS}. Time after imports, peak memory of the whole process."
    write("compiling", "Compile and certify", note, rows, stored=not quick)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(compile_one(*sys.argv[1:])))
    else:
        run()
