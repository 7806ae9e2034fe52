"""The definition of a contextual mapping, against an oracle that compares every pair."""

from fractions import Fraction
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import exactformer as ef
from exactformer.errors import InputError, SizeError
from exactformer.probing import Grid
from tests.examples import examples


def oracle(inputs, codes):
    """Smallest distance between codes that must differ, and the tokens at distance zero."""
    tokens = [(k, i) for k, x in enumerate(inputs) for i in range(len(x))]
    smallest, collided = np.inf, set()
    for (k, i), (m, j) in combinations(tokens, 2):
        column, other = tuple(inputs[k][i]), tuple(inputs[m][j])
        permuted = sorted(map(tuple, inputs[k])) == sorted(map(tuple, inputs[m]))
        if (k == m and column != other) or not permuted:
            distance = np.linalg.norm(np.atleast_1d(codes[k][i]) - np.atleast_1d(codes[m][j]))
            smallest = min(smallest, distance)
            if distance == 0:
                collided |= {(k, i), (m, j)}
    return smallest, collided


class Table:
    """A sequence map given by a table of codes, in floating point and in rationals."""

    def __init__(self, inputs, codes):
        keys = [np.asarray(x, dtype=float).tobytes() for x in inputs]
        self.codes = dict(zip(keys, codes, strict=True))

    def __call__(self, x):
        return np.stack([self.codes[np.asarray(one).tobytes()] for one in x])


class ExactTable(Table):
    def exact(self, x):
        code = self.codes[x.astype(float).tobytes()]
        return np.frompyfunc(lambda value: Fraction(int(value), 7), 1, 1)(code)


@pytest.mark.parametrize("dim", [1, 2])
@given(data=st.data())
@settings(max_examples=examples(60))
def test_collisions_and_separation_are_those_of_all_pairs(dim, data):
    number, tokens = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    entries = st.integers(0, 1)  # so few that permutations of one input are common
    rows = st.lists(st.tuples(entries), min_size=tokens, max_size=tokens)
    inputs = data.draw(st.lists(rows, min_size=1, max_size=number, unique_by=tuple))
    number = len(inputs)
    size = data.draw(st.sampled_from([3, 40]))  # with and without many collisions
    codes = np.array(
        data.draw(
            st.lists(
                st.integers(0, size), min_size=number * tokens * dim, max_size=number * tokens * dim
            )
        ),
        dtype=float,
    ).reshape(number, tokens, dim)
    smallest, collided = oracle(inputs, codes)
    for table, unit in ((Table, 1), (ExactTable, 7)):
        found = ef.is_contextual_mapping(table(inputs, codes), inputs)
        assert found.exact == (table is ExactTable)
        assert bool(found) == (not collided)
        assert found.collisions == len(collided)
        assert found.separation * unit == pytest.approx(smallest)
        if collided:
            one, other = found.first
            assert (one.input, one.token) == min(collided)
            assert one.code == other.code


def test_the_identity_fails_on_the_second_rule_and_a_constant_on_the_first():
    grid = Grid(3, 1, 4, distinct_columns=True)
    found = ef.is_contextual_mapping(lambda x: x, grid)
    assert found.first[0].input != found.first[1].input
    assert "different contexts" in str(found)
    found = ef.is_contextual_mapping(lambda x: 0 * x, [[[0.0], [1.0]]])
    assert "distinct columns of one input" in str(found)


def test_a_sum_that_names_the_multiset_is_contextual_exactly_on_the_grid():
    """Codes id + D·Σ 2^id: the sum of powers of two names a set of distinct columns."""

    def code(x):
        ids = (np.asarray(x) * 5).round()
        return ids + 5 * (2**ids).sum(axis=1, keepdims=True)

    found = ef.is_contextual_mapping(code, Grid(4, 1, 5, distinct_columns=True))
    assert found
    assert found.inputs == 120
    assert found.separation == 1
    # With equal columns the sum names no multiset: {0, 0, 1, 2} and {1, 1, 1, 1} both have 8.
    assert not ef.is_contextual_mapping(code, (4, 1, 5))


def test_a_grid_is_the_set_it_says_it_is():
    for distinct in (False, True):
        grid = Grid(2, 2, 3, distinct)
        inputs = grid.inputs()
        assert len(inputs) == len(grid) == len(np.unique(inputs, axis=0))
        equal = (inputs[:, 0] == inputs[:, 1]).all(axis=1)
        assert equal.any() == (not distinct)


def transformer(layers=2):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(
        nn.Embedding(7, 16), nn.TransformerEncoder(layer, layers, norm=None)
    ).eval()


def sentences(count=60):
    generator = np.random.default_rng(1)
    return [generator.integers(0, 7, size=generator.integers(2, 6)) for _ in range(count)]


@pytest.mark.filterwarnings("ignore:.*nested.*")
def test_layers_of_a_trained_model_are_asked_by_name():
    model = transformer()
    before = ef.is_contextual_mapping(model, sentences(), layer="0")
    assert not before  # an embedding knows no context
    assert before.separation == 0
    after = ef.is_contextual_mapping(model, sentences(), layer="1.layers.1", tolerance=1e-5)
    assert after
    assert after.inputs == len({tuple(s) for s in sentences()})
    assert after.tokens == sum(map(len, {tuple(s) for s in sentences()}))
    assert 0 < after.relative_separation < 1
    assert {"collisions", "separation", "first"} <= after.to_dict().keys()


