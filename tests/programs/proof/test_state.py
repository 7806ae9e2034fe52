"""What is read of registers that are held, against formulas in exact arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from exactformer import rasp
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import Register
from exactformer.programs.proof import state as module
from exactformer.programs.proof.arithmetic import NEVER, SMALLEST, UNKNOWN, Arithmetic
from exactformer.programs.proof.state import Read, Reading, State, _added_up
from tests.programs.proof.steps import arithmetic_of, drawn, exact, hold, holds, made_state, nearly

EQUAL = rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ)
FIRST = rasp.Select(rasp.indices, rasp.indices, lambda k, q: k == 0)
WIDTH = rasp.SelectorWidth(EQUAL | FIRST)
ONE = rasp.SelectorWidth(EQUAL)
SIGN = rasp.Map(lambda x: min(x, 1), rasp.tokens)


@pytest.fixture(autouse=True)
def overflows() -> Any:
    with np.errstate(all="ignore"):
        yield


def node_of(state: State, kind: str) -> int:
    return [type(node).__name__ for node in state.facts.nodes].index(kind)


def state_of(beginning: bool, name: str | None = None) -> State:
    """Tokens, a constant, a function of the tokens, and what is not written yet."""
    kinds = made_state(SIGN, [], Arithmetic())
    tokens, sign = node_of(kinds, "TokensNode"), node_of(kinds, "MapNode")
    registers = [(tokens, None, 2), (None, None, 1), (sign, None, 1), (sign, None, 1)]
    state = made_state(SIGN, registers, arithmetic_of(name), beginning=beginning)
    hold(state, (0, 1, 2))
    return state


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beginning", [True, False])
@pytest.mark.parametrize("loss", [0.0, 0.25])
def test_a_matrix_reads_sums_of_registers_by_root(
    seed: int, beginning: bool, loss: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Σ w·c ± Σ |w|·r + e·(|c| + r), for every value of a root, and for the beginning token."""
    monkeypatch.setattr(module, "times", lambda a, b: (a @ b, np.full((len(a), b.shape[1]), loss)))
    rng, state = np.random.default_rng(seed), state_of(beginning)
    state.hold(0, *(rng.random((3 + beginning, 2)) for _ in range(2)))
    weights, errors = rng.normal(size=(3, 5)) * (rng.random((3, 5)) < 0.8), rng.random((3, 5))
    weights[:, 4] = errors[:, 4] = 0
    weights[0, 0] = 0.0
    reading = state.read_weights(weights, errors)
    assert reading.terms.tolist() == (weights != 0).sum(1).tolist()
    tokens = state.root(state.blueprint.registers[0])
    assert {part.root for part in reading.parts} == {tokens, None}
    groups: list[tuple[Read | None, list[int], list[list[int]]]] = [
        (reading.part(tokens), [0, 2], [[0, 0], [1, 1], [2, 1]]),
        (reading.part(None), [1], [[0]]),
    ]
    if beginning:
        groups.append((reading.beginning, [0, 2, 1], [[-1, -1, -1]]))
    else:
        assert reading.beginning is None
    w, e = exact(weights), exact(errors)
    for part, numbers, rows in groups:
        assert part is not None
        assert len(part.centre) == len(rows)
        for k, places in enumerate(rows):
            held = [(state.held[n], row) for n, row in zip(numbers, places, strict=True)]
            at = np.concatenate([h.directions for h, _ in held])
            c = np.concatenate([exact(h.centre[row]) for h, row in held])
            r = np.concatenate([exact(h.radius[row]) for h, row in held])
            truth, size = w[:, at] @ c, abs(w[:, at]) @ (abs(c) + r)
            away = abs(w[:, at]) @ r + e[:, at] @ (abs(c) + r) + len(numbers) * Fraction(loss)
            assert (abs(exact(part.centre[k]) - truth) <= Fraction(1, 2**45)).all()
            holds(part.radius[k], away)
            holds(part.size[k], size)


