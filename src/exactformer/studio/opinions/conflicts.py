"""An edit that started from a text which has changed meanwhile.

Nothing is lost: the error carries what stands now and what the author was about to write.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from exactformer.studio.errors import ConflictError

Thing = TypeVar("Thing")
Draft = TypeVar("Draft")


class ChangedMeanwhileError(ConflictError, Generic[Thing, Draft]):
    """The ``draft`` was not written: ``current`` is not what it started from."""

    def __init__(self, message: str, current: Thing, draft: Draft) -> None:
        super().__init__(message)
        self.current, self.draft = current, draft
