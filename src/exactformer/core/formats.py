"""Floating-point formats, and rounding to them in exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from exactformer.errors import InputError


@dataclass(frozen=True)
class FloatFormat:
    """A binary format with ``precision`` significant bits and exponents from low to high."""

    name: str
    precision: int
    low: int
    high: int
    flushes: bool = True
    """Whether some processor or setting takes subnormal numbers for zero."""

    @property
    def unit(self) -> float:
        """Unit roundoff u: |fl(x) − x| ≤ u·|x| in the normal range."""
        return 2.0**-self.precision

    @property
    def tiny(self) -> float:
        """What an underflow can cost: the smallest normal number where it may be flushed to zero,
        half the spacing of subnormal numbers where it is always rounded.
        """
        return 2.0**self.low if self.flushes else 2.0 ** (self.low - self.precision)

    @property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return (2 - Fraction(2) ** (1 - self.precision)) * Fraction(2) ** self.high

    def round(self, value: Fraction) -> Fraction | None:
        """Round to nearest, ties to even; ``None`` where the result overflows.

        >>> FORMATS["bfloat16"].round(Fraction(1, 3))
        Fraction(171, 512)
        """
        size, denominator = abs(value.numerator), value.denominator
        if size == 0:
            return Fraction(0)
        exponent = size.bit_length() - denominator.bit_length()
        if (size << max(-exponent, 0)) < (denominator << max(exponent, 0)):
            exponent -= 1
        spacing = max(exponent, self.low) - self.precision + 1
        gap = denominator << max(spacing, 0)
        steps, rest = divmod(size << max(-spacing, 0), gap)
        steps += 2 * rest > gap - (steps & 1)
        if steps.bit_length() + spacing - 1 > self.high:
            return None
        signed = steps if value > 0 else -steps
        return Fraction(signed << max(spacing, 0), 1 << max(-spacing, 0))


FORMATS = {
    f.name: f
    for f in (
        FloatFormat("float64", 53, -1022, 1023),
        FloatFormat("float32", 24, -126, 127),
        FloatFormat("bfloat16", 8, -126, 127),
        FloatFormat("float16", 11, -14, 15, flushes=False),
    )
}


EXP_ULPS = {"float64": 2, "float32": 20, "bfloat16": 2, "float16": 2}
"""Units in the last place that an exponential may be off by; PyTorch's fused float32 kernel on CPUs
states 20 of itself.
"""


def float_format(dtype: object) -> FloatFormat:
    """Return the format of a torch or NumPy dtype, or of a name."""
    name = str(dtype).removeprefix("torch.")
    if name not in FORMATS:
        raise InputError(f"dtype {dtype} is not one of {', '.join(FORMATS)}")
    return FORMATS[name]
