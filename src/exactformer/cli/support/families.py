"""The family of a file: its name, and the blueprint in it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from exactformer.core.loading import family_of


def name_of(family: str) -> str:
    """Return what a model of a family is called: polynomial, sequence, coupling or program."""
    return family.removesuffix("s")


def read_blueprint(file: Path) -> Any:
    """Return the blueprint that a file holds; nothing is proven of it."""
    family = family_of(file)
    name = "load_blueprint" if family == "polynomials" else f"load_{name_of(family)}"
    found = getattr(import_module(f"exactformer.{family}.files"), name)(file)
    return found[0] if family in ("sequences", "programs") else found  # others hold nothing besides
