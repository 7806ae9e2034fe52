"""What a number format costs a coupling's model: a bound on |computed − exact| of every output.

For inputs that are numbers of the format. Standard model: fl(a ∘ b) = (a ∘ b)(1 + δ), |δ| ≤ u; sums of
n terms in any order err by γ_{n−1} Σ|terms|, γ_k = ku/(1 − ku), and exact zeros do not count; k
factors (1 + δ)^±1 are 1 + θ with |θ| ≤ γ_k. An underflow, of operands too, costs a product
tiny·(1 + |a| + |b|), a sum of two 3·tiny: terms with ``tiny`` in the code, each a count of these, with
room for the factors (1 + δ) that follow; they are left out here. Every formula is meant with all its
terms, and rounded up.

A function of d numbers has values up to V, steps up to Δ from a knot to the next, and N pieces per
side. Stored values are off by ε = uV + tiny: they are at most V' = V + ε, their steps at most
Δ' = Δ + 2ε.

**Table, place.** On [a, b] a place z = (x − a)N/(b − a) is computed as (x − a')s with a' the stored
end and s = N·(1/ℓ), ℓ the distance of the stored ends (for d ≥ 2 of those in float64, s stored
afterwards): five roundings. Without them the place is affine in x, hence off most at an end: by N/ℓ
times |a − a'| or |b − a' − ℓ|. With them by P = (N/ℓ)(the larger of the two + γ_5(b − a + |a − a'|)).
Beyond [a, b] places are clamped, and what computes them is monotone: no worse than at the ends. For
N ≤ 1/u the format has N and N − 1, so that clamping a place and taking off its integer part are exact.
**Table, value.** d = 1: v_0 + w(v_1 − v_0), or so from the other end: PΔ + ε + γ_3Δ' + u(V' + γ_3Δ').
d ≥ 2: d + 1 weights, differences of sorted places, times values: ΔΣP_i + ε + γ_{d+2}V'.

**Layers, token.** With e' the stored position x + e is off by |e − e'| + u(X + |e − e'|), X the
largest |x + e|, and the function by that times its largest slope, that of gaps between intervals
included.
**Layers, unit.** wx + b is computed as (w'x(1 + δ) + b')(1 + δ'). Without δ' it is off by
η = |w' − w|X + |b' − b| + u|w'|X, the last only where w is no power of two. Beyond the outermost knots
units grow faster than their errors do: what they say about hats is no worse than at these knots.
**Layers, hat.** relu(1 − S), S = max(0, z_i) + max(0, −z_i). Each maximum M is off by η + ρ(M + η): δ'
is one rounding, the second number of a chain brings another, the third up to three; ρ = γ_1 for d = 1
and γ_{3d−4} above. Then k = 2 (d = 1) or 4 numbers are taken from 1, with no partial sum beyond max(1,
S): γ_k max(1, S). Since relu(1 − S) is 0 from 1 on, a hat is off by E = 2η + ρ(1 + 2η) + γ_k.
**Layers, value.** Only hats with S < 1 + 2E are computed as more than 0. At any x these are at most
c = 2^(d+1) − 1 if r = 2E < 1/2: S is how far the numbers 0, z_1 … z_d lie apart; modulo 1 they are
fixed; any may be the lowest, and then those that follow within r have two places. Of two only one
follows the other, so there are Σ 2^outdegree in an oriented graph, most in a transitive one. Otherwise
c = (⌊2r⌋ + 3)^d. For d = 1 pieces differ in length, and r is the largest 2E/|w| over the shortest
piece. Exact hats add up to 1, computed ones to T ≤ 1 + cE, and the value is off by
V cE + εT + γ_c V'T.

**Scores.** With queries up to Q, off by δQ, and keys K, δK: a score is a sum of m products, at most
S = Σ(Q + δQ)(K + δK) before rounding and S' = S + γ_m S after it, off by
σ = Σ(Q δK + K δQ + δQ δK) + γ_m S.
**Softmax.** exp(s − max) errs by ``EXP_ULPS`` units, of 2u each, and 4u|s − max| with |s − max| ≤ 2S',
as assumed of softmax models of polynomials. Where logarithms of weights are off by up to D, weights
that add up to 1 are off by 2 tanh(D/2) ≤ D in all, and by 2 at most: D = σ + γ_k,
k = 2·EXP_ULPS + 8S'. A sum of τ numbers, its reciprocal and a product add γ_{τ+1}.
**Mean.** Weights are off by W = min(D, 2) + γ_{τ+1} and add up to Π ≤ 1 + γ_{τ+1}: the mean is off by
V W + Π δV + γ_τ Π(V + δV), what F̂ makes of it by the slope of F̂ times that, and F̂'s own error.

Nothing may overflow: values, scores, inverse lengths of pieces and units of the first layers stay
below the largest number of the format, with room for differences, or no rounding bound holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from typing import cast

import numpy as np

from exactformer.algebra.rational import to_float
from exactformer.core.formats import EXP_ULPS, FORMATS, FloatFormat, float_format
from exactformer.core.upper import Upper, gamma
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.interpolant import Interpolant, Interval
from exactformer.couplings.kuhn import KuhnInterpolant
from exactformer.couplings.proof.slopes import largest_slopes, largest_steps, lipschitz
from exactformer.errors import RoundingError

ROOM = 4
"""Of a format's largest number over those of a model: for steps in tables, differences of scores."""


