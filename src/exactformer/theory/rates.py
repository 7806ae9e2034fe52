"""Theorem 4.1 of Jiang and Li as a number: the printed form, and one that holds.

ρ is cut after m terms, ρ_m; φ, ψ, f and F are replaced by straight pieces. Tokens are independent and
uniform. Let a, b be the rows of the true and the computed scores at place t, p and q their softmax.

1. The derivative of the softmax takes v to p_i (v_i − v̄). Σ p_i |v_i − v̄| is convex in v, so largest on
   |v_i| ≤ 1 at signs; with P₊ the weight of the positive ones it is 4P₊(1 − P₊) ≤ 1. It is also at most
   (Σ p_i v_i²)^½ ≤ √P (Σ v_i²)^½ with P the largest weight. Hence, for a − b = v + w,
   ‖p − q‖₁ ≤ √P ‖v‖₂ + ‖w‖_∞, with P that of all scores between a and b.
2. Σ_s (p_s − q_s) f_s does not change when a constant is taken from f: at most R_f ‖p − q‖₁, with R_f
   the radius of the values of f about their centre. Σ_s q_s (f_s − f̂_s) is at most ε_f.
3. Take v_s = (ρ − ρ_m)(x_t, x_s) and w, at most ε_ρ, for the pieces. In the mean of ‖v‖₂² the tokens
   x_t, x_s are independent for s ≠ t but *equal* for s = t: one term is the diagonal's, not L²'s,

       B_t² = Σ_{s≠t} E|ρ − ρ_m|²(x_t, x_s) + E|ρ − ρ_m|²(x_t, x_t),

   which on one interval is (τ − 1) T² + D².
4. By Minkowski's inequality, for the root mean square, hence for the mean,

       (E|H_t − Ĥ_t|²)^½ ≤ K_F ( R_f (√P B_t + ε_ρ) + ε_f ) + ε_F.

Summed over t this bounds the left side of (17); squared it bounds the mean squared error. Feature
vectors √σ_k φ_k, √σ_k ψ_k give ε_ρ ≤ sup‖φ − φ̂‖ sup‖ψ‖ + sup‖φ‖ sup‖ψ − ψ̂‖, by Cauchy and Schwarz.

With σ_k ≤ C₁ k^(−α), T² ≤ C₁² m^(1−2α)/(2α − 1): the mean *squared* error has the printed rate
m^(−(2α−1)), the mean error half its exponent. The diagonal needs more: |ρ − ρ_m|(x, x) ≤ S Σ_{k>m} σ_k
with S = sup|φ_k ψ_k|, so D ≤ S C₁ m^(1−α)/(α − 1) for α > 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from exactformer.core.words import at_most
from exactformer.errors import InputError
from exactformer.theory.complexity import Complexity, Target, complexity, decompose
from exactformer.theory.decomposition import Decomposition
from exactformer.theory.outer import outer_function
from exactformer.theory.quadrature import Intervals, intervals_of
from exactformer.theory.smoothness import smoothness
from exactformer.theory.truncation import largest_weight, truncation_errors

Array = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class PrintedForm:
    """The right side of (17): τ² C₀ (C₁/m_h^(2α−1) + C₂ m_h^(β+1)/m_FF^β)."""

    complexity: Complexity
    tail: float
    """τ² C₀ C₁ / m_h^(2α−1)."""
    feed_forward: float
    """τ² C₀ C₂ m_h^(β+1) / m_FF^β."""
    squares: float
    """The first term before (12) is put in, as in (50): K_F sup|f| τ² Σ_{i>m} σ_i²."""

    @property
    def total(self) -> float:
        """The bound as printed."""
        return self.tail + self.feed_forward


@dataclass(frozen=True)
class RateBound:
    """A bound on E Σ_t |H_t − Ĥ_t| for the constructed model, term by term."""

    tau: int
    head_dim: int
    ff_width: int
    tail: float
    """T = (Σ_{k>m} σ_k²)^½."""
    diagonal: float
    """D = (E|ρ − ρ_m|²(x, x))^½."""
    truncation: tuple[float, ...]
    """B_t for every place t."""
    largest_weight: float
    """P, which no softmax weight exceeds."""
    eps_rho: float
    """ε_ρ = sup|ρ_m − ρ̂|."""
    eps_inner: float
    """ε_f = sup|f − f̂|."""
    eps_outer: float
    """ε_F = sup|F − F̂| on the box of values of f."""
    lipschitz: float
    """K_F."""
    radius_f: float
    """R_f."""
    digits: int
    """Digits to which the singular values are known."""
    printed: PrintedForm

    @property
    def per_token(self) -> Array:
        """The bound on the root mean square error at every place: (τ,)."""
        scores: Array = self.largest_weight**0.5 * np.array(self.truncation) + self.eps_rho
        return self.lipschitz * (self.radius_f * scores + self.eps_inner) + self.eps_outer

    @property
    def total(self) -> float:
        """The corrected bound on E Σ_t |H_t − Ĥ_t|."""
        return float(self.per_token.sum())

    @property
    def mean_squared(self) -> float:
        """The corrected bound on the mean over t of E|H_t − Ĥ_t|²."""
        return float((self.per_token**2).mean())

    def __str__(self) -> str:
        """Return both forms, every term on its line."""
        steep, tau = self.lipschitz, self.tau
        weight, passed = steep * self.radius_f, self.largest_weight**0.5
        lines = [
            f"Theorem 4.1 for m_h = {self.head_dim}, m_FF = {self.ff_width}, τ = {tau}",
            f"corrected: E Σ|H − Ĥ| ≤ {at_most(self.total, 4)}, "
            f"mean squared error ≤ {at_most(self.mean_squared, 4)}",
            f"  K_F = {steep:.4g}, R_f = {self.radius_f:.4g}, σ to {self.digits} digits",
            f"  tail       {weight * passed * sum(self.truncation):.3e}   T = {self.tail:.4g}, "
            f"diagonal D = {self.diagonal:.4g}, B = {max(self.truncation):.4g}, √P = {passed:.4g}",
            f"  ρ pieces   {tau * weight * self.eps_rho:.3e}   ε_ρ = {self.eps_rho:.4g}",
            f"  f pieces   {tau * steep * self.eps_inner:.3e}   ε_f = {self.eps_inner:.4g}",
            f"  F pieces   {tau * self.eps_outer:.3e}   ε_F = {self.eps_outer:.4g}",
            f"printed: {self.printed.total:.4g}",
            f"  tail       {self.printed.tail:.3e}   τ² C₀ C₁ / m_h^(2α−1)",
            f"  pieces     {self.printed.feed_forward:.3e}   τ² C₀ C₂ m_h^(β+1) / m_FF^β",
            *("  " + line for line in str(self.printed.complexity).splitlines()),
        ]
        return "\n".join(lines)


def bound(
    target: Target,
    head_dim: int,
    ff_width: int = 256,
    *,
    alpha: float | None = None,
    beta: int = 2,
    decomposition: Decomposition | None = None,
) -> RateBound:
    """Bound the error of the model with ``head_dim`` terms and ``ff_width`` pieces.

    Suprema, Lipschitz constants and curvatures come from a fine grid, integrals from quadrature: the
    bound holds as far as those do. ``decomposition`` is that of ρ for the uniform probability, if it is
    known already.
    """
    whole = isinstance(head_dim, Integral) and isinstance(ff_width, Integral)
    if not whole or head_dim < 1 or ff_width < len(target.intervals):
        raise InputError(
            f"a model needs head_dim ≥ 1 and a piece for each of {len(target.intervals)} intervals, "
            f"not head_dim={head_dim!r}, ff_width={ff_width!r}"
        )
    found = decompose(target, decomposition)
    kept, intervals = found.truncate(head_dim), intervals_of(target.intervals)
    # Pieces are shared evenly; what does not divide is not used.
    pieces = ff_width // len(intervals) * len(intervals)
    inner = smoothness(target.f, intervals)
    outer = outer_function(target.F, inner)
    truncation, diagonal = truncation_errors(target.intervals, target.tau, kept)
    measures = complexity(target, head_dim, alpha=alpha, beta=beta, decomposition=found)
    eps_rho = _features_error(kept, pieces, intervals)
    return RateBound(
        tau=target.tau,
        head_dim=head_dim,
        ff_width=ff_width,
        tail=kept.remainder,
        diagonal=diagonal,
        truncation=tuple(truncation.tolist()),
        largest_weight=largest_weight(target.tau, kept, eps_rho),
        eps_rho=eps_rho,
        eps_inner=inner.error(pieces),
        eps_outer=outer.error(ff_width),
        lipschitz=outer.lipschitz,
        radius_f=inner.radius,
        digits=found.digits,
        printed=_printed(target, ff_width, measures, found),
    )


def _features_error(kept: Decomposition, pieces: int, intervals: Intervals) -> float:
    """Return the bound on sup|ρ_m − ρ̂| for features √σ_k φ_k and √σ_k ψ_k in straight pieces."""
    if not kept.rank:
        return 0.0
    root = np.sqrt(kept.singular_values)
    rounding = float((kept.error + 4 * EPS * kept.singular_values[0]) / root[-1])
    phi = smoothness(lambda u: root * kept.left(u), intervals, rounding)
    psi = smoothness(lambda v: root * kept.right(v), intervals, rounding)
    return phi.error(pieces) * psi.largest + phi.largest * psi.error(pieces)


def _printed(
    target: Target, ff_width: int, measures: Complexity, found: Decomposition
) -> PrintedForm:
    m, scale = measures.terms, target.tau**2 * measures.C0
    weight = measures.lipschitz * measures.largest_f * target.tau**2
    return PrintedForm(
        complexity=measures,
        tail=scale * measures.C1 / m ** (2 * measures.alpha - 1),
        feed_forward=scale * measures.C2 * m ** (measures.beta + 1) / ff_width**measures.beta,
        squares=weight * found.tail(m) ** 2,
    )
