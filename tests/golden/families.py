"""All cases, by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from tests.golden import couplings, forgeries, layers, polynomials, programs, sequences
from tests.golden.case import Case

_HONEST: dict[str, Callable[[], Iterator[Case]]] = {
    "polynomials": polynomials.cases,
    "sequences": sequences.cases,
    "programs": programs.cases,
    "couplings": couplings.cases,
}
FAMILIES = tuple(_HONEST)


@cache
def cases_of(family: str) -> dict[str, Case]:
    """Return the cases of a family by name, honest ones first."""
    listed = [*_HONEST[family](), *forgeries.cases(family)]
    if family == "sequences":
        listed += layers.cases()
    found = {case.name: case for case in listed}
    assert len(found) == len(listed), "two cases have one name"
    return found