def test_sums_of_registers_that_are_rounded_are_charged() -> None:
    state = made_state(SIGN, [(None, None, 1)] * 2, Arithmetic(), beginning=False)
    state.hold(0, np.array([[2.0**53]]), np.zeros((1, 1)))
    state.hold(1, np.array([[1.0]]), np.zeros((1, 1)))
    part = state.read_weights(np.ones((1, 2)), np.zeros((1, 2))).parts[0]
    assert part.centre == 2.0**53
    holds(part.radius, Fraction(1))


def test_products_take_the_lowest_bits_of_codes_and_weights() -> None:
    state = made_state(SIGN, [(None, None, 1)] * 3, Arithmetic(), beginning=True)
    state.hold(0, np.array([[0.75], [3.0]]), np.zeros((2, 1)))
    state.hold(1, np.array([[8.0], [1.0]]), np.zeros((2, 1)))
    state.hold(2, np.array([[8.0], [1.0]]), np.array([[0.5], [0.0]]))
    weights = np.array(
        [[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 4.0], [0.0] * 3]
    )
    reading = state.read_weights(weights, np.zeros(weights.shape))
    assert reading.parts[0].lowest.tolist() == [0, 4, -3, UNKNOWN + 2, NEVER]
    assert reading.beginning is not None
    assert reading.beginning.lowest.tolist() == [2, 1, -1, 2, NEVER]
    assert reading.lowest.tolist() == [0, 1, -3, UNKNOWN + 2, NEVER]
    assert replace(reading, beginning=None).lowest.tolist() == reading.parts[0].lowest.tolist()
    assert Reading((), None, np.ones(2)).lowest.tolist() == [NEVER] * 2
    several = state_of(False)
    for codes in ([0.75, 1.0, 8.0], [8.0, 1.0, 0.75]):
        several.hold(0, np.array([codes, [1.0] * 3]).T, np.zeros((3, 2)))
        assert several.read_weights(np.eye(5)[:2], np.zeros((2, 5))).lowest.tolist() == [-2, 0]


@pytest.mark.parametrize("errors", [True, False])
def test_what_is_read_is_held(errors: bool) -> None:
    state = state_of(True)
    for direction, text in ((4, "not written yet"), (5, "holds no register")):
        one = np.zeros((1, 6))
        one[0, direction] = 1.0
        with pytest.raises(CertificationError, match=text):
            state.read_weights(*((0 * one, one) if errors else (one, 0 * one)))


@pytest.mark.parametrize("share", [0.0, 0.0625])
def test_rows_of_a_matrix_are_read_as_weights_of_the_arithmetic(share: float) -> None:
    state = state_of(True)
    state.arithmetic = arithmetic_of(None, share)
    matrix = Matrix.of(3, 5, drawn(np.random.default_rng(0), 3, 4).entries)
    whole = state.read_weights(*state.arithmetic.weights(matrix))
    for rows in (None, [2, 0]):
        found = state.read(matrix, rows)
        for a, b in zip(
            (*found.parts, found.beginning), (*whole.parts, whole.beginning), strict=True
        ):
            assert a is not None
            assert b is not None
            own = slice(None) if rows is None else rows
            assert (a.centre == b.centre[:, own]).all()
            assert (a.radius == b.radius[:, own]).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_case_adds_up_what_is_read_of_its_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    roots = [None, (0, None), (1, None)]
    parts = [
        Read(
            root,
            rng.normal(size=(n, 2)),
            rng.random((n, 2)),
            np.zeros((n, 2)),
            np.zeros(2, np.int64),
        )
        for root, n in zip(roots, (1, 2, 3), strict=True)
    ]
    places: dict[Any, Any] = {(0, None): np.array([0, 1, 1]), (1, None): np.array([2, 0, 1])}
    reading = Reading(tuple(parts), None, np.ones(2))
    centre, radius = reading.at(places, 3)
    rows = [np.zeros(3, int), places[0, None], places[1, None]]
    truth = sum(exact(part.centre[at]) for part, at in zip(parts, rows, strict=True))
    away = sum(exact(part.radius[at]) for part, at in zip(parts, rows, strict=True))
    assert (abs(exact(centre) - truth) + away <= exact(radius)).all()
    nearly(centre, truth)
    nearly(radius, away)
    assert reading.part((1, None)) is parts[2]
    assert reading.part((2, None)) is None


