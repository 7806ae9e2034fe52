"""Functions as their authors write them: of points, of arrays of points, of coordinates, of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.polynomials.functions.sampled import BoxFunction

A = np.array([[1.0, 2.0], [3.0, 4.0]])
POINTS = np.random.default_rng(1).uniform(-1, 1, (2, 2))  # as many as coordinates, to confuse axes

OF_POINTS: dict[str, Callable[[Any], Any]] = {
    "the largest of all numbers": np.max,
    "the sum of all numbers": np.sum,
    "the mean of all numbers": np.mean,
    "a norm of all numbers": np.linalg.norm,
    "a scalar product": lambda x: x @ x,
    "a matrix from the left": lambda x: A @ x,
    "coordinates by the first axis": lambda x: x[0] * x[1],
    "coordinates by the last axis": lambda x: x[..., 0] * x[..., 1],
    "coordinates by a slice of rows": lambda x: np.exp(x[0]) / np.exp(x).sum(),
    "numbers only": lambda x: math.exp(float(x[0])) if x[1] > 0 else 1.0,
}


@pytest.mark.parametrize("f", OF_POINTS.values(), ids=OF_POINTS)
def test_a_value_is_that_of_its_point_alone(f: Callable[[Any], Any]) -> None:
    function = BoxFunction(f, [0, 0], [1, 1])
    wanted = np.array([np.atleast_1d(f(point)) for point in POINTS])
    assert np.allclose(function.at(POINTS), wanted, rtol=1e-14)
    many = np.concatenate([POINTS, np.random.default_rng(2).uniform(-1, 1, (50, 2))])
    assert np.allclose(function.at(many)[:2], wanted, rtol=1e-14)


def test_the_largest_coordinate_is_not_the_largest_of_all_points() -> None:
    model = ef.compile(np.max, domain=[(-1, 1)] * 2, tolerance=0.2)
    assert abs(float(model([-0.5, 0.25])) - 0.25) <= 0.2


def test_a_function_of_tensors_with_an_axis_of_points() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    ).double()
    function = BoxFunction(lambda x: network(x).squeeze(), [0, 0], [1, 1])
    with torch.no_grad():
        wanted = network(torch.from_numpy(POINTS)).numpy()
    assert np.allclose(function.at(POINTS), wanted, rtol=1e-12)


@pytest.mark.parametrize("f", [np.sort, lambda x: x[:] - x.mean()])
def test_what_needs_other_points_for_its_value_is_refused(f: Any) -> None:
    with pytest.raises(ef.ExactformerError, match="other values to points alone"):
        ef.compile(f, domain=[(0, 1)], tolerance=1e-3)


def test_a_function_that_is_not_the_same_twice_is_refused() -> None:
    random = np.random.default_rng(0)
    with pytest.raises(ef.ExactformerError, match="its own point only"):
        BoxFunction(lambda x: x + random.normal(size=np.shape(x)), [0], [1]).at(np.zeros((9, 1)))


def test_errors_of_the_function_are_told() -> None:
    def broken(x: float) -> float:
        raise OverflowError("too far")

    with pytest.raises(ef.ExactformerError, match=r"broken could not be evaluated .*too far"):
        ef.compile(broken, domain=[(0, 1)], tolerance=1e-3)
