"""Expressions into tabulated programs: every function is asked for each value it can meet.

Four things are rewritten on the way, none of which changes a value. The length is the width of the
selector of everything. A function of a function of a node stays a function of that node. A constant
selector is a table of positions. An aggregate over a selector that is not a conjunction selects by
pairs of keys and pairs of queries instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import islice, product
from typing import Any

import numpy as np

from exactformer.core.matrix import Matrix
from exactformer.core.options import positive_integer
from exactformer.errors import InputError, SizeError
from exactformer.programs import language as rasp
from exactformer.programs.analysis import Analysis
from exactformer.programs.knowledge import MOST_PAIRS, AmbiguityError
from exactformer.programs.program import (
    LONGEST,
    MOST_TABLE,
    AggregateNode,
    AndNode,
    ConstantNode,
    Extent,
    IndicesNode,
    LinearNode,
    MapNode,
    NotNode,
    OrNode,
    PairNode,
    Program,
    SelectNode,
    TokensNode,
    WidthNode,
    extent_of,
)
from exactformer.programs.selectors import selects_of
from exactformer.programs.values import Value, canonical, in_order, spelled
from exactformer.programs.witness import Flags

_EXAMPLES = 20_000
"""Inputs that are tried for one that shows why a program is ambiguous."""


def tabulate(
    expression: rasp.SOp, vocabulary: Iterable[Value], max_length: int, causal: bool = False
) -> Program:
    """Return an expression as a program of tables; see :func:`tabulated`."""
    return tabulated(expression, vocabulary, max_length, causal)[0]


def tabulated(
    expression: rasp.SOp, vocabulary: Iterable[Value], max_length: int, causal: bool = False
) -> tuple[Program, Analysis]:
    """Return an expression as a program of tables, for all inputs up to a length, and its analysis.

    Raises:
        InputError: where the expression has no value on some input, with the input where one is found.
        SizeError: where too many values would have to be told apart.
    """
    if not isinstance(expression, rasp.SOp):
        kind = "a selector" if isinstance(expression, rasp.Selector) else type(expression).__name__
        raise InputError(f"a program is a sequence expression of exactformer.rasp, not {kind}")
    tokens = checked_vocabulary(vocabulary)
    max_length = positive_integer(max_length, "max_length")
    if max_length > LONGEST:
        raise InputError(f"max_length={max_length} must lie between 1 and {LONGEST}")
    try:
        tabulation = _Tabulation(tokens, max_length, causal)
        return tabulation.program(expression), tabulation.analysis
    except AmbiguityError as error:
        raise AmbiguityError(f"{error}{_example(expression, tokens, max_length, causal)}") from None


def checked_vocabulary(vocabulary: Iterable[Value]) -> list[Value]:
    """Return the different tokens of a vocabulary, in order; a set has none of its own."""
    try:
        tokens = [canonical(token) for token in vocabulary]
    except TypeError:
        raise InputError(f"a vocabulary is a list of tokens, not {vocabulary!r}") from None
    if not tokens or None in tokens:
        raise InputError("a vocabulary has at least one token, and None is not one")
    if len(set(tokens)) < len(tokens):
        twice = next(t for k, t in enumerate(tokens) if t in tokens[:k])
        raise InputError(f"the vocabulary has {twice!r} twice")
    return in_order(tokens)


class _Tabulation:
    """Nodes and selectors of one program, by the expressions they come from."""

    def __init__(self, tokens: list[Value], max_length: int, causal: bool) -> None:
        self.analysis = Analysis(tokens, max_length, causal)
        self.numbers: dict[Value, int] = {}
        self.values: list[Value] = []
        self.selector_names: list[str] = []
        self._extents: list[Extent] = []
        self._memory: dict[Any, int] = {}
        self._kept: list[Any] = []
        self.tables: list[tuple[int, dict[tuple[int, int], int]]] = []
        self.tokens = self._node(("tokens",), lambda: TokensNode(), "tokens")
        self.indices = self._node(("indices",), lambda: IndicesNode(), "indices")

    def program(self, expression: rasp.SOp) -> Program:
        for part in rasp.walk(expression):
            (self.selector if isinstance(part, rasp.Selector) else self.node)(part)  # type: ignore[arg-type]
        output = self.node(expression)
        for value in self.analysis.vocabulary:
            self.number(value)
        analysis = self.analysis
        return Program(
            tuple(map(spelled, analysis.vocabulary)),
            analysis.max_length,
            analysis.causal,
            tuple(map(spelled, self.values)),
            tuple(analysis.nodes),
            tuple(analysis.selectors),
            output,
            self._is_number(expression, output),
            tuple(analysis.names),
            tuple(self.selector_names),
        )

    def _is_number(self, expression: rasp.SOp, output: int) -> bool:
        """Whether the output is a number: where it was said, and for means unless it was said."""
        if "encoding" in expression.annotations:
            return rasp.is_numerical(expression)
        node, universe = self.analysis.nodes[output], self.analysis.universe(output)
        mean = isinstance(node, AggregateNode) and not self.analysis.is_uniform(output)
        return (mean or isinstance(node, LinearNode)) and len(universe) > 1 and None not in universe

    def number(self, value: Value) -> int:
        """Return the number of a value."""
        if value not in self.numbers:
            self.numbers[value] = len(self.values)
            self.values.append(value)
            self.analysis.name_values(self.values)
        return self.numbers[value]

    def _node(self, key: tuple[Any, ...], make: Callable[[], Any], name: str) -> int:
        if key not in self._memory:
            self._memory[key] = self.analysis.add(make(), _printable(name))
        return self._memory[key]

    def node(self, e: rasp.SOp) -> int:
        """Return the number of the node that an expression is."""
        key = ("expression", id(e))
        if key not in self._memory:
            self._kept.append(e)
            self._memory[key] = self._made(e)
        return self._memory[key]

    def _made(self, e: rasp.SOp) -> int:
        name = rasp.described(e)
        if isinstance(e, rasp.TokensType):
            return self.tokens
        if isinstance(e, rasp.IndicesType):
            return self.indices
        if isinstance(e, rasp.LengthType):
            if self.analysis.causal:
                raise InputError(rasp.CAUSAL_LENGTH)
            everything = self._select(
                self.tokens, self.tokens, rasp.Comparison.TRUE, "everything", e
            )
            return self._node(("width", everything), lambda: WidthNode(everything), "length")
        if isinstance(e, rasp.Full):
            number = self.number(e.fill)
            return self._node(("full", number), lambda: ConstantNode(number), name)
        if isinstance(e, rasp.ConstantSOp):
            self._check_constant(e)
            return self._map(e, self.indices, lambda i: e.value[i], name)
        if isinstance(e, rasp.Map):
            inner = self.node(e.inner)
            return self._map(e, inner, lambda x: rasp.call(e, e.f, x), name)
        if isinstance(e, rasp.LinearSequenceMap):
            first, second = self.node(e.fst), self.node(e.snd)
            factors = e.fst_fac, e.snd_fac
            make = lambda: LinearNode(first, second, *factors)  # noqa: E731
            return self._node(("linear", first, second, *factors), make, name)
        if isinstance(e, rasp.SequenceMap):
            return self._pair(e, self.node(e.fst), self.node(e.snd), name)
        if isinstance(e, rasp.SelectorWidth):
            selector = self.selector(e.selector)
            return self._node(("width", selector), lambda: WidthNode(selector), name)
        if isinstance(e, rasp.Aggregate):
            values, default = self.node(e.sop), self.number(e.default)
            selector = self._simple(self.selector(e.selector))
            make_mean = lambda: AggregateNode(selector, values, default)  # noqa: E731
            return self._node(("aggregate", selector, values, default), make_mean, name)
        raise InputError(f"{type(e).__name__} is not an expression of rasp")

    def _map(self, e: rasp.SOp, inner: int, f: Callable[[Any], Value], name: str) -> int:
        table: dict[tuple[int, int], int] = {}
        for x in self.analysis.universe(inner):
            output = None if x is None else f(x)
            table[self.number(x), 0] = 1 + self.number(output)
        key = ("map", inner, frozenset(table.items()))
        return self._node(key, lambda: MapNode(inner, Matrix.of(self.size, 1, table)), name)

    def _pair(self, e: rasp.SequenceMap, first: int, second: int, name: str) -> int:
        a, b = self.analysis.universe(first), self.analysis.universe(second)
        self._check_pairs(len(a), len(b), name, MOST_TABLE)
        table: dict[tuple[int, int], int] = {}
        for i, j in np.argwhere(self.analysis.joint(first, second)).tolist():
            x, y = a[i], b[j]
            output = None if x is None or y is None else rasp.call(e, e.f, x, y)
            table[self.number(x), self.number(y)] = 1 + self.number(output)
        return self._table(first, second, table, name)

    def _table(self, first: int, second: int, table: dict[tuple[int, int], int], name: str) -> int:
        key = ("pair", first, second, frozenset(table.items()))
        make = lambda: PairNode(first, second, Matrix.of(self.size, self.size, table))  # noqa: E731
        return self._node(key, make, name)

    @property
    def size(self) -> int:
        """Rows of a table: the numbers that there are by now."""
        return len(self.values)

    def selector(self, e: rasp.Selector) -> int:
        """Return the number of the node that a selector is."""
        key = ("selector", id(e))
        if key not in self._memory:
            self._kept.append(e)
            self._memory[key] = self._made_selector(e)
        return self._memory[key]

    def _made_selector(self, e: rasp.Selector) -> int:
        name = rasp.described(e)
        if isinstance(e, rasp.Select):
            return self._select(self.node(e.keys), self.node(e.queries), e.predicate, name, e)
        if isinstance(e, rasp.ConstantSelector):
            self._check_constant(e)
            rows = e.value
            return self._select(self.indices, self.indices, lambda k, q: rows[q][k], name, e)
        if isinstance(e, rasp.SelectorNot):
            return self._add(NotNode(self.selector(e.inner)), name)
        if isinstance(e, rasp.SelectorAnd):
            return self._add(AndNode(self.selector(e.fst), self.selector(e.snd)), name)
        if isinstance(e, rasp.SelectorOr):
            return self._add(OrNode(self.selector(e.fst), self.selector(e.snd)), name)
        raise InputError(f"{type(e).__name__} is not a selector of rasp")

    def _select(
        self,
        keys: int,
        queries: int,
        predicate: Callable[[Any, Any], Any],
        name: str,
        e: rasp.RASPExpr,
    ) -> int:
        if isinstance(predicate, rasp.Comparison):
            return self._add(
                SelectNode(keys, queries, predicate.value, Matrix(0, 0, {}), False), name
            )
        a, b = self.analysis.universe(keys), self.analysis.universe(queries)
        self._check_pairs(len(a), len(b), name, MOST_TABLE)
        accepted = np.array(
            [[bool(rasp.call(e, predicate, k, q)) for q in b] for k in a], dtype=bool
        )
        return self._listed(keys, queries, accepted, name)

    def _listed(self, keys: int, queries: int, accepted: Flags, name: str) -> int:
        """Return the select that accepts these pairs of places in the universes."""
        a = [self.number(v) for v in self.analysis.universe(keys)]
        b = [self.number(v) for v in self.analysis.universe(queries)]
        inverted = bool(accepted.mean() > 0.5)
        places = np.argwhere(accepted != inverted).tolist()
        table = Matrix.of(self.size, self.size, {(a[i], b[j]): Fraction(1) for i, j in places})
        return self._add(SelectNode(keys, queries, "", table, inverted), name)

    def _add(self, node: Any, name: str) -> int:
        known = self.analysis.selectors
        for number, other in enumerate(known):
            if type(other) is type(node) and other == node:
                return number
        self._extents.append(extent_of(node, self._extents))
        known.append(node)
        self.selector_names.append(_printable(name))
        return len(known) - 1

    def _simple(self, selector: int) -> int:
        """Return a conjunction that selects the same: by tuples of keys and of queries."""
        if self.analysis.conjunction(selector) is not None:
            return selector
        selectors = self.analysis.selectors
        selects = [selectors[k] for k in selects_of(selectors, selector)]
        name = self.selector_names[selector]
        keys = list(dict.fromkeys(s.keys for s in selects if isinstance(s, SelectNode)))
        queries = list(dict.fromkeys(s.queries for s in selects if isinstance(s, SelectNode)))
        key, key_parts = self._tuple(keys, f"keys of {name}")
        query, query_parts = self._tuple(queries, f"queries of {name}")
        self._check_pairs(len(key_parts), len(query_parts), name, MOST_PAIRS)

        def accepts(number: int) -> Flags:
            node = selectors[number]
            if isinstance(node, NotNode):
                return ~accepts(node.inner)
            if isinstance(node, AndNode):
                return accepts(node.first) & accepts(node.second)
            if isinstance(node, OrNode):
                return accepts(node.first) | accepts(node.second)
            rows = [parts[keys.index(node.keys)] for parts in key_parts]
            columns = [parts[queries.index(node.queries)] for parts in query_parts]
            return self.analysis.predicate(number)[np.ix_(rows, columns)]

        return self._listed(key, query, accepts(selector), name)

    def _tuple(self, nodes: Sequence[int], name: str) -> tuple[int, list[tuple[int, ...]]]:
        """Return a node with tuples of values, and, for each, the places of its parts."""
        node = nodes[0]
        parts: dict[Value, tuple[int, ...]]
        parts = {v: (k,) for k, v in enumerate(self.analysis.universe(node))}
        for other in nodes[1:]:
            a, b = self.analysis.universe(node), self.analysis.universe(other)
            self._check_pairs(len(a), len(b), name, MOST_TABLE)
            table: dict[tuple[int, int], int] = {}
            grown: dict[Value, tuple[int, ...]] = {}
            for i, j in np.argwhere(self.analysis.joint(node, other)).tolist():
                value = (a[i], b[j])
                table[self.number(a[i]), self.number(b[j])] = 1 + self.number(value)
                grown[value] = (*parts[a[i]], j)
            node, parts = self._table(node, other, table, name), grown
        return node, [parts[value] for value in self.analysis.universe(node)]

    def _check_constant(self, e: rasp.ConstantSOp | rasp.ConstantSelector) -> None:
        n = self.analysis.max_length
        if len(e.value) < n or (e.check_length and n != 1):
            raise InputError(
                f"{e.name} has {len(e.value)} values and the model takes inputs of 1 to {n} tokens; "
                "give it max_length values and check_length=False"
            )

    def _check_pairs(self, first: int, second: int, name: str, limit: int) -> None:
        if first * second > limit:
            raise SizeError(
                f"{name} would need a table of {first:,} × {second:,} values; the limit is {limit:,}. "
                "Use a smaller max_length or vocabulary"
            )


def _printable(name: str) -> str:
    """Return a name on one line, whatever it contains."""
    return name if name.isprintable() else repr(name)[1:-1]


def _example(expression: rasp.SOp, tokens: list[Value], max_length: int, causal: bool) -> str:
    """Return, in words, an input on which an expression has no value, where one is found soon."""
    lengths = range(1, max_length + 1)
    inputs = (xs for m in lengths for xs in product(tokens, repeat=m))
    for xs in islice(inputs, _EXAMPLES):
        try:
            rasp.evaluate(expression, xs, causal)
        except InputError as error:
            return f". On the input {list(xs)}: {error}"
    return ". No short input shows it; it may hold, and was not proven"
