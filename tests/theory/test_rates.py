"""Theorem 4.1: the corrected bound holds, and where the printed one does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.core.arrays import softmax
from exactformer.couplings.target import identity
from exactformer.errors import InputError
from exactformer.targets import Coupling, ProductKernel, sine_family
from exactformer.theory import bound, complexity, pod
from exactformer.theory.complexity import decompose, least_constant
from exactformer.theory.decomposition import Decomposition
from exactformer.theory.truncation import truncation_errors
from tests.examples import examples


def straight(g, intervals, pieces: int):
    """Interpolate g on ``pieces`` shared by the intervals, componentwise."""
    knots = np.concatenate(
        [np.linspace(low, high, pieces // len(intervals) + 1) for low, high in sorted(intervals)]
    )
    values = np.asarray(g(knots))
    if values.ndim == 1:
        return lambda x: np.interp(x, knots, values)
    return lambda x: np.stack([np.interp(x, knots, column) for column in values.T], axis=-1)


def construct(target: Coupling, kept: Decomposition, ff_width: int) -> Coupling:
    """The model of Theorem 4.1: truncated features, f and F in straight pieces."""
    parts, root = target.intervals, np.sqrt(kept.singular_values)
    phi = straight(lambda u: root * kept.left(u), parts, ff_width)
    psi = straight(lambda v: root * kept.right(v), parts, ff_width)
    grid = np.concatenate([np.linspace(low, high, 5000) for low, high in parts])
    values = target.f(grid)
    F = straight(target.F, [(values.min(), values.max())], ff_width)
    kernel = ProductKernel(np.ones(kept.rank), phi, psi)
    return Coupling(
        F, straight(target.f, parts, ff_width), kernel, target.tau, target.domain, target.positions
    )


def random_target(seed: int) -> Coupling:
    random = np.random.default_rng(seed)
    a, b, c, d = random.uniform(0.2, 3, 4)
    scale = 10 ** random.uniform(-2, 1)
    kernels = [
        lambda u, v: scale * np.exp(-a * (u - v) ** 2),
        lambda u, v: scale * np.abs(u - b * v),
        lambda u, v: scale * np.sin(a * u + b * v) * np.cos(c * u * v),
        lambda u, v: scale / (1 + a + np.abs(np.sin(u) - np.cos(v))),
    ]
    outers = [identity, np.tanh, lambda h: np.abs(h - 0.1), lambda h: h**2]
    inners = [identity, lambda u: np.sin(d * u), lambda u: 1 / (2 + np.cos(u)), lambda u: u**3]
    tau = int(random.integers(2, 7))
    positions = random.permutation(tau) * random.uniform(1.1, 2) if random.random() < 0.5 else None
    kernel, F, f = (family[random.integers(4)] for family in (kernels, outers, inners))
    return Coupling(F, f, kernel, tau, positions=positions)


def measured(target: Coupling, model: Coupling, count: int = 400, seed: int = 1) -> np.ndarray:
    x = target.sample(count, seed)
    return np.abs(target(x) - model(x))


@given(
    st.integers(2, 9),
    st.floats(1e-3, 30),
    st.floats(1e-3, 30),
    st.integers(0, 2**31),
)
def test_the_softmax_moves_no_more_in_sum_than_its_scores_at_most(n, spread, step, seed) -> None:
    random = np.random.default_rng(seed)
    a = spread * random.normal(size=n)
    b = a + step * random.uniform(-1, 1, n)
    moved = np.abs(softmax(a) - softmax(b)).sum()
    assert moved <= np.abs(a - b).max() * (1 + 1e-12)


@given(st.integers(2, 9), st.floats(1e-3, 30), st.floats(1e-3, 30), st.integers(0, 2**31))
def test_a_softmax_passes_on_no_more_than_its_largest_weight(n, spread, step, seed) -> None:
    random = np.random.default_rng(seed)
    a = spread * random.uniform(-1, 1, n)
    b = a + step * random.uniform(-1, 1, n)
    variation = max(np.ptp(a), np.ptp(b))
    largest = 1 / (1 + (n - 1) * np.exp(-variation))
    assert softmax(a).max() <= largest * (1 + 1e-12)
    moved = np.abs(softmax(a) - softmax(b)).sum()
    assert moved <= np.sqrt(largest) * np.linalg.norm(a - b) * (1 + 1e-12)


def test_the_constant_of_the_softmax_is_one() -> None:
    a, step = np.zeros(2), 1e-4 * np.array([1, -1])
    assert np.abs(softmax(a + step) - softmax(a)).sum() == pytest.approx(1e-4, rel=1e-6)


@given(st.integers(0, 2**31), st.integers(1, 5), st.sampled_from([8, 24, 120]))
@settings(max_examples=examples(30))
def test_constructed_models_never_violate_the_corrected_bound(seed, head_dim, ff_width) -> None:
    target = random_target(seed)
    found = pod(
        target.rho,
        sorted(target.intervals),
        measure="probability",
        max_nodes=32 * len(target.intervals),
    )
    limit = bound(target, head_dim, ff_width, decomposition=found)
    errors = measured(target, construct(target, found.truncate(head_dim), ff_width))
    spread = errors.sum(-1).std() / np.sqrt(len(errors))
    assert errors.sum(-1).mean() - 5 * spread <= limit.total
    squares = (errors**2).mean(-1)
    assert squares.mean() - 5 * squares.std() / np.sqrt(len(errors)) <= limit.mean_squared


@pytest.mark.parametrize("tau", [2, 4, 16])
def test_the_bound_is_within_reach_for_a_weak_coupling(tau: int) -> None:
    """At most ten times the error, however many tokens there are."""
    target = sine_family([0.05, 0.02], tau=tau)
    limit = bound(target, 1, 4096)
    errors = measured(target, target.with_kernel(target.rho.truncate(1)), 4000)
    assert limit.total / 10 <= errors.sum(-1).mean() <= limit.total


def test_truncation_errors_are_mean_squares_over_pairs_of_tokens() -> None:
    target = Coupling(
        identity, identity, lambda u, v: np.cos(u * v), 3, positions=np.array([4.0, 0, 2])
    )
    kept = decompose(target).truncate(2)
    places, diagonal = truncation_errors(target.intervals, target.tau, kept)
    tokens = target.encoded(target.sample(20_000))
    left_out = target.rho(tokens[:, :, None], tokens[:, None, :]) - kept.matrix(tokens, tokens)
    squares = left_out**2
    spread = squares.sum(-1).std(0) / np.sqrt(len(squares))
    assert (np.abs(squares.sum(-1).mean(0) - places**2) <= 5 * spread).all()
    on_diagonal = np.diagonal(squares, axis1=1, axis2=2)
    assert on_diagonal.mean() == pytest.approx(diagonal**2, rel=0.05)


def test_a_coupling_of_finite_rank_has_no_truncation_error_at_that_rank() -> None:
    limit = bound(sine_family([1.0, 0.5, 0.25]), 3, 4096)
    assert max(limit.truncation) < 1e-10
    assert limit.tail < 1e-10
    assert limit.eps_inner < 1e-10


def test_more_pieces_bring_the_bound_down_with_their_square() -> None:
    target = sine_family([1.0, 0.5])
    found = decompose(target)
    coarse, fine = (bound(target, 2, n, decomposition=found).eps_rho for n in (128, 1024))
    assert coarse / fine == pytest.approx(64, rel=1e-6)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_the_tail_falls_at_the_corrected_rate(alpha: float) -> None:
    """T² ≤ C₁² m^(1−2α)/(2α−1), and no slower or faster."""
    found = pod(sine_family(np.arange(1, 129.0) ** -alpha).rho)
    constant = least_constant(found, alpha)
    assert constant == pytest.approx(1, rel=1e-10)
    for m in (2, 8, 32):
        limit = constant**2 * m ** (1 - 2 * alpha) / (2 * alpha - 1)
        assert 0.25 * limit < found.tail(m) ** 2 < limit


def test_complexity_measures_of_a_sine_family() -> None:
    target = sine_family(3 * np.arange(1, 9.0) ** -2)
    found = complexity(target, 2, alpha=2.0)
    curvature = 4 * np.pi**2 * np.sqrt(2)
    expected = 2 * np.sqrt(2), 3, 2 * (1 + 4) * curvature / 8
    measures = np.array([found.C0, found.C1, found.C2])
    assert measures == pytest.approx(expected, rel=1e-3)
    assert np.isinf(complexity(target, 2, alpha=0.5).C1)


def test_a_report_shows_every_term() -> None:
    text = str(bound(sine_family([1.0, 0.5]), 1, 64))
    for term in ("tail", "diagonal", "ε_ρ", "ε_f", "ε_F", "printed", "C₀", "C₁", "C₂"):
        assert term in text


def test_vector_values_are_bounded_too() -> None:
    target = Coupling(
        F=lambda h: h[..., 0] - 2 * h[..., 1],
        f=lambda u: np.stack([np.sin(u), u**2], axis=-1),
        rho=lambda u, v: np.exp(-np.abs(u - v)),
        tau=4,
    )
    found = decompose(target)
    limit = bound(target, 2, 64, decomposition=found)
    root = np.sqrt(found.singular_values[:2])
    phi = straight(lambda u: root * found.left(u)[..., :2], target.intervals, 64)
    psi = straight(lambda v: root * found.right(v)[..., :2], target.intervals, 64)
    kernel = ProductKernel(np.ones(2), phi, psi)
    model = Coupling(target.F, straight(target.f, target.intervals, 64), kernel, 4)
    assert limit.eps_outer == 0
    assert 0 < measured(target, model).sum(-1).mean() <= limit.total


@pytest.mark.slow
def test_over_a_thousand_random_couplings_none_violates_the_bound() -> None:
    ratios = []
    for seed in range(1000):
        head_dim, ff_width = 1 + seed % 5, (8, 24, 120)[seed % 3]
        target = random_target(seed)
        nodes = 32 * len(target.intervals)
        found = pod(target.rho, target.intervals, measure="probability", max_nodes=nodes)
        limit = bound(target, head_dim, ff_width, decomposition=found)
        errors = measured(target, construct(target, found.truncate(head_dim), ff_width))
        ratios.append(errors.sum(-1).mean() / limit.total)
        assert (errors**2).mean() < limit.mean_squared
    assert 0.25 < max(ratios) < 1


def test_a_decomposition_of_something_else_is_refused() -> None:
    target = Coupling(identity, identity, lambda u, v: u * v, 2, domain=(0, 2))
    for wrong in (pod(target.rho, (0, 2)), pod(target.rho), pod(np.ones((8, 8)), (0, 2))):
        with pytest.raises(InputError, match="not that of the target"):
            bound(target, 1, decomposition=wrong)
    known = pod(target.rho, (0, 2), measure="probability")
    assert bound(target, 1, decomposition=known) == bound(target, 1)


def test_refusals() -> None:
    with pytest.raises(InputError, match="head_dim"):
        bound(sine_family([1.0]), 0)
    vectors = Coupling(identity, identity, lambda u, v: (u * v).sum(-1), 2, domain=[(0, 1)] * 2)
    with pytest.raises(InputError):
        bound(vectors, 1)


def test_complex_contributions_have_no_bound() -> None:
    """Their real part, 0, would have the bound 0."""
    with pytest.raises(InputError, match="not complex"):
        bound(Coupling(lambda h: h, lambda u: 1j * u, np.minimum, 3), 1, 8)
    with pytest.raises(InputError, match=r"head_dim=1\.5"):
        bound(Coupling(lambda h: h, lambda u: u, np.minimum, 3), 1.5, 8)  # type: ignore[arg-type]
