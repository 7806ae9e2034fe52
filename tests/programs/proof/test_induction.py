"""Embeddings, outputs and who writes what: single steps of the induction over layers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from exactformer import rasp
from exactformer.core.formats import FORMATS
from exactformer.core.layers import FeedForward
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer, ProjectedHead, Register
from exactformer.programs.program import Program
from exactformer.programs.proof.arithmetic import UNKNOWN, Arithmetic
from exactformer.programs.proof.induction import (
    _added,
    _prove_embedding,
    _prove_output,
    _writers,
    prove_program,
)
from exactformer.programs.proof.state import Read, Reading, State
from exactformer.programs.tabulation import tabulate, tabulated
from tests.cases.programs import facts_of
from tests.programs.proof.steps import arithmetic_of, drawn, exact, holds, made_state, nearly
from tests.programs.proof.test_refusals import moving

SIGN = rasp.Map(lambda x: min(x, 1), rasp.tokens)
LAST = rasp.Map(lambda k: k // 2, rasp.indices)
GAMMA = {"bfloat16": Fraction(1, 256) / (1 - Fraction(1, 256)), None: Fraction(0)}


@pytest.fixture(autouse=True)
def overflows() -> Any:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", [None, "bfloat16", "float16"])
def test_sums_of_embeddings_lose_one_rounding_where_both_are_there(name: str | None) -> None:
    rng = np.random.default_rng(0)
    state = made_state(SIGN, [], arithmetic_of(name))
    tokens, places = rng.normal(size=(4, 3)) / 64, rng.normal(size=(5, 3)) / 64
    tokens[:, 0] = places[:, 1] = 0.0
    tokens[0, 2] = places[1, 2] = 0.0
    found = _added(state, tokens, places)
    size = abs(exact(tokens)).max(0) + abs(exact(places)).max(0)
    u = Fraction(0) if name is None else Fraction(FORMATS[name].unit)
    tiny = Fraction(state.arithmetic.tiny)
    nearly(found, [0, 0, size[2] * (Fraction(1, 2**52) + u / (1 - u)) + tiny])


def test_embeddings_that_overflow_are_refused() -> None:
    state = made_state(SIGN, [], arithmetic_of("bfloat16"))
    half = np.array([[2.0**126]])
    _added(state, half, half / 2)
    for tokens, places in ((half, half), (-half, half), (half, -half), (2 * half, 0 * half)):
        with pytest.raises(CertificationError, match="an embedding can overflow"):
            _added(state, tokens, places)


def embedded(
    expression: rasp.SOp,
    node: str | None,
    name: str | None,
    share: float,
    seed: int,
    beginning: bool,
) -> State:
    """Return a state with one register, of three directions, and embeddings that are drawn."""
    kinds = [type(n).__name__ for n in made_state(expression, [], Arithmetic()).facts.nodes]
    number = None if node is None else kinds.index(node)
    state = made_state(
        expression,
        [(None, None, 1), (number, None, 3)],
        arithmetic_of(name, share),
        beginning=beginning,
    )
    rng = np.random.default_rng(seed)
    tokens, places = (drawn(rng, 3 + beginning, 4) for _ in range(2))
    # One direction is of tokens alone.
    places = Matrix.of(3 + beginning, 4, {p: v for p, v in places.entries.items() if p[1] != 2})
    state.blueprint = replace(state.blueprint, tokens=tokens, positions=places)
    errors = rng.random(state.claimed(1)[0].shape) / 64
    state._claims[1] = state.claimed(1)[0], errors
    return state


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        (SIGN, "TokensNode"),
        (SIGN, "MapNode"),
        (LAST, "MapNode"),
        (LAST, "IndicesNode"),
        (SIGN, None),
    ],
)
@pytest.mark.parametrize("name", [None, "bfloat16"])
@pytest.mark.parametrize("beginning", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_an_embedding_is_as_far_from_codes_as_for_the_worst_token_and_position(
    expression: rasp.SOp, node: str | None, name: str | None, beginning: bool, seed: int
) -> None:
    state = embedded(expression, node, name, 1 / 16, seed, beginning)
    _prove_embedding(state, 1)
    held, register = state.held[1], state.blueprint.registers[1]
    centre, errors = state.claimed(1)
    assert (held.centre == centre).all()
    tokens, places = (
        exact(state.arithmetic.weights(m)[0][:, 1:])
        for m in (state.blueprint.tokens, state.blueprint.positions)
    )
    extra = (abs(tokens).max(0) + abs(places).max(0)) / 16
    extra = extra + exact(_added(state, *(np.asarray(m, dtype=float) for m in (tokens, places))))
    worst = exact(errors) + extra
    image = state.image(register)
    for token in range(3):
        for place in range(3):
            row = 0 if node is None else int(image[place if expression is LAST else token])
            away = abs(tokens[token] + places[place + beginning] - exact(centre[row]))
            worst[row] = np.maximum(worst[row], exact(errors[row]) + extra + away)
    if beginning:
        away = abs(tokens[-1] + places[0] - exact(centre[-1]))
        worst[-1] = exact(errors[-1]) + extra + away
    holds(held.radius, worst)


def test_what_an_embedding_cannot_compute_is_refused() -> None:
    width = rasp.SelectorWidth(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.EQ))
    state = embedded(width, "WidthNode", None, 0.0, 0, True)
    with pytest.raises(CertificationError, match="nothing in the model computes it"):
        _prove_embedding(state, 1)


# Outputs


def output_of(
    expression: rasp.SOp, name: str | None, parts: list[Read], terms: Any, rows: int
) -> tuple[State, Program]:
    """Return a state whose readout reads these parts."""
    program, _ = tabulated(expression, (0, 1, 3), 3)
    state = made_state(expression, [], arithmetic_of(name))
    reading = Reading(tuple(parts), None, np.array(terms))
    state.read = lambda *_: reading  # type: ignore[assignment, return-value, misc]
    assert all(part.centre.shape[1] == rows for part in parts)
    return state, program


def part_of(centre: Any, radius: Any, size: float, bits: int = UNKNOWN) -> Read:
    centre = np.array(centre, dtype=float)
    return Read(
        (0, None),
        centre,
        np.zeros(centre.shape) + radius,
        np.full(centre.shape, size),
        np.full(centre.shape[1], bits),
    )


@pytest.mark.parametrize(
    ("name", "bits"),
    [(None, UNKNOWN), ("bfloat16", UNKNOWN), ("bfloat16", 0), ("float16", UNKNOWN)],
)
def test_an_output_errs_by_what_is_read_and_its_rounding(name: str | None, bits: int) -> None:
    """A one for the token's value: within one half, less 1/8 and γ of three entries and two."""
    rng, small = np.random.default_rng(0), name == "float16"
    centre = np.eye(3) + (0 if small else rng.normal(size=(3, 3)) / 16)
    radius, scale = rng.random((3, 3)) / (2**40 if small else 64), 2.0**-6 if small else 1.0
    first = replace(part_of(centre, radius, 1.0, bits), size=rng.random((3, 3)) * scale)
    second = part_of(np.full((1, 3), 2.0**-9 * (not small)), 2.0**-30, 1.5 * scale, bits)
    state, program = output_of(rasp.tokens, name, [first, replace(second, root=None)], [3, 2, 1], 3)
    error, limit = _prove_output(state, program)
    assert limit == 0.5
    away = abs(exact(centre) + exact(second.centre) - exact(np.eye(3)))
    away = away + exact(radius) + exact(second.radius)
    if name is not None and bits == UNKNOWN:
        u, tiny = Fraction(FORMATS[name].unit), Fraction(FORMATS[name].tiny)
        total = exact(first.size).max(0) + exact(second.size)[0]
        k = np.array([Fraction(5), Fraction(4), Fraction(3)])
        away = away + k * u / (1 - k * u) * total + (k - 2) * tiny
    holds(error, away.max())


