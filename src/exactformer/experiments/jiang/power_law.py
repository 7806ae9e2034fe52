"""Fitting a·m^(−b) + c to errors against head size, and saying when there is no such law.

For a given b, the least squares for a and c are a straight line in m^(−b); so the squared error is a
function of b alone, S(b), whose least value is found on a fine grid. Of b one knows, at 95 %, what
keeps S(b) below min S · (1 + F(1, n − 3)/(n − 3)): the profile, which needs no symmetry and may be
open to a side where the data say nothing.

Three things speak against a law: a curve that is *flat* within the spread of seeds (analysis of
variance over sizes), one that *rises*, and one whose means the law misses by more than seeds differ
(*bent*).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError

Array = NDArray[np.float64]

RATES = np.geomspace(0.01, 10.0, 2001)
"""The b that are tried."""
LIKELY = 0.01
"""Chance below which flatness, or the law, is given up."""


@dataclass(frozen=True)
class PowerLaw:
    """a·m^(−b) + c, and what speaks for it."""

    a: float
    b: float
    c: float
    interval: tuple[float, float]
    """Of b, 95 %; 0 or ∞ where it is open."""
    explained: float
    """Share of the variance between sizes, of their means."""
    flat: float
    """The chance of differences between sizes as large, if size did not matter."""
    bent: float
    """The chance of missing the means by as much, if the law were true; 1 where this cannot be told."""

    @property
    def verdict(self) -> str:
        """``power law``, or why not: ``flat``, ``rising``, ``bent``."""
        if self.flat > LIKELY:
            return "flat"
        if self.a <= 0:
            return "rising"
        return "bent" if self.bent < LIKELY else "power law"

    def __call__(self, m: Array) -> Array:
        """Return the law at sizes m."""
        return self.a * m**-self.b + self.c


def fit_power_law(errors: Mapping[int, Sequence[float]]) -> PowerLaw:
    """Fit the law to the errors of several seeds for each size."""
    from scipy.stats import f

    counts = {len(values) for values in errors.values()}
    if len(errors) < 4 or min(counts) < 2:
        raise InputError("a power law with a floor needs four sizes and two seeds at the least.")
    m = np.array([size for size, values in errors.items() for _ in values], dtype=np.float64)
    y = np.array([value for values in errors.values() for value in values], dtype=np.float64)
    squares = np.array([_line(m, y, b)[0] for b in RATES])
    best = int(squares.argmin())
    least, a, c = _line(m, y, RATES[best])
    sizes, n = len(errors), len(y)
    inside = squares <= least * (1 + f.ppf(0.95, 1, n - 3) / (n - 3))
    low, high = RATES[inside][[0, -1]]
    means = np.array([np.mean(values) for values in errors.values()])
    pure = float(sum(((np.array(v) - np.mean(v)) ** 2).sum() for v in errors.values()))
    total = float(((y - y.mean()) ** 2).sum())
    noise = max(pure / (n - sizes), np.finfo(float).tiny)
    flat = f.sf((total - pure) / (sizes - 1) / noise, sizes - 1, n - sizes)
    bent = f.sf(max(least - pure, 0.0) / (sizes - 3) / noise, sizes - 3, n - sizes)
    fitted = a * np.array(list(errors), dtype=np.float64) ** -RATES[best] + c
    between = float(((means - means.mean()) ** 2).sum())
    missed = float(((means - fitted) ** 2).sum())
    return PowerLaw(
        a,
        float(RATES[best]),
        c,
        (float(low) if not inside[0] else 0.0, float(high) if not inside[-1] else inf),
        1 - missed / between if between else 0.0,
        float(flat),
        float(bent),
    )


def _line(m: Array, y: Array, b: float) -> tuple[float, float, float]:
    """Return the least sum of squares for one b, with its a and c."""
    x = m**-b
    away = x - x.mean()
    a = float(away @ y / (away @ away))
    c = float(y.mean() - a * x.mean())
    return float(((y - a * x - c) ** 2).sum()), a, c
