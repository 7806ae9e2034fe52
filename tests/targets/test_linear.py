"""Linear targets: filters as matrices, and what makes a matrix a filter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from exactformer.errors import InputError
from exactformer.targets import LinearTarget, exponential_kernel, mix, random_kernel

numbers = st.floats(-2, 2, allow_subnormal=False)
kernels = st.integers(1, 9).flatmap(lambda tau: arrays(np.float64, tau, elements=numbers))


@given(kernels, st.integers(0, 99))
def test_a_kernel_filters_the_past(kernel: np.ndarray, seed: int) -> None:
    target = LinearTarget(kernel)
    (x,) = target.sample(1, seed)
    expected = np.convolve(kernel, x)[: target.tau]
    assert np.abs(target(x) - expected).max() <= 1e-14 * np.abs(kernel).sum()


@given(kernels)
def test_a_matrix_is_recognised_as_a_kernel(kernel: np.ndarray) -> None:
    again = LinearTarget(LinearTarget(kernel).matrix)
    assert again.is_causal
    assert again.is_time_invariant
    assert np.array_equal(again.kernel, kernel)


def test_a_matrix_that_looks_ahead_or_changes_with_time_has_no_kernel() -> None:
    ahead, changing = LinearTarget([[1, 1], [0, 1]]), LinearTarget([[1, 0], [1, 2]])
    assert ahead.kernel is None
    assert changing.kernel is None
    assert (ahead.is_causal, changing.is_causal) == (False, True)


def test_tensors_are_answered_in_kind() -> None:
    import torch

    target = LinearTarget(random_kernel(8, seed=3))
    x = target.sample(4)
    y = target(torch.from_numpy(x))
    assert y.dtype == torch.float64
    assert np.abs(y.numpy() - target(x)).max() <= 8 * 2.0**-52
    assert target(torch.from_numpy(x).float()).dtype == torch.float32


def test_the_kernels_of_the_paper() -> None:
    assert np.array_equal(exponential_kernel(3), np.exp([0.0, -1.0, -2.0]))
    drawn = random_kernel(1000, seed=1)
    assert np.array_equal(drawn, random_kernel(1000, seed=1))
    assert drawn.min() >= 0
    assert drawn.max() <= 1


@pytest.mark.parametrize("weights", [[], [[1, 2]], [np.inf], np.zeros((2, 2, 2))])
def test_other_weights_are_refused(weights: object) -> None:
    with pytest.raises(InputError):
        LinearTarget(weights)  # type: ignore[arg-type]


def test_sequences_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match=r"3.*not of shape .4,"):
        LinearTarget([1, 2, 3])(np.zeros(4))


@pytest.mark.parametrize("weights", ["ab", [1j, 1.0], [[1.0], [1.0, 2.0]]])
def test_weights_that_are_not_real_are_refused(weights) -> None:
    with pytest.raises(InputError, match="real"):
        LinearTarget(weights)
    with pytest.raises(InputError, match="real"):
        mix(LinearTarget([1.0, 0.5]), weights)
