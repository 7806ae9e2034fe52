"""Floating-point formats, and rounding to them in exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf

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


@dataclass(frozen=True)
class Arithmetic:
    """What an execution may do to real numbers: the standard model, with nothing about order.

    An operation on numbers a, b returns (a ∘ b)(1 + δ) + η with |δ| ≤ ``unit``, |η| ≤ ``tiny``.
    Sums are taken in any order, in blocks, with fused products or not. Exponentials are off by at most
    ``exponential`` of their size. A number below ``normal`` may be read as zero; one above ``largest``
    overflows. The real numbers are the arithmetic whose constants are zero.

    >>> Arithmetic.of(FORMATS["float32"]).gamma(3) < 3.1 * 2.0**-24
    True
    """

    name: str
    unit: float = 0.0
    tiny: float = 0.0
    normal: float = 0.0
    largest: float = inf
    exponential: float = 0.0

    @classmethod
    def of(cls, target: FloatFormat, exp_ulps: int | None = None) -> Arithmetic:
        """Return the arithmetic of a format; ``exp_ulps`` for formats that :data:`FORMATS` lacks."""
        ulps = EXP_ULPS[target.name] if exp_ulps is None else exp_ulps
        normal = 2.0**target.low if target.flushes else 0.0
        relative = 2 * ulps * target.unit
        return cls(target.name, target.unit, target.tiny, normal, float(target.largest), relative)

    def gamma(self, roundings: int) -> float:
        """Return γ_k = ku/(1 − ku), rounded up; infinite where so many roundings leave no digit."""
        ku = roundings * self.unit
        return ku / (1 - ku) * (1 + 2.0**-50) if ku < 0.5 else inf


REAL = Arithmetic("real")

ACTIVATION_ULPS = 16
"""What an activation may be off by, in units of its argument: GELU (by erf or tanh), SiLU, tanh,
sigmoid. The worst that was seen on CPUs is 0.7 (GELU by erf) and 1.9 (by tanh)."""
ROOT_ULPS = 8
"""Roundings that a reciprocal square root and the steps around it may cost together."""
KEYS_PER_BLOCK = 16
"""The fewest keys that fused attention takes at a time, before it rescales what it has."""

EXCLUDED = (
    "TF32 and 3×TF32 products, bfloat16 products or sums inside float32, Strassen and Winograd, "
    "fast-math, the naive formula of the variance"
)
"""What no claim about float32 covers: it must be switched off where the model runs."""


def float_format(dtype: object) -> FloatFormat:
    """Return the format of a torch or NumPy dtype, or of a name."""
    name = str(dtype).removeprefix("torch.")
    if name not in FORMATS:
        raise InputError(f"dtype {dtype} is not one of {', '.join(FORMATS)}")
    return FORMATS[name]
