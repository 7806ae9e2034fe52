"""Types that routes and services share: careful texts, numbers, and the form of lists."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, TypeVar

from fastapi import Form, Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

LARGEST = 2**31 - 1
UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


def _storable(text: str) -> str:
    if UNSTORABLE.search(text):
        raise ValueError("a text may not contain NUL or half of a character")
    return text


def one_of(names: Collection[str]) -> AfterValidator:
    """Return a check for a filter of a list: empty for any, or one of these names."""

    def check(text: str) -> str:
        if text and text not in names:
            expected = ", ".join(f"'{name}'" for name in names)
            raise PydanticCustomError("literal_error", "one of {expected}", {"expected": expected})
        return text

    return AfterValidator(check)


Clean = Annotated[str, AfterValidator(_storable)]
Identifier = Annotated[int, Field(ge=1, le=LARGEST)]
Slug = Annotated[Clean, Path(min_length=1, max_length=120)]
PageNumber = Annotated[int, Query(ge=1, le=100_000)]
Revision = Annotated[int, Query(ge=0, le=LARGEST)]
Words = Annotated[Clean, Query(max_length=300)]


class Body(BaseModel):
    """Parent of what is sent: nothing unknown, nothing silently turned into another type."""

    model_config = ConfigDict(extra="forbid")


class FormBody(Body):
    """Parent of what forms send: they carry their token as a field."""

    csrf_token: str = ""


Model = TypeVar("Model", bound=FormBody)
Sent = Annotated[Model, Form()]
"""What a form has sent."""
Line = Annotated[Clean, Form()]
"""A field of a form; its length is judged by the service."""
Switch = Annotated[bool, Form()]
"""A field of a form that says yes or no."""
