"""The certificate: what has been proven about a blueprint, for people and for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exactformer.errors import InputError, RoundingError
from exactformer.execution.bounds import RoundingBound
from exactformer.execution.formats import float_format


@dataclass(frozen=True)
class Certificate:
    """Three proofs about one blueprint and one polynomial on one ball.

    * selection: every token selects itself, by at least ``margin``;
    * identity: in exact arithmetic the output *is* the target, ``terms`` coefficients compared;
    * rounding: in a float format the module is off by at most ``rounding[format]``.
    """

    target: str
    variables: tuple[str, ...]
    radius: str
    construction: str
    tokens: int
    depth: int
    margin: float | None
    """Smallest selection margin; ``None`` where no token has a rival."""
    terms: int
    rounding: Mapping[str, RoundingBound]
    scale: float
    """The largest |Q| met on a sample of the ball: what the rounding bounds compare with."""
    blueprint_digest: str

    @property
    def zero_error(self) -> bool:
        """Always true: a certificate exists only where the identity has been proven."""
        return True

    def bound(self, dtype: object, any_order: bool = False) -> float:
        """Return the guaranteed rounding error for a dtype (torch, NumPy or name)."""
        entry = self.rounding[float_format(dtype).name]
        value = entry.any_order if any_order else entry.executed
        if value is None:
            raise RoundingError(f"there is no bound for {dtype}: {entry.reason}")
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON holds without loss."""
        rounding = {
            name: {"executed": r.executed, "any_order": r.any_order, "reason": r.reason}
            for name, r in self.rounding.items()
        }
        plain = {k: getattr(self, k) for k in _PLAIN}
        return {
            **plain,
            "variables": list(self.variables),
            "zero_error": True,
            "rounding": rounding,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """Read what :meth:`to_dict` wrote. This restores the words, not the proof: re-certify."""
        try:
            rounding = {
                name: RoundingBound(r["executed"], r["any_order"], r["reason"])
                for name, r in data["rounding"].items()
            }
            plain = {k: data[k] for k in _PLAIN}
            return cls(variables=tuple(data["variables"]), rounding=rounding, **plain)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is not a certificate: {error}") from None

    def __str__(self) -> str:
        margin = "no token has a rival" if self.margin is None else f"margin ≥ {self.margin:.3g}"
        lines = [
            f"Certificate on the ball ‖x‖ ≤ {self.radius}",
            f"  target      {_shortened(self.target)}",
            f"  model       {self.construction}: {self.tokens} tokens, {self.depth} blocks",
            f"  selection   proven: every token selects itself everywhere ({margin})",
            f"  identity    proven: all {self.terms} coefficients agree exactly, error zero",
        ]
        for name, r in self.rounding.items():
            if r.executed is None:
                lines.append(f"  {name:<10}  no guarantee: {r.reason}")
                continue
            relative = f"  ({r.executed / self.scale:.1e} of max|Q|)" if self.scale else ""
            lines.append(f"  {name:<10}  |computed − exact| ≤ {r.executed:.3g}{relative}")
        return "\n".join(lines)


_PLAIN = (
    "target",
    "radius",
    "construction",
    "tokens",
    "depth",
    "margin",
    "terms",
    "scale",
    "blueprint_digest",
)


def finite(value: float | None) -> float | None:
    """Return ``None`` for infinities, which JSON does not know."""
    return value if value is not None and math.isfinite(value) else None


def _shortened(text: str, width: int = 90) -> str:
    return text if len(text) <= width else f"{text[: width - 20]} … ({len(text):,} characters)"
