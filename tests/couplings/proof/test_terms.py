"""The terms of a coupling's bound, one by one, against closed forms and integrals of their own."""

from __future__ import annotations

from dataclasses import replace
from math import exp, hypot

import numpy as np
import pytest

import exactformer as ef
from exactformer.couplings.proof.bound import ErrorTerms, bound_coupling
from exactformer.errors import CertificationError
from exactformer.targets import Coupling
from exactformer.theory import pod


def made_of(**numbers: float) -> ErrorTerms:
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
    return ErrorTerms(**{**known, **numbers})  # type: ignore[arg-type]


def test_the_bound_is_the_sum_over_the_tokens_of_what_each_can_be_off() -> None:
    """Σ_t K R (min(√(w B_t), 2) + ε_ρ) + K ε_f + ε_F + rounding."""
    bound = made_of()
    moved = np.array([0.5 * 0.4, 0.5 * 0.6, 2.0])
    each = 3 * 5 * (moved + 0.011) + 3 * 0.013 + 0.017 + 0.001
    assert bound.weight_errors == pytest.approx(moved)
    assert bound.total == pytest.approx(each.sum())
    assert bound.mean_squared == pytest.approx((each**2).mean())
    parts = [3 * 15 * 0.011, 9 * 0.013, 3 * 0.017, 0.003]
    assert list(bound.parts.values()) == pytest.approx([15 * moved.sum(), *parts])


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
    bound = ef.compile_coupling(target, 1, 16).certificate.rounded()
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
    bound = ef.compile_coupling(target, 1, 32).certificate.rounded()
    assert bound.lipschitz == pytest.approx(5)
    assert bound.radius == pytest.approx(2)
