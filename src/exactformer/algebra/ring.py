"""The rings Q[x_1, …, x_d]; variables have names outside, positions inside."""

from __future__ import annotations

import re
from functools import lru_cache

from flint import Ordering, fmpq_mpoly_ctx

from exactformer.algebra.limits import check_variables

Exponents = tuple[int, ...]


@lru_cache(maxsize=256)
def ring(dimension: int) -> fmpq_mpoly_ctx:
    """Return the ring in ``dimension`` variables, in graded order."""
    check_variables(dimension)
    return fmpq_mpoly_ctx.get([f"x{i}" for i in range(dimension)], Ordering.degrevlex)


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``x2`` comes before ``x10``."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    keys = (_number_key(part) if part[0] in "0123456789" else (1, 0, part) for part in parts)
    return (*keys, (-1, 0, name))  # x1 and x01 are the same number but need one order


def default_names(count: int) -> list[str]:
    """Return names for variables that have none: ``x``, or ``x1``, ``x2``, …"""
    return ["x"] if count == 1 else [f"x{i + 1}" for i in range(count)]


def is_name(text: str) -> bool:
    """Return whether the grammar reads ``text`` as one variable."""
    letters = all(c.isalpha() or c in "_0123456789" for c in text)
    return letters and text != "" and text[0] not in "0123456789"


def _number_key(digits: str) -> tuple[int, int, str]:
    # Fewer digits is the smaller number; no int(), whose limit a name may exceed.
    significant = digits.lstrip("0")
    return (0, len(significant), significant)
