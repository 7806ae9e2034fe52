"""Text to polynomial, by a grammar. Nothing is ever evaluated as code.

::

    sum      := ["+"|"-"] product {("+"|"-") product}
    product  := power {["*"] power | "/" power}
    power    := atom [("^"|"**") integer] | atom superscript
    atom     := number | name | "(" sum ")"

A star may be left out before a name or a parenthesis: ``5 x3 x4``, ``2(x+y)^3``. Products and
quotients associate to the left, so ``1/2 x`` is half of x; a quotient's divisor is a number.
Decimals are exact: ``0.1`` is 1/10. Terms without parentheses are collected, not multiplied out, so
reading is linear in the text; multiplying out parentheses has a budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import comb
from typing import NamedTuple

from flint import fmpq, fmpq_mpoly, fmpz

from exactformer.algebra.rational import bits
from exactformer.algebra.ring import Exponents, natural_order, ring
from exactformer.errors import InputError, ParseError, SizeError, UnknownVariableError

MAX_TEXT = 10_000_000
MAX_DECIMAL_EXPONENT = 10_000
MAX_EXPONENT = 1_000_000
MAX_NESTING = 100
MAX_COEFFICIENT_BITS = 200_000
MAX_DIGITS = 60_300  # what that many bits can hold, so that printed polynomials parse back
MAX_WORK = 50_000_000  # coefficient multiplications (per 64 bits) spent on multiplying out

_GCD = 4  # what reducing a fraction costs more than a multiplication

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_OPERATORS = {"+": "+", "-": "-", "−": "-", "*": "*", "·": "*", "×": "*", "/": "/", "^": "^"}
_FUNCTIONS = frozenset(
    "abs acos asin atan cbrt ceil cos cosh erf exp floor ln log log10 log2 max min mod relu round "
    "sign sin sinh softmax sqrt tan tanh".split()
)

SparseExponents = tuple[tuple[int, int], ...]
"""A monomial as (variable, power) pairs in ascending order of variable."""


class Token(NamedTuple):
    """A piece of the text: its kind, its text and its column (from 1)."""

    kind: str
    text: str
    column: int


def parse(
    text: str, variables: Sequence[str] | None = None, work: int = MAX_WORK
) -> tuple[tuple[str, ...], fmpq_mpoly]:
    """Read ``text``; return the variables (in natural order unless given) and the polynomial.

    ``work`` limits the coefficient multiplications spent on multiplying out.
    """
    if not isinstance(text, str):
        raise InputError(f"a polynomial in text form is a str, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise SizeError(
            f"the text has {len(text):,} characters, the limit is {MAX_TEXT:,}; "
            "build the polynomial with Polynomial.from_terms instead"
        )
    tokens = list(_tokens(text))
    names = _variables(tokens, text, variables)
    parser = _Parser(text, tokens, {name: i for i, name in enumerate(names)}, work)
    return names, parser.polynomial()


def _tokens(text: str) -> Iterator[Token]:
    position, end = 0, len(text)
    while position < end:
        start, character = position, text[position]
        if character.isspace():
            position += 1
            continue
        if character in "()":
            kind, position = character, position + 1
        elif text.startswith("**", position):
            kind, position = "^", position + 2
        elif character in _OPERATORS:
            kind, position = _OPERATORS[character], position + 1
        elif character.isalpha() or character == "_":
            kind = "name"
            while position < end and (
                text[position].isalpha() or text[position] == "_" or text[position] in "0123456789"
            ):
                position += 1
        elif match := _NUMBER.match(text, position):
            kind, position = "number", match.end()
        elif match := _SUPERSCRIPT.match(text, position):
            kind, position = "superscript", match.end()
        else:
            raise ParseError(f"unexpected character {character!r}", text, position + 1)
        yield Token(kind, text[start:position], start + 1)
    yield Token("end", "", len(text.rstrip()) + 1)


def _variables(tokens: list[Token], text: str, variables: Sequence[str] | None) -> tuple[str, ...]:
    used = {token.text for token in tokens if token.kind == "name"}
    if variables is None:
        return tuple(sorted(used, key=natural_order))
    known = set(variables)
    for token in tokens:
        if token.kind == "name" and token.text not in known:
            raise UnknownVariableError(
                f"unknown variable {token.text!r}; variables are {', '.join(variables)}",
                text,
                token.column,
            )
    return tuple(variables)


@dataclass
class _Product:
    """A term under construction: coefficient · monomial · (what had to be multiplied out)."""

    coefficient: fmpq
    powers: dict[int, int]
    expanded: fmpq_mpoly | None = None


@dataclass
class _Sum:
    """A sum under construction: loose monomials, and what had to be multiplied out."""

    terms: dict[SparseExponents, fmpq] = field(default_factory=dict)
    expanded: fmpq_mpoly | None = None


class _Parser:
    def __init__(self, text: str, tokens: list[Token], index: dict[str, int], most: int) -> None:
        self.text, self.tokens, self.index = text, tokens, index
        self.ring = ring(len(index))
        self.position = 0
        self.work, self.most_work = 0, most

    def polynomial(self) -> fmpq_mpoly:
        result = self.sum(depth=0)
        if self.here.kind == ")":
            self.fail("this parenthesis closes nothing")
        polynomial = self.expand(result)
        self.limit_bits(_height(polynomial), self.here)
        return polynomial

    @property
    def here(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        token = self.here
        self.position += 1
        return token

    def fail(self, problem: str, token: Token | None = None) -> None:
        raise ParseError(problem, self.text, (token or self.here).column)

    def sum(self, depth: int) -> _Sum:
        result = _Sum()
        sign = self.signs()
        while True:
            self.collect(result, self.product(depth), sign)
            if self.here.kind not in ("+", "-"):
                return result
            sign = self.signs()

    def signs(self) -> int:
        sign = 1
        while self.here.kind in ("+", "-"):
            sign = -sign if self.take().kind == "-" else sign
        return sign

    def product(self, depth: int) -> _Product:
        product = _Product(fmpq(1), {})
        self.multiply(product, depth)
        while True:
            token = self.here
            if token.kind == "*":
                self.take()
                sign = self.signs()
                self.multiply(product, depth)
                product.coefficient *= sign
            elif token.kind == "/":
                self.take()
                self.divide(product, depth)
            elif token.kind in ("name", "("):
                self.multiply(product, depth)
            elif token.kind == "number":
                self.fail(f"a number cannot follow a factor; write ^{token.text} or *{token.text}")
            else:
                return product

    def multiply(self, product: _Product, depth: int) -> None:
        token = self.here
        if token.kind == "number":
            self.take()
            self.scale(product, self.number(token), self.exponent(), token)
        elif token.kind == "name":
            self.take()
            if token.text in _FUNCTIONS and self.here.kind == "(":
                self.fail(
                    f"{token.text}(…) is a function, not a polynomial; pass a Python function "
                    f"with a domain instead, or write {token.text}*(…) for a product",
                    token,
                )
            variable, exponent = self.index[token.text], self.exponent()
            if exponent:
                product.powers[variable] = product.powers.get(variable, 0) + exponent
                self.limit_degree(product.powers[variable], token)
        elif token.kind == "(":
            self.multiply_group(product, depth)
        elif token.kind == "end":
            self.fail("the text ends where a number, a variable or '(' should stand")
        else:
            self.fail(f"expected a number, a variable or '(' but found {token.text!r}")

    def multiply_group(self, product: _Product, depth: int) -> None:
        opening = self.take()
        if depth >= MAX_NESTING:
            self.fail(f"parentheses nest deeper than {MAX_NESTING} levels", opening)
        group = self.sum(depth + 1)
        if self.here.kind != ")":
            self.fail("this parenthesis is never closed", opening)
        self.take()
        exponent = self.exponent()
        if group.expanded is None and set(group.terms) <= {()}:
            self.scale(product, group.terms.get((), fmpq(0)), exponent, opening)
            return
        factor = self.power(self.expand(group), exponent, opening)
        if product.expanded is not None:
            height = _height(product.expanded) + _height(factor)
            self.spend(len(product.expanded), len(factor), height, opening)
            factor = product.expanded * factor
        self.limit_degree(int(factor.total_degree()), opening)
        product.expanded = factor

    def divide(self, product: _Product, depth: int) -> None:
        token = self.here
        divisor = _Product(fmpq(1), {})
        sign = self.signs()
        self.multiply(divisor, depth)
        if divisor.powers or divisor.expanded is not None:
            self.fail("a polynomial can be divided by a number only", token)
        if divisor.coefficient == 0:
            self.fail("division by zero", token)
        self.scale(product, sign / divisor.coefficient, 1, token)

    def exponent(self) -> int:
        """Read an optional exponent; ``x^2^3`` is refused because people disagree about it."""
        token = self.here
        if token.kind == "superscript":
            self.take()
            exponent = self.integer(token, token.text.translate(_SUPERSCRIPTS))
        elif token.kind == "^":
            self.take()
            parenthesised = self.here.kind == "("
            if parenthesised:
                self.take()
            exponent = self.integer(self.here, self.here.text)
            self.take()
            if parenthesised and self.take().kind != ")":
                self.position -= 1
                self.fail("an exponent is one whole number")
        else:
            return 1
        if self.here.kind in ("^", "superscript"):
            self.fail("a power of a power needs parentheses: write (x^2)^3 or x^8")
        return exponent

    def integer(self, token: Token, digits: str) -> int:
        if not digits.isascii() or not digits.isdigit():
            self.fail("an exponent must be a whole number that is not negative", token)
        if len(digits) > 10 or int(digits) > MAX_EXPONENT:
            self.fail(f"the exponent is larger than {MAX_EXPONENT:,}", token)
        return int(digits)

    def number(self, token: Token) -> fmpq:
        mantissa, _, exponent = token.text.lower().partition("e")
        whole, _, decimals = mantissa.partition(".")
        if len(whole) + len(decimals) > MAX_DIGITS:
            self.fail(f"the number has more than {MAX_DIGITS:,} digits", token)
        power = exponent.lstrip("+-0") or "0"  # int() would count leading zeros as digits
        if len(power) > 5 or int(power) > MAX_DECIMAL_EXPONENT:
            self.fail(f"the decimal exponent is beyond ±{MAX_DECIMAL_EXPONENT:,}", token)
        shift = (-int(power) if exponent.startswith("-") else int(power)) - len(decimals)
        digits, scale = fmpq(fmpz(whole + decimals)), fmpz(10) ** abs(shift)
        return digits * scale if shift >= 0 else digits / scale

    def scale(self, product: _Product, factor: fmpq, exponent: int, token: Token) -> None:
        size = bits(factor) * exponent if factor not in (0, 1, -1) else 1
        self.limit_bits(size, token)
        self.spend(1, _GCD, size + bits(product.coefficient), token)
        product.coefficient *= factor**exponent
        self.limit_bits(bits(product.coefficient), token)

    def limit_bits(self, size: int, token: Token) -> None:
        if size > MAX_COEFFICIENT_BITS:
            self.fail(f"a coefficient grows past {MAX_COEFFICIENT_BITS:,} bits here", token)

    def limit_degree(self, degree: int, token: Token) -> None:
        if degree > MAX_EXPONENT:
            self.fail(f"the degree grows past {MAX_EXPONENT:,} here", token)

    def collect(self, total: _Sum, product: _Product, sign: int) -> None:
        key = tuple(sorted(product.powers.items()))
        coefficient = product.coefficient * sign
        if product.expanded is None:
            value = total.terms.get(key, fmpq(0)) + coefficient
            self.limit_bits(bits(value), self.here)
            self.spend(1, _GCD, bits(value), self.here)
            total.terms[key] = value
            return
        monomial = self.ring.from_dict({self.dense(key): coefficient})
        self.spend(len(product.expanded), 1, bits(coefficient), self.here)
        term = product.expanded * monomial
        if total.expanded is not None:
            self.spend(len(total.expanded), 1, 1, self.here)
            term = total.expanded + term
        total.expanded = term

    def expand(self, total: _Sum) -> fmpq_mpoly:
        self.spend(len(total.terms), len(self.index), 0, self.here)
        loose = self.ring.from_dict({self.dense(k): c for k, c in total.terms.items()})
        if total.expanded is None:
            return loose
        self.spend(len(total.expanded), 1, 1, self.here)
        return loose + total.expanded

    def dense(self, key: SparseExponents) -> Exponents:
        exponents = [0] * len(self.index)
        for variable, power in key:
            exponents[variable] = power
        return tuple(exponents)

    def power(self, base: fmpq_mpoly, exponent: int, token: Token) -> fmpq_mpoly:
        self.limit_degree(int(base.total_degree()) * exponent, token)
        if exponent > 1:
            # A power of t terms has at most C(t+k-1, k) of them, and no more than its box holds.
            box = 1
            for degree in base.degrees():
                box *= int(degree) * exponent + 1
            terms = min(box, comb(len(base) + exponent - 1, exponent) if exponent < 5000 else box)
            self.spend(terms, len(base), _height(base) * exponent, token)
        return base**exponent

    def spend(self, left: int, right: int, height: int, token: Token) -> None:
        """Refuse before the work is done, with the place that asks for it."""
        self.work += left * right * (height // 64 + 1)
        if self.work > self.most_work:
            raise SizeError(
                f"multiplying out up to column {token.column} takes about "
                f"{Decimal(self.work):.1e} operations, the limit is {self.most_work:.0e}; "
                "give the polynomial already expanded, or of lower degree"
            )


def _height(polynomial: fmpq_mpoly) -> int:
    return max((bits(c) for c in polynomial.coeffs()), default=0)
