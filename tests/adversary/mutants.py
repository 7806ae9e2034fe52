"""Mutants of a module: its source with one check removed, one bound weakened, one term dropped.

A mutant differs from the module in one expression or statement. Messages, types, docstrings, indices
and functions that only print are left alone: nothing proven depends on them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

PRINTING = {
    "__str__",
    "_ramps",
    "describe",
    "from_dict",
    "lines",
    "of_dict",
    "proofs",
    "to_dict",
}
"""Functions whose results are words or plain data."""

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_EXCHANGED = {
    "all": "any",
    "any": "all",
    "argmax": "argmin",
    "argmin": "argmax",
    "fmax": "fmin",
    "fmin": "fmax",
    "max": "min",
    "maximum": "minimum",
    "min": "max",
    "minimum": "maximum",
}
_IDENTITIES = {"abs", "ceil", "nextafter", "up"}
"""Functions of which the first argument is left."""
_TRUTHS = {"isfinite", "isinstance"}
_TO_FLOAT = {"above": "abs(float({}))", "below": "float({})"}


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    file: str
    line: int
    column: int
    kind: str
    function: str
    """The function or constant that is changed, with its class."""
    before: str
    after: str
    count: int
    """The how-manieth change of its function that reads like this, from 1."""
    source: str
    """The whole module, changed."""

    @property
    def id(self) -> str:
        """The place and kind of the change."""
        return f"{self.file}:{self.line}:{self.column}:{self.kind}"

    @property
    def name(self) -> tuple[str, str, str]:
        """The change in words that do not move with the lines above it."""
        again = f" ({self.count})" if self.count > 1 else ""
        return self.file, self.function, f"{self.before} → {self.after}{again}"


def mutants(file: str, source: str, functions: Collection[str] = ()) -> list[Mutant]:
    """Return the mutants of a module; of some of its functions and constants, if any are named."""
    tree = ast.parse(source)
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    found: dict[str, Mutant | None] = {ast.dump(tree): None}
    seen: Counter[tuple[str, str, str]] = Counter()
    for change in _Changes(functions).of(tree):
        text = _spliced(lines, change.node, change.after)
        key = ast.dump(ast.parse(text))
        if key in found:
            continue
        before, after = ast.unparse(change.node), " ".join(change.after.split())
        before = " ".join(before.split())
        seen[change.function, before, after] += 1
        found[key] = Mutant(
            file,
            change.node.lineno,
            change.node.col_offset,
            change.kind,
            change.function,
            before,
            after,
            seen[change.function, before, after],
            text,
        )
    return [mutant for mutant in found.values() if mutant is not None]


@dataclass(frozen=True)
class _Change:
    node: ast.expr | ast.stmt
    kind: str
    after: str
    function: str


def _spliced(lines: list[bytes], node: ast.expr | ast.stmt, after: str) -> str:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    head = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    tail = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    new = after if isinstance(node, ast.stmt) else f"({after})"
    return (head + new.encode() + tail).decode()


class _Changes:
    """A walk over a tree that offers the changes of every node."""

    def __init__(self, functions: Collection[str]) -> None:
        self._functions = functions
        self._path: list[str] = []

    def of(self, node: ast.AST) -> Iterator[_Change]:
        """Yield the changes of a node and of all that it holds."""
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from self._definition(node)
        elif self._is_silent(node):
            return
        elif isinstance(node, ast.Assign) and not self._path:
            self._path.append(ast.unparse(node.targets[0]))
            yield from self.of(node.value)
            self._path.pop()
        else:
            if self._is_wanted():
                yield from self._own(node)
            for name, child in self._children(node):
                if not (self._is_skipped(node, name) or _is_count(node, child)):
                    yield from self.of(child)

    def _definition(self, node: ast.ClassDef | ast.FunctionDef) -> Iterator[_Change]:
        if node.name in PRINTING:
            return
        self._path.append(node.name)
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                yield from self.of(default)
        for statement in node.body:
            yield from self.of(statement)
        self._path.pop()

    def _is_wanted(self) -> bool:
        return not self._functions or any(name in self._functions for name in self._path)

    @staticmethod
    def _is_silent(node: ast.AST) -> bool:
        """Whether nothing inside counts: imports, messages, docstrings, types."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return True
        if isinstance(node, ast.IfExp):
            return any(_is_text(branch) for branch in (node.body, node.orelse))
        return isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise)

    @staticmethod
    def _is_skipped(node: ast.AST, name: str) -> bool:
        if isinstance(node, ast.Subscript):
            return name == "slice"
        if isinstance(node, ast.AnnAssign):
            return name != "value"
        if isinstance(node, ast.keyword):
            return node.arg in {"axis", "strict", "keepdims", "ord", "dtype", "frozen", "compare"}
        return isinstance(node, ast.Assign) and name == "targets"

    @staticmethod
    def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield name, child

    def _own(self, node: ast.AST) -> Iterator[_Change]:
        for kind, after in _offers(node):
            assert isinstance(node, ast.expr | ast.stmt)
            yield _Change(node, kind, after, ".".join(self._path))
        if isinstance(node, ast.comprehension):
            for condition in node.ifs:
                yield _Change(condition, "filter", "True", ".".join(self._path))
        if isinstance(node, ast.If):
            raises = any(isinstance(statement, ast.Raise) for statement in node.body)
            for constant in ("False",) if raises else ("False", "True"):
                yield _Change(node.test, "guard", constant, ".".join(self._path))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_count(node: ast.AST, child: ast.AST) -> bool:
    """Whether a node is ``up(…, count)`` and the child its count."""
    match node:
        case ast.Call(func=ast.Name(id="up"), args=[_, count]):
            return child is count
    return False


