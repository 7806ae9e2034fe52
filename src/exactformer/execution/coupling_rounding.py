"""What a number format costs a coupling's model: a bound on |computed − exact| of every output.

To first order in the unit roundoff u, and then 10 % more, for inputs that are numbers of the format.
With Δ the largest step between neighbouring knots and V the largest value of a function:

    table     a place is off by N u(2κ + 4), κ = (|low| + |high|)/(high − low); its value by that
              times Δ, and 6u V for reading
    layers    each hat is off by u(8X/h + 2), X the largest input, h the least piece or gap; four may
              be met, and encoding adds a step:  u V(40X/h + 16)
    scores    Σ_k (Q_k δK_k + K_k δQ_k + m u Q_k K_k), Q and K the largest queries and keys;
              S = Σ_k Q_k K_k
    softmax   ‖p̃ − p‖₁ ≤ δ_score + u(4S + 9 + τ): shifted by the maximum, exp to two units, summed
    mean      V_f ‖p̃ − p‖₁ + δ_f + τ u V_f, then through F̂ by its largest slope
"""

from __future__ import annotations

import numpy as np
import torch

from exactformer.blueprint.coupling import CouplingBlueprint
from exactformer.blueprint.coupling_interpolant import Floats, Interpolant
from exactformer.blueprint.coupling_kuhn import KuhnInterpolant
from exactformer.blueprint.coupling_slopes import largest_steps, lipschitz

MARGIN = 1.1


def rounding_bound(blueprint: CouplingBlueprint, dtype: torch.dtype, executor: str) -> float:
    """Return the bound for a format and a way of running."""
    u = torch.finfo(dtype).eps / 2
    m, tau = blueprint.head_dim, blueprint.tau
    rows = _interpolation(blueprint.features, u, executor == "literal", blueprint.domain)
    sizes = np.abs(blueprint.features.values).max(axis=0)
    query, key = sizes[:m], sizes[m : 2 * m]
    score = float(query @ key)
    score_error = float(
        query @ rows[m : 2 * m] + key @ rows[:m] + rows[:m] @ rows[m : 2 * m] + m * u * score
    )
    largest = float(sizes[2 * m :].max())
    weights = min(2.0, score_error + u * (4 * score + 9 + tau))
    mean = largest * weights + float(rows[2 * m :].max()) + tau * u * largest
    outer = _interpolation(blueprint.outer, u, executor == "literal", None)
    return MARGIN * (lipschitz(blueprint.outer) * mean + float(outer.max()))


def _interpolation(
    function: Interpolant | KuhnInterpolant, u: float, literal: bool, domain: object
) -> Floats:
    """Return how far each of the n functions may be off, (n,)."""
    values = np.abs(function.values).max(axis=0)
    box = function.knots.intervals if isinstance(function, Interpolant) else function.box
    pieces = function.knots.pieces if isinstance(function, Interpolant) else function.pieces
    d = 1 if isinstance(function, Interpolant) else len(box)
    size = max(max(abs(float(a)), abs(float(b))) for a, b in box)
    length = min(float(b - a) for a, b in box)
    if literal:
        least = length / pieces
        if isinstance(function, Interpolant):
            least = float(np.diff(np.sort(function.knots.points)).min())
        return np.asarray(d * u * values * (40 * size / least + 16))
    if domain is not None:  # tables read a token before its position is added
        size = max(abs(float(end)) for end in domain)  # type: ignore[attr-defined]
    place = pieces * u * (4 * size / length + 4)
    return np.asarray(d * (place * largest_steps(function) + 6 * u * values))
