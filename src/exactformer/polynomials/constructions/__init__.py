"""Theorems as functions to blueprints: one file a theorem."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.chebyshev import chebyshev
from exactformer.polynomials.constructions.doubling import doubling
from exactformer.polynomials.constructions.paper import paper
from exactformer.polynomials.constructions.scaled import scaled
from exactformer.polynomials.constructions.softmax import softmax
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation

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
