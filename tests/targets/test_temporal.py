"""Reordering and mixing do to the inputs what section 6 says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.targets import (
    LinearTarget,
    exponential_kernel,
    mix,
    mixing_matrix,
    random_filter,
    random_kernel,
    reorder,
    swap_ends,
)

lengths = st.integers(2, 12)


@given(lengths.flatmap(lambda n: st.permutations(range(n))), st.integers(0, 99))
def test_reordered_targets_keep_their_outputs(p: list[int], seed: int) -> None:
    target = LinearTarget(random_kernel(len(p), seed))
    x = target.sample(3, seed)
    altered = reorder(target, p)
    assert np.abs(altered(x[:, p]) - target(x)).max() <= 1e-14 * len(p)
    assert np.array_equal(reorder(altered, np.argsort(p)).matrix, target.matrix)


@given(lengths.flatmap(lambda n: st.permutations(range(n))))
def test_reordering_a_filter_costs_causality_unless_nothing_moves(p: list[int]) -> None:
    altered = reorder(LinearTarget(exponential_kernel(len(p))), p)
    assert altered.is_causal == (p == sorted(p))


def test_the_papers_permutation_exchanges_the_ends() -> None:
    x = np.arange(32)
    moved = x[swap_ends(32, 10)]
    assert moved.tolist() == [*range(22, 32), *range(10, 22), *range(10)]
    assert np.array_equal(moved[swap_ends(32, 10)], x)
    with pytest.raises(InputError, match="overlap"):
        swap_ends(19, 10)


def filtered(theta: np.ndarray, x: np.ndarray, sign: int) -> np.ndarray:
    """Return Σ_s θ(s) x(t + sign·s), term by term."""
    tau = len(x)
    return np.array(
        [
            sum(w * x[t + sign * s] for s, w in enumerate(theta) if 0 <= t + sign * s < tau)
            for t in range(tau)
        ]
    )


@pytest.mark.parametrize(("causal", "sign"), [(False, 1), (True, -1)])
@given(tau=st.integers(1, 10), length=st.integers(1, 12), seed=st.integers(0, 99))
def test_mixing_filters_the_inputs(
    causal: bool, sign: int, tau: int, length: int, seed: int
) -> None:
    theta = random_filter(length, seed)
    target = LinearTarget(random_kernel(tau, seed))
    (x,) = target.sample(1, seed)
    expected = target(filtered(theta, x, sign))
    assert np.abs(mix(target, theta, causal)(x) - expected).max() <= 1e-14 * tau


@given(st.integers(2, 12), st.integers(0, 99))
def test_a_causal_filter_gives_a_kernel_the_printed_one_looks_ahead(tau: int, seed: int) -> None:
    target, theta = LinearTarget(exponential_kernel(tau)), random_filter(5, seed)
    causal, printed = mix(target, theta, causal=True), mix(target, theta)
    assert causal.kernel is not None
    assert np.abs(causal.matrix - target.matrix @ mixing_matrix(theta, tau, True)).max() <= 1e-15
    assert not printed.is_causal


def test_filters_have_norm_one() -> None:
    assert abs(np.abs(random_filter(5, 7)).sum() - 1) <= 2.0**-51


def test_what_is_no_permutation_or_filter_is_refused() -> None:
    target = LinearTarget([1.0, 0.5, 0.25])
    with pytest.raises(InputError, match="each of 0 to 2 once"):
        reorder(target, [0, 0, 1])
    with pytest.raises(InputError, match="filter"):
        mix(target, [])
