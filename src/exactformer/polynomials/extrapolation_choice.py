"""The choice of an extrapolation: how many softmaxes a product takes, and how wide their ε.

It has the least certified error, or is the cheapest that meets a tolerance.

Candidates are ranked by the leading order of a product's error,

    truncation(heads, span) + Σ_m |c_m| · u · roundings of a weight,

and what is chosen is judged by the certified bound, not by this estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from math import inf

from exactformer.algebra import Target
from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Domain
from exactformer.core.formats import FloatFormat
from exactformer.core.words import at_most
from exactformer.errors import RoundingError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import construct
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.proof.certify import SLACK
from exactformer.polynomials.proof.softmax_error import roundings_of_a_weight, softmax_bound
from exactformer.polynomials.proof.softmax_symbolic import run_softmax

MOST_HEADS = 12
"""More heads per product gain less than a twentieth each, in any format."""

_SPANS = tuple(Fraction(round(2 ** (j / 4) * 64), 64) for j in range(-16, 17))


def best_softmax_blueprint(
    forms: Sequence[RidgeForm],
    domain: Domain,
    polynomials: Target,
    target: FloatFormat,
    tolerance: float | None,
) -> Blueprint:
    """Return the softmax blueprint with the least error, or the fewest heads within ``tolerance``."""
    draw = partial(construct, "softmax", forms, domain, polynomials)
    choices = [best_span(heads, target) for heads in range(1, MOST_HEADS + 1)]
    best = min(choices, key=lambda choice: estimate(choice, target))
    blueprint = draw(extrapolation=best)
    if tolerance is None or not blueprint.blocks:
        return blueprint
    least = _certified_error(blueprint, target)
    if least is None or least > tolerance:
        shown = "no bound at all" if least is None else at_most(least)
        raise RoundingError(
            f"tolerance={tolerance:g} is out of reach in {target.name}: the least certified error of "
            f"a softmax model here is {shown}, with {best.heads} heads per product. Raise the "
            "tolerance, use a wider format or a smaller domain, or an exact construction"
        )
    return _cheapest(choices, best, least, tolerance, target, draw)


def _cheapest(
    choices: Sequence[Extrapolation],
    best: Extrapolation,
    least: float,
    tolerance: float,
    target: FloatFormat,
    draw: Callable[..., Blueprint],
) -> Blueprint:
    """Return the first choice within tolerance, skipping those hopeless by their estimate."""
    scale = least / estimate(best, target)
    for choice in choices:
        if choice.heads < best.heads and estimate(choice, target) * scale < 4 * tolerance:
            blueprint = draw(extrapolation=choice)
            error = _certified_error(blueprint, target)
            if error is not None and error <= tolerance:
                return blueprint
    return draw(extrapolation=best)


def _certified_error(blueprint: Blueprint, target: FloatFormat) -> float | None:
    """Return the bound a certificate will state for one format."""
    return softmax_bound(run_softmax(blueprint, blueprint.domain.enlarged(SLACK)), target).total


@cache
def best_span(heads: int, target: FloatFormat) -> Extrapolation:
    """Return the extrapolation of that many heads with the span of least estimated error."""
    choices = (Extrapolation(heads, span) for span in _SPANS)
    return min(choices, key=lambda choice: estimate(choice, target))


def estimate(choice: Extrapolation, target: FloatFormat) -> float:
    """Return the leading order of the error of a product with |z| ≤ 1."""
    error = choice.truncation()
    for node, weight in zip(choice.nodes, choice.weights, strict=True):
        relative = roundings_of_a_weight(target, float(node)) * target.unit
        error += abs(float(weight)) * relative / (1 - relative) if relative < 0.5 else inf
    return error
