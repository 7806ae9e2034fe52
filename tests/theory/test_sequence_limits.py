"""Planted relationships: the floor is the noise or the exact floor, the spectrum has their rank."""

import numpy as np
import pytest

from exactformer.errors import InputError, SizeError
from exactformer.targets import LinearTarget, exponential_kernel, mix, random_filter, reorder
from exactformer.theory.floors import UNIFORM_VARIANCE, causal_floor
from exactformer.theory.sequence_limits import causal_prediction, sequence_limits
from exactformer.theory.token_basis import TokenBasis

TAU = 6


def planted(scores, count=600):
    """Return sequences y(t) = Σ_s softmax_s(Σ_k c_k x_k(t) x_k(s)) Σ_k x_k(s), a score of that rank.

    Coordinates are independent and of variance 1, so c_k are the singular values of the score.
    """
    x = np.random.default_rng(0).uniform(-(3**0.5), 3**0.5, size=(count, 8, 3))
    rank = len(scores)
    weights = np.exp(np.einsum("ntk,nsk,k->nts", x[..., :rank], x[..., :rank], scores))
    weights /= weights.sum(axis=-1, keepdims=True)
    return x, (weights @ x.sum(axis=-1, keepdims=True))[..., 0]


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_the_floor_of_a_causal_linear_map_is_its_noise(sigma):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, TAU, 2))
    kernel = LinearTarget(exponential_kernel(TAU, 0.5))
    y = kernel(x[..., 0]) - kernel(x[..., 1]) + sigma * rng.normal(size=(900, TAU))
    floor = sequence_limits(x, y).causal
    # A map of 2 t weights fitted to 600 sequences adds its share of the noise.
    assert abs(floor.value - sigma**2) < 3 * floor.standard_error + sigma**2 * 2 * TAU / 600


@pytest.mark.parametrize(
    "target",
    [
        reorder(LinearTarget(exponential_kernel(TAU, 0.5)), np.arange(TAU)[::-1]),
        mix(LinearTarget(exponential_kernel(TAU, 0.5)), random_filter(3, seed=1)),
    ],
    ids=["reversed", "anticipating"],
)
def test_what_depends_on_later_tokens_stops_at_the_exact_causal_floor(target):
    x = target.sample(3000, seed=1)
    wanted = causal_floor(target.matrix, covariance=UNIFORM_VARIANCE, offset="free").error
    floor = sequence_limits(x, target(x)).causal
    assert abs(floor.value - wanted) < 3 * floor.standard_error + wanted * TAU / 2000


def test_a_causal_map_reads_no_later_token():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(100, TAU, 1)), rng.normal(size=(100, TAU, 1))
    later = x.copy()
    later[:, 3:] += 1
    before, after = causal_prediction(x, y, x), causal_prediction(x, y, later)
    assert (before[:, :3] == after[:, :3]).all()
    assert not np.allclose(before[:, 3:], after[:, 3:])


@pytest.mark.parametrize("scores", [[2.0], [2.0, 1.4], [2.0, 1.4, 1.0]], ids=len)
def test_the_spectrum_of_a_planted_coupling_has_its_rank(scores):
    found, rank = sequence_limits(*planted(scores)), len(scores)
    assert found.singular_values[:rank] == pytest.approx(scores, rel=0.15)
    assert found.singular_values[rank] < 0.2 * scores[-1]
    assert found.by_size[rank] < 0.01 * found.variance.value
    assert found.by_size[rank - 1] > 20 * found.by_size[rank]
    assert found.head.value < 0.1 * found.causal.value


def test_noise_is_explained_by_neither():
    rng = np.random.default_rng(2)
    found = sequence_limits(rng.random((300, 6)), rng.normal(size=(300, 6)))
    for one in (found.causal, found.head):
        assert one.value > found.variance.value - 3 * found.variance.standard_error


def test_one_number_after_the_last_token():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 5, 2))
    found = sequence_limits(x, x[:, 0, 1] - x[:, 4, 0])
    assert found.causal.value < 1e-12 * found.variance.value  # the smallest penalty
    assert "best causal linear map" in str(found)


def test_constant_tokens_leave_a_score_without_singular_values():
    found = sequence_limits(np.ones((60, 3)), np.arange(180.0).reshape(60, 3))
    assert not found.singular_values.size
    assert len(found.by_size) == 1


@pytest.mark.parametrize("d", [1, 3, 30])
def test_functions_of_a_token_are_orthonormal_over_the_tokens(d):
    x = np.random.default_rng(0).normal(size=(200, 5, d))
    basis = TokenBasis.of(x, seed=1)
    values = basis(x).reshape(-1, basis.size)
    assert np.abs(values.T @ values / len(values) - np.eye(basis.size)).max() < 1e-8
    assert values[:, 0] == pytest.approx(1)


def test_tokens_far_outside_do_not_make_squares_run_away():
    x = np.random.default_rng(0).normal(size=(200, 5, 1))
    basis = TokenBasis.of(x, seed=1)
    assert (basis(np.array([[1e9]])) == basis(np.array([[1e3]]))).all()


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (np.ones((99, 1)), np.ones((99, 1)), InputError, "τ from 2"),
        (np.ones((99, 4)), np.ones((99, 3)), InputError, r"outputs have the shape \(99, 3\)"),
        (np.ones((59, 4)), np.ones((59, 4)), InputError, "59 sequences are too few.*60"),
        (np.full((99, 4), np.nan), np.ones((99, 4)), InputError, "inputs must be finite"),
        (np.ones((99, 4)), np.full(99, 1e101), InputError, "outputs must be finite.*1e100"),
        (np.ones((60, 1025)), np.ones(60), SizeError, "1,025 numbers, the limit is 1,024"),
    ],
)
def test_sequences_that_cannot_be_measured_are_refused(x, y, error, message):
    with pytest.raises(error, match=message):
        sequence_limits(x, y)