@lru_cache(maxsize=8)
@np.errstate(over="ignore")
def rounding_bound(blueprint: CouplingBlueprint, dtype: object, executor: str) -> float:
    """Return the bound for a format and a way of running.

    Raises:
        RoundingError: if a number of the model may be beyond the format.
    """
    check_format(blueprint, dtype, executor)
    target = float_format(dtype)
    if executor == "literal":
        error = layers_error(blueprint.features, target) + token_error(blueprint, target)
        outer = layers_error(blueprint.outer, target)
    else:
        error = table_error(blueprint.features, (blueprint.domain,), target)
        outer = table_error(blueprint.outer, _box(blueprint.outer), target)
    size, m = _sizes(blueprint.features), blueprint.head_dim
    score, noise = score_error(size[: 2 * m], error[: 2 * m], target)
    mean = mean_error(size[2 * m :], error[2 * m :], blueprint.tau, score, noise, target)
    return float(mean.max() * lipschitz(blueprint.outer) + outer.max())


@np.errstate(over="ignore")
def check_format(blueprint: CouplingBlueprint, dtype: object, executor: str) -> None:
    """Raise where a number of a model may overflow; tables also need ends that stay apart."""
    target, m = float_format(dtype), blueprint.head_dim
    features, outer = blueprint.features, blueprint.outer
    sizes = np.abs(features.values).max(axis=0)
    numbers = {
        "a value of f̂": float(sizes.max()),
        "a value of F̂": float(np.abs(outer.values).max()),
        "a score": float(sizes[:m] @ sizes[m : 2 * m]),
    }
    if executor == "fused":
        box = (blueprint.domain,)
        numbers["the inverse length of a piece of f̂"] = _inverse(box, features.knots.pieces, target)
        wide = target if isinstance(outer, Interpolant) else FORMATS["float64"]
        numbers["the inverse length of a piece of F̂"] = _inverse(_box(outer), _pieces(outer), wide)
    else:
        places = _reach((e, e) for e in blueprint.positions or ())
        numbers["a token with its position"] = to_float(places + _reach([blueprint.domain]))
        numbers["a unit of f̂"] = _largest_unit(features, _reach(_box(features)))
        numbers["a unit of F̂"] = _largest_unit(outer, Fraction(float(sizes[2 * m :].max())))
    limit = float(target.largest) / ROOM
    for name, size in numbers.items():
        if not size <= limit:
            raise RoundingError(
                f"{name} may be {size:.3g} in {target.name}, where numbers up to {limit:.3g} have a "
                "rounding bound. Use a wider dtype"
            )
    pieces = max(features.knots.pieces, _pieces(outer))
    if executor == "fused" and pieces * target.unit > 1:
        raise RoundingError(
            f"{target.name} cannot count to {pieces}, the pieces of a table. Use a wider dtype, or "
            "fewer knots"
        )


