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

_SAMPLES, _EXACT, _AXES, _MAX_TERMS = 256, 8, 32, 200_000
_INSIDE = 1 - 2.0**-40  # rounding leaves such points in the domain


@dataclass(frozen=True)
class Proof:
    """A certificate, with the closed form that it was proven for.

    A model is built from it. Where the form is missing, the model reads it again from its blueprint.
    """

    certificate: PolynomialCertificate
    form: FusedForm | None = None


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
        scale=largest_value(target, blueprint.domain, form),
        blueprint_digest=digest(blueprint),
    )
    return Proof(certificate, form)


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
        rounding={n: RoundingBound(e.total, e.reason) for n, e in errors.items()},
        fused={},
        scale=largest_value(target, blueprint.domain, form),
        blueprint_digest=digest(blueprint),
        errors=errors,
    )
    return Proof(certificate, form)


def largest_value(target: Target, domain: Domain, form: FusedForm | None = None) -> float:
    """Return a lower bound of max|Q| on a domain: the largest exact |Q| at some of its points.

    These are the centre, the ends of the axes, and the points of a sample where a closed form, run in
    floats, has its largest values. A number beyond float64 counts as its largest.
    """
    d = target.dimension
    centre, extents = [domain.offset(j) for j in range(d)], [domain.extent(j) for j in range(d)]
    points = [
        [c + e * Fraction(x) for c, e, x in zip(centre, extents, u, strict=True)]
        for u in _sample(domain, d, form)
    ]
    points.append(centre)
    points += [
        [c + sign * extents[j] * (i == j) for i, c in enumerate(centre)]
        for j in range(min(d, _AXES))
        for sign in (1, -1)
    ]
    few = max(2, _MAX_TERMS // (1 + sum(map(len, target))))  # of many terms
    largest = max(abs(polynomial.at(point)) for polynomial in target for point in points[:few])
    most = float(np.finfo(np.float64).max)
    nearest = min(to_float(largest), most)
    return nearest if nearest <= largest else float(np.nextafter(nearest, 0.0))


def _sample(domain: Domain, d: int, form: FusedForm | None) -> list[list[float]]:
    """Return points u of the unit ball or box, always the same: the most promising ones."""
    if not d:
        return []
    rng = np.random.default_rng(0)
    order = np.inf if isinstance(domain, Box) else 2
    points = rng.normal(size=(_SAMPLES, d))
    points[1::2] = np.sign(
        points[1::2]
    )  # corners of a box: there products of variables are largest
    points *= _INSIDE / np.linalg.norm(points, ord=order, axis=1, keepdims=True)
    if form is None:
        return points[:_EXACT].tolist()  # type: ignore[no-any-return]
    extents = np.array([to_float(domain.extent(j)) for j in range(d)])
    points = np.vstack([points, points[:_EXACT] / 2])
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.abs(form.at_offsets(points * extents)).max(axis=1)
    best = np.argsort(-np.nan_to_num(values, nan=np.inf), kind="stable")
    return points[best[:_EXACT]].tolist()  # type: ignore[no-any-return]
