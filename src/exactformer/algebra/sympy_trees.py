"""SymPy expressions as polynomials, multiplied out under the limits that texts have.

Sums, products, whole powers, symbols and numbers are read here. Anything else (roots that cancel, say)
is for SymPy itself to bring to polynomial form, as long as that stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from flint import fmpq_mpoly

from exactformer.algebra.limits import check_power, check_product, check_sum, power_terms
from exactformer.algebra.rational import to_fmpq
from exactformer.algebra.ring import natural_order, ring
from exactformer.errors import InputError, SizeError

if TYPE_CHECKING:
    import sympy

MAX_EXPANDED = 100_000
"""Terms that SymPy, which is slower, is left to multiply out."""


def is_sympy(value: object) -> bool:
    """Whether a value is SymPy's, classes made by it included; SymPy is not imported for asking."""
    return any(str(c.__module__).partition(".")[0] == "sympy" for c in type(value).__mro__)


def unwrapped(expression: object) -> tuple[Any, list[Any]]:
    """Return the expression in a SymPy object, and its symbols: in natural order, or as it has them."""
    import sympy

    if isinstance(expression, sympy.Lambda):
        plain, symbols = expression.expr, list(expression.variables)
    elif isinstance(expression, sympy.Poly):
        if expression.domain.is_FiniteField:
            raise InputError(
                f"{expression} counts modulo {expression.domain.mod}, not over the rationals"
            )
        plain, symbols = expression.as_expr(), list(expression.gens)
    elif isinstance(expression, sympy.Expr):
        plain, symbols = expression, []
    else:  # sympify would run text as code
        kind = type(expression).__name__
        raise InputError(f"from_sympy takes a SymPy expression, not {kind}; text is for parse")
    if plain.is_commutative is False or getattr(plain, "is_Matrix", False):
        raise InputError(f"{expression} is not made of numbers: its products depend on their order")
    others = set(plain.free_symbols) - set(symbols)
    return plain, symbols + sorted(others, key=lambda s: natural_order(str(s)))


def polynomial_of(expression: sympy.Expr, places: Mapping[str, int]) -> fmpq_mpoly | None:
    """Return an expression in the named variables multiplied out; None if it is not made of them."""
    try:
        return _read(expression, places)
    except RecursionError:
        raise InputError(
            "the SymPy expression nests too deeply; multiply out the inner parentheses"
        ) from None


def check_expansion(expression: sympy.Expr) -> None:
    """Refuse an expression that SymPy would have to multiply out into too many terms."""
    terms = _most_terms(expression)
    if terms > MAX_EXPANDED:
        raise SizeError(
            f"the SymPy expression could have {terms:.1e} terms when multiplied out, the limit is "
            f"{MAX_EXPANDED:,} for one with roots or functions; simplify it first"
        )


def _read(expression: Any, places: Mapping[str, int]) -> fmpq_mpoly | None:
    if expression.is_Symbol:
        place = places.get(str(expression))
        return None if place is None else ring(len(places)).gens()[place]
    if expression.is_Rational or expression.is_Float:
        if not expression.is_finite:
            return None
        constant = {(0,) * len(places): to_fmpq(_exact(expression))}
        return ring(len(places)).from_dict(constant)
    if expression.is_Add:
        return _folded(expression.args, places, check_sum, lambda a, b: a + b)
    if expression.is_Mul:
        return _folded(expression.args, places, check_product, lambda a, b: a * b)
    if expression.is_Pow and expression.exp.is_Integer and expression.exp >= 0:
        base = _read(expression.base, places)
        if base is None:
            return None
        check_power(base, int(expression.exp))
        return base ** int(expression.exp)
    return None


def _folded(
    parts: Any,
    places: Mapping[str, int],
    check: Callable[[fmpq_mpoly, fmpq_mpoly], None],
    join: Callable[[fmpq_mpoly, fmpq_mpoly], fmpq_mpoly],
) -> fmpq_mpoly | None:
    """Join all parts, neighbours first: a long sum is not copied once for each of its terms."""
    found: list[fmpq_mpoly] = []
    for part in parts:
        read = _read(part, places)
        if read is None:
            return None
        found.append(read)
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        joined = []
        for left, right in pairs:
            check(left, right)
            joined.append(join(left, right))
        found = joined + found[len(found) - len(found) % 2 :]
    return found[0]


def _exact(number: Any) -> Any:
    import sympy

    rational = sympy.Rational(number)
    return Fraction(int(rational.p), int(rational.q))


def _most_terms(expression: Any) -> float:
    if expression.is_Add:
        return float(sum(_most_terms(part) for part in expression.args))
    if expression.is_Mul:
        return float(prod(_most_terms(part) for part in expression.args))
    if expression.is_Pow and expression.exp.is_Integer and expression.exp >= 0:
        terms = _most_terms(expression.base)
        if terms > MAX_EXPANDED:
            return terms
        count = power_terms(int(terms), int(expression.exp))
        return float("inf") if count is None or count > 10**300 else float(count)
    return 1.0