def test_sums_of_a_case_that_are_rounded_are_charged() -> None:
    parts = [
        Read(None, np.array([[v]]), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1, np.int64))
        for v in (2.0**53, 1.0)
    ]
    centre, radius = Reading(tuple(parts), None, np.ones(1)).at({}, 2)
    assert (centre == 2.0**53).all()
    holds(radius, Fraction(1))


def test_registers_hold_finite_bounds() -> None:
    state = state_of(True)
    centre, radius = np.ones((4, 2)), np.full((4, 2), 0.3)
    state.hold(0, centre, radius)
    holds(state.held[0].radius, Fraction(0.3) * (1 + Fraction(1, 2**21)))
    assert state.held[0].directions.tolist() == [0, 1]
    for wrong in (np.inf, np.nan):
        radius[2, 1] = wrong
        with pytest.raises(CertificationError, match="no bound holds in exact arithmetic"):
            state.hold(0, centre, radius)


def test_radii_that_products_would_lose_are_raised() -> None:
    state = state_of(True)
    radius = np.array([[0.0, 2.0**-1074]] * 4)
    state.hold(0, np.zeros((4, 2)), radius)
    assert state.held[0].radius.tolist() == [[0.0, SMALLEST]] * 4


# Roots


def test_a_register_is_a_function_of_a_node_a_term_or_nothing() -> None:
    state = made_state(WIDTH, [], Arithmetic())
    width, tokens = node_of(state, "WidthNode"), node_of(state, "TokensNode")
    none = Matrix.of(1, 1, {})
    assert len(state.facts.terms(state.facts.nodes[width].selector)) == 2

    def root(state: State, *names: Any) -> Any:
        return state.root(Register(*names, (0,), none))

    assert root(state, width, 1) == (width, 1)
    assert root(state, width, None) == (width, None)
    assert root(state, tokens, None) == (tokens, None)
    assert root(state, tokens, 0) == (tokens, None)
    assert root(state, None, None) is None
    assert [state.values(r) for r in (None, (tokens, None), (width, None))] == [
        1,
        3,
        len(state.facts.universe(width)),
    ]
    widths = state.facts.term_widths(state.facts.nodes[width].selector, 1)
    assert state.values((width, 1)) == len(widths) != state.values((width, None))
    for term in (0, 1):
        assert state.image(Register(width, term, (0,), none)).tolist() == list(
            range(state.values((width, term)))
        )
    one = made_state(ONE, [], Arithmetic())
    number = node_of(one, "WidthNode")
    assert root(one, number, 0) == (number, None)
    sign = made_state(SIGN, [], Arithmetic())
    function = node_of(sign, "MapNode")
    assert root(sign, function, None) == (node_of(sign, "TokensNode"), None)
    assert sign.image(Register(function, None, (0,), none)).tolist() == [0, 1, 1]
    assert sign.image(Register(None, None, (0,), none)).tolist() == [0]


@pytest.mark.parametrize(
    ("register", "text"),
    [
        (Register(0, None, (0,), Matrix.of(3, 1, {})), "steps of shape"),
        (Register(0, None, (0,), Matrix.of(4, 2, {})), "steps of shape"),
        (Register(None, None, (0,), Matrix.of(1, 1, {})), "steps of shape"),
        (Register(99, None, (0,), Matrix.of(4, 1, {})), "names node 99"),
        (Register(0, 0, (0,), Matrix.of(4, 1, {})), "names term 0"),
        (Register(0, None, (0, 1), Matrix.of(4, 2, {})), "belongs to two registers"),
    ],
)
def test_registers_that_name_what_is_not_there_are_refused(register: Register, text: str) -> None:
    right = state_of(True)
    assert type(right.facts.nodes[0]).__name__ == "TokensNode"
    others = (Register(None, None, (1,), Matrix.of(2, 1, {})),)
    with pytest.raises(CertificationError, match=text):
        State(replace(right.blueprint, registers=(*others, register)), right.facts, Arithmetic())


