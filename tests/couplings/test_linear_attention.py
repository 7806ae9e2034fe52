"""Linear targets by one attention head: zero error but for what stands for no weight."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.couplings.linear_attention import FLOOR, LinearAttention, linear_attention
from exactformer.errors import InputError
from exactformer.learning.ensembles import AttentionConfiguration, AttentionEnsemble
from exactformer.targets import (
    LinearTarget,
    exponential_kernel,
    mix,
    random_filter,
    random_kernel,
    reorder,
    swap_ends,
)
from tests.examples import examples

TAU = 32


def module(weights: LinearAttention, width: int = 128) -> AttentionEnsemble:
    """The construction in the module that is trained, its spare units unused."""
    tau = weights.inner[0][0].shape[1] - 1
    features, value_dim = weights.query.shape[1], weights.value.shape[0]
    ensemble = AttentionEnsemble(
        [
            AttentionConfiguration(
                head_dim=len(weights.query),
                width=width,
                depth=len(weights.inner),
                features=features,
                value_dim=value_dim,
                positions="one-hot",
                tokens=tau,
            )
        ],
        dtype=torch.float64,
    )
    ensemble.set_weights(0, weights.named(width))
    return ensemble


def outputs(weights: LinearAttention, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module(weights)(torch.tensor(x))[0].numpy()


def permitted(matrix: np.ndarray) -> float:
    """Weights e^FLOOR in place of none move an average of [0, 1] by at most τ times that, twice."""
    return 2 * len(matrix) * np.exp(FLOOR) * np.abs(matrix).sum(axis=1).max() + 1e-9


@pytest.mark.parametrize(
    "kernel", [exponential_kernel(TAU), random_kernel(TAU, 0), random_kernel(TAU, 1)]
)
@pytest.mark.parametrize("order", [np.arange(TAU), swap_ends(TAU, 10)], ids=["kept", "swapped"])
def test_positive_kernels_have_no_error_at_the_paper_s_own_sizes(
    kernel: np.ndarray, order: np.ndarray
) -> None:
    target = reorder(LinearTarget(kernel), order)
    weights = linear_attention(target.matrix)
    assert weights.query.shape == weights.value.shape == (TAU, TAU)
    x = target.sample(200, seed=3)
    assert np.abs(outputs(weights, x) - target(x)).max() <= permitted(target.matrix)


@pytest.mark.parametrize("causal", [False, True])
def test_filters_of_both_signs_need_twice_the_features(causal: bool) -> None:
    target = mix(LinearTarget(exponential_kernel(TAU)), random_filter(5, seed=0), causal=causal)
    weights = linear_attention(target.matrix)
    assert weights.value.shape == (2 * TAU, 2 * TAU)
    x = target.sample(200, seed=3)
    assert np.abs(outputs(weights, x) - target(x)).max() <= 1e-11


@given(
    st.integers(2, 6),
    st.integers(0, 10_000),
    st.integers(2, 4),
    st.sampled_from(["positive", "signed", "equal rows", "with zeros"]),
)
@settings(max_examples=examples(30))
def test_every_linear_target_is_met(tau: int, seed: int, depth: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1 if kind == "signed" else 0.05, 1, (tau, tau))
    if kind == "equal rows":
        matrix[:] = matrix[0]
    if kind == "with zeros":
        matrix[rng.uniform(size=matrix.shape) < 0.5] = 0.0
    x = rng.uniform(size=(20, tau))
    found = outputs(linear_attention(matrix, depth), x)
    assert np.abs(found - x @ matrix.T).max() <= permitted(matrix)


def test_rows_that_are_equal_but_for_a_factor_are_told_apart_by_their_places() -> None:
    matrix = np.array([[0.4, 0.0], [0.9, 0.0]])
    weights = linear_attention(matrix)
    assert weights.value.shape == (4, 4)
    x = np.random.default_rng(0).uniform(size=(20, 2))
    assert np.abs(outputs(weights, x) - x @ matrix.T).max() <= permitted(matrix)


def test_the_value_at_a_corner_of_the_cube_is_kept() -> None:
    target = LinearTarget(exponential_kernel(8))
    x = np.stack([np.zeros(8), np.ones(8), np.arange(8) % 2])
    assert np.abs(outputs(linear_attention(target.matrix), x) - target(x)).max() <= permitted(
        target.matrix
    )


@pytest.mark.parametrize("matrix", [np.ones(3), np.ones((2, 3)), np.full((2, 2), np.nan), [[1.0]]])
def test_what_is_no_linear_target_is_refused(matrix: np.ndarray) -> None:
    with pytest.raises(InputError, match="square matrix"):
        linear_attention(matrix)


def test_gates_need_a_hidden_layer() -> None:
    with pytest.raises(InputError, match="depth is at least 2"):
        linear_attention(np.eye(3), depth=1)


def test_a_width_that_is_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="33 hidden units"):
        linear_attention(LinearTarget(exponential_kernel(TAU)).matrix).named(16)
