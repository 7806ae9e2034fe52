"""The terms of a coupling's bound, one by one, against closed forms and integrals of their own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp, hypot

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.blueprint.coupling_interpolant import Interpolant
from exactformer.blueprint.coupling_slopes import lipschitz
from exactformer.errors import CertificationError
from exactformer.execution.coupling_rounding import (
    _is_power_of_two,
    _rounding,
    rounding_bound,
)
from exactformer.model.coupling_bound import CouplingBound, bound_coupling
from exactformer.targets import Coupling
from exactformer.theory import pod
from tests.execution.test_coupling_runs import CASES, drawn


def made_of(**numbers: float) -> CouplingBound:
    known = {
        "tail": 0.5,
        "diagonal": 0.7,
        "lipschitz": 3.0,
        "radius": 5.0,
        "coupling_error": 0.011,
        "value_error": 0.013,
        "outer_error": 0.017,
        "concentration": 0.25,
        "root_sums": (0.4, 0.6, 100.0),
        "rounding": 0.001,
    }
    return CouplingBound(**{**known, **numbers})  # type: ignore[arg-type]


def test_the_bound_is_the_sum_over_the_tokens_of_what_each_can_be_off() -> None:
    """Σ_t K R (min(√(w B_t), 2) + ε_ρ) + K ε_f + ε_F + rounding."""
    bound = made_of()
    moved = np.array([0.5 * 0.4, 0.5 * 0.6, 2.0])
    each = 3 * 5 * (moved + 0.011) + 3 * 0.013 + 0.017 + 0.001
    assert bound.weight_errors == pytest.approx(moved)
    assert bound.total == pytest.approx(each.sum())
    assert bound.mean_squared == pytest.approx((each**2).mean())
    parts = [3 * 15 * 0.011, 9 * 0.013, 3 * 0.017, 0.003]
    assert list(bound.terms.values()) == pytest.approx([15 * moved.sum(), *parts])


@pytest.mark.parametrize("value", [-1e-300, float("nan")])
def test_no_term_is_negative_or_unknown(value: float) -> None:
    bound = made_of()
    for name in vars(bound).keys() - {"source", "root_sums"}:
        assert replace(bound, **{name: 0.0}).total >= 0  # type: ignore[arg-type]
        with pytest.raises(CertificationError, match=f"{name} came out"):
            replace(bound, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(CertificationError, match="root_sums came out"):
        replace(bound, root_sums=(value, 0.0))


def midpoints(low: float, high: float, count: int) -> np.ndarray:
    return low + (high - low) * (np.arange(count) + 0.5) / count


@pytest.mark.parametrize("places", [None, (0.0, 4.0, 2.0)])
def test_truncation_is_measured_pair_by_pair_and_on_the_diagonal(places) -> None:
    """B_t = Σ_{s ≠ t} E|ρ − ρ_m|²(u_t, u_s) + E|ρ − ρ_m|²(u_t, u_t), by sums of another size."""

    def rho(u, v):
        return np.cos(u * v) + 0.3 * np.sin(5 * u) * v

    positions = None if places is None else np.array(places)
    target = Coupling(lambda h: h, lambda u: u, rho, 3, domain=(0.0, 1.0), positions=positions)
    found = pod(rho, target.intervals, measure="probability")
    blueprint = ef.compile_coupling(target, 1, 96, decomposition=found).blueprint
    bound = bound_coupling(blueprint, target, found)
    kept = found.truncate(1)
    offsets = (0.0,) * 3 if places is None else places
    means = np.zeros((3, 3))
    apart = 0.0
    everywhere = np.concatenate([midpoints(e, e + 1, 300) for e in sorted(set(offsets))])
    for t, e in enumerate(offsets):
        u = midpoints(e, e + 1, 300)
        own = (rho(u, u) - kept(u, u)) ** 2
        for s, other in enumerate(offsets):
            v = midpoints(other, other + 1, 301)
            gap = rho(u[:, None], v) - kept.matrix(u, v)
            means[t, s] = own.mean() if s == t else (gap**2).mean()
        for scores in (rho(u[:, None], everywhere), kept.matrix(u, everywhere)):
            apart = max(apart, np.ptp(scores, axis=1).max())
    assert bound.root_sums == pytest.approx(np.sqrt(means.sum(axis=1)), rel=2e-2)
    assert bound.diagonal == pytest.approx(np.sqrt(np.diag(means).mean()), rel=2e-2)
    assert bound.concentration == pytest.approx(1 / (1 + 2 * exp(-apart)), rel=2e-2)
    if places is None:
        assert bound.tail == pytest.approx(np.sqrt(means[0, 1]), rel=1e-2)
        assert bound.root_sums[0] == pytest.approx(hypot(2**0.5 * bound.tail, bound.diagonal))


def test_one_token_gives_all_weight_to_itself() -> None:
    target = Coupling(lambda h: h, lambda u: u, lambda u, v: np.cos(9 * u * v), 1)
    bound = ef.compile_coupling(target, 1, 16).bound
    assert bound.concentration == 1
    assert bound.root_sums == (pytest.approx(bound.diagonal),)


def test_k_and_r_are_those_of_the_model_and_the_target() -> None:
    """K is the steepest piece of F̂, R half the range of f, whichever of its values is widest."""
    target = Coupling(
        lambda h: 3 * h[..., 0] - 2 * h[..., 1],
        lambda u: np.stack([u - 7, 4 * u], axis=-1),
        lambda u, v: u * v,
        3,
    )
    bound = ef.compile_coupling(target, 1, 32).bound
    assert bound.lipschitz == pytest.approx(5)
    assert bound.radius == pytest.approx(2)


MORE = {
    **CASES,
    "two negative values": {"vector": True, "domain": (-0.9, -0.2)},
    "powers of two": {"domain": (-2.0, -1.0), "width": 17},
}


@pytest.mark.parametrize("case", MORE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_rounding_is_bounded_by_the_sum_of_its_parts(case, dtype, executor) -> None:
    """The formula of the module, written out again: tables or layers, scores, softmax, mean, F̂."""
    blueprint = drawn(**MORE[case])
    u = torch.finfo(dtype).eps / 2
    m, tau = blueprint.head_dim, blueprint.tau
    literal = executor == "literal"
    values = np.abs(blueprint.features.values).max(axis=0)
    rows = interpolation(blueprint.features, u, literal, dtype, blueprint.domain)
    Q, K, V = values[:m], values[m : 2 * m], values[2 * m :].max()
    dQ, dK, dV = rows[:m], rows[m : 2 * m], rows[2 * m :].max()
    S = (Q * K).sum()
    score = (Q * dK + K * dQ + dQ * dK).sum() + m * u * S
    weights = score + u * (4 * S + 9 + tau)
    mean = V * weights + dV + tau * u * V
    outer = interpolation(blueprint.outer, u, literal, dtype, None).max()
    steepness = lipschitz(blueprint.outer)
    assert weights < 2
    assert rounding_bound(blueprint, dtype, executor) == pytest.approx(
        1.1 * (steepness * mean + outer), rel=1e-9
    )


def interpolation(function, u, literal, dtype, domain):
    """How far an interpolant's values may be off, in the words of the module."""
    one = isinstance(function, Interpolant)
    box = function.knots.intervals if one else function.box
    N = function.knots.pieces if one else function.pieces
    d = 1 if one else len(box)
    V = np.abs(function.values).max(axis=0)
    if one:
        blocks = function.values.reshape(len(box), N + 1, -1)
        step = np.abs(np.diff(blocks, axis=1)).max(axis=(0, 1))
    else:
        grid = function.values.reshape(*[N + 1] * d, -1)
        step = np.max(
            [np.abs(np.diff(grid, axis=k)).max(axis=tuple(range(d))) for k in range(d)], axis=0
        )
    length = min(float(b - a) for a, b in box)
    X = max(abs(float(end)) for side in box for end in side)
    if not literal:
        reach = X if domain is None else max(abs(float(end)) for end in domain)
        return d * (N * u * (4 * reach / length + 4) * step + 6 * u * V)
    layer = function.layers()[0]
    eta = 0.0
    for row, _, w in layer.weight:
        stored = lost(w, dtype) * X + lost(layer.bias[row, 0], dtype)
        top, bottom = abs(w.numerator), w.denominator
        power = top & (top - 1) == 0 and bottom & (bottom - 1) == 0
        eta = max(eta, stored + (0 if power else u * X * abs(float(w))))
    places = 0.0 if domain is None else u * X * N / length
    return d * (V * (4 * (2 * eta + 4 * u) + 8 * u) + places * step)


