"""The circuit of a program: which head and which ReLUs compute which expression, and from what.

It is the ground truth that a circuit-finding method should find. It is read off the weights: a part
writes the registers that its output reaches, and depends on the registers that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from exactformer.core.matrix import Matrix
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.program import AggregateNode, Program, WidthNode


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
        self.writer: dict[int, str] = {}

    def circuit(self) -> Circuit:
        components: list[Component] = [self._embedding()]
        edges: list[Edge] = []
        for at, layer in enumerate(self.blueprint.layers):
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
            components += self._written(components)
            for units, rows in self._groups(at):
                computed = ", ".join(self._names(rows))
                name = f"layer {at}, units: {computed}"
                edges += self._edges(layer.feed_forward.w1, units, name, "input")
                components.append(
                    self._component(name, "units", at, None, tuple(units), rows, None)
                )
            components += self._written(components)
        readout = self.blueprint.readout
        edges += self._edges(readout, range(readout.rows), "output", "output")
        return Circuit(tuple(components), tuple(edges))

    def _written(self, components: list[Component]) -> list[Component]:
        """Note who wrote what, once a half-layer is complete; nothing is added."""
        for component in components:
            for direction in component.directions:
                self.writer.setdefault(direction, component.name)
        return []

    def _embedding(self) -> Component:
        matrices = (self.blueprint.tokens, self.blueprint.positions)
        rows = {j for matrix in matrices for _, j in matrix.entries}
        found = self._component("embedding", "embedding", None, None, (), rows, None)
        self._written([found])
        return found

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

    def _edges(self, matrix: Matrix, rows: Any, target: str, through: str) -> list[Edge]:
        wanted = set(rows)
        read: dict[str, set[int]] = {}
        for i, j in matrix.entries:
            if i in wanted and j in self.writer:
                read.setdefault(self.writer[j], set()).add(j)
        edges = []
        for source, directions in read.items():
            if carries := tuple(self._names(directions)):
                edges.append(Edge(source, target, through, carries))
        return edges
