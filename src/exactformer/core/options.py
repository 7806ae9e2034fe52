"""Options that mean the same in every family."""

from collections.abc import Sequence
from numbers import Integral

from exactformer.errors import InputError

MEMORY_LIMIT = 4 * 2**30
"""Bytes that a model may take unless ``memory_limit=`` allows more."""

FLOAT = 8
"""Bytes of a number in the tables of a proof."""


def choose(name: str, value: str, options: Sequence[str]) -> None:
    """Raise unless the value is one of the options."""
    if value not in options:
        raise InputError(f"{name}={value!r}; choose one of {', '.join(options)}")


def positive_integer(value: object, name: str) -> int:
    """Return a whole number of at least 1, NumPy's included, as Python's; raise for anything else."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} must be a positive integer, not {value!r}")
    return int(value)
