"""What is proven of a stream so far: the registers, each with the codes it holds and how exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProgramBlueprint, Register
from exactformer.programs.program import WidthNode
from exactformer.programs.proof.arithmetic import (
    NEVER,
    UNKNOWN,
    Arithmetic,
    Array,
    at_least_smallest,
    centres,
    lowest_bits,
    plus,
    times,
    up,
)
from exactformer.programs.proof.facts import Facts
from exactformer.programs.witness import Integers

Root = tuple[int, int | None] | None
"""What a register's code is a function of: a node, one term of a width, or, None, nothing."""


@dataclass(frozen=True, eq=False)
class Held:
    """A register and what is proven of it: every value's code, within a radius."""

    number: int
    root: Root
    image: Integers
    """For every value of the root, the row of its code."""
    directions: Integers
    centre: Array
    """(rows, directions): a row per value; where there is a beginning token, its row is the last."""
    radius: Array
    name: str


@dataclass(frozen=True, eq=False)
class Read:
    """What a matrix reads of the registers of one root: a row per value of the root."""

    root: Root
    centre: Array
    radius: Array
    size: Array
    """Bounds of what is added up, in absolute value, for rounding."""
    lowest: Integers
    """Exponents of the lowest bits that take part, one per row of the matrix."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What a matrix reads off the stream: by root, and at the beginning token."""

    parts: tuple[Read, ...]
    beginning: Read | None
    terms: Integers
    """How many entries each row of the matrix has."""

    @property
    def lowest(self) -> Integers:
        """Exponents of the lowest bits that take part at any position, one per row of the matrix."""
        parts = [*self.parts, *([self.beginning] if self.beginning else [])]
        rows = [np.full(len(self.terms), NEVER), *(part.lowest for part in parts)]
        return np.asarray(np.min(rows, axis=0), dtype=np.int64)

    def part(self, root: Root) -> Read | None:
        """Return what is read of a root, if anything."""
        return next((part for part in self.parts if part.root == root), None)

    def at(self, places: Mapping[Root, Integers], cases: int) -> tuple[Array, Array]:
        """Return what is read in every case, given the places of the roots' values, and radii."""
        shape = (cases, len(self.terms))
        centre, radius = np.zeros(shape), np.zeros(shape)
        for part in self.parts:
            rows = np.zeros(cases, np.int64) if part.root is None else places[part.root]
            centre, rest = plus(centre, part.centre[rows])
            radius = radius + part.radius[rows] + rest
        return centre, up(radius)


