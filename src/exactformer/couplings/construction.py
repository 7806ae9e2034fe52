"""Theorem 4.1 of Jiang & Li 2023, carried out: a decomposed coupling becomes a transformer.

    H_t(x) = F( Σ_s softmax_s(ρ(x(t), x(s))) · f(x(s)) ),     ρ(u, v) = Σ_k σ_k φ_k(u) ψ_k(v)

The coupling is cut after m_h terms; one feed-forward network f̂ computes

    √σ_k φ_k,  √σ_k ψ_k  (k ≤ m_h)  and  f,

another F̂. Both are piecewise-linear interpolants on ``ff_width`` pieces, for which (13) holds with
β = 2:  sup|g − ĝ| ≤ h²/8 · sup|g''|  for pieces of length h. W_Q, W_K, W_V select rows, so that
⟨W_Q ĥ(t), W_K ĥ(s)⟩ ≈ ρ(x(t), x(s)). Sharing σ_k evenly keeps queries and keys of one size.

All of φ̂_k, ψ̂_k and f̂ are interpolants on ``ff_width`` pieces of the domain, or of the τ disjoint
intervals domain + e(t), which share the pieces among them. A softmax mean lies between the least and
the largest value, so F̂ is needed there only.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Floats, Interpolant, Interval, Knots
from exactformer.couplings.kuhn import MOST_COORDINATES, KuhnInterpolant
from exactformer.couplings.samples import (
    Decomposed,
    Function,
    range_points,
    shared,
    tabulated,
    value_box,
)
from exactformer.errors import InputError


def coupling(
    decomposition: Decomposed,
    f: Function,
    F: Function,
    *,
    tau: int,
    head_dim: int,
    ff_width: int,
    domain: tuple[float, float] = (0.0, 1.0),
    positions: Sequence[float] | Floats | None = None,
) -> CouplingBlueprint:
    """Return the blueprint of a coupling of scalar tokens, cut after ``head_dim`` terms."""
    if head_dim < 1:
        raise InputError(f"head_dim={head_dim}: a head has one dimension at least")
    phi, psi = shared(decomposition, head_dim)
    return draw_coupling(
        phi,
        psi,
        f,
        F,
        tau=tau,
        head_dim=head_dim,
        ff_width=ff_width,
        domain=domain,
        positions=positions,
    )


def draw_coupling(
    phi: Function,
    psi: Function,
    f: Function,
    F: Function,
    *,
    tau: int,
    head_dim: int,
    ff_width: int,
    domain: tuple[float, float] = (0.0, 1.0),
    positions: Sequence[float] | NDArray[np.float64] | None = None,
) -> CouplingBlueprint:
    """Return the blueprint of equation (5) for functions of one number.

    Args:
        phi: points ``(k,)`` to ``(k, head_dim)``; scores are ⟨phi(x(t)), psi(x(s))⟩.
        psi: the same for keys.
        f: points ``(k,)`` to values ``(k,)`` or ``(k, m_v)``.
        F: values ``(k,)`` or ``(k, m_v)`` to ``(k,)``, as f gives them.
        tau: the number of tokens.
        head_dim: m_h.
        ff_width: the number of pieces of every interpolant.
        domain: where tokens live.
        positions: e(1) … e(τ), or None.
    """
    knots = token_knots(domain, positions, tau, ff_width)
    low, high = (Fraction(end) for end in domain)
    points = knots.points
    values = tabulated(f, points, "f")
    rows = [tabulated(phi, points, "phi"), tabulated(psi, points, "psi")]
    if any(part.shape[1] != head_dim for part in rows):
        raise InputError(f"phi and psi must give head_dim={head_dim} columns")
    features = Interpolant(knots, np.concatenate([*rows, values], axis=1))
    scalar = np.ndim(f(points[:1])) == 1
    return CouplingBlueprint(
        tau=tau,
        domain=(low, high),
        positions=None if positions is None else tuple(Fraction(float(e)) for e in positions),
        head_dim=head_dim,
        features=features,
        outer=outer(F, value_box(tabulated(f, range_points(knots), "f")), ff_width, scalar),
    )


def token_knots(
    domain: tuple[float, float],
    positions: Sequence[float] | NDArray[np.float64] | None,
    tau: int,
    ff_width: int,
) -> Knots:
    """Return the knots that ``ff_width`` pieces have on the domain, or on its τ copies."""
    low, high = (Fraction(float(end)) for end in domain)
    if positions is None:
        return Knots(((low, high),), ff_width)
    if ff_width < tau:
        raise InputError(
            f"ff_width={ff_width} pieces cannot be shared among {tau} intervals; use {tau} or more"
        )
    offsets = [Fraction(float(e)) for e in positions]
    return Knots(tuple((low + e, high + e) for e in offsets), ff_width // tau)


def outer(
    F: Function, box: tuple[Interval, ...], ff_width: int, scalar: bool
) -> Interpolant | KuhnInterpolant:
    """Return F̂ on a box: ``ff_width`` pieces in one dimension, as many knots or fewer in several."""
    if len(box) == 1:
        knots = Knots(box, ff_width)
        points = knots.points if scalar else knots.points[:, None]
        return Interpolant(knots, _single(tabulated(F, points, "F")))
    if len(box) > MOST_COORDINATES:
        raise InputError(
            f"F takes {len(box)} numbers; it is interpolated on a grid in {MOST_COORDINATES} "
            "dimensions at most. Where F depends on few of them, or on sums, let f give these"
        )
    pieces = max(1, int(round(ff_width ** (1 / len(box)), 9)) - 1)
    axes = [Knots((interval,), pieces).points for interval in box]
    points = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")], axis=-1)
    return KuhnInterpolant(box, pieces, _single(tabulated(F, points, "F")))


def _single(values: Floats) -> Floats:
    """Return the values of F, of which there must be one a token."""
    if values.shape[1] != 1:
        raise InputError(f"F must give one number a token, not {values.shape[1]}")
    return values