def test_terms_and_nodes_are_named_up_to_the_last() -> None:
    right = made_state(WIDTH, [], Arithmetic(), beginning=False)
    width = node_of(right, "WidthNode")
    assert width == len(right.facts.nodes) - 1

    def state(node: int, term: int | None, rows: int) -> State:
        register = Register(node, term, (0,), Matrix.of(rows, 1, {}))
        return State(replace(right.blueprint, registers=(register,)), right.facts, Arithmetic())

    assert state(width, 1, right.values((width, 1))).register_at(0) == 0
    assert state(width, None, right.values((width, None))).register_at(1) is None
    with pytest.raises(CertificationError, match="names term 2"):
        state(width, 2, 1)
    with pytest.raises(CertificationError, match=f"names node {width + 1}"):
        state(width + 1, None, 1)


# Codes


@pytest.mark.parametrize("values", [3, 4])
@pytest.mark.parametrize(
    "scale", [Fraction(1), Fraction(1, 3), Fraction(2**19), Fraction(2**60 + 1)]
)
def test_codes_are_sums_of_steps_but_for_the_beginning(values: int, scale: Fraction) -> None:
    steps = Matrix.of(
        4,
        2,
        {
            (0, 0): 1 * scale,
            (1, 0): -4 * scale,
            (2, 0): 5 * scale,
            (3, 0): 7 * scale,
            (1, 1): scale,
        },
    )
    codes, error = _added_up(steps, values)
    last = 7 if values == 3 else 9
    own = scale * (values == 4)
    truth = np.array([[scale, 0], [-3 * scale, scale], [2 * scale, scale], [last * scale, own]])
    assert (abs(exact(codes) - truth) <= exact(error)).all()
    assert (error <= np.abs(codes) * 2.0**-52).all()
    if scale.denominator == 1 and scale < 2**53:
        assert not error.any()


def test_codes_of_which_one_is_not_a_small_whole_number_are_rounded_too() -> None:
    codes, error = _added_up(Matrix.of(1, 1, {(0, 0): -(2**60 + 1)}), 1)
    assert codes == -(2.0**60)
    assert error >= 1
    codes, error = _added_up(Matrix.of(2, 1, {(0, 0): 1, (1, 0): Fraction(1, 3)}), 2)
    assert abs(Fraction(codes[1, 0]) - Fraction(4, 3)) <= Fraction(error[1, 0])


@pytest.mark.parametrize("beginning", [True, False])
def test_claims_are_codes_of_a_registers_steps(beginning: bool) -> None:
    state = state_of(beginning)
    steps = state.blueprint.registers[0].steps
    codes, _ = state.claimed(0)
    assert (codes == _added_up(steps, 3)[0]).all()
    assert state.claimed(0)[0] is codes


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_register_below_the_normal_numbers_may_be_read_as_zero(name: str) -> None:
    """Its code 2⁻¹³⁰, read by a weight of 2¹²⁰, can come out as 2⁻¹⁰ or as 0."""
    state = state_of(beginning=False, name=name)
    state.hold(1, np.array([[2.0**-130]]), np.zeros((1, 1)))
    weights = np.zeros((1, 5))
    weights[0, 2] = 2.0**120
    (part,) = state.read_weights(weights, np.zeros((1, 5))).parts
    assert part.centre[0, 0] == 2.0**-10
    assert part.radius[0, 0] >= 2.0**-10
    assert part.lowest[0] < -1000
