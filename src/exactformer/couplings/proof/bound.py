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
Scores do not change when φ and ψ are turned by the same orthogonal matrix, so a decomposition that
differs from the constructed one by signs or within equal singular values may be turned first.

What this assumes of a blueprint is checked. Its knots cover the domain, moved by every position, and
W_Q, W_K, W_V select the rows of their names (:class:`CouplingBlueprint`); its value rows are as many as
those of f. F̂ may be given on any box: F − F̂ is looked at wherever a mean of f can lie.

Suprema are taken over two to sixteen points a piece, those of f and F, which cost little, over 16,384
and more, for F at values of f and at random ones, in step with nothing; expectations over a grid that
is not the one the decomposition was computed on; ω over that grid and the ends of its intervals. A
spike that falls between all of these is not seen: the bound is *numerical*, not proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from math import inf, isfinite
from typing import Any

import numpy as np

from exactformer.core import header
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Floats, Interpolant, Interval, Knots
from exactformer.couplings.proof.slopes import lipschitz
from exactformer.couplings.samples import range_points, shared, tabulated
from exactformer.couplings.target import Coupling
from exactformer.errors import CertificationError, InputError
from exactformer.theory import Decomposition
from exactformer.theory.decomposition import evaluate

COMPUTED = "computed"
FINE = 2**16
"""Points for suprema, as far as two to sixteen a piece allow."""
LEAST = 512
"""Points for suprema of φ and ψ, however few the pieces."""
SCATTERED = 2**14
"""Random points for the supremum of F − F̂."""
GRID = 769
"""Points a side for expectations over pairs: a prime, in step with no wave that is likely."""
INSIDE = 2.0**-30
"""Of an interval's length: how far from its ends ρ is evaluated for these."""
DIAGONAL = 4099
"""Points for expectations over one token."""


@dataclass(frozen=True)
class ErrorTerms:
    """What a bound on E Σ_t |H_t − Ĥ_t| is made of."""

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
    source: str = field(default=COMPUTED, compare=False)
    """``"computed"`` from the functions and the weights, or ``"stated by the file"``."""

    def __post_init__(self) -> None:
        numbers = {**asdict(self), "root_sums": sum(self.root_sums)}
        for name, value in numbers.items():
            if name != "source" and not value >= 0:
                raise CertificationError(f"{name} came out as {value}: the error is not bounded")
        with np.errstate(invalid="ignore"):
            if not self.total >= 0:
                raise CertificationError(
                    "a term of the bound is zero times infinity: the error is not bounded"
                )

    @property
    def weight_errors(self) -> Floats:
        """What truncation may do to the weights of each token, in ‖·‖₁."""
        return np.asarray(np.minimum(self.concentration**0.5 * np.array(self.root_sums), 2.0))

    @property
    def parts(self) -> Mapping[str, float]:
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
        return sum(self.parts.values())

    @property
    def mean_squared(self) -> float:
        """A bound on the mean of |H_t − Ĥ_t|² over tokens and inputs."""
        rest = sum(v for k, v in self.parts.items() if k != "truncation") / len(self.root_sums)
        each = self.lipschitz * self.radius * self.weight_errors + rest
        return float((each**2).mean())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def of_dict(cls, data: Mapping[str, Any]) -> ErrorTerms:
        """Read what :meth:`to_dict` gave."""
        numbers = {
            part.name: header.number(header.entry(data, part.name), part.name)
            for part in fields(cls)
            if part.name not in ("root_sums", "source")
        }
        roots = data.get("root_sums")
        sums = header.list_of(
            list(roots) if isinstance(roots, tuple) else roots, "root_sums", header.number, 1
        )
        source = header.text(data.get("source", COMPUTED), "source")
        return cls(**numbers, root_sums=sums, source=source)


@np.errstate(over="ignore", invalid="ignore")
def bound_coupling(
    blueprint: CouplingBlueprint,
    target: Coupling,
    decomposition: Decomposition,
    turned: bool = False,
) -> ErrorTerms:
    """Bound the error of a model by its weights and its target, rounding left out.

    ``decomposition`` is that of the target's ρ; ``turned`` allows for another one of the same ρ.
    """
    check_same_tokens(blueprint, target)
    kept = decomposition.truncate(blueprint.head_dim)
    truncation = _truncation(target, kept)
    values = tabulated(target.f, range_points(blueprint.features.knots), "f")
    if values.shape[1] != blueprint.value_dim:
        raise CertificationError(
            f"f has {values.shape[1]} values and the model {blueprint.value_dim} value rows: this is "
            "not the target that it was made for"
        )
    spread = values.max(axis=0) - values.min(axis=0)
    return ErrorTerms(
        **truncation,
        lipschitz=lipschitz(blueprint.outer),
        radius=float(spread.max()) / 2,
        coupling_error=_coupling_error(blueprint, kept, turned),
        value_error=_value_error(blueprint, values),
        outer_error=_outer_error(blueprint, target, values),
    )


def check_same_tokens(blueprint: CouplingBlueprint, target: Coupling) -> None:
    """Raise unless model and target take the same sequences: tokens, domain and positions."""
    if target.dim is None and target.tau == blueprint.tau:
        domain = tuple(Fraction(float(end)) for end in target.domain)  # type: ignore[arg-type]
        places = target.positions
        positions = None if places is None else tuple(Fraction(float(e)) for e in places)
        if (domain, positions) == (blueprint.domain, blueprint.positions):
            return
    low, high = (float(end) for end in blueprint.domain)
    with_positions = ["with", "without"][blueprint.positions is None]
    raise InputError(
        f"the target has {target.tau} tokens of {target.domain}, the model {blueprint.tau} of "
        f"{(low, high)} {with_positions} positions; they must be the same, positions included"
    )


