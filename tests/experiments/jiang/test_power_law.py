"""The fit a·m^(−b) + c: it finds what was planted, and refuses what is no law."""

import math

import numpy as np
import pytest

from exactformer.errors import InputError
from exactformer.experiments.jiang.power_law import fit_power_law

SIZES = (1, 2, 3, 4, 8, 16, 32, 64)


def planted(a, b, c, noise, seed=0, seeds=3):
    random = np.random.default_rng(seed)
    return {m: (a * m**-b + c + noise * random.standard_normal(seeds)).tolist() for m in SIZES}


@pytest.mark.parametrize(("a", "b", "c"), [(1, 0.27, 1.05), (0.3, 1.0, 0.5), (2, 2.5, 0.0)])
def test_a_planted_law_is_found(a, b, c):
    found = fit_power_law(planted(a, b, c, 1e-5))
    assert (found.a, found.b, found.c) == pytest.approx((a, b, c), rel=2e-2, abs=2e-2)
    assert found.explained > 0.999
    assert found(np.array([8.0])) == pytest.approx(a * 8**-b + c, abs=1e-3)


@pytest.mark.slow
def test_the_interval_covers_the_planted_rate_about_as_often_as_it_says():
    found = [fit_power_law(planted(1, 0.5, 1, 0.03, seed)) for seed in range(200)]
    covered = sum(law.interval[0] <= 0.5 <= law.interval[1] for law in found)
    assert 180 <= covered <= 199
    assert sum(law.verdict == "power law" for law in found) >= 190


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_a_flat_curve_is_no_power_law(count):
    found = [fit_power_law(planted(0, 1, 1, 0.03, seed)).verdict for seed in range(count)]
    assert found.count("flat") >= 0.95 * count


def test_a_rising_curve_is_no_power_law():
    assert fit_power_law(planted(-1, 0.5, 2, 0.01)).verdict == "rising"


def test_a_curve_with_a_bump_is_no_power_law():
    errors = planted(1, 0.5, 1, 0.01)
    errors[8] = [value + 0.3 for value in errors[8]]
    assert fit_power_law(errors).verdict == "bent"


def test_an_interval_may_be_open():
    found = fit_power_law({1: [2.0, 2.01], 2: [1.0, 1.01], 4: [1.01, 1.0], 8: [1.005, 1.0]})
    assert found.interval[1] == math.inf
    assert found.interval[0] > 1


def test_too_little_data_are_refused():
    with pytest.raises(InputError):
        fit_power_law({1: [1.0, 2.0], 2: [1.0, 2.0], 4: [1.0, 2.0]})
    with pytest.raises(InputError):
        fit_power_law({m: [1.0] for m in SIZES})
