"""Programs as text: read by a closed grammar, never evaluated as code.

>>> reverse = parse_program('''
... opposite = length - indices - 1
... reverse = Aggregate(Select(indices, opposite, EQ), tokens)
... ''')
>>> reverse(list("abc"))
['c', 'b', 'a']

A program is lines ``name = expression``, and the last line is the program; it needs no name. Python's
own parser makes a tree of the text, and every node of it has to be one that is listed here:

* sequences ``tokens``, ``indices``, ``length``; the calls of :data:`CALLS`; names given above;
* ``+ - * / // %``, comparisons, ``& | ~`` of sequences and constants, ``& | ~`` of selectors;
* texts, integers and decimals, which are exact, ``None``, ``True``, ``False``;
* ``EQ LT LEQ GT GEQ NEQ TRUE FALSE``, with or without ``Comparison.`` before them;
* functions ``lambda x: …`` and ``lambda x, y: …`` of these operators, ``**``, ``and or not``,
  ``a if b else c``, ``abs``, ``min`` and ``max``.

Functions work on values, in exact arithmetic that refuses what grows too large.
"""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from exactformer.errors import InputError, ParseError
from exactformer.programs import language as rasp
from exactformer.programs.value_arithmetic import BINARY, COMPARING, FUNCTIONS, checked, negated
from exactformer.programs.values import Value, canonical

LONGEST_TEXT = 4000
"""Characters of a program."""
DEEPEST = 30
"""Levels of a line."""
MOST_NODES = 1000
"""Nodes of the tree."""
LONGEST_NAME = 40

SEQUENCES = {"tokens": rasp.tokens, "indices": rasp.indices, "length": rasp.length}
CALLS: Mapping[str, Callable[..., rasp.RASPExpr]] = {
    made.__name__: made
    for made in (
        rasp.Map,
        rasp.SequenceMap,
        rasp.LinearSequenceMap,
        rasp.Full,
        rasp.Select,
        rasp.SelectorAnd,
        rasp.SelectorOr,
        rasp.SelectorNot,
        rasp.SelectorWidth,
        rasp.Aggregate,
        rasp.numerical,
        rasp.categorical,
    )
}
COMPARISONS = {
    spelling: comparison
    for comparison in rasp.Comparison
    for spelling in (comparison.name, f"Comparison.{comparison.name}")
}
_TAKEN = {*SEQUENCES, *CALLS, *COMPARISONS, *FUNCTIONS, "rasp", "Comparison"}
_DECIMAL = re.compile(r"[0-9_]{0,40}\.?[0-9_]{0,40}([eE][+-]?[0-9]{1,2})?")
_WAY_OUT = "a program is lines such as opposite = length - indices - 1"

Scope = Mapping[str, Value]
"""The values of a function's parameters."""


@dataclass(frozen=True)
class Function:
    """A function of values that was read from text."""

    parameters: int
    body: Callable[..., Value]
    text: str

    def __call__(self, *values: Value) -> Value:
        """Return its value; raise InputError where there is none."""
        return self.body(*map(canonical, values))


def parse_program(text: str) -> rasp.SOp:
    """Return the program that a text spells; expressions have the names that it gives them.

    Raises:
        ParseError: with line and column of the first thing that is not of the grammar.
    """
    if not isinstance(text, str):
        raise InputError(f"a program is a text, not {type(text).__name__}")
    return _Reader(text.replace("\r\n", "\n").replace("\r", "\n")).program()


