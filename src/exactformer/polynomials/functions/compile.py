"""Continuous functions (Fang et al., Corollary 3.7), approximated by polynomials and measured.

The polynomial is found in floating point, but once found it is an exact object: the transformer
computes *it* with zero error, and that is proven as for every polynomial. How far the polynomial is
from the function can only be measured, on points that played no part in finding it. The two are
reported apart, and a tolerance that was not measured to be met is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import comb
from typing import Any

import numpy as np
import torch

from exactformer.algebra import Target
from exactformer.core.domain import Box
from exactformer.core.formats import float_format
from exactformer.core.precision import plain_torch
from exactformer.core.words import at_most
from exactformer.errors import InputError, SizeError, ToleranceError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import construct
from exactformer.polynomials.functions.chebyshev_expansion import Expansion
from exactformer.polynomials.functions.report import Approximation
from exactformer.polynomials.functions.ridges import direction_count, expansion_ridges
from exactformer.polynomials.functions.sampled import BoxFunction
from exactformer.polynomials.functions.search import Found, check_points, search
from exactformer.polynomials.sizes import chosen_executor, dense_entries
from exactformer.polynomials.transformer import transformer

_MAX_DEGREE = 500
"""Exact arithmetic on coefficients of hundreds of digits takes its time beyond."""

_MAX_TERMS = 3000
"""Polynomials of a total degree, in the linear algebra that finds the ridges."""

_SMALLEST_TOLERANCE = 1e-15
_BATCH = 4096


def approximate(
    f: Callable[..., Any],
    domain: Box,
    tolerance: float | None,
    variables: Sequence[str],
    executor: str | None,
    dtype: torch.dtype,
    memory_limit: int,
) -> tuple[Blueprint, Target]:
    """Return a blueprint that approximates f on a box to a tolerance, and the polynomial it computes.

    Raises:
        ToleranceError: with the best approximation found, if the measured error exceeds the tolerance.
    """
    if not (isinstance(tolerance, int | float) and _SMALLEST_TOLERANCE <= tolerance < np.inf):
        raise InputError(
            "tolerance= is the largest error accepted, a finite number of at least "
            f"{_SMALLEST_TOLERANCE:g}, not {tolerance!r}"
        )
    centre, widths = ([float(v) for v in part] for part in (domain.centre, domain.half_widths))
    function = BoxFunction(f, centre, widths)
    limit = largest_degree(function.dimension, dtype.itemsize, memory_limit)
    found = search(function, float(tolerance), limit)
    if not found.met:
        raise _refusal(function, domain, tolerance, found, limit)
    blueprint, target = _build_blueprint(found.expansion, domain, variables, function.vector)
    executor = chosen_executor(blueprint, executor)
    error, points = _measure(blueprint, function, executor, dtype)
    report = Approximation(
        function.name,
        tolerance,
        found.degree,
        error,
        points,
        found.expansion.points,
        found.error,
        f"{float_format(dtype).name}, {executor}",
    )
    if not error <= tolerance:
        raise ToleranceError(
            f"{report}; the polynomial alone is within {at_most(found.error, 2)}, the rest is "
            f"rounding in {dtype}. Allow a larger tolerance, or compile in torch.float64",
            error=error,
            degree=found.degree,
        )
    metadata = {**blueprint.metadata, "approximation": json.dumps(asdict(report))}
    return replace(blueprint, metadata=metadata), target


def _build_blueprint(
    expansion: Expansion, domain: Box, variables: Sequence[str], vector: bool
) -> tuple[Blueprint, Target]:
    forms = expansion_ridges(expansion, variables)
    sides = list(zip(domain.centre, domain.half_widths, strict=True))
    shifts, scales = [-c / h for c, h in sides], [1 / h for _, h in sides]
    target = Target(tuple(form.to_polynomial().composed(shifts, scales) for form in forms), vector)
    return construct("chebyshev", forms, domain, target), target


@plain_torch()
def _measure(
    blueprint: Blueprint, function: BoxFunction, executor: str, dtype: torch.dtype
) -> tuple[float, int]:
    """Return the largest |model − f| on points of the format, and how many there were."""
    module = transformer(blueprint, executor, dtype)
    x = torch.as_tensor(function.centre + function.half_widths * check_points(function.dimension))
    points = x.to(dtype)
    exact = function.at(points.double().numpy())
    pieces = [module(piece).double() for piece in torch.split(points, _BATCH)]
    values = torch.cat(pieces).reshape(exact.shape).numpy()
    return float(np.abs(values - exact).max()), len(points)


def _refusal(
    function: BoxFunction, domain: Box, tolerance: float, found: Found, limit: int
) -> ToleranceError:
    needed = ""
    if found.needed is not None and found.needed > found.degree:
        degree = float(f"{found.needed:.2g}")  # an estimate: two digits
        needed = f"; its coefficients fall so that about degree {degree:,.0f} would be needed"
    more = ", raise memory_limit=," if limit < _MAX_DEGREE else ""
    return ToleranceError(
        f"{function.name} on {domain} is not approximated to {tolerance:g}: the best found is "
        f"degree {found.degree} with an error of {found.error:.2g}{needed}. The limit here is degree "
        f"{limit}; allow a larger tolerance{more} or split the domain",
        error=found.error,
        degree=found.degree,
        needed=found.needed,
    )


def largest_degree(dimension: int, itemsize: int, memory_limit: int) -> int:
    """Return the highest degree whose transformer fits the limits."""

    def fits(q: int) -> bool:
        tokens = direction_count(dimension, q)
        bytes_needed = dense_entries(tokens, q, dimension) * itemsize
        return comb(dimension + q, q) <= _MAX_TERMS and bytes_needed <= memory_limit

    degree = 0
    while degree < _MAX_DEGREE and fits(degree + 1):
        degree += 1
    if degree == 0:
        raise SizeError(f"not even degree 1 in {dimension} variables fits; raise memory_limit=")
    return degree
