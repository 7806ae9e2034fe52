"""Chebyshev expansions are the functions they expand, and their tails bound what a cut leaves out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import chebval

from exactformer.errors import InputError
from exactformer.polynomials.functions.chebyshev_expansion import expand
from exactformer.polynomials.functions.sampled import BoxFunction
from tests.examples import examples


def cube(f, dimension: int) -> BoxFunction:
    return BoxFunction(f, [0.0] * dimension, [1.0] * dimension)


@given(st.lists(st.floats(-4, 4), min_size=1, max_size=9))
@settings(max_examples=examples(40))
def test_a_polynomial_is_expanded_into_its_own_coefficients(coefficients) -> None:
    expansion = expand(cube(lambda u: chebval(u, coefficients), 1), 10)
    found = np.zeros(11)
    found[expansion.exponents[:, 0]] = expansion.coefficients[:, 0]
    assert np.abs(found[: len(coefficients)] - coefficients).max() < 1e-13
    assert np.abs(found[len(coefficients) :]).max() < 1e-13


def test_coefficients_of_a_product_of_chebyshev_polynomials() -> None:
    expansion = expand(cube(lambda x, y: (4 * x**3 - 3 * x) * (2 * y**2 - 1), 2), 6)
    table = {
        tuple(a): c
        for a, c in zip(expansion.exponents.tolist(), expansion.coefficients[:, 0], strict=True)
    }
    assert table[3, 2] == pytest.approx(1, abs=1e-14)
    assert max(abs(c) for a, c in table.items() if a != (3, 2)) < 1e-14


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_cut_errs_by_no_more_than_its_tail(dimension: int) -> None:
    expansion = expand(
        cube(lambda u: np.exp(np.asarray(u).reshape(-1, dimension).sum(-1)), dimension), 12
    )
    tails = expansion.tails()
    u = np.random.default_rng(0).uniform(-1, 1, (500, dimension))
    for q in (0, 1, 3, 6):
        assert np.abs(expansion.cut(q)(u) - expansion(u)).max() <= tails[q] * (1 + 1e-12)
        assert np.abs(expansion.cut(q).exponents.sum(axis=1)).max() == q
    assert np.all(np.diff(tails) <= 0)
    assert tails[-1] == 0


def test_functions_may_take_coordinates_points_or_numbers() -> None:
    points = np.array([[0.25, -0.5], [1.0, 1.0]])
    expected = points[:, 0] - 3 * points[:, 1]
    for f in (
        lambda x, y: x - 3 * y,
        lambda p: p[..., 0] - 3 * p[..., 1],
        lambda p: p[0] - 3 * p[1] if p.ndim == 1 else _raise(),
    ):
        assert np.array_equal(cube(f, 2).at(points)[:, 0], expected)
    constant = cube(lambda x, y: 2.0, 2)
    assert np.array_equal(constant.at(points), [[2.0], [2.0]])
    assert cube(lambda x, y: np.stack([x, y, x], -1), 2).at(points).shape == (2, 3)
    assert cube(np.hypot, 2).at(points)[1, 0] == np.hypot(1, 1)


def _raise():
    raise TypeError("numbers only")


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: 1 / x, "not a finite number"),
        (lambda x: np.log(x), "not a finite number"),
        (lambda x: "text", "could not be evaluated"),
        (lambda x: np.zeros((2, 2, 2)), "numbers or vectors"),
    ],
)
def test_what_is_no_function_is_refused(f, words: str) -> None:
    points = np.array([[0.0], [0.5]])
    with np.errstate(all="ignore"), pytest.raises(InputError, match=words):
        cube(f, 1)(points)
