"""Requests from the words of an address, for pages and for their scripts.

What is missing has its default. A page says what is wrong and shows the request it begins with; a
program is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import Parameter, Signature
from typing import Any, TypeVar, get_type_hints

from exactformer.errors import ExactformerError, InputError
from exactformer.studio.errors import InvalidError
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.polynomial import PolynomialRequest
from exactformer.studio.playground.programs import ProgramRequest
from exactformer.studio.playground.refusals import plain
from exactformer.studio.playground.sequences import SequenceRequest
from exactformer.studio.web.types import UNSTORABLE

Asked = TypeVar("Asked", PolynomialRequest, SequenceRequest, CouplingRequest, ProgramRequest)

NAMES = {"polynomial": "p", "head_dim": "m"}
"""What fields are called in addresses, where it is not their name."""
_NUMBERS = {int: int, float | None: float}


def asked_by(query: Mapping[str, str], kind: type[Asked]) -> tuple[Asked, str | None]:
    """Return the request, and what is wrong with it; then it is the one a page begins with."""
    try:
        return kind(**dict(_values(query, kind))), None
    except ExactformerError as error:
        return kind(), plain(str(error))


def reader(kind: type[Asked]) -> Callable[..., Asked]:
    """Return the dependency that reads the request of a program, within the limits of its fields."""
    names = {NAMES.get(field.name, field.name): field for field in fields(kind)}
    types = get_type_hints(kind, include_extras=True)

    def read(**values: Any) -> Asked:
        if any(UNSTORABLE.search(str(value)) for value in values.values()):
            raise InvalidError("a text may not contain NUL or half of a character")
        try:
            return kind(**{names[name].name: value for name, value in values.items()})
        except ExactformerError as error:
            raise InvalidError(str(error)) from None

    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=each.default, annotation=types[each.name])
        for name, each in names.items()
    ]
    read.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return read


def _values(query: Mapping[str, str], kind: type[Asked]) -> list[tuple[str, Any]]:
    found, types = [], get_type_hints(kind)
    for field in fields(kind):
        name = NAMES.get(field.name, field.name)
        text = query.get(name, "")
        number = _NUMBERS.get(types[field.name])
        if name not in query or (number and not text.strip()):
            continue
        try:
            found.append((field.name, number(text) if number else text))
        except ValueError:
            raise InputError(f"{name}={text[:40]!r} is no number") from None
    return found