class _Reader:
    """One text, and what its names stand for."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.known: dict[str, Any] = dict(SEQUENCES)
        if len(text) > LONGEST_TEXT:
            problem = (
                f"a program has at most {LONGEST_TEXT:,} characters; this one has {len(text):,}"
            )
            raise ParseError(problem, self.lines[0][:80], 1, 1)
        self.tree = self._tree(text)
        self._check_size()

    def program(self) -> rasp.SOp:
        *lines, last = self.tree.body
        for line in lines:
            if not isinstance(line, ast.Assign):
                self._no(line, f"only the last line is without a name; {_WAY_OUT}")
            self._assigned(line)
        if isinstance(last, ast.Assign):
            found = self._assigned(last)
        elif isinstance(last, ast.Expr):
            found = self.expression(last.value)
        else:
            self._no(last, f"{_kind(last)} is not of the language; {_WAY_OUT}")
        if not isinstance(found, rasp.SOp):
            what = f"a {_sort(found)}" if isinstance(found, rasp.Selector) else "no expression"
            self._no(
                last, f"the last line is the program: a sequence of values, and this is {what}"
            )
        return found

    def expression(self, node: ast.expr) -> Any:
        """Return what a part of a line stands for: an expression, a value, a comparison, a function."""
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node)
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Lambda):
            return self._function(node)
        try:
            found = self._made(node)
        except InputError as error:
            self._no(node, str(error))
        return _in_words(found, node) if isinstance(found, rasp.RASPExpr) else found

    def _made(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node, node.op, node.left, node.right)
        if isinstance(node, ast.Compare):
            if len(node.ops) > 1:
                self._no(node, "split a < b < c into (a < b) & (b < c)")
            return self._binary(node, node.ops[0], node.left, node.comparators[0])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
            return self._unary(node)
        if isinstance(node, ast.BoolOp | ast.UnaryOp):
            self._no(node, "sequences and selectors take & for 'and', | for 'or', ~ for 'not'")
        if isinstance(node, ast.IfExp):
            self._no(
                node,
                "a choice belongs into a function: Map(lambda x: 1 if x == 'a' else 0, tokens)",
            )
        self._no(node, f"{_kind(node)} is not of the language; {_WAY_OUT}")

    def _binary(self, node: ast.expr, sign: ast.AST, left: ast.expr, right: ast.expr) -> Any:
        x, y = self._operand(left), self._operand(right)
        selectors = isinstance(x, rasp.Selector) + isinstance(y, rasp.Selector)
        if selectors:
            if selectors < 2 or not isinstance(sign, ast.BitAnd | ast.BitOr):
                self._no(node, "selectors are joined by & and |, and with each other only")
            return rasp.SelectorAnd(x, y) if isinstance(sign, ast.BitAnd) else rasp.SelectorOr(x, y)
        f = BINARY.get(type(sign)) or COMPARING.get(type(sign)) or _JOINING.get(type(sign))
        if f is None or isinstance(sign, ast.Pow):
            self._no(
                node, f"{_kind(sign)} is not an operation on sequences; put it into a function"
            )
        if isinstance(x, rasp.SOp) and isinstance(y, rasp.SOp):
            return rasp.SequenceMap(f, x, y)
        if isinstance(x, rasp.SOp):
            return rasp.Map(lambda value: f(canonical(value), y), x)
        if isinstance(y, rasp.SOp):
            return rasp.Map(lambda value: f(x, canonical(value)), y)
        return f(x, y)

    def _unary(self, node: ast.UnaryOp) -> Any:
        x = self._operand(node.operand)
        if isinstance(node.op, ast.USub):
            if isinstance(x, rasp.Selector):
                self._no(node, "a selector has no negative; ~ selects the other positions")
            return rasp.Map(negated, x) if isinstance(x, rasp.SOp) else negated(x)
        if isinstance(x, rasp.Selector):
            return rasp.SelectorNot(x)
        if isinstance(x, rasp.SOp):
            return rasp.Map(lambda value: int(not value), x)
        self._no(node, "~ is 'not' of a sequence or a selector")

    def _operand(self, node: ast.expr) -> Any:
        found = self.expression(node)
        if isinstance(found, Function | rasp.Comparison):
            self._no(
                node, f"a {_sort(found)} is not a value; hand it to Map, SequenceMap or Select"
            )
        return found

    def _call(self, node: ast.Call) -> rasp.RASPExpr:
        name = self._dotted(node.func) or "this"
        if name not in CALLS:
            known = ", ".join(CALLS)
            hint = " (inside a function only)" if name in FUNCTIONS else ""
            self._no(node, f"{name} cannot be called{hint}; there are {known}")
        starred = [a for a in node.args if isinstance(a, ast.Starred)]
        if starred or any(keyword.arg is None for keyword in node.keywords):
            self._no(node, "arguments are written one by one, without *")
        arguments = [self.expression(argument) for argument in node.args]
        named = {str(keyword.arg): self.expression(keyword.value) for keyword in node.keywords}
        try:
            bound = inspect.signature(CALLS[name]).bind(*arguments, **named)
        except TypeError as error:
            self._no(node, f"{name}: {error}")
        for parameter, count in (("f", 1 if name == "Map" else 2), ("predicate", 2)):
            if parameter in bound.arguments:
                self._check_function(node, name, bound.arguments[parameter], count)
        return CALLS[name](*bound.args, **bound.kwargs)

    def _check_function(self, node: ast.expr, name: str, given: Any, count: int) -> None:
        parameters = 2 if isinstance(given, rasp.Comparison) else getattr(given, "parameters", None)
        if not isinstance(given, Function | rasp.Comparison) or parameters != count:
            example = "lambda x: x + 1" if count == 1 else "lambda x, y: x + y"
            also = " or EQ" if name == "Select" else ""
            self._no(node, f"{name} takes a function of {count}, such as {example}{also}")

    def _assigned(self, line: ast.Assign) -> Any:
        target = line.targets[0]
        if len(line.targets) > 1 or not isinstance(target, ast.Name):
            self._no(target, f"one name is given at a time; {_WAY_OUT}")
        name = target.id
        if name in _TAKEN or name.startswith("_") or len(name) > LONGEST_NAME:
            self._no(
                target,
                f"{name[:LONGEST_NAME]} cannot be given; choose a name that is not of the language, "
                f"begins with a letter and has at most {LONGEST_NAME} characters",
            )
        if name in self.known:
            self._no(target, f"{name} was given above; choose another name")
        found = self.expression(line.value)
        if isinstance(found, rasp.RASPExpr) and not isinstance(line.value, ast.Name):
            found = found.named(name)
        self.known[name] = found
        return found

    def _named(self, node: ast.expr) -> Any:
        name = self._dotted(node)
        if name is None:
            self._no(node, "values have no parts to name with a dot; write the name alone")
        for table in (self.known, COMPARISONS, _NAMED_FUNCTIONS):
            if name in table:
                return table[name]
        if name in CALLS:
            self._no(node, f"{name} is called: {name}(…)")
        known = ", ".join(self.known)
        self._no(node, f"{name[:LONGEST_NAME]} is not a name here; there are {known}")

    def _dotted(self, node: ast.expr) -> str | None:
        """Return a name, of the language's with its prefix left out; None for anything else."""
        if isinstance(node, ast.Name):
            return node.id
        if not isinstance(node, ast.Attribute) or not isinstance(
            node.value, ast.Name | ast.Attribute
        ):
            return None
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id == "rasp":
            return node.attr if node.attr in _TAKEN else None
        return f"Comparison.{node.attr}" if self._dotted(owner) == "Comparison" else None

    def _constant(self, node: ast.Constant) -> Value:
        value: object = node.value
        if isinstance(value, float):
            written = self._source(node)
            if not _DECIMAL.fullmatch(written):
                self._no(node, f"{written[:LONGEST_NAME]} has too many digits")
            value = Fraction(written.replace("_", ""))
        if value is not None and not isinstance(value, str | int | Fraction):
            self._no(node, f"a constant is a text, a number or None, not {type(value).__name__}")
        try:
            return checked(value)
        except InputError as error:
            self._no(node, str(error))

    def _function(self, node: ast.Lambda) -> Function:
        given = node.args
        names = [a.arg for a in given.args]
        if given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults:
            self._no(node, "the parameters of a function are one or two names")
        if not 1 <= len(names) <= 2:
            self._no(node, f"a function has one or two parameters, not {len(names)}")
        for name in names:
            if name in _TAKEN or name.startswith("_") or len(name) > LONGEST_NAME:
                self._no(node, f"{name[:LONGEST_NAME]} cannot be a parameter; choose another name")
        body = self._body(node.body, tuple(names))

        def call(*values: Value) -> Value:
            return body(dict(zip(names, values, strict=True)))

        return Function(len(names), call, ast.unparse(node))

    def _body(self, node: ast.expr, names: tuple[str, ...]) -> Callable[[Scope], Value]:
        """Return what computes a part of a function from the values of its parameters."""

        def part(inner: ast.expr) -> Callable[[Scope], Value]:
            return self._body(inner, names)

        if isinstance(node, ast.Constant):
            value = self._constant(node)
            return lambda scope: value
        if isinstance(node, ast.Name):
            return self._variable(node, names)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return _applied(BINARY[type(node.op)], part(node.left), part(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _applied(negated, part(node.operand))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _applied(lambda x: int(not x), part(node.operand))
        if isinstance(node, ast.IfExp):
            test, yes, no = part(node.test), part(node.body), part(node.orelse)
            return lambda scope: yes(scope) if test(scope) else no(scope)
        if isinstance(node, ast.BoolOp):
            return _joined(isinstance(node.op, ast.And), [part(value) for value in node.values])
        if isinstance(node, ast.Compare) and all(type(sign) in COMPARING for sign in node.ops):
            sides = [part(side) for side in (node.left, *node.comparators)]
            return _compared([COMPARING[type(sign)] for sign in node.ops], sides)
        if isinstance(node, ast.Call):
            return self._called(node, names)
        self._no(
            node, f"{_kind(node)} is not allowed in a function; it has operators, abs, min, max"
        )

    def _variable(self, node: ast.Name, names: tuple[str, ...]) -> Callable[[Scope], Value]:
        if (name := node.id) in names:
            return lambda scope: scope[name]
        fixed = self.known.get(name, self)
        if fixed is self or isinstance(fixed, rasp.RASPExpr | rasp.Comparison | Function):
            self._no(
                node,
                f"{name[:LONGEST_NAME]} is not a value; a function sees its parameters and constants",
            )
        return lambda scope: fixed

    def _called(self, node: ast.Call, names: tuple[str, ...]) -> Callable[[Scope], Value]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords or not node.args:
            self._no(node, f"a function calls {', '.join(FUNCTIONS)} and nothing else")
        if name == "abs" and len(node.args) > 1:
            self._no(node, "abs takes one value")
        return _applied(FUNCTIONS[name], *(self._body(a, names) for a in node.args))

    def _tree(self, text: str) -> ast.Module:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except SyntaxError as error:
            line = min(max(error.lineno or 1, 1), len(self.lines))
            column = min(max(error.offset or 1, 1), len(self.lines[line - 1]) + 1)
            raise ParseError(
                f"{error.msg}; {_WAY_OUT}", self.lines[line - 1], column, line
            ) from None
        except (ValueError, MemoryError, RecursionError):
            raise ParseError(f"this cannot be read; {_WAY_OUT}", self.lines[0], 1, 1) from None
        if not tree.body:
            raise ParseError(f"there is no program; {_WAY_OUT}", self.lines[0], 1, 1)
        return tree

    def _check_size(self) -> None:
        left: list[tuple[ast.AST, int]] = [(line, 0) for line in self.tree.body]
        count = 0
        while left:
            node, depth = left.pop()
            count += 1
            if depth > DEEPEST:
                self._no(
                    node,
                    f"a line is nested at most {DEEPEST} deep; give its parts names of their own",
                )
            if count > MOST_NODES:
                self._no(node, f"a program has at most {MOST_NODES:,} parts")
            left += [(child, depth + 1) for child in ast.iter_child_nodes(node)]

    def _source(self, node: ast.Constant) -> str:
        line = self.lines[node.lineno - 1].encode()
        return line[node.col_offset : node.end_col_offset].decode()

    def _no(self, node: ast.AST, problem: str) -> NoReturn:
        line, start = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.lines[line - 1]
        column = len(text.encode()[:start].decode(errors="replace")) + 1
        raise ParseError(problem, text, column, line)


_JOINING: Mapping[type[ast.AST], Callable[[Value, Value], Value]] = {
    ast.BitAnd: lambda x, y: x and y,
    ast.BitOr: lambda x, y: x or y,
}
_NAMED_FUNCTIONS = {
    name: Function(1 if name == "abs" else 2, f, name) for name, f in FUNCTIONS.items()
}


def _applied(f: Callable[..., Value], *parts: Callable[[Scope], Value]) -> Callable[[Scope], Value]:
    return lambda scope: f(*(part(scope) for part in parts))


def _joined(every: bool, parts: list[Callable[[Scope], Value]]) -> Callable[[Scope], Value]:
    """Return Python's ``and`` or ``or``: the first value that decides, or the last."""

    def value(scope: Scope) -> Value:
        for part in parts:
            found = part(scope)
            if bool(found) != every:
                break
        return found

    return value


def _compared(
    signs: list[Callable[[Value, Value], Value]], sides: list[Callable[[Scope], Value]]
) -> Callable[[Scope], Value]:
    """Return a chain of comparisons, as Python reads it."""

    def value(scope: Scope) -> Value:
        left = sides[0](scope)
        for sign, side in zip(signs, sides[1:], strict=True):
            right = side(scope)
            if not sign(left, right):
                return 0
            left = right
        return 1

    return value


def _in_words(found: rasp.RASPExpr, node: ast.expr) -> rasp.RASPExpr:
    """Return an expression that is named by what was written, where that is short."""
    if found.is_named:
        return found
    if isinstance(found, rasp.Select) and isinstance(found.predicate, rasp.Comparison):
        name = f"{found.keys.name} {found.predicate.value} {found.queries.name}"
        always = {rasp.Comparison.TRUE: "everything", rasp.Comparison.FALSE: "nothing"}
        name = always.get(found.predicate, name)
    elif isinstance(found, rasp.SelectorAnd | rasp.SelectorOr):
        word = "and" if isinstance(found, rasp.SelectorAnd) else "or"
        name = f"({found.fst.name}) {word} ({found.snd.name})"
    elif isinstance(found, rasp.SelectorNot):
        name = f"not ({found.inner.name})"
    else:
        name = ast.unparse(node)
    return found.named(name) if len(name) <= 2 * LONGEST_NAME else found


def _sort(found: Any) -> str:
    if isinstance(found, rasp.Selector):
        return "selector"
    return "comparison" if isinstance(found, rasp.Comparison) else "function"


def _kind(node: ast.AST) -> str:
    """Return what Python calls a part of a text."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
