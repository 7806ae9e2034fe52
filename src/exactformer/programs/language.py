"""RASP, the language of programs for transformers, with the names and the meaning of tracr's.

>>> from exactformer import rasp
>>> opposite = rasp.length - rasp.indices - 1
>>> reverse = rasp.Aggregate(rasp.Select(rasp.indices, opposite, rasp.Comparison.EQ), rasp.tokens)
>>> reverse(list("abc"))
['c', 'b', 'a']

An expression applied to a list runs it there. ``ef.compile_program`` makes a transformer of it. Where
tracr's interpreter rounds, this one is exact: means are fractions. Where tracr's operators cannot be
meant as they are read (``tokens == indices``), they compare position by position.
"""

from __future__ import annotations

import copy
import enum
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn, Self

from exactformer.errors import InputError
from exactformer.programs.values import Value, applied, canonical, is_number

Rows = list[list[bool]]
"""A selector on one input: row i has what position i selects."""


class RASPExpr:
    """An expression: a sequence operation or a selector."""

    KIND = "expression"
    _ids = itertools.count(1)

    def __init__(self) -> None:
        self._annotations: dict[str, Any] = {}
        self.unique_id = next(self._ids)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """What was said about the expression: its name, its encoding, anything."""
        return {"name": self.KIND, **self._annotations}

    @property
    def name(self) -> str:
        """The name that was given to it, or that of its kind."""
        return str(self.annotations["name"])

    @property
    def is_named(self) -> bool:
        """Whether it was given a name."""
        return "name" in self._annotations

    @property
    def label(self) -> str:
        """Name and number, which no other expression has."""
        return f"{self.name}_{self.unique_id}"

    @property
    def children(self) -> Sequence[RASPExpr]:
        """The expressions that it is made of."""
        return [v for v in vars(self).values() if isinstance(v, RASPExpr)]

    def copy(self) -> Self:
        """Return the same expression with a number of its own."""
        new = copy.copy(self)
        new.unique_id = next(self._ids)
        return new

    def named(self, name: str) -> Self:
        """Return the expression under a name."""
        return self.annotated(name=name)

    def annotated(self, **annotations: Any) -> Self:
        """Return the expression with annotations."""
        new: Self = annotate(self, **annotations)
        return new

    def __call__(self, xs: Sequence[Value]) -> Any:
        """Run the expression on a sequence of tokens."""
        return evaluate(self, xs)

    def __bool__(self) -> NoReturn:
        raise InputError(
            f"{self.name} has a value at every position and no truth value; write & for 'and', | for "
            "'or', ~ for 'not', and split a < b < c into (a < b) & (b < c)"
        )

    def __iter__(self) -> NoReturn:
        raise InputError(f"{self.name} is an expression; apply it to a list: {self.name}([...])")

    def __repr__(self) -> str:
        return described(self)


def annotate(expression: Any, **annotations: Any) -> Any:
    """Return an expression with annotations added."""
    new = expression.copy()
    new._annotations = {**expression._annotations, **annotations}
    return new


def _operator(function: Callable[..., Any], swapped: bool = False) -> Callable[..., SOp]:
    """Return a method: elementwise for two expressions, a map for an expression and a value."""

    def method(self: SOp, other: Any) -> SOp:
        if isinstance(other, Selector):
            raise InputError(f"{self.name} is a sequence and {other.name} a selector")
        if isinstance(other, SOp):
            first, second = (other, self) if swapped else (self, other)
            return SequenceMap(function, first, second)
        fixed = canonical(other)
        if swapped:
            return Map(lambda x: function(fixed, x), self)
        return Map(lambda x: function(x, fixed), self)

    return method


class SOp(RASPExpr):
    """A sequence operation: one value at every position."""

    __hash__ = object.__hash__
    __lt__ = _operator(operator.lt)
    __le__ = _operator(operator.le)
    __eq__ = _operator(operator.eq)  # type: ignore[assignment]
    __ne__ = _operator(operator.ne)  # type: ignore[assignment]
    __gt__ = _operator(operator.gt)
    __ge__ = _operator(operator.ge)
    __add__ = _operator(operator.add)
    __radd__ = _operator(operator.add, True)
    __sub__ = _operator(operator.sub)
    __rsub__ = _operator(operator.sub, True)
    __mul__ = _operator(operator.mul)
    __rmul__ = _operator(operator.mul, True)
    __truediv__ = _operator(lambda x, y: _quotient(x, y))
    __rtruediv__ = _operator(lambda x, y: _quotient(x, y), True)
    __floordiv__ = _operator(operator.floordiv)
    __rfloordiv__ = _operator(operator.floordiv, True)
    __mod__ = _operator(operator.mod)
    __rmod__ = _operator(operator.mod, True)
    __and__ = _operator(lambda x, y: x and y)
    __rand__ = _operator(lambda x, y: x and y, True)
    __or__ = _operator(lambda x, y: x or y)
    __ror__ = _operator(lambda x, y: x or y, True)

    def __invert__(self) -> SOp:
        return Map(operator.not_, self)

    def __neg__(self) -> SOp:
        return Map(operator.neg, self)