def lost(value, dtype) -> float:
    """What a number loses when it is stored."""
    kept = torch.tensor(float(value), dtype=torch.float64).to(dtype).item()
    return abs(float(value - type(value)(kept)))


def test_weights_of_a_softmax_are_never_off_by_more_than_two() -> None:
    """Of scores as large as 10^12 no weight is known; the mean is off by the range of f at most."""
    blueprint = drawn()
    values = blueprint.features.values.copy()
    values[:, :4] *= 1e6
    steep = replace(blueprint, features=Interpolant(blueprint.features.knots, values))
    u = torch.finfo(torch.float32).eps / 2
    largest = float(np.abs(values[:, 4:]).max())
    rows = interpolation(steep.features, u, False, torch.float32, steep.domain)
    mean = 2 * largest + rows[4:].max() + 4 * u * largest
    outer = interpolation(steep.outer, u, False, torch.float32, None).max()
    wanted = 1.1 * (lipschitz(steep.outer) * mean + outer)
    assert rounding_bound(steep, torch.float32, "fused") == pytest.approx(wanted, rel=1e-9)


def test_numbers_beyond_a_format_are_lost_without_bound() -> None:
    assert _rounding(Fraction(10) ** 60, torch.float32) == float("inf")
    assert _rounding(Fraction(1, 3), torch.float32) == lost(Fraction(1, 3), torch.float32) > 0
    assert _rounding(Fraction(-1, 4), torch.float32) == 0


def test_products_with_powers_of_two_are_exact() -> None:
    powers = [Fraction(2) ** k * sign for k in range(-9, 10) for sign in (1, -1)]
    assert all(map(_is_power_of_two, powers))
    others = [Fraction(3), Fraction(-6), Fraction(1, 3), Fraction(5, 8), Fraction(-7, 12)]
    assert not any(map(_is_power_of_two, others))
