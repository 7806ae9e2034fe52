"""How far a coupling's model can be from its target: Theorem 4.1, corrected, with every term.

The error is that of the theorem, E Σ_t |H_t(x) − Ĥ_t(x)| over independent uniform tokens. At each t,

    |F(h) − F̂(ĥ)| ≤ |F(h) − F̂(h)| + K |h − ĥ|_∞      K: the Lipschitz constant of F̂, which is known
    |h − ĥ| ≤ R ‖p − p̂‖₁ + ε_f                        R: half the range of f, as weights sum to 1
    |ρ_m − ρ̂| ≤ ε_ρ = sup‖φ − φ̂‖ sup‖ψ̂‖ + sup‖φ‖ sup‖ψ − ψ̂‖     over k, with √σ_k in φ and ψ

and softmax weights p move with their scores a as dp_s = p_s (da_s − Σ p da), so that
‖dp‖₁ ≤ (Σ_s p_s da_s²)^½. From ρ_m to ρ̂ this is at most ε_ρ. From ρ to ρ_m it is at most
(w Σ_s |ρ − ρ_m|²(x(t), x(s)))^½, where no weight exceeds w = 1/(1 + (τ − 1) e^(−ω)), ω being how far
scores of one query lie apart; nor does ‖p − p̂‖₁ exceed 2. The mean of the sum is

    B_t = (τ − 1) T² + D²,    T² = E|ρ − ρ_m|²(u, v) the tail,  D² = E|ρ − ρ_m|²(u, u) the *diagonal*

(s = t), which no norm of L² controls and equation (46) overlooks. Hence

    E Σ_t |H_t − Ĥ_t| ≤ Σ_t { K R (min(√(w B_t), 2) + ε_ρ) + K ε_f + ε_F } + rounding.

With positions B_t is summed over the blocks I_t × I_s. The term at t also bounds (E|H_t − Ĥ_t|²)^½.
Suprema are taken over two to sixteen points a piece, those of f and F, which cost little, over 16,384
and more, for F at values of f and at random ones, in step with nothing; expectations over a grid that
is not the one the decomposition was computed on. A spike that falls between all of these is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from exactformer.blueprint.coupling import CouplingBlueprint
from exactformer.blueprint.coupling_drawing import range_points, tabulated
from exactformer.blueprint.coupling_interpolant import Floats, Interpolant, Interval, Knots
from exactformer.blueprint.coupling_slopes import lipschitz
from exactformer.constructions.coupling import shared
from exactformer.targets import Coupling
from exactformer.theory import Decomposition
from exactformer.theory.decomposition import evaluate

FINE = 2**16
"""Points for suprema, as far as two to sixteen a piece allow."""
LEAST = 512
"""Points for suprema of φ and ψ, however few the pieces."""
SCATTERED = 2**14
"""Random points for the supremum of F − F̂."""
GRID = 769
"""Points a side for expectations over pairs: a prime, in step with no wave that is likely."""
DIAGONAL = 4099
"""Points for expectations over one token."""


@dataclass(frozen=True)
class CouplingBound:
    """A bound on E Σ_t |H_t − Ĥ_t|, by its terms."""

    tail: float
    """T: how far ρ_m is from ρ, in L²."""
    diagonal: float
    """D: the same on the diagonal, where a token meets itself."""
    lipschitz: float
    """K."""
    radius: float
    """R, half the range of f."""
    coupling_error: float
    """ε_ρ."""
    value_error: float
    """ε_f."""
    outer_error: float
    """ε_F."""
    concentration: float
    """w: the largest weight that any token can get."""
    root_sums: tuple[float, ...]
    """√B_t, for every token."""
    rounding: float = 0.0
    """Of one output, in the model's number format."""

    @property
    def weight_errors(self) -> Floats:
        """What truncation may do to the weights of each token, in ‖·‖₁."""
        return np.asarray(np.minimum(self.concentration**0.5 * np.array(self.root_sums), 2.0))

    @property
    def terms(self) -> Mapping[str, float]:
        """The parts of the bound, which add up to it."""
        steep, tau = self.lipschitz, len(self.root_sums)
        return {
            "truncation": steep * self.radius * float(self.weight_errors.sum()),
            "interpolation of the coupling": tau * steep * self.radius * self.coupling_error,
            "interpolation of f": tau * steep * self.value_error,
            "interpolation of F": tau * self.outer_error,
            "rounding": tau * self.rounding,
        }

    @property
    def total(self) -> float:
        """The bound."""
        return sum(self.terms.values())

    @property
    def mean_squared(self) -> float:
        """A bound on the mean of |H_t − Ĥ_t|² over tokens and inputs."""
        rest = (self.total - self.terms["truncation"]) / len(self.root_sums)
        each = self.lipschitz * self.radius * self.weight_errors + rest
        return float((each**2).mean())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def of_dict(cls, data: Mapping[str, Any]) -> CouplingBound:
        """Read what :meth:`to_dict` gave."""
        return cls(**{**data, "root_sums": tuple(data["root_sums"])})

    def __str__(self) -> str:
        """Return a line for each term."""
        lines = [f"E Σ_t |H_t − Ĥ_t| ≤ {self.total:.4g}, of which"]
        lines += [f"  {value:10.4g}  {name}" for name, value in self.terms.items()]
        lines.append(
            f"with K = {self.lipschitz:.4g}, R = {self.radius:.4g}, tail T = {self.tail:.4g}, "
            f"diagonal D = {self.diagonal:.4g}, w = {self.concentration:.4g}"
        )
        return "\n".join(lines)


