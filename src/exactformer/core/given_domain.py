"""What users write for a domain, read exactly: a radius, or a list of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from exactformer.algebra.rational import to_fmpq, to_fraction
from exactformer.algebra.ring import default_names
from exactformer.core.domain import Ball, Box, Domain
from exactformer.errors import InputError

FARTHEST = 2**16  # widths from the origin: tests in float64 stay well inside the proofs' slack
_MAX_DECIMAL_EXPONENT = 999


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
        domain.check_dimension(len(variables))
        for j, name in enumerate(variables):
            _check_side(name, domain.offset(j), domain.extent(j))
        if isinstance(domain, Ball):
            exact_radius(domain.radius)  # without variables, too
        return domain
    try:
        sides = [(exact_number(low), exact_number(high)) for low, high in domain]
    except (TypeError, ValueError) as error:
        why = f": {error}" if isinstance(error, InputError) else ""
        raise InputError(
            f"domain= is a list of intervals (lower, upper), one per variable, not {domain!r}{why}"
        ) from None
    if len(sides) != len(variables):
        raise InputError(
            f"domain= has {len(sides)} intervals for {len(variables)} variables "
            f"({', '.join(variables)})"
        )
    for name, (low, high) in zip(variables, sides, strict=True):
        if not low < high:
            raise InputError(f"the interval of {name} is empty: [{low}, {high}]")
        _check_side(name, (low + high) / 2, (high - low) / 2)
    return Box.of(sides)


def _check_side(name: str, centre: Fraction, half_width: Fraction) -> None:
    exact_radius(half_width)
    if abs(centre) > FARTHEST * half_width:
        raise InputError(
            f"the interval of {name} lies too far from 0 for its width (limit {FARTHEST:,} widths); "
            "subtract its centre from the variable"
        )


def function_domain(
    radius: Any, domain: Any, variables: Sequence[str] | None
) -> tuple[Box, Sequence[str]]:
    """Return the box a function is compiled on, and names for its coordinates."""
    if radius is not None or domain is None or isinstance(domain, Ball):
        raise InputError("a function is compiled on a box: give domain=[(lower, upper), …]")
    try:
        count = len(domain.centre if isinstance(domain, Box) else domain)
    except TypeError:
        raise InputError(f"domain= is a list of intervals (lower, upper), not {domain!r}") from None
    if not count:
        raise InputError("domain= needs at least one interval (lower, upper)")
    names = default_names(count) if variables is None else list(variables)
    box = exact_domain(None, domain, names)
    assert isinstance(box, Box)
    return box, names


def exact_number(value: Any) -> Fraction:
    """Return a number exactly: text such as ``"1/3"`` or ``"0.1"``, numbers of NumPy and of torch."""
    try:
        number = value.item() if hasattr(value, "item") else value
        usual = not (isinstance(number, bool) or _is_astronomic(number))
        if usual:
            return Fraction(number) if isinstance(number, str) else to_fraction(to_fmpq(number))
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        raise InputError(f"{value!r} is not a finite number") from None
    raise InputError(f"{value!r} is not a number of reasonable size")


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
