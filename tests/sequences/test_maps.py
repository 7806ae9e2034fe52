from itertools import permutations

import numpy as np
import pytest

from exactformer.errors import InputError
from exactformer.targets import SEQUENCE_MAPS, sequence_map, softmax_attention

RNG = np.random.default_rng(5)


def inputs(d, n, count=60):
    """Random ones, and some on a coarse grid: with ties and equal columns."""
    return np.concatenate([RNG.random((count, n, d)), RNG.integers(0, 3, (count, n, d)) / 3])


@pytest.mark.parametrize("name", SEQUENCE_MAPS)
@pytest.mark.parametrize(("d", "n"), [(1, 1), (1, 3), (2, 4)])
def test_a_stack_goes_to_the_stack_of_the_values(name, d, n):
    f, stack = sequence_map(name), inputs(d, n)
    values = f(stack)
    assert values.shape == stack.shape
    assert np.allclose(values, [f(x) for x in stack], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", SEQUENCE_MAPS)
@pytest.mark.parametrize("d", [1, 2])
def test_a_map_is_equivariant_exactly_where_it_says_so(name, d):
    f, stack = sequence_map(name), inputs(d, 3)
    deviation = max(
        np.abs(f(stack[:, order]) - f(stack)[:, order]).max()
        for order in map(list, permutations(range(3)))
    )
    assert f.equivariant == (deviation < 1e-13)


def test_of_two_tokens_reversing_is_equivariant_and_sorting_is_not():
    stack = inputs(1, 2)
    for name, equivariant in (("reverse", True), ("sort", False)):
        f = sequence_map(name)
        assert np.array_equal(f(stack[:, ::-1]), f(stack)[:, ::-1]) is equivariant


@pytest.mark.parametrize("name", [n for n, f in SEQUENCE_MAPS.items() if f.lipschitz])
@pytest.mark.parametrize(("d", "n"), [(1, 1), (1, 2), (1, 3), (2, 3), (1, 5)])
def test_no_pair_of_inputs_is_taken_further_apart_than_the_constant_allows(name, d, n):
    f = sequence_map(name)
    x, y = inputs(d, n, 300), RNG.permutation(inputs(d, n, 300))
    before, after = (np.linalg.norm(a - b, axis=(1, 2)) for a, b in ((x, y), (f(x), f(y))))
    assert (after <= f.lipschitz(n) * before * (1 + 1e-12) + 1e-15).all()


@pytest.mark.parametrize("name", [n for n, f in SEQUENCE_MAPS.items() if f.lipschitz])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_constant_is_attained(name, n):
    """Near a point with distinct entries all these maps are linear: the norm of the derivative."""
    f = sequence_map(name)
    x = np.arange(n)[:, None].astype(float)
    columns = [(f(x + e[:, None]) - f(x)).ravel() for e in np.eye(n) / 2]
    assert 2 * np.linalg.norm(np.array(columns), 2) == pytest.approx(f.lipschitz(n), abs=1e-12)


def test_the_maps_on_an_example():
    x = np.array([[0.4, 0.1, 0.8]]).T
    values = {
        "identity": [[0.4, 0.1, 0.8]],
        "sort": [[0.1, 0.4, 0.8]],
        "reverse": [[0.8, 0.1, 0.4]],
        "cumulative-sum": [[0.4, 0.5, 1.3]],
        "copy-first": [[0.4, 0.4, 0.4]],
        "nearest-neighbour": [[0.1, 0.4, 0.4]],
    }
    for name, value in values.items():
        assert np.allclose(sequence_map(name)(x).T, value, atol=1e-15)
    assert np.allclose(sequence_map("mean-subtract")([[0, 2], [1, 6]]), [[-0.5, -2], [0.5, 2]])


def test_nearest_neighbours_at_the_same_distance_are_averaged():
    f = sequence_map("nearest-neighbour")
    assert np.allclose(f([[0.1], [0.2], [0.3]]), [[0.2]] * 3)
    assert f([[0.7], [0.7], [0.1]]).tolist() == [[0.7]] * 3
    assert f([[0.7]]).tolist() == [[0.7]]


def test_attention_is_that_of_torch():
    import torch

    query, key = RNG.normal(size=(2, 5, 3))
    value, x = RNG.normal(size=(3, 3)), RNG.random((4, 6, 3))
    q, k, v = (torch.from_numpy(x @ w.T) for w in (query, key, value))
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)
    ours = softmax_attention(query, key, value)(x)
    assert np.allclose(ours, theirs.numpy(), rtol=1e-13)


def test_scores_beyond_the_exponential_do_no_harm():
    x = [[0.0], [1.0], [0.5]]
    assert np.allclose(softmax_attention([[1e6]], [[1.0]], [[1.0]])(np.array(x)), [[0.5], [1], [1]])


def test_mistakes_are_named():
    with pytest.raises(InputError, match="did you mean sort"):
        sequence_map("sotr")
    with pytest.raises(InputError, match="belong to softmax-attention"):
        sequence_map("sort", ([[1]], [[1]], [[1]]))
    with pytest.raises(InputError, match=r"query \(2, 3\), key \(2, 3\), value \(2, 2\)"):
        softmax_attention(np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 2)))
    with pytest.raises(InputError, match="the key weights"):
        softmax_attention([[1]], [[np.nan]], [[1]])
    with pytest.raises(InputError, match="dimension 1, not 2"):
        sequence_map("softmax-attention", ([[1]], [[1]], [[1]]))(np.ones((3, 2)))