def test_what_a_sum_in_float64_would_drop_of_an_output_counts() -> None:
    """3/10 and a radius of 2⁻⁶⁰ add up to 3/10 in float64."""
    centre, radius = np.eye(3), np.zeros((3, 3))
    centre[0, 0], radius[0, 0] = 0.7, 2.0**-60
    state, program = output_of(rasp.tokens, None, [part_of(centre, radius, 1.0)], [1] * 3, 3)
    holds(_prove_output(state, program)[0], 1 - Fraction(0.7) + Fraction(1, 2**60))


def test_an_output_is_exact_where_its_terms_fit() -> None:
    """Sizes that add up to 2^8 do but for the rounding of their bound."""
    for size, fine in ((127.0, True), (128.0, False)):
        alike = replace(part_of(np.zeros((1, 3)), 0.0, 128.0, 0), root=None)
        parts = [part_of(np.eye(3), 0.0, size, 0), alike]
        state, program = output_of(rasp.tokens, "bfloat16", parts, [1] * 3, 3)
        if fine:
            assert _prove_output(state, program)[0] == 0
        else:
            with pytest.raises(CertificationError, match="must be within"):
                _prove_output(state, program)


def test_outputs_that_are_too_far_overflow_or_are_too_few_are_refused() -> None:
    state, program = output_of(rasp.tokens, None, [part_of(np.eye(3), 0.5, 1.0)], [1] * 3, 3)
    with pytest.raises(CertificationError, match="must be within"):
        _prove_output(state, program)
    state, program = output_of(rasp.tokens, None, [part_of(np.eye(3), 0.49, 1.0)], [1] * 3, 3)
    _prove_output(state, program)
    state, program = output_of(
        rasp.tokens, "bfloat16", [part_of(np.eye(3), 0.0, 2.0**127, 0)], [1] * 3, 3
    )
    with pytest.raises(CertificationError, match="an output can overflow"):
        _prove_output(state, program)
    state, program = output_of(rasp.tokens, None, [part_of(np.eye(3)[:, :2], 0.0, 1.0)], [1] * 2, 2)
    with pytest.raises(CertificationError, match="reads out 2 numbers"):
        _prove_output(state, program)
    state, program = output_of(
        rasp.numerical(rasp.tokens), None, [part_of(np.eye(3), 0.0, 1.0)], [1] * 3, 3
    )
    with pytest.raises(CertificationError, match="reads out 3 numbers"):
        _prove_output(state, program)


