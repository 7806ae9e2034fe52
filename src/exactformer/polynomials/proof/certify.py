"""Proofs of a blueprint, from scratch: selection, identity with the target, rounding."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.rational import to_float
from exactformer.core.domain import Box, Domain
from exactformer.core.formats import FORMATS
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.files import digest
from exactformer.polynomials.proof.certificate import PolynomialCertificate, finite
from exactformer.polynomials.proof.closed_form_rounding import fused_bound
from exactformer.polynomials.proof.identity import prove_identity
from exactformer.polynomials.proof.literal_rounding import RoundingBound, rounding_bound
from exactformer.polynomials.proof.selection import prove_selection
from exactformer.polynomials.proof.softmax_certificate import SoftmaxCertificate
from exactformer.polynomials.proof.softmax_error import softmax_bound
from exactformer.polynomials.proof.softmax_symbolic import is_softmax, run_softmax
from exactformer.polynomials.proof.symbolic import run_symbolic
from exactformer.polynomials.run.closed_form import FusedForm, fuse

SLACK = 1 + Fraction(1, 2**32)
"""Proofs cover a domain larger by this factor, so that x may be tested for it in floats."""


@dataclass(frozen=True)
class Proof:
    """A certificate, with the closed form and the target that it was proven for.

    A model is built from it. Where form or target are missing, the model reads them again: the form
    from its blueprint, the target from the certificate's text.
    """

    certificate: PolynomialCertificate
    form: FusedForm | None = None
    target: Target | None = None


def certify_blueprint(blueprint: Blueprint, target: Target | Polynomial) -> PolynomialCertificate:
    """Return the certificate of a proof alone; raise what cannot be proven."""
    return prove(blueprint, target).certificate


def prove(blueprint: Blueprint, target: Target | Polynomial) -> Proof:
    """Prove selection, identity and rounding; raise what cannot be proven."""
    target = Target.coerce(target)
    if is_softmax(blueprint):
        return _prove_softmax(blueprint, target)
    run = run_symbolic(blueprint, blueprint.domain.enlarged(SLACK))
    selection = prove_selection(run)
    terms = prove_identity(run, target)
    form = fuse(run)
    certificate = PolynomialCertificate(
        target=str(target),
        variables=target.variables,
        domain=str(blueprint.domain),
        construction=blueprint.construction,
        tokens=blueprint.tokens,
        depth=blueprint.depth,
        margin=finite(selection.smallest),
        terms=terms,
        rounding={f.name: rounding_bound(run, selection.margins, f) for f in FORMATS.values()},
        fused={f.name: fused_bound(form, run.sizes.reach, run.domain, f) for f in FORMATS.values()},
        scale=_largest_value(form, blueprint.domain),
        blueprint_digest=digest(blueprint),
    )
    return Proof(certificate, form, target)


def _prove_softmax(blueprint: Blueprint, target: Target) -> Proof:
    """Prove attention and the identity of the linear parts; bound all that is left."""
    run = run_softmax(blueprint, blueprint.domain.enlarged(SLACK))
    terms = prove_identity(run, target)
    form = fuse(run)
    errors = {f.name: softmax_bound(run, f) for f in FORMATS.values()}
    certificate = SoftmaxCertificate(
        target=str(target),
        variables=target.variables,
        domain=str(blueprint.domain),
        construction=blueprint.construction,
        tokens=blueprint.tokens,
        depth=blueprint.depth,
        margin=None,
        terms=terms,
        rounding={n: RoundingBound(e.total, e.any_order, e.reason) for n, e in errors.items()},
        fused={},
        scale=_largest_value(form, blueprint.domain),
        blueprint_digest=digest(blueprint),
        errors=errors,
    )
    return Proof(certificate, form, target)


def _largest_value(form: FusedForm, domain: Domain, samples: int = 256) -> float:
    """Return the largest |Q| met over points of the surface: axes, and random ones, always the same.

    What leaves float64 counts as its largest number, which JSON can hold.
    """
    d = form.features.columns
    rng = np.random.default_rng(0)
    points = np.vstack([np.eye(d), -np.eye(d), rng.normal(size=(samples, d))])
    if d:
        order = np.inf if isinstance(domain, Box) else 2
        points /= np.linalg.norm(points, ord=order, axis=1, keepdims=True)
    points *= np.array([to_float(domain.extent(j)) for j in range(d)])
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.abs(form.at_offsets(points))
    most = float(np.finfo(np.float64).max)
    return float(np.nan_to_num(values, nan=most, posinf=most).max())
