"""Interpolants as ReLU layers: piecewise-linear functions, in exact arithmetic."""

from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from exactformer.couplings.interpolant import Affine, Interpolant, Knots
from exactformer.couplings.kuhn import KuhnInterpolant
from exactformer.couplings.proof.slopes import lipschitz
from exactformer.errors import InputError, SizeError

fractions = st.fractions(min_value=-3, max_value=3, max_denominator=50)


def run(layers: tuple[Affine, ...], point: list[Fraction]) -> list[Fraction]:
    """Carry out the layers in rational arithmetic, ReLUs between them."""
    for number, layer in enumerate(layers):
        if number:
            point = [max(value, Fraction(0)) for value in point]
        rows = layer.weight.by_row
        point = [
            layer.bias[i, 0] + sum((w * point[j] for j, w in rows.get(i, [])), Fraction(0))
            for i in range(layer.weight.rows)
        ]
    return point


def between(knots: list[Fraction], values: list[Fraction], x: Fraction) -> Fraction:
    """Interpolate; constant outside."""
    if x <= knots[0]:
        return values[0]
    for (a, v), (b, w) in pairwise(zip(knots, values, strict=True)):
        if x <= b:
            return v + (w - v) * (x - a) / (b - a)
    return values[-1]


@st.composite
def interpolants(draw: st.DrawFn) -> Interpolant:
    pieces, count = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    ends = sorted(draw(st.lists(fractions, min_size=2 * count, max_size=2 * count, unique=True)))
    intervals = tuple(zip(ends[::2], ends[1::2], strict=True))
    order = draw(st.permutations(intervals))
    knots = Knots(tuple(order), pieces)
    seed = draw(st.integers(0, 1000))
    return Interpolant(knots, np.random.default_rng(seed).normal(size=(len(knots), 2)))


@given(interpolants(), fractions)
def test_layers_interpolate_exactly_between_knots_across_gaps_and_outside(function, x):
    found = run(function.layers(), [x])
    order = sorted(range(len(function.knots)), key=function.knots.exact.__getitem__)
    knots = [function.knots.exact[j] for j in order]
    for column in (0, 1):
        values = [Fraction(function.values[j, column]) for j in order]
        assert found[column] == between(knots, values, x)


@given(interpolants(), fractions)
def test_evaluation_in_floats_agrees_with_the_layers(function, x):
    found = function(np.array(float(x)))
    wanted = np.array([float(v) for v in run(function.layers(), [x])])
    least = np.diff(np.sort(function.knots.points)).min()
    assert np.abs(found - wanted).max() <= 1e-15 * 10 * (1 + np.ptp(function.values) / least)


def kuhn(pieces: int, d: int, function=None, seed: int = 0) -> KuhnInterpolant:
    box = tuple((Fraction(-i, 3), Fraction(i + 1, 2)) for i in range(d))
    grid = list(product(range(pieces + 1), repeat=d))
    if function is None:
        values = np.random.default_rng(seed).normal(size=(len(grid), 1))
    else:
        points = [
            [float(low + (high - low) * j / pieces) for j, (low, high) in zip(g, box, strict=True)]
            for g in grid
        ]
        values = np.array([[function(p)] for p in points])
    return KuhnInterpolant(box, pieces, values)


@given(st.sampled_from([(1, 2), (3, 2), (2, 3)]), st.integers(0, 100))
def test_kuhn_layers_are_linear_on_every_simplex(size, seed):
    function, rng = kuhn(*size, seed=seed), np.random.default_rng(seed)
    pieces, d = size
    corner = rng.integers(0, pieces, d)
    order = list(permutations(range(d)))[rng.integers(0, 2)]
    vertices = [corner]
    for axis in order:
        vertices.append(vertices[-1] + np.eye(d, dtype=int)[axis])
    weights = [Fraction(int(w), 64) for w in rng.multinomial(64, [1 / (d + 1)] * (d + 1))]
    strides = [(pieces + 1) ** (d - 1 - i) for i in range(d)]
    point = [
        low
        + (high - low) / pieces * sum(w * int(v[i]) for w, v in zip(weights, vertices, strict=True))
        for i, (low, high) in enumerate(function.box)
    ]
    wanted = sum(
        w * Fraction(function.values[int(v @ strides), 0])
        for w, v in zip(weights, vertices, strict=True)
    )
    assert run(function.layers(), point) == [wanted]
    assert function(np.array([float(p) for p in point]))[0] == pytest.approx(
        float(wanted), abs=1e-13
    )