def numbers_of(values: Any, centre: Any, radius: float = 0.0) -> tuple[float, float]:
    program, _ = tabulated(rasp.numerical(rasp.tokens), values, 2)
    state = made_state(
        rasp.numerical(rasp.tokens), [], Arithmetic(), vocabulary=values, max_length=2
    )
    reading = Reading((part_of(np.array(centre)[:, None], radius, 1.0),), None, np.ones(1))
    state.read = lambda *_: reading  # type: ignore[assignment, return-value, misc]
    return _prove_output(state, program)


def test_numbers_are_within_half_of_the_least_gap() -> None:
    error, limit = numbers_of((0, 1, 3), [0.0, 1.25, 3.0], 0.125)
    holds(error, Fraction(3, 8))
    holds(numbers_of((0, 1, 3), [0.0, 0.75, 3.0], 0.125)[0], Fraction(3, 8))
    assert limit == 0.5 * (1 - 2.0**-40)
    assert numbers_of((0, 2, 3), [0.0, 2.0, 3.0])[1] == 0.5 * (1 - 2.0**-40)
    assert numbers_of((5,), [5.0])[1] == 1 - 2.0**-40
    with pytest.raises(CertificationError, match="must be within"):
        numbers_of((0, 1, 3), [0.0, 1.25, 3.0], 0.25)


def test_numbers_that_are_not_floats_are_off_by_their_rounding() -> None:
    for number in (Fraction(5, 3), -Fraction(5, 3)):
        error, _ = numbers_of((number, 1), sorted([float(number), 1.0]), 2.0**-50)
        holds(error, abs(exact(float(number)).item()) / 2**51 + Fraction(1, 2**50))
    tiny = Fraction(1, 3 * 2**1060)
    assert (
        Fraction(1, 10**310)
        < Fraction(numbers_of((tiny,), [float(tiny)])[0])
        < Fraction(1, 10**299)
    )
    assert numbers_of((Fraction(1, 4), 1), [0.25, 1.0])[0] == 0
    with pytest.raises(CertificationError, match="must be within"):
        numbers_of((0, 10**400), [0.0, 1.0])


def test_texts_are_not_read_as_numbers() -> None:
    program = replace(tabulate(rasp.tokens, "ab", 2), numerical=True)
    state = made_state(rasp.tokens, [], Arithmetic(), vocabulary="ab", max_length=2)
    reading = Reading((part_of([[0.0], [1.0]], 0.0, 1.0),), None, np.ones(1))
    state.read = lambda *_: reading  # type: ignore[assignment, return-value, misc]
    with pytest.raises(CertificationError, match="can be 'a'"):
        _prove_output(state, program)


# Writers


def written(**changes: Any) -> ProgramBlueprint:
    """Four directions: of the embedding, a head, ReLUs, and nothing; a head and ReLUs in one layer."""
    head = ProjectedHead(
        *(Matrix.of(1, 4, {(0, 0): 1}) for _ in range(3)), Matrix.of(4, 1, {(1, 0): 1})
    )
    relus = FeedForward(
        Matrix.of(1, 4, {(0, 0): 1}),
        Matrix.of(1, 1, {}),
        Matrix.of(4, 1, {(2, 0): 1}),
        Matrix.of(4, 1, {}),
    )
    state = made_state(SIGN, [(None, None, 1)] * 4, Arithmetic())
    made = replace(
        state.blueprint,
        tokens=Matrix.of(4, 4, {(0, 0): 1}),
        layers=(ProgramLayer((changes.pop("head", head),), changes.pop("relus", relus)),),
    )
    return replace(made, **changes)


