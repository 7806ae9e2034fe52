import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.learning.laws.dictionary.columns import fit_columns
from exactformer.learning.laws.streamed.quadrature import Quadrature

DRAWS = {
    "normal": lambda g: g.normal(size=3000),
    "far from the origin": lambda g: 1950 + g.exponential(size=3000),
    "sorted": lambda g: np.sort(g.uniform(size=3000)),
    "three values": lambda g: g.integers(0, 3, size=3000).astype(float),
    "heavy tails": lambda g: g.standard_t(4, size=3000),
    "constant": lambda g: np.full(3000, 7.0),
}


def rule_of_pieces(X, size, cuts):
    pieces = [piece for piece in np.split(X, sorted(cuts)) if len(piece)]
    rule = Quadrature.of(pieces[0], size)
    for piece in pieces[1:]:
        rule = rule.joined(Quadrature.of(piece, size), size)
    return rule


@given(
    st.sampled_from(sorted(DRAWS)),
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.lists(st.integers(0, 3000), max_size=8),
)
def test_the_sums_of_powers_are_those_of_all_rows_however_they_are_cut(kind, seed, size, cuts):
    X = DRAWS[kind](np.random.default_rng(seed))[:, None]
    rule = rule_of_pieces(X, size, cuts)
    spread = X.std() or 1.0
    u, v = (X - X.mean()) / spread, (rule.places - X.mean()) / spread
    for power in range(2 * size):
        size_of = np.mean(np.abs(u) ** power) or 1.0
        there = float((rule.weights * v**power).sum()) / len(X)
        assert abs(there - float(np.mean(u**power))) <= 1e-8 * max(size_of, 1.0)


@pytest.mark.parametrize("kind", sorted(set(DRAWS) - {"constant"}))
def test_the_recurrence_is_that_of_all_rows(kind):
    degree = 5
    X = DRAWS[kind](np.random.default_rng(1))[:, None]
    here = fit_columns(X, np.ones(len(X)), degree)
    rule = rule_of_pieces(X, degree + 1, [1, 700, 2100])
    distinct = np.array([min(degree + 1, len(np.unique(X)))])
    there = rule.recurrences(X.mean(axis=0), X.std(axis=0), distinct, degree, None)
    assert there.degree.tolist() == here.degree.tolist()
    alive = int(here.degree[0])
    np.testing.assert_allclose(there.a[:alive], here.a[:alive], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(there.s[: alive + 1], here.s[: alive + 1], rtol=1e-7)


def test_one_row_far_away_leaves_the_others_their_polynomials():
    X = np.random.default_rng(1).normal(size=(600, 1))
    X[10] = 3e6
    here = fit_columns(X, np.ones(len(X)), 3)
    there = rule_of_pieces(X, 4, [150, 300]).recurrences(
        X.mean(axis=0), X.std(axis=0), np.array([4]), 3, None
    )
    assert there.degree.tolist() == here.degree.tolist() == [3]
    np.testing.assert_allclose(there.s, here.s, rtol=1e-6)


def test_a_long_column_becomes_a_short_rule():
    X = np.random.default_rng(0).normal(size=(5000, 2))
    assert rule_of_pieces(X, 4, range(100, 5000, 100)).places.shape[0] < 8 * 4
