"""One attention layer with one head between two feed-forward networks, as data: equation (5).

Jiang & Li 2023:  ĥ(s) = f̂(x(s) + e(s)),  Ĥ_t = F̂( Σ_s softmax_s(⟨W_Q ĥ(t), W_K ĥ(s)⟩) · W_V ĥ(s) ).

The rows of ĥ have names; W_Q, W_K and W_V select them:

    phi_1 … phi_m      read by W_Q      φ̂_k, the left functions of the coupling
    psi_1 … psi_m      read by W_K      ψ̂_k, the right ones
    value_1 … value_v  read by W_V      f̂, what is averaged
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from exactformer.core.matrix import Matrix
from exactformer.core.words import plural
from exactformer.couplings.interpolant import Interpolant, Interval
from exactformer.couplings.kuhn import KuhnInterpolant
from exactformer.errors import InputError


@dataclass(frozen=True)
class CouplingCounts:
    """What a coupling blueprint costs."""

    features: int
    """n = 2 m_h + m_v, the rows of ĥ."""
    hidden: tuple[int, ...]
    """Units of the hidden layers of f̂."""
    outer_hidden: tuple[int, ...]
    """Units of those of F̂."""
    weights: int
    """Numbers that were chosen: values at knots; all else is fixed by the knots."""


@dataclass(frozen=True, eq=False)
class CouplingBlueprint:
    """Feed-forward, attention, feed-forward, over named rows."""

    tau: int
    domain: Interval
    positions: tuple[Fraction, ...] | None
    """e(1) … e(τ), or None where the model does not know positions."""
    head_dim: int
    features: Interpolant
    """f̂: a token to n rows."""
    outer: Interpolant | KuhnInterpolant
    """F̂: the averaged values to a number."""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.value_dim < 1:
            raise InputError(f"{self.features.outputs} rows leave none for the values")
        if self.positions is not None and len(self.positions) != self.tau:
            raise InputError(f"{len(self.positions)} positions for {self.tau} tokens")
        if self.tau < 1 or self.head_dim < 1:
            raise InputError(f"{self.tau} tokens and a head of dimension {self.head_dim}")
        if self.features.knots.intervals != self.token_intervals:
            raise InputError("the knots of f̂ do not cover the domain, moved by every position")
        box = len(self.outer.box) if isinstance(self.outer, KuhnInterpolant) else 1
        if isinstance(self.outer, Interpolant) and len(self.outer.knots.intervals) != 1:
            raise InputError("the knots of F̂ lie on one interval")
        if box != self.value_dim or self.outer.outputs != 1:
            raise InputError(
                f"F̂ takes {box} numbers to {self.outer.outputs}; it should take {self.value_dim}, the "
                "value rows, to one"
            )

    @property
    def token_intervals(self) -> tuple[Interval, ...]:
        """Where encoded tokens live: domain + e(t) for every t, or the domain."""
        low, high = self.domain
        places = (Fraction(0),) if self.positions is None else self.positions
        return tuple((low + e, high + e) for e in places)

    @property
    def value_dim(self) -> int:
        """m_v, the rows that W_V reads."""
        return self.features.outputs - 2 * self.head_dim

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the rows of ĥ."""
        heads = range(1, self.head_dim + 1)
        return (
            *(f"phi_{k}" for k in heads),
            *(f"psi_{k}" for k in heads),
            *(f"value_{k}" for k in range(1, self.value_dim + 1)),
        )

    @property
    def query(self) -> Matrix:
        """W_Q, m_h × n."""
        return self._selection(0, self.head_dim)

    @property
    def key(self) -> Matrix:
        """W_K, m_h × n: row k is e_(k + m_h). (The paper prints k + m_h + 1, which skips ψ̂_1.)"""
        return self._selection(self.head_dim, self.head_dim)

    @property
    def value(self) -> Matrix:
        """W_V, m_v × n."""
        return self._selection(2 * self.head_dim, self.value_dim)

    def counts(self) -> CouplingCounts:
        """Count rows, hidden units and chosen numbers."""
        weights = self.features.values.size + self.outer.values.size
        rows = self.features.outputs
        return CouplingCounts(rows, self.features.hidden, self.outer.hidden, weights)

    def _selection(self, start: int, rows: int) -> Matrix:
        entries = {(k, start + k): Fraction(1) for k in range(rows)}
        return Matrix(rows, self.features.outputs, entries)

    def facts(self) -> dict[str, Any]:
        """Return what a model of it is, as plain data."""
        counts, places = self.counts(), self.positions
        return {
            "target": self.metadata.get("target"),
            "tokens": self.tau,
            "domain": [str(end) for end in self.domain],
            "positions": None if places is None else [str(place) for place in places],
            "head_dim": self.head_dim,
            "value_dim": self.value_dim,
            "features": counts.features,
            "hidden": list(counts.hidden),
            "outer_hidden": list(counts.outer_hidden),
            "weights": counts.weights,
            "dimensions": list(self.dimensions),
        }

    def rows(self) -> dict[str, str]:
        """Return what a model of it is in words, a line for every name."""
        counts = self.counts()
        low, high = self.domain
        positions = "without positions" if self.positions is None else "with positions"
        return {
            "coupling": self.metadata.get("target") or "not named",
            "inputs": f"{plural(self.tau, 'token')}, one number each, in [{low}, {high}]",
            "transformer": f"one head of dimension {self.head_dim}, "
            f"{plural(self.value_dim, 'value row')}, {positions}",
            "f̂": _widths(1, *counts.hidden, counts.features),
            "F̂": _widths(self.value_dim, *counts.outer_hidden, 1),
            "weights": f"{counts.weights:,} values at knots; all else follows from the knots",
        }


def _widths(*sizes: int) -> str:
    return " → ".join(f"{size:,}" for size in sizes)
