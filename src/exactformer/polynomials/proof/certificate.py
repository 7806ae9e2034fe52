"""The certificate: what has been proven about a blueprint, for people and for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from exactformer.algebra.printing import name_list
from exactformer.core.certificate import Bound, Certificate, Claim
from exactformer.core.formats import float_format
from exactformer.core.words import at_least, at_most, plural
from exactformer.errors import InputError, RoundingError
from exactformer.polynomials.proof.literal_rounding import RoundingBound

EXECUTORS = ("literal", "fused")
NORM = "sup |computed − exact| over the domain and all outputs"


@dataclass(frozen=True, kw_only=True)
class PolynomialCertificate(Certificate):
    """Three proofs about one blueprint and one target on one domain.

    * selection: every token selects itself, by at least ``margin``;
    * identity: in exact arithmetic the output *is* the target, ``terms`` coefficients compared;
    * rounding: in a float format the fused module is off by at most ``fused[format]``, the literal
      one, which carries out every matrix, by at most ``rounding[format]``, in every output.
    """

    target: str
    variables: tuple[str, ...]
    domain: str
    construction: str
    tokens: int
    depth: int
    margin: float | None
    """Smallest selection margin; ``None`` where no token has a rival."""
    terms: int
    rounding: Mapping[str, RoundingBound]
    fused: Mapping[str, RoundingBound]
    scale: float
    """The largest |Q| of exact values at some points: a lower bound of max|Q| on the domain."""
    reading: str = field(default="", compare=False)
    """Which letters side by side were read as products, where the target was text; no claim."""
    choice: str = field(default="", compare=False)
    """How directions and construction were chosen, and what was rejected; no claim."""

    @property
    def zero_error(self) -> bool:
        """Always true: a certificate exists only where the identity has been proven."""
        return True

    @property
    def executors(self) -> tuple[str, ...]:
        """The ways of running the model that have bounds, the usual one first."""
        return EXECUTORS

    def bound(self, dtype: object = None, executor: str | None = None) -> Bound:
        """Return the guaranteed error for a dtype (torch, NumPy or name) and an executor.

        ``executor`` is ``"literal"`` or ``"fused"``; where neither it nor a model says which, the bound
        holds for both. It holds on every device, for eager, traced, compiled and exported code.
        """
        dtype, executor = dtype or self.dtype, executor or self.executor
        if executor is None:
            return max(self.bound(dtype, e) for e in self.executors)
        value = self.guaranteed(dtype, executor)
        return Bound(value, self._parts(float_format(dtype).name, value), NORM)

    def guaranteed(self, dtype: object, executor: str) -> float:
        """Return the number of a bound, which compilers can follow.

        Raises:
            RoundingError: where there is none.
        """
        self.check_executor(executor)
        name = float_format(dtype).name
        entry = self._bounds(executor)[name]
        value = entry.value
        if value is None:
            known = [e for e in self.executors if self._bounds(e)[name].value is not None]
            way_out = f"; executor={known[0]!r} has one" if known else ""
            raise RoundingError(
                f"there is no bound for {executor} in {dtype}: {entry.reason}{way_out}"
            )
        return value

    def check_executor(self, executor: str) -> None:
        """Raise unless the model can be run so."""
        if executor not in self.executors:
            choice = " or ".join(map(repr, self.executors))
            raise InputError(
                f"executor={executor!r}: a {self.construction} model runs as {choice} only"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON holds without loss."""
        plain = {k: getattr(self, k) for k in _PLAIN}
        bounds = {
            key: {name: asdict(bound) for name, bound in getattr(self, key).items()}
            for key in _BOUNDS
        }
        checks = [asdict(claim) for claim in self.checks]
        more = {"variables": list(self.variables), "zero_error": True, "checks": checks}
        return {**plain, **more, **bounds}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolynomialCertificate:
        """Read what :meth:`to_dict` wrote. This restores the words, not the proof: re-certify."""
        try:
            bounds: dict[str, Any] = {
                key: {name: RoundingBound(**bound) for name, bound in data[key].items()}
                for key in _BOUNDS
            }
            plain = {k: data[k] for k in _PLAIN}
            plain["checks"] = tuple(Claim(**claim) for claim in data["checks"])
            return cls(variables=tuple(data["variables"]), **bounds, **plain)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is not a certificate: {error}") from None

    def __str__(self) -> str:
        lines = [
            f"Certificate on {self.domain}" + (f", {self.reading}" if self.reading else ""),
            f"  target      {shortened(self.target)}",
            f"  variables   {name_list(self.variables) or 'none'}",
            f"  model       {self.construction}: {plural(self.tokens, 'token')}, "
            f"{plural(self.depth, 'block')}",
        ]
        lines += [f"  {claim.name:<10}  {claim}" for claim in self.claims]
        lines += [f"  {name:<10}  {self.describe(name)}" for name in self.rounding]
        if self.choice:
            lines.append(f"  {'choice':<10}  {self.choice}")
        return "\n".join(lines)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Selection and identity, and the checks of other programs."""
        margin = (
            "no token has a rival" if self.margin is None else f"margin ≥ {at_least(self.margin)}"
        )
        return (
            Claim("selection", f"every token selects itself everywhere ({margin})"),
            Claim("identity", f"{self._agreement()} exactly, error zero"),
            *self.checks,
        )

    def describe(self, name: str) -> str:
        """Return in a line what is guaranteed in one float format."""
        bounds = {e: self._bounds(e)[name] for e in self.executors}
        usual, *_ = bounds.values()
        if usual.value is None:
            said = f"no guarantee: {usual.reason}"
        else:
            part = usual.value / self.scale if self.scale else None
            relative = "" if part is None else f" ({at_most(part, 2)} of max|Q|)"
            said = f"|computed − exact| ≤ {at_most(usual.value)}{relative}"
        more = [
            f"; {e} no bound" if b.value is None else f"; {e} ≤ {at_most(b.value)}"
            for e, b in list(bounds.items())[1:]
        ]
        return said + "".join(more)

    def _bounds(self, executor: str) -> Mapping[str, RoundingBound]:
        return self.rounding if executor == "literal" else self.fused

    def _agreement(self) -> str:
        if self.terms > 1:
            return f"all {self.terms:,} coefficients agree"
        return "the only coefficient agrees" if self.terms else "the output vanishes"

    def _parts(self, name: str, total: float) -> Mapping[str, float]:
        """Return what a bound in one float format is made of."""
        return {"rounding": total}


_BOUNDS = ("rounding", "fused")
_PLAIN = (
    "target",
    "domain",
    "construction",
    "tokens",
    "depth",
    "margin",
    "terms",
    "scale",
    "blueprint_digest",
    "choice",
)


def finite(value: float | None) -> float | None:
    """Return ``None`` for infinities, which JSON does not know."""
    return value if value is not None and math.isfinite(value) else None


def shortened(text: str, width: int = 90) -> str:
    """Return a text cut to ``width`` characters, followed by its full length."""
    return text if len(text) <= width else f"{text[: width - 20]} … ({len(text):,} characters)"
