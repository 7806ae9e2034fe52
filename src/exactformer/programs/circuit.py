"""The circuit of a program: which head and which ReLUs compute which expression, and from what.

It is the ground truth that a circuit-finding method should find. It is read off the weights: every part
has a name of its own, and there is an edge where what one part reads, times what another one writes,
is not zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from exactformer.core.matrix import Matrix
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.program import AggregateNode, Program, WidthNode

Writes = dict[int, dict[tuple[int, int], Fraction]]
"""What a part writes: by direction, the weight of each of its columns."""


@dataclass(frozen=True)
class Component:
    """A part of the model: the embedding, a head, or the ReLUs that compute one expression."""

    name: str
    kind: str
    """``embedding``, ``head`` or ``units``."""
    layer: int | None
    index: int | None
    """The number of a head in its layer."""
    units: tuple[int, ...]
    """Hidden units, by number in their layer."""
    computes: tuple[str, ...]
    selector: str | None
    """What a head selects, in words."""
    directions: tuple[int, ...]
    """The directions of the stream that it writes."""


@dataclass(frozen=True)
class Edge:
    """A part that reads what another one wrote."""

    source: str
    target: str
    through: str
    """``query``, ``key`` or ``value`` of a head; ``input`` of ReLUs; ``output`` of the model."""
    carries: tuple[str, ...]
    """The expressions that are read."""


@dataclass(frozen=True)
class Circuit:
    """Components in the order in which they act, and the edges between them."""

    components: tuple[Component, ...]
    edges: tuple[Edge, ...]

    @property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """Layer and number of every head."""
        return tuple(
            (c.layer, c.index)
            for c in self.components
            if c.kind == "head" and c.layer is not None and c.index is not None
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def __str__(self) -> str:
        """Return a table: every part, what it computes, and what it reads."""
        rows = [("part", "computes", "reads")]
        for component in self.components:
            reads = [f"{e.source} ({e.through})" for e in self.edges if e.target == component.name]
            rows.append((component.name, ", ".join(component.computes), ", ".join(reads) or "–"))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def circuit_of(blueprint: ProgramBlueprint, program: Program) -> Circuit:
    """Return the circuit of a blueprint, expressions called as in the program."""
    return _Reader(blueprint, program).circuit()


class _Reader:
    def __init__(self, blueprint: ProgramBlueprint, program: Program) -> None:
        self.blueprint, self.program = blueprint, program
        self.owner = {
            d: number for number, r in enumerate(blueprint.registers) for d in r.directions
        }
        self.writes: dict[str, Writes] = {}

    def circuit(self) -> Circuit:
        components: list[Component] = [self._embedding()]
        edges: list[Edge] = []
        for at, layer in enumerate(self.blueprint.layers):
            written: dict[str, Writes] = {}  # seen by others once the half-layer is complete
            for k, head in enumerate(layer.heads):
                rows = {i for i, _ in head.output.entries}
                selector = self._selector(rows)
                name = f"layer {at}, head {k}"
                for matrix, through in (
                    (head.query, "query"),
                    (head.key, "key"),
                    (head.value, "value"),
                ):
                    edges += self._edges(matrix, range(matrix.rows), name, through)
                components.append(self._component(name, "head", at, k, (), rows, selector))
                written[name] = _writes(head.output, range(head.output.columns))
            self.writes |= written
            written = {}
            for (units, rows), name in self._named_groups(at):
                edges += self._edges(layer.feed_forward.w1, units, name, "input")
                components.append(
                    self._component(name, "units", at, None, tuple(units), rows, None)
                )
                written[name] = _writes(layer.feed_forward.w2, units)
            self.writes |= written
        readout = self.blueprint.readout
        edges += self._edges(readout, range(readout.rows), "output", "output")
        return Circuit(tuple(components), tuple(edges))

    def _embedding(self) -> Component:
        matrices = (self.blueprint.tokens, self.blueprint.positions)
        rows = {j for matrix in matrices for _, j in matrix.entries}
        found: Writes = {}
        for part, matrix in enumerate(matrices):
            for (number, direction), value in matrix.entries.items():
                found.setdefault(direction, {})[part, number] = value
        self.writes["embedding"] = found
        return self._component("embedding", "embedding", None, None, (), rows, None)

    def _component(
        self,
        name: str,
        kind: str,
        layer: int | None,
        index: int | None,
        units: tuple[int, ...],
        rows: set[int],
        selector: str | None,
    ) -> Component:
        computes = tuple(self._names(rows))
        return Component(name, kind, layer, index, units, computes, selector, tuple(sorted(rows)))

    def _groups(self, at: int) -> Iterator[tuple[list[int], set[int]]]:
        """Yield units that write to the same registers, with all that they write to."""
        columns = self.blueprint.layers[at].feed_forward.w2.by_column
        groups: dict[frozenset[int], tuple[list[int], set[int]]] = {}
        for unit, entries in sorted(columns.items()):
            key = frozenset(self.owner.get(i, -1) for i, _ in entries)
            units, rows = groups.setdefault(key, ([], set()))
            units.append(unit)
            rows |= {i for i, _ in entries}
        yield from groups.values()

    def _named_groups(self, at: int) -> Iterator[tuple[tuple[list[int], set[int]], str]]:
        """Yield the groups with a name each; equal ones are told apart by their units."""
        groups = list(self._groups(at))
        names = [f"layer {at}, units: {', '.join(self._names(rows))}" for _, rows in groups]
        for (units, rows), name in zip(groups, names, strict=True):
            alone = names.count(name) == 1
            yield (units, rows), name if alone else f"{name} ({min(units)} to {max(units)})"

    def _names(self, rows: set[int]) -> list[str]:
        """Return the expressions that directions hold, constants left out."""
        found = []
        for number in sorted({self.owner[d] for d in rows if d in self.owner}):
            register = self.blueprint.registers[number]
            if register.node is not None:
                found.append(self.program.names[register.node])
        return list(dict.fromkeys(found))

    def _selector(self, rows: set[int]) -> str | None:
        for number in sorted({self.owner[d] for d in rows if d in self.owner}):
            node = self.blueprint.registers[number].node
            found = None if node is None else self.program.nodes[node]
            if isinstance(found, AggregateNode | WidthNode):
                return self.program.selector_names[found.selector]
        return None

    def _edges(self, matrix: Matrix, rows: Iterable[int], target: str, through: str) -> list[Edge]:
        wanted, reads = set(rows), defaultdict[int, dict[int, Fraction]](dict)
        for (i, j), value in matrix.entries.items():
            if i in wanted:
                reads[i][j] = value
        edges = []
        for source, writes in self.writes.items():
            directions = {j for row in reads.values() for j in _met(row, writes)}
            if carries := tuple(self._names(directions)):
                edges.append(Edge(source, target, through, carries))
        return edges


def _writes(matrix: Matrix, columns: Iterable[int]) -> Writes:
    """Return what some columns of a matrix write, by direction."""
    chosen, found = set(columns), Writes()
    for (direction, column), value in matrix.entries.items():
        if column in chosen:
            found.setdefault(direction, {})[0, column] = value
    return found


def _met(row: dict[int, Fraction], writes: Writes) -> set[int]:
    """Return the directions over which a row reads what is written, if their sum is not zero."""
    both = row.keys() & writes.keys()
    sums: dict[tuple[int, int], Fraction] = {}
    for j in both:
        for column, value in writes[j].items():
            sums[column] = sums.get(column, Fraction(0)) + row[j] * value
    return both if any(sums.values()) else set()
