"""An order in which the layers of a model and the nodes of its program are taken together.

A node that selects is computed by some heads of one layer; Coq follows these and the node side by side.
Registers say which heads. The order is a hint: Coq's check believes none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exactformer.errors import CertificationError
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer
from exactformer.programs.program import (
    AggregateNode,
    IndicesNode,
    LinearNode,
    MapNode,
    PairNode,
    Program,
    SelectNode,
    TokensNode,
    WidthNode,
)
from exactformer.programs.selectors import selects_of


@dataclass(frozen=True)
class Schedule:
    """Stages of nodes, each computed from earlier ones, and the order of stages and layers."""

    stages: tuple[tuple[int, ...], ...]
    """Nodes by their number in the program, without the token and its place."""
    steps: tuple[str, ...]
    """In Coq's notation."""

    @property
    def numbers(self) -> dict[int, int]:
        """The place of every node in a row of values."""
        order = [0, 1, *(node for stage in self.stages for node in stage)]
        return {node: place for place, node in enumerate(order)}


def schedule(blueprint: ProgramBlueprint, program: Program) -> Schedule:
    """Return an order of all nodes of a program and all layers of a model."""
    if [type(node) for node in program.nodes[:2]] != [TokensNode, IndicesNode]:
        raise CertificationError("the first nodes of the program are not its tokens and indices")
    return _Order(blueprint, program).schedule()


class _Order:
    def __init__(self, blueprint: ProgramBlueprint, program: Program) -> None:
        self.blueprint, self.program = blueprint, program
        self.stages: list[tuple[int, ...]] = []
        self.steps: list[str] = []
        self.left = list(range(2, len(program.nodes)))
        self.known = {0, 1}
        self.heads = self._writers()

    def schedule(self) -> Schedule:
        for at, layer in enumerate(self.blueprint.layers):
            self._compute(at)
            if layer.heads:
                self.steps.append(f"Heads [{'; '.join(self._groups(at, layer))}]%nat")
            if has_units(layer):
                self.steps.append("Relus")
        self._compute(len(self.blueprint.layers))
        if self.left:
            raise CertificationError(f"node {self.left[0]} is computed before what it needs")
        return Schedule(tuple(self.stages), tuple(self.steps))

    def _writers(self) -> dict[int, tuple[int, list[int]]]:
        """Return the layer and the heads that write a node's registers, for nodes that select."""
        directions: dict[int, set[int]] = {}
        for register in self.blueprint.registers:
            if register.node is not None:
                directions.setdefault(register.node, set()).update(register.directions)
        found: dict[int, tuple[int, list[int]]] = {}
        for node, places in directions.items():
            if not self._selects(node):
                continue
            for at, layer in enumerate(self.blueprint.layers):
                own = [
                    k
                    for k, head in enumerate(layer.heads)
                    if any(i in places for i in head.output.by_row)
                ]
                if own:
                    found[node] = (at, own)
        return found

    def _compute(self, layer: int) -> None:
        """Place all nodes that are functions of known ones, and those that no later head computes."""
        while ready := [n for n in self.left if self._is_ready(n) and not self._selects(n)]:
            self._place(ready, "Values")
        for node in list(self.left):
            late = node not in self.heads or self.heads[node][0] < layer
            if self._selects(node) and late and self._is_ready(node):
                self._place([node], "Selection")
                self._compute(layer)
                return

    def _groups(self, at: int, layer: ProgramLayer) -> Iterator[str]:
        """Yield runs of heads, each with or without the nodes that they compute."""
        spans = []
        for node, (where, heads) in sorted(self.heads.items()):
            if where == at and node in self.left and self._is_ready(node):
                spans.append((min(heads), max(heads), node))
        start, known = 0, set(self.known)
        while start < len(layer.heads):
            end, nodes = start, []
            while more := [s for s in spans if s[0] <= end and s[2] not in nodes and s[1] >= start]:
                nodes += [node for _, _, node in more]
                end = max(end, *(last for _, last, _ in more))
            if nodes:
                self._place(sorted(nodes), None)
            yield f"({end - start + 1}, {'true' if nodes else 'false'})"
            start = end + 1
        assert known <= self.known

    def _place(self, nodes: list[int], step: str | None) -> None:
        self.stages.append(tuple(nodes))
        self.known.update(nodes)
        self.left = [node for node in self.left if node not in nodes]
        if step is not None:
            self.steps.append(step)

    def _selects(self, number: int) -> bool:
        return isinstance(self.program.nodes[number], AggregateNode | WidthNode)

    def _is_ready(self, number: int) -> bool:
        return all(part in self.known for part in self._parts(number))

    def _parts(self, number: int) -> list[int]:
        node = self.program.nodes[number]
        if isinstance(node, MapNode):
            return [node.inner]
        if isinstance(node, PairNode | LinearNode):
            return [node.first, node.second]
        if not isinstance(node, AggregateNode | WidthNode):
            return []
        parts = [node.values] if isinstance(node, AggregateNode) else []
        for select in selects_of(self.program.selectors, node.selector):
            found = self.program.selectors[select]
            if isinstance(found, SelectNode):
                parts += [found.keys, found.queries]
        return parts


def has_units(layer: ProgramLayer) -> bool:
    """Whether a layer has ReLUs, or a bias that it adds."""
    return bool(layer.feed_forward.w1.rows or layer.feed_forward.b2.entries)
