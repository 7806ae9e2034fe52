"""The report on an approximated function: what was measured, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from exactformer.errors import FileFormatError


@dataclass(frozen=True)
class Approximation:
    """How a function was approximated; errors are measured, not proven."""

    function: str
    tolerance: float
    degree: int
    error: float
    """The largest |model − f| met, rounding included."""
    points: int
    """How many points that was measured on; none of them was used to find the polynomial."""
    samples: int
    """How many values of f the polynomial was made from."""

    def __str__(self) -> str:
        return (
            f"{self.function} by a polynomial of degree {self.degree}: error {self.error:.2g}, "
            f"measured on {self.points:,} points (tolerance {self.tolerance:g}; made from "
            f"{self.samples:,} samples)"
        )

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Approximation | None:
        """Read the report from a blueprint's metadata, if there is one."""
        text = metadata.get("approximation")
        try:
            return None if text is None else cls(**json.loads(text))
        except (TypeError, ValueError):
            raise FileFormatError("the approximation report in this file is corrupt") from None
