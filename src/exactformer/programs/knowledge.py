"""How much an analysis may find, and the error where a program is ambiguous."""

from __future__ import annotations

from exactformer.errors import InputError

MOST_VALUES = 20_000
"""Values that one node may take."""
MOST_PAIRS = 60_000_000
"""Pairs of a key and a query that are compared for one selector."""


class AmbiguityError(InputError):
    """An aggregate would have to average things that have no mean."""
