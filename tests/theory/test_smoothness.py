"""Straight pieces: the bounds hold, and some functions attain them."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.theory.outer import outer_function
from exactformer.theory.smoothness import smoothness
from tests.examples import examples

UNIT = ((0.0, 1.0),)


def interpolation_error(g, intervals, pieces: int) -> float:
    """sup‖g − ĝ‖ on a fine grid, ``pieces`` shared by the intervals."""
    worst = 0.0
    for low, high in intervals:
        knots = np.linspace(low, high, pieces // len(intervals) + 1)
        fine = np.linspace(low, high, 20 * len(knots) + 7)
        at_knots, exact = (np.atleast_2d(g(x).T).T.reshape(len(x), -1) for x in (knots, fine))
        met = np.stack([np.interp(fine, knots, column) for column in at_knots.T], axis=1)
        worst = max(worst, float(np.linalg.norm(exact - met, axis=1).max()))
    return worst


@given(st.integers(1, 5), st.integers(0, 2**31), st.sampled_from([3, 12, 60]))
@settings(max_examples=examples(40))
def test_the_error_of_straight_pieces_is_bounded(terms: int, seed: int, pieces: int) -> None:
    random = np.random.default_rng(seed)
    waves, phases = random.uniform(0, 12, (2, terms))
    intervals = ((0.0, 1.0), (2.0, 3.0), (5.0, 6.0))

    def g(x):
        return np.sin(waves * x[:, None] + phases)

    measured = smoothness(g, intervals)
    observed = interpolation_error(g, intervals, pieces)
    assert observed <= measured.error(pieces) * (1 + 1e-6)
    assert observed <= measured.complexity(1) / pieces * (1 + 1e-6)
    assert observed <= measured.complexity(2) / pieces**2 * (1 + 1e-6)


def test_a_parabola_attains_the_bound() -> None:
    measured = smoothness(lambda x: 3 * x**2, UNIT)
    assert measured.curvature == pytest.approx(6, rel=1e-6)
    assert measured.error(10) == pytest.approx(6 * 0.1**2 / 8, rel=1e-6)
    assert interpolation_error(lambda x: 3 * x**2, UNIT, 10) == pytest.approx(
        6 * 0.1**2 / 8, rel=1e-2
    )


def test_a_tooth_attains_the_bound_of_lipschitz_functions() -> None:
    """Between two knots a kink of slope ±L in the middle is L·h/2 above the straight line."""
    pieces = 8

    def tooth(x):
        return np.abs((x * pieces) % 1 - 0.5)

    measured = smoothness(tooth, UNIT)
    assert measured.curvature == inf
    assert measured.lipschitz == pytest.approx(pieces, rel=1e-6)
    assert measured.error(pieces) == pytest.approx(
        interpolation_error(tooth, UNIT, pieces), rel=0.02
    )


def test_affine_functions_cost_nothing() -> None:
    measured = smoothness(lambda x: 2 - 5 * x, UNIT)
    assert measured.error(1) < 1e-7
    assert measured.lipschitz == pytest.approx(5, rel=1e-9)
    assert (measured.low, measured.high) == ((-3.0,), (2.0,))
    assert measured.radius == pytest.approx(2.5, rel=1e-7)


def test_values_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="not finite at 0"), np.errstate(divide="ignore"):
        smoothness(lambda x: 1 / x, UNIT)
    with pytest.raises(InputError, match="gave values"):
        smoothness(lambda x: x[:-1], UNIT)
    with pytest.raises(InputError, match="its own point only"):
        smoothness(lambda x: x - x.mean(), UNIT)
    with pytest.raises(InputError, match="β = 1 or 2"):
        smoothness(np.sin, UNIT).complexity(3)


def test_an_affine_function_of_several_variables_is_met_exactly() -> None:
    box = smoothness(lambda x: np.stack([x, x**2], axis=-1), UNIT)
    outer = outer_function(lambda h: h @ np.array([3.0, 4.0]), box)
    assert outer.affine
    assert outer.lipschitz == pytest.approx(5, rel=1e-6)
    assert outer.error(16) == 0
    bent = outer_function(lambda h: h[..., 0] * h[..., 1], box)
    assert not bent.affine
    assert bent.lipschitz == pytest.approx(np.sqrt(2), rel=0.1)
    assert 0 < bent.error(10_000) < bent.error(100)


def test_a_constant_f_leaves_nothing_to_do() -> None:
    outer = outer_function(np.exp, smoothness(lambda x: 0 * x + 2, UNIT))
    assert outer.lipschitz == 0
    assert outer.error(1) == 0
