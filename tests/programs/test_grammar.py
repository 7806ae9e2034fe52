"""A text is a program of the grammar or is refused with its place; nothing else ever happens."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer import rasp
from exactformer.errors import InputError, ParseError
from exactformer.programs import grammar
from exactformer.programs.grammar import parse_program
from exactformer.programs.values import canonical

EQ, LT, LEQ, TRUE = (rasp.Comparison[name] for name in ("EQ", "LT", "LEQ", "TRUE"))
tokens, indices, length = rasp.tokens, rasp.indices, rasp.length

INPUTS = [list(xs) for n in range(1, 5) for xs in product("ab", repeat=n)]
NUMBERS = [list(xs) for n in range(1, 4) for xs in product((0, 1, 3), repeat=n)]

SAME = [
    ("tokens", tokens, INPUTS),
    ("rasp.Map(lambda x: x == 'a', rasp.tokens)", tokens == "a", INPUTS),
    ("length - indices - 1", length - indices - 1, INPUTS),
    ("x = indices % 2\r\ny = -x\r\n3 * y + 1", 3 * -(indices % 2) + 1, INPUTS),
    ("1 / (1 + indices)", 1 / (1 + indices), INPUTS),
    ("indices * 0.1", indices * Fraction(1, 10), INPUTS),
    ("indices // 2 - 1e-1", indices // 2 - Fraction(1, 10), INPUTS),
    ("(tokens == 'a') & (indices >= 1)", (tokens == "a") & (indices >= 1), INPUTS),
    ("~(tokens != 'a') | (indices < 1)", ~(tokens != "a") | (indices < 1), INPUTS),
    ("tokens + tokens", tokens + tokens, INPUTS),
    ("tokens + tokens", tokens + tokens, NUMBERS),
    (
        "Aggregate(Select(indices, length - indices - 1, Comparison.EQ), tokens)",
        rasp.Aggregate(rasp.Select(indices, length - indices - 1, EQ), tokens),
        INPUTS,
    ),
    (
        "Aggregate(Select(indices, indices - 1, EQ), tokens, default='none')",
        rasp.Aggregate(rasp.Select(indices, indices - 1, EQ), tokens, default="none"),
        INPUTS,
    ),
    (
        "same = Select(tokens, tokens, EQ)\nbefore = Select(indices, indices, LT)\n"
        "SelectorWidth(same & ~before) + SelectorWidth(SelectorOr(same, before))",
        rasp.SelectorWidth(
            rasp.SelectorAnd(rasp.Select(tokens, tokens, EQ), ~rasp.Select(indices, indices, LT))
        )
        + rasp.SelectorWidth(rasp.Select(tokens, tokens, EQ) | rasp.Select(indices, indices, LT)),
        INPUTS,
    ),
    (
        "numerical(Aggregate(Select(indices, indices, LEQ), tokens == 'a', default=0))",
        rasp.numerical(
            rasp.Aggregate(rasp.Select(indices, indices, LEQ), tokens == "a", default=0)
        ),
        INPUTS,
    ),
    (
        "LinearSequenceMap(indices, tokens, 2, -1 / 3)",
        rasp.LinearSequenceMap(indices, tokens, 2, Fraction(-1, 3)),
        NUMBERS,
    ),
    (
        "top = 2\nMap(lambda x: x ** 2 if 0 < x <= top or not x else min(x, top, 7), tokens)",
        rasp.Map(lambda x: x**2 if 0 < x <= 2 or not x else min(x, 2, 7), tokens),
        NUMBERS,
    ),
    (
        "SequenceMap(lambda x, i: abs(x - i) / (i + 1) and max(x, i), tokens, indices)",
        rasp.SequenceMap(lambda x, i: abs(x - i) / (i + 1) and max(x, i), tokens, indices),
        NUMBERS,
    ),
    (
        "SelectorWidth(Select(tokens, indices, lambda key, query: key > query and query != None))",
        rasp.SelectorWidth(rasp.Select(tokens, indices, lambda k, q: k > q and q is not None)),
        NUMBERS,
    ),
    ("SequenceMap(max, tokens, Full(1))", rasp.SequenceMap(max, tokens, rasp.Full(1)), NUMBERS),
]


@pytest.mark.parametrize(("text", "built", "inputs"), SAME, ids=[row[0] for row in SAME])
def test_a_text_is_the_program_that_python_builds(
    text: str, built: rasp.SOp, inputs: Sequence[list[Any]]
) -> None:
    read = parse_program(text)
    for xs in inputs:
        assert read(xs) == built(xs)


def test_expressions_have_the_names_that_the_text_gives_them() -> None:
    reverse = parse_program(
        "opposite = length - indices - 1\nreverse = Aggregate(Select(indices, opposite, EQ), tokens)"
    )
    names = [part.name for part in rasp.walk(reverse)]
    assert names[-1] == "reverse"
    assert "opposite" in names
    assert "indices == opposite" in names
    assert "length - indices" in names


ATTACKS = [
    "().__class__",
    "tokens.__class__",
    "tokens.named('x')",
    "rasp.__dict__",
    "rasp.evaluate",
    "rasp.Comparison.__members__",
    "Comparison.EQ.value",
    "tokens[0]",
    "tokens['a']",
    "[x for x in tokens]",
    "{x: 1 for x in tokens}",
    "(x for x in tokens)",
    "[1, 2]",
    "(1, 2)",
    "{1}",
    "import os",
    "from os import path",
    "__import__('os')",
    "eval('1')",
    "exec('1')",
    "open('/etc/passwd')",
    "print(tokens)",
    "getattr(tokens, 'f')",
    "def f(x): return x",
    "class A: pass",
    "while True: pass",
    "for x in tokens: pass",
    "with tokens: pass",
    "del tokens",
    "global tokens",
    "assert tokens",
    "raise tokens",
    "async def f(): pass",
    "(x := tokens)",
    "x: int = tokens",
    "x += 1",
    "x, y = tokens, tokens",
    "x = y = tokens",
    "tokens = indices",
    "_x = tokens\n_x",
    "__x__ = tokens\n__x__",
    "f'{tokens}'",
    "b'x'",
    "1j + tokens",
    "...",
    "None",
    "'a'",
    "EQ",
    "Select",
    "Select(tokens, tokens, EQ)",
    "lambda x: x",
    "Map(lambda x: x.real, tokens)",
    "Map(lambda x: x[0], tokens)",
    "Map(lambda x: (lambda y: y)(x), tokens)",
    "Map(lambda x: [y for y in x], tokens)",
    "Map(lambda x: __import__('os'), tokens)",
    "Map(lambda x: tokens, tokens)",
    "Map(lambda x: EQ, tokens)",
    "Map(lambda x: Map, tokens)",
    "Map(lambda x: f'{x}', tokens)",
    "Map(lambda x: x if x else (y := x), tokens)",
    "Map(lambda x=1: x, tokens)",
    "Map(lambda *x: x, tokens)",
    "Map(lambda **x: x, tokens)",
    "Map(lambda x, /: x, tokens)",
    "Map(lambda _: 1, tokens)",
    "Map(lambda x: min(x, key=abs), tokens)",
    "Map(lambda x: abs(*x), tokens)",
    "Map(lambda x: x @ x, tokens)",
    "Map(lambda x: x << 9, tokens)",
    "Map(lambda x: x in 'abc', tokens)",
    "Map(lambda x: x is None, tokens)",
    "Map(lambda x: await_(x), tokens)",
    "Map(lambda x: (yield x), tokens)",
    "Map(*tokens)",
    "Map(**tokens)",
    "Map(EQ, tokens)",
    "Map(Map, tokens)",
    "Map(lambda x, y: x, tokens)",
    "Map(lambda x: x)",
    "Map(lambda x: x, tokens, wrong=1)",
    "Map(lambda x: x, 3)",
    "Map(lambda x: x, Select(tokens, tokens, EQ))",
    "Full(tokens)",
    "Full(abs)",
    "Aggregate(tokens, tokens)",
    "Aggregate(Select(tokens, tokens, EQ), tokens, default=indices)",
    "LinearSequenceMap(tokens, tokens, 'a', 1)",
    "SelectorWidth(tokens)",
    "tokens + Select(tokens, tokens, EQ)",
    "Select(tokens, tokens, EQ) + Select(tokens, tokens, EQ)",
    "tokens & Select(tokens, tokens, EQ)",
    "-Select(tokens, tokens, EQ)",
    "tokens and indices",
    "not tokens",
    "tokens < indices < length",
    "tokens if tokens else tokens",
    "indices ** 9",
    "tokens @ tokens",
    "tokens in tokens",
    "unknown",
    "tokens\nindices",
    "x = indices\nx = tokens\nx",
    "",
    "\n\n",
    "# nothing",
    "\0",
    "\ud800",
    "tokens; import os",
    "tokens if",
    "9" * 31,
    "Full(" + "9" * 3000 + ")",
    "Full(1e99999999)",
    "Full(1e-99)",
    "Full('" + "a" * 61 + "')",
    "Full(10 ** 31)",
    "Full(1 / 0)",
    "Full('a' * 999999999)",
    "a" * 41 + " = tokens",
    "x" * 5000,
    "(" * 900 + "tokens" + ")" * 900,
    "-" * 3900 + "1",
    "~" * 3900 + "tokens",
    "not " * 900 + "tokens",
    "tokens" + ".a" * 1900,
    "tokens" + "+1" * 1900,
    "tokens" + "()" * 1900,
    "lambda x: " * 390 + "x",
    "tokens if " * 300,
    "Map(lambda x: " * 250,
    "x = " * 900 + "tokens",
    "tokens" + "[" * 190,
    "Map(lambda x: " + "-" * 3000 + "x, tokens)",
]  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS, ids=lambda text: ascii(text[:40]))
def test_nothing_outside_the_grammar_gets_through(text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        parse_program(text)
    error = refusal.value
    assert error.line is not None
    assert error.column >= 1
    assert len(error.problem) > 5


@pytest.mark.parametrize(
    "text",
    [
        "tokens * 999999999",
        "x = tokens + tokens + tokens + tokens + tokens\ny = x + x + x + x\ny + y + y + y",
        "Map(lambda x: 10 ** 20 * 10 ** 20, tokens)",
        "Map(lambda x: 2 ** 10 ** 9, tokens)",
        "Map(lambda x: x % 'd', tokens)",
        "tokens % 3",
        "'%s' % tokens",
        "tokens < indices",
        "1 / indices",
        "indices % 0",
        "Map(lambda x: max(x, 1), tokens)",
    ],
)
def test_what_has_no_value_is_refused_when_it_is_met(text: str) -> None:
    program = parse_program(text)
    with pytest.raises(InputError):
        program(["a", "b"])


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("x = tokens\ny = x.f\ny", 2, 5, "dot"),
        ("äöü = tokens\nMap(lambda x: 'ä' + x[0], äöü)", 2, 21, "subscript"),
        ("x = tokens +\nx", 1, 13, "invalid syntax"),
        ("tokens\n+ indices\ntokens", 1, 1, "only the last line"),
        ("Map(lambda x: x, Map)", 1, 18, "Map is called"),
        ("Agregate(tokens)", 1, 1, "Agregate cannot be called"),
        ("Map(abs(1), tokens)", 1, 5, "inside a function only"),
    ],
)
def test_an_error_has_its_line_column_and_reason(
    text: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(ParseError, match=words) as refusal:
        parse_program(text)
    assert (refusal.value.line, refusal.value.column) == (line, column)
    assert f"line {line}, column {column}" in str(refusal.value)


def test_a_program_is_a_text() -> None:
    with pytest.raises(InputError, match="a text, not int"):
        parse_program(3)  # type: ignore[arg-type]


PIECES = st.sampled_from(
    [*grammar.SEQUENCES, *grammar.CALLS, *grammar.COMPARISONS, "rasp.", "lambda x:", "lambda x, y:",
     "x", "y", "'a'", "1", "0.5", "(", ")", ",", "=", "+", "-", "*", "/", "//", "%", "**", "<", "==",
     "&", "|", "~", "and", "or", "not", "if", "else", "None", "default=", "\n", "[", "]", ".", "__x__",
     "abs(", "min(", ":", "#", "ä", "import", "1e9", "\\", "'''"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=25).map(" ".join)))
def test_any_text_is_a_program_or_is_refused(text: str) -> None:
    with suppress(ParseError):
        program = parse_program(text)
        for xs in (["a", "b"], [1, 2]):
            with suppress(InputError):
                assert len(program(xs)) == len(xs)


values = st.one_of(
    st.none(), st.integers(-9, 9), st.fractions(-3, 3, max_denominator=4), st.text(max_size=3)
)


SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda x, y: x and y,
    "or": lambda x, y: x or y,
}


@given(values, values, st.sampled_from(list(SIGNS)))
def test_operators_on_values_are_pythons_wherever_they_have_a_value(
    x: Any, y: Any, sign: str
) -> None:
    read = parse_program(f"SelectorWidth(Select(tokens, tokens, lambda x, y: x {sign} y))")
    predicate = next(e for e in rasp.walk(read) if isinstance(e, rasp.Select)).predicate
    try:
        value = predicate(x, y)
    except InputError:
        return
    x, y = (Fraction(v) if isinstance(v, int) else v for v in (x, y))
    assert value == SIGNS[sign](x, y)


Formula = tuple[str, Callable[[Any, Any], Any]]


@st.composite
def formulas(draw: Any, depth: int = 3) -> Formula:
    """Functions of x and y as text, and as Python has them."""
    if not depth or draw(st.booleans()):
        constant = draw(st.integers(-3, 3))
        leaves = [
            ("x", lambda x, y: x),
            ("y", lambda x, y: y),
            (str(constant), lambda x, y: constant),
        ]
        return draw(st.sampled_from(leaves))
    (a, f), (b, g), (c, h) = (draw(formulas(depth=depth - 1)) for _ in range(3))
    sign = draw(st.sampled_from([*SIGNS, "if"]))
    if sign == "if":
        return f"({a} if {b} else {c})", lambda x, y: f(x, y) if g(x, y) else h(x, y)
    return f"({a} {sign} {b})", lambda x, y: SIGNS[sign](f(x, y), g(x, y))


@given(formulas(), st.integers(-4, 4), st.integers(-4, 4))
def test_functions_in_texts_are_pythons_own(formula: Formula, x: int, y: int) -> None:
    text, function = formula
    read = parse_program(f"SequenceMap(lambda x, y: {text}, tokens, Full({y}))")
    built = rasp.SequenceMap(function, tokens, rasp.Full(y))
    try:
        wanted = built([Fraction(x)])
    except InputError:
        return
    assert read([x]) == [canonical(value) for value in wanted]