def _offers(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield kinds of changes, each with the text that takes the node's place."""
    text = ast.unparse
    match node:
        case ast.Expr(value=ast.Call()):
            yield "call", "pass"
        case ast.AugAssign():
            yield "accumulation", "pass"
        case ast.Return(value=ast.Constant(value=bool() as value)):
            yield "truth", f"return {not value}"
        case ast.IfExp(body=body, orelse=orelse):
            yield "branch", text(body)
            yield "branch", text(orelse)
        case ast.Compare(left=left, ops=ops, comparators=others):
            for k, op in enumerate(ops):
                new = [*ops[:k], _COMPARED[type(op)](), *ops[k + 1 :]]
                yield "comparison", text(ast.Compare(left, new, others))
        case ast.BoolOp(op=op, values=values):
            for k in range(len(values)):
                rest = values[:k] + values[k + 1 :]
                yield "condition", text(rest[0] if len(rest) == 1 else ast.BoolOp(op, rest))
        case ast.BinOp():
            yield from _arithmetic(node)
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield "negation", text(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "sign", text(operand)
        case ast.Constant(value=bool() | str() | None):
            return
        case ast.Constant(value=int() as value) if value > 0:
            yield "constant", str(value - 1)
        case ast.Constant(value=float() as value) if value > 0:
            yield "constant", repr(value / 2)
        case ast.Name(id="inf") | ast.Attribute(attr="inf"):
            yield "infinity", "0.0"
        case ast.Call():
            yield from _calls(node)


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, str]]:
    left, right = ast.unparse(node.left), ast.unparse(node.right)
    match node.op:
        case ast.Pow():
            if isinstance(node.left, ast.Constant):
                yield "constant", "0.0"
            else:
                yield "power", left
        case ast.Add() | ast.BitOr() | ast.BitAnd():
            yield "term", left
            yield "term", right
        case ast.Mult():
            yield "factor", left
            yield "factor", right
        case ast.Sub():
            yield "term", left
            yield "sign", f"{left} + ({right})"
        case ast.Div() | ast.FloorDiv():
            yield "factor", left


def _calls(node: ast.Call) -> Iterator[tuple[str, str]]:
    function, arguments = node.func, [ast.unparse(argument) for argument in node.args]
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    first = arguments[0] if arguments else ""
    if name in _EXCHANGED:
        other = _EXCHANGED[name]
        new: ast.expr = ast.Name(other)
        if isinstance(function, ast.Attribute):
            new = ast.Attribute(function.value, other)
        yield "exchange", ast.unparse(ast.Call(new, node.args, node.keywords))
    if name == "up" and not isinstance(node.args[-1], ast.Constant) and len(arguments) == 2:
        # Each rounding is pushed four times as far as it reaches, so a constant says little.
        yield "roundings", f"up({first}, 1)"
    if name in _IDENTITIES:
        yield "outwards", first
    if name in _TO_FLOAT:
        yield "outwards", _TO_FLOAT[name].format(first)
    if name in _TRUTHS:
        yield "truth", "True"
    if name == "times":
        yield "outwards", f"({first}) * ({arguments[1]})"
    if name == "total":
        yield "outwards", f"({first}).sum(axis={arguments[1]})"
    if name == "where" and len(arguments) == 3:
        yield "branch", arguments[1]
        yield "branch", arguments[2]
