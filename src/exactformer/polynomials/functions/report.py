"""The report on an approximated function: what was measured, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from exactformer.core.header import MOST
from exactformer.errors import FileFormatError


@dataclass(frozen=True)
class Approximation:
    """How a function was approximated; errors are measured, not proven."""

    function: str
    tolerance: float
    degree: int
    error: float
    """The largest |model − f|, rounding included, in ``measured_in``; a bound adds to it elsewhere."""
    points: int
    """How many points that was measured on; none of them was used to find the polynomial."""
    samples: int
    """How many values of f the polynomial was made from."""
    polynomial: float
    """The largest |polynomial − f| met, in float64."""
    measured_in: str
    """The number format and the executor of the model that was measured."""
    source: str = ""
    """``stated by the file`` where it was read from one, else empty."""

    def __str__(self) -> str:
        where = f"{self.measured_in}, {self.source}" if self.source else self.measured_in
        return (
            f"{self.function} by a polynomial of degree {self.degree}: error {self.error:.2g}, "
            f"measured on {self.points:,} points in {where} (tolerance {self.tolerance:g}; made "
            f"from {self.samples:,} samples)"
        )

    def on(self, dtype: str, executor: str, bound: float) -> Approximation:
        """Return the report on a model in a format: measured there, or with a bound on its rounding."""
        if self.measured_in == f"{dtype}, {executor}":
            return self
        how = f"float64, and a bound on rounding in {dtype}, {executor}"
        return replace(self, error=self.polynomial + bound, measured_in=how)

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Approximation | None:
        """Read the report from a blueprint's metadata, if there is one."""
        text = metadata.get("approximation")
        try:
            found = None if text is None else cls(**json.loads(text))
        except (TypeError, ValueError):
            found = None
        if text is not None and (found is None or not found.is_well_typed):
            raise FileFormatError("the approximation report in this file is corrupt")
        return found

    @property
    def is_well_typed(self) -> bool:
        """Whether every field has its type and can be printed."""
        texts = (self.function, self.measured_in, self.source)
        whole = (self.degree, self.points, self.samples)
        sizes = (self.tolerance, self.error, self.polynomial)
        return (
            all(isinstance(text, str) and text.isprintable() for text in texts)
            and all(type(number) is int and 0 <= number < MOST for number in whole)
            and all(type(size) in (int, float) and 0 <= size < inf for size in sizes)
        )
