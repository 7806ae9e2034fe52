"""The family of polynomial models: mutated blueprints, their certificates, and runs against these."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from exactformer.algebra import Polynomial, Target
from exactformer.errors import ExactformerError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.polynomials.proof.certify import certify_blueprint
from exactformer.polynomials.proof.softmax_symbolic import is_softmax, run_softmax
from tests.adversary.engine import Candidate
from tests.adversary.interpreter import polynomial_at
from tests.adversary.points import exact_at, float_points
from tests.adversary.polynomial_bases import BASES, base
from tests.adversary.polynomial_mutations import misshapen, mutated
from tests.adversary.polynomial_refuting import refutation

_MISSHAPEN = 0.02
"""The share of candidates that are not even well formed."""


@dataclass(frozen=True)
class Claimed:
    """A blueprint and what it is claimed to compute."""

    blueprint: Blueprint
    target: Target


class Polynomials:
    """Blueprints of small polynomial models with one to four changes."""

    name = "polynomials"

    def changed(
        self, rng: random.Random, blueprint: Blueprint, origin: str
    ) -> tuple[Blueprint, list[str]]:
        """Change a blueprint; return it and the kinds of changes."""
        kinds = []
        for _ in range(rng.randint(1, 4) if origin != "grown" else rng.randint(3, 6)):
            blueprint, kind = mutated(rng, blueprint)
            kinds.append(kind)
        return blueprint, kinds

    def candidate(self, seed: int) -> Candidate:
        """Return a mutated blueprint with a target that it may well have."""
        rng = random.Random(f"{self.name} {seed}")
        blueprint, target, origin = base(rng.randrange(BASES))
        blueprint, changes = self.changed(rng, blueprint, origin)
        kinds = [f"base: {origin}", *changes]
        if rng.random() < _MISSHAPEN and len(blueprint.readouts) == 1:
            target = target or _any_target(blueprint)
            return Candidate(Claimed(misshapen(rng, blueprint), target), (*kinds, "misshapen"))
        wanted = rng.choices(("honest", "selves", "piece"), (2, 7, 1))[0]
        found = None
        if target is None or wanted != "honest":
            found = _own_target(rng, blueprint, wanted != "piece")
        if found is None:
            wanted, found = "honest", target or _any_target(blueprint)
        return Candidate(Claimed(blueprint, found), (*kinds, f"target: {wanted}"))

    def certify(self, candidate: Candidate) -> PolynomialCertificate:
        """Prove what can be proven."""
        return certify_blueprint(candidate.subject.blueprint, candidate.subject.target)

    def refute(
        self, candidate: Candidate, certificate: PolynomialCertificate, seed: int
    ) -> str | None:
        """Run the blueprint in every way, where the claims are most in danger."""
        rng = random.Random(f"refutation {seed}")
        claimed = candidate.subject
        return refutation(rng, claimed.blueprint, claimed.target, certificate)


def _own_target(rng: random.Random, blueprint: Blueprint, selves: bool) -> Target | None:
    """Return what the blueprint computes if every token selects itself, or near some point."""
    if is_softmax(blueprint):
        try:
            return _linearised(blueprint)
        except ExactformerError:
            return None
    points = float_points(blueprint, rng, 8)
    return polynomial_at(blueprint, exact_at(points[rng.randrange(len(points))], blueprint), selves)


def _linearised(blueprint: Blueprint) -> Target:
    """Return what a softmax model computes where attention is linear; only its own run knows."""
    run = run_softmax(blueprint, blueprint.domain)
    names = blueprint.variables
    variables = [
        Polynomial.from_terms({tuple(int(j == k) for k in range(len(names))): 1}, names)
        for j in range(len(names))
    ]
    polynomials = []
    for readout, by_token in zip(blueprint.readouts, run.readouts, strict=True):
        total = variables[0] * 0 + readout.bias
        for i, polynomial in enumerate(by_token):
            row = blueprint.embedding.features.by_row.get(i, [])
            feature = variables[0] * 0
            for j, weight in row:
                feature = feature + (variables[j] - blueprint.domain.offset(j)) * weight
            for k, coefficient in enumerate(polynomial.coeffs()):
                exact = Fraction(int(coefficient.p), int(coefficient.q))
                total = total + feature**k * exact
        polynomials.append(total)
    return Target(tuple(polynomials), blueprint.vector)


def _any_target(blueprint: Blueprint) -> Target:
    zero = Polynomial.from_terms({}, blueprint.variables)
    return Target((zero,) * len(blueprint.readouts), blueprint.vector)


FAMILY = Polynomials()
