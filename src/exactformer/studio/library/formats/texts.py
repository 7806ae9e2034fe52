"""From the bytes of a file to text and plain data, within bounds.

Nothing here trusts a file: bytes are counted before they are decoded, nesting is bounded, and a
refusal says where reading stopped.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from exactformer.studio.errors import InvalidError, StudioError, TooLargeError

Record = TypeVar("Record")

MOST_BYTES = 16 << 20
MOST_RECORDS = 5000
MOST_DEPTH = 40


def decoded(data: bytes) -> str:
    """Return the text of a file: UTF-8, or UTF-16 with its mark at the beginning."""
    if len(data) > MOST_BYTES:
        raise TooLargeError(f"The file has {len(data):,} bytes; the limit is {MOST_BYTES:,}.")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidError(
            f"Line {line}: byte 0x{data[error.start]:02X} is not {error.encoding.upper()}. "
            "Save the file as UTF-8 and try again."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidError(f"Line {line}: the file holds NUL characters; it is not a text.")
    return text


def parsed_json(text: str) -> Any:
    """Return the data of a JSON text, at most ``MOST_DEPTH`` levels deep."""
    try:
        data = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise InvalidError(
            f"Line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}."
        ) from None
    except RecursionError:
        raise InvalidError(_too_deep()) from None
    except ValueError as error:
        raise InvalidError(f"This is not JSON we can read: {str(error)[:200]}.") from None
    _check_depth(data)
    return data


Problems = list[str] | None
"""Where what is wrong with single records is noted; with None the first one refuses the whole file."""

MOST_PROBLEMS = 100


def collected(
    items: Iterable[Any], make: Callable[[Any, str], Record], name: str, problems: Problems
) -> list[Record]:
    """Make a record of every item, called ``name`` and its number; note those that are refused."""
    made = []
    for number, item in enumerate(items, 1):
        try:
            made.append(make(item, f"{name} {number}"))
        except (InvalidError, TooLargeError) as refusal:
            note(problems, refusal)
    return made


def note(problems: Problems, refusal: StudioError) -> None:
    """Note what is wrong with a record, or refuse the file if nobody wants to know."""
    if problems is None or len(problems) >= MOST_PROBLEMS:
        raise refusal
    problems.append(str(refusal))


def check_number(count: int) -> None:
    """Refuse more records than one import may hold."""
    if count > MOST_RECORDS:
        raise TooLargeError(
            f"The file holds {count:,} records; the limit is {MOST_RECORDS:,}. Split it."
        )


def _check_depth(data: Any) -> None:
    level = [data]
    for _ in range(MOST_DEPTH + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise InvalidError(_too_deep())


def _too_deep() -> str:
    return f"The data are nested deeper than {MOST_DEPTH} levels, which no bibliography needs."


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits[:40])


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that can be stored")