class State:
    """Registers of a blueprint: when they are written, and, once that is proven, what they hold."""

    def __init__(self, blueprint: ProgramBlueprint, facts: Facts, arithmetic: Arithmetic) -> None:
        self.blueprint, self.facts, self.arithmetic = blueprint, facts, arithmetic
        self.held: dict[int, Held] = {}
        self._owner: dict[int, tuple[int, int]] = {}
        self._claims: dict[int, tuple[Array, Array]] = {}
        for number, register in enumerate(blueprint.registers):
            self._check(register)
            for at, direction in enumerate(register.directions):
                if direction in self._owner:
                    raise CertificationError(
                        f"direction {direction} belongs to two registers, {self.name(number)} and "
                        f"{self.name(self._owner[direction][0])}"
                    )
                self._owner[direction] = (number, at)

    def name(self, number: int) -> str:
        """Return what a register holds, in words."""
        register = self.blueprint.registers[number]
        return "a constant" if register.node is None else self.facts.names[register.node]

    def name_of(self, node: int) -> str:
        """Return what a node is called."""
        return self.facts.names[node]

    def register_at(self, direction: int) -> int | None:
        """Return the register that a direction belongs to."""
        owner = self._owner.get(direction)
        return None if owner is None else owner[0]

    def root(self, register: Register) -> Root:
        """Return what the code of a register is a function of."""
        if register.node is None:
            return None
        node = self.facts.nodes[register.node]
        if isinstance(node, WidthNode):
            single = len(self.facts.terms(node.selector)) == 1
            return (register.node, None if single else register.term)
        return (self.facts.known[register.node].root, None)

    def values(self, root: Root) -> int:
        """Return how many values a root has."""
        if root is None:
            return 1
        number, term = root
        if term is None:
            return len(self.facts.universe(number))
        node = self.facts.nodes[number]
        assert isinstance(node, WidthNode)
        return len(self.facts.term_widths(node.selector, term))

    def image(self, register: Register) -> Integers:
        """Return, for every value of the root, the row of the register's codes."""
        if register.node is None or register.term is not None:
            return np.arange(self.values(self.root(register)))
        return self.facts.known[register.node].image

    def claimed(self, number: int) -> tuple[Array, Array]:
        """Return the codes that a register is meant to hold, and how far off they are in float64."""
        if number not in self._claims:
            steps = self.blueprint.registers[number].steps
            self._claims[number] = _added_up(steps, steps.rows - self.blueprint.beginning)
        return self._claims[number]

    def hold(self, number: int, centre: Array, radius: Array) -> None:
        """Note what is proven of a register."""
        register = self.blueprint.registers[number]
        if not np.isfinite(radius).all():
            raise CertificationError(
                f"{self.name(number)}: no bound holds in {self.arithmetic.name}"
            )
        self.held[number] = Held(
            number,
            self.root(register),
            self.image(register),
            np.array(register.directions, dtype=np.int64),
            centre,
            at_least_smallest(up(radius + self.arithmetic.flushed(centre, radius))),
            self.name(number),
        )

    def read(self, matrix: Matrix, rows: Iterable[int] | None = None) -> Reading:
        """Return what rows of a matrix read of registers that are proven; others raise."""
        wanted = range(matrix.rows) if rows is None else list(rows)
        weights, errors = self.arithmetic.weights(matrix)
        return self.read_weights(weights[wanted], errors[wanted])

    def read_weights(self, weights: Array, errors: Array) -> Reading:
        """Return what a dense matrix reads, whose entries are known up to errors."""
        groups: dict[Root, list[Held]] = {}
        for direction in np.flatnonzero(((weights != 0) | (errors != 0)).any(0)).tolist():
            number = self.register_at(direction)
            if number is None or number not in self.held:
                name = "no register" if number is None else f"{self.name(number)}, not written yet"
                raise CertificationError(f"direction {direction} is read and holds {name}")
            held = self.held[number]
            known = groups.setdefault(held.root, [])
            if held not in known:
                known.append(held)
        parts = tuple(self._read(root, held, weights, errors) for root, held in groups.items())
        everything = [held for group in groups.values() for held in group]
        beginning = None
        if self.blueprint.beginning:
            beginning = self._read_rows(None, everything, weights, errors, at_beginning=True)
        terms = (weights != 0).sum(1)
        return Reading(parts, beginning, terms)

    def _read(self, root: Root, held: list[Held], weights: Array, errors: Array) -> Read:
        return self._read_rows(root, held, weights, errors, at_beginning=False)

    def _read_rows(
        self, root: Root, held: list[Held], weights: Array, errors: Array, at_beginning: bool
    ) -> Read:
        shape = (self.values(root), len(weights))
        centre, radius, size = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        lowest = np.full(len(weights), NEVER)
        for register in held:
            image = np.array([-1]) if at_beginning else register.image
            own, error = register.centre[image], register.radius[image]
            used, wrong = weights[:, register.directions], errors[:, register.directions]
            found, loss = times(own, used.T)
            sizes = np.abs(used).T
            centre, rest = plus(centre, found)
            radius = radius + loss + rest + error @ sizes + (np.abs(own) + error) @ wrong.T
            size = size + (np.abs(own) + error) @ sizes
            bits = np.where(error > 0, UNKNOWN, lowest_bits(own)).min(0)
            both = np.where(used != 0, lowest_bits(used) + bits[None, :], NEVER)
            lowest = np.minimum(lowest, both.min(1, initial=NEVER))
        return Read(root, centre, up(radius), up(size), lowest)

    def _check(self, register: Register) -> None:
        rows = self.values(self._named(register)) + self.blueprint.beginning
        if register.steps.shape != (rows, len(register.directions)):
            raise CertificationError(
                f"a register has steps of shape {register.steps.shape}, not "
                f"{(rows, len(register.directions))}"
            )

    def _named(self, register: Register) -> Root:
        """Return what the rows of a register's codes are the values of."""
        if register.node is None:
            return None
        if not register.node < len(self.facts.nodes):
            raise CertificationError(f"a register names node {register.node}, which is not there")
        node = self.facts.nodes[register.node]
        if register.term is None:
            return (register.node, None)
        if not isinstance(node, WidthNode) or register.term >= len(self.facts.terms(node.selector)):
            raise CertificationError(f"a register names term {register.term} of a node without it")
        return (register.node, register.term)


def _added_up(steps: Matrix, values: int) -> tuple[Array, Array]:
    """Return codes from the steps between them; the last row, beyond the values, is a code itself."""
    if all(v.denominator == 1 and abs(v.numerator) < 2**20 for v in steps.entries.values()):
        codes, _ = centres(steps)
        np.cumsum(codes[:values], axis=0, out=codes[:values])
        return codes, np.zeros(codes.shape)
    entries: dict[tuple[int, int], Fraction] = {}
    for column, changes in steps.by_column.items():
        code, change = Fraction(0), dict(changes)
        for row in range(steps.rows):
            code = change.get(row, Fraction(0)) + (code if row < values else 0)
            if code:
                entries[row, column] = code
    return centres(Matrix(*steps.shape, entries))