class TokensType(SOp):
    """The input itself."""

    KIND = "tokens"


class IndicesType(SOp):
    """The position of every token, from 0."""

    KIND = "indices"


class LengthType(SOp):
    """The number of tokens, at every position."""

    KIND = "length"


tokens = TokensType()
indices = IndicesType()
length = LengthType()


class Map(SOp):
    """A function of every value; None stays None."""

    KIND = "map"

    def __init__(self, f: Callable[[Any], Any], inner: SOp, simplify: bool = True) -> None:
        super().__init__()
        self.f, self.inner = _function(f, self), _sequence(inner, self)


class SequenceMap(SOp):
    """A function of the values of two expressions, position by position; None stays None."""

    KIND = "sequence_map"

    def __init__(self, f: Callable[[Any, Any], Any], fst: SOp, snd: SOp) -> None:
        super().__init__()
        self.f = _function(f, self)
        self.fst, self.snd = _sequence(fst, self), _sequence(snd, self)


class LinearSequenceMap(SequenceMap):
    """fst_fac·fst + snd_fac·snd, position by position."""

    KIND = "linear_sequence_map"

    def __init__(self, fst: SOp, snd: SOp, fst_fac: Any, snd_fac: Any) -> None:
        factors = [canonical(factor) for factor in (fst_fac, snd_fac)]
        if not all(map(is_number, factors)):
            raise InputError(f"the factors of a linear map are numbers, not {factors}")
        self.fst_fac, self.snd_fac = map(Fraction, factors)
        super().__init__(lambda x, y: self.fst_fac * x + self.snd_fac * y, fst, snd)


class Full(SOp):
    """The same value everywhere."""

    KIND = "full"

    def __init__(self, fill: Value) -> None:
        super().__init__()
        self.fill = canonical(fill)


class ConstantSOp(SOp):
    """A value for every position, whatever the tokens."""

    KIND = "constant_sop"

    def __init__(self, value: Sequence[Value], check_length: bool = True) -> None:
        super().__init__()
        self.value, self.check_length = [canonical(v) for v in value], check_length


def sop_not(sop: SOp) -> SOp:
    """Return the negation of every value."""
    return ~sop


class Comparison(enum.Enum):
    """How a key compares with a query."""

    EQ = "=="
    LT = "<"
    LEQ = "<="
    GT = ">"
    GEQ = ">="
    NEQ = "!="
    TRUE = "True"
    FALSE = "False"

    def __call__(self, key: Value, query: Value) -> bool:
        """Compare; None equals None only, and has no order."""
        return bool(COMPARISONS[self.value](key, query))


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
    "True": lambda key, query: True,
    "False": lambda key, query: False,
}


class Selector(RASPExpr):
    """For every position, the positions that it selects."""

    KIND = "selector"

    def __and__(self, other: Selector) -> Selector:
        return SelectorAnd(self, other)

    def __or__(self, other: Selector) -> Selector:
        return SelectorOr(self, other)

    def __invert__(self) -> Selector:
        return SelectorNot(self)


