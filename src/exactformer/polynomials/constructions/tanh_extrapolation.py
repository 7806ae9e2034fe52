"""A product from several softmaxes: Richardson extrapolation of tanh.

A head that shares its attention between two tokens with logits εz and 0 and values ±1 returns
tanh(εz/2) = εz/2 − (εz)³/24 + …. The weights

    c_m = (2/ε_m) Π_{j≠m} ε_j² / (ε_j² − ε_m²)

make k such heads cancel every power of z up to the (2k − 1)st, and leave

    |Σ_m c_m tanh(ε_m z/2) − z| ≤ |z| Π_m (ε_m z)² / (π² + (ε_m z)²),

which falls geometrically in k for *any* ε: the partial fractions of tanh turn extrapolation to ε = 0
into interpolation of 1/(a² + s z²) at s = ε_m², whose error has a closed form. Rounding costs in
proportion to Σ|c_m|, so Chebyshev nodes s on [0, span²] serve best: Σ|c_m| grows like k/span.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import pi, prod, sin

from exactformer.errors import InputError

_DENOMINATOR = 2**16
"""Nodes are rounded to this: short weights, distinct for every number of heads in use."""


@dataclass(frozen=True)
class Extrapolation:
    """``heads`` softmaxes for every product, their ε up to ``span``."""

    heads: int
    span: Fraction

    def __post_init__(self) -> None:
        if self.heads < 1 or self.span <= 0:
            raise InputError(
                f"extrapolation takes at least one head and a positive span, not {self.heads} and "
                f"{self.span}"
            )
        if len(set(self.nodes)) < self.heads or not all(self.nodes):
            raise InputError(
                f"{self.heads} heads need more room than ε ≤ {float(self.span):g}; fewer heads or a "
                "larger span"
            )

    @cached_property
    def nodes(self) -> tuple[Fraction, ...]:
        """ε_m: square roots of the Chebyshev nodes of [0, span²]."""
        shares = (sin((2 * m + 1) * pi / (4 * self.heads)) for m in range(self.heads))
        return tuple(
            Fraction(round(float(self.span) * share * _DENOMINATOR), _DENOMINATOR)
            for share in shares
        )

    @cached_property
    def weights(self) -> tuple[Fraction, ...]:
        """c_m, exact: the sum of c_m tanh(ε_m z/2) is z and what extrapolation leaves."""
        squares = [node * node for node in self.nodes]
        return tuple(
            2 / node * prod((s / (s - own) for s in squares if s != own), start=Fraction(1))
            for node, own in zip(self.nodes, squares, strict=True)
        )

    def truncation(self) -> float:
        """Return a bound of the error for |z| ≤ 1, as a guide; certificates find their own."""
        return prod(float(e * e) / (pi**2 + float(e * e)) for e in self.nodes)

    def to_metadata(self) -> dict[str, str]:
        """Return what :meth:`from_metadata` reads back."""
        return {"heads": str(self.heads), "span": str(self.span)}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> Extrapolation:
        """Read what a blueprint was drawn with."""
        try:
            return cls(int(metadata["heads"]), Fraction(metadata["span"]))
        except (KeyError, ValueError, ZeroDivisionError):
            raise InputError(
                "the file lacks the extrapolation settings 'heads' and 'span', or they are not numbers"
            ) from None
