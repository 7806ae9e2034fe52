"""Degrees that are not searched: no choice of their terms may be as good as the law."""

import numpy as np

from exactformer.learning.laws.dense.solvers import Source, find_laws
from exactformer.learning.laws.sample import take_sample
from exactformer.learning.laws.sparse.forward_search import fit_few
from exactformer.learning.laws.sparse.selection import Rules


def test_no_choice_of_terms_that_are_too_far_is_as_good_as_the_law():
    generator, said = np.random.default_rng(0), []
    for _ in range(12):
        rows = int(generator.integers(60, 400))
        X = generator.uniform(-2, 2, size=(rows, 2))
        weight = generator.integers(1, 4, size=rows).astype(float)
        y = X[:, 0] ** 3 - 2 * X[:, 0] * X[:, 1] + generator.choice([0, 0.3, 2]) * X[:, 1] ** 2
        y += generator.choice([0.01, 0.5, 3]) * generator.standard_t(4, size=rows)
        sample = take_sample(X, y[:, None], weight, ["a", "b"])
        source = Source.of(sample)
        (law,) = find_laws(source, 3, Rules(), 2**30).laws
        left = y - law.values(X)
        for degree in (1, 2):
            terms = source.dictionary(degree)
            said.append(source.too_far(terms, law, 0))
            if not said[-1]:
                continue
            features = source._design(degree).features
            for _ in range(30):
                some = features[generator.random(len(terms)) < generator.random()].T
                root = np.sqrt(weight)
                fit, *_ = np.linalg.lstsq(some * root[:, None], y * root, rcond=None)
                excess = (y - some @ fit) ** 2 - left**2
                mean = weight @ excess / weight.sum()
                error = np.sqrt(weight @ (excess - mean) ** 2) / weight.sum()
                assert mean > 2 * error
    assert 0 < sum(said) < len(said)


def test_dependent_terms_have_at_least_the_leverage_of_those_they_depend_on():
    """By the inverse of such terms, which is rounding, the largest leverage came out below zero."""
    generator = np.random.default_rng(0)
    for _ in range(40):
        some = generator.uniform(-2, 2, size=(4, 60))
        mixed = generator.normal(size=(3, 4)) @ some
        weight = generator.integers(1, 4, size=60).astype(float)
        y = generator.normal(size=60)
        true = fit_few(some, weight, y)
        exact = ((true.inverse @ some) * some).sum(axis=0).max()
        assert true.largest_leverage(some, weight) == exact
        fit = fit_few(np.vstack([some, mixed]), weight, y)
        assert fit.triangle is not None
        largest = fit.largest_leverage(np.vstack([some, mixed]), weight)
        assert exact * (1 - 1e-12) <= largest <= 1 + 1e-12
