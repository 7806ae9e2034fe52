"""Theorems as functions to blueprints: one file per theorem."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from exactformer.algebra import Target
from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain
from exactformer.core.options import choose
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
    target: Target,
    **options: object,
) -> Blueprint:
    """Return one blueprint for ridge forms along common directions: shared blocks, a readout each.

    The forms are those of the target's components, whose text the blueprint carries.
    """
    theorems: dict[str, Callable[..., Blueprint]] = {**CONSTRUCTIONS, **APPROXIMATIONS}
    choose("construction", name, list(theorems))
    drawn = [theorems[name](form, domain, **options) for form in forms]
    readouts = tuple(blueprint.readouts[0] for blueprint in drawn)
    metadata = {**drawn[0].metadata, "target": str(target)}
    return replace(drawn[0], readouts=readouts, vector=target.vector, metadata=metadata)


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
