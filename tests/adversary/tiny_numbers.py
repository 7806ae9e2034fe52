"""Numbers that a format barely holds, and a processor that takes them for zero."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import torch

EXPONENTS = (14, 24, 126, 149, 200, 300, 400, 401, 600, 1000, 1022, 1030, 1060, 1074, 1100)


def tiny_number(rng: random.Random) -> Fraction:
    """Return a power of two that some format holds as its smallest number, or nearly so."""
    return Fraction(1, 2 ** rng.choice(EXPONENTS))


@contextmanager
def flushed(flush: bool) -> Iterator[None]:
    """Let numbers below the normal ones be taken for zero, where this processor can."""
    torch.set_flush_denormal(flush)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
