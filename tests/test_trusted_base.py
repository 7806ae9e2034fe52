"""The page that lists what has to be believed names functions and tests that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/theory/certificates.md").read_text()
ROWS = re.findall(r"^\| ([LSMP]\d+) \| `([\w.]+)` \| `(test_\w+)` \|$", PAGE, re.MULTILINE)


def names_of_tests() -> set[str]:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}


def test_every_lemma_has_a_test_that_exists() -> None:
    stated = set(re.findall(r"^\*\*([LSMP]\d+)", PAGE, re.MULTILINE))
    assert {lemma for lemma, _, _ in ROWS} == stated
    assert len(stated) >= 20
    assert {test for _, _, test in ROWS} <= names_of_tests()


@pytest.mark.parametrize("path", sorted({path for _, path, _ in ROWS}))
def test_every_lemma_is_carried_out_by_a_function_that_exists(path: str) -> None:
    parts = path.split(".")
    found: object = import_module("exactformer")
    for name in parts:
        if isinstance(found, ModuleType) and hasattr(found, "__path__"):
            import_module(f"{found.__name__}.{name}")
        found = getattr(found, name)
    assert callable(found)
