"""The trusted base names functions and tests that exist, and what proofs share with constructions."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from exactformer.claims import every
from tests.test_layers import MODULES, closure
from tests.test_layers import ROOT as PACKAGE

ROOT = Path(__file__).resolve().parents[1]
BASE = tomllib.loads((PACKAGE / "core" / "trusted_base.toml").read_text())
PAGE = (ROOT / "docs/theory/certificates.md").read_text()


def test_every_lemma_of_the_page_has_a_row_and_every_row_a_lemma() -> None:
    stated = set(re.findall(r"^\*\*([A-Z]\d+)", PAGE, re.MULTILINE))
    assert {row["lemma"] for row in BASE["row"]} == stated
    assert len(stated) >= 20


def test_every_lemma_has_a_test_that_exists() -> None:
    for row in BASE["row"]:
        path, _, name = row["test"].partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), row["test"]


def test_the_ledger_cites_lemmas_that_exist() -> None:
    known = {row["lemma"] for row in BASE["row"]}
    assert {lemma for claim in every() for lemma in claim.lemmas} <= known


@pytest.mark.parametrize("path", sorted({row["function"] for row in BASE["row"]}))
def test_every_lemma_is_carried_out_by_a_function_that_exists(path: str) -> None:
    parts = path.split(".")
    found: object = import_module("exactformer")
    for name in parts:
        if isinstance(found, ModuleType) and hasattr(found, "__path__"):
            import_module(f"{found.__name__}.{name}")
        found = getattr(found, name)
    assert callable(found)


@pytest.mark.parametrize("row", BASE["shared"], ids=lambda row: row["family"])
def test_what_proofs_and_constructions_share_is_what_is_said(row: dict[str, list[str]]) -> None:
    """Beyond blueprints and packages, of the family's own files."""
    family = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] == row["family"]]

    def files(word: str) -> set[Path]:
        own = [path for path in family if word in str(path.relative_to(PACKAGE))]
        return set().union(*(closure(path) for path in own))

    both = files("proof/") & files("construction") & set(family)
    names = {".".join(path.relative_to(PACKAGE).with_suffix("").parts[1:]) for path in both}
    plain = {name for name in names if not name.endswith(("__init__", "blueprint"))}
    assert plain == set(row["modules"])
