"""Where the suprema and means of a coupling's bound are looked for, and what they come to, exactly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf, isqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.construction import draw_coupling
from exactformer.couplings.proof import bound as coupling_bound
from exactformer.couplings.proof.bound import (
    DIAGONAL,
    GRID,
    _coupling_error,
    _ends,
    _hull,
    _largest,
    _midpoints,
    _outer_error,
    _parts,
    _scattered,
    _truncation,
    _value_error,
    bound_coupling,
)
from exactformer.couplings.samples import range_points, tabulated
from exactformer.errors import CertificationError, InputError
from exactformer.targets import Coupling
from exactformer.theory import pod


def product(u: Any, v: Any) -> Any:
    return u * v


def drawn(target: Coupling, ff_width: int) -> CouplingBlueprint:
    """Return the model of a coupling whose ρ(u, v) is u·v."""
    return draw_coupling(
        lambda u: u[:, None],
        lambda v: v[:, None],
        target.f,
        target.F,
        tau=target.tau,
        head_dim=1,
        ff_width=ff_width,
    )


@pytest.mark.parametrize(
    ("knots", "parts"),
    [(2, 256), (3, 170), (31, 16), (32, 16), (4096, 16), (4097, 15), (2**15, 2), (10**6, 2)],
)
def test_a_piece_has_two_to_sixteen_points_and_all_together_512(knots: int, parts: int) -> None:
    assert _parts(knots) == parts


def test_grids_for_means_are_prime_and_in_step_with_no_wave() -> None:
    for points in (GRID, DIAGONAL):
        assert all(points % k for k in range(2, isqrt(points) + 1))


def test_midpoints_are_those_of_equal_cells() -> None:
    """Seven points among three intervals: three each, rounded up."""
    found = _midpoints(((0.0, 3.0), (4.0, 10.0), (-2.0, -1.25)), 7)
    assert found.tolist() == [[0.5, 1.5, 2.5], [5.0, 7.0, 9.0], [-1.875, -1.625, -1.375]]


def test_ends_are_a_billionth_inside_and_no_more() -> None:
    intervals = ((0.0, 1.0), (2.0, 6.0), (-3.0, -1.0))
    for (low, high), (first, last) in zip(intervals, _ends(intervals), strict=True):
        inside = (high - low) * 1e-9
        assert low + 0.9 * inside < first < low + inside
        assert high - inside < last < high - 0.9 * inside


def test_random_points_fill_their_box() -> None:
    box = ((Fraction(0), Fraction(1)), (Fraction(5), Fraction(7)))
    points = _scattered(box)
    assert points.shape == (16384, 2)
    low, high = np.array(box, dtype=float).T
    assert ((low <= points) & (points <= high)).all()
    assert (np.ptp(points, axis=0) > 0.99 * (high - low)).all()


@pytest.mark.parametrize(
    ("values", "hull"), [((2, 5), (1, 5)), ((0, 2), (0, 3)), ((0, 5), (0, 5)), ((2, 2), (1, 3))]
)
def test_a_hull_holds_the_interval_and_all_values(values: Any, hull: Any) -> None:
    assert _hull((Fraction(1), Fraction(3)), np.array([*values, 2.0])) == hull


@pytest.mark.parametrize("places", [None, (0.0, 4.0, 2.0)])
def test_truncation_comes_to_its_integrals(places: Any) -> None:
    """B_t adds up the blocks of t with every other token, and the diagonal of its own."""

    def rho(u: Any, v: Any) -> Any:
        return 0.3 * u * v**2 + u**3 * v / 20

    offsets = (0.0,) * 3 if places is None else places
    target = Coupling(np.tanh, np.sin, rho, 3, (-2.0, -0.5), places)
    kept = pod(rho, target.intervals, measure="probability").truncate(1)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    u, weights = np.add.outer(offsets, -1.25 + 0.75 * nodes), weights / 2
    own = (rho(u, u) - kept(u, u)) ** 2 @ weights
    gap = (rho(u[:, None, :, None], u[None, :, None]) - kept.matrix(u[:, None], u[None])) ** 2
    blocks = gap @ weights @ weights
    found = _truncation(target, kept)
    assert found["tail"] ** 2 == pytest.approx(blocks.mean(), rel=1e-4)
    assert found["diagonal"] ** 2 == pytest.approx(own.mean(), rel=1e-4)
    sums = blocks.sum(axis=1) - np.diag(blocks) + own
    assert found["root_sums"] == pytest.approx(np.sqrt(sums), rel=1e-4)


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_scores_lie_as_far_apart_as_those_of_rho_or_of_its_truncation(share: float) -> None:
    """Of u·v on [−1, 1] scores of a query lie 2 apart; of what is kept here, less or more."""
    kept = pod(product, (-1.0, 1.0), measure="probability").truncate(1)
    kept = replace(kept, singular_values=share * kept.singular_values)
    # Values elsewhere than at nodes are divided by σ, on both sides: scores are those of 1/share.
    found = _truncation(Coupling(np.tanh, np.sin, product, 3, (-1.0, 1.0)), kept)
    apart = 2 * max(1, 1 / share)
    assert found["concentration"] == pytest.approx(1 / (1 + 2 * np.exp(-apart)), rel=1e-6)


def decomposed(phi: Any, psi: Any) -> Any:
    """Return Σ_k φ_k(u) ψ_k(v), with all σ_k = 1."""
    terms = phi(np.zeros(1)).shape[1]
    return SimpleNamespace(singular_values=np.ones(terms), left=phi, right=psi)


@pytest.mark.parametrize("stretch", [0.5, 1.5])
def test_a_turn_that_is_not_orthogonal_costs_what_it_changes(
    monkeypatch: pytest.MonkeyPatch, stretch: float
) -> None:
    """φ = 2, ψ = 3 and Q = q: scores of qφ and qψ are off by |q² − 1|·6, and by no more."""
    kept = decomposed(
        lambda u: np.stack([2 + 0 * u], axis=-1), lambda v: np.stack([3 + 0 * v], axis=-1)
    )
    blueprint = draw_coupling(
        lambda u: stretch * kept.left(u),
        lambda v: stretch * kept.right(v),
        np.sin,
        np.tanh,
        tau=3,
        head_dim=1,
        ff_width=4,
    )
    monkeypatch.setattr(coupling_bound, "_rotation", lambda rows, wanted: np.array([[stretch]]))
    assert _coupling_error(blueprint, kept, turned=True) == abs(stretch**2 - 1) * 6


@pytest.mark.parametrize("turned", [False, True])
def test_small_queries_count_as_much_as_their_keys_are_large(turned: bool) -> None:
    """Scores are 2⁻³⁰ where they should be 0; the squares of queries are below all float64."""
    blueprint = draw_coupling(
        lambda u: np.full((len(u), 1), 2.0**-540),
        lambda v: np.full((len(v), 1), 2.0**510),
        np.sin,
        np.tanh,
        tau=3,
        head_dim=1,
        ff_width=4,
    )
    nothing = decomposed(lambda u: np.zeros((len(u), 1)), lambda v: np.zeros((len(v), 1)))
    assert _coupling_error(blueprint, nothing, turned) == 2.0**-30


@pytest.mark.parametrize("size", [1.0, 2.0**-540, 2.0**-1000, 2.0**520, 2.0**1000])
def test_norms_of_rows_of_any_size(size: float) -> None:
    assert _largest(np.array([[3 * size, -4 * size], [0.0, size]])) == 5 * size
    assert _largest(0 * np.array([[3 * size, -4 * size]])) == 0
    assert _largest(np.array([[size, -inf]])) == inf
    assert np.isnan(_largest(np.array([[size, np.nan]])))


def test_functions_that_overflow_are_not_turned() -> None:
    """Their products with φ̂ are ∞ − ∞, for which there is no best turn."""
    blueprint = drawn(Coupling(np.tanh, np.sin, product, 3), 4)
    kept = decomposed(lambda u: np.where(u < 0.5, inf, -inf)[:, None], lambda v: 2 * v[:, None])
    with np.errstate(invalid="ignore"):
        assert _coupling_error(blueprint, kept, turned=True) == inf


@pytest.mark.parametrize("sign", [1, -1])
def test_f_and_its_interpolant_part_by_a_quarter_on_one_piece(sign: int) -> None:
    """f = ±u²: f̂ is above f or below, by u − u²."""
    target = Coupling(np.tanh, lambda u: sign * u**2, product, 3)
    blueprint = drawn(target, 1)
    values = tabulated(target.f, range_points(blueprint.features.knots), "f")
    assert _value_error(blueprint, values) == 0.25


def means(dimensions: int, vector: bool = True) -> Any:
    """Return an f with values u, 1 − u, 2u − 1 …, alone or as a row."""

    def f(u: Any) -> Any:
        rows = np.stack([u, 1 - u, 2 * u - 1][:dimensions], axis=-1)
        return rows if vector else u

    return f


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("dimensions", "error"), [(1, 0.25), (2, 0.5)])
def test_outer_functions_part_where_a_parabola_and_its_chord_do(
    sign: int, dimensions: int, error: float
) -> None:
    """F = ±Σ h_i² on [0, 1]^d and one piece a side: d/4, at the centre."""
    target = Coupling(lambda h: sign * (h**2).sum(axis=-1), means(dimensions), product, 3)
    blueprint = drawn(target, 1)
    values = tabulated(target.f, range_points(blueprint.features.knots), "f")
    assert _outer_error(blueprint, target, values) == error


@pytest.mark.parametrize(
    ("slope", "shift", "error"), [(3, 0, 2), (1, -5, 5), (9, -3, 5), (0.5, 0.25, 0)]
)
def test_f_hat_is_held_against_f_wherever_means_can_lie(
    slope: float, shift: float, error: float
) -> None:
    """F̂ = F on [0, 1] and constant beyond: off by as much as a mean of another f leaves it."""
    blueprint = drawn(Coupling(lambda h: h, lambda u: u, product, 3), 4)
    other = Coupling(lambda h: h, lambda u: slope * u + shift, product, 3)
    values = tabulated(other.f, range_points(blueprint.features.knots), "f")
    assert _outer_error(blueprint, other, values) == pytest.approx(error, abs=1e-15)


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize(("dimensions", "width"), [(1, 5), (2, 16), (3, 64)])
def test_f_is_asked_on_a_grid_at_random_and_at_values_of_f(
    dimensions: int, width: int, beyond: bool
) -> None:
    """In up to two dimensions as finely as φ and ψ; in three, at three points a piece."""
    asked: list[Any] = []

    def outer(h: Any) -> Any:
        asked.append(h)
        return h.sum(axis=-1)

    target = Coupling(outer, means(dimensions), product, 3)
    blueprint = drawn(target, width)
    shift = np.zeros(dimensions)
    shift[-1] = beyond  # on one side only
    other = replace(target, f=lambda u: means(dimensions)(u) + shift)
    values = tabulated(other.f, range_points(blueprint.features.knots), "f")
    asked.clear()
    _outer_error(blueprint, other, values)
    points, *alone = asked
    assert {len(point) for point in alone} == {1}
    knots = {1: 6, 2: 16, 3: 64}[dimensions]
    pieces, parts = {1: (5, 85), 2: (3, 32), 3: (3, 3)}[dimensions]
    assert len(blueprint.outer.values) == knots
    counts = (pieces * parts + 1) ** dimensions + 16384
    rest = counts + len(values) if beyond else 0
    assert len(points) == counts + width + 1 + rest
    assert np.ptp(points, axis=0) == pytest.approx(np.ptp(values, axis=0) + shift)


@pytest.mark.parametrize("vector", [False, True])
def test_outer_functions_are_given_what_f_gives(vector: bool) -> None:
    shapes: set[int] = set()

    def outer(h: Any) -> Any:
        shapes.add(np.ndim(h))
        return h[:, 0] if vector else h

    target = Coupling(outer, means(1, vector), product, 3)
    blueprint = drawn(target, 4)
    values = tabulated(target.f, range_points(blueprint.features.knots), "f")
    assert _outer_error(blueprint, target, values) == pytest.approx(0, abs=1e-15)
    assert shapes == {1 + vector}


def test_a_bound_is_about_the_sequences_and_the_values_of_its_model() -> None:
    target = Coupling(np.tanh, np.sin, product, 3)
    found = pod(product, target.intervals, measure="probability")
    for other in (replace(target, tau=4), replace(target, domain=(0.0, 0.5))):
        with pytest.raises(InputError, match="they must be the same"):
            bound_coupling(drawn(target, 4), other, found)
    with pytest.raises(CertificationError, match="f has 2 values and the model 1 value rows"):
        bound_coupling(drawn(target, 4), replace(target, f=means(2)), found)
