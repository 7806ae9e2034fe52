"""Degrees that are not searched: no choice of their terms may be as good as the law."""

import numpy as np

from exactformer.learning.laws.dense.solvers import InMemory, find_laws
from exactformer.learning.laws.sample import take_sample
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
        source = InMemory.of(sample)
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


def test_nothing_is_said_of_dependent_terms_whose_leverages_are_rounding():
    generator = np.random.default_rng(0)
    X = generator.uniform(1, 2, size=(200, 2))
    X[:, 1] = X[:, 0] ** 2
    sample = take_sample(X, X[:, :1] ** 5, None, ["a", "b"])
    source = InMemory.of(sample)
    (law,) = find_laws(source, 5, Rules(), 2**30).laws
    assert not source.too_far(source.dictionary(2), law, 0)
