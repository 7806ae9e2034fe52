"""The certificate of a softmax transformer: not zero error, but a bound with its three causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from exactformer.core.certificate import Claim
from exactformer.core.words import at_most
from exactformer.errors import InputError
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.polynomials.proof.softmax_error import ErrorBound


@dataclass(frozen=True, kw_only=True)
class SoftmaxCertificate(PolynomialCertificate):
    """What is proven where attention is an ordinary softmax.

    * attention: every token attends to itself and one constant token, or to a single one;
    * identity: with each softmax replaced by its linear part the output *is* the target;
    * error: |computed − Q| is at most ``errors[format]``, the sum of what the softmaxes have beyond
      their linear parts, of what masked tokens get, and of rounding.

    ``rounding`` repeats the whole bound; there is no closed form, so ``fused`` is empty.
    """

    errors: Mapping[str, ErrorBound]

    @property
    def zero_error(self) -> bool:
        """Never: a product of softmaxes is an approximation."""
        return False

    @property
    def executors(self) -> tuple[str, ...]:
        """Only the module itself, which is built of stock parts."""
        return ("literal",)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON holds without loss."""
        errors = {name: asdict(bound) for name, bound in self.errors.items()}
        return {**super().to_dict(), "zero_error": False, "errors": errors}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SoftmaxCertificate:
        """Read what :meth:`to_dict` wrote. This restores the words, not the proof: re-certify."""
        common = PolynomialCertificate.from_dict(data)
        try:
            errors = {name: ErrorBound(**bound) for name, bound in data["errors"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is not the certificate of a softmax model: {error}") from None
        return cls(**{f.name: getattr(common, f.name) for f in fields(common)}, errors=errors)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Attention and identity, and the checks of other programs."""
        return (
            Claim(
                "attention",
                "every token attends to itself and one constant token, others are masked",
            ),
            Claim("identity", f"{self._agreement()} exactly once softmax is linear"),
            *self.checks,
        )

    def describe(self, name: str) -> str:
        """Return in a line what is guaranteed in one float format."""
        bound = self.errors[name]
        if bound.total is None:
            return f"no guarantee: {bound.reason}"
        relative = f" ({at_most(bound.total / self.scale, 2)} of max|Q|)" if self.scale else ""
        parts = self._parts(name, bound.total).items()
        listed = ", ".join(f"{part} {at_most(value, 2)}" for part, value in parts)
        return f"|computed − exact| ≤ {at_most(bound.total)}{relative}: {listed}"

    def _parts(self, name: str, total: float) -> Mapping[str, float]:
        """Return truncation, leakage and the rest, which is rounding."""
        truncation, leakage = self.errors[name].truncation, self.errors[name].leakage
        assert truncation is not None
        assert leakage is not None
        return {
            "truncation": truncation,
            "leakage": leakage,
            "rounding": total - truncation - leakage,
        }
