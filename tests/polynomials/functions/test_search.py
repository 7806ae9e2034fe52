"""The degree found is enough and hardly more; what cannot be reached is said, with its degree."""

import numpy as np
import pytest

import exactformer as ef
from exactformer.errors import InputError, SizeError
from exactformer.polynomials.functions.sampled import BoxFunction
from exactformer.polynomials.functions.search import search


def unit(f, dimension: int = 1) -> BoxFunction:
    return BoxFunction(f, [0.5] * dimension, [0.5] * dimension)


@pytest.mark.parametrize(
    ("f", "dimension", "tolerance"),
    [
        (lambda x: np.sin(40 * x), 1, 1e-12),
        (np.exp, 1, 1e-14),
        (lambda x: 1 / (1 + 25 * (2 * x - 1) ** 2), 1, 1e-9),
        (lambda x, y: np.exp(x * y), 2, 1e-10),
        (lambda x, y, z: np.sin(x + 2 * y - z), 3, 1e-6),
    ],
)
def test_the_lowest_degree_is_found(f, dimension: int, tolerance: float) -> None:
    found = search(unit(f, dimension), tolerance, 400)
    assert found.met
    assert found.error <= tolerance
    u = np.random.default_rng(9).uniform(-1, 1, (2000, dimension))
    assert np.abs(found.expansion(u) - unit(f, dimension)(u)).max() <= tolerance
    lower = found.expansion.cut(int(0.85 * found.degree) - 1)
    assert np.abs(lower(u) - unit(f, dimension)(u)).max() > tolerance


def test_a_kink_takes_the_degree_that_theory_says() -> None:
    """The Chebyshev series of |u| cut at degree n errs by about 2/(πn) at the kink."""
    tolerance = 1e-6
    found = search(unit(lambda x: abs(x - 0.5)), tolerance, 500)
    assert not found.met
    assert found.degree == 500
    assert found.error == pytest.approx(0.5 * 2 / np.pi / 500, rel=0.1)
    assert found.needed == pytest.approx(0.5 * 2 / np.pi / tolerance, rel=0.3)


def test_a_limit_below_the_degree_needed_is_told_apart_from_a_kink() -> None:
    found = search(unit(lambda x: np.cos(60 * x)), 1e-10, 20)
    assert not found.met
    assert found.needed is not None
    assert 40 <= found.needed <= 70


def test_the_curve_falls_as_the_known_rates() -> None:
    kink = ef.universality_curve(np.abs, [10, 100])
    assert list(kink["degree"]) == [10, 100]
    for n, error in zip(kink["degree"], kink["error"], strict=True):
        assert 0.28 / n <= error <= 0.8 / n  # no polynomial does better than Bernstein's constant
    smooth = ef.universality_curve(np.exp, range(0, 13, 4))["error"].tolist()
    for n, error in zip(range(0, 13, 4), smooth, strict=True):
        best = 1 / (2.0**n * np.prod(np.arange(1, n + 2, dtype=float)))  # Bernstein's asymptotic
        assert 0.5 * best <= error <= 3 * best
    plane = ef.universality_curve(lambda x, y: np.exp(x * y), [2, 6], domain=[(0, 1), (0, 1)])
    assert plane["error"][1] < 1e-3 * plane["error"][0]


def test_bad_questions_are_refused() -> None:
    for degrees, domain in (
        ([], [(0, 1)]),
        ([-1], [(0, 1)]),
        ([2.7], [(0, 1)]),
        (["3"], [(0, 1)]),
        ([3], [(1, 0)]),
        ([3], (0, 1, 2, 3)),
        ([3], [(0, np.inf)]),
    ):
        with pytest.raises(InputError):
            ef.universality_curve(np.exp, degrees, domain)
    with pytest.raises(SizeError, match="degrees up to"):
        ef.universality_curve(lambda x, y, z: x, [200], [(0, 1)] * 3)