def token_error(blueprint: CouplingBlueprint, target: FloatFormat) -> Upper:
    """Return how far layers may be off because tokens and positions are added, (n,)."""
    off = Upper(3 * target.tiny)
    if blueprint.positions is not None:
        lost = max(abs(_stored(Fraction(float(e)), target) - e) for e in blueprint.positions)
        reach = _reach(blueprint.token_intervals)
        off = off + Upper.of(lost + Fraction(target.unit) * (reach + lost))
    return largest_slopes(blueprint.features) * off


def table_error(
    function: Interpolant | KuhnInterpolant, box: Sequence[Interval], target: FloatFormat
) -> Upper:
    """Return how far each of n functions may be off when read from its table, (n,)."""
    u, tiny, d = target.unit, target.tiny, len(box)
    step, stored = largest_steps(function), _sizes(function) * u + tiny
    size, wide = _sizes(function) + stored, step + stored * 2
    ends = target if d == 1 else FORMATS["float64"]
    place = Upper.stack(place_error(side, _pieces(function), target, ends) for side in box).sum()
    if d == 1:
        lost = wide * gamma(3, u)
        read = lost + (size + lost) * u + (wide * 5 + 9) * tiny
    else:
        read = size * gamma(d + 2, u) + (size * 5 + 6) * ((d + 1) * tiny)
    return step * place + stored + read


def place_error(side: Interval, pieces: int, target: FloatFormat, ends: FloatFormat) -> Upper:
    """Return how far a place may be off, in pieces; ``ends``: the format that lengths are taken in."""
    low, high = side
    start, found = _stored(Fraction(float(low)), target), Upper(0.0)
    reach = high - low + abs(low - start)
    for length in _lengths(side, ends):
        scale = pieces / length
        off = max(abs(low - start), abs(high - start - length))
        rounded = Upper.of(scale * reach) * gamma(5, target.unit)
        flushed = Upper.of(5 * scale + 3 * (pieces + 1) * reach + 5) * target.tiny
        found = found.or_above(Upper.of(scale * off) + rounded + flushed)
    return found


def layers_error(function: Interpolant | KuhnInterpolant, target: FloatFormat) -> Upper:
    """Return how far each of n functions may be off when its layers are carried out, (n,)."""
    u, tiny = target.unit, target.tiny
    d = 1 if isinstance(function, Interpolant) else len(function.box)
    unit, longer = _units(function, target)
    chain, sums = (gamma(1, u), gamma(2, u)) if d == 1 else (gamma(3 * d - 4, u), gamma(4, u))
    hats = unit * 2 + (unit * 2 + 1) * chain + sums + 30 * d * tiny
    met = most_hats(float((hats * longer).max() * 2), d, len(function.values))
    off = hats.max() * met
    size, stored = _sizes(function), _sizes(function) * u + tiny
    total, wide = off + 1, size + stored
    read = wide * total * gamma(met, u) + (wide + total + 4) * (2 * met * tiny)
    return size * off + stored * total + read


def most_hats(widening: float, d: int, knots: int) -> int:
    """Return how many hats any point may meet whose supports are so many pieces wider."""
    most = 2 ** (d + 1) - 1 if widening < 0.5 else (int(min(2 * widening, knots)) + 3) ** d
    return min(int(most), knots)


def _units(function: Interpolant | KuhnInterpolant, target: FloatFormat) -> tuple[Upper, Upper]:
    """Return η of every unit in the first layer, and for d = 1 its piece over the shortest, else 1."""
    layer, reach = function.layers()[0], _reach(_box(function))
    u, tiny = Fraction(target.unit), Fraction(target.tiny)
    errors, longer = [], []
    shortest = _shortest(function)
    for row, _, weight in layer.weight:
        stored, bias = _stored(weight, target), layer.bias[row, 0]
        lost = abs(stored - weight) * reach + abs(_stored(bias, target) - bias)
        rounded = 0 if _is_power_of_two(weight) else u * abs(stored) * reach
        errors.append(Upper.of(lost + rounded + tiny * (4 + abs(stored) + reach)))
        piece = Upper.of(1 / (weight * shortest))
        longer.append(piece if isinstance(function, Interpolant) else Upper(1.0))
    return Upper.stack(errors), Upper.stack(longer)


