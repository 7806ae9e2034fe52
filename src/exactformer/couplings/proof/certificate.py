"""The certificate of a coupling's model: numerical, since suprema and means are sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from exactformer.core.certificate import Bound, Certificate, Claim, Kind
from exactformer.core.options import choose
from exactformer.core.words import at_most
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.files import coupling_digest
from exactformer.couplings.proof.bound import COMPUTED, ErrorTerms
from exactformer.couplings.proof.rounding import rounding_bound
from exactformer.couplings.target import Coupling

EXECUTORS = ("fused", "literal")
NORM = "E Σ_t |H_t − Ĥ_t|, tokens independent and uniform"


@dataclass(frozen=True, kw_only=True)
class CouplingCertificate(Certificate):
    """How far the model of a coupling is from its target, by causes."""

    target: str
    """What the coupling is called."""
    terms: ErrorTerms
    """Everything but rounding, which depends on format and executor."""
    blueprint: CouplingBlueprint = field(repr=False, compare=False)

    @property
    def source(self) -> Kind:
        """Numerical where the terms were computed from functions and weights, else stated."""
        return Kind.NUMERICAL if self.terms.source == COMPUTED else Kind.STATED

    @property
    def claims(self) -> tuple[Claim, ...]:
        """A claim for each term, and rounding, which is proven."""
        terms, source = self.terms, self.source
        by = "" if source is Kind.NUMERICAL else f" ({terms.source})"
        return (
            Claim(
                "truncation",
                f"ρ is cut after {self.blueprint.head_dim} terms: T = {at_most(terms.tail, 4)}, on the "
                f"diagonal D = {at_most(terms.diagonal, 4)}, no weight above "
                f"w = {at_most(terms.concentration, 4)}{by}",
                source,
            ),
            Claim(
                "networks",
                f"ρ within {at_most(terms.coupling_error, 4)}, "
                f"f within {at_most(terms.value_error, 4)}, "
                f"F within {at_most(terms.outer_error, 4)} of their interpolants{by}",
                source,
            ),
            Claim("slope", f"F̂ has the Lipschitz constant K = {at_most(terms.lipschitz, 4)}"),
        )

    def bound(self, dtype: object = None, executor: str | None = None) -> Bound:
        """Return the bound in a number format, for one executor or for both."""
        dtype, executor = dtype or self.dtype, executor or self.executor
        if executor is None:
            return max(self.bound(dtype, each) for each in EXECUTORS)
        terms = self.rounded(dtype, executor)
        return Bound(terms.total, terms.parts, NORM, self.source)

    def rounded(self, dtype: object = None, executor: str | None = None) -> ErrorTerms:
        """Return all terms, rounding included."""
        executor = executor or self.executor or EXECUTORS[0]
        choose("executor", executor, EXECUTORS)
        rounding = rounding_bound(self.blueprint, dtype or self.dtype, executor)
        return replace(self.terms, rounding=rounding)

    def explained(self) -> str:
        """Return the bound, its parts, and the constants that they are made of."""
        terms = self.terms
        return (
            f"{self.bound()}\n"
            f"with K = {at_most(terms.lipschitz, 4)}, R = {at_most(terms.radius, 4)}, "
            f"tail T = {at_most(terms.tail, 4)}, diagonal D = {at_most(terms.diagonal, 4)}, "
            f"w = {at_most(terms.concentration, 4)}, {terms.source}"
        )

    @property
    def zero_error(self) -> bool:
        """Never: interpolants are approximations."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        low, high = self.blueprint.domain
        found: Mapping[str, Any] = {
            "target": self.target,
            "tokens": self.blueprint.tau,
            "domain": f"[{float(low):g}, {float(high):g}]",
            "head_dim": self.blueprint.head_dim,
            "zero_error": self.zero_error,
            "kind": str(self.kind),
            "claims": [{**vars(claim), "kind": str(claim.kind)} for claim in self.claims],
            "terms": self.terms.to_dict(),
            "bound": self.bound().to_dict(),
            "dtype": self.dtype,
            "executor": self.executor,
            "blueprint_digest": self.blueprint_digest,
        }
        return dict(found)

    def __str__(self) -> str:
        low, high = self.blueprint.domain
        lines = [
            f"Certificate of a coupling of {self.blueprint.tau} tokens in "
            f"[{float(low):g}, {float(high):g}]",
            *(f"  {claim.name:<10}  {claim}" for claim in self.claims),
            *(f"  {line}" for line in self.explained().splitlines()),
        ]
        return "\n".join(lines)


def certify_terms(
    blueprint: CouplingBlueprint, terms: ErrorTerms, target: Coupling | None = None
) -> CouplingCertificate:
    """Return the certificate that terms of a bound amount to."""
    name = blueprint.metadata.get("target", "") if target is None else target.name
    return CouplingCertificate(
        target=name, terms=terms, blueprint=blueprint, blueprint_digest=coupling_digest(blueprint)
    )
