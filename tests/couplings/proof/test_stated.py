"""A bound that a file states is held against its weights: just within every limit, and beyond it."""

from __future__ import annotations

from dataclasses import replace
from math import hypot
from typing import Any

import numpy as np
import pytest

import exactformer as ef
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.construction import draw_coupling
from exactformer.couplings.proof.bound import ErrorTerms
from exactformer.couplings.proof.slopes import lipschitz
from exactformer.couplings.proof.stated import check_stated
from exactformer.errors import CertificationError
from exactformer.targets import Coupling

MOVED = (0.0, 2.0, 6.0, 4.0)
CASES: dict[str, Any] = {
    "plain": (np.sin, np.tanh, None),
    "positions": (np.cos, np.tanh, MOVED),
    "two values": (
        lambda u: np.stack([u - 7, 4 * u], axis=-1),
        lambda h: 3 * h[..., 0] - 2 * h[..., 1],
        MOVED,
    ),
    "far from zero": (lambda u: u - 10**6, lambda h: 2 * h, None),
}
"""f, F and positions."""


def values_of(blueprint: CouplingBlueprint) -> Any:
    return blueprint.features.values[:, 2 * blueprint.head_dim :]


@pytest.fixture(params=CASES)
def stated(request: pytest.FixtureRequest) -> tuple[ErrorTerms, CouplingBlueprint]:
    """Return a blueprint, and a bound that agrees with it."""
    f, outer, positions = CASES[request.param]
    blueprint = draw_coupling(
        lambda u: u[:, None],
        lambda v: v[:, None],
        f,
        outer,
        tau=4,
        head_dim=1,
        ff_width=16,
        positions=positions,
    )
    bound = ErrorTerms(
        tail=0.5,
        diagonal=0.75,
        lipschitz=lipschitz(blueprint.outer),
        radius=float(np.ptp(values_of(blueprint), axis=0).max() / 2),
        coupling_error=0.01,
        value_error=1e-9,
        outer_error=0.01,
        concentration=0.5,
        root_sums=(hypot(3**0.5 * 0.5, 0.75),) * 4,
    )
    return bound, blueprint


JUST = (0.99, True), (1.01, False)
"""Times what is allowed: just within a limit, and just beyond it."""
SIX = 1e-6
"""Numbers are compared to six digits."""


def agrees(bound: ErrorTerms, blueprint: CouplingBlueprint) -> bool:
    try:
        check_stated(bound, blueprint)
    except CertificationError:
        return False
    return True


def test_k_is_held_against_the_weights_to_six_digits(stated) -> None:
    """A little off is another order of summation, more is a lie."""
    bound, blueprint = stated
    assert agrees(bound, blueprint)
    for part, good in JUST:
        for off in (part * SIX, -part * SIX):
            steep = replace(bound, lipschitz=bound.lipschitz * (1 + off))
            assert agrees(steep, blueprint) is good


def test_without_positions_every_sum_follows_from_the_tail_and_the_diagonal(stated) -> None:
    bound, blueprint = stated
    root = bound.root_sums[0]
    for part, good in JUST:
        for off in (part * SIX, -part * SIX):
            for j in range(4):
                sums = (*[root] * j, root * (1 + off), *[root] * (3 - j))
                allowed = good or blueprint.positions is not None
                assert agrees(replace(bound, root_sums=sums), blueprint) is allowed


@pytest.mark.parametrize("error", [0.0, 1e-9, 0.25])
def test_the_radius_lies_between_that_of_f_hat_and_epsilon_more(stated, error) -> None:
    """Below, ε_f is allowed for up to six digits of the values."""
    bound, blueprint = stated
    own, largest = bound.radius, np.abs(values_of(blueprint)).max()
    bound = replace(bound, value_error=error)
    below, above = min(SIX * largest, error + SIX * own), SIX * largest
    for part, good in JUST:
        assert agrees(replace(bound, radius=own - part * below), blueprint) is good
        assert agrees(replace(bound, radius=own + error + part * above), blueprint) is good


@pytest.mark.parametrize("part", [0.0, 0.5, 0.999998])
def test_values_far_from_zero_do_not_hide_their_range(stated, part) -> None:
    """Of f = u − 10⁶, six digits of the values are twice the radius, which is ½ all the same."""
    bound, blueprint = stated
    assert not agrees(replace(bound, radius=part * bound.radius), blueprint)


@pytest.mark.parametrize("positions", [None, np.arange(4) * 2.0], ids=["plain", "positions"])
def test_a_map_that_is_zero_may_say_so(positions) -> None:
    """Of f = 0 and ρ = 0 all of R, ε_f, T, D and √B_t are 0, and nothing is left for six digits."""
    target = Coupling(np.tanh, lambda u: 0 * u, lambda u, v: 0 * u * v, 4, positions=positions)
    model = ef.compile_coupling(target, 1, 8)
    bound = model.certificate.rounded()
    assert (bound.radius, bound.value_error, bound.tail, bound.diagonal) == (0, 0, 0, 0)
    assert bound.root_sums == (0,) * 4
    assert agrees(bound, model.blueprint)


def test_the_largest_weight_lies_between_an_equal_share_and_all(stated) -> None:
    bound, blueprint = stated
    for part, good in JUST:
        for w in (0.25 * (1 - part * SIX), 1 + part * SIX):
            assert agrees(replace(bound, concentration=w), blueprint) is good


@pytest.mark.parametrize("stated", ["positions", "two values"], indirect=True)
def test_with_positions_sums_lie_between_the_diagonal_and_all_pairs(stated) -> None:
    """The mean of B_t is D² and at most τ T² more, since T² is the mean over all pairs."""
    bound, blueprint = stated
    most = hypot(2 * 0.5, 0.75)
    for part, good in JUST:
        for mean in (0.75 * (1 - part * SIX), most * (1 + part * SIX)):
            assert agrees(replace(bound, root_sums=(mean,) * 4), blueprint) is good
            uneven = (mean * 2, 0.0, 0.0, 0.0)  # the same mean of squares
            assert agrees(replace(bound, root_sums=uneven), blueprint) is good


def test_there_is_a_sum_for_every_token(stated) -> None:
    bound, blueprint = stated
    for count in (0, 3, 5):
        assert not agrees(replace(bound, root_sums=bound.root_sums[:1] * count), blueprint)
