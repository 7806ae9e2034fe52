"""Complexity measures of a coupling: C₀ (15), C₁^(α) (12) and C₂^(β)(·, k) (14).

    C₀ = max{ K_F ‖f‖_∞ (sup_i ‖ψ_i‖_∞ + ‖φ_i‖_∞), 1 }
    C₁ = least c with σ_k ≤ c·k^(−α) for all k
    C₂ = C_FF(F) + C_FF(f) + Σ_{i≤k} (C_FF(φ_i) + C_FF(ψ_i))

The paper takes infima over all F, f, ρ that give the same H; here they are those of the representation
given, which bounds the infima from above. Braces with a comma in (15) are read as a maximum. C_FF is
that of straight pieces (:mod:`exactformer.theory.smoothness`), and every expectation is over
independent uniform tokens, so the decomposition is with respect to the uniform *probability*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, Protocol

import numpy as np

from exactformer.errors import InputError
from exactformer.theory.decomposition import Decomposition
from exactformer.theory.outer import outer_function
from exactformer.theory.pod import pod
from exactformer.theory.quadrature import Intervals, Rule, intervals_of
from exactformer.theory.smoothness import Smoothness, components, smoothness


class Target(Protocol):
    """What is needed of a coupling of scalar tokens."""

    @property
    def F(self) -> Callable[[Any], Any]:  # noqa: N802
        """What is made of the mean."""

    @property
    def f(self) -> Callable[[Any], Any]:
        """What a token contributes."""

    @property
    def rho(self) -> Callable[[Any, Any], Any]:
        """How much one token matters to another."""

    @property
    def tau(self) -> int:
        """The number of tokens."""

    @property
    def intervals(self) -> Intervals:
        """Where tokens live: one interval, or one for every place."""


@dataclass(frozen=True)
class Complexity:
    """C₀, C₁ and C₂ of a coupling, with what they are made of."""

    C0: float
    C1: float
    C2: float
    alpha: float
    """The exponent of C₁; decay slower than k^(−1/2) has none."""
    beta: int
    terms: int
    """The k of C₂(·, k)."""
    lipschitz: float
    largest_f: float
    largest_phi: float
    largest_psi: float
    of_outer: float
    of_inner: float
    of_rho: float

    def __str__(self) -> str:
        """Return the three measures, each with its parts."""
        return (
            f"C₀ = {self.C0:.4g}   K_F = {self.lipschitz:.4g}, ‖f‖ = {self.largest_f:.4g}, "
            f"‖φ‖ = {self.largest_phi:.4g}, ‖ψ‖ = {self.largest_psi:.4g}\n"
            f"C₁ = {self.C1:.4g}   α = {self.alpha:.4g}\n"
            f"C₂ = {self.C2:.4g}   β = {self.beta}, k = {self.terms}: F {self.of_outer:.4g}, "
            f"f {self.of_inner:.4g}, φ and ψ {self.of_rho:.4g}"
        )


def decompose(target: Target, known: Decomposition | None = None) -> Decomposition:
    """Return the decomposition of a target's ρ for uniform tokens, or ``known`` if it is one."""
    if getattr(target, "dim", None) is not None:
        raise InputError("rates are computed for scalar tokens; decompose ρ on a Box for vectors")
    intervals = intervals_of(target.intervals)
    if known is None:
        return pod(target.rho, intervals, measure="probability")
    if known.kernel is None or not _is_uniform(known.u, intervals):
        raise InputError(
            "this decomposition is not that of the target's ρ for uniform tokens: "
            f'pod(target.rho, {list(intervals)}, measure="probability")'
        )
    return known


def _is_uniform(rule: Rule, intervals: Intervals) -> bool:
    """Say whether a rule gives every interval its share of 1, with the middle for a mean."""
    total = sum(high - low for low, high in intervals)
    shares = []
    for low, high in intervals:
        inside = (rule.nodes > low) & (rule.nodes < high)
        about_middle = rule.weights[inside] @ (rule.nodes[inside] - (low + high) / 2)
        shares += [rule.weights[inside].sum() - (high - low) / total, about_middle / (high - low)]
    return float(np.abs(shares).max()) < 1e-9


def complexity(
    target: Target,
    terms: int,
    *,
    alpha: float | None = None,
    beta: int = 2,
    decomposition: Decomposition | None = None,
) -> Complexity:
    """Return the complexity measures with k = ``terms``; ``alpha`` is fitted unless given."""
    found = decompose(target, decomposition)
    intervals = intervals_of(target.intervals)
    inner = smoothness(target.f, intervals)
    outer = outer_function(target.F, inner)
    of_rho = sum(basis.complexity(beta) for basis in bases(found.truncate(terms), intervals))
    phi, psi = (
        float(np.abs(values).max(initial=0.0)) for values in (found.left_values, found.right_values)
    )
    rate = decay_exponent(found) if alpha is None else alpha
    return Complexity(
        C0=max(outer.lipschitz * inner.largest * (phi + psi), 1.0),
        C1=least_constant(found, rate),
        C2=outer.complexity(beta) + inner.complexity(beta) + of_rho,
        alpha=rate,
        beta=beta,
        terms=terms,
        lipschitz=outer.lipschitz,
        largest_f=inner.largest,
        largest_phi=phi,
        largest_psi=psi,
        of_outer=outer.complexity(beta),
        of_inner=inner.complexity(beta),
        of_rho=of_rho,
    )


def least_constant(found: Decomposition, alpha: float) -> float:
    """Return C₁^(α) = max σ_k k^α over the values resolved; infinite unless α > 1/2."""
    if not alpha > 0.5:
        return inf
    order = np.arange(1, found.rank + 1, dtype=np.float64)
    return float((found.singular_values * order**alpha).max(initial=0.0))


def decay_exponent(found: Decomposition) -> float:
    """Return the fitted α, or 1 where there are too few values to fit one."""
    alpha = found.decay().alpha if found.rank else 1.0
    return 1.0 if isnan(alpha) else alpha


def bases(found: Decomposition, intervals: Intervals) -> list[Smoothness]:
    """Measure every φ_k, then every ψ_k; Nyström's formula divides the error of ρ by σ_k."""
    sigma = found.singular_values
    rounding = (found.error + 4 * np.finfo(np.float64).eps * sigma[:1]) / sigma
    return [
        measured
        for side in (found.left, found.right)
        for measured in components(side, intervals, rounding)
    ]
