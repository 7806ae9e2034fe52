"""Laws with functions besides powers, as one certified transformer on the box of their data.

Each function is replaced by a polynomial on the range of its column, found by Chebyshev interpolation.
The model is proven to equal the polynomial that results; its distance from the law is measured on
points of the box, and a tolerance that is not met raises.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from exactformer.core.domain import Box
from exactformer.errors import ToleranceError
from exactformer.learning.laws.dictionary.terms import Exponents
from exactformer.learning.laws.functions import Dictionary, Feature
from exactformer.learning.laws.law import Law

if TYPE_CHECKING:
    from exactformer.algebra import Polynomial
    from exactformer.polynomials.model import PolynomialModel

# Tolerances of single functions that are tried, as shares of the tolerance of the law.
_SHARES = (0.1, 1e-3, 1e-5, 1e-7)
_HIGHEST = 200


def compile_functions(
    laws: Sequence[Law],
    variables: Sequence[str],
    dictionary: Dictionary,
    box: Box,
    directions: str,
    vector: bool,
    tolerance: float,
) -> PolynomialModel:
    """Compile laws with functions into a model that is measured to be within a tolerance of them."""
    from exactformer.algebra import Target
    from exactformer.polynomials.compile import compile
    from exactformer.polynomials.functions.report import Approximation
    from exactformer.polynomials.functions.search import check_points
    from exactformer.polynomials.model import proven_model
    from exactformer.polynomials.proof.certify import prove

    centre, half_widths = (np.array(p, dtype=float) for p in (box.centre, box.half_widths))
    points = centre + half_widths * check_points(len(centre))
    points = np.clip(points, *np.array(box.intervals, dtype=float).T)
    exact = np.column_stack([law.values(dictionary.extend(points)) for law in laws])
    error, degree = np.inf, 0
    for share in _SHARES:
        found = _substituted(laws, variables, dictionary, box, share * tolerance)
        if found is None:
            break
        polynomials, samples = found
        degree = max(p.degree for p in polynomials)
        target = Target.coerce(polynomials if vector else polynomials[0])
        model = compile(target, domain=box, directions=directions, executor="fused")
        values = model(points).detach().numpy().reshape(exact.shape)
        error = float(np.abs(values - exact).max())
        if error <= tolerance:
            rounding = float(model.certificate.bound())
            report = Approximation(
                "the law",
                tolerance,
                degree,
                error,
                len(points),
                samples,
                error + rounding,
                f"float64, {model.executor}",
            )
            metadata = {**model.blueprint.metadata, "approximation": json.dumps(asdict(report))}
            blueprint = replace(model.blueprint, metadata=metadata)
            return proven_model(blueprint, prove(blueprint, target), executor="fused")
    raise ToleranceError(
        f"the functions of the law are not approximated to {tolerance:.2g} on {box}: the best found "
        f"is degree {degree} with an error of {error:.2g}. Allow a larger model_tolerance=, or fit a "
        "part of the data whose range is smaller",
        error=error,
        degree=degree,
    )


def _substituted(
    laws: Sequence[Law],
    variables: Sequence[str],
    dictionary: Dictionary,
    box: Box,
    tolerance: float,
) -> tuple[list[Polynomial], int] | None:
    """Return the laws with polynomials in place of functions, and how often these were evaluated."""
    from exactformer.algebra import Polynomial

    powers, count = [law.powers() for law in laws], dictionary.columns
    replaced: dict[int, Polynomial] = {}
    samples = 0
    for place, feature in enumerate(dictionary.features):
        if any(alpha[count + place] for terms in powers for alpha in terms):
            found = _polynomial(feature, variables, box, max(tolerance, 1e-15))
            if found is None:
                return None
            replaced[place] = found[0]
            samples += found[1]
    out = []
    for terms in powers:
        total = Polynomial.from_terms({}, variables)
        for alpha, coefficient in terms.items():
            product = Polynomial.from_terms({alpha[:count]: coefficient}, variables)
            for place, exponent in enumerate(alpha[count:]):
                if exponent:
                    product = product * replaced[place] ** exponent
            total = total + product
        out.append(total)
    return out, samples


def _polynomial(
    feature: Feature, variables: Sequence[str], box: Box, tolerance: float
) -> tuple[Polynomial, int] | None:
    """Return a polynomial near a function on the range of its column; None where none is found."""
    from exactformer.algebra import Polynomial
    from exactformer.algebra.chebyshev import to_powers
    from exactformer.polynomials.functions.sampled import BoxFunction
    from exactformer.polynomials.functions.search import search

    j = feature.column
    c, h = box.centre[j], box.half_widths[j]
    found = search(BoxFunction(feature.function.call, [float(c)], [float(h)]), tolerance, _HIGHEST)
    if not found.met:
        return None
    expansion = found.expansion
    chebyshev = [Fraction(0)] * (expansion.degree + 1)
    pairs = zip(
        expansion.exponents[:, 0].tolist(), expansion.coefficients[:, 0].tolist(), strict=True
    )
    for k, a in pairs:
        chebyshev[k] = Fraction(a)
    terms: dict[Exponents, Fraction] = {(k,): a for k, a in enumerate(to_powers(chebyshev))}
    local = Polynomial.from_terms(terms, [variables[j]]).composed([-c / h], [1 / h])
    return local.on(variables), expansion.points
