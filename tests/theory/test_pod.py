"""The decomposition of kernels, against kernels whose decomposition is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from exactformer.errors import InputError, SizeError, ToleranceError
from exactformer.targets import sine_family
from exactformer.theory import Box, pod
from exactformer.theory.quadrature import gauss_legendre
from tests.examples import examples

FORTY = [(2.0 * t, 2.0 * t + 1) for t in range(40)]

ORDER = np.arange(1, 2000)


def of_minimum(k: np.ndarray) -> np.ndarray:
    return 1 / ((k - 0.5) ** 2 * np.pi**2)


def of_exponential(count: int) -> np.ndarray:
    """σ of e^(−|u−v|): 2/(1 + ω²), with ω tan(ω/2) = 1 or ω = −tan(ω/2)."""
    even = [
        brentq(lambda w: w * np.sin(w / 2) - np.cos(w / 2), 2 * np.pi * j, 2 * np.pi * j + np.pi)
        for j in range(count)
    ]
    odd = [
        brentq(
            lambda w: w * np.cos(w / 2) + np.sin(w / 2), 2 * np.pi * j + np.pi, 2 * np.pi * (j + 1)
        )
        for j in range(count)
    ]
    return np.sort(2 / (1 + np.array(even + odd) ** 2))[::-1]


def of_distance(count: int) -> np.ndarray:
    """σ of |u − v|: 2/ω² with (ω/2) tanh(ω/2) = 1, or (ω/2) tan(ω/2) = −1, or ω = π, 3π, …"""
    first = brentq(lambda w: w / 2 * np.tanh(w / 2) - 1, 0.1, 10)
    even = [
        brentq(
            lambda w: w / 2 * np.sin(w / 2) + np.cos(w / 2),
            2 * np.pi * j + np.pi,
            2 * np.pi * (j + 1),
        )
        for j in range(count)
    ]
    odd = [(2 * j + 1) * np.pi for j in range(count)]
    return np.sort(2 / np.array([first, *even, *odd]) ** 2)[::-1]


KNOWN = {
    "minimum": (np.minimum, of_minimum(ORDER)),
    "exponential": (lambda u, v: np.exp(-np.abs(u - v)), of_exponential(700)),
    "distance": (lambda u, v: np.abs(u - v), of_distance(700)),
    "jump": (lambda u, v: np.where(u >= v, 1.0, 0.0), 1 / ((ORDER - 0.5) * np.pi)),
    "corner": (lambda u, v: np.where(u + v <= 1, 1.0, 0.0), 1 / ((ORDER - 0.5) * np.pi)),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 3.0])
def test_sine_families_return_their_singular_values_to_twelve_digits(alpha: float) -> None:
    sigma = np.arange(1, 257.0) ** -alpha
    found = pod(sine_family(sigma).rho)
    assert found.rank == 256
    assert found.digits >= 12
    assert np.abs(found.singular_values / sigma - 1).max() < 1e-12


def test_a_sine_family_given_as_a_plain_function_does_as_well() -> None:
    sigma = np.array([1.0, 0.3, 0.02])
    kernel = sine_family(sigma).rho
    found = pod(lambda u, v: kernel(u, v))
    assert found.rank == 3
    assert np.abs(found.singular_values - sigma).max() < 1e-13
    assert found.digits >= 12


def test_appendix_d3_has_its_closed_form_not_its_print() -> None:
    """1 + cos b − cos 2a cos b + sin 2a sin b is a 3 × 3 matrix in cosines and sines."""
    found = pod(lambda u, v: 1 + 2 * np.sin(2 * np.pi * u) * np.sin(2 * np.pi * (u + v)))
    exact = np.array([np.sqrt((7 + np.sqrt(33)) / 8), 0.5, np.sqrt((7 - np.sqrt(33)) / 8)])
    assert found.rank == 3
    assert found.digits >= 10
    assert np.abs(found.singular_values - exact).max() < 1e-13
    printed = np.array([1.265, 0.5, 0.4])
    assert (np.abs(printed - exact) > [2e-3, -1, 3e-3]).all()


@pytest.mark.parametrize("name", KNOWN)
def test_the_digits_claimed_for_kinks_and_jumps_hold(name: str) -> None:
    kernel, exact = KNOWN[name]
    for nodes in (64, 256):
        found = pod(kernel, max_nodes=nodes)
        off = np.abs(found.singular_values - exact[: found.rank]).max()
        assert off <= found.error
        assert off <= 10.0**-found.digits * found.singular_values[0]
        assert found.error < 20 * off


@pytest.mark.parametrize("name", KNOWN)
def test_more_nodes_bring_more_digits(name: str) -> None:
    kernel, _ = KNOWN[name]
    coarse, fine = (pod(kernel, max_nodes=n).error for n in (64, 256))
    assert fine < coarse / 3.5


def test_a_kink_at_the_end_of_an_interval_costs_nothing() -> None:
    def kinked(u, v):
        return 1 + np.abs(u - 0.3) * v

    cut = [(0, 0.3), (0.3, 1)]
    assert pod(kinked, max_nodes=256).digits < 8
    assert pod(kinked, cut, (0, 1)).digits >= 12


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**31))
@settings(max_examples=examples(25))
def test_constant_blocks_on_disjoint_intervals_are_a_matrix(
    rows: int, columns: int, seed: int
) -> None:
    """σ of Σ A_ij 1[I_i × J_j] are those of √|I_i| A_ij √|J_j|."""
    random = np.random.default_rng(seed)
    blocks = random.normal(size=(rows, columns))
    lengths_u, lengths_v = random.uniform(0.2, 1, rows), random.uniform(0.2, 1, columns)
    u_parts = [(2.0 * i, 2.0 * i + length) for i, length in enumerate(lengths_u)]
    v_parts = [(2.0 * j, 2.0 * j + length) for j, length in enumerate(lengths_v)]
    found = pod(lambda u, v: blocks[(u // 2).astype(int), (v // 2).astype(int)], u_parts, v_parts)
    weighted = np.sqrt(lengths_u)[:, None] * blocks * np.sqrt(lengths_v)
    exact = np.linalg.svd(weighted, compute_uv=False)
    assert np.abs(found.singular_values - exact[: found.rank]).max() <= found.error
    assert exact[found.rank :].max(initial=0) <= 2 * found.error


def test_kinks_on_disjoint_intervals_unite_their_spectra() -> None:
    """min(u, v) on the diagonal blocks I_t × I_t, scaled by c_t, and nothing between them."""
    scale = np.array([1.0, 0.5, 2.0])

    def kernel(u, v):
        place_u, place_v = (u // 2).astype(int), (v // 2).astype(int)
        return np.where(place_u == place_v, scale[place_u] * np.minimum(u % 2, v % 2), 0.0)

    found = pod(kernel, [(0, 1), (2, 3), (4, 5)], max_nodes=3 * 256)
    exact = np.sort(np.outer(scale, of_minimum(ORDER)).ravel())[::-1]
    off = np.abs(found.singular_values - exact[: found.rank]).max()
    assert off <= found.error < 20 * off
    assert found.digits >= 4


def test_functions_are_orthonormal_and_rebuild_the_kernel_anywhere() -> None:
    def kernel(u, v):
        return np.exp(u * v) / (1 + u)

    found = pod(kernel, (0, 1), [(1, 2), (3, 4)])
    rule = gauss_legendre(((0.0, 1.0),), 48)
    resolved = found.singular_values > 1e-8
    gram = (found.left(rule.nodes) * rule.weights[:, None]).T @ found.left(rule.nodes)
    assert np.abs(gram - np.eye(found.rank))[np.ix_(resolved, resolved)].max() < 1e-6
    u, v = np.linspace(0, 1, 7)[:, None], np.linspace(3, 4, 5)
    assert np.abs(found(u, v) - kernel(u, v)).max() < 1e-9
    assert np.abs(found.matrix(u[:, 0], v) - kernel(u, v)).max() < 1e-9


def test_the_functions_of_a_sine_family_are_its_sines() -> None:
    found = pod(sine_family([1.0, 0.4, 0.1]).rho)
    x = np.linspace(0, 1, 101)
    sines = np.sqrt(2) * np.sin(2 * np.pi * np.outer(x, [1, 2, 3]))
    for side in (found.left(x), found.right(x)):
        assert np.abs(np.abs(side) - np.abs(sines)).max() < 1e-12
    assert np.abs(found.left(x) - found.right(x)).max() < 1e-12


@given(st.floats(1e-3, 1e3), st.floats(0.1, 10))
@settings(max_examples=examples(20))
def test_scaling_the_kernel_or_the_domain_scales_the_values(factor: float, length: float) -> None:
    def kernel(u, v):
        return np.cos(u + 2 * v)

    plain = pod(kernel).singular_values[:2]
    scaled = pod(lambda u, v: factor * kernel(u, v)).singular_values[:2]
    assert scaled == pytest.approx(factor * plain, rel=1e-12)
    stretched = pod(lambda u, v: kernel(u / length, v / length), (0, length))
    assert stretched.singular_values[:2] == pytest.approx(length * plain, rel=1e-11)
    normal = pod(lambda u, v: kernel(u / length, v / length), (0, length), measure="probability")
    assert normal.singular_values[:2] == pytest.approx(plain, rel=1e-11)


def test_the_tail_is_the_distance_to_the_truncation() -> None:
    found = pod(lambda u, v: np.exp(-4 * (u - v) ** 2))
    kept = found.truncate(3)
    u, v = found.u.nodes, found.v.nodes
    rest = found.kernel(u[:, None], v) - kept.matrix(u, v)
    norm = np.sqrt(found.u.weights @ rest**2 @ found.v.weights)
    assert kept.rank == 3
    assert found.tail(3) == pytest.approx(norm, rel=1e-9)
    assert kept.remainder == found.tail(3)
    assert kept.tail(0) == pytest.approx(found.tail(0), rel=1e-14)


def test_samples_are_decomposed_with_an_honest_error() -> None:
    for count in (40, 128):
        x = (np.arange(count) + 0.5) / count
        found = pod(np.minimum(x[:, None], x))
        off = np.abs(found.singular_values - of_minimum(ORDER[: found.rank])).max()
        assert off <= found.error < 0.01
        assert found.left(x).shape == (count, found.rank)
        assert np.abs(found.left(x) - found.left_values).max() < 1e-12
    with pytest.raises(InputError, match="outside"):
        found.left(2.0)


def test_samples_at_uneven_nodes() -> None:
    u, v = np.sort(np.random.default_rng(0).uniform(size=(2, 400)))
    found = pod(np.exp(u[:, None] + v), nodes=(u, v))
    exact = (np.e**2 - 1) / 2
    assert abs(found.singular_values[0] - exact) <= found.error
    assert found.rank == 1


PRODUCTS: list[tuple[str, Callable, np.ndarray]] = [
    ("minimum", lambda u, v: np.minimum(u, v).prod(-1), of_minimum(ORDER[:60])),
    ("jump", lambda u, v: np.where(u >= v, 1.0, 0.0).prod(-1), 1 / ((ORDER[:60] - 0.5) * np.pi)),
]


@pytest.mark.parametrize(("kernel", "one"), [p[1:] for p in PRODUCTS], ids=[p[0] for p in PRODUCTS])
def test_products_over_the_coordinates_of_a_box_multiply_their_values(kernel, one) -> None:
    found = pod(kernel, Box((0, 1), (0, 1)), max_nodes=256)
    exact = np.sort(np.outer(one, one).ravel())[::-1]
    off = np.abs(found.singular_values - exact[: found.rank]).max()
    assert off <= found.error < 30 * off
    u = np.random.default_rng(0).uniform(size=(5, 2))
    assert found.left(u).shape == (5, found.rank)


def test_on_a_box_the_stated_error_covers_smooth_kernels_too() -> None:
    found = pod(lambda u, v: np.exp((u * v).sum(-1)), Box((0, 1), (0, 1), (0, 1)), max_nodes=256)
    one = pod(lambda u, v: np.exp(u * v)).singular_values
    exact = np.sort(np.einsum("i,j,k->ijk", one, one, one).ravel())[::-1]
    off = np.abs(found.singular_values - exact[: found.rank])
    assert off.max() <= found.error
    assert found.digits >= 1


def test_the_spread_between_scramblings_covers_chance() -> None:
    """Of rank one, σ is the product of two norms, without bias and with nothing but chance."""
    for power in np.linspace(0.3, 6, 20):
        found = pod(
            lambda u, v, p=power: ((u * v) ** p).prod(-1), Box((0, 1), (0, 1)), max_nodes=64
        )
        assert abs(found.singular_values[0] - (2 * power + 1) ** -2) <= found.error


@pytest.mark.parametrize("width", [0.2, 0.02, 0.006])
def test_a_bump_between_the_nodes_is_not_overlooked(width: float) -> None:
    """1 + h(u)h(v) with a tent h of integral w/2 and square integral w/3: two by two."""

    def tent(x):
        return np.maximum(0, 1 - np.abs(x - 0.371) / (width / 2))

    found = pod(lambda u, v: 1 + tent(u) * tent(v), max_nodes=512)
    mean, square = width / 2, width / 3
    gram = np.linalg.cholesky([[1, mean], [mean, square]])
    exact = np.linalg.svd(gram.T @ gram, compute_uv=False)
    off = np.abs(found.singular_values[:2] - exact[: found.rank][:2]).max()
    assert off <= found.error
    assert found.rank >= 1


def test_a_tolerance_is_met_or_refused() -> None:
    assert pod(np.minimum, tolerance=1e-3).error <= 1e-3 * 0.41
    with pytest.raises(ToleranceError, match="end intervals where") as refused:
        pod(KNOWN["jump"][0], tolerance=1e-6, max_nodes=128)
    assert refused.value.error > 1e-6


def test_a_kernel_that_never_settles_claims_no_digits() -> None:
    found = pod(lambda u, v: np.sin(1e7 * u * v), max_nodes=256)
    assert found.digits == 0
    assert found.remainder > 0


def test_the_zero_kernel_has_rank_zero() -> None:
    found = pod(lambda u, v: 0 * u * v)
    assert found.rank == 0
    assert found.tail(0) == 0
    assert found.left(np.zeros(3)).shape == (3, 0)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ((lambda u, v: 1 / (u - v),), {}, InputError, "not finite"),
        ((lambda u, v: u[:, 0],), {}, InputError, "elementwise"),
        ((np.minimum, (1, 0)), {}, InputError, "positive length"),
        ((np.minimum, [(0, 1), (0.5, 2)]), {}, InputError, "overlap"),
        ((np.minimum, "unit"), {}, InputError, "interval"),
        ((np.minimum,), {"measure": "counting"}, InputError, "lebesgue"),
        ((np.minimum,), {"max_nodes": 100_000}, SizeError, "GiB"),
        ((np.minimum, FORTY), {"max_nodes": 1024}, SizeError, "1280 nodes"),
        ((np.zeros((3, 3)),), {}, InputError, "at least 4"),
        ((np.full((5, 5), np.nan),), {}, InputError, "row 0"),
        ((np.zeros((5, 5)), [(0, 1), (2, 3)]), {}, InputError, "one interval"),
        ((np.zeros((5, 5)),), {"nodes": (np.arange(4), np.arange(5))}, InputError, "do not lie"),
        ((np.zeros((5, 5)), Box((0, 1))), {}, InputError, "box"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_cannot_be_decomposed_is_refused(arguments, options, error, says) -> None:
    with pytest.raises(error, match=says):
        pod(*arguments, **options)


@pytest.mark.slow
def test_stated_errors_hold_for_random_kernels_without_closed_form() -> None:
    """Against 1024 nodes: roots, jumps along curves, ramps, ridges and fast waves."""
    claims = 0
    for seed in range(100):
        a, b, c = np.random.default_rng(seed).uniform(0.2, 3, 3)
        kernel = [
            lambda u, v, a=a, c=c: np.abs(u - a * v) ** (0.5 + c / 3),
            lambda u, v, a=a: np.where(u > a * v * v, np.sin(u), v),
            lambda u, v, a=a, b=b: np.maximum(0, u + v - a / 2) * np.exp(-b * u),
            lambda u, v, c=c: np.exp(-20 * c * np.abs(u - v)),
            lambda u, v, a=a, b=b: np.sin(30 * a * u * v + b),
        ][seed % 5]
        reference = pod(kernel, max_nodes=1024)
        for nodes in (32, 128):
            found = pod(kernel, max_nodes=nodes)
            common = min(found.rank, reference.rank)
            off = np.abs(found.singular_values[:common] - reference.singular_values[:common])
            assert off.max(initial=0) <= found.error + reference.error
            claims += common > 0
    assert claims > 150


def test_complex_kernels_are_refused_not_halved() -> None:
    """Re e^{iuv} has singular values too, but they are not those of e^{iuv}."""
    with pytest.raises(InputError, match="real, not complex"):
        pod(lambda u, v: np.exp(1j * u * v))
    with pytest.raises(InputError, match="real, not complex"):
        pod(np.full((4, 4), 1j))


def test_kernels_that_look_at_all_points_are_refused() -> None:
    """On a grid they are constant or scaled by its ends, and as kernels something else."""
    for kernel in (lambda u, v: np.max(u * v), lambda u, v: u * v - np.mean(u * v)):
        with pytest.raises(InputError, match="its own point only"):
            pod(kernel)


def test_functions_of_single_numbers_are_told_of_vectorize() -> None:
    def smaller(u: float, v: float) -> float:
        return u if u < v else v

    with pytest.raises(InputError, match=r"np\.vectorize"):
        pod(smaller)
    found = pod(np.vectorize(smaller), max_nodes=64).singular_values
    assert found == pytest.approx(pod(np.minimum, max_nodes=64).singular_values, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [{"max_nodes": 0}, {"max_nodes": 64.5}, {"tolerance": 0.0}, {"tolerance": "small"}],
)
def test_limits_that_are_none_are_refused(options: dict) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        pod(np.minimum, **options)


@pytest.mark.parametrize("nodes", [(np.arange(4),), (np.arange(4), np.full(4, np.nan)), "ab"])
def test_nodes_that_samples_cannot_lie_at_are_refused(nodes: object) -> None:
    with pytest.raises(InputError, match="nodes"):
        pod(np.eye(4), (0, 3), nodes=nodes)


def test_forty_intervals_are_decomposed_without_being_asked_for_nodes() -> None:
    """u·v on [0, 1], [2, 3], …: one singular value, ∫ u² du."""
    found = pod(lambda u, v: u * v, FORTY)
    mass = sum((high**3 - low**3) / 3 for low, high in FORTY)
    assert found.singular_values == pytest.approx([mass], abs=found.error)


def test_points_of_another_dimension_are_refused() -> None:
    found = pod(lambda u, v: (u * v).sum(-1), Box((0, 1), (0, 1)), max_nodes=32)
    for points in (0.5, np.zeros((5, 3))):
        with pytest.raises(InputError, match=r"points are \(…, 2\)"):
            found.left(points)
    for terms in (-1, 1.5):
        with pytest.raises(InputError, match="terms"):
            found.tail(terms)  # type: ignore[arg-type]
