"""Typed reading of a file's header: every value is checked for type and range before it is used.

A seal protects a file against accidents only. Anybody can write a header and seal it, so nothing in it
is an integer, a name or a list because it should be one. Each function here takes a value of the parsed
JSON and what it is called, and returns it with its type, or raises :class:`FileFormatError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import inf
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import FileFormatError

Item = TypeVar("Item")

MOST = 2**31 - 1
"""The largest count that a header may state, far beyond what memory holds."""
MOST_DIGITS = 3500
"""Hexadecimal digits of a numerator or denominator; Python writes no more than 4,300 decimal ones."""
MOST_FLOAT = 2**1023
"""A size that float64 holds, whichever way it is rounded."""
_RATIONAL = re.compile(r"-?[0-9a-f]+/[0-9a-f]+")


def parse(document: str, floats: bool = False) -> Any:
    """Parse JSON of objects, lists, texts, integers and flags; floats only where asked for."""
    try:
        return json.loads(
            document,
            parse_float=float if floats else _refuse_number,
            parse_constant=float if floats else _refuse_number,
            object_pairs_hook=_object,
        )
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"the header is not the JSON of a model: {error}") from None


def mapping(value: Any, name: str) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise refusal(value, name, "an object")
    return value


def entry(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field of an object."""
    if name not in fields:
        raise FileFormatError(f"the header has no {name!r}")
    return fields[name]


def integer(value: Any, name: str, low: int = 0, high: int = MOST) -> int:
    """Return an integer between ``low`` and ``high``; true and false are not integers.

    >>> integer(3, "tokens", 1)
    3
    """
    if type(value) is not int:
        raise refusal(value, name, "an integer")
    if not low <= value <= high:
        shown = f"{value:,}" if abs(value) < 2**64 else f"an integer of {value.bit_length():,} bits"
        raise FileFormatError(f"{name} is {shown}; it must lie between {low:,} and {high:,}")
    return value


def number(value: Any, name: str, low: float = 0.0, high: float = inf) -> float:
    """Return a float between ``low`` and ``high``; what is not a number lies nowhere."""
    if type(value) not in (int, float) or not (abs(value) < MOST_FLOAT or value == inf):
        raise refusal(value, name, "a number")
    if not low <= value <= high:
        raise FileFormatError(f"{name} is {value!r}; it must lie between {low:g} and {high:g}")
    return float(value)


def flag(value: Any, name: str) -> bool:
    """Return true or false; 0, 1 and texts are neither."""
    if not isinstance(value, bool):
        raise refusal(value, name, "true or false")
    return value


def text(value: Any, name: str) -> str:
    """Return a text of one line, without control characters and marks of direction."""
    if not any_text(value, name).isprintable():
        raise FileFormatError(f"{name} has characters that cannot be printed: {value[:40]!r}")
    return str(value)


def any_text(value: Any, name: str) -> str:
    """Return a text that can be encoded, and so saved again; it is printed by ``repr``."""
    if not isinstance(value, str):
        raise refusal(value, name, "a text")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise FileFormatError(f"{name} holds half of a character: {value[:40]!r}")
    return value


def choice(value: Any, name: str, kind: Callable[[str], Item]) -> Item:
    """Return a member of an enumeration by its text."""
    try:
        return kind(text(value, name))
    except ValueError:
        raise FileFormatError(f"{name} is {value[:40]!r}, which is not known") from None


def list_of(
    value: Any,
    name: str,
    read: Callable[[Any, str], Item],
    low: int = 0,
    high: int = MOST,
) -> tuple[Item, ...]:
    """Return a list of ``low`` to ``high`` items, each read by ``read``."""
    if not isinstance(value, list):
        raise refusal(value, name, "a list")
    if not low <= len(value) <= high:
        wanted = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        raise FileFormatError(f"{name} has {len(value):,} items, not {wanted}")
    return tuple(read(item, f"item {k} of {name}") for k, item in enumerate(value, start=1))


def check_names(names: Sequence[str], what: str) -> None:
    """Raise where a name occurs twice."""
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise FileFormatError(f"{what} has {twice[:40]!r} twice")


def texts(value: Any, name: str) -> dict[str, str]:
    """Return an object whose values are texts."""
    fields = mapping(value, name)
    return {text(key, name): text(item, f"{name}[{key!r}]") for key, item in fields.items()}


def rational(value: Any, name: str = "a number") -> Fraction:
    """Return the rational that a text spells as hexadecimal ``numerator/denominator``."""
    if not isinstance(value, str) or not _RATIONAL.fullmatch(value):
        raise refusal(value, name, "a rational number, hexadecimal numerator/denominator")
    above, below = value.split("/")
    if max(len(above), len(below)) > MOST_DIGITS:
        raise FileFormatError(
            f"{name} has {max(len(above), len(below)):,} digits; the limit is {MOST_DIGITS:,}"
        )
    numerator, denominator = int(above, 16), int(below, 16)
    if denominator == 0:
        raise FileFormatError(f"{name} has denominator zero: {value[:40]!r}")
    return Fraction(numerator, denominator)


def rational_text(value: Fraction) -> str:
    """Return a rational in hexadecimal, which has no limit on digits and no rounding."""
    return f"{value.numerator:x}/{value.denominator:x}"


def tensor(value: NDArray[Any], name: str, kind: Any, sides: int) -> NDArray[Any]:
    """Return a tensor of a type with so many sides."""
    if value.dtype != np.dtype(kind) or value.ndim != sides:
        raise FileFormatError(
            f"{name} is a tensor of {value.dtype} with {value.ndim} sides, not of {np.dtype(kind)} "
            f"with {sides}"
        )
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise FileFormatError("the header names a field twice")
    return found


def _refuse_number(spelling: str) -> NoReturn:
    raise FileFormatError(f"the header holds {spelling[:40]}, which is not an integer")


def refusal(value: Any, name: str, wanted: str) -> FileFormatError:
    """Return the error about a value that is not ``wanted``."""
    shown = repr(value if not isinstance(value, str) else value[:40])
    return FileFormatError(f"{name or 'the model'} must be {wanted}, not {shown[:60]}")
