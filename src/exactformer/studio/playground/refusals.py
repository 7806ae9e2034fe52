"""Refusals of the library in the words of a page, with a remedy that a button applies.

The library speaks of arguments and limits of Python programs. A page has fields, and smaller limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import floor, hypot, log10
from typing import Any

from exactformer.core.words import plural
from exactformer.errors import (
    ExactformerError,
    InputError,
    OutsideDomainError,
    ParseError,
    SizeError,
)

FIELDS = {
    "p": "the polynomial",
    "radius": "the radius",
    "construction": "the construction",
    "directions": "the directions",
    "dtype": "the number format",
    "map": "the map",
    "tokens": "the number of tokens",
    "dim": "the numbers per token",
    "cells": "the cells per side",
    "form": "the form",
    "positional": "the positions",
    "kernel": "the kernel",
    "m": "the head size",
    "x": "the point x",
    "axes": "the axes",
}
"""What fields are called on pages."""

_ARGUMENT = re.compile(r"\b([a-z_]+)=(?=['\"\d])")
_OF_PYTHON = re.compile(
    r"memory_limit|executor|outside=|Polynomial\.|ef\.|\bPython\b|dtype=torch|delta=|must be declared"
)


class RefusedError(InputError):
    """A refused request; ``remedy`` has what to set in which field, and the label of a button."""

    def __init__(self, message: str, label: str = "", **values: str) -> None:
        super().__init__(message)
        self.remedy = {"label": label, "set": values} if values else None


def worded(error: ExactformerError, request: dict[str, Any]) -> ExactformerError:
    """Return ``error`` as a page says it; errors that point at a place in a text stay as they are."""
    if isinstance(error, ParseError) and "polynomial" in request:
        return _not_a_polynomial(error, request["polynomial"])
    if isinstance(error, RefusedError | ParseError):
        return error
    if isinstance(error, OutsideDomainError) and "x" in request:
        return _outside(request)
    if isinstance(error, SizeError) and "cells" in request:
        return _too_many_keys(request)
    if isinstance(error, SizeError) and "polynomial" in request:
        return _too_large(error, request)
    return RefusedError(plain(str(error)))


def check_choices(request: object, choices: Mapping[str, Sequence[str]]) -> None:
    """Refuse a request in which a field is none of its choices."""
    for name, options in choices.items():
        if (value := getattr(request, name)) not in options:
            raise InputError(f"{name}={value!r}; choose one of {', '.join(options)}")


def plain(message: str) -> str:
    """Return a message without what only Python programs have.

    >>> plain("radius='x' is not a number; raise memory_limit=")
    "the radius 'x' is not a number"
    """
    kept = [part for part in re.split(r"(?<=[.;]) ", message) if not _OF_PYTHON.search(part)]
    text = " ".join(kept) or message
    return _ARGUMENT.sub(lambda name: f"{FIELDS.get(name[1], name[1])} ", text).rstrip("; ")


def _not_a_polynomial(error: ParseError, text: str) -> RefusedError:
    from exactformer.studio.playground.polynomial import refused

    told = refused(error, text)
    remedy = told["remedy"] or {"label": "", "set": {}}
    place = f" (character {told['column']})" if told["column"] else ""
    return RefusedError(told["problem"] + place, remedy["label"], **remedy["set"])


def _outside(request: dict[str, Any]) -> RefusedError:
    from exactformer.core.given_domain import exact_number

    point = [float(exact_number(part.strip())) for part in request["x"].split(",")]
    radius, size = float(exact_number(request["radius"])), hypot(*point)
    inside = ",".join(f"{_short(0.98 * c * radius / size):g}" for c in point)
    return RefusedError(
        f"x lies outside of the ball, where nothing is proven: its distance from 0 is {size:.4g}, the "
        f"radius {radius:.4g}.",
        "Move x into the ball",
        x=inside,
    )


def _short(value: float) -> float:
    """Return ``value`` with three digits, cut towards 0, so that a point in a ball stays in it."""
    if not value:
        return 0.0
    step = 10.0 ** (floor(log10(abs(value))) - 2)
    return round(int(value / step) * step, 12)


def _too_large(error: SizeError, request: dict[str, Any]) -> RefusedError:
    from exactformer.polynomials.sizes import DEAR
    from exactformer.studio.playground.polynomial import MEMORY, read

    target = read(request["polynomial"])
    message = (
        f"Degree {target.degree} in {plural(len(target.variables), 'variable')} needs more than "
        f"{MEMORY // 2**20} MiB of weights or {DEAR:,} multiply-adds per point, the limits here."
    )
    if request["directions"] not in ("auto", "tailored"):
        return RefusedError(
            f"{message} Other directions may need fewer tokens.",
            "Choose the directions automatically",
            directions="auto",
        )
    return RefusedError(f"{message} Take a lower degree or fewer variables.")


def _too_many_keys(request: dict[str, Any]) -> RefusedError:
    """Name the largest grid that fits: fewer cells, or fewer tokens where none does."""
    from exactformer.studio.playground.sequences import MOST_KEYS, MOST_LAYERS, size_of

    cells, tokens = int(request["cells"]), int(request["tokens"])
    keys, layers = size_of(request)
    message = (
        f"This needs {plural(keys, 'key')} and {plural(layers, 'attention layer')}; the limits here "
        f"are {MOST_KEYS:,} and {MOST_LAYERS:,}."
    )
    for fewer in range(cells - 1, 1, -1):
        if _fits(request | {"cells": fewer}):
            return RefusedError(message, f"Use {fewer} cells per side", cells=str(fewer))
    for fewer in range(tokens - 1, 0, -1):
        if _fits(request | {"tokens": fewer}):
            return RefusedError(
                message, f"Use {plural(fewer, 'token')}", tokens=str(fewer), input=""
            )
    return RefusedError(f"{message} Take fewer tokens or cells.")


def _fits(request: dict[str, Any]) -> bool:
    from exactformer.studio.playground.sequences import MOST_KEYS, MOST_LAYERS, problem_of, size_of

    keys, layers = size_of(request)
    return keys <= MOST_KEYS and layers <= MOST_LAYERS and problem_of(request) is None
