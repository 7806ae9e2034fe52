"""What a checked witness says about a program: tables of selectors, pairs of values, widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from exactformer.errors import CertificationError, SizeError
from exactformer.programs.language import COMPARISONS
from exactformer.programs.program import (
    AggregateNode,
    LinearNode,
    MapNode,
    PairNode,
    Program,
    SelectNode,
    combined,
    entry_of,
)
from exactformer.programs.values import Value, is_number
from exactformer.programs.witness import Flags, Integers, Literal, Shared, Witness

MOST_PAIRS = 60_000_000
"""Pairs of values in one table."""


class UnprovenError(CertificationError):
    """A claim of a witness that its rule does not give; ``rule`` is the name of the rule."""

    def __init__(self, rule: str, name: str, why: str) -> None:
        self.rule = rule
        super().__init__(f"{name}: {why} (a witness refused by the rule of {rule})")


class Facts:
    """The claims of a witness, each proven once :func:`check_witness` has returned this."""

    def __init__(self, program: Program, witness: Witness) -> None:
        self.program, self.witness = program, witness
        self.nodes, self.names, self.selectors = program.nodes, program.names, program.selectors
        self.max_length, self.known = program.max_length, witness.nodes
        self.apart: set[tuple[int, ...]] = set()
        """Nodes of which any two positions have been shown to differ in one."""
        self._memory: dict[tuple[Any, ...], Any] = {}

    # Cells

    @property
    def cells(self) -> int:
        """How many cells there are."""
        n = self.max_length
        return n if self.program.causal else n * (n + 1) // 2

    def lengths(self) -> Iterator[tuple[int, slice]]:
        """Yield the lengths, with the cells of each; in causal programs one stands for all."""
        n = self.max_length
        if self.program.causal:
            yield n, slice(0, n)
            return
        for m in range(1, n + 1):
            yield m, slice(m * (m - 1) // 2, m * (m + 1) // 2)

    # Values

    def universe(self, node: int) -> tuple[Value, ...]:
        """Return all values of a node, in order."""
        return self.known[node].universe

    def value(self, number: int) -> Value:
        """Return a value that tables name, by its number."""
        return self.program.values[number]

    def output(self, number: int, *arguments: Value) -> Value:
        """Return the value of a map, a pair or a linear map for values of its parts."""
        node = self.nodes[number]
        if isinstance(node, LinearNode):
            if strange := [v for v in arguments if v is not None and not is_number(v)]:
                raise UnprovenError("tables", self.names[number], f"a linear map of {strange[0]!r}")
            return combined(node, *arguments)
        assert isinstance(node, MapNode | PairNode)
        entry = entry_of(node, self.program.numbers, *arguments)
        if entry.denominator != 1 or not 1 <= entry <= len(self.program.values):
            at = ", ".join(map(repr, arguments))
            raise UnprovenError("tables", self.names[number], f"its table has no value at {at}")
        return self.program.values[int(entry) - 1]

    def joint(self, first: int, second: int) -> Flags:
        """Return which pairs of values two nodes can have at one position."""
        a, b = self.known[first], self.known[second]
        met = np.zeros((len(a.universe), len(b.universe)), bool)
        if a.root == b.root:
            met[a.image, b.image] = True
            return met
        self._check_size(*met.shape, self.names[second])
        together = np.zeros((len(a.sets), len(b.sets)), np.float32)
        together[a.cells, b.cells] = 1
        wide = (a.sets.T.astype(np.float32) @ together > 0).astype(np.float32)
        return np.asarray(wide @ b.sets.astype(np.float32) > 0)

    def table(self, number: int) -> Integers:
        """Return the places of a pair's or a linear map's values, −1 where parts never meet."""
        if ("table", number) not in self._memory:
            outputs = self.outputs(number)
            place = {value: k for k, value in enumerate(self.universe(number))}
            node: Any = self.nodes[number]
            sizes = len(self.universe(node.first)), len(self.universe(node.second))
            found = np.full(sizes, -1, np.int64)
            for pair, value in outputs.items():
                found[pair] = place[value]
            self._memory["table", number] = found
        table: Integers = self._memory["table", number]
        return table

    def outputs(self, number: int) -> dict[tuple[int, int], Value]:
        """Return the values of a pair or a linear map where its parts can meet, by their places."""
        if ("outputs", number) not in self._memory:
            node: Any = self.nodes[number]
            first, second = self.universe(node.first), self.universe(node.second)
            self._memory["outputs", number] = {
                (a, b): self.output(number, first[a], second[b])
                for a, b in np.argwhere(self.joint(node.first, node.second)).tolist()
            }
        outputs: dict[tuple[int, int], Value] = self._memory["outputs", number]
        return outputs

    # Selectors

    def select(self, number: int) -> SelectNode:
        """Return a selector that is a select."""
        node = self.selectors[number]
        if not isinstance(node, SelectNode):
            raise UnprovenError("terms", f"selector {number}", "a literal names no select")
        return node

    def roots(self, literal: Literal) -> tuple[int, int]:
        """Return the roots of a literal's keys and queries."""
        node = self.select(literal.select)
        return self.known[node.keys].root, self.known[node.queries].root

    def predicate(self, literal: Literal) -> Flags:
        """Return (keys' values, queries' values): which pairs a literal accepts."""
        key = ("predicate", literal.select)
        if key not in self._memory:
            self._memory[key] = self._predicate(self.select(literal.select), literal.select)
        return np.asarray(self._memory[key] != literal.negated)

    def accepted(self, literal: Literal) -> Flags:
        """Return (values of the keys' root, values of the queries' root): what a literal accepts."""
        node = self.select(literal.select)
        places = np.ix_(self.known[node.keys].image, self.known[node.queries].image)
        return np.asarray(self.predicate(literal)[places])

    def _predicate(self, node: SelectNode, number: int) -> Flags:
        keys, queries = self.universe(node.keys), self.universe(node.queries)
        name = self.program.selector_names[number]
        self._check_size(len(keys), len(queries), name)
        if node.comparison:
            return _compared(node.comparison, keys, queries, name)
        numbers = self.program.numbers
        if missing := [v for v in (*keys, *queries) if v not in numbers]:
            raise UnprovenError("tables", name, f"its table has no {missing[0]!r}")
        rows = {numbers[v]: k for k, v in enumerate(keys)}
        columns = {numbers[v]: k for k, v in enumerate(queries)}
        listed = np.zeros((len(keys), len(queries)), bool)
        for i, j in node.table.entries:
            if i in rows and j in columns:
                listed[rows[i], columns[j]] = True
        return np.asarray(listed != node.inverted)

    def _check_size(self, rows: int, columns: int, name: str) -> None:
        if rows * columns > MOST_PAIRS:
            raise SizeError(
                f"{name}: a table of {rows:,} × {columns:,} pairs of values; the limit is "
                f"{MOST_PAIRS:,}"
            )

    def terms(self, selector: int) -> list[list[Literal]]:
        """Return conjunctions of literals of which a selector is the disjoint union."""
        return [list(term.literals) for term in self.witness.selectors[selector].terms]

    def conjunction(self, selector: int) -> list[Literal] | None:
        """Return the literals of a selector that is a conjunction, else None."""
        terms = self.terms(selector)
        return terms[0] if len(terms) == 1 else None

    def term_widths(self, selector: int, term: int) -> list[int]:
        """Return how many positions one term of a selector may select, in any cell."""
        claim = self.witness.selectors[selector].terms[term]
        return list(range(int(claim.low.min()), int(claim.high.max()) + 1))

    # Aggregates

    def is_uniform(self, number: int) -> bool:
        """Whether all positions that an aggregate selects have the same value, on every input."""
        return self.witness.aggregates[number].shared is not Shared.MEAN

    def may_be_empty(self, number: int) -> bool:
        """Whether an aggregate may find nothing selected."""
        node = self.nodes[number]
        assert isinstance(node, AggregateNode)
        return int(self.witness.selectors[node.selector].low.min()) == 0


def _compared(
    comparison: str, keys: tuple[Value, ...], queries: tuple[Value, ...], name: str
) -> Flags:
    """Return (keys, queries): which pairs a comparison holds of."""
    values = [*keys, *queries]
    if comparison in ("==", "!="):
        different = list(dict.fromkeys(values))
    elif comparison in ("True", "False"):
        return np.full((len(keys), len(queries)), comparison == "True")
    elif all(map(is_number, values)) or all(isinstance(v, str) for v in values):
        different = sorted(set(values))
    else:
        raise UnprovenError("tables", name, f"{comparison} of things that have no order")
    level = {value: k for k, value in enumerate(different)}
    rows = np.array([level[v] for v in keys])[:, None]
    columns = np.array([level[v] for v in queries])[None, :]
    return np.asarray(COMPARISONS[comparison](rows, columns))
