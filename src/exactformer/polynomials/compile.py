"""``compile``: polynomials to ridge forms to blueprint to certified module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.ridge import ridge_forms
from exactformer.core.domain import Domain
from exactformer.core.formats import float_format
from exactformer.core.given_domain import exact_domain, function_domain
from exactformer.core.options import MEMORY_LIMIT, choose
from exactformer.errors import InputError, RoundingError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import APPROXIMATIONS, CONSTRUCTIONS, construct
from exactformer.polynomials.constructions.tanh_extrapolation import Extrapolation
from exactformer.polynomials.extrapolation_choice import fitted
from exactformer.polynomials.functions.compile import approximate
from exactformer.polynomials.model import PolynomialModel
from exactformer.polynomials.proof.certificate import EXECUTORS
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.polynomials.sizes import check_size

if TYPE_CHECKING:
    import sympy


def compile(
    target: str
    | Polynomial
    | sympy.Expr
    | Sequence[str | Polynomial | sympy.Expr]
    | Callable[..., Any],
    radius: int | float | Fraction | Decimal | str | None = None,
    *,
    domain: Sequence[tuple[Any, Any]] | Domain | None = None,
    variables: Sequence[str] | None = None,
    construction: str | None = None,
    directions: str = "auto",
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    executor: str | None = None,
    outside: str = "raise",
    tolerance: float | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> PolynomialModel:
    """Compile a polynomial into a transformer that equals it on a domain, and prove it.

    A continuous function is approximated to a tolerance first, on a box; the model is then proven to
    equal the polynomial, and ``model.approximation`` says how far that was measured to be from the
    function.

    Args:
        target: a polynomial as text (``"x^2 + 3 x y"``), SymPy expression or ``Polynomial``; a list
            of them (or text with semicolons) for a vector, whose components share their blocks. Or a
            function, ``f(x, y)`` or of points with coordinates on the last axis.
        radius: the ball ‖x‖ ≤ radius on which the model is certified, taken exactly; 1 by default.
        domain: in place of the ball a box, ``[(lower, upper), …]``, one interval a variable.
        variables: the order of the coordinates; may name unused ones. Natural order by default.
        construction: ``"scaled"`` (default for polynomials); ``"doubling"`` for ⌈log₂ q⌉ blocks;
            ``"chebyshev"`` for high degree (default for functions); ``"softmax"`` for ordinary
            attention, within a certified error of the target; ``"paper"`` for the matrices of
            Theorem 3.5 as printed.
        directions: ``"auto"``, ``"lattice"``, ``"spread"`` or ``"tailored"`` (Lemma 3.3).
        dtype: the float format of the module; its rounding bound must be finite.
        device: where the module lives.
        executor: ``"fused"`` (default) evaluates the proven closed form, ``"literal"`` every matrix.
        outside: what to do with points outside: ``"raise"``, ``"nan"`` or ``"allow"``.
        tolerance: the largest error accepted. For a polynomial a certified one; ``"softmax"`` takes
            the fewest heads that meet it, and without it as many as make the error least.
            For a function it is needed, and measured.
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
    choose("outside", outside, PolynomialModel.OUTSIDE)
    if callable(target):
        choose("construction", construction or "chebyshev", ("chebyshev",))
        box, names = function_domain(radius, domain, variables)
        blueprint, found = approximate(target, box, tolerance, names, executor, dtype, memory_limit)
        return prove(blueprint, found, dtype, device, executor, outside)
    if tolerance is not None and not tolerance > 0:
        raise InputError(f"tolerance must be a positive number, not {tolerance!r}")
    polynomials = Target.coerce(target, variables)
    where = exact_domain(radius, domain, polynomials.variables)
    blueprint = draw(
        polynomials,
        where,
        construction or "scaled",
        directions,
        dtype,
        memory_limit,
        tolerance=tolerance,
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
) -> PolynomialModel:
    """Return the module of a blueprint with its certificate; raise where there is no guarantee."""
    certificate = certify_blueprint(blueprint, target)
    model = PolynomialModel(blueprint, certificate, dtype, outside, executor)
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
