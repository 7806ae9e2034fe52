"""Counts, sizes and bounds as people read them."""

from math import isfinite, ulp

_LEAST = ulp(0.0)


def plural(count: int, word: str, many: str = "") -> str:
    """Return a number of things, its thousands apart.

    >>> plural(1, "block"), plural(2002, "token"), plural(2, "quantity", "quantities")
    ('1 block', '2,002 tokens', '2 quantities')
    """
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def readable(size: int) -> str:
    """Return a size in bytes in MiB, or in GiB from one on.

    >>> readable(3 * 2**19), readable(5 * 2**40)
    ('1.5 MiB', '5,120.0 GiB')
    """
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def at_most(value: float, digits: int = 3) -> str:
    """Return the least number of so many digits that is not below a bound, so that it stays one.

    >>> at_most(1.2341e-12), at_most(0.1), at_most(0.0512301, digits=4)
    ('1.24e-12', '0.1', '0.05124')
    """
    return raised(float(value), f".{digits}g")


def at_least(value: float, digits: int = 3) -> str:
    """Return the largest number of so many digits that is not above a lower bound.

    >>> at_least(1.2349), at_least(0.1)
    ('1.23', '0.1')
    """
    return f"{-float(raised(-float(value), f'.{digits}g')):.{digits}g}"


def raised(value: float, form: str) -> str:
    """Return a number in a form that ``format`` knows, rounded up where that loses digits.

    A step that doubles leads to the next number of the form, and not beyond: the first that is more
    than half a unit long is less than a whole one.

    >>> raised(1.2341e-12, ".2e"), raised(0.00123, ".1%"), raised(12345.67, ",.1f")
    ('1.24e-12', '0.2%', '12,345.7')
    """
    text, step = format(value, form), abs(value) * 2**-52 or _LEAST
    while isfinite(value) and _read(text) < value:
        text, step = format(value + step, form), 2 * step
    return text


def _read(text: str) -> float:
    return float(text.replace(",", "").replace("%", "e-2"))
