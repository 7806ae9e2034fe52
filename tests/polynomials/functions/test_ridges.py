"""An expansion written as ridges is the same polynomial, with coefficients of its own size."""

import numpy as np
import pytest

from exactformer.algebra.chebyshev import from_powers
from exactformer.polynomials.functions.chebyshev_expansion import expand
from exactformer.polynomials.functions.ridges import direction_count, expansion_ridges
from exactformer.polynomials.functions.sampled import BoxFunction


@pytest.mark.parametrize(
    ("dimension", "degree"), [(1, 0), (1, 1), (1, 30), (2, 1), (2, 9), (2, 20), (3, 7), (4, 4)]
)
def test_ridges_are_the_expansion(dimension: int, degree: int) -> None:
    weights = np.linspace(0.3, 1, dimension)
    f = BoxFunction(
        lambda u: np.sin(2 + np.reshape(u, (-1, dimension)) @ weights),
        [0.0] * dimension,
        [1.0] * dimension,
    )
    expansion = expand(f, max(degree, 1)).cut(degree)
    names = [f"x{j}" for j in range(dimension)]
    (form,) = expansion_ridges(expansion, names)
    assert form.degree == degree
    assert form.width == (direction_count(dimension, degree) if degree else 1)
    assert all(sum(c * c for c in row) <= 1 for row in form.directions)
    points = np.random.default_rng(3).uniform(-1, 1, (8, dimension))
    exact = form.to_polynomial()
    values = [float(exact.at(p)) for p in points]
    assert np.abs(np.array(values) - expansion(points)[:, 0]).max() < 1e-12
    total = 0.0
    for direction, beta in zip(form.directions, form.beta, strict=True):
        reach = sum(map(abs, direction))
        scaled = [b * reach**s for s, b in enumerate(beta, start=1)]
        total += float(sum(map(abs, from_powers([0, *scaled]))))
    assert total < 20, "coefficients have grown: digits would be lost"


def test_outputs_share_their_directions() -> None:
    f = BoxFunction(lambda x, y: np.stack([x * y, np.cos(x + y)], -1), [0.0] * 2, [1.0] * 2)
    first, second = expansion_ridges(expand(f, 6).cut(6), ["x", "y"])
    assert first.directions == second.directions
    assert first.beta != second.beta
