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


def positive_integer(value: object, name: str, least: int = 1) -> int:
    """Return a whole number of at least 1, NumPy's included, as Python's; raise for anything else."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        wanted = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise InputError(f"{name} must be {wanted}, not {value!r}")
    return int(value)


def check_draw(samples: object, seed: object) -> None:
    """Raise unless these say how many random inputs to draw, and which."""
    positive_integer(samples, "samples", least=2)
    positive_integer(seed, "seed", least=0)
