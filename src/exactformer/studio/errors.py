"""Refusals of the studio, each with the HTTP status that says the same to a program."""

from __future__ import annotations

from math import ceil
from typing import Any, ClassVar

from exactformer.errors import ExactformerError


class DatabaseError(ExactformerError):
    """A database that cannot be opened: not one, newer than this program, or out of reach."""


class AddressError(ExactformerError):
    """An address that cannot be listened on, or must not be."""


class StudioError(ExactformerError):
    """A request that is refused; the message says why and what to do."""

    status: ClassVar[int] = 400

    @property
    def headers(self) -> dict[str, str]:
        """What the answer says beside its words."""
        return {}


class LoginNeededError(StudioError):
    """The request needs an account."""

    status = 401


class ForbiddenError(StudioError):
    """The account may not do this."""

    status = 403


class NotFoundError(StudioError):
    """There is no such thing, or not for this reader."""

    status = 404


class ConflictError(StudioError):
    """The thing is already there, or has changed meanwhile."""

    status = 409


class TooLargeError(StudioError):
    """More than the stated limit."""

    status = 413


class InvalidError(StudioError):
    """A value that cannot be accepted.

    A ``remedy``, if there is one, has the ``label`` of a button and, in ``set``, values of fields with
    which the request would be accepted.
    """

    status = 422

    def __init__(self, message: str, remedy: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy


class TooManyError(StudioError):
    """More requests than the stated rate; ``seconds`` says when the next one may come."""

    status = 429

    def __init__(self, message: str, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.seconds = seconds

    @property
    def headers(self) -> dict[str, str]:
        """When to come back."""
        return {"Retry-After": str(max(1, ceil(self.seconds)))}


class BusyError(StudioError):
    """All workers are taken, or one did not answer in its time."""

    status = 503

    @property
    def headers(self) -> dict[str, str]:
        """When to come back."""
        return {"Retry-After": "5"}
