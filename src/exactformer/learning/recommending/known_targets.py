"""Exact evidence on a target, from theory, without any sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from exactformer.couplings.target import Coupling
from exactformer.learning.recommending.evidence import Evidence, energy_rank, exactly
from exactformer.learning.recommending.samples import Array
from exactformer.targets.linear import LinearTarget


def known(relationship: Any) -> tuple[tuple[Evidence, ...], Array | None]:
    """Return exact evidence on a linear target or a scalar coupling, and a coupling's spectrum."""
    if isinstance(relationship, LinearTarget):
        return _linear(relationship), None
    if isinstance(relationship, Coupling) and relationship.dim is None:
        return _coupling(relationship)
    return (), None


def _linear(target: LinearTarget) -> tuple[Evidence, ...]:
    """Return what :mod:`exactformer.theory.floors` leave open, for inputs uniform on [0, 1]."""
    from exactformer.theory.floors import UNIFORM_VARIANCE, causal_floor

    total = UNIFORM_VARIANCE * float(np.square(target.matrix).sum()) / target.tau
    if not total:
        return ()
    causal, invariant = (
        1 - causal_floor(target.matrix, time_invariant=fixed, offset="free").error / total
        for fixed in (False, True)
    )
    return (
        exactly("exact, causal", causal, "share of the variance open to causal models of any kind"),
        exactly("exact, time-invariant", invariant, "share of the variance open to linear RNNs"),
    )


def _coupling(target: Coupling) -> tuple[tuple[Evidence, ...], Array]:
    from exactformer.theory import pod

    values = pod(target.rho, target.intervals, measure="probability").singular_values
    meaning = "singular values of the coupling itself with 99 % of its energy"
    return (exactly("exact score rank", energy_rank(values), meaning),), values
