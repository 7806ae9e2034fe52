"""Models that were tampered with: candidates of the adversary, and files altered and sealed again.

Most are refused, and the refusal is the answer. Certificates of those that pass have numbers that no
construction makes, so that every term of a bound counts.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import exactformer as ef
from exactformer.programs.library import make_hist, make_reverse
from tests.adversary.engine import family_named
from tests.cases.forged import File, forged
from tests.cases.sequences import grid, random_table
from tests.golden.case import Case
from tests.golden.couplings import DRAWN, drawn_model

SEARCHED = (
    2, 5, 6, 7, 11, 16, 18, 24, 31, 41, 43, 47, 55, 56, 57, 58, 60, 66, 68, 70, 71, 73, 76, 80, 83,
    85, 87, 91, 92, 93, 94, 98, 99,
)  # fmt: skip
"""Candidates of polynomials whose base has directions that were searched for."""
SPREAD = (3, 7, 10, 11, 21, 46, 47, 49, 51, 53, 73, 78, 79, 81, 86, 99)
"""Those that come from LAPACK, as directions that are spread do."""
CANDIDATES = {"polynomials": 100, "sequences": 160, "programs": 160, "couplings": 40}
FILES = 12


def _polynomial(text: str, construction: str) -> ef.PolynomialModel:
    return ef.compile(text, construction=construction, directions="tailored")


def _sequence(form: str) -> ef.SequenceModel:
    table = random_table(grid((1, 2, 3), form))
    sizes = {"tokens": 2, "dim": 1, "delta": Fraction(1, 3)}
    return ef.compile_sequence(dict(table.values), form=form, **sizes)


def _program(program: Callable[[], Any], realisation: str) -> ef.ProgramModel:
    return ef.compile_program(program(), vocabulary="ab", max_length=3, realisation=realisation)


SAVED: dict[str, dict[str, Callable[[], Any]]] = {
    "polynomials": {
        "x^3 + y, chebyshev": lambda: _polynomial("x^3 + y", "chebyshev"),
        "x^2, softmax": lambda: _polynomial("x^2", "softmax"),
    },
    "sequences": {
        "paper": lambda: _sequence("paper"),
        "compact": lambda: _sequence("compact"),
        "compact, softened": lambda: _sequence("compact").softened(),
    },
    "programs": {
        "reverse, hard": lambda: _program(make_reverse, "hard"),
        "hist, softmax": lambda: _program(make_hist, "softmax"),
    },
    "couplings": {DRAWN[0].name: lambda: drawn_model(DRAWN[0])},
}
"""Models whose files are forged."""


def cases(family: str) -> Iterator[Case]:
    """Yield forged models of a family."""
    for seed in range(CANDIDATES[family]):
        yield _of_adversary(family, seed)
    for name in SAVED[family]:
        for seed in range(FILES):
            make = partial(_of_file, family, name, seed)
            yield Case(f"file of {name}, forged {seed}", make, short=True)


def _of_adversary(family: str, seed: int) -> Case:
    polynomial = family == "polynomials"
    searched = "ridge search, " if polynomial and seed in SEARCHED else ""
    name = f"{searched}candidate {seed} of the adversary"
    stored = family != "couplings" and not (polynomial and seed in SPREAD)
    return Case(name, partial(_candidate, family, seed), stored=stored, short=True)


def _candidate(family: str, seed: int) -> Any:
    adversary = family_named(family)
    found = adversary.certify(adversary.candidate(seed))
    return getattr(found, "bound", found) if family == "couplings" else found


@cache
def _saved(family: str, name: str) -> File:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        SAVED[family][name]().save(path)
        return File.read(path)


def _of_file(family: str, name: str, seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        forged(_saved(family, name), random.Random(f"{name} {seed}")).written(path)
        return ef.load(path)
