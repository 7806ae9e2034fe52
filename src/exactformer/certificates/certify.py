"""From blueprint and target to certificate, from scratch."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from exactformer.algebra import Polynomial, Target
from exactformer.algebra.rational import to_float
from exactformer.blueprint import Blueprint, Box, Domain
from exactformer.blueprint.storing import digest
from exactformer.certificates.certificate import Certificate, finite
from exactformer.certificates.identity import prove_identity
from exactformer.certificates.selection import prove_selection
from exactformer.execution.bounds import rounding_bound
from exactformer.execution.formats import FORMATS
from exactformer.execution.fused_bounds import fused_bound
from exactformer.execution.fusing import FusedForm, fuse
from exactformer.execution.symbolic import run_symbolic

SLACK = 1 + Fraction(1, 2**32)
"""Proofs cover a domain larger by this factor, so that x may be tested for it in floats."""

CERTIFIED_FORMATS = tuple(FORMATS)


def certify_blueprint(blueprint: Blueprint, target: Target | Polynomial) -> Certificate:
    """Prove selection, identity and rounding; raise what cannot be proven."""
    target = Target.coerce(target)
    run = run_symbolic(blueprint, blueprint.domain.enlarged(SLACK))
    selection = prove_selection(run)
    terms = prove_identity(run, target)
    form = fuse(run)
    formats = [FORMATS[name] for name in CERTIFIED_FORMATS]
    return Certificate(
        target=str(target),
        variables=target.variables,
        domain=str(blueprint.domain),
        construction=blueprint.construction,
        tokens=blueprint.tokens,
        depth=blueprint.depth,
        margin=finite(selection.smallest),
        terms=terms,
        rounding={f.name: rounding_bound(run, selection.margins, f) for f in formats},
        fused={f.name: fused_bound(form, run.sizes.reach, run.domain, f) for f in formats},
        scale=_largest_value(form, blueprint.domain),
        blueprint_digest=digest(blueprint),
    )


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
