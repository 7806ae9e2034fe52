"""``compile``: polynomials to ridge forms to blueprint to certified module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ridge import ridge_forms
from exactformer.blueprint import Ball, Blueprint, Box, Domain
from exactformer.certificates import EXECUTORS, certify_blueprint
from exactformer.constructions import APPROXIMATIONS, CONSTRUCTIONS, Extrapolation, construct
from exactformer.errors import InputError, RoundingError, SizeError
from exactformer.execution.formats import float_format
from exactformer.model.compiled import OUTSIDE, CompiledModel
from exactformer.model.extrapolating import fitted

if TYPE_CHECKING:
    import sympy

MEMORY_LIMIT = 4 * 2**30
FARTHEST = 2**16  # widths from the origin: tests in float64 stay well inside the proofs' slack
_MAX_DECIMAL_EXPONENT = 999


def compile(
    target: str | Polynomial | sympy.Expr | Sequence[str | Polynomial | sympy.Expr],
    radius: int | float | Fraction | Decimal | str | None = None,
    *,
    domain: Sequence[tuple[Any, Any]] | Domain | None = None,
    variables: Sequence[str] | None = None,
    construction: str = "scaled",
    directions: str = "auto",
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    executor: str | None = None,
    outside: str = "raise",
    tolerance: float | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> CompiledModel:
    """Compile a polynomial into a transformer that equals it on a domain, and prove it.

    Args:
        target: a polynomial as text (``"x^2 + 3 x y"``), SymPy expression or ``Polynomial``; a list
            of them (or text with semicolons) for a vector, whose components share their blocks.
        radius: the ball ‖x‖ ≤ radius on which the model is certified, taken exactly; 1 by default.
        domain: in place of the ball a box, ``[(lower, upper), …]``, one interval a variable.
        variables: the order of the coordinates; may name unused ones. Natural order by default.
        construction: ``"scaled"``; ``"doubling"`` for ⌈log₂ q⌉ blocks; ``"chebyshev"`` for high
            degree; ``"softmax"`` for ordinary attention, within a certified error of the target;
            ``"paper"`` for the matrices of Theorem 3.5 as printed.
        directions: ``"auto"``, ``"lattice"``, ``"spread"`` or ``"tailored"`` (Lemma 3.3).
        dtype: the float format of the module; its rounding bound must be finite.
        device: where the module lives.
        executor: ``"fused"`` (default) evaluates the proven closed form, ``"literal"`` every matrix.
        outside: what to do with points off the ball: ``"raise"``, ``"nan"`` or ``"allow"``.
        tolerance: refuse a model whose certified |computed − target| is larger; ``"softmax"`` takes
            the fewest heads that meet it, and without it as many as make the error least.
        memory_limit: refuse models whose dense weights need more bytes than this.

    Raises:
        ExactformerError: if the input is wrong, too large, or anything cannot be proven.

    >>> import exactformer as ef
    >>> model = ef.compile("x^2 + y^2", radius=2)
    >>> float(model([1.0, 1.0]))
    2.0
    """
    if executor is not None:
        choose("executor", executor, EXECUTORS)
    choose("outside", outside, OUTSIDE)
    if tolerance is not None and not tolerance > 0:
        raise InputError(f"tolerance must be a positive number, not {tolerance!r}")
    polynomials = Target.coerce(target, variables)
    where = exact_domain(radius, domain, polynomials.variables)
    blueprint = draw(
        polynomials, where, construction, directions, dtype, memory_limit, tolerance=tolerance
    )
    model = prove(blueprint, polynomials, dtype, device, executor, outside)
    bound = model.certificate.bound(dtype, model.executor)
    if tolerance is not None and bound > tolerance:
        raise RoundingError(
            f"tolerance={tolerance:g} is not met: the certified error in {dtype} is {bound:.3g}"
        )
    return model


def prove(
    blueprint: Blueprint,
    target: Target,
    dtype: torch.dtype,
    device: torch.device | str | None,
    executor: str | None,
    outside: str,
) -> CompiledModel:
    """Return the module of a blueprint with its certificate; raise where there is no guarantee."""
    certificate = certify_blueprint(blueprint, target)
    model = CompiledModel(blueprint, certificate, dtype, outside, executor)
    certificate.bound(dtype, model.executor)  # raises where the format admits no guarantee
    return model if device is None else model.to(device)


def draw(
    target: Target,
    domain: Domain,
    construction: str = "scaled",
    directions: str = "auto",
    dtype: torch.dtype = torch.float64,
    memory_limit: int = MEMORY_LIMIT,
    *,
    tolerance: float | None = None,
    extrapolation: Extrapolation | None = None,
) -> Blueprint:
    """Return the blueprint of a target, refusing early what would not fit.

    The extrapolation of a softmax model is the best for ``dtype`` and ``tolerance`` unless given.
    """
    choose("construction", construction, (*CONSTRUCTIONS, *APPROXIMATIONS))
    number_format = float_format(dtype)  # raises for what is no float format

    def fits(width: int) -> None:
        check_size(target, width, dtype.itemsize, memory_limit)

    axes = range(target.dimension)
    centre, units = [domain.offset(j) for j in axes], [domain.unit(j) for j in axes]
    fits(1)  # before the polynomial is moved to the domain
    local = [polynomial.composed(centre, units) for polynomial in target]
    forms = ridge_forms(local, directions, fits)
    if construction == "softmax" and extrapolation is None:
        blueprint = fitted(forms, domain, target.vector, number_format, tolerance)
    else:
        options = {} if extrapolation is None else {"extrapolation": extrapolation}
        blueprint = construct(construction, forms, domain, target.vector, **options)
    return replace(blueprint, metadata={**blueprint.metadata, "target": str(target)})


def check_size(target: Target, tokens: int, itemsize: int, memory_limit: int) -> None:
    """Refuse a model whose dense matrices would not fit, with the figures and the way out."""
    q, d = target.degree, target.dimension
    width = tokens + q + 2
    readouts = tokens * width * len(target)
    entries = q * (2 * (tokens + 2) * width + width * width) + tokens * (d + width) + readouts
    if entries * itemsize > memory_limit:
        raise SizeError(
            f"degree {q} in {d} variables needs n = {tokens:,} tokens here; the blocks' matrices "
            f"then have {entries:,} entries, {entries * itemsize / 2**30:.1f} GiB, and the limit is "
            f"{memory_limit / 2**30:.1f} GiB. Lower the degree or the number of variables, try "
            "directions='tailored' if few monomials are present, or raise memory_limit="
        )


def exact_domain(radius: Any, domain: Any, variables: Sequence[str]) -> Domain:
    """Return the domain asked for: a ball round the origin, or a box given as [(lower, upper), …].

    >>> print(exact_domain(None, [(0, 1), ("-1/2", 2)], ["x", "y"]))
    [0, 1] × [-1/2, 2]
    """
    if domain is None:
        return Ball(exact_radius(1 if radius is None else radius))
    if radius is not None:
        raise InputError("give radius= for a ball or domain= for a box, not both")
    if isinstance(domain, Ball | Box):
        return domain
    try:
        sides = [(exact_number(low), exact_number(high)) for low, high in domain]
    except (TypeError, ValueError):
        raise InputError(
            f"domain= is a list of intervals (lower, upper), one a variable, not {domain!r}"
        ) from None
    if len(sides) != len(variables):
        raise InputError(
            f"domain= has {len(sides)} intervals for {len(variables)} variables "
            f"({', '.join(variables)})"
        )
    for name, (low, high) in zip(variables, sides, strict=True):
        if not low < high:
            raise InputError(f"the interval of {name} is empty: [{low}, {high}]")
        exact_radius((high - low) / 2)
        if abs(low + high) > FARTHEST * (high - low):
            raise InputError(
                f"the interval of {name} lies too far from 0 for its width (limit {FARTHEST:,} "
                "widths); subtract its centre from the variable"
            )
    return Box.of(sides)


def exact_number(value: Any) -> Fraction:
    """Return a number exactly; text such as ``"1/3"`` or ``"0.1"`` included."""
    if isinstance(value, bool) or _is_astronomic(value):
        raise InputError(f"{value!r} is not a number of reasonable size")
    try:
        return Fraction(value)
    except (TypeError, ValueError, ArithmeticError):
        raise InputError(f"{value!r} is not a finite number") from None


def exact_radius(radius: Any) -> Fraction:
    """Return a radius exactly; text such as ``"1/3"`` or ``"0.1"`` included."""
    try:
        exact = exact_number(radius)
    except InputError:
        exact = None
    if exact is None or exact <= 0:
        raise InputError(f"radius must be a positive finite number below 2^500, not {radius!r}")
    if not Fraction(2) ** -500 <= exact <= Fraction(2) ** 500:
        raise InputError("the radius is beyond 2^±500; rescale the variables")
    return exact


def _is_astronomic(radius: object) -> bool:
    """Whether writing the number out would take forever: text or a Decimal with a huge exponent."""
    if isinstance(radius, Decimal):
        return not radius.is_finite() or abs(radius.adjusted()) > _MAX_DECIMAL_EXPONENT
    if isinstance(radius, str):
        exponent = radius.lower().partition("e")[2].strip("+-_ 0")
        return len(exponent) > len(str(_MAX_DECIMAL_EXPONENT)) or len(radius) > 10_000
    return False


def choose(name: str, value: str, options: Sequence[str]) -> None:
    """Raise unless the value is one of the options."""
    if value not in options:
        raise InputError(f"{name}={value!r}; choose one of {', '.join(options)}")
