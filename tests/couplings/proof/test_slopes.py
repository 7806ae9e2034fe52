"""How steep interpolants are: largest steps, slopes and gradients, rounded up by a hair at most."""

from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest
import torch

from exactformer.couplings.interpolant import Interpolant, Knots
from exactformer.couplings.kuhn import KuhnInterpolant
from exactformer.couplings.proof.slopes import largest_slopes, largest_steps, lipschitz

F = Fraction


def barely_above(found, wanted) -> None:
    """No bound is below the exact number, and none above it by more than a few last digits."""
    for bound, exact in zip(np.atleast_1d(found).tolist(), wanted, strict=True):
        assert exact <= F(bound) <= F(exact) * (1 + F(1, 2**49))


def test_the_steepest_piece_of_one_interval():
    """Steps of 1, 5 and 6 over half a unit each, far from 0."""
    knots = Knots(((F(-7, 2), F(-2)),), 3)
    values = np.array([[0.0], [1.0], [-4.0], [2.0]])
    function = Interpolant(knots, values)
    barely_above(largest_steps(function).values, [6])
    barely_above(lipschitz(function), [12])
    barely_above(largest_slopes(function).values, [12])
    two = Interpolant(knots, np.hstack([values, -values / 2]))
    barely_above(largest_steps(two).values, [6, 3])
    barely_above(lipschitz(two), [12])
    barely_above(largest_slopes(two).values, [12, 6])


def test_steps_that_float64_rounds_are_rounded_up():
    """1 + 2^−60 is no float64, nor is a third; a function that does not change has exact zeros."""
    knots = Knots(((F(0), F(3)),), 1)
    function = Interpolant(knots, np.array([[-(2.0**-60), 5.0], [1.0, 5.0]]))
    for found, divisor in ((largest_steps(function), 1), (largest_slopes(function), 3)):
        barely_above(found.values, [(1 + F(1, 2**60)) / divisor, 0])
    barely_above(lipschitz(function), [(1 + F(1, 2**60)) / 3])


@pytest.mark.parametrize("flush", [False, True])
def test_values_that_differ_have_a_step_even_where_it_is_taken_for_zero(flush):
    """Steps of 2⁻¹⁰⁷² between normal numbers, and between numbers that are not."""
    values = np.array(
        [[2.0**-1020, 2.0**-1070, 1.0], [2.0**-1020 * (1 + 2.0**-52), -(2.0**-1070), 1.0]]
    )
    one = Interpolant(Knots(((F(0), F(1, 2**900)),), 1), values)
    two = KuhnInterpolant(((F(0), F(1)), (F(0), F(1, 2**900))), 1, np.vstack([values, values]))
    if not torch.set_flush_denormal(flush) and flush:
        pytest.skip("this processor cannot flush")
    try:
        found = [largest_steps(one).values, largest_steps(two).values, largest_slopes(one).values]
        steepest = [lipschitz(one), lipschitz(two)]
    finally:
        torch.set_flush_denormal(False)
    for steps in found[:2]:
        assert steps.tolist() == [2.0**-1022, 2.0**-1022, 0.0]
    for slope in (*found[2][:2], *steepest):
        assert 2.0**-122 <= slope <= 2.0**-121 * (1 + 2.0**-50)


def test_the_sign_of_zero_is_no_step():
    function = Interpolant(Knots(((F(0), F(1)),), 2), np.array([[0.0], [-0.0], [0.0]]))
    assert largest_steps(function).values.tolist() == [0.0]
    opposite = Interpolant(Knots(((F(0), F(1)),), 1), np.array([[1.0], [-1.0]]))
    barely_above(largest_steps(opposite).values, [2])


def test_between_intervals_there_is_no_step_but_a_slope():
    """100 − 3 on a gap of two, wherever its intervals are listed."""
    sides = (F(0), F(1)), (F(3), F(4))
    values = np.array([[0.0], [1.0], [3.0], [100.0], [96.0], [95.0]])
    for intervals, rows in ((sides, values), (sides[::-1], np.roll(values, 3, axis=0))):
        function = Interpolant(Knots(intervals, 2), rows)
        barely_above(largest_steps(function).values, [4])
        barely_above(largest_slopes(function).values, [F(97, 2)])


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_steepest_simplex_of_a_box(d, seed):
    """On every simplex each partial derivative is one step along an edge; all edges in rationals."""
    pieces = 2
    box = tuple((F(-i, 3) - 1, F(i, 2) - F(1, 2)) for i in range(d))
    values = np.random.default_rng(seed).normal(size=((pieces + 1) ** d, 2))
    function = KuhnInterpolant(box, pieces, values)
    at = dict(zip(product(range(pieces + 1), repeat=d), values.tolist(), strict=True))
    steepest, steps = F(0), [F(0), F(0)]
    for corner in product(range(pieces), repeat=d):
        for order in permutations(range(d)):
            path = [corner]
            for axis in order:
                path.append(tuple(c + (i == axis) for i, c in enumerate(path[-1])))
            for n in (0, 1):
                edges = [abs(F(at[b][n]) - F(at[a][n])) for a, b in pairwise(path)]
                sides = [(box[axis][1] - box[axis][0]) / pieces for axis in order]
                slope = sum(edge / side for edge, side in zip(edges, sides, strict=True))
                steepest, steps[n] = max(steepest, slope), max(steps[n], *edges)
    barely_above(lipschitz(function), [steepest])
    barely_above(largest_steps(function).values, steps)


@pytest.mark.parametrize("d", [2, 3])
def test_gradients_in_the_middle_of_every_simplex(d):
    """Partial derivatives by differences of values there."""
    pieces = 2
    box = tuple((F(-i, 3) - 1, F(i, 2) - F(1, 2)) for i in range(d))
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


def test_what_is_not_a_number_stays_one():
    function = KuhnInterpolant(((F(0), F(1)),) * 2, 1, np.zeros((4, 1)))
    function.values[0, 0] = np.nan
    assert np.isnan(lipschitz(function))
    assert np.isnan(largest_steps(function).values).all()


def test_steps_that_overflow_are_infinite():
    function = Interpolant(Knots(((F(0), F(1)),), 1), np.array([[1.7e308], [-1.7e308]]))
    assert largest_steps(function).values.tolist() == largest_slopes(function).values.tolist()
    assert largest_steps(function).values.tolist() == [lipschitz(function)] == [np.inf]