class Select(Selector):
    """Position i selects position j where the predicate holds of (key at j, query at i)."""

    KIND = "select"

    def __init__(self, keys: SOp, queries: SOp, predicate: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self.keys, self.queries = _sequence(keys, self), _sequence(queries, self)
        self.predicate = _function(predicate, self)


class ConstantSelector(Selector):
    """Rows of flags, whatever the tokens."""

    KIND = "constant_selector"

    def __init__(self, value: Sequence[Sequence[bool]], check_length: bool = True) -> None:
        super().__init__()
        self.value = [[bool(v) for v in row] for row in value]
        self.check_length = check_length


class SelectorAnd(Selector):
    """What both selectors select."""

    KIND = "selector_and"

    def __init__(self, fst: Selector, snd: Selector) -> None:
        super().__init__()
        self.fst, self.snd = _selector(fst, self), _selector(snd, self)


class SelectorOr(Selector):
    """What either selector selects."""

    KIND = "selector_or"

    def __init__(self, fst: Selector, snd: Selector) -> None:
        super().__init__()
        self.fst, self.snd = _selector(fst, self), _selector(snd, self)


class SelectorNot(Selector):
    """What the selector does not select."""

    KIND = "selector_not"

    def __init__(self, inner: Selector) -> None:
        super().__init__()
        self.inner = _selector(inner, self)


selector_and, selector_or, selector_not = SelectorAnd, SelectorOr, SelectorNot


class SelectorWidth(SOp):
    """How many positions are selected."""

    KIND = "selector_width"

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self.selector = _selector(selector, self)


class Aggregate(SOp):
    """The value at the selected positions: the one that they share, or the mean of numbers.

    Where nothing is selected it is the default.
    """

    KIND = "aggregate"

    def __init__(self, selector: Selector, sop: SOp, default: Value = None) -> None:
        super().__init__()
        self.selector, self.sop = _selector(selector, self), _sequence(sop, self)
        self.default = canonical(default)


class Encoding(enum.Enum):
    """How a sequence is written: one direction per value, or one number."""

    CATEGORICAL = "categorical"
    NUMERICAL = "numerical"


def numerical(sop: SOp) -> Any:
    """Return an expression that is to be written as a number."""
    return annotate(_sequence(sop, None), encoding=Encoding.NUMERICAL)


def categorical(sop: SOp) -> Any:
    """Return an expression that is to be written with one direction per value."""
    return annotate(_sequence(sop, None), encoding=Encoding.CATEGORICAL)


def get_encoding(sop: SOp) -> Encoding:
    """Return how an expression is to be written; categorical unless it was said."""
    return Encoding(sop.annotations.get("encoding", Encoding.CATEGORICAL))


def is_numerical(sop: SOp) -> bool:
    """Whether an expression is to be written as a number."""
    return get_encoding(sop) is Encoding.NUMERICAL


def is_categorical(sop: SOp) -> bool:
    """Whether an expression is to be written with one direction per value."""
    return get_encoding(sop) is Encoding.CATEGORICAL


def evaluate(expression: RASPExpr, xs: Sequence[Value], causal: bool = False) -> Any:
    """Run an expression on a sequence of tokens, exactly.

    With ``causal=True`` every position selects among itself and those before it.

    Raises:
        InputError: where the expression has no value: different texts to be averaged, a comparison of
            things without an order, a quotient by zero.
    """
    return _Evaluation([canonical(x) for x in xs], causal)(expression)


def average(selected: Sequence[Value], default: Value, name: str) -> Value:
    """Return the value that an aggregate gives to selected values.

    >>> average([1, 2], None, "x"), average(["a", "a"], None, "x"), average([], 0, "x")
    (Fraction(3, 2), 'a', 0)
    """
    if not selected:
        return default
    if all(value == selected[0] for value in selected):
        return selected[0]
    if not all(map(is_number, selected)):
        raise InputError(
            f"{name} selects different values that are not all numbers: {list(selected)[:6]}; select "
            "one position, or equal values"
        )
    return canonical(Fraction(sum(map(Fraction, selected))) / len(selected))


def walk(expression: RASPExpr) -> Iterator[RASPExpr]:
    """Yield an expression and all that it is made of, each once, parts first."""
    seen: set[int] = set()
    stack: list[tuple[RASPExpr, bool]] = [(expression, False)]
    while stack:
        current, ready = stack.pop()
        if id(current) in seen:
            continue
        if ready:
            seen.add(id(current))
            yield current
            continue
        stack.append((current, True))
        stack += [(child, False) for child in reversed(current.children)]


class _Evaluation:
    """One run: the value of every expression on one input."""

    def __init__(self, xs: list[Value], causal: bool) -> None:
        self.xs, self.causal = xs, causal

    def __call__(self, expression: RASPExpr) -> Any:
        known: dict[int, Any] = {}
        for part in walk(expression):
            known[id(part)] = self._value(part, lambda e: known[id(e)])
        found = known[id(expression)]
        return self._masked(found) if isinstance(expression, Selector) else found

    def _value(self, e: RASPExpr, at: Callable[[RASPExpr], Any]) -> Any:
        n = len(self.xs)
        if isinstance(e, TokensType):
            return list(self.xs)
        if isinstance(e, IndicesType):
            return list(range(n))
        if isinstance(e, LengthType):
            if self.causal:
                raise InputError(CAUSAL_LENGTH)
            return [n] * n
        if isinstance(e, Full):
            return [e.fill] * n
        if isinstance(e, ConstantSOp | ConstantSelector):
            return self._constant(e)
        if isinstance(e, Map):
            return [None if x is None else call(e, e.f, x) for x in at(e.inner)]
        if isinstance(e, SequenceMap):
            pairs = zip(at(e.fst), at(e.snd), strict=True)
            return [None if None in (x, y) else call(e, e.f, x, y) for x, y in pairs]
        if isinstance(e, Select):
            keys, queries = at(e.keys), at(e.queries)
            return [[bool(call(e, e.predicate, k, q)) for k in keys] for q in queries]
        if isinstance(e, SelectorNot):
            return [[not v for v in row] for row in at(e.inner)]
        if isinstance(e, SelectorAnd | SelectorOr):
            join = all if isinstance(e, SelectorAnd) else any
            both = zip(at(e.fst), at(e.snd), strict=True)
            return [[join(pair) for pair in zip(*rows, strict=True)] for rows in both]
        if isinstance(e, SelectorWidth):
            return [sum(row) for row in self._masked(at(e.selector))]
        if isinstance(e, Aggregate):
            values = at(e.sop)
            rows = self._masked(at(e.selector))
            chosen = ([v for s, v in zip(row, values, strict=True) if s] for row in rows)
            return [average(values, e.default, e.name) for values in chosen]
        raise InputError(f"{type(e).__name__} is not an expression of rasp")

    def _masked(self, rows: Rows) -> Rows:
        if not self.causal:
            return rows
        return [[v and j <= i for j, v in enumerate(row)] for i, row in enumerate(rows)]

    def _constant(self, e: ConstantSOp | ConstantSelector) -> Any:
        n = len(self.xs)
        if len(e.value) < n or (e.check_length and len(e.value) != n):
            raise InputError(f"{e.name} has {len(e.value)} values, the input has {n} tokens")
        if isinstance(e, ConstantSOp):
            return e.value[:n]
        return [row[:n] for row in e.value[:n]]


CAUSAL_LENGTH = (
    "a causal model does not see the length of its input; SelectorWidth(Select(tokens, tokens, "
    "Comparison.TRUE)) is the number of tokens so far"
)


def call(e: RASPExpr, function: Callable[..., Any], *values: Value) -> Value:
    """Return what a function of an expression makes of values; raise with its name where it fails."""
    try:
        return applied(function, *values)
    except InputError:
        raise
    except Exception as error:  # whatever a user's function raises
        raise InputError(
            f"{e.name} has no value at {', '.join(map(repr, values))}: {type(error).__name__}: {error}"
        ) from None


def described(e: RASPExpr) -> str:
    """Return an expression in words, at most two levels deep."""
    if e.is_named or not e.children:
        return repr(e.fill) if isinstance(e, Full) and not e.is_named else e.name
    inner = ", ".join(child.name for child in e.children)
    if isinstance(e, Select):
        sign = e.predicate.value if isinstance(e.predicate, Comparison) else "predicate"
        return f"select({e.keys.name} {sign} {e.queries.name})"
    return f"{e.name}({inner})"


def _quotient(x: Any, y: Any) -> Any:
    if all(isinstance(v, int | Fraction) for v in (x, y)):
        return Fraction(x) / Fraction(y)
    return x / y


def _sequence(value: Any, owner: RASPExpr | None) -> SOp:
    if not isinstance(value, SOp):
        what = "an encoding" if owner is None else f"a {owner.KIND}"
        raise InputError(
            f"{what} takes expressions such as tokens or indices, not {type(value).__name__} "
            f"{str(value)[:40]!r}; for a constant write Full(value)"
            if not isinstance(value, RASPExpr)
            else f"{what} takes a sequence here, and {value.name} is a selector"
        )
    return value


def _selector(value: Any, owner: RASPExpr) -> Selector:
    if not isinstance(value, Selector):
        kind = "a sequence" if isinstance(value, SOp) else type(value).__name__
        raise InputError(f"a {owner.KIND} takes a selector, such as Select(...), not {kind}")
    return value


def _function(value: Any, owner: RASPExpr) -> Callable[..., Any]:
    if not callable(value) or isinstance(value, RASPExpr):
        raise InputError(f"a {owner.KIND} takes a function, not {type(value).__name__}")
    function: Callable[..., Any] = value
    return function
