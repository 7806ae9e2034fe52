"""Models that compute something else, in exact arithmetic or after rounding: none is certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.core.layers import FeedForward, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, InputError, RoundingError, SizeError
from exactformer.programs import library
from exactformer.programs.blueprint import (
    ProgramBlueprint,
    ProgramLayer,
    ProjectedHead,
    Register,
)
from exactformer.programs.compile import prove
from exactformer.programs.constructions import construct
from exactformer.programs.finding import find_witness
from exactformer.programs.program import Program
from exactformer.programs.proof.arithmetic import Arithmetic
from exactformer.programs.proof.state import State
from exactformer.programs.tabulation import tabulate, tabulated
from tests.cases.programs import certify, facts_of

Entries = Mapping[tuple[int, int], Fraction | int]
BIG, SMALL = 2**127, Fraction(1, 2**126)
SAME = rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.EQ)


def units(width: int, w1: Entries, w2: Entries, b1: Entries | None = None) -> FeedForward:
    """Return ReLUs with these weights."""
    count = 1 + max((i for i, _ in w1), default=-1)
    return FeedForward(
        Matrix.of(count, width, w1),
        Matrix.of(count, 1, b1 or {}),
        Matrix.of(width, count, w2),
        Matrix.of(width, 1, {}),
    )


def wider(matrix: Matrix, width: int) -> Matrix:
    """Return a matrix that reads a wider stream."""
    return Matrix.of(matrix.rows, width, matrix.entries)


def wider_layers(blueprint: ProgramBlueprint, width: int) -> list[ProgramLayer]:
    """Return the layers of a blueprint in a wider stream."""

    def written(matrix: Matrix) -> Matrix:
        return Matrix.of(width, matrix.columns, matrix.entries)

    found = []
    for layer in blueprint.layers:
        ff = layer.feed_forward
        heads = (
            ProjectedHead(*(wider(m, width) for m in (h.query, h.key, h.value)), written(h.output))
            for h in layer.heads
        )
        own = FeedForward(wider(ff.w1, width), ff.b1, written(ff.w2), written(ff.b2))
        found.append(ProgramLayer(tuple(heads), own))
    return found


def two(code: Fraction | int) -> Matrix:
    """Return steps of a register with a direction for each of two values."""
    return Matrix.of(2, 2, {(0, 0): code, (1, 0): -code, (1, 1): code})


def copying(*layers: ProgramLayer, width: int = 2, code: Fraction | int = 1) -> ProgramBlueprint:
    """Return a model of two tokens, up to two of them, that gives them back, with more layers."""
    return ProgramBlueprint(
        Matrix.of(2, width, {(0, 0): code, (1, 1): code}),
        Matrix.of(2, width, {}),
        layers,
        Matrix.of(2, width, {(0, 0): Fraction(1, code), (1, 1): Fraction(1, code)}),
        Selection(Rule.HARD_MAX),
        False,
        False,
        (Register(0, None, (0, 1), two(code)),),
        tuple(map(str, range(width))),
    )


def moving(
    value: Fraction | int, output: Fraction | int, code: Fraction | int, score: int = 1
) -> tuple[ProgramBlueprint, Program]:
    """Return a head by which every token attends to itself, with factors along the way."""
    program = tabulate(rasp.Aggregate(SAME, rasp.tokens), "ab", 2)
    moved = Fraction(value) * output * code
    registers = (
        Register(0, None, (0, 1), two(code)),
        Register(1, None, (2, 3), two(1)),
        Register(program.output, None, (4, 5), two(moved)),
        Register(program.output, None, (6, 7), two(1)),
    )
    head = ProjectedHead(
        Matrix.of(2, 8, {(0, 2): score, (1, 3): score}),
        Matrix.of(2, 8, {(0, 2): score, (1, 3): score}),
        Matrix.of(2, 8, {(0, 0): value, (1, 1): value}),
        Matrix.of(8, 2, {(4, 0): output, (5, 1): output}),
    )
    back = units(8, {(0, 4): 1 / moved, (1, 5): 1 / moved}, {(6, 0): 1, (7, 1): 1})
    blueprint = replace(
        copying(ProgramLayer((head,), back), width=8, code=code),
        positions=Matrix.of(2, 8, {(0, 2): 1, (1, 3): 1}),
        readout=Matrix.of(2, 8, {(0, 6): 1, (1, 7): 1}),
        registers=registers,
    )
    return blueprint, program


def test_many_literals_about_positions_leave_widths_as_they_are() -> None:
    spared = [s for size in range(6) for s in combinations(range(1, 6), size)][:21]

    def keeps(places: tuple[int, ...]) -> rasp.Selector:
        return rasp.Select(rasp.indices, rasp.tokens, lambda k, q: q != "b" or k not in places)

    selector = keeps(spared[0])
    for places in spared[1:]:  # 8^21 tuples of accepted keys are more than 63 bits hold
        selector = selector & keeps(places)
    width = rasp.SelectorWidth(selector)
    model = ef.compile_program(width, vocabulary="abc", max_length=8)
    assert model.decode("abcabcab") == width("abcabcab") == [8, 3, 8, 8, 3, 8, 8, 3]


def test_a_width_is_not_one_of_its_terms() -> None:
    first, second = (
        rasp.Select(rasp.tokens, rasp.tokens, lambda k, q, own=own: k == own) for own in "ab"
    )
    width = rasp.categorical(rasp.SelectorWidth(first | second))
    program, analysis = tabulated(width, "abc", 3)
    right = construct(program, analysis, Rule.HARD_MAX, Fraction(1), True)
    certify(right, program)
    node, wide = program.output, right.width + 6
    total = next(r for r in right.registers if r.node == node and r.term is None)
    other = [r for r in right.registers if r.node == node and r.term == 1][-1]
    copy, sums = tuple(range(right.width, right.width + 3)), tuple(range(right.width + 3, wide))

    copied = units(
        wide,
        dict.fromkeys(enumerate(total.directions), 1),
        {(d, k): 1 for k, d in enumerate(copy)},
    )
    summed = units(
        wide,
        {
            **{(k, 0): 3 for k in range(6)},
            **{(k, d): 1 for k in range(6) for d in copy},
            **{(k, d): -1 for k in range(6) for d in other.directions},
        },
        {(d, 2 * k + second): 1 - 2 * second for k, d in enumerate(sums) for second in (0, 1)},
        {(k, 0): -((k + 1) // 2) for k in range(6)},
    )
    moved = dict(zip(total.directions, sums, strict=True))
    readout = {(i, moved.get(j, j)): v for (i, j), v in right.readout.entries.items()}
    wrong = replace(
        right,
        tokens=wider(right.tokens, wide),
        positions=wider(right.positions, wide),
        layers=(*wider_layers(right, wide), ProgramLayer((), copied), ProgramLayer((), summed)),
        readout=Matrix.of(right.readout.rows, wide, readout),
        registers=(
            *right.registers,
            Register(node, 0, copy, total.steps),
            Register(node, None, sums, total.steps),
        ),
        dimensions=tuple(map(str, range(wide))),
    )
    with pytest.raises(CertificationError, match="must be within"):
        certify(wrong, program)


def test_neighbours_that_float64_does_not_tell_apart_are_not_decoded() -> None:
    program = tabulate(rasp.numerical(rasp.tokens), [2**53, 2**53 + 1], 2)
    blueprint = ProgramBlueprint(
        Matrix.of(2, 1, {(0, 0): 2**53, (1, 0): 2**53}),
        Matrix.of(2, 1, {}),
        (),
        Matrix.of(1, 1, {(0, 0): 1}),
        Selection(Rule.HARD_MAX),
        False,
        False,
        (Register(0, None, (0,), Matrix.of(2, 1, {(0, 0): 2**53})),),
        ("number",),
    )
    with pytest.raises(CertificationError, match="must be within"):
        certify(blueprint, program)


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(ProgramLayer((), units(4, {(0, 0): 2**100}, {(2, 0): 2**100})), id="unnamed"),
        pytest.param(ProgramLayer((), units(4, {(0, 0): BIG}, {}, {(0, 0): BIG})), id="unit"),
        pytest.param(
            ProgramLayer(
                (
                    ProjectedHead(
                        Matrix.of(1, 4, {(0, 0): BIG}),
                        Matrix.of(1, 4, {(0, 0): BIG}),
                        Matrix.of(1, 4, {(0, 0): BIG}),
                        Matrix.of(4, 1, {}),
                    ),
                ),
                units(4, {}, {}),
            ),
            id="head",
        ),
    ],
)
def test_what_no_register_holds_may_overflow_and_is_refused(layer: ProgramLayer) -> None:
    program = tabulate(rasp.tokens, "ab", 2)
    certify(copying(width=4), program, "float32")
    with pytest.raises(CertificationError, match="no register"):
        certify(copying(layer, width=4), program, "float32")


def test_units_that_overflow_are_refused() -> None:
    program = tabulate(rasp.tokens, "ab", 2)
    through = units(4, {(0, 0): BIG, (1, 1): BIG}, {(2, 0): SMALL, (3, 1): SMALL})
    blueprint = copying(ProgramLayer((), through), width=4, code=4)
    blueprint = replace(
        blueprint,
        readout=Matrix.of(2, 4, {(0, 2): Fraction(1, 8), (1, 3): Fraction(1, 8)}),
        registers=(*blueprint.registers, Register(0, None, (2, 3), two(8))),
    )
    certify(blueprint, program, "float64")
    with pytest.raises(CertificationError, match="overflow"):
        certify(blueprint, program, "float32")


@pytest.mark.parametrize(
    ("value", "output", "code"),
    [
        pytest.param(Fraction(1, 2**140), BIG, Fraction(1, 2**20), id="underflow"),
        pytest.param(Fraction(3, 2**110), BIG, Fraction(3, 2**40), id="subnormal"),
        pytest.param(BIG, SMALL, 2, id="overflow"),
    ],
)
def test_values_of_heads_that_leave_the_range_of_a_format_are_refused(
    value: Fraction | int, output: Fraction | int, code: Fraction | int
) -> None:
    certify(*moving(1, 1, 1), "float32")
    certify(*moving(value, output, code), "float64")
    with pytest.raises(CertificationError):
        certify(*moving(value, output, code), "float32")


@pytest.mark.parametrize("rule", [Rule.HARD_MAX, Rule.SOFTMAX])
def test_scores_that_overflow_are_refused(rule: Rule) -> None:
    blueprint, program = moving(1, 1, 1, 2**100)
    blueprint = replace(blueprint, selection=Selection(rule))
    certify(blueprint, program, "float64")
    with pytest.raises(CertificationError, match="overflow"):
        certify(blueprint, program, "float32")


def test_weights_below_all_floats_are_not_taken_for_zero() -> None:
    blueprint = copying()
    entries = {**blueprint.readout.entries, (0, 1): Fraction(1, 10**400)}
    wrong = replace(blueprint, readout=Matrix.of(2, 2, entries))
    with pytest.raises(RoundingError, match="below"):
        certify(wrong, tabulate(rasp.tokens, "ab", 2))


def test_weights_that_cancel_up_to_rounding_are_read() -> None:
    state = State(copying(), facts_of(tabulate(rasp.tokens, "ab", 2)), Arithmetic())
    state.hold(0, *state.claimed(0))
    reading = state.read_weights(np.array([[0.0, 0.0]]), np.array([[2.0**-53, 0.0]]))
    assert reading.parts[0].radius.max() >= 2.0**-53


def test_means_of_numbers_far_apart_are_followed_or_refused() -> None:
    mean = rasp.Aggregate(rasp.Select(rasp.tokens, rasp.tokens, rasp.Comparison.TRUE), rasp.tokens)
    program, analysis = tabulated(mean, [0, 10**40], 2)
    assert analysis.universe(program.output) == (0, 10**40 // 2, 10**40)
    with pytest.raises(SizeError, match="sums"):
        tabulate(mean, [0, 1, 10**40], 2)


def test_padding_that_overflows_changes_nothing() -> None:
    program, analysis = tabulated(library.make_reverse(), "ab", 3)
    right = construct(program, analysis, Rule.HARD_MAX, Fraction(1), True)
    place = {name: at for at, name in enumerate(right.dimensions)}
    wide, first, second = right.width + 2, right.width, right.width + 1
    # Position 1 at length 1, which only padding has; then a number beyond float32.
    late = {(0, place["indices: 1"]): 1, (0, place["length: above 0.3333"]): 1}
    more = (
        ProgramLayer((), units(wide, late, {(first, 0): 1}, {(0, 0): -1})),
        ProgramLayer((), units(wide, {(0, first): BIG}, {(second, 0): BIG})),
    )
    layers = wider_layers(right, wide)
    blueprint = replace(
        right,
        tokens=wider(right.tokens, wide),
        positions=wider(right.positions, wide),
        layers=(*layers[:-1], *more, layers[-1]),
        readout=wider(right.readout, wide),
        registers=(
            *right.registers,
            *(Register(None, None, (d,), Matrix.of(2, 1, {})) for d in (first, second)),
        ),
        dimensions=(*right.dimensions, "late", "later"),
    )
    model = prove(blueprint, program, find_witness(program), dtype=torch.float32)
    assert model.decode(["b", "abb"]) == [["b"], list("bba")]


def test_a_head_that_attends_to_everything_needs_no_beginning_token() -> None:
    everything = rasp.Select(rasp.indices, rasp.indices, rasp.Comparison.TRUE)
    mean = rasp.Aggregate(everything, rasp.tokens)
    for realisation in ("hard", "softmax"):
        model = ef.compile_program(
            mean, vocabulary=[0, 1], max_length=3, realisation=realisation, beginning=False
        )
        assert model.decode([0, 1]) == [Fraction(1, 2)] * 2


def test_a_sharpness_without_a_value_is_an_input_error() -> None:
    with pytest.raises(InputError, match="sharpness"):
        ef.compile_program(
            rasp.tokens, vocabulary="ab", max_length=2, realisation="softmax", sharpness="1/0"
        )


def test_texts_are_not_read_as_numbers() -> None:
    blueprint = replace(copying(), readout=Matrix.of(1, 2, {(0, 1): 1}))
    program = replace(tabulate(rasp.tokens, "ab", 2), numerical=True)
    with pytest.raises(CertificationError, match="read as a number"):
        certify(blueprint, program)
