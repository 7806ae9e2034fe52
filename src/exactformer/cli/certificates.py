"""The certificate of a model of any family, on the protocol of :mod:`exactformer.core.certificate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from exactformer.core.certificate import Bound, Certificate, Claim, Kind
from exactformer.errors import CertificationError


def certificate_of(model: Any) -> Certificate:
    """Return what is known of a model.

    Raises:
        CertificationError: where nothing is: its weights were trained.
    """
    certificate = model.certificate if hasattr(type(model), "certificate") else model.bound
    if isinstance(certificate, Certificate):
        return certificate
    return _of_coupling(certificate) if hasattr(certificate, "source") else _of_table(certificate)


@dataclass(frozen=True, kw_only=True)
class _Restated(Certificate):
    """The words of a certificate that is not on the protocol yet."""

    sentences: tuple[Claim, ...]
    error: Bound | None
    data: dict[str, Any]
    exact: bool

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.sentences

    @property
    def zero_error(self) -> bool:
        return self.exact

    def bound(self, dtype: object = None, executor: str | None = None) -> Bound:
        if self.error is None:
            raise CertificationError("between the points of the grid nothing is known of the map")
        return self.error

    def to_dict(self) -> dict[str, Any]:
        return self.data


def _of_coupling(bound: Any) -> Certificate:
    kind = Kind.NUMERICAL
    claim = Claim("bound", f"{bound.source}; suprema and means were sampled", kind)
    error = Bound(bound.total, bound.terms, "E Σ_t |H_t − Ĥ_t|", kind)
    return _Restated(
        blueprint_digest="", sentences=(claim,), error=error, data=bound.to_dict(), exact=False
    )


def _of_table(certificate: Any) -> Certificate:
    methods = {
        "exhaustive": "every class went through every layer in exact arithmetic",
        "keys": "by the algebra of the keys",
    }
    limit = "" if certificate.softness is None else "as sharpness grows: "
    table = f"{limit}all {certificate.classes:,} classes exactly, error zero on the grid"
    claims = [Claim("table", f"{table}, {methods[certificate.method]}")]
    if certificate.rejected:
        claims.append(Claim("equal cells", f"{certificate.rejected:,} classes go to 0"))
    if certificate.outside:
        claims.append(Claim("outside", "whatever lies outside the support goes to 0"))
    formats = [name for name, holds in certificate.float_exact.items() if holds]
    exact = f"exact in {', '.join(formats)}" if formats else "beyond every float format"
    keys = f"{certificate.smallest_key:,} to {certificate.largest_key:,}, {exact}"
    claims.append(Claim("keys", keys))
    if certificate.softness is not None:
        claims += [Claim(name, text) for name, text in certificate.softness.lines().items()]
    return _Restated(
        blueprint_digest=certificate.blueprint_digest,
        sentences=tuple(claims),
        error=_table_error(dict(certificate.error or {})),
        data=certificate.to_dict(),
        exact=certificate.zero_error,
    )


def _table_error(error: dict[str, Any]) -> Bound | None:
    if not error:
        return None
    estimated = str(error.pop("modulus")).startswith("estimated")
    (norm, total), *parts = error.items()
    kind = Kind.ESTIMATED if estimated else Kind.PROVEN
    return Bound(total, dict(parts), norm, kind)
