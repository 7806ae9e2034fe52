"""Nothing is silent: an empty law, outliers, structure left in the residuals, where a degree stops."""

import warnings

import numpy as np
import pandas as pd
import pytest

from exactformer.errors import InputError
from exactformer.learning.laws.diagnosis import LawWarning, structure
from exactformer.learning.laws.regressor import PolynomialAttentionRegressor
from exactformer.learning.laws.sample import weighted_median


def fitted(X, y, **options):
    """Return the regressor and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        regressor = PolynomialAttentionRegressor(**options).fit(X, y)
    return regressor, [str(w.message) for w in caught if w.category is LawWarning]


def wave(seed, rows=400):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 1))
    return x, np.sin(3 * x[:, 0]) + 0.05 * generator.normal(size=rows)


def test_good_terms_survive_rows_of_much_leverage():
    """By HC3 errors alone the powers of this wave go one after another, down to none."""
    law, _ = fitted(*wave(0), degree=10)
    assert law.r2_ > 0.9
    assert any("most rows support them" in note for note in law.notes_)


def never_a_silent_zero(seed, degree):
    law, warned = fitted(*wave(seed), degree=degree)
    return law.r2_ > 0.9 or bool(warned)


@pytest.mark.parametrize("degree", [10, "auto"])
def test_a_wave_is_never_a_silent_zero(degree):
    assert all(never_a_silent_zero(seed, degree) for seed in range(4))


@pytest.mark.slow
@pytest.mark.parametrize("degree", [3, 10, 15, "auto"])
def test_a_wave_is_never_a_silent_zero_on_200_draws(degree):
    assert all(never_a_silent_zero(seed, degree) for seed in range(200))


def test_an_automatic_degree_goes_on_while_it_gains_and_has_a_reason_to_stop():
    generator = np.random.default_rng(0)
    x = generator.uniform(-3, 3, size=(2000, 1))
    law, _ = fitted(x, np.sin(3 * x[:, 0]) + 0.05 * generator.normal(size=2000))
    assert law.degree_ > 8
    assert law.r2_ > 0.99
    assert any(note.startswith(f"degree {law.degree_}: no term of degree") for note in law.notes_)


def test_pure_noise_gives_an_empty_law_and_the_reason():
    generator = np.random.default_rng(1)
    law, (warned,) = fitted(generator.normal(size=(300, 2)), generator.normal(size=300), degree=3)
    assert law.formula_ == "0"
    assert "no term besides the constant passes at significance=0.01" in warned
    assert "no more than noise would let it" in warned


def test_many_weak_terms_are_pointed_to():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 30))
    y = 0.25 * X.sum(axis=1) + generator.normal(size=200)
    law, (warned,) = fitted(X, y, degree=1, significance=1e-9)
    assert law.r2_ < 0.2
    assert "many and weak" in warned


def test_one_gross_outlier_is_named_with_the_way_out():
    x, y = wave(0)
    y[0] += 1e6
    law, warned = fitted(x, y, degree=10)
    assert "1 of 400 rows are more than 8 robust standard deviations" in warned[0]
    assert "loss='huber'" in warned[0]
    assert law.outliers_.tolist() == [0]


def test_five_rows_say_that_they_are_few():
    generator = np.random.default_rng(0)
    law, warned = fitted(generator.normal(size=(5, 2)), generator.normal(size=5))
    assert law.coef_table_.empty
    assert any("rows are too few" in text for text in warned)


def test_structure_left_in_the_residuals_is_named_by_column():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(1000, 3))
    y = X[:, 0] + np.sin(12 * X[:, 1]) + 0.1 * generator.normal(size=1000)
    _, warned = fitted(X, y, degree=3)
    assert any("residuals follow the column x2" in text for text in warned)


def test_independent_residuals_have_no_structure():
    generator = np.random.default_rng(0)
    said = 0
    for _ in range(100):
        X, r = generator.normal(size=(300, 3)), generator.standard_t(2, size=300)
        said += bool(structure(X, X[:, 0], r, ["a", "b", "c"], 1.0))
    assert said == 0


def test_a_series_in_time_is_noticed():
    generator = np.random.default_rng(0)
    noise = np.convolve(generator.normal(size=1020), np.ones(20) / 4, mode="valid")[:1000]
    X = generator.normal(size=(1000, 2))
    _, warned = fitted(X, X[:, 0] + noise, degree=2)
    assert any("neighbouring rows" in text for text in warned)


def test_noise_that_grows_is_a_note_and_no_warning():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1000, 2))
    y = X[:, 0] + np.abs(X[:, 1]) * generator.normal(size=1000)
    law, warned = fitted(X, y, degree=2)
    assert not warned
    assert any("size of the noise follows the column x2" in note for note in law.notes_)


def test_an_exact_law_gives_nothing_to_say():
    X = np.random.default_rng(0).normal(size=(200, 2))
    law, warned = fitted(X, X[:, 0] * X[:, 1], degree=3)
    assert law.notes_ == []
    assert not warned


def test_a_median_counts_weights_as_repetitions():
    generator = np.random.default_rng(0)
    values, weight = generator.normal(size=15), generator.integers(1, 5, size=15)
    assert weighted_median(values, weight) == np.median(np.repeat(values, weight))


def test_random_halves_show_which_terms_come_back():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 3))
    y = X[:, 0] ** 2 - X[:, 1] + 0.3 * generator.normal(size=400)
    law = PolynomialAttentionRegressor(2).fit(X, y)
    table = law.stability(X, y, resamples=10)
    assert set(table[table.share == 1].term) == {"x1^2", "x2"}
    assert table.in_law.sum() == 2
    both = pd.DataFrame({"y": y, "z": X[:, 2]})
    apart = PolynomialAttentionRegressor(2).fit(X, both).stability(X, both, resamples=3)
    assert {"x1^2", "x2"} == set(apart[apart.in_law & (apart.output == "y")].term)
    assert list(apart[apart.output == "z"].term) == ["x3"]
    with pytest.raises(InputError, match="resamples=0 of 400 rows"):
        law.stability(X, y, resamples=0)
