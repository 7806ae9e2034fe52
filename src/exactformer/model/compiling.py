"""``compile``: polynomial to ridge form to blueprint to certified module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.blueprint import Blueprint
from exactformer.certificates import EXECUTORS, certify_blueprint
from exactformer.constructions import CONSTRUCTIONS
from exactformer.errors import InputError, SizeError
from exactformer.execution.formats import float_format
from exactformer.model.compiled import OUTSIDE, CompiledModel

if TYPE_CHECKING:
    import sympy

MEMORY_LIMIT = 4 * 2**30
_MAX_DECIMAL_EXPONENT = 999


def compile(
    target: str | Polynomial | sympy.Expr,
    radius: int | float | Fraction | Decimal | str = 1,
    *,
    variables: Sequence[str] | None = None,
    construction: str = "scaled",
    directions: str = "auto",
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
    executor: str = "fused",
    outside: str = "raise",
    memory_limit: int = MEMORY_LIMIT,
) -> CompiledModel:
    """Compile a polynomial into a transformer that equals it on ‖x‖ ≤ radius, and prove it.

    Args:
        target: a polynomial as text (``"x^2 + 3 x y"``), SymPy expression or ``Polynomial``.
        radius: the ball on which the model is certified, taken exactly.
        variables: the order of the coordinates; may name unused ones. Natural order by default.
        construction: ``"scaled"``, or ``"paper"`` for the matrices of Theorem 3.5 as printed.
        directions: ``"auto"``, ``"lattice"``, ``"spread"`` or ``"tailored"`` (Lemma 3.3).
        dtype: the float format of the module; its rounding bound must be finite.
        device: where the module lives.
        executor: ``"fused"`` evaluates the proven closed form, ``"literal"`` every matrix.
        outside: what to do with points off the ball: ``"raise"``, ``"nan"`` or ``"allow"``.
        memory_limit: refuse models whose dense weights need more bytes than this.

    Raises:
        ExactformerError: if the input is wrong, too large, or anything cannot be proven.

    >>> import exactformer as ef
    >>> model = ef.compile("x^2 + y^2", radius=2)
    >>> float(model([1.0, 1.0]))
    2.0
    """
    polynomial = Polynomial.coerce(target, variables)
    blueprint = draw(
        polynomial, exact_radius(radius), construction, directions, dtype, memory_limit
    )
    _choose("executor", executor, EXECUTORS)
    _choose("outside", outside, OUTSIDE)
    certificate = certify_blueprint(blueprint, polynomial)
    model = CompiledModel(blueprint, certificate, dtype, outside, executor)
    certificate.bound(dtype, executor)  # raises where the format admits no guarantee
    return model if device is None else model.to(device)


def draw(
    polynomial: Polynomial,
    radius: Fraction,
    construction: str = "scaled",
    directions: str = "auto",
    dtype: torch.dtype = torch.float64,
    memory_limit: int = MEMORY_LIMIT,
) -> Blueprint:
    """Return the blueprint of a polynomial, refusing early what would not fit."""
    _choose("construction", construction, tuple(CONSTRUCTIONS))
    float_format(dtype)  # raises for what is no float format

    def fits(width: int) -> None:
        check_size(polynomial, width, dtype.itemsize, memory_limit)

    form = ridge_form(polynomial, directions, fits)
    blueprint = CONSTRUCTIONS[construction](form, radius)
    return replace(blueprint, metadata={**blueprint.metadata, "target": str(polynomial)})


def check_size(polynomial: Polynomial, tokens: int, itemsize: int, memory_limit: int) -> None:
    """Refuse a model whose dense matrices would not fit, with the figures and the way out."""
    q, d = polynomial.degree, polynomial.dimension
    width = tokens + q + 2
    entries = q * (2 * (tokens + 1) * width + width * width) + tokens * (d + 2 * width)
    if entries * itemsize > memory_limit:
        raise SizeError(
            f"degree {q} in {d} variables needs n = {tokens:,} tokens here; the blocks' matrices "
            f"then have {entries:,} entries, {entries * itemsize / 2**30:.1f} GiB, and the limit is "
            f"{memory_limit / 2**30:.1f} GiB. Lower the degree or the number of variables, try "
            "directions='tailored' if few monomials are present, or raise memory_limit="
        )


def exact_radius(radius: Any) -> Fraction:
    """Return a radius exactly; text such as ``"1/3"`` or ``"0.1"`` included."""
    try:
        exact = None if isinstance(radius, bool) or _is_astronomic(radius) else Fraction(radius)
    except (TypeError, ValueError, ArithmeticError):
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


def _choose(name: str, value: str, options: Sequence[str]) -> None:
    if value not in options:
        raise InputError(f"{name}={value!r}; choose one of {', '.join(options)}")