def _truncation(target: Coupling, kept: Decomposition) -> dict[str, Any]:
    """Return T, D, w and √B_t by their names."""
    intervals = target.intervals
    # Means are over midpoints; scores often lie furthest apart at the ends.
    points = np.hstack([_midpoints(intervals, GRID), _ends(intervals)])
    flat, blocks, inner = points.ravel(), len(intervals), slice(None, -2)
    scores, cut = evaluate(target.rho, flat, flat), kept.matrix(flat, flat)
    gap = (scores - cut).reshape(blocks, points.shape[1], blocks, points.shape[1])
    squares = (gap[:, inner, :, inner] ** 2).mean(axis=(1, 3))
    fine = _midpoints(intervals, DIAGONAL)
    own = ((target.rho(fine.copy(), fine.copy()) - kept(fine, fine)) ** 2).mean(axis=1)
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


def _coupling_error(blueprint: CouplingBlueprint, kept: Decomposition, turned: bool) -> float:
    """Return ε_ρ."""
    m, knots = blueprint.head_dim, blueprint.features.knots
    points = knots.refined(_parts(len(knots)))
    rows = blueprint.features(points)
    own_phi, own_psi = rows[:, :m], rows[:, m : 2 * m]
    phi, psi = (function(points) for function in shared(kept, m))

    def error(left: Floats, right: Floats) -> float:
        return _largest(left - own_phi) * _largest(own_psi) + _largest(left) * _largest(
            right - own_psi
        )

    found = error(phi, psi)
    if not turned or not isfinite(found):
        return found
    turn = _rotation(np.concatenate([phi, psi]), np.concatenate([own_phi, own_psi]))
    # ⟨Qφ, Qψ⟩ differs from ⟨φ, ψ⟩ by as much as QᵀQ does from the identity.
    askew = float(np.abs(turn @ turn.T - np.eye(m)).sum()) * _largest(phi) * _largest(psi)
    return min(found, error(phi @ turn, psi @ turn) + askew)


def _rotation(rows: Floats, wanted: Floats) -> Floats:
    """Return the orthogonal Q for which rows·Q comes nearest to ``wanted``."""
    left, _, right = np.linalg.svd(rows.T @ wanted)
    return np.asarray(left @ right)


def _value_error(blueprint: CouplingBlueprint, values: Floats) -> float:
    """Return ε_f, from f at the points of its range."""
    own = blueprint.features(range_points(blueprint.features.knots))[:, 2 * blueprint.head_dim :]
    return float(np.abs(values - own).max())


def _outer_error(blueprint: CouplingBlueprint, target: Coupling, values: Floats) -> float:
    """Return ε_F: |F − F̂| on the box of F̂ and on that of all values of f, whichever is larger."""
    outer, knots = blueprint.outer, blueprint.features.values[:, 2 * blueprint.head_dim :]
    box = outer.knots.intervals if isinstance(outer, Interpolant) else outer.box
    pieces = outer.knots.pieces if isinstance(outer, Interpolant) else outer.pieces
    parts = _parts(len(outer.values)) if len(box) <= 2 else 3
    reached = [_hull(side, column) for side, column in zip(box, values.T, strict=True)]
    grids = [_grid(box, pieces * parts), _scattered(box), knots]
    if any(wide != side for wide, side in zip(reached, box, strict=True)):
        grids += [_grid(tuple(reached), pieces * parts), _scattered(tuple(reached)), values]
    points = np.concatenate(grids)
    if isinstance(outer, Interpolant):
        scalar = np.ndim(target.f(blueprint.features.knots.points[:1].copy())) == 1
        wanted = tabulated(target.F, points[:, 0] if scalar else points, "F")
        return float(np.abs(wanted - outer(points[:, 0])).max())
    return float(np.abs(tabulated(target.F, points, "F") - outer(points)).max())


def _hull(side: Interval, values: Floats) -> Interval:
    low, high = Fraction(float(values.min())), Fraction(float(values.max()))
    return min(side[0], low), max(side[1], high)


def _grid(box: tuple[Interval, ...], pieces: int) -> Floats:
    """Return the points of a grid, (points, dimensions)."""
    axes = [Knots((interval,), pieces).points for interval in box]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)


def _scattered(box: tuple[Interval, ...]) -> Floats:
    """Return random points of a box, (points, dimensions)."""
    low, high = (np.array([float(side[end]) for side in box]) for end in (0, 1))
    return np.random.default_rng(0).uniform(low, high, (SCATTERED, len(box)))


def _midpoints(intervals: tuple[Any, ...], count: int) -> Floats:
    """Return about ``count`` midpoints of equal cells, (intervals, points)."""
    each = -(-count // len(intervals))
    return np.stack([a + (b - a) * (np.arange(each) + 0.5) / each for a, b in intervals])


def _ends(intervals: tuple[Any, ...]) -> Floats:
    """Return both ends of every interval, (intervals, 2), a hair inside: ρ may be singular there."""
    low, high = np.array(intervals).T
    return np.stack([low + (high - low) * INSIDE, high - (high - low) * INSIDE], axis=1)


def _parts(knots: int) -> int:
    return max(2, min(16, FINE // knots), LEAST // knots)


def _largest(rows: Floats) -> float:
    """Return the largest norm of a row, taken in units of the largest entry: squares may underflow."""
    size = float(np.abs(rows).max())
    if not 0 < size < inf:
        return size
    return size * float(np.linalg.norm(rows / size, axis=-1).max())
