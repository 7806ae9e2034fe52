"""How steep interpolants are: largest steps, and the largest gradient of any simplex."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from exactformer.blueprint.coupling_interpolant import Interpolant, Knots
from exactformer.blueprint.coupling_kuhn import KuhnInterpolant
from exactformer.blueprint.coupling_slopes import largest_steps, lipschitz


def test_the_steepest_piece_of_one_interval():
    """Steps of 1, 5 and 6 over half a unit each, far from 0."""
    knots = Knots(((Fraction(-7, 2), Fraction(-2)),), 3)
    values = np.array([[0.0], [1.0], [-4.0], [2.0]])
    function = Interpolant(knots, values)
    assert largest_steps(function).tolist() == [6]
    assert lipschitz(function) == 12
    two = Interpolant(knots, np.hstack([values, values / 2]))
    assert largest_steps(two).tolist() == [6, 3]
    assert lipschitz(two) == 12


def test_between_intervals_there_is_no_step():
    knots = Knots(((Fraction(0), Fraction(1)), (Fraction(3), Fraction(4))), 2)
    values = np.array([[0.0], [1.0], [3.0], [100.0], [96.0], [95.0]])
    assert largest_steps(Interpolant(knots, values)).tolist() == [4]


@pytest.mark.parametrize("d", [2, 3])
def test_the_steepest_simplex_of_a_box(d):
    """Partial derivatives in the middle of every simplex, by differences of values there."""
    pieces = 2
    box = tuple((Fraction(-i, 3) - 1, Fraction(i, 2) - Fraction(1, 2)) for i in range(d))
    rng = np.random.default_rng(d)
    function = KuhnInterpolant(box, pieces, rng.normal(size=((pieces + 1) ** d, 1)))
    sides = np.array([float(high - low) / pieces for low, high in box])
    low = np.array([float(side[0]) for side in box])
    steepest = 0.0
    for corner in product(range(pieces), repeat=d):
        for order in permutations(range(d)):
            place = np.empty(d)
            place[list(order)] = (np.arange(d) + 1) / (d + 1)
            middle, eps = low + sides * (np.array(corner) + place), 1e-3
            slopes = [
                float((function(middle + eps * e) - function(middle - eps * e))[0]) / (2 * eps)
                for e in np.eye(d)
            ]
            steepest = max(steepest, float(np.abs(slopes).sum()))
    assert lipschitz(function) == pytest.approx(steepest, rel=1e-9)
    grid = function.values.reshape(*[pieces + 1] * d)
    steps = [float(np.abs(np.diff(grid, axis=axis)).max()) for axis in range(d)]
    assert len(set(steps)) == d
    assert largest_steps(function).tolist() == [max(steps)]


def test_what_is_not_a_number_stays_one():
    function = KuhnInterpolant(((Fraction(0), Fraction(1)),) * 2, 1, np.zeros((4, 1)))
    function.values[0, 0] = np.nan
    assert np.isnan(lipschitz(function))
