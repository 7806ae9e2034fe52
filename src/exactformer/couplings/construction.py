"""Theorem 4.1 of Jiang & Li 2023, carried out: a decomposed coupling becomes a transformer.

    H_t(x) = F( Σ_s softmax_s(ρ(x(t), x(s))) · f(x(s)) ),     ρ(u, v) = Σ_k σ_k φ_k(u) ψ_k(v)

The coupling is cut after m_h terms; one feed-forward network f̂ computes

    √σ_k φ_k,  √σ_k ψ_k  (k ≤ m_h)  and  f,

another F̂. Both are piecewise-linear interpolants on ``ff_width`` pieces, for which (13) holds with
β = 2:  sup|g − ĝ| ≤ h²/8 · sup|g''|  for pieces of length h. W_Q, W_K, W_V select rows, so that
⟨W_Q ĥ(t), W_K ĥ(s)⟩ ≈ ρ(x(t), x(s)). Sharing σ_k evenly keeps queries and keys of one size.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.construction_drawing import draw_coupling
from exactformer.couplings.interpolant import Floats
from exactformer.couplings.samples import Decomposed, Function, shared
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
