"""Numbers as tables and sentences show them, everywhere in one format."""

import math


def number(value: float | None) -> str:
    """Return about three digits with thousands apart, a dash for none, or ``diverged``.

    >>> number(0.10934), number(None), number(10237.27), number(0.00012), number(41.0)
    ('0.109', '–', '10,237', '1.2e−4', '41')
    """
    if value is None or not math.isfinite(value):
        return "–" if value is None else "diverged"
    if (value == int(value) and abs(value) < 1000) or 999.5 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    small = 0 < abs(value) < 1e-3
    digits, sign, exponent = f"{value:{'.2e' if small else '.3g'}}".partition("e")
    if not sign:
        return digits.replace("-", "−")
    shorter = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{shorter}e{int(exponent)}".replace("-", "−")


def percent(share: float) -> str:
    """Return a share in per cent.

    >>> percent(0.35), percent(0.002)
    ('35%', '0.2%')
    """
    return f"{number(100 * share)}%"
