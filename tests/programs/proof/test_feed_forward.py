"""Single steps of the proof of registers that ReLUs write, against formulas in exact arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from exactformer import rasp
from exactformer.core.formats import FORMATS
from exactformer.core.layers import FeedForward, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.programs.proof import feed_forward as module
from exactformer.programs.proof.arithmetic import NEVER, UNKNOWN, Arithmetic, lowest_bits
from exactformer.programs.proof.cases import cases_of
from exactformer.programs.proof.feed_forward import (
    _affine,
    _are_powers,
    _distance,
    _Register,
    _slopes,
    _spacing,
    prove_feed_forward,
)
from exactformer.programs.proof.state import State
from tests.programs.proof.steps import (
    Exact,
    arithmetic_of,
    drawn,
    exact,
    hold,
    holds,
    made_state,
    nearly,
)

DIFFERENCE = rasp.SequenceMap(lambda a, b: a - b, rasp.tokens, rasp.indices)
LOSS = Fraction(1, 32)


@pytest.fixture(autouse=True)
def overflows() -> Any:
    with np.errstate(all="ignore"):
        yield


def state_of(name: str | None, share: float = 0.0, beginning: bool = True) -> State:
    """Tokens, positions and a constant are held; the difference of token and position is to be."""
    program = made_state(DIFFERENCE, [], Arithmetic())
    kinds = [type(node).__name__ for node in program.facts.nodes]
    tokens, indices, pair = (
        kinds.index(kind) for kind in ("TokensNode", "IndicesNode", "PairNode")
    )
    registers = [(tokens, None, 2), (indices, None, 2), (None, None, 1), (pair, None, 4)]
    state = made_state(DIFFERENCE, registers, arithmetic_of(name, share), beginning=beginning)
    hold(state, (0, 1, 2))
    return state


def layer_of(seed: int, powers: bool = False) -> FeedForward:
    """Directions 5, 6, 7, 8 of one, two, four and no units."""
    rng = np.random.default_rng(seed)
    w1 = Matrix.of(5, 9, drawn(rng, 5, 5, 0.2).entries)
    places = [(5, 0), (6, 1), (6, 2), (7, 0), (7, 1), (7, 3), (7, 4)]
    weights = rng.choice([-4, -1, 2], 7) if powers else rng.choice([-5, -3, 3, 7], 7)
    w2 = {place: Fraction(int(w), 4) for place, w in zip(places, weights, strict=True)}
    return FeedForward(w1, drawn(rng, 5, 1, 0.0), Matrix.of(9, 5, w2), Matrix.of(9, 1, {}))


def register_of(state: State, layer: FeedForward) -> _Register:
    weights = [state.arithmetic.weights(matrix) for matrix in (layer.w1, layer.b1, layer.w2)]
    return _Register(state, 3, *weights)


def test_a_register_whose_units_vanish_in_a_format_is_refused() -> None:
    """2⁻¹⁰⁰ is a weight of exact arithmetic, and zero in float16."""
    layer, tiny = layer_of(0), Fraction(1, 2**100)
    w1, b1, w2 = (
        Matrix(*m.shape, {place: v * tiny for place, v in m.entries.items()})
        for m in (layer.w1, layer.b1, layer.w2)
    )
    vanishing = FeedForward(w1, b1, w2, layer.b2)
    prove_feed_forward(state_of(None), vanishing, [3])
    state = state_of(None)
    state.arithmetic = Arithmetic(FORMATS["float16"])
    with pytest.raises(CertificationError, match="in float16 no unit writes it"):
        prove_feed_forward(state, vanishing, [3])


def positive(numbers: Exact) -> Exact:
    return np.where(numbers > 0, numbers, 0)


def direction_of(
    register: _Register,
    at: int,
    x: Any,
    radius: Any,
    lowest: Any,
    centre: Any,
    k: int,
    loss: Fraction,
) -> Exact:
    """Return how far a direction can be from its code, by the formula, in every case.

    Units that are on make an affine function, of which only the errors of what it reads and of its
    weights count, and their own rounding; of those that may be on, all that they may have counts. The
    sum of units has k roundings unless it is exact.
    """
    arithmetic, none = register.state.arithmetic, Fraction(0)
    name = None if arithmetic.format is None else arithmetic.format.name
    own = np.flatnonzero(register.w2[at])
    w1, b1, e1, eb = (exact(m[own]) for m in (register.w1, register.b1, register.e1, register.eb))
    w2, e2 = exact(register.w2[at, own]), exact(register.e2[at, own])
    xs, rs, cs = exact(x), exact(radius), exact(centre)
    sizes = abs(xs) + rs
    before = xs @ w1.T + b1
    total = sizes @ abs(w1).T + abs(b1)
    wrong = loss + rs @ abs(w1).T + sizes @ e1.T + eb
    fine, bits = register._exactness(
        register.w1[own], register.b1[own], np.abs(x) + radius, lowest,
        *(np.asarray(part, dtype=float) for part in (total, abs(before) + wrong)),
    )  # fmt: skip
    terms = (w1 != 0).sum(1)
    rounding = gamma(name, terms + 2) * total + (terms + 2) * Fraction(arithmetic.tiny)
    rounding = np.where(fine, none, rounding)
    away = wrong + rounding
    on, off = before >= away, before <= -away
    doubtful = ~on & ~off
    weights, errors = abs(w2) * on, e2 * on
    slope, level = (w2 * on) @ w1, (w2 * on) @ b1
    slope_error = loss + weights @ e1 + errors @ (abs(w1) + e1)
    level_error = loss + weights @ eb + errors @ (abs(b1) + eb)
    apart = abs((slope * xs).sum(1) + level - cs) + loss
    apart = apart + (abs(slope) * rs).sum(1) + (slope_error * sizes).sum(1) + level_error
    most = positive(before) + away
    result = apart + (abs(w2) * np.where(on, rounding, np.where(doubtful, most, none))).sum(1)
    if name is not None:
        height = (abs(w2) * np.where(on | doubtful, most, none)).sum(1)
        low = np.where(on, np.where(fine, bits, UNKNOWN) + lowest_bits(register.w2[at, own]), NEVER)
        size = np.where(
            (on.sum(1) <= 2) & _are_powers(register.w2[at, own]).all(), abs(cs) + apart, height
        )
        size = np.minimum(size, height) * (1 + Fraction(1, 2**20))
        whole = [
            bool(arithmetic.is_exact(np.array(float(s)), np.array(b)))
            for s, b in zip(size, low.min(1, initial=NEVER), strict=True)
        ]
        lost = gamma(name, k) * height + k * Fraction(arithmetic.tiny)
        result = result + np.where(np.array(whole) & ~doubtful.any(1), none, lost)
    return result


def gamma(name: str | None, k: Any) -> Any:
    if name is None:
        return Fraction(0)
    ku = np.asarray(k, dtype=object) * Fraction(FORMATS[name].unit)
    return ku / (1 - ku)


def inputs(seed: int, scale: float, radius: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 129, (12, 5)) / 64 * scale
    return x, rng.integers(0, 1025, (12, 5)) / 4096 * radius * scale


KINDS = [
    pytest.param(None, 1.0, 1.0, False, id="exact arithmetic"),
    pytest.param(None, 1.0, 0.0, True, id="exact codes"),
    pytest.param("bfloat16", 1.0, 1.0, False, id="bfloat16"),
    pytest.param("bfloat16", 1.0, 0.0, False, id="bfloat16, exact codes"),
    pytest.param("bfloat16", 1.0, 2.0**-7, True, id="bfloat16, powers"),
    pytest.param("bfloat16", 1.0, 0.0, True, id="bfloat16, powers, exact codes"),
    pytest.param("float16", 2.0**-10, 1.0, False, id="float16, small"),
    pytest.param("float16", 2.0**-10, 0.0, True, id="float16, small, powers"),
    pytest.param("float32", 1.0, 0.0, True, id="float32, exact"),
]


@pytest.mark.parametrize(("name", "scale", "radius", "powers"), KINDS)
@pytest.mark.parametrize("share", [0.0, 1 / 16])
def test_directions_err_by_their_formula(
    name: str | None, scale: float, radius: float, powers: bool, share: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    seed = int(share > 0)
    state, layer = state_of(name, share), layer_of(seed, powers)
    small = replace(
        layer, b1=Matrix.of(5, 1, {p: v * Fraction(scale) for p, v in layer.b1.entries.items()})
    )
    register = register_of(state, small)
    x, radii = inputs(seed, scale, radius)
    lowest = _spacing(state.arithmetic, x, radii)
    centre = np.random.default_rng(seed).integers(-64, 65, (12, 3)) / 64 * scale
    centre[::3] = 0.0
    none = np.zeros(12)
    at = np.arange(2)
    pairs = register._pairs(at, x, radii, lowest, centre[:, :2])
    for k in (0, 1):
        nearly(
            pairs[:, k], direction_of(register, k, x, radii, lowest, centre[:, k], 3, Fraction(0))
        )
    nearly(
        register._direction(2, x, radii, lowest, centre[:, 2], none + 0.25),
        direction_of(register, 2, x, radii, lowest, centre[:, 2], 5, Fraction(0)) + Fraction(1, 4),
    )
    nearly(
        register._pairs(np.array([3]), x, radii, lowest, centre[:, :1])[:, 0],
        abs(exact(centre[:, 0])),
    )
    monkeypatch.setattr(
        module,
        "times",
        lambda a, b: (a @ b, np.full((len(a), b.shape[1]), float(LOSS * Fraction(scale)))),
    )
    nearly(
        register._direction(2, x, radii, lowest, centre[:, 2], none),
        direction_of(register, 2, x, radii, lowest, centre[:, 2], 5, LOSS * Fraction(scale)),
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["bfloat16", None])
def test_directions_of_whole_numbers_err_by_their_formula(seed: int, name: str | None) -> None:
    """Some sums are exact: all terms fit, or two that cancel; some have inputs known up to 1/2."""
    rng = np.random.default_rng(seed)
    register = register_of(state_of(name), layer_of(0))
    reach = (3, 40, 150)[seed % 3]
    register.w1 = rng.choice([-1.0, 1.0, 2.0, 3.0], (5, 5)) * (rng.random((5, 5)) < 0.3)
    register.w1[[0, 1, 3]] = np.eye(5)[[0, 1, 1]] * rng.choice([-1.0, 1.0, 2.0], (3, 1))
    register.w1[2] = register.w1[1]
    register.b1 = rng.integers(-reach, reach, 5).astype(float)
    register.b1[2] = register.b1[1] - 1
    register.w2 = np.sign(register.w2) * rng.choice(
        [1.0, 2.0, 4.0, 3.0], register.w2.shape, p=[0.4, 0.3, 0.2, 0.1]
    )
    register.w2[1, 2] = -register.w2[1, 1]
    register.e1, register.eb, register.e2 = (
        np.zeros(m.shape) for m in (register.w1, register.b1, register.w2)
    )
    x = rng.integers(-reach, reach, (12, 5)).astype(float)
    x[::2] *= rng.random((6, 5)) < 0.5
    radius = (np.abs(x) >= 129) * (rng.random((12, 5)) < 0.5) * 0.5
    lowest = _spacing(state_of("bfloat16").arithmetic, x, radius)
    units = np.maximum(x @ register.w1.T + register.b1, 0) @ register.w2.T
    centre = units[:, :3] + rng.integers(0, 2, (12, 3)) * (rng.random((12, 3)) < 0.5)
    centre = np.where(rng.random((12, 3)) < 0.2, -centre, centre)
    pairs = register._pairs(np.arange(2), x, radius, lowest, centre[:, :2])
    for k in (0, 1):
        nearly(
            pairs[:, k], direction_of(register, k, x, radius, lowest, centre[:, k], 3, Fraction(0))
        )
    nearly(
        register._direction(2, x, radius, lowest, centre[:, 2], np.zeros(12)),
        direction_of(register, 2, x, radius, lowest, centre[:, 2], 5, Fraction(0)),
    )


@pytest.mark.parametrize(
    ("x", "w2", "code", "charged"),
    [
        pytest.param((100, 100), (1, 1), 200, False, id="all terms fit"),
        pytest.param((255, 1), (1, 1), 256, True, id="but for the rounding of the bound"),
        pytest.param((201, 101), (1, 1), 302, True, id="nine bits"),
        pytest.param((201, 101), (1, 1), 0, True, id="nine bits, another code"),
        pytest.param((201, 101), (1, -1), 100, False, id="terms cancel"),
        pytest.param((201, 101), (1, -1), -300, True, id="nothing says that they cancel"),
        pytest.param((201, 201), (0.5, 0.5), 201, True, id="half bits"),
        pytest.param((201, 67), (1, -3), 0, True, id="three is rounded before"),
    ],
)
def test_sums_of_two_units_are_exact_as_their_formula_says(
    x: tuple[int, int], w2: tuple[float, float], code: int, charged: bool
) -> None:
    register = one_unit("bfloat16", [1.0, 1.0], 0.0, [1.0])
    register.w1, register.e1 = np.eye(2), np.zeros((2, 2))
    register.b1, register.eb = np.zeros(2), np.zeros(2)
    register.w2, register.e2 = np.array([w2], dtype=float), np.zeros((1, 2))
    check_sum(register, np.array([x], dtype=float), float(code), charged)


def check_sum(register: _Register, x: Any, code: float, charged: bool) -> None:
    """Assert the formula both ways, and whether more is charged than the distance from the code."""
    given = x, 0 * x, lowest_bits(x)
    found = register._pairs(np.array([0]), *given, np.array([[code]]))[:, 0]
    again = register._direction(0, *given, np.array([code]), np.zeros(1))
    for away, k in ((found, 3), (again, 1 + register.w2.shape[1])):
        nearly(away, direction_of(register, 0, *given, np.array([code]), k, Fraction(0)))
    values = np.maximum(x @ register.w1.T + register.b1, 0)
    assert (found > np.abs(values @ register.w2[0] - code)).all() == charged


def test_a_unit_that_is_rounded_makes_its_sum_inexact() -> None:
    """201 − 201 + 1 is one, from terms that have nine bits."""
    register = one_unit("bfloat16", [1.0, -1.0], 9.0, [1.0])
    check_sum(register, np.array([[201.0, 201.0]]), 9.0, charged=True)


def test_units_of_other_directions_do_not_make_a_sum_inexact() -> None:
    """Direction 0 has the second unit alone, 512 exactly; the first is on, and is rounded."""
    register = one_unit("bfloat16", [1.0, 1.0], 0.0, [1.0])
    register.w1, register.e1 = np.array([[129 / 128, 129 / 128], [1.0, 0.0]]), np.zeros((2, 2))
    register.b1, register.eb = np.zeros(2), np.zeros(2)
    register.w2, register.e2 = np.array([[0.0, 1.0]]), np.zeros((1, 2))
    x = np.array([[512.0, 3.0]])
    assert register._pairs(np.array([0]), x, 0 * x, lowest_bits(x), x[:, :1]) == 0


def test_units_are_exact_by_their_size_with_what_may_be_wrong_whatever_their_sign() -> None:
    """255 ± 1/2 and −291 have more than 8 bits; 155 ± 1/2 has not."""
    register = one_unit("bfloat16", [1.0], -45.0, [1.0])
    for x, bias, radius, fine in (
        (300.0, -45.0, 0.0, True),
        (300.0, -45.0, 2.0, False),
        (300.0, -145.0, 2.0, True),
        (10.0, -301.0, 0.0, False),
    ):
        register.b1[:] = bias
        given = np.array([[x]]), np.array([[radius]]), np.array([[0]])
        assert bool(register._units(np.array([0]), *given)[4]) == fine


def one_unit(name: str | None, w1: list[float], b1: float, w2: list[float]) -> _Register:
    """Return a register whose directions, as many as there are weights w2, read one unit."""
    register = register_of(state_of(name), layer_of(0))
    register.w1, register.e1 = np.array([w1]), np.zeros((1, len(w1)))
    register.b1, register.eb = np.array([b1]), np.zeros(1)
    register.w2, register.e2 = np.array(w2)[:, None], np.zeros((len(w2), 1))
    return register


@pytest.mark.parametrize("sign", [1, -1])
def test_a_unit_is_on_or_off_only_beyond_the_rounding_of_its_bound(sign: int) -> None:
    """At 1/2 ± 1/2 it is in doubt, as the bound is raised; from (1 + 2^−20)/2 on it is not."""
    register = one_unit(None, [1.0], 0.0, [1.0])
    for more, doubtful in ((0.0, True), (2.0**-21 - 2.0**-50, True), (2.0**-21, False)):
        x = np.array([[sign * (0.5 + more)]])
        centre = np.maximum(x, 0)
        for away in (
            register._pairs(np.array([0]), x, np.full((1, 1), 0.5), None, centre),  # type: ignore[arg-type]
            register._direction(0, x, np.full((1, 1), 0.5), None, centre[:, 0], np.zeros(1)),  # type: ignore[arg-type]
        ):
            sure = 0.5 if sign > 0 else 0.0
            assert (away.item() > sure + 0.4) == doubtful
            assert away.item() >= sure


def test_a_unit_at_zero_is_exactly_zero() -> None:
    for x in (0.0, -0.0):
        register = one_unit("bfloat16", [1.0], 0.0, [3.0])
        given = np.array([[x]]), np.zeros((1, 1)), np.full((1, 1), NEVER)
        assert register._pairs(np.array([0]), *given, np.zeros((1, 1))) == 0
        assert register._direction(0, *given, np.zeros(1), np.zeros(1)) == 0


# Exactness


def exactness(
    w1: list[float], b1: float, x: list[float], name: str = "bfloat16"
) -> tuple[bool, int]:
    """Return whether a unit is exact for inputs that are codes, and its lowest bit."""
    register = one_unit(name, w1, b1, [1.0])
    xs = np.array([x])
    before = xs @ register.w1.T + b1
    total = np.abs(xs) @ np.abs(register.w1).T + abs(b1)
    fine, bits = register._exactness(
        register.w1, register.b1, np.abs(xs), lowest_bits(xs), total, np.abs(before)
    )
    return bool(fine[0, 0]), int(bits[0, 0])


def test_a_unit_is_exact_where_all_its_terms_fit() -> None:
    assert exactness([1.0, 1.0], 1.0, [100.0, 101.0]) == (True, 0)
    assert exactness([1.0, 1.0], 1.0, [150.0, -151.0]) == (False, 0)
    assert exactness([3.0], 0.5, [9.0]) == (True, -1)
    assert exactness([0.5], 4.0, [1.0]) == (True, -1)
    assert exactness([3.0], 1.0, [100.0]) == (False, 0)
    # 255 is a sum of sizes that fits; 256 does only but for the rounding of the bound.
    assert exactness([1.0, 1.0], 1.0, [127.0, 127.0])[0]
    assert not exactness([1.0, 1.0], 1.0, [128.0, 127.0])[0]


def test_one_number_times_a_power_of_two_and_a_bias_cancel_exactly() -> None:
    assert exactness([2.0], -255.0, [128.0])[0]
    assert exactness([2.0, 1.0], -255.0, [128.0, 0.0])[0]
    assert not exactness([2.0, 1.0], -255.0, [127.0, 2.0])[0]
    assert not exactness([3.0], -255.0, [85.0])[0]
    assert not exactness([2.0], -101.0, [251.0])[0]
    assert not exactness([2.0, 3.0], -255.0, [128.0, 0.0])[0]


def test_units_that_read_differently_are_told_apart() -> None:
    register = one_unit("bfloat16", [1.0, 0.0], 0.0, [1.0])
    w1, b1 = (
        np.array([[1.0, 0.0], [0.0, 0.25], [3.0, 0.0], [2.0, 0.0]]),
        np.array([0.0, 0.0, 0.5, -511.0]),
    )
    x = np.array([[200.0, 6.0], [1.0, 200.0]])
    before, total = x @ w1.T + b1, x @ np.abs(w1).T + np.abs(b1)
    fine, bits = register._exactness(w1, b1, x, lowest_bits(x), total, np.abs(before))
    assert fine.tolist() == [[True, True, False, True], [True, True, True, False]]
    assert bits.tolist() == [[3, -1, -1, 0], [0, 1, -1, 0]]


def test_units_that_overflow_are_refused() -> None:
    register = one_unit("bfloat16", [1.0], 0.0, [1.0])
    for size, wide in ((2.0**125, 4.0), (2.0**125, -4.0), (2.0**127, 0.25)):
        register.w2[:] = wide
        x = np.array([[size]])
        given = x, np.zeros((1, 1)), lowest_bits(x)
        with pytest.raises(CertificationError, match="overflow"):
            register._pairs(np.array([0]), *given, x)
        with pytest.raises(CertificationError, match="overflow"):
            register._direction(0, *given, x[0], np.zeros(1))
    twice = one_unit("bfloat16", [1.0], 0.0, [1.0])
    twice.w1, twice.e1, twice.b1, twice.eb = (
        np.repeat(m, 2, axis=0) for m in (twice.w1, twice.e1, twice.b1, twice.eb)
    )
    twice.w2, twice.e2 = np.ones((1, 2)), np.zeros((1, 2))
    x = np.array([[2.0**126]])
    with pytest.raises(CertificationError, match="overflow"):
        twice._pairs(np.array([0]), x, 0 * x, lowest_bits(x), 2 * x)
    with pytest.raises(CertificationError, match="overflow"):
        twice._direction(0, x, 0 * x, lowest_bits(x), 2 * x[0], np.zeros(1))
    exactly = one_unit(None, [1.0], 0.0, [2.0])
    x = np.array([[2.0**400]])
    assert exactly._exactness(exactly.w1, exactly.b1, x, None, x, x)[0].all()  # type: ignore[arg-type]
    assert exactly._pairs(np.array([0]), x, np.zeros((1, 1)), None, 2 * x) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
def test_floats_away_from_zero_are_multiples_of_their_spacing(name: str) -> None:
    target, arithmetic = FORMATS[name], Arithmetic(FORMATS[name])
    x = np.array([[3.0, -3.0, 5.0, 0.25, 0.0, 1.0, 3.0, 2.0**target.low * 4, 2.0**target.low * 4]])
    radius = np.array(
        [[0.5, 0.5, 2.0, 0.25, 0.125, 0.0, 0.0, 2.0**target.low * 2, 2.0**target.low * 3.5]]
    )
    found = _spacing(arithmetic, x, radius)[0]
    p = target.precision
    assert found[:3].tolist() == [2 - p, 2 - p, 2 - p]
    assert (found[[3, 4, 8]] == UNKNOWN).all()
    assert found[5:7].tolist() == [0, 0]
    assert found[7] == target.low + 1 - p
    for k in (0, 1, 2, 7):
        lowest = Fraction(abs(x[0, k])) - Fraction(radius[0, k])
        float_there = target.round(lowest)
        assert float_there is not None
        assert (float_there / Fraction(2) ** int(found[k])).denominator == 1
    # An end that is a power of two is passed by the bound of the radius: the spacing below it counts.
    assert _spacing(arithmetic, np.array([[3.0]]), np.array([[1.0]])) == 1 - p
    assert (
        _spacing(arithmetic, np.array([[2.0**target.low * 2]]), np.array([[2.0**target.low]]))
        == UNKNOWN
    )
    least = np.array([[np.nextafter(2.0**target.low, 1.0)]])  # the smallest normal number is one
    assert _spacing(arithmetic, least, np.array([[5e-324]])) == target.low + 1 - p
    # So it does where the difference is rounded to it.
    assert _spacing(arithmetic, np.array([[1.0]]), np.array([[2.0**-60]])) == -p
    assert not _spacing(Arithmetic(), x, radius).any()


def test_powers_of_two_are_told_from_other_numbers() -> None:
    assert (
        _are_powers(np.array([1.0, -0.25, 2.0**40, 3.0, 0.0, -1.5])).tolist()
        == [True] * 3 + [False] * 3
    )


# Affine functions


@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_units_make_affine_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, changes = rng.integers(-8, 9, (4, 2)) / 4, rng.random((4, 2))
    both, errors = rng.integers(-8, 9, (4, 2, 3)) / 4, rng.random((4, 2, 3))
    slope, error = _slopes(weights, changes, both, errors)
    w, c, b, e = map(exact, (weights[:, :, None], changes[:, :, None], both, errors))
    assert (exact(slope) == (w * b).sum(1)).all()
    nearly(error, (abs(w) * e + c * (abs(b) + e)).sum(1))
    zero = np.zeros((4, 2)), np.zeros((4, 2, 3))
    assert not _slopes(weights, zero[0], both, zero[1])[1].any()


def test_slopes_that_are_rounded_err_by_two_units() -> None:
    """Multiples of one are added exactly below 2^53; 2^53 + 1 is 2^53 for floats, and charged."""
    weights, zero = np.array([[1.0, 1.0]]), np.zeros((1, 2))
    for second, lost in ((0.0, 0), (1.0, 1), (2.0, 1), (3.0, 1)):
        both = np.array([[[2.0**53 - 1], [second]]])
        formula = lost * (Fraction(2**53) - 1 + Fraction(second)) / 2**51
        slope, error = _slopes(weights, zero, both, np.zeros((1, 2, 1)))
        assert abs(Fraction(slope.item()) - 2**53 + 1 - Fraction(second)) <= Fraction(error.item())
        nearly(error, formula)
        error = _slopes(both[..., 0], zero, weights[..., None] * 4, np.zeros((1, 2, 1)))[1]
        nearly(error, 4 * formula)
        nearly(_slopes(weights / 2, zero, both, np.zeros((1, 2, 1)))[1], formula / 2)
        nearly(_slopes(weights * [1, -1], zero, both, np.zeros((1, 2, 1)))[1], formula)
    assert not _slopes(zero, zero, np.zeros((1, 2, 1)), np.zeros((1, 2, 1)))[1].any()


@pytest.mark.parametrize("seed", range(3))
def test_affine_functions_are_as_far_from_codes_as_their_formula_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slope, slope_error = rng.integers(-8, 9, (3, 5)) / 4, rng.random((3, 5))
    x, radius, centre = (
        rng.integers(-8, 9, (6, 4)) / 4,
        rng.random((6, 4)),
        rng.integers(-8, 9, (6, 3)) / 4,
    )
    s, e, xs, rs, cs = map(exact, (slope, slope_error, x, radius, centre))
    formula = abs(xs @ s[:, :-1].T + s[:, -1] - cs) + rs @ abs(s[:, :-1]).T
    nearly(
        _distance(slope, slope_error, x, radius, centre),
        formula + (abs(xs) + rs) @ e[:, :-1].T + e[:, -1],
    )
    nothing = np.zeros(slope.shape), np.zeros(x.shape)
    assert (
        _distance(slope, nothing[0], x, nothing[1], centre)
        == np.abs(x @ slope[:, :-1].T + slope[:, -1] - centre)
    ).all()


@pytest.mark.parametrize(
    ("x", "line", "level", "centre"),
    [
        (2.0**52 + 1, 1.0, 2.0**51 - 2, 2.0**51),
        (2.0**51 - 2, 1.0, 2.0**52 + 1, 2.0**51),
        (2.0**51 - 2, 1.0, 2.0**51, 2.0**52 + 1),
        (2.0**49, 3.0, 2.0**52, 2.0**51 + 2.0**49 - 1),
        (1.5, 2.0**52 - 2, 2.0, 2.0**51),
        (0.0, 3.0, 2.0**52 - 1, 2.0**52),
    ],
)
def test_distances_are_exact_below_53_bits(
    x: float, line: float, level: float, centre: float
) -> None:
    """Multiples of one whose sizes add up to 2^53 − 1 are; those that add up to more are charged."""
    xs, zero, slope = np.array([[x, 0.0]]), np.zeros((1, 2)), np.array([[line, 0.0, level]])
    value = Fraction(x) * Fraction(line) + Fraction(level)
    assert abs(value) + Fraction(centre) == 2**53 - 1
    for more in range(4):
        code = Fraction(centre) + more
        found = _distance(slope, np.zeros((1, 3)), xs, zero, np.array([[float(code)]])).item()
        product = int(Fraction(x) * Fraction(line))
        if all(number % 2 == 0 for number in (product, level, int(code))) or not more:
            assert found == abs(value - code)
        else:
            charged = 5 * (2**53 - 1 + more) / Fraction(2) ** 52
            assert abs(value - code) + charged - 2 < found < abs(value - code) + charged + 2


def test_numbers_that_are_not_used_do_not_make_a_distance_inexact() -> None:
    slope, x = np.array([[0.0, 3.0, 1.0]]), np.array([[0.1, 0.0]])
    assert _distance(slope, np.zeros((1, 3)), x, np.zeros((1, 2)), np.array([[1.0]])) == 0


def test_what_is_rounded_in_a_distance_is_charged() -> None:
    """n + 3 numbers of 52 bits, n slopes with a level: (n + 3)·2^−52 of their sizes."""
    rng = np.random.default_rng(0)
    slope, x = rng.normal(size=(2, 4)), rng.normal(size=(5, 3))
    slope[0, -1] = -2.5
    s, xs = map(exact, (slope, x))
    code = np.asarray(xs @ s[:, :-1].T + s[:, -1], dtype=float)
    away = _distance(slope, np.zeros((2, 4)), x, np.zeros((5, 3)), code)
    total = abs(xs) @ abs(s[:, :-1]).T + abs(s[:, -1]) + abs(exact(code))
    shown = np.abs(x @ slope[:, :-1].T + slope[:, -1] - code)
    nearly(away, exact(shown) + total * 6 / 2**52)
    assert (exact(away) >= abs(xs @ s[:, :-1].T + s[:, -1] - exact(code))).all()


@pytest.mark.parametrize("seed", range(3))
def test_units_that_are_on_make_an_affine_function(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    w1, b1, w2 = (rng.integers(-8, 9, shape) / 4 for shape in ((9, 4), 9, 9))
    e1, eb, e2 = rng.random((9, 4)), rng.random(9), rng.random(9)
    x, radius, centre = (
        rng.integers(-8, 9, (7, 4)) / 4,
        rng.random((7, 4)),
        rng.integers(-8, 9, 7) / 4,
    )
    on = rng.random((7, 9)) < 0.5
    on[3:5] = on[:2]
    monkeypatch.setattr(
        module, "times", lambda a, b: (a @ b, np.full((len(a), b.shape[1]), float(LOSS)))
    )
    found = _affine(on, x, radius, w1, b1, w2, e1, eb, e2, centre)
    xs, rs, cs, a, b, c, ea, eb_, ec = map(exact, (x, radius, centre, w1, b1, w2, e1, eb, e2))
    slope, level = (c * on) @ a, (c * on) @ b
    error = LOSS + (abs(c) * on) @ ea + (ec * on) @ (abs(a) + ea)
    height = LOSS + (abs(c) * on) @ eb_ + (ec * on) @ (abs(b) + eb_)
    away = abs((slope * xs).sum(1) + level - cs) + LOSS + (abs(slope) * rs).sum(1)
    nearly(found, away + (error * (abs(xs) + rs)).sum(1) + height)


# Registers and layers


@pytest.mark.parametrize("beginning", [True, False])
@pytest.mark.parametrize("together", [1, 50, 4_000_000])
def test_a_register_errs_as_in_its_worst_case(
    beginning: bool, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TOGETHER", together)
    state = state_of("bfloat16", 1 / 16, beginning)
    register = register_of(state, layer_of(4))
    errors = np.random.default_rng(0).random(state.claimed(3)[0].shape)
    state._claims[3] = state.claimed(3)[0], errors
    centre, radius = register.prove()
    assert (centre == state.claimed(3)[0]).all()
    tokens, indices, constant = (state.held[k] for k in range(3))
    cases = cases_of(state, [tokens.root, indices.root], register.register.node, None)
    worst = [[Fraction(0)] * 4 for _ in centre]
    for k in range(len(cases) + beginning):
        last = k == len(cases)
        places = (
            [-1] * 3 if last else [int(cases.columns[h.root][k]) for h in (tokens, indices)] + [0]
        )
        row = -1 if last else int(cases.target[k])
        parts = list(zip((tokens, indices, constant), places, strict=True))
        x, radii = (
            np.concatenate([(h.centre if own else h.radius)[at] for h, at in parts])[None]
            for own in (True, False)
        )
        lowest = _spacing(state.arithmetic, x, radii)
        code = centre[row][None]
        away = [
            *register._pairs(np.array([0, 1]), x, radii, lowest, code[:, :2])[0],
            *register._direction(2, x, radii, lowest, code[:, 2], np.zeros(1)),
            *register._pairs(np.array([3]), x, radii, lowest, code[:, 3:])[0],
        ]
        total = exact(away) + exact(errors[row])
        worst[row] = [max(a, b) for a, b in zip(worst[row], total, strict=True)]
    holds(radius, np.array(worst))


def test_a_register_has_the_units_that_write_to_it() -> None:
    layer = layer_of(0)
    moved = {(5, 0): 1, (6, 1): 1, (0, 2): 1, (0, 3): 1, (1, 4): 1}
    w1 = {(0, 0): 2, (1, 3): 1, (2, 1): 1, (3, 2): 1, (4, 4): 1}
    apart = replace(layer, w1=Matrix.of(5, 9, w1), w2=Matrix.of(9, 5, moved))
    register = register_of(state_of(None), apart)
    assert register.w1.tolist() == [[2.0, 0.0], [0.0, 1.0]]
    assert register.read.tolist() == [0, 3]
    every = replace(layer, w2=Matrix.of(9, 5, {(d, 0): 1 for d in range(5, 9)}))
    assert len(register_of(state_of(None), every).w1) == 1


def test_units_may_read_nothing() -> None:
    """A bias of three, times 3/4; the code of every value is compared with it."""
    state = state_of(None)
    nothing, bias = Matrix.of(1, 9, {}), Matrix.of(1, 1, {(0, 0): 3})
    layer = FeedForward(
        nothing, bias, Matrix.of(9, 1, {(5, 0): Fraction(3, 4)}), Matrix.of(9, 1, {})
    )
    centre, radius = register_of(state, layer).prove()
    holds(radius[:, 0], abs(exact(centre[:, 0]) - Fraction(9, 4)))


def test_what_a_unit_reads_is_held() -> None:
    state, layer = state_of(None), layer_of(0)
    del state.held[1]
    with pytest.raises(CertificationError, match="nothing is known"):
        register_of(state, layer).prove()
    own = replace(layer, w1=Matrix.of(5, 10, {(0, 9): 1}))
    with pytest.raises(CertificationError, match="direction 9, of which nothing is known"):
        register_of(state_of(None), own).prove()


def test_a_layer_has_relus_without_constants_that_are_all_used() -> None:
    state, layer = state_of(None), layer_of(0)
    prove_feed_forward(state, layer, [])
    assert 3 not in state.held
    prove_feed_forward(state, layer, [3])
    centre, radius = register_of(state, layer).prove()
    assert (state.held[3].centre == centre).all()
    assert (state.held[3].radius >= radius).all()
    for wrong, text in (
        (replace(layer, successive=5), "in one layer"),
        (replace(layer, b2=Matrix.of(9, 1, {(0, 0): 1})), "adds a constant"),
        (
            replace(layer, activation=PiecewiseLinear.of((0,), ((0, 0), (2, 0)))),
            "has ReLUs",
        ),
        (
            replace(
                layer, w2=Matrix.of(9, 5, {p: v for p, v in layer.w2.entries.items() if p[1] != 3})
            ),
            "writes to no register",
        ),
        (
            replace(
                layer,
                w1=Matrix.of(5, 9, {(0, 0): 1}),
                b1=Matrix.of(5, 1, {(4, 0): 1}),
                w2=Matrix.of(9, 5, {(5, 0): 1}),
            ),
            "writes to no register",
        ),
        (
            replace(
                layer,
                w1=Matrix.of(5, 9, {(4, 0): 1}),
                b1=Matrix.of(5, 1, {}),
                w2=Matrix.of(9, 5, {(5, 0): 1}),
            ),
            "writes to no register",
        ),
    ):
        with pytest.raises(CertificationError, match=text):
            prove_feed_forward(state_of(None), wrong, [3])
    unused = replace(
        layer,
        w1=Matrix.of(5, 9, {(0, 0): 1}),
        b1=Matrix.of(5, 1, {}),
        w2=Matrix.of(9, 5, {(5, 0): 1}),
    )
    prove_feed_forward(state_of(None), unused, [3])
