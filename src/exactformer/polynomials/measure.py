"""Measured error of a model of a polynomial or a function, on random points of the domain.

The polynomial is evaluated in rational arithmetic, so that what is measured of a polynomial is the
model's own error. Of a function there are two parts: ``approximation``, from the function to the
polynomial that was compiled, and ``rounding``, from that to the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from exactformer.algebra import Target
from exactformer.algebra.rational import to_float
from exactformer.core.arrays import Array
from exactformer.core.certificate import Measured
from exactformer.core.domain import points_in_domain
from exactformer.core.options import check_draw
from exactformer.errors import InputError
from exactformer.polynomials.functions.sampled import BoxFunction
from exactformer.polynomials.functions.sympy_function import given_target
from exactformer.polynomials.model import PolynomialModel

NORM = "E max |computed − target| over the outputs, x uniform on the domain"


def measure(model: PolynomialModel, target: Any, samples: int, seed: int) -> Measured:
    """Measure the distance of a model from a polynomial, a vector of them, or a function."""
    check_draw(samples, seed)
    blueprint = model.blueprint
    drawn = torch.as_tensor(
        points_in_domain(samples, blueprint.domain, len(blueprint.variables), seed)
    )
    points = drawn.to(model.dtype).double().numpy()
    with torch.no_grad():
        computed = model(torch.as_tensor(points).to(model.dtype)).double().cpu().numpy()
    own = _values(Target.coerce(model.target, blueprint.variables), points)
    found = computed.reshape(own.shape)

    def measured(here: Array, there: Array, **parts: Measured) -> Measured:
        if here.shape != there.shape:
            raise InputError(
                f"the model has {here.shape[1]} outputs and the target {there.shape[1]}"
            )
        errors = np.abs(here - there).max(axis=1)
        deviation = float(errors.std(ddof=1)) / samples**0.5
        return Measured(float(errors.mean()), deviation, samples, seed, NORM, parts)

    if target is None:
        return measured(found, own)
    given, _ = given_target(target, blueprint.variables)
    if isinstance(given, Target):
        return measured(found, _values(given, points))
    domain, axes = blueprint.domain, range(len(blueprint.variables))
    function = BoxFunction(
        given,
        [to_float(domain.offset(j)) for j in axes],
        [to_float(domain.extent(j)) for j in axes],
    )
    wanted = function.at(points)
    parts = {"approximation": measured(own, wanted), "rounding": measured(found, own)}
    return measured(found, wanted, **parts)


def _values(target: Target, points: Array) -> Array:
    """Return the values of polynomials, rounded once, (points, outputs)."""
    exact = [[to_float(polynomial.at(point)) for polynomial in target] for point in points.tolist()]
    return np.array(exact, dtype=np.float64).reshape(len(points), len(target))