def bound_coupling(
    blueprint: CouplingBlueprint, target: Coupling, decomposition: Decomposition
) -> CouplingBound:
    """Bound the error of a constructed model, rounding left out."""
    kept = decomposition.truncate(blueprint.head_dim)
    truncation = _truncation(target, kept)
    coupling_error, value_error, radius = _features(blueprint, target, kept)
    return CouplingBound(
        **truncation,
        lipschitz=lipschitz(blueprint.outer),
        radius=radius,
        coupling_error=coupling_error,
        value_error=value_error,
        outer_error=_outer_error(blueprint, target),
    )


def _truncation(target: Coupling, kept: Decomposition) -> dict[str, Any]:
    """Return T, D, w and √B_t by their names."""
    intervals = target.intervals
    points = _midpoints(intervals, GRID)
    flat = points.ravel()
    scores, cut = evaluate(target.rho, flat, flat), kept.matrix(flat, flat)
    gap = scores - cut
    blocks = len(intervals)
    squares = (gap.reshape(blocks, -1, blocks, points.shape[1]) ** 2).mean(axis=(1, 3))
    fine = _midpoints(intervals, DIAGONAL)
    own = ((target.rho(fine, fine) - kept(fine, fine)) ** 2).mean(axis=1)
    if target.positions is None:
        sums = np.full(target.tau, (target.tau - 1) * squares[0, 0] + own[0])
    else:
        sums = squares.sum(axis=1) - np.diag(squares) + own
    apart = max(float(np.ptp(rows, axis=1).max()) for rows in (scores, cut))
    return {
        "tail": float(squares.mean()) ** 0.5,
        "diagonal": float(own.mean()) ** 0.5,
        "concentration": 1 / (1 + (target.tau - 1) * float(np.exp(-apart))),
        "root_sums": tuple(float(root) for root in np.sqrt(sums)),
    }


def _features(
    blueprint: CouplingBlueprint, target: Coupling, kept: Decomposition
) -> tuple[float, float, float]:
    """Return ε_ρ, ε_f and R."""
    m, knots = blueprint.head_dim, blueprint.features.knots
    points = knots.refined(_parts(len(knots)))
    found = blueprint.features(points)
    phi, psi = (function(points) for function in shared(kept, m))
    error = _largest(phi - found[:, :m]) * _largest(found[:, m : 2 * m]) + _largest(phi) * _largest(
        psi - found[:, m : 2 * m]
    )
    fine = range_points(knots)
    values = tabulated(target.f, fine, "f")
    spread = values.max(axis=0) - values.min(axis=0)
    missed = np.abs(values - blueprint.features(fine)[:, 2 * m :])
    return error, float(missed.max()), float(spread.max()) / 2


def _outer_error(blueprint: CouplingBlueprint, target: Coupling) -> float:
    outer, values = blueprint.outer, blueprint.features.values[:, 2 * blueprint.head_dim :]
    if isinstance(outer, Interpolant):
        box = outer.knots.intervals
        scalar = np.ndim(target.f(blueprint.features.knots.points[:1])) == 1
        even = outer.knots.refined(_parts(len(outer.knots)))
        points = np.concatenate([even, _scattered(box).ravel(), values.ravel()])
        wanted = tabulated(target.F, points if scalar else points[:, None], "F")
        return float(np.abs(wanted - outer(points)).max())
    parts = _parts(len(outer.values)) if len(outer.box) == 2 else 3
    axes = [Knots((interval,), outer.pieces * parts).points for interval in outer.box]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    points = np.concatenate([grid, _scattered(outer.box), values])
    return float(np.abs(tabulated(target.F, points, "F") - outer(points)).max())


def _scattered(box: tuple[Interval, ...]) -> Floats:
    """Return random points of a box, (points, dimensions)."""
    low, high = (np.array([float(side[end]) for side in box]) for end in (0, 1))
    return np.random.default_rng(0).uniform(low, high, (SCATTERED, len(box)))


def _midpoints(intervals: tuple[Any, ...], count: int) -> Floats:
    """Return about ``count`` midpoints of equal cells, (intervals, points)."""
    each = -(-count // len(intervals))
    return np.stack([a + (b - a) * (np.arange(each) + 0.5) / each for a, b in intervals])


def _parts(knots: int) -> int:
    return max(2, min(16, FINE // knots), LEAST // knots)


def _largest(rows: Floats) -> float:
    return float(np.linalg.norm(rows, axis=-1).max())
