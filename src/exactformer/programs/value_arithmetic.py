"""Arithmetic on values of programs: exact, and refused where a result grows too large."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise

from exactformer.errors import InputError
from exactformer.programs.values import Value, canonical, is_number

LARGEST = 10**30
"""The largest numerator and denominator."""
LONGEST_VALUE = 60
"""Characters of a text."""
LARGEST_EXPONENT = 100


def checked(value: Value) -> Value:
    """Return a value in its plain form, if it is small enough."""
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        raise InputError(f"a text has at most {LONGEST_VALUE} characters; this has {len(value)}")
    if is_number(value) and max(abs(value.numerator), value.denominator) > LARGEST:
        raise InputError(f"numerators and denominators reach {LARGEST:.0e} at most")
    return canonical(value)


def negated(x: Value) -> Value:
    """Return −x."""
    return checked(-_number(x, "-"))


def _number(x: Value, sign: str) -> Fraction:
    if not is_number(x):
        raise InputError(f"{sign} takes numbers, not {str(x)[:40]!r}")
    return Fraction(x)


def _arithmetic(
    sign: str, f: Callable[[Fraction, Fraction], Value]
) -> Callable[[Value, Value], Value]:
    def value(x: Value, y: Value) -> Value:
        x, y = canonical(x), canonical(y)
        if sign == "+" and isinstance(x, str) and isinstance(y, str):
            return checked(x + y)
        try:
            return checked(f(_number(x, sign), _number(y, sign)))
        except ZeroDivisionError:
            raise InputError(f"{x} {sign} {y} is a division by zero") from None

    return value


def _power(x: Fraction, y: Fraction) -> Value:
    if y.denominator > 1 or not 0 <= y <= LARGEST_EXPONENT:
        raise InputError(f"an exponent is an integer from 0 to {LARGEST_EXPONENT}, not {y}")
    return x ** int(y)


def _order(sign: str, f: Callable[[Value, Value], bool]) -> Callable[[Value, Value], Value]:
    def value(x: Value, y: Value) -> Value:
        x, y = canonical(x), canonical(y)
        alike = (is_number(x) and is_number(y)) or (isinstance(x, str) and isinstance(y, str))
        if not alike and sign not in ("==", "!="):
            raise InputError(f"{x!r} {sign} {y!r} compares things without an order")
        return int(f(x, y))

    return value


def _extreme(sign: str, f: Callable[..., Value]) -> Callable[..., Value]:
    less = _order(sign, operator.lt)

    def value(*values: Value) -> Value:
        for x, y in pairwise(values):
            less(x, y)  # raises where there is no order
        return checked(f(values))

    return value


BINARY: Mapping[type[ast.AST], Callable[[Value, Value], Value]] = {
    ast.Add: _arithmetic("+", operator.add),
    ast.Sub: _arithmetic("-", operator.sub),
    ast.Mult: _arithmetic("*", operator.mul),
    ast.Div: _arithmetic("/", operator.truediv),
    ast.FloorDiv: _arithmetic("//", operator.floordiv),
    ast.Mod: _arithmetic("%", operator.mod),
    ast.Pow: _arithmetic("**", _power),
}
COMPARING: Mapping[type[ast.AST], Callable[[Value, Value], Value]] = {
    ast.Eq: _order("==", operator.eq),
    ast.NotEq: _order("!=", operator.ne),
    ast.Lt: _order("<", operator.lt),
    ast.LtE: _order("<=", operator.le),
    ast.Gt: _order(">", operator.gt),
    ast.GtE: _order(">=", operator.ge),
}
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "abs": lambda x: checked(abs(_number(x, "abs"))),
    "min": _extreme("min", min),
    "max": _extreme("max", max),
}
"""What functions of a program may call."""