def writers(blueprint: ProgramBlueprint) -> dict[Any, list[int]]:
    state = made_state(SIGN, [], Arithmetic())
    return _writers(blueprint, State(blueprint, state.facts, Arithmetic()))


def test_every_register_has_one_writer() -> None:
    assert writers(written()) == {(-1, None): [0, 3], (0, 0): [1], (0, None): [2]}
    for entries in (
        {"tokens": Matrix.of(4, 4, {(0, 1): 1})},
        {"positions": Matrix.of(4, 4, {(3, 1): 1})},
    ):
        with pytest.raises(CertificationError, match="written by 2 parts"):
            writers(written(**entries))
    right = written()
    relus = right.layers[0].feed_forward
    for wrong in (
        replace(relus, w2=Matrix.of(4, 1, {(1, 0): 1})),
        replace(relus, b2=Matrix.of(4, 1, {(1, 0): 1})),
    ):
        with pytest.raises(CertificationError, match="written by 2 parts"):
            writers(written(relus=wrong))


def test_what_is_written_has_a_register() -> None:
    registers = written().registers
    for gone in (0, 1, 2):
        with pytest.raises(CertificationError, match=f"direction {gone} is written"):
            writers(written(registers=registers[:gone] + registers[gone + 1 :]))
    assert writers(written(registers=registers[:3]))


@pytest.mark.parametrize("part", range(3))
def test_a_head_that_computes_writes_to_a_register(part: int) -> None:
    none, one = Matrix.of(1, 4, {}), Matrix.of(1, 4, {(0, 0): 1})
    idle = Matrix.of(4, 1, {})
    parts = [one if k == part else none for k in range(3)]
    with pytest.raises(CertificationError, match="writes to no register"):
        writers(written(head=ProjectedHead(*parts, idle)))
    assert (0, 0) not in writers(written(head=ProjectedHead(none, none, none, idle)))


def test_layers_are_proven_one_after_the_other() -> None:
    """A head moves every token to itself, and ReLUs give it back."""
    blueprint, program = moving(1, 1, 1)
    outcome = prove_program(blueprint, program, facts_of(program))
    assert outcome.error == 0
    assert outcome.limit == 0.5
    assert [error for _, error in outcome.registers] == [0.0] * 4
    idle = replace(blueprint.layers[0].heads[0], output=Matrix.of(8, 2, {}))
    none = ProjectedHead(*(Matrix.of(1, 8, {}) for _ in range(3)), Matrix.of(8, 1, {}))
    layer = replace(blueprint.layers[0], heads=(*blueprint.layers[0].heads, none))
    again = prove_program(replace(blueprint, layers=(layer,)), program, facts_of(program))
    assert again == outcome
    for wrong in (idle, replace(none, output=Matrix.of(7, 1, {}))):
        layer = replace(blueprint.layers[0], heads=(*blueprint.layers[0].heads, wrong))
        with pytest.raises(
            CertificationError, match="shape" if wrong is not idle else "no register"
        ):
            prove_program(replace(blueprint, layers=(layer,)), program, facts_of(program))


def test_a_vocabulary_out_of_order_is_refused() -> None:
    program = tabulate(rasp.tokens, "ab", 2)
    facts = facts_of(program)
    wrong = replace(program, vocabulary=program.vocabulary[::-1])
    state = made_state(
        rasp.tokens, [], Arithmetic(), vocabulary="ab", max_length=2, beginning=False
    )
    blueprint = replace(
        state.blueprint,
        tokens=Matrix.of(2, 2, {(0, 0): 1, (1, 1): 1}),
        positions=Matrix.of(2, 2, {}),
        readout=Matrix.of(2, 2, {(0, 0): 1, (1, 1): 1}),
        registers=(Register(0, None, (0, 1), Matrix.of(2, 2, {(0, 0): 1, (1, 0): -1, (1, 1): 1})),),
        dimensions=("a", "b"),
    )
    outcome = prove_program(blueprint, program, facts)
    assert outcome.error == 0
    assert outcome.registers == (("tokens", 0.0),)
    with pytest.raises(CertificationError, match="not in order"):
        prove_program(blueprint, wrong, facts)
    off = replace(blueprint, tokens=Matrix.of(2, 2, {(0, 0): Fraction(9, 8), (1, 1): 1}))
    (_, error), *_ = prove_program(off, program, facts).registers
    holds(error, Fraction(1, 8))
