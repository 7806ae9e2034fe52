"""From blueprint and target to certificate, from scratch."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from exactformer.algebra import Polynomial
from exactformer.blueprint import Blueprint
from exactformer.blueprint.storing import digest
from exactformer.certificates.certificate import Certificate, finite
from exactformer.certificates.identity import prove_identity
from exactformer.certificates.selection import prove_selection
from exactformer.execution.bounds import rounding_bound
from exactformer.execution.formats import FORMATS
from exactformer.execution.fused_bounds import fused_bound
from exactformer.execution.fusing import fuse
from exactformer.execution.symbolic import run_symbolic

SLACK = 1 + Fraction(1, 2**32)
"""Proofs cover a ball larger by this factor, so that ‖x‖ ≤ radius may be tested in floats."""

CERTIFIED_FORMATS = tuple(FORMATS)


def certify_blueprint(blueprint: Blueprint, target: Polynomial) -> Certificate:
    """Prove selection, identity and rounding; raise what cannot be proven."""
    run = run_symbolic(blueprint, blueprint.radius * SLACK)
    selection = prove_selection(run)
    terms = prove_identity(run, target)
    form = fuse(run)
    formats = [FORMATS[name] for name in CERTIFIED_FORMATS]
    return Certificate(
        target=str(target),
        variables=target.variables,
        radius=str(blueprint.radius),
        construction=blueprint.construction,
        tokens=blueprint.tokens,
        depth=blueprint.depth,
        margin=finite(selection.smallest),
        terms=terms,
        rounding={f.name: rounding_bound(run, selection.margins, f) for f in formats},
        fused={f.name: fused_bound(form, run.sizes.reach, run.radius, f) for f in formats},
        scale=_largest_value(target, blueprint.radius),
        blueprint_digest=digest(blueprint),
    )


def _largest_value(target: Polynomial, radius: Fraction, samples: int = 256) -> float:
    """Return the largest |Q| over points of the sphere: axes, and random ones with a fixed seed.

    What leaves float64 counts as its largest number, which JSON can hold.
    """
    d = target.dimension
    rng = np.random.default_rng(0)
    points = np.vstack([np.eye(d), -np.eye(d), rng.normal(size=(samples, d))])
    points *= float(radius) / np.linalg.norm(points, axis=1, keepdims=True) if d else 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.abs(target.evaluate(points))
    most = float(np.finfo(np.float64).max)
    return float(np.nan_to_num(values, nan=most, posinf=most).max())
