"""Tabulated programs: expressions whose functions are finite tables, as data.

This is the statement that a model is proven against, and what its file holds. A node gives a value at
every position, a selector the positions that every position selects. Both refer to earlier ones by
number. Values are numbered too: tables are matrices whose rows and columns are numbers of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from exactformer.core.matrix import Matrix
from exactformer.errors import InputError, SizeError
from exactformer.programs.language import COMPARISONS, average
from exactformer.programs.values import Value, canonical, read


@dataclass(frozen=True)
class TokensNode:
    """The input."""


@dataclass(frozen=True)
class IndicesNode:
    """The position, from 0."""


@dataclass(frozen=True)
class ConstantNode:
    """One value everywhere, by its number."""

    value: int


@dataclass(frozen=True)
class MapNode:
    """A function of one node: entry (x, 0) of the table is 1 + the number of f(x)."""

    inner: int
    table: Matrix


@dataclass(frozen=True)
class PairNode:
    """A function of two nodes: entry (x, y) of the table is 1 + the number of f(x, y)."""

    first: int
    second: int
    table: Matrix


@dataclass(frozen=True)
class LinearNode:
    """a·first + b·second, of numbers; None where one of them is."""

    first: int
    second: int
    a: Fraction
    b: Fraction


@dataclass(frozen=True)
class WidthNode:
    """How many positions a selector selects."""

    selector: int


@dataclass(frozen=True)
class AggregateNode:
    """The value shared by the selected positions, or their mean; a default where there are none."""

    selector: int
    values: int
    default: int


Node = (
    TokensNode
    | IndicesNode
    | ConstantNode
    | MapNode
    | PairNode
    | LinearNode
    | WidthNode
    | AggregateNode
)


@dataclass(frozen=True)
class SelectNode:
    """Selects by a comparison (``==``, ``<`` …) of key and query, or, where it is empty, by a table.

    Entry (key, query) of the table is 1 for the pairs listed: those selected, or, if ``inverted``, all
    others are.
    """

    keys: int
    queries: int
    comparison: str
    table: Matrix
    inverted: bool


@dataclass(frozen=True)
class AndNode:
    """What both select."""

    first: int
    second: int


@dataclass(frozen=True)
class OrNode:
    """What either selects."""

    first: int
    second: int


@dataclass(frozen=True)
class NotNode:
    """What is not selected."""

    inner: int


SelectorNode = SelectNode | AndNode | OrNode | NotNode


@dataclass(frozen=True)
class Program:
    """A program on sequences of 1 to ``max_length`` tokens of a vocabulary."""

    vocabulary: tuple[str, ...]
    """Tokens, as :func:`exactformer.programs.values.spelled` writes them."""
    max_length: int
    causal: bool
    """Whether positions select among themselves and those before them only."""
    constants: tuple[str, ...]
    """The values that tables name by number."""
    nodes: tuple[Node, ...]
    selectors: tuple[SelectorNode, ...]
    output: int
    numerical: bool
    """Whether the output is asked for as a number rather than one direction per value."""
    names: tuple[str, ...]
    """What the nodes are called; no value depends on it."""
    selector_names: tuple[str, ...]

    @cached_property
    def tokens(self) -> tuple[Value, ...]:
        """The vocabulary as values."""
        return tuple(map(read, self.vocabulary))

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The values that tables name, by number."""
        return tuple(map(read, self.constants))

    @cached_property
    def numbers(self) -> dict[Value, int]:
        """The number of every value."""
        return {value: number for number, value in enumerate(self.values)}

    def __call__(self, xs: Sequence[Value]) -> list[Value]:
        """Run the program on a sequence of tokens, by its tables."""
        return self.run([canonical(x) for x in xs])[self.output]

    def run(self, xs: Sequence[Value]) -> list[list[Value]]:
        """Return the values of every node on one input."""
        for x in xs:
            if x not in self.tokens:
                raise InputError(f"{x!r} is not in the vocabulary {list(self.tokens)[:12]}")
        rows = _Rows(self, xs)
        for node in range(len(self.nodes)):
            rows.add(node)
        return rows.known


class _Rows:
    """The values of nodes on one input, one after another."""

    def __init__(self, program: Program, xs: Sequence[Value]) -> None:
        self.program, self.xs = program, xs
        self.known: list[list[Value]] = []

    def add(self, number: int) -> None:
        self.known.append(self._values(self.program.nodes[number], self.program.names[number]))

    def _values(self, node: Node, name: str) -> list[Value]:
        n, values = len(self.xs), self.program.values
        if isinstance(node, TokensNode):
            return list(self.xs)
        if isinstance(node, IndicesNode):
            return list(range(n))
        if isinstance(node, ConstantNode):
            return [values[node.value]] * n
        if isinstance(node, MapNode):
            return [self._entry(node, name, x) for x in self.known[node.inner]]
        if isinstance(node, PairNode | LinearNode):
            pairs = zip(self.known[node.first], self.known[node.second], strict=True)
            if isinstance(node, PairNode):
                return [self._entry(node, name, x, y) for x, y in pairs]
            return [combined(node, x, y) for x, y in pairs]
        rows = [[self.selects(node.selector, i, j) for j in range(n)] for i in range(n)]
        if isinstance(node, WidthNode):
            return [sum(row) for row in rows]
        chosen = self.known[node.values]
        picked = ([v for s, v in zip(row, chosen, strict=True) if s] for row in rows)
        return [average(selected, values[node.default], name) for selected in picked]

    def _entry(self, node: MapNode | PairNode, name: str, *arguments: Value) -> Value:
        if not (entry := entry_of(node, self.program.numbers, *arguments)):
            raise InputError(f"{name} has no value at {', '.join(map(repr, arguments))}")
        return self.program.values[int(entry) - 1]

    def selects(self, selector: int, i: int, j: int) -> bool:
        """Whether position i selects position j."""
        return not (self.program.causal and j > i) and self._holds(selector, i, j)

    def _holds(self, selector: int, i: int, j: int) -> bool:
        node = self.program.selectors[selector]
        if isinstance(node, NotNode):
            return not self._holds(node.inner, i, j)
        if isinstance(node, AndNode):
            return self._holds(node.first, i, j) and self._holds(node.second, i, j)
        if isinstance(node, OrNode):
            return self._holds(node.first, i, j) or self._holds(node.second, i, j)
        key, query = self.known[node.keys][j], self.known[node.queries][i]
        if node.comparison:
            return bool(COMPARISONS[node.comparison](key, query))
        numbers = self.program.numbers
        listed = node.table[numbers.get(key, -1), numbers.get(query, -1)] != 0
        return listed != node.inverted


