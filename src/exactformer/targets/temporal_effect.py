"""What a change of temporal structure does to every complexity measure: section 6 as a table.

For linear relationships: whether a linear RNN can have them at all, C₁, C₂ and C_RNN, the least error
of linear RNNs and of any causal model on uniform inputs, and the singular values of T(t, s), which an
attention over times has to reproduce. For couplings: the singular values of ρ, and C₀, C₁, C₂.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isclose
from typing import Any

import numpy as np

from exactformer.couplings.target import Coupling
from exactformer.errors import InputError
from exactformer.targets.linear import LinearTarget
from exactformer.targets.temporal import Rewired
from exactformer.theory.complexity import complexity, decompose
from exactformer.theory.floors import Offset, causal_floor
from exactformer.theory.pod import pod
from exactformer.theory.recurrent import rnn_complexity

SHOWN = 4
"""Singular values listed."""
ROUNDING = 1e-26
"""Squared errors below this, of the target's size, are rounding."""

Measures = dict[str, float | str]


@dataclass(frozen=True)
class Effect:
    """Every measure before and after; text where there is no number."""

    before: Measures
    after: Measures

    def changed(self, measure: str, tolerance: float = 1e-6) -> bool:
        """Whether a measure is another than before, beyond a relative tolerance."""
        old, new = self.before.get(measure, ""), self.after.get(measure, "")
        if isinstance(old, str) or isinstance(new, str):
            return old != new
        return not isclose(old, new, rel_tol=tolerance)

    def __str__(self) -> str:
        """Return the table, a star where a measure changed."""
        labels = list(dict.fromkeys([*self.before, *self.after]))
        sides = self.before, self.after
        rows = [(label, *(_text(side.get(label, "")) for side in sides)) for label in labels]
        widths = [max(len(row[i]) for row in [*rows, ("", "before", "after")]) for i in range(3)]
        lines = [f"{'':{widths[0]}}  {'before':>{widths[1]}}  {'after':>{widths[2]}}"]
        for label, old, new in rows:
            star = " *" if self.changed(label) else ""
            lines.append(f"{label:{widths[0]}}  {old:>{widths[1]}}  {new:>{widths[2]}}{star}")
        return "\n".join(lines)


def effect_of(before: Any, after: Any, terms: int = SHOWN) -> Effect:
    """Compare a target with what reorder, mix or relabel made of it.

    ``terms`` is the k of C₂(·, k) of couplings, at most the rank.
    """
    return Effect(_measures(before, terms), _measures(after, terms))


def _measures(target: Any, terms: int) -> Measures:
    if isinstance(target, LinearTarget):
        return _linear(target)
    if isinstance(target, Coupling):
        return _coupling(target, terms)
    if isinstance(target, Rewired):
        return _rewired(target)
    raise InputError(f"measures are known of linear targets and couplings, not of {target!r}")


def _linear(target: LinearTarget) -> Measures:
    T = target.matrix
    recurrent = rnn_complexity(T)
    sigma = np.linalg.svd(T, compute_uv=False)
    measures: Measures = {
        "C₁ of the RNN": recurrent.C1,
        "C₂ of the RNN": recurrent.C2,
        "C_RNN": recurrent.C_RNN,
        "in the RNN's space": "yes" if recurrent.member else f"no: {recurrent.reason}",
        "least error, linear RNN": _error(T, True, "none"),
        "least error, RNN with biases": _error(T, True, "free"),
        "least error, any causal model": _error(T, False, "free"),
    }
    return measures | _listed(sigma, "T")


def _error(T: Any, time_invariant: bool, offset: Offset) -> float:
    """Return the floor, as 0 where it is the rounding of its computation."""
    error = causal_floor(T, time_invariant=time_invariant, offset=offset).error
    return error if error > ROUNDING * float((T**2).sum()) else 0.0


def _coupling(target: Coupling, terms: int) -> Measures:
    found = decompose(target)
    measured = complexity(target, min(terms, found.rank), alpha=1.0, decomposition=found)
    measures: Measures = {"form": "pairwise (8)", "rank": float(found.rank)}
    measures |= _listed(found.singular_values, "ρ")
    return measures | {"C₀": measured.C0, "C₁, α = 1": measured.C1, "C₂, β = 2": measured.C2}


def _rewired(target: Rewired) -> Measures:
    measures: Measures = {"form": "not pairwise"}
    if target.tau != 2 or target.target.dim is not None:
        return measures
    found = pod(target.logit(0, 1), target.target.domain, measure="probability")
    order = np.arange(1, found.rank + 1)
    measures |= {"rank": float(found.rank)} | _listed(found.singular_values, "ρ")
    return measures | {"C₁, α = 1": float((found.singular_values * order).max(initial=0.0))}


def _listed(sigma: Any, name: str) -> Measures:
    padded = np.pad(sigma[:SHOWN], (0, max(0, SHOWN - len(sigma))))
    return {f"σ_{k} of {name}": float(value) for k, value in enumerate(padded, 1)}


def _text(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "∞" if value == inf else f"{value:.6g}"