def score_error(size: Upper, error: Upper, target: FloatFormat) -> tuple[Upper, Upper]:
    """Return bounds of computed scores, and of their errors, for queries and then keys like these."""
    m, computed = len(size) // 2, size + error
    products = (computed[:m] * computed[m:]).sum()
    rounded = products * gamma(m, target.unit) + (computed.sum() + 4 * m) * (2 * target.tiny)
    brought = size[:m] * error[m:] + size[m:] * error[:m] + error[:m] * error[m:]
    return products + rounded, brought.sum() + rounded


def mean_error(
    size: Upper, error: Upper, tau: int, score: Upper, noise: Upper, target: FloatFormat
) -> Upper:
    """Return how far means of values may be off, for scores so large that are off by ``noise``."""
    u, tiny = target.unit, target.tiny
    weights = (noise + gamma(score * 8 + 2 * EXP_ULPS[target.name], u)).or_below(2.0)
    scaled, computed = gamma(tau + 1, u) + 10 * tau * tiny, size + error
    total = scaled + 1
    summed = computed * total * gamma(tau, u) + (computed + 4) * (2 * tau * tiny)
    return size * (weights + scaled) + error * total + summed


def _sizes(function: Interpolant | KuhnInterpolant) -> Upper:
    return Upper(np.abs(function.values).max(axis=0))


def _box(function: Interpolant | KuhnInterpolant) -> tuple[Interval, ...]:
    return function.knots.intervals if isinstance(function, Interpolant) else function.box


def _pieces(function: Interpolant | KuhnInterpolant) -> int:
    return function.knots.pieces if isinstance(function, Interpolant) else function.pieces


def _reach(box: Iterable[Interval]) -> Fraction:
    return max((abs(end) for side in box for end in side), default=Fraction(0))


def _stored(value: Fraction, target: FloatFormat) -> Fraction:
    """Return a number as it is stored; what is beyond the format has been refused."""
    return cast(Fraction, target.round(value))


def _lengths(side: Interval, target: FloatFormat) -> list[Fraction]:
    """Return what an interval's length may be once its ends are stored; zero where one is beyond.

    Ends that are subnormal may be taken for zero.
    """
    low, high = (target.round(Fraction(float(end))) for end in side)
    if low is None or high is None:
        return [Fraction(0)]
    kept = [(end, Fraction(0)) if abs(end) < target.tiny else (end,) for end in (low, high)]
    return [b - a for a, b in product(*kept)]


def _inverse(box: Iterable[Interval], pieces: int, target: FloatFormat) -> float:
    """Return the largest inverse length of a piece, as it is stored; infinite where one vanishes."""
    shortest = min(length for side in box for length in _lengths(side, target))
    return to_float(pieces / shortest) if shortest > 0 else np.inf


def _largest_unit(function: Interpolant | KuhnInterpolant, reach: Fraction) -> float:
    """Return a bound of weights, biases and units of the first layer, for inputs up to ``reach``."""
    return to_float((1 + reach + _reach(_box(function))) / _shortest(function))


def _shortest(function: Interpolant | KuhnInterpolant) -> Fraction:
    """Return the shortest distance of neighbouring knots, those of two intervals included."""
    box, pieces = sorted(_box(function)), _pieces(function)
    within = [(high - low) / pieces for low, high in box]
    if isinstance(function, KuhnInterpolant):
        return min(within)
    return min(within + [after[0] - before[1] for before, after in pairwise(box)])


def _is_power_of_two(value: Fraction) -> bool:
    over, under = abs(value.numerator), value.denominator
    return over & (over - 1) == 0 and under & (under - 1) == 0
