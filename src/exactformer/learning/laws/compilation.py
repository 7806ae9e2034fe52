"""A law as a certified transformer, for the ball that holds its data."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.law import Law, RidgeLaw

if TYPE_CHECKING:
    from exactformer.algebra.ridge import RidgeForm
    from exactformer.polynomials.model import PolynomialModel


def compile_law(law: Law, variables: list[str], radius: float, directions: str) -> PolynomialModel:
    """Compile a law for ‖x‖ ≤ radius (as printed), along its own directions if it has any."""
    from exactformer.algebra import Polynomial
    from exactformer.polynomials.compile import compile

    if isinstance(law, RidgeLaw):
        return _compile_form(_as_ridge_form(law, variables), Fraction(repr(radius)))
    polynomial = Polynomial.from_terms(law.powers(), variables)
    return compile(polynomial, radius=Fraction(repr(radius)), directions=directions)


def _as_ridge_form(law: RidgeLaw, variables: list[str]) -> RidgeForm:
    """Return F, β and b as exact rationals, each direction halved until it fits the unit ball."""
    from exactformer.algebra.ridge import RidgeForm

    F = np.zeros((len(law.F), law.data_range.dimension))
    F[:, law.data_range.used] = law.F
    directions, beta = [], []
    for row, powers in zip(F, law.beta, strict=True):
        scale = _power_of_two_above(row)
        directions.append(tuple(Fraction(c) / scale for c in row.tolist()))
        beta.append(tuple(Fraction(c) * scale**s for s, c in enumerate(powers.tolist(), start=1)))
    return RidgeForm(
        tuple(variables),
        Fraction(law.b),
        tuple(directions),
        tuple(beta),
        law.beta.shape[1],
        "given",
    )


def _compile_form(form: RidgeForm, radius: Fraction) -> PolynomialModel:
    from exactformer.algebra import Target
    from exactformer.core.options import FLOAT, MEMORY_LIMIT
    from exactformer.polynomials.constructions import construct
    from exactformer.polynomials.model import proven_model
    from exactformer.polynomials.proof.certify import prove
    from exactformer.polynomials.sizes import check_size

    target = Target.coerce(form.to_polynomial())
    check_size(target, form.width, FLOAT, MEMORY_LIMIT)
    blueprint = construct("scaled", [form], radius, target)
    return proven_model(blueprint, prove(blueprint, target))


def _power_of_two_above(row: Array) -> Fraction:
    """Return the least power of two, from one upwards, that is at least ‖row‖."""
    square, scale = sum(Fraction(c) ** 2 for c in row.tolist()), Fraction(1)
    while scale * scale < square:
        scale *= 2
    return scale
