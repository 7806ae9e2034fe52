r"""Pieces of a polynomial's text: numbers, names and signs, in plain spelling or in LaTeX.

Of LaTeX are read ``x^{2}``, ``\frac{1}{2}``, ``\cdot``, ``\times``, ``\left(``, ``\right)``, spaces,
``\alpha``, ``x_{12}`` and ``\mathrm{speed}``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from exactformer.algebra.limits import check_variables
from exactformer.algebra.names import FUNCTIONS, GREEK
from exactformer.algebra.ring import is_name
from exactformer.errors import ParseError

MAX_NAME = 1_000

# Almost every token; names with letters beyond ASCII, superscripts and rarer signs are read below.
_COMMON = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*(?![A-Za-z_0-9{]|[^\x00-\x7f]))|(?P<sign>\*\*|[-+*/^()]))"
)
_BASED = re.compile(r"0(?:[xX][0-9]+|[oO][0-7]+|[bB][01]+)(?![A-Za-z_0-9])")
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_OPERATORS = {"+": "+", "-": "-", "−": "-", "*": "*", "·": "*", "×": "*", "/": "/", "^": "^"}
_SIGNS = {**_OPERATORS, "**": "^", "(": "(", ")": ")"}

_LATEX_SPACE = re.compile(r"\s*\\(?:[,;:! ]|q?quad(?![A-Za-z])|left(?=\s*\()|right(?=\s*\)))")
_COMMAND = re.compile(r"\\([A-Za-z]+|.|$)", re.DOTALL)
_COMMANDS = {"cdot": "*", "times": "*", "frac": "frac", "dfrac": "frac", "tfrac": "frac"}
_UPRIGHT = re.compile(r"\s*\{((?:[^{}\\]|\\_){1,2000})\}")
_SUBSCRIPT = re.compile(r"_(?:\{\s*([A-Za-z0-9]+)\s*\}|([A-Za-z0-9]+))")


class Token(NamedTuple):
    """A piece of the text: its kind, its text and its column (from 1)."""

    kind: str
    text: str
    column: int


def tokens(text: str, known: Collection[str] | None = None) -> Iterator[Token]:
    """Return the pieces one by one; ``x_{1}`` is the one of x_1 and x1 that is known."""
    position, end = 0, len(text.rstrip())
    names: set[str] = set()
    while position < end:
        match = _COMMON.match(text, position)
        if match is not None:
            kind = str(match.lastgroup)
            piece = match[kind]
            position = match.end()
            if kind == "number" and text.startswith("_", position):
                raise ParseError(
                    "digits are not grouped by underscores here; write 1000 for 1_000",
                    text,
                    position + 1,
                )
            if piece == "0" and known is None and (based := _BASED.match(text, position - 1)):
                raise ParseError(
                    f"{based[0]} is a number in another base, or zero times {based[0][1:]}; write the "
                    f"decimals, or 0*{based[0][1:]}",
                    text,
                    position,
                )
            token = Token(
                _SIGNS[piece] if kind == "sign" else kind, piece, position - len(piece) + 1
            )
        elif space := _LATEX_SPACE.match(text, position):
            position = space.end()
            continue
        else:
            token, position = _rare(text, position, end, known)
        if token.kind == "name" and token.text not in names:
            if len(token.text) > MAX_NAME:
                raise ParseError(
                    f"the name has {len(token.text):,} characters, the limit is {MAX_NAME:,}; "
                    "choose a shorter one",
                    text,
                    token.column,
                )
            names.add(token.text)
            check_variables(len(names), exactly=False)
        yield token
    yield Token("end", "", end + 1)


def _rare(text: str, position: int, end: int, known: Collection[str] | None) -> tuple[Token, int]:
    while text[position].isspace():
        position += 1
    start, character = position, text[position]
    if character in _OPERATORS:
        kind, position = _OPERATORS[character], position + 1
    elif character in "{}":
        kind, position = character, position + 1
    elif character.isalpha() or character == "_":
        kind = "name"
        while position < end and (
            text[position].isalpha() or text[position] == "_" or text[position] in "0123456789"
        ):
            position += 1
        if text[position - 1 : position + 1] == "_{":
            return _subscripted(text, start, text[start : position - 1], position - 1, known)
    elif match := _SUPERSCRIPT.match(text, position):
        kind, position = "superscript", match.end()
    elif character == "\\":
        return _command(text, position, known)
    elif character == "=":
        raise ParseError(
            "an equation is not a polynomial; give one side of it, x^2 for y = x^2",
            text,
            position + 1,
        )
    else:
        raise ParseError(f"unexpected character {character!r}", text, position + 1)
    return Token(kind, text[start:position], start + 1), position


def _command(text: str, start: int, known: Collection[str] | None) -> tuple[Token, int]:
    """Read a command of LaTeX."""
    match = _COMMAND.match(text, start)
    assert match is not None
    name, position = match[1], match.end()
    if name in _COMMANDS:
        return Token(_COMMANDS[name], match[0], start + 1), position
    if name == "mathrm" and (upright := _UPRIGHT.match(text, position)):
        inner = upright[1].replace(r"\_", "_").strip()
        if is_name(inner):
            return Token("name", inner, start + 1), upright.end()
    if name in GREEK or name in FUNCTIONS or name == "pi":
        if text.startswith("_", position):
            return _subscripted(text, start, name, position, known)
        return Token("name", name, start + 1), position
    raise ParseError(
        rf"\{name} is not read here; known are \frac, \cdot, \times, \left(, \right), Greek letters "
        r"and \mathrm{name}",
        text,
        start + 1,
    )


def _subscripted(
    text: str, start: int, base: str, position: int, known: Collection[str] | None
) -> tuple[Token, int]:
    """Read ``_{12}`` behind a name."""
    match = _SUBSCRIPT.match(text, position)
    if match is None or not is_name(base):
        raise ParseError("a subscript is letters or digits: x_{1}, x_{max}", text, position + 1)
    inner = match[1] or match[2]
    spellings = [f"{base}_{inner}", f"{base}{inner}"]
    found = [name for name in spellings if name in (known or spellings[:1])]
    if len(found) == 2:
        raise ParseError(
            f"{base}{match[0]} may be {found[0]} or {found[1]}; write the one meant",
            text,
            start + 1,
        )
    return Token("name", found[0] if found else spellings[0], start + 1), match.end()