@given(st.sampled_from([(1, 2), (3, 2), (2, 3)]), st.integers(0, 100))
def test_kuhn_layers_are_constant_beyond_the_box(size, seed):
    function, rng = kuhn(*size, seed=seed), np.random.default_rng(seed)
    point = [Fraction(int(n), 16) for n in rng.integers(-48, 64, size[1])]
    nearest = [min(max(x, low), high) for x, (low, high) in zip(point, function.box, strict=True)]
    found = run(function.layers(), point)
    assert found == run(function.layers(), nearest)
    assert function(np.array([float(x) for x in point]))[0] == pytest.approx(
        float(found[0]), abs=1e-13
    )


def test_an_interval_that_floats_do_not_see_is_refused():
    thin = (Fraction(1), 1 + Fraction(1, 10**30))
    with pytest.raises(InputError, match="float64"):
        Knots((thin,), 2)
    with pytest.raises(InputError, match="float64"):
        KuhnInterpolant((thin, (Fraction(0), Fraction(1))), 1, np.zeros((4, 1)))


@pytest.mark.parametrize("flush", [False, True])
def test_an_interval_whose_points_may_be_taken_for_zero_is_refused(flush):
    """Where steps are flushed, all points of [−2⁻¹⁰²², 2⁻¹⁰²²] were one, and f had no range."""
    if not torch.set_flush_denormal(flush) and flush:
        pytest.skip("this processor cannot flush")
    try:
        for end in (Fraction(1, 2**961), Fraction(1, 2**1022), Fraction(1, 2**1074)):
            short = end != Fraction(1, 2**961)
            sides = ((-end, end), (Fraction(0), Fraction(1)))
            for make in (
                lambda sides=sides: Knots(sides[:1], 2**20),
                lambda sides=sides: KuhnInterpolant(sides, 1, np.zeros((4, 1))),
            ):
                if short:
                    with pytest.raises(InputError, match="too short: points of it may be taken"):
                        make()
                else:
                    made = make()
                    if isinstance(made, Knots):
                        assert (np.diff(made.points) > 0).all()
    finally:
        torch.set_flush_denormal(False)


def test_kuhn_interpolation_reproduces_affine_functions():
    function = kuhn(4, 2, lambda p: 3 * p[0] - 2 * p[1] + 1)
    points = np.random.default_rng(0).uniform([0, -1 / 3], [0.5, 1], (50, 2))
    assert np.abs(function(points)[:, 0] - (3 * points[:, 0] - 2 * points[:, 1] + 1)).max() < 1e-14
    assert lipschitz(function) == pytest.approx(5)


def test_hidden_widths_are_those_of_the_layers():
    one = Interpolant(Knots(((Fraction(0), Fraction(1)),), 6), np.zeros((7, 3)))
    for function in (one, kuhn(2, 2), kuhn(1, 3), kuhn(1, 4)):
        assert tuple(layer.weight.rows for layer in function.layers()[:-1]) == function.hidden


def test_what_is_no_function_is_refused():
    touching = ((Fraction(0), Fraction(1)), (Fraction(1), Fraction(2)))
    with pytest.raises(InputError, match="disjoint"):
        Knots(touching, 2)
    knots = Knots(((Fraction(0), Fraction(1)),), 2)
    with pytest.raises(InputError, match="do not fit"):
        Interpolant(knots, np.zeros((2, 1)))
    with pytest.raises(InputError, match="finite"):
        Interpolant(knots, np.array([[0.0], [np.inf], [0.0]]))


def test_too_many_exact_weights_are_refused_before_they_are_made():
    knots = Knots(((Fraction(0), Fraction(1)),), 2_000_000)
    with pytest.raises(SizeError, match="6,000,003 exact weights"):
        Interpolant(knots, np.zeros((2_000_001, 3))).layers()
