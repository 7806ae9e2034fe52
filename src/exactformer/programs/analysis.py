"""The values that nodes of a program can take, and how many positions their selectors select.

For every node and every *cell*, a length and a position (in causal programs a position alone, since
nothing depends on what comes later), a finite set holds every value that the node takes there on
any input. Sets are sound: they may hold more values than occur, never fewer. Equal sets are kept
once.

A node that is a function of one other node takes its sets from that one, its *root*; so two
functions of the same root are never taken for independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from exactformer.errors import CertificationError, InputError, SizeError
from exactformer.programs.aggregates import aggregated, is_uniform
from exactformer.programs.differences import injective
from exactformer.programs.knowledge import MOST_PAIRS, MOST_VALUES
from exactformer.programs.program import (
    MOST_TABLE,
    AggregateNode,
    AndNode,
    ConstantNode,
    IndicesNode,
    LinearNode,
    MapNode,
    Node,
    NotNode,
    OrNode,
    PairNode,
    Program,
    SelectNode,
    SelectorNode,
    TokensNode,
    WidthNode,
    combined,
    entry_of,
)
from exactformer.programs.selectors import compared, disjoint
from exactformer.programs.sets import merged
from exactformer.programs.values import Value, in_order, is_number
from exactformer.programs.witness import DifferenceClaim, Flags, Integers, Literal, NodeClaim


class Analysis:
    """What is known of the nodes of a program, added one by one."""

    def __init__(self, vocabulary: Sequence[Value], max_length: int, causal: bool) -> None:
        self.vocabulary, self.max_length, self.causal = tuple(vocabulary), max_length, causal
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self.selectors: list[SelectorNode] = []
        self.known: list[NodeClaim] = []
        self._values: tuple[Value, ...] = ()
        self._numbers: dict[Value, int] = {}
        self.memory: dict[tuple[Any, ...], Any] = {}
        """What was found out once, of selectors and nodes by number."""
        self.differences: dict[tuple[int, ...], DifferenceClaim | None] = {}
        """Why any two positions differ in one of some nodes, where that was asked."""
        if causal:
            self.positions = np.arange(max_length)
            self.lengths = np.full(max_length, max_length)
        else:
            sizes = range(1, max_length + 1)
            self.positions = np.concatenate([np.arange(m) for m in sizes])
            self.lengths = np.concatenate([np.full(m, m) for m in sizes])

    @classmethod
    def of(cls, program: Program) -> Analysis:
        """Analyse all nodes of a program; raise where a table lacks a value that can occur."""
        found = cls(program.tokens, program.max_length, program.causal)
        found.name_values(program.values)
        found.selectors = list(program.selectors)
        for node, name in zip(program.nodes, program.names, strict=True):
            found.add(node, name)
        return found

    def name_values(self, values: Sequence[Value]) -> None:
        """Take these for the values that tables name by number."""
        self._values = tuple(values)
        self._numbers = {value: number for number, value in enumerate(values)}

    # Nodes

    def add(self, node: Node, name: str) -> int:
        """Analyse one more node and return its number."""
        known = self._knowledge(node, name)
        if len(known.universe) > MOST_VALUES:
            raise SizeError(
                f"{name} can take {len(known.universe):,} values; the limit is {MOST_VALUES:,}. Use a "
                "smaller max_length or vocabulary, or fewer means of means"
            )
        self.nodes.append(node)
        self.names.append(name)
        self.known.append(known)
        return len(self.nodes) - 1

    def value(self, number: int) -> Value:
        """Return a value that tables name, by its number."""
        return self._values[number]

    def universe(self, node: int) -> tuple[Value, ...]:
        """All values of a node, in order."""
        return self.known[node].universe

    def _knowledge(self, node: Node, name: str) -> NodeClaim:
        if isinstance(node, TokensNode):
            return self._own(in_order(self.vocabulary), None)
        if isinstance(node, IndicesNode):
            return self._own(list(range(self.max_length)), self.positions)
        if isinstance(node, ConstantNode):
            return self._own([self._values[node.value]], None)
        if isinstance(node, MapNode):
            inner = self.known[node.inner]
            outputs = [self._output(node, name, x) for x in inner.universe]
            return self._function(inner, [outputs[k] for k in inner.image])
        if isinstance(node, PairNode | LinearNode):
            return self._pair(node, name)
        if isinstance(node, WidthNode):
            low, high = self.widths(node.selector)
            return self._ranges(low, high)
        return aggregated(self, node, name)

    def _own(self, universe: list[Value], places: Integers | None) -> NodeClaim:
        """A node that is its own root, with one value per cell or all of them in all."""
        size = len(universe)
        sets = np.ones((1, size), bool) if places is None else np.eye(size, dtype=bool)
        cells = np.zeros(len(self.positions), np.int64) if places is None else places
        return self.rooted(universe, sets, cells)

    def rooted(self, universe: Sequence[Value], sets: Flags, cells: Integers) -> NodeClaim:
        """Return a node that is its own root, with a set for every cell."""
        sets, cells = merged(sets, cells)
        image = np.arange(len(universe))
        return NodeClaim(tuple(universe), len(self.nodes), image, sets, cells)

    def _function(self, inner: NodeClaim, outputs: list[Value]) -> NodeClaim:
        """A function of a node, given its value for every value of the node's root."""
        root = self.known[inner.root]
        universe = in_order(outputs)
        place = {value: k for k, value in enumerate(universe)}
        image = np.array([place[value] for value in outputs], dtype=np.int64)
        sets = np.zeros((len(root.sets), len(universe)), bool)
        for k, at in enumerate(image):
            sets[:, at] |= root.sets[:, k]
        sets, cells = merged(sets, root.cells)
        return NodeClaim(tuple(universe), inner.root, image, sets, cells)

    def _output(self, node: MapNode | PairNode, name: str, *arguments: Value) -> Value:
        entry = entry_of(node, self._numbers, *arguments)
        if not 1 <= entry <= len(self._values) or entry.denominator != 1:
            at = ", ".join(map(repr, arguments))
            raise CertificationError(f"the table of {name} has no value at {at}, which can occur")
        return self._values[int(entry) - 1]

    def outputs_of_pairs(
        self, node: PairNode | LinearNode, name: str
    ) -> dict[tuple[int, int], Value]:
        """Return the value of a node for every pair of places that can occur together."""
        first, second = self.known[node.first], self.known[node.second]
        sizes = len(first.universe), len(second.universe)
        if sizes[0] * sizes[1] > MOST_TABLE:
            raise SizeError(
                f"{name} would need a table of {sizes[0]:,} × {sizes[1]:,} values; the limit is "
                f"{MOST_TABLE:,}. Use a smaller max_length or vocabulary"
            )
        found = {}
        for a, b in np.argwhere(self.joint(node.first, node.second)).tolist():
            x, y = first.universe[a], second.universe[b]
            if isinstance(node, LinearNode):
                found[a, b] = combined(node, x, y)
            else:
                found[a, b] = self._output(node, name, x, y)
        return found

    def table(self, number: int) -> Integers:
        """Return the places of a pair's or a linear map's values, −1 where parts never meet."""
        key = ("table", number)
        if key not in self.memory:
            node = self.nodes[number]
            assert isinstance(node, PairNode | LinearNode)
            sizes = [len(self.universe(part)) for part in (node.first, node.second)]
            place = {value: k for k, value in enumerate(self.universe(number))}
            found = np.full(sizes, -1, np.int64)
            for (a, b), value in self.outputs_of_pairs(node, self.names[number]).items():
                found[a, b] = place[value]
            self.memory[key] = found
        table: Integers = self.memory[key]
        return table

    def joint(self, first: int, second: int) -> Flags:
        """Return which pairs of values two nodes can have at one position."""
        a, b = self.known[first], self.known[second]
        found = np.zeros((len(a.universe), len(b.universe)), bool)
        if a.root == b.root:
            found[a.image, b.image] = True
            return found
        together = np.zeros((len(a.sets), len(b.sets)), np.float32)
        together[a.cells, b.cells] = 1
        wide = a.sets.T.astype(np.float32) @ together
        return np.asarray((wide > 0).astype(np.float32) @ b.sets.astype(np.float32) > 0)

    def _pair(self, node: PairNode | LinearNode, name: str) -> NodeClaim:
        a, b = self.known[node.first], self.known[node.second]
        if isinstance(node, LinearNode):
            for part in (a, b):
                if strange := [v for v in part.universe if v is not None and not is_number(v)]:
                    raise InputError(f"{name} is a linear map of numbers, not of {strange[0]!r}")
        outputs = self.outputs_of_pairs(node, name)
        if a.root == b.root:
            pairs = zip(a.image.tolist(), b.image.tolist(), strict=True)
            return self._function(a, [outputs[pair] for pair in pairs])
        universe = in_order(outputs.values())
        place = {value: k for k, value in enumerate(universe)}
        table = np.full((len(a.universe), len(b.universe)), -1, np.int64)
        for (x, y), value in outputs.items():
            table[x, y] = place[value]
        codes = a.cells * len(b.sets) + b.cells
        different, cells = np.unique(codes, return_inverse=True)
        sets = np.zeros((len(different), len(universe)), bool)
        for k, code in enumerate(different.tolist()):
            rows, columns = a.sets[code // len(b.sets)], b.sets[code % len(b.sets)]
            sets[k, table[np.ix_(rows, columns)].ravel()] = True
        return self.rooted(universe, sets, cells)

    def _ranges(self, low: Integers, high: Integers) -> NodeClaim:
        """A whole number between bounds in every cell."""
        first, last = int(low.min()), int(high.max())
        codes = low * (last + 1) + high
        different, cells = np.unique(codes, return_inverse=True)
        numbers = np.arange(first, last + 1)
        bottom, top = different // (last + 1), different % (last + 1)
        sets = (numbers >= bottom[:, None]) & (numbers <= top[:, None])
        return self.rooted(numbers.tolist(), sets, cells)

    # Selectors

    def predicate(self, select: int) -> Flags:
        """Return (keys' values, queries' values): which pairs a select accepts."""
        key = ("predicate", select)
        if key not in self.memory:
            self.memory[key] = self._predicate(select)
        found: Flags = self.memory[key]
        return found

    def _predicate(self, select: int) -> Flags:
        node = self.selectors[select]
        assert isinstance(node, SelectNode)
        keys, queries = self.universe(node.keys), self.universe(node.queries)
        if len(keys) * len(queries) > MOST_PAIRS:
            raise SizeError(
                f"a selector compares {len(keys):,} keys with {len(queries):,} queries; the limit is "
                f"{MOST_PAIRS:,} pairs"
            )
        if node.comparison:
            return compared(node.comparison, keys, queries)
        rows = [self._numbers.get(k, -1) for k in keys]
        columns = [self._numbers.get(q, -1) for q in queries]
        size = len(self._values) + 1
        table = np.zeros((size, size), bool)
        if node.table.entries:
            places = np.array(list(node.table.entries))
            table[places[:, 0], places[:, 1]] = True
        listed: Flags = table[np.ix_(rows, columns)]
        if -1 in rows or -1 in columns:
            raise CertificationError("a table of a selector lacks a value that can occur")
        return np.asarray(listed != node.inverted)

    def accepted(self, literal: Literal) -> Flags:
        """Return (values of the keys' root, values of the queries' root): what a literal accepts."""
        node = self.selectors[literal.select]
        assert isinstance(node, SelectNode)
        keys, queries = self.known[node.keys], self.known[node.queries]
        accepts = self.predicate(literal.select)[np.ix_(keys.image, queries.image)]
        return np.asarray(accepts != literal.negated)

    def roots(self, literal: Literal) -> tuple[int, int]:
        """Return the roots of a literal's keys and queries."""
        node = self.selectors[literal.select]
        assert isinstance(node, SelectNode)
        return self.known[node.keys].root, self.known[node.queries].root

    def terms(self, selector: int) -> list[list[Literal]]:
        """Return conjunctions of literals of which a selector is the disjoint union."""
        key = ("terms", selector)
        if key not in self.memory:
            terms = disjoint(self.selectors, selector)
            self.memory[key] = [term for term in terms if not self._is_contradiction(term)]
        found: list[list[Literal]] = self.memory[key]
        return found

    def _is_contradiction(self, literals: list[Literal]) -> bool:
        """Whether no key and query satisfy all literals about the same two roots."""
        together: dict[tuple[int, int], list[Literal]] = {}
        for literal in literals:
            together.setdefault(self.roots(literal), []).append(literal)
        return any(
            not np.logical_and.reduce([self.accepted(literal) for literal in same]).any()
            for same in together.values()
            if len(same) > 1
        )

    def conjunction(self, selector: int) -> list[Literal] | None:
        """Return the literals of a selector that is a conjunction, else None."""
        terms = self.terms(selector)
        return terms[0] if len(terms) == 1 else None

    def _status(self, literal: Literal) -> tuple[Flags, Flags, Flags, Flags]:
        """Return whether a literal may and must hold: by sets of key and query, and on the diagonal."""
        key = ("status", literal)
        if key not in self.memory:
            k, q = self.roots(literal)
            accepts, keys, queries = self.accepted(literal), self.known[k], self.known[q]
            size = keys.sets.sum(1)[:, None] * queries.sets.sum(1)[None, :]
            count = keys.sets.astype(float) @ accepts.astype(float) @ queries.sets.T.astype(float)
            may, must = count > 0, count == size
            if k == q:
                own = np.diagonal(accepts)
                here = (keys.sets & own).any(1), ~(keys.sets & ~own).any(1)
            else:
                here = (np.zeros(0, bool), np.zeros(0, bool))
            self.memory[key] = (may, must, *here)
        found: tuple[Flags, Flags, Flags, Flags] = self.memory[key]
        return found

    def blocks(self, selector: int) -> Iterator[tuple[slice, Flags, Flags]]:
        """Yield, for the cells of every length, which positions may and must be selected.

        Rows are queries, columns are keys.
        """
        yield from self._blocks(lambda cells: self._on(selector, cells))

    def _blocks(
        self, on: Callable[[slice], tuple[Flags, Flags]]
    ) -> Iterator[tuple[slice, Flags, Flags]]:
        n = self.max_length
        for m in (n,) if self.causal else range(1, n + 1):
            start = 0 if self.causal else m * (m - 1) // 2
            cells = slice(start, start + m)
            may, must = on(cells)
            if self.causal:
                before = np.tri(m, dtype=bool)
                may, must = may & before, must & before
            yield cells, may, must

    def _on(self, selector: int, cells: slice) -> tuple[Flags, Flags]:
        node = self.selectors[selector]
        if isinstance(node, NotNode):
            may, must = self._on(node.inner, cells)
            return ~must, ~may
        if isinstance(node, AndNode | OrNode):
            first, second = self._on(node.first, cells), self._on(node.second, cells)
            if isinstance(node, AndNode):
                return first[0] & second[0], first[1] & second[1]
            return first[0] | second[0], first[1] | second[1]
        return self._literal_on(Literal(selector, False), cells)

    def _literal_on(self, literal: Literal, cells: slice) -> tuple[Flags, Flags]:
        k, q = self.roots(literal)
        may, must, own_may, own_must = self._status(literal)
        keys, queries = self.known[k].cells[cells], self.known[q].cells[cells]
        here = np.ix_(keys, queries)
        found = may[here].T.copy(), must[here].T.copy()
        if k == q:
            np.fill_diagonal(found[0], own_may[keys])
            np.fill_diagonal(found[1], own_must[keys])
        return found

    def _term_on(self, literals: Sequence[Literal], cells: slice) -> tuple[Flags, Flags]:
        parts = [self._literal_on(literal, cells) for literal in literals]
        may, must = zip(*parts, strict=True)
        return np.logical_and.reduce(may), np.logical_and.reduce(must)

    def widths(self, selector: int) -> tuple[Integers, Integers]:
        """Return bounds, for every cell, of how many positions are selected."""
        key = ("widths", selector)
        if key not in self.memory:
            terms = self.terms(selector)
            if len(terms) == 1:
                self.memory[key] = self.term_bounds(selector, 0)
            else:  # the widths of disjoint terms add up
                low, high = self._counted(lambda cells: self._on(selector, cells))
                parts = [self.term_bounds(selector, term) for term in range(len(terms))]
                least = np.sum([part[0] for part in parts], axis=0, dtype=np.int64)
                most = np.sum([part[1] for part in parts], axis=0, dtype=np.int64)
                self.memory[key] = np.maximum(low, least), np.minimum(high, most)
        found: tuple[Integers, Integers] = self.memory[key]
        return found

    def term_bounds(self, selector: int, term: int) -> tuple[Integers, Integers]:
        """Return bounds, for every cell, of how many positions one term of a selector selects."""
        key = ("term bounds", selector, term)
        if key not in self.memory:
            self.memory[key] = self._conjunction_widths(self.terms(selector)[term])
        found: tuple[Integers, Integers] = self.memory[key]
        return found

    def term_widths(self, selector: int, term: int) -> list[int]:
        """Return how many positions one term of a selector may select, in any cell."""
        low, high = self.term_bounds(selector, term)
        return list(range(int(low.min()), int(high.max()) + 1))

    def _counted(self, on: Callable[[slice], tuple[Flags, Flags]]) -> tuple[Integers, Integers]:
        low = np.zeros(len(self.positions), np.int64)
        high = low.copy()
        for cells, may, must in self._blocks(on):
            low[cells], high[cells] = must.sum(1), may.sum(1)
        return low, high

    def _conjunction_widths(self, literals: Sequence[Literal]) -> tuple[Integers, Integers]:
        low, high = self._counted(lambda cells: self._term_on(literals, cells))
        if int(high.max()) > 1 and self._is_injective_key(literals):
            most = np.ones(len(self.positions))
            for literal in literals:
                _, q = self.roots(literal)
                count = self._distinct_keys(literal)
                sets = self.known[q].sets
                by_set = np.where(sets, count[None, :], 0).max(1)
                most = np.minimum(most * by_set[self.known[q].cells], self.max_length)
            high = np.minimum(high, most.astype(np.int64))
        if len(literals) == 1 and not self.causal:
            self._bijection(literals[0], low, high)
        return low, np.maximum(low, high)

    def _distinct_keys(self, literal: Literal) -> Integers:
        """Return, for every value of the queries' root, how many values of the key it accepts."""
        node = self.selectors[literal.select]
        assert isinstance(node, SelectNode)
        accepts = self.predicate(literal.select) != literal.negated
        count = accepts.sum(0)[self.known[node.queries].image]
        return np.asarray(count, dtype=np.int64)

    def _is_injective_key(self, literals: Sequence[Literal]) -> bool:
        keys = []
        for literal in literals:
            node = self.selectors[literal.select]
            assert isinstance(node, SelectNode)
            keys.append(node.keys)
        return injective(self, tuple(dict.fromkeys(keys)))

    def _bijection(self, literal: Literal, low: Integers, high: Integers) -> None:
        """Narrow the widths where the keys of every input of a length are all values there are.

        Different positions have different keys; if at a length as many values as positions are
        possible, each occurs exactly once, and a query selects as many positions as it accepts values.
        """
        node = self.selectors[literal.select]
        assert isinstance(node, SelectNode)
        if not injective(self, (node.keys,)):
            return
        keys, queries = self.known[node.keys], self.known[node.queries]
        accepts = self.predicate(literal.select) != literal.negated
        for m in range(1, self.max_length + 1):
            cells = slice(m * (m - 1) // 2, m * (m + 1) // 2)
            occurring = keys.sets[np.unique(keys.cells[cells])].any(0)
            if occurring.sum() != m:
                continue
            count = accepts[occurring].sum(0)
            sets = queries.sets[queries.cells[cells]]
            low[cells] = np.maximum(low[cells], np.where(sets, count, m).min(1))
            high[cells] = np.minimum(high[cells], np.where(sets, count, 0).max(1))

    # Aggregates

    def is_uniform(self, number: int) -> bool:
        """Whether all positions that an aggregate selects have the same value, on every input."""
        node = self.nodes[number]
        assert isinstance(node, AggregateNode)
        return is_uniform(self, node)

    def may_be_empty(self, number: int) -> bool:
        """Whether an aggregate may find nothing selected."""
        node = self.nodes[number]
        assert isinstance(node, AggregateNode)
        return int(self.widths(node.selector)[0].min()) == 0
