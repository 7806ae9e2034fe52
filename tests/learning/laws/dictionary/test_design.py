from dataclasses import replace

import numpy as np
import pytest

from exactformer.learning.laws.dictionary import design
from exactformer.learning.laws.dictionary.design import Design
from exactformer.learning.laws.sample import take_sample

PLACES = [0, 3, 5]


@pytest.fixture
def sample():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.normal(size=(50, 2)), np.arange(50) % 3])
    weight = generator.integers(1, 4, size=50).astype(float)
    return take_sample(X, X[:, :2], weight, ["a", "b", "c"])


@pytest.mark.parametrize("apart", [(), ((0, 1),)])
def test_a_lower_degree_of_a_design_is_the_design_of_the_lower_degree(sample, apart):
    sample = replace(sample, apart=apart, highest=np.array([4, 2, 4]))
    high, low = Design.of(sample, 4), Design.of(sample, 2)
    assert high.norms.shape == (len(high.terms),)  # known, so that the lower ones are taken from it
    for lower in (high.up_to(2), Design.of(sample, 4).up_to(2)):
        assert lower.terms.all_exponents() == low.terms.all_exponents()
        np.testing.assert_array_equal(lower.features, low.features)
        np.testing.assert_allclose(lower.norms, low.norms, rtol=1e-14)
        for name in ("a", "s", "g", "degree"):
            mine, theirs = getattr(lower.terms.columns, name), getattr(low.terms.columns, name)
            np.testing.assert_array_equal(mine, theirs)


def test_what_is_kept_is_what_passes_over_the_rows_give(sample, monkeypatch):
    kept = Design.of(sample, 3)
    assert kept.features is not None
    monkeypatch.setattr(design, "_KEPT_BYTES", 0)
    passed = Design.of(sample, 3)
    assert passed.features is None
    right, alphas = sample.Y.T, [kept.terms.exponents(j) for j in PLACES]
    np.testing.assert_allclose(kept.norms, passed.norms, rtol=1e-13)
    np.testing.assert_allclose(
        kept.inner_products(right), passed.inner_products(right), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(kept.at(PLACES), kept.few(alphas))
    np.testing.assert_array_equal(kept.few(alphas), passed.few(alphas))
    np.testing.assert_array_equal(kept.few(alphas, slice(7)), passed.at(PLACES)[:, :7])
