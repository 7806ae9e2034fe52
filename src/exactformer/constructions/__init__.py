"""Theorems as functions to blueprints: one file a theorem."""

from collections.abc import Callable
from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.blueprint import Blueprint
from exactformer.constructions.doubling import doubling
from exactformer.constructions.paper import paper
from exactformer.constructions.scaled import scaled

CONSTRUCTIONS: dict[str, Callable[[RidgeForm, Fraction], Blueprint]] = {
    "scaled": scaled,
    "paper": paper,
    "doubling": doubling,
}

__all__ = ["CONSTRUCTIONS", "doubling", "paper", "scaled"]
