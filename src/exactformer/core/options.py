"""Options that mean the same in every family."""

from collections.abc import Sequence

from exactformer.errors import InputError

MEMORY_LIMIT = 4 * 2**30
"""Bytes that a model may take unless ``memory_limit=`` allows more."""

FLOAT = 8
"""Bytes of a number in the tables of a proof."""


def choose(name: str, value: str, options: Sequence[str]) -> None:
    """Raise unless the value is one of the options."""
    if value not in options:
        raise InputError(f"{name}={value!r}; choose one of {', '.join(options)}")