def entry_of(
    node: MapNode | PairNode, numbers: Mapping[Value, int], x: Value, y: Value = None
) -> Fraction:
    """Return the entry of a table for values: 1 + the number of the result; 0 where there is none."""
    column = 0 if isinstance(node, MapNode) else numbers.get(y, -1)
    return node.table[numbers.get(x, -1), column]


def combined(node: LinearNode, x: Value, y: Value) -> Value:
    """Return a·x + b·y."""
    return None if x is None or y is None else canonical(node.a * x + node.b * y)


LONGEST = 4096
"""The largest max_length."""
MOST_TABLE = 2_000_000
"""Pairs of values of which one function of two may have to be known."""
DEEPEST, MOST_PARTS = 200, 1000
"""Levels of a selector, and parts of it, written out: what is used twice counts twice."""

Extent = tuple[int, int]
"""Levels and parts of a selector."""


def extent_of(selector: SelectorNode, before: Sequence[Extent]) -> Extent:
    """Return the extent of a selector, from those of the selectors before it.

    Raises:
        SizeError: where it is too large to be written out.
    """
    inner = [before[getattr(selector, f)] for f in _PARTS if hasattr(selector, f)]
    depth, parts = 1 + max((d for d, _ in inner), default=0), 1 + sum(p for _, p in inner)
    for count, limit, what in ((depth, DEEPEST, "levels"), (parts, MOST_PARTS, "parts")):
        if count > limit:
            raise SizeError(f"a selector has {count} {what}; the limit is {limit}")
    return depth, parts


_PARTS = ("first", "second", "inner")


def check_program(program: Program) -> None:
    """Raise unless everything in a program refers to what comes before it.

    Raises:
        InputError: with what is wrong.
    """
    if len(program.numbers) < len(program.values) or len(set(program.tokens)) < len(program.tokens):
        raise InputError("a program has a value twice")
    counts = len(program.nodes), len(program.selectors)
    if (len(program.names), len(program.selector_names)) != counts or not counts[0]:
        raise InputError("a program does not have one name for each of its parts")
    if not all(map(str.isprintable, (*program.names, *program.selector_names))):
        raise InputError("a program has a name that is not one line of text")
    if not program.output < counts[0] or not program.tokens or program.max_length < 1:
        raise InputError("a program has no output, no tokens or no length")
    if program.max_length > LONGEST:
        raise SizeError(
            f"a program has max_length={program.max_length:,}; the limit is {LONGEST:,}"
        )
    extents: list[Extent] = []
    for number, selector in enumerate(program.selectors):
        if any(hasattr(selector, f) and not getattr(selector, f) < number for f in _PARTS):
            raise InputError(f"selector {number} refers to one that does not come before it")
        extents.append(extent_of(selector, extents))
        if isinstance(selector, SelectNode):
            if selector.comparison not in ("", *COMPARISONS):
                raise InputError(f"{selector.comparison[:40]!r} is not a comparison")
            _check_table(program, selector.table, len(program.values), f"selector {number}")
    for number, node in enumerate(program.nodes):
        for part in (*_PARTS, "values"):
            if hasattr(node, part) and not getattr(node, part) < number:
                raise InputError(f"node {number} refers to one that does not come before it")
        if hasattr(node, "selector"):
            _check_selector(program, node.selector, number)
        for part in ("default", "value"):
            if hasattr(node, part) and not getattr(node, part) < len(program.values):
                raise InputError(f"node {number} names a value that is not there")
        if isinstance(node, MapNode | PairNode):
            columns = 1 if isinstance(node, MapNode) else len(program.values)
            _check_table(program, node.table, columns, f"node {number}")


def _check_table(program: Program, table: Matrix, columns: int, name: str) -> None:
    if table.rows > len(program.values) or table.columns > columns:
        raise InputError(f"the table of {name} has {table.rows} × {table.columns} entries")


def _check_selector(program: Program, selector: int, node: int) -> None:
    if not selector < len(program.selectors):
        raise InputError(f"node {node} names a selector that is not there")
    found = program.selectors[selector]
    if isinstance(found, SelectNode):
        if not (found.keys < node and found.queries < node):
            raise InputError(
                f"a selector of node {node} refers to one that does not come before it"
            )
        return
    for part in _PARTS:
        if hasattr(found, part):
            _check_selector(program, getattr(found, part), node)
