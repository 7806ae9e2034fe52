"""The samples of Fang's experiments: the paper's distribution, clean and noisy labels apart."""

import numpy as np
import pytest

from exactformer.experiments.fang.data import TARGETS, draw, mean_square

NAMES = sorted(TARGETS)


def test_the_targets_are_the_papers():
    x = np.arange(1.0, 11.0)[None, :]
    assert TARGETS["f1"](x[:, :2]) == 1 + 4
    assert TARGETS["f2"](x) == 1 + 3 * 16 + 2 * 27 + 5 * 12 + 3 * 25 + 2 * 6 * 7 * 8 + 2 * 9
    assert TARGETS["f2"].monomials == {"x1^5", "x2^4", "x3^3", "x3 x4", "x5^2", "x6 x7 x8", "x9"}


@pytest.mark.parametrize("name", NAMES)
def test_degree_and_dimension_are_those_of_the_terms(name):
    target = TARGETS[name]
    assert target.degree == max(sum(powers.values()) for _, powers in target.terms)
    assert target.dimension >= max(max(powers) for _, powers in target.terms)


@pytest.mark.parametrize(("name", "variance"), [("f1", 100), ("f2", 1)])
def test_inputs_are_normal_with_the_papers_covariance(name, variance):
    target = TARGETS[name]
    x = draw(target, 40_000, 1000, seed=0).x / np.sqrt(variance)
    # Standard errors at n = 40,000: 0.005 for a mean, 0.007 for a variance, 0.025 for x⁴.
    assert np.abs(x.mean(axis=0)).max() < 0.025
    assert np.abs(np.cov(x, rowvar=False) - np.eye(target.dimension)).max() < 0.035
    assert np.abs((x**4).mean(axis=0) - 3).max() < 0.3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noise", [0.0, 1.0, 10.0])
def test_labels_are_the_target_with_noise_of_the_given_variance(name, noise):
    target = TARGETS[name]
    data = draw(target, 20_000, 20_000, seed=3, noise=noise)
    assert np.array_equal(data.test_clean, target(data.test_x))
    for residual in (data.y - target(data.x), data.test_noisy - data.test_clean):
        assert np.var(residual) == pytest.approx(noise**2, rel=0.06, abs=1e-12)
        assert abs(np.mean(residual)) <= 0.04 * noise


def test_the_true_function_has_no_clean_error_and_the_variance_of_the_noise_on_noisy_labels():
    data = draw(TARGETS["f2"], 20_000, 20_000, seed=1)
    at_test = TARGETS["f2"](data.test_x)
    assert mean_square(at_test, data.test_clean) == 0
    assert mean_square(at_test, data.test_noisy) == pytest.approx(1, rel=0.05)
    assert mean_square(TARGETS["f2"](data.x), data.y) == pytest.approx(1, rel=0.05)


def test_a_seed_gives_the_same_sample_twice_and_another_seed_another():
    first, again, other = (draw(TARGETS["f1"], 50, 50, seed) for seed in (7, 7, 8))
    for name in ("x", "y", "test_x", "test_clean", "test_noisy"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
        assert not np.intersect1d(getattr(first, name), getattr(other, name)).size


def test_samples_of_one_seed_are_nested_and_share_their_test_points():
    small, large = (draw(TARGETS["f2"], size, 100, seed=0) for size in (200, 300))
    assert np.array_equal(small.x, large.x[:200])
    assert np.array_equal(small.y, large.y[:200])
    assert np.array_equal(small.test_noisy, large.test_noisy)


def test_training_and_test_points_do_not_meet():
    data = draw(TARGETS["f1"], 500, 500, seed=0)
    assert not np.intersect1d(data.x[:, 0], data.test_x[:, 0]).size
    assert not np.intersect1d(
        data.y - TARGETS["f1"](data.x), data.test_noisy - data.test_clean
    ).size
