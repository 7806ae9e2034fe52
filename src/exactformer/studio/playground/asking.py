"""Requests from the words of an address: what is missing has its default, what is wrong is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from exactformer.errors import ExactformerError, InputError
from exactformer.studio.playground.couplings import CouplingRequest
from exactformer.studio.playground.polynomial import PolynomialRequest
from exactformer.studio.playground.programs import ProgramRequest
from exactformer.studio.playground.refusals import plain
from exactformer.studio.playground.sequences import SequenceRequest

Asked = TypeVar("Asked", PolynomialRequest, SequenceRequest, CouplingRequest, ProgramRequest)

NAMES = {"polynomial": "p", "head_dim": "m"}
"""What fields are called in addresses, where it is not their name."""
_NUMBERS = {"int": int, "float | None": float}


def asked_by(query: Mapping[str, str], kind: type[Asked]) -> tuple[Asked, str | None]:
    """Return the request, and what is wrong with it; then it is the one a page begins with."""
    try:
        return kind(**dict(_values(query, kind))), None
    except ExactformerError as error:
        return kind(), plain(str(error))


def _values(query: Mapping[str, str], kind: type[Asked]) -> list[tuple[str, Any]]:
    found = []
    for field in fields(kind):
        name = NAMES.get(field.name, field.name)
        text = query.get(name, "")
        number = _NUMBERS.get(str(field.type))
        if name not in query or (number and not text.strip()):
            continue
        try:
            found.append((field.name, number(text) if number else text))
        except ValueError:
            raise InputError(f"{name}={text[:40]!r} is no number") from None
    return found
