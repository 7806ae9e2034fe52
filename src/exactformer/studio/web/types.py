"""Types that routes and services share: careful texts, numbers, and the form of lists."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Annotated, Any, Generic, NamedTuple, Self, TypeVar

from fastapi import Depends, Form, Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from exactformer.studio.storage.slices import Slice

LARGEST = 2**31 - 1
UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


def _storable(text: str) -> str:
    if UNSTORABLE.search(text):
        raise ValueError("a text may not contain NUL or half of a character")
    return text


def stated(limit: int, least: int = 0, **more: Any) -> WithJsonSchema:
    """Return a length that the API's description states and that a service judges."""
    bounds = {"minLength": least} if least else {}
    return WithJsonSchema({"type": "string", **bounds, "maxLength": limit, **more})


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
    """Parent of what programs send: nothing unknown, nothing silently turned into another type."""

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


class Out(BaseModel):
    """Parent of what programs are answered; made of objects by the names of their attributes."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def listed(cls, found: Slice[Any]) -> Listing[Self]:
        """A part of a list, made of objects."""
        return listing(map(cls.model_validate, found.items), found.total)


HandleOf = Annotated[str | None, BeforeValidator(lambda user: user and user.handle)]
"""The handle of an account, or of none."""
SlugOf = Annotated[str | None, BeforeValidator(lambda paper: paper and paper.slug)]
"""The slug of a paper, or of none."""
LengthOf = Annotated[int, BeforeValidator(len)]
"""How many there are."""

Item = TypeVar("Item")


class Listing(Out, Generic[Item]):
    """A part of a list, and how long the whole list is."""

    items: list[Item]
    total: int


def listing(items: Iterable[Item], total: int) -> Listing[Item]:
    """The form all lists have."""
    return Listing.model_construct(items=list(items), total=total)


class Window(NamedTuple):
    """The part of a list that is asked for."""

    limit: int
    offset: int


def _window(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
) -> Window:
    return Window(limit, offset)


Paging = Annotated[Window, Depends(_window)]
