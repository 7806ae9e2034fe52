from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import SizeError
from exactformer.learning.laws.dictionary.columns import fit_columns, power_columns
from exactformer.learning.laws.dictionary.terms import (
    build_terms,
    check_size,
    count_terms,
    lower_closure,
    products,
)

sizes = st.tuples(st.integers(1, 5), st.integers(0, 5))


@given(sizes)
def test_every_exponent_of_the_degree_occurs_once(size):
    d, q = size
    terms = build_terms(power_columns(d, q), q)
    found = [terms.exponents(j) for j in range(len(terms))]
    assert len(set(found)) == len(found) == count_terms(d, q) == comb(d + q, q)
    assert [sum(a) for a in found] == terms.total.tolist()


@given(sizes)
def test_features_are_the_products_they_stand_for(size):
    d, q = size
    X = np.random.default_rng(0).normal(size=(7, d))
    terms = build_terms(fit_columns(X, np.ones(7), q), q)
    exponents = [terms.exponents(j) for j in range(len(terms))]
    whole = np.concatenate([features for _, features in terms.blocks(X)], axis=1)
    np.testing.assert_allclose(whole.T, products(exponents, terms.columns, X), rtol=1e-12)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=6))
def test_the_lower_closure_is_the_least_closed_set(exponents):
    closed = lower_closure(exponents)
    below = {
        beta
        for beta in np.ndindex(4, 4, 4)
        if any(all(b <= a for a, b in zip(alpha, beta, strict=True)) for alpha in exponents)
    }
    assert set(closed) == below
    assert [sum(a) for a in closed] == sorted(sum(a) for a in closed)


def test_a_lower_degree_is_a_subsequence_of_a_higher_one():
    columns = power_columns(4, 5)
    high, low = build_terms(columns, 5), build_terms(columns, 3)
    kept = [high.exponents(j) for j in np.flatnonzero(high.total <= 3)]
    assert kept == [low.exponents(j) for j in range(len(low))]
    same = high.up_to(3)
    assert (same.degree, same.groups) == (low.degree, low.groups)
    for name in ("parent", "column", "power", "total"):
        np.testing.assert_array_equal(getattr(same, name), getattr(low, name))


def test_what_would_not_fit_is_refused_with_its_size():
    with pytest.raises(SizeError, match=r"3,003 terms need 2\.0 GiB for a test.*limit is 1\.0 GiB"):
        check_size(3003, 2 * 2**30, 2**30, "a test")