def test_positions_make_the_same_word_elsewhere_another_column():
    def places(ids):
        return torch.arange(ids.shape[1]).expand(ids.shape)

    same = [np.array([5, 5])]
    assert ef.is_contextual_mapping(lambda ids: ids, same)
    assert not ef.is_contextual_mapping(lambda ids: ids, same, positional=True)
    assert ef.is_contextual_mapping(places, same, positional=True)
    swapped = [np.array([5, 6]), np.array([6, 5])]
    assert ef.is_contextual_mapping(lambda ids: ids, swapped)
    assert not ef.is_contextual_mapping(lambda ids: ids, swapped, positional=True)


def test_an_input_given_twice_counts_once():
    inputs = [[[0.0]], [[1.0]], [[0.0]], [[-0.0]]]
    found = ef.is_contextual_mapping(lambda x: x, inputs)
    assert found
    assert found.inputs == 2


def test_permutations_of_one_input_may_share_codes():
    inputs = [[[0.0], [1.0]], [[1.0], [0.0]]]
    for codes in ([[5, 7], [7, 5]], [[5, 7], [7, 9]], [[5, 7], [5, 7]]):
        for dim in (1, 2):
            table = Table(inputs, np.array(codes, dtype=float)[..., None].repeat(dim, axis=2))
            found = ef.is_contextual_mapping(table, inputs).separation
            assert found == pytest.approx(2 * dim**0.5, rel=4e-16)


def test_equal_vectors_are_found_among_others_closer_than_rounding():
    generator = np.random.default_rng(0)
    codes = np.where(np.arange(60) < 30, 1e8, -1e8)[:, None, None] + generator.random((60, 1, 2))
    inputs = np.arange(60.0)[:, None, None]
    assert ef.is_contextual_mapping(Table(inputs, codes), inputs, tolerance=0)
    codes[7] = codes[19]
    found = ef.is_contextual_mapping(Table(inputs, codes), inputs, tolerance=0)
    assert found.collisions == 2
    assert [place.input for place in found.first] == [7, 19]


def test_the_tolerance_is_in_units_of_the_spread():
    def code(x):
        return torch.stack([x[..., 0], 0 * x[..., 0]], dim=-1)

    inputs = [[[0.0]], [[1.0]], [[1.0 + 1e-3]]]
    found = ef.is_contextual_mapping(code, inputs)
    assert found.spread == pytest.approx(np.std([0, 1, 1.001]))
    for factor, holds in ((0.99, True), (1.01, False)):
        tolerance = factor * found.relative_separation
        again = ef.is_contextual_mapping(code, inputs, tolerance=tolerance)
        assert bool(again) is holds
        assert again.collisions == (0 if holds else 2)


def test_integers_keep_all_their_digits_against_large_neighbours():
    inputs = [[[0.0], [1.0]], [[0.0], [2.0]], [[0.0], [3.0]]]
    keys = np.array([0, 1, 2**51, 2**51 + 1, 2**52, 2**52 + 1]).reshape(3, 2, 1)
    assert ef.is_contextual_mapping(Table(inputs, keys.astype(float)), inputs).separation == 1
    past_floats = 2**60 + np.arange(6).reshape(3, 2, 1)
    assert ef.is_contextual_mapping(Table(inputs, past_floats), inputs).separation == 1


def test_what_is_too_large_is_refused_with_the_figures():
    with pytest.raises(SizeError, match=r"has 10\^400 inputs; at most 1,048,576"):
        ef.is_contextual_mapping(lambda x: x, (20, 20, 10))
    with pytest.raises(SizeError, match=r"100 codes of 3 numbers take 3e\+04 .* about 57 tokens"):
        ef.is_contextual_mapping(lambda x: x, np.random.rand(50, 2, 3), limit=10_000)


def test_unclear_questions_are_refused():
    model = nn.Sequential(nn.Linear(2, 2))
    inputs = np.zeros((1, 3, 2))
    with pytest.raises(InputError, match=r"no attribute `7`.*the module's parts are 0"):
        ef.is_contextual_mapping(model, inputs, layer="7")
    with pytest.raises(InputError, match="a plain callable has none"):
        ef.is_contextual_mapping(lambda x: x, inputs, layer="0")
    with pytest.raises(InputError, match="no inputs"):
        ef.is_contextual_mapping(model, [])
    with pytest.raises(InputError, match="input 1 has shape"):
        ef.is_contextual_mapping(model, [np.zeros((3, 2)), np.zeros((3, 1))])
    with pytest.raises(InputError, match="infinite"):
        ef.is_contextual_mapping(model, [np.full((3, 2), np.inf)])
    shorter = SimpleNamespace(exact=lambda x: x[1:])
    with pytest.raises(InputError, match="returned shape"):
        ef.is_contextual_mapping(shorter, inputs)
