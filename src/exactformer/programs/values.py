"""Values of program expressions: None, exact numbers, texts, and tuples of these.

Numbers are exact, and flags are the numbers 0 and 1, so that equal values are the same for every
function. Functions of a program are called with integers whose quotient is a fraction, so that
``x / 3`` is a third and not its float; a float that a function returns is the dyadic number that it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import isfinite
from typing import Any

from exactformer.core import header
from exactformer.errors import FileFormatError, InputError

Value = Any
"""None, int, Fraction, str, or a tuple of values."""


class Whole(int):
    """An integer whose quotients are fractions: ``Whole(1) / 3 == Fraction(1, 3)``.

    >>> (Whole(1) + 1) / 3
    Fraction(2, 3)
    """

    def __truediv__(self, other: Any) -> Any:
        return Fraction(self) / _plain(other) if isinstance(other, int) else int(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return Fraction(_plain(other)) / int(self) if isinstance(other, int) else other / int(self)

    def __neg__(self) -> Whole:
        return Whole(-int(self))

    def __abs__(self) -> Whole:
        return Whole(abs(int(self)))


def _closed(name: str) -> Callable[[Whole, Any], Any]:
    operation = getattr(int, name)

    def method(self: Whole, other: Any) -> Any:
        result = operation(self, other)
        return Whole(result) if type(result) is int else result

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "pow"):
    for _spelling in (f"__{_name}__", f"__r{_name}__"):
        setattr(Whole, _spelling, _closed(_spelling))


def canonical(value: Any) -> Value:
    """Return a value in its plain form: integers and flags as int, other numbers as fractions.

    >>> canonical(0.5), canonical(Fraction(4, 2)), canonical(("a", 1.0))
    (Fraction(1, 2), 2, ('a', 1))
    """
    if value is None:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple):
        return tuple(map(canonical, value))
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return canonical(value.item())
    if isinstance(value, float) and isfinite(value):
        value = Fraction(value)
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else value
    raise InputError(
        f"{value!r} is not a value of a program; values are None, finite numbers, texts and "
        "tuples of these"
    )


def applied(function: Callable[..., Any], *values: Value) -> Value:
    """Return what a function of a program makes of values, the same however often it is called.

    Raises:
        InputError: if it gives something else when called again.
    """
    first, again = (canonical(function(*map(_given, values))) for _ in range(2))
    if first != again:
        raise InputError(
            f"a function of this program gives {first!r} and then {again!r} for {values}, so it has no "
            "table"
        )
    return first


def is_number(value: Value) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | Fraction)


def in_order(values: Iterable[Value]) -> list[Value]:
    """Return the different values: None, then numbers, texts and tuples, each ascending."""
    return sorted(dict.fromkeys(values), key=_rank)


def spelled(value: Value) -> str:
    """Return a value as text, without loss."""
    if value is None:
        return "n"
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, tuple):
        return f"t{json.dumps(list(map(spelled, value)))}"
    return f"r{header.rational_text(Fraction(value))}"


def words_of(values: Iterable[Value]) -> list[str]:
    """Return a word for each of some values: as it is printed, or spelled where two are alike.

    >>> words_of([1, "a"]), words_of([1, "1"])
    (['1', 'a'], ['r1/1', 's1'])
    """
    values = list(values)
    plain = list(map(str, values))
    return plain if len(set(plain)) == len(plain) else list(map(spelled, values))


def read(text: str) -> Value:
    """Return the value that a text spells."""
    kind, rest = text[:1], text[1:]
    if kind == "s":
        return rest
    if kind == "r":
        return canonical(header.rational(rest))
    if kind == "t":
        items = header.list_of(header.parse(rest), "a tuple", header.any_text)
        if any(item.startswith("t") and len(item) > len(rest) for item in items):
            raise FileFormatError(f"{text[:40]!r} is not a value of a program")
        return tuple(map(read, items))
    if text == "n":
        return None
    raise FileFormatError(f"{text[:40]!r} is not a value of a program")


def _given(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_given, value))
    return Whole(value) if type(value) is int else value


def _plain(value: Any) -> int:
    return int(value)


def _rank(value: Value) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, str):
        return 2, value
    if isinstance(value, tuple):
        return 3, len(value), tuple(map(_rank, value))
    return 1, value
