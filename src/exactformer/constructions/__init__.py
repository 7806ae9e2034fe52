"""Theorems as functions to blueprints: one file a theorem."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.blueprint import Blueprint, Domain
from exactformer.constructions.chebyshev import chebyshev
from exactformer.constructions.doubling import doubling
from exactformer.constructions.extrapolation import Extrapolation
from exactformer.constructions.paper import paper
from exactformer.constructions.scaled import scaled
from exactformer.constructions.softmax import softmax

CONSTRUCTIONS: dict[str, Callable[[RidgeForm, Domain | Fraction], Blueprint]] = {
    "scaled": scaled,
    "paper": paper,
    "doubling": doubling,
    "chebyshev": chebyshev,
}
"""Those whose output is the target, exactly."""

APPROXIMATIONS: dict[str, Callable[..., Blueprint]] = {"softmax": softmax}
"""Those with a certified distance to it."""


def construct(
    name: str,
    forms: Sequence[RidgeForm],
    domain: Domain | Fraction,
    vector: bool = False,
    **options: object,
) -> Blueprint:
    """Return one blueprint for ridge forms along common directions: shared blocks, a readout each."""
    build: Callable[..., Blueprint] = {**CONSTRUCTIONS, **APPROXIMATIONS}[name]
    drawn = [build(form, domain, **options) for form in forms]
    readouts = tuple(blueprint.readouts[0] for blueprint in drawn)
    return replace(drawn[0], readouts=readouts, vector=vector)


__all__ = [
    "APPROXIMATIONS",
    "CONSTRUCTIONS",
    "Extrapolation",
    "chebyshev",
    "construct",
    "doubling",
    "paper",
    "scaled",
    "softmax",
]
