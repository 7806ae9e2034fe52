"""Which two versions of a text are compared."""

from __future__ import annotations

from collections.abc import Sequence

from exactformer.studio.errors import NotFoundError


def choose(revisions: Sequence[int], before: int, after: int) -> tuple[int, int]:
    """Return the versions asked for; for 0, the last and the one before it.

    >>> choose([1, 2, 3], 0, 0), choose([1], 0, 0), choose([1, 2, 3], 1, 0)
    ((2, 3), (1, 1), (1, 3))
    """
    after = after or revisions[-1]
    before = before or max(revisions[0], after - 1)
    for revision in (before, after):
        if revision not in revisions:
            raise NotFoundError(f"there is no version {revision}; the last is {revisions[-1]}")
    return before, after
