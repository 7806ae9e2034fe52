"""Theorem 4.1 carried out: what the rows of f̂ are, and how far interpolation is from the functions."""

from dataclasses import replace
from fractions import Fraction
from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.couplings.compile import compile_coupling
from exactformer.couplings.construction import coupling
from exactformer.couplings.samples import shared
from exactformer.errors import InputError
from exactformer.targets import sine_family
from exactformer.theory import pod
from tests.examples import examples


def constructed(rank: int, head_dim: int, ff_width: int, tau: int = 4, **options):
    target = sine_family([2.0**-k for k in range(rank)], tau=tau)
    decomposition = pod(target.rho, measure="probability")
    blueprint = coupling(
        decomposition,
        target.f,
        target.F,
        tau=tau,
        head_dim=head_dim,
        ff_width=ff_width,
        **options,
    )
    return target, decomposition, blueprint


def scores(blueprint, u, v):
    """⟨W_Q f̂(u), W_K f̂(v)⟩ with the blueprint's matrices."""
    query, key = (
        np.array([[float(matrix[i, j]) for j in range(matrix.columns)] for i in range(matrix.rows)])
        for matrix in (blueprint.query, blueprint.key)
    )
    return (blueprint.features(u) @ query.T) @ (blueprint.features(v) @ key.T).T


@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from([16, 50, 64]))
@settings(max_examples=examples(20))
def test_scores_at_knots_are_the_truncated_coupling(rank, head_dim, ff_width):
    target, _, blueprint = constructed(rank, head_dim, ff_width)
    knots = blueprint.features.knots.points
    wanted = target.rho.truncate(head_dim).matrix(knots, knots)
    assert np.abs(scores(blueprint, knots, knots) - wanted).max() < 1e-12


@pytest.mark.parametrize("rank", [2, 6])
@pytest.mark.parametrize("ff_width", [64, 256, 1024])
def test_sines_are_interpolated_to_the_error_of_second_order(rank, ff_width):
    """|√2 sin 2πkx − interpolant| ≤ √2 (2πk)² h²/8, and nearly so much at the middle of a piece."""
    _, decomposition, blueprint = constructed(rank, rank, ff_width)
    points = blueprint.features.knots.refined(8)
    found = blueprint.features(points)[:, :rank] / np.sqrt(decomposition.singular_values)
    error = np.abs(found - decomposition.left(points)).max(axis=0)
    printed = sqrt(2) * (2 * pi * np.arange(1, rank + 1)) ** 2 / (8 * ff_width**2)
    assert (error <= printed * (1 + 1e-9) + 1e-12).all()
    assert (error >= 0.9 * printed).all()


def test_singular_values_are_shared_evenly():
    _, decomposition, _ = constructed(3, 3, 8)
    phi, psi = shared(decomposition, 2)
    u = np.linspace(0, 1, 50)
    assert phi(u).shape == (50, 2)
    assert np.abs(np.abs(phi(u)) - np.abs(psi(u))).max() < 1e-12  # sines on both sides


def test_a_head_larger_than_the_rank_is_filled_with_zeros():
    _, _, small = constructed(2, 2, 16)
    _, _, large = constructed(2, 5, 16)
    values = large.features.values
    assert (values[:, [2, 3, 4, 7, 8, 9]] == 0).all()
    assert (values[:, [0, 1, 5, 6, 10]] == small.features.values).all()


def test_positions_share_the_pieces_among_disjoint_intervals():
    target = sine_family([1.0], tau=3)
    positions = np.array([4.0, 0.0, 2.0])
    intervals = [(e, e + 1) for e in positions]
    decomposition = pod(target.rho, intervals, measure="probability")
    blueprint = coupling(
        decomposition,
        target.f,
        target.F,
        tau=3,
        head_dim=1,
        ff_width=30,
        positions=positions,
    )
    knots = blueprint.features.knots
    assert knots.pieces == 10
    assert knots.intervals[0] == (Fraction(4), Fraction(5))  # in the order of the tokens
    assert np.abs(blueprint.features(knots.points)[:, 2] - knots.points).max() < 1e-15


def test_the_outer_network_is_needed_between_the_least_and_the_largest_value_only():
    target = sine_family([1.0], tau=2)
    decomposition = pod(target.rho, measure="probability")
    blueprint = coupling(decomposition, np.cos, lambda h: 1 / h, tau=2, head_dim=1, ff_width=8)
    low, high = blueprint.outer.knots.intervals[0]
    assert (float(low), float(high)) == (np.cos(1), 1.0)


def test_a_head_without_dimension_is_refused():
    with pytest.raises(InputError, match="one dimension at least"):
        constructed(2, 0, 8)


@pytest.mark.parametrize("name", ["f", "F"])
def test_functions_that_look_at_all_points_are_refused(name):
    """Sampled at all knots together, x − mean(x) would be another function than of one token."""
    target = replace(sine_family([1.0], tau=3), **{name: lambda x: x - np.mean(x)})
    with pytest.raises(InputError, match="its own point only"):
        compile_coupling(target, head_dim=1, ff_width=16)
