"""The induction over layers: from the embedding to the decoded output.

Every register is written once: by the embedding, by one head, or by the ReLUs of one layer. In the
order of the layers it is shown what each holds for every input, from what the registers that it is
computed from hold. The last step compares what is read out with the values of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import ne

import numpy as np

from exactformer.algebra.rational import to_float
from exactformer.core.formats import FloatFormat
from exactformer.core.matrix import Matrix
from exactformer.core.words import at_least, at_most
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.program import IndicesNode, Program, TokensNode
from exactformer.programs.proof.arithmetic import NEVER, Arithmetic, Array, up
from exactformer.programs.proof.attention import prove_head
from exactformer.programs.proof.cases import cases_of
from exactformer.programs.proof.facts import Facts
from exactformer.programs.proof.feed_forward import prove_feed_forward
from exactformer.programs.proof.shapes import check_program_shapes
from exactformer.programs.proof.state import State
from exactformer.programs.values import in_order, is_number

Writer = tuple[int, int | None]
"""Layer and head; no head is the ReLUs; layer −1 is the embedding."""


@dataclass(frozen=True)
class Outcome:
    """What was proven in one arithmetic."""

    error: float
    """How far an output can be from the ideal one: a direction per value, or the number itself."""
    limit: float
    """Below which decoding is right."""
    registers: tuple[tuple[str, float], ...]
    """What each register holds, and its largest error."""


def prove_program(
    blueprint: ProgramBlueprint,
    program: Program,
    facts: Facts,
    target: FloatFormat | None = None,
) -> Outcome:
    """Prove that decoded outputs are the program's, in exact arithmetic or in a format.

    Raises:
        CertificationError: with the expression at which the proof fails.
    """
    check_program_shapes(blueprint, program)
    if in_order(program.tokens) != list(program.tokens):
        raise CertificationError("the vocabulary of the program is not in order")
    state = State(blueprint, facts, Arithmetic(target))
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        written = _writers(blueprint, state)
        for number in written.get((-1, None), []):
            _prove_embedding(state, number)
        for at, layer in enumerate(blueprint.layers):
            proven = [
                found
                for k, head in enumerate(layer.heads)
                if (at, k) in written
                for found in prove_head(state, head, written[at, k])
            ]
            for number, centre, radius in proven:
                state.hold(number, centre, radius)
            prove_feed_forward(state, layer.feed_forward, written.get((at, None), []))
        error, limit = _prove_output(state, program)
    errors = tuple((held.name, float(held.radius.max(initial=0.0))) for held in state.held.values())
    return Outcome(error, limit, errors)


def _writers(blueprint: ProgramBlueprint, state: State) -> dict[Writer, list[int]]:
    """Return the registers that each part writes; raise where one is written by two."""
    by_direction: dict[int, set[Writer]] = {}

    def note(rows: set[int], writer: Writer) -> None:
        for row in rows:
            by_direction.setdefault(row, set()).add(writer)

    for matrix in (blueprint.tokens, blueprint.positions):
        note({j for _, j in matrix.entries}, (-1, None))
    for at, layer in enumerate(blueprint.layers):
        for k, head in enumerate(layer.heads):
            note({i for i, _ in head.output.entries}, (at, k))
        added: Matrix
        for added in (layer.feed_forward.w2, layer.feed_forward.b2):
            note({i for i, _ in added.entries}, (at, None))
    for direction in by_direction:
        if state.register_at(direction) is None:
            raise CertificationError(f"direction {direction} is written, and no register holds it")
    found: dict[Writer, list[int]] = {}
    for number, register in enumerate(blueprint.registers):
        writers = {w for d in register.directions for w in by_direction.get(d, ())}
        if len(writers) > 1:
            raise CertificationError(
                f"{state.name(number)}: its directions are written by {len(writers)} parts of the model"
            )
        found.setdefault(next(iter(writers), (-1, None)), []).append(number)
    for at, layer in enumerate(blueprint.layers):
        for k, head in enumerate(layer.heads):
            parts = (head.query, head.key, head.value)
            if (at, k) not in found and any(part.entries for part in parts):
                raise CertificationError(f"layers.{at}.heads.{k} writes to no register")
    return found


def _prove_embedding(state: State, number: int) -> None:
    """Prove a register that is a function of the token, or of the position, or constant."""
    blueprint, register = state.blueprint, state.blueprint.registers[number]
    centre, radius = state.claimed(number)
    root, columns = state.root(register), list(register.directions)
    (tokens, token_error), (places, place_error) = (
        (m[0][:, columns], m[1][:, columns])
        for m in map(state.arithmetic.weights, (blueprint.tokens, blueprint.positions))
    )
    extra = token_error.max(0, initial=0.0) + place_error.max(0, initial=0.0)
    radius = radius + extra + _added(state, tokens, places)
    last = len(tokens) - blueprint.beginning
    own, other = tokens[:last], places[blueprint.beginning :]
    node = None if root is None else state.facts.nodes[root[0]]
    image = state.image(register)
    if isinstance(node, IndicesNode):
        own, other = other, own
    elif root is not None and not isinstance(node, TokensNode):
        raise CertificationError(
            f"{state.name(number)} is to be computed, and nothing in the model computes it"
        )
    low, high = other.min(0), other.max(0)
    if root is None:
        low, high = low + own.min(0), high + own.max(0)
        away = np.maximum(high - centre[0], centre[0] - low)[None, :]
        image = np.zeros(1, np.int64)
    else:
        here = centre[image]
        away = np.maximum(own + high - here, here - (own + low))
    found = radius.copy()
    for row, distance in zip(image.tolist(), away, strict=True):
        found[row] = np.maximum(found[row], radius[row] + distance)
    if blueprint.beginning:
        found[-1] = radius[-1] + np.abs(tokens[-1] + places[0] - centre[-1])
    state.hold(number, centre, found)


def _added(state: State, tokens: Array, places: Array) -> Array:
    """Return what the sum of two embeddings can lose: nothing where one of them is zero."""
    both = (tokens != 0).any(0) & (places != 0).any(0)
    size = np.abs(tokens).max(0, initial=0.0) + np.abs(places).max(0, initial=0.0)
    state.arithmetic.check_range(size, "an embedding")
    return np.where(
        both, size * (2.0**-52 + state.arithmetic.gamma(1.0)) + state.arithmetic.tiny, 0.0
    )


def _prove_output(state: State, program: Program) -> tuple[float, float]:
    """Return how far outputs can be from ideal ones, and what they must stay below."""
    reading = state.read(state.blueprint.readout)
    roots = [part.root for part in reading.parts]
    cases = cases_of(state, roots, program.output, None)
    universe = state.facts.universe(program.output)
    rows = len(reading.terms)
    if rows != (1 if program.numerical else len(universe)):
        raise CertificationError(f"the model reads out {rows} numbers, not {len(universe)}")
    value, away = reading.at(cases.columns, len(cases))
    size = np.zeros(rows)
    for part in reading.parts:
        size = size + part.size.max(0)
    state.arithmetic.check_range(size, "an output")
    lowest = np.min([part.lowest for part in reading.parts], axis=0, initial=NEVER)
    lost = (
        state.arithmetic.gamma(reading.terms + 2.0) * size + reading.terms * state.arithmetic.tiny
    )
    away = away + np.where(state.arithmetic.is_exact(up(size), lowest), 0.0, lost)
    if program.numerical:
        if strange := [v for v in universe if not is_number(v)]:
            raise CertificationError(f"the output is read as a number and can be {strange[0]!r}")
        numbers = [Fraction(v) for v in universe]
        nearest = [to_float(v) for v in numbers]
        wanted = np.array(nearest)[cases.target][:, None]
        gaps = [b - a for a, b in pairwise(numbers)]
        limit = to_float(min(gaps, default=Fraction(2))) / 2 * (1 - 2.0**-40)
        if not np.isfinite(nearest).all() or any(map(ne, map(Fraction, nearest), numbers)):
            away = away + np.abs(wanted) * 2.0**-51 + 1e-300
    else:
        wanted = np.eye(len(universe))[cases.target]
        limit = 0.5
    error = float(up((np.abs(value - wanted) + away).max(initial=0.0)))
    if not error < limit:
        raise CertificationError(
            f"{state.name_of(program.output)}: outputs can be {at_most(error)} from the program's in "
            f"{state.arithmetic.name}, and must be within {at_least(limit)} to be decoded"
        )
    return error, limit
