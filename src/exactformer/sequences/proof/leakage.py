"""How far softmax leaves the codes of a contextual mapping from those of the hard maximum.

Counted in cells, with distinct columns, no error so far above e, and Λ = λ·(cell)²: a head
whose score's first factor is at least ½ misses its maximum by at most

    leak = (n − 1)(1 − 2e)·exp(−Λ(½ − e)(1 − 2e)),

for g·exp(−Λag) falls in g, and the others are g ≥ 1 − 2e behind. Where both heads of a layer choose the
same end, their difference is at most K·leak; in layers farther from the column's id the exponent grows,
so a column drifts by at most U = K·leak/(1 − exp(−Λ(1 − 2e))) before its turn, and as much after it.
When the j-th column is moved, the ends are itself and column j − 1, so that errors obey

    e_1 = 2U + K(2U + 2 leak),        e_j = 2U + K(e_{j−1} + U + 2 leak),

and a code is off by at most e_n + G(e_n + leak), G being the global shift. If e_n ≤ e, then e was
right. The *threshold* is the Λ from which this is a quarter: about Λ/2 = (2n + 2) ln K + ln 8(n − 1).

In float64 a head is exact on integers once K^(n+2)·leak is lost to rounding; before that, and where a
cell is no binary number, its rounding is added to the leak.

Where all scores are equal (:func:`~exactformer.sequences.proof.outside.number_and_mean`) nothing
leaks. The mean of n numbers is then exact for n a power of two; else its weights, products and sums are
rounded, n + 2 times on the way to a code.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log

from exactformer.core.upper import exp_above, float_above
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.proof.lookups import cell_unit
from exactformer.sequences.proof.outside import number_and_mean, selective_shifts

PRECISION = 53
"""Significant bits of float64."""


@dataclass(frozen=True)
class Leakage:
    """The recursion of the errors, in units of cells."""

    tokens: int
    factor: int
    """K; 0 where attention is uniform and nothing leaks."""
    global_shift: int
    binary: bool
    """Whether a cell is a binary number, so that float64 holds integer counts of cells exactly."""
    size: float = 0.0
    """Of the numbers that are averaged where attention is uniform, in cells."""

    @classmethod
    def of(cls, limit: SequenceBlueprint) -> Leakage:
        """Read K and G off the contextual mapping; raise where its layers are not the theorem's."""
        unit, mapping = cell_unit(limit), limit.stages[1]
        binary = unit.denominator & (unit.denominator - 1) == 0
        mean = number_and_mean(mapping)
        if mean is not None:
            number, _, source, weight = mean
            rest = number.b2[source, 0]
            most = max(abs(number.w2[source, m] + rest) for m in range(number.w1.rows))
            size = max(abs(weight) * most / unit, Fraction(limit.largest_key))
            return cls(limit.tokens, 0, 0, binary, float(size))
        shifts = selective_shifts(mapping, limit, unit)
        if shifts is None or shifts[1].denominator != 1 or not shifts[1] > 0:
            raise CertificationError(
                "attention is neither uniform nor made of the theorem's shifts: nothing is known about "
                "what softmax leaves of it"
            )
        return cls(limit.tokens, shifts[0], int(shifts[1]), binary)

    def code_error(self, sharpness: float | Fraction) -> float:
        """Return how far a code may be off at Λ; ∞ where nothing can be said."""
        if self.tokens == 1:
            return 0.0
        if self.factor == 0:
            return self._mean_rounding()
        allowed = 0.0
        for _ in range(60):
            last, leak = self._columns(sharpness, allowed)
            if last <= allowed:
                final = Fraction(last)
                return float_above(final + self.global_shift * (final + Fraction(leak)))
            allowed = 2 * last
            if allowed >= 1 / 8:
                break
        return inf

    def _mean_rounding(self) -> float:
        """Return how far rounding may take a code that adds a mean of all columns."""
        if self.binary and self.tokens & (self.tokens - 1) == 0:
            return 0.0
        return (self.tokens + 2) * self.size * 2.0**-PRECISION * (1 + 2.0**-20)

    def _columns(self, sharpness: float | Fraction, e: float) -> tuple[float, float]:
        """Return e_n and the leak where no error exceeds e, in rationals that are rounded up last."""
        n, K = self.tokens, self.factor
        apart, sharp = 1 - 2 * Fraction(e), Fraction(sharpness)
        exponent = sharp * apart**2 / 2
        if exponent < 1:
            return inf, inf
        leak = (n - 1) * apart * exp_above(-exponent)
        if not self.binary or sharpness < self.float_exact():
            leak += Fraction(2 * (n + 4) * K ** (n + 1), 2**PRECISION)
        drift = K * leak / (1 - exp_above(-sharp * apart))
        error = 2 * drift + K * (2 * drift + 2 * leak)
        for _ in range(n - 1):
            error = 2 * drift + K * (error + drift + 2 * leak)
        return float_above(error), float_above(leak)

    def sharpness_for(self, code_error: float) -> float:
        """Return the smallest Λ whose codes are off by at most so much; ∞ where there is none."""
        if self.factor == 0 or self.tokens == 1:
            return 1.0
        low, high = 2.0, 4.0
        while self.code_error(high) > code_error:
            low, high = high, 2 * high
            if high > 1e6:
                return inf
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.code_error(middle) <= code_error else (middle, high)
        return high

    def float_exact(self) -> float:
        """Return the Λ from which float64 loses every leak beside an integer."""
        n, K = self.tokens, self.factor
        if K == 0 or n == 1:
            return 1.0
        return 2 * (log(n - 1) + (n + 2) * log(K) + (PRECISION + 2) * log(2))

    def estimate(self) -> float:
        """Return the threshold by its leading term, 2((2n + 2) ln K + ln 8(n − 1))."""
        n, K = self.tokens, self.factor
        return 2 * ((n + 1) * log(K) + log(self.global_shift) + log(8 * (n - 1)))
