"""What the tests of all families share: the cases of a family, and one case against its answers."""

from __future__ import annotations

from functools import cache

import pytest

from tests.golden.asking import asked
from tests.golden.families import cases_of
from tests.golden.stored import Frozen, differences, read

_HINT = (
    "If this is meant: python -m tests.golden write, and say in the commit why each answer changes."
)


@cache
def _answers(family: str) -> Frozen:
    return read(family)


def parameters(family: str) -> list[object]:
    """Return the names of the cases whose answers are stored, marked where they are slow."""
    return [
        pytest.param(case.name, marks=[pytest.mark.slow] * case.slow)
        for case in cases_of(family).values()
        if case.stored
    ]


def check(family: str, name: str) -> None:
    """Ask one case; fail with a line for every answer that differs from the stored one."""
    stored = _answers(family)
    old = {name: stored[name]} if name in stored else {}
    lines = list(differences(family, old, {name: asked(cases_of(family)[name])}))
    if lines:
        pytest.fail("\n".join([*lines, _HINT]), pytrace=False)


def check_none_is_left(family: str) -> None:
    """Fail if an answer is stored of which there is no case."""
    left = set(_answers(family)) - {c.name for c in cases_of(family).values() if c.stored}
    assert not left
