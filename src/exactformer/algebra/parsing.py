r"""Text to polynomial, by a grammar. Nothing is ever evaluated as code.

::

    sum      := ["+"|"-"] product {("+"|"-") product}
    product  := power {["*"] power | "/" power}
    power    := atom [("^"|"**") exponent] | atom superscript | "\frac{" sum "}{" sum "}"
    atom     := number | name | "(" sum ")"
    exponent := integer | "(" integer ")" | "{" integer "}"

A star may be left out before a name or a parenthesis: ``5 x3 x4``, ``2(x+y)^3``; ``3xy`` next to x
is a product, and what may be one name or a product has to be declared
(:mod:`exactformer.algebra.names`). Products and quotients associate to the left, so ``1/2 x`` is half
of x; a quotient's divisor is a number. Decimals are exact: ``0.1`` is 1/10. Terms without parentheses
are collected, not multiplied out, so reading is linear in the text; multiplying out parentheses has a
budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flint import fmpq, fmpq_mpoly, fmpz

from exactformer.algebra.limits import (
    MAX_COEFFICIENT_BITS,
    MAX_DECIMAL_EXPONENT,
    MAX_EXPONENT,
    Work,
    check_power,
    check_product,
    check_sum,
    check_variables,
)
from exactformer.algebra.names import (
    FUNCTIONS,
    function_problem,
    misreading,
    product_of,
    products,
    twins,
)
from exactformer.algebra.rational import bits
from exactformer.algebra.ring import Exponents, natural_order, ring
from exactformer.algebra.tokens import Token, tokens
from exactformer.errors import InputError, ParseError, SizeError, UnknownVariableError

MAX_TEXT = 10_000_000
MAX_NESTING = 100
MAX_DIGITS = 60_300  # what that many bits can hold, so that printed polynomials parse back

_GCD = 4  # what reducing a fraction costs more than a multiplication

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")

SparseExponents = tuple[tuple[int, int], ...]
"""A monomial as (variable, power) pairs in ascending order of variable."""


def parse(
    text: str, variables: Sequence[str] | None = None, work: Work | None = None
) -> tuple[tuple[str, ...], fmpq_mpoly]:
    """Read ``text``; return the variables (in natural order unless given) and the polynomial.

    ``work`` limits the coefficient multiplications spent on multiplying out, and counts them.
    """
    if not isinstance(text, str):
        raise InputError(f"a polynomial in text form is a str, not {type(text).__name__}")
    check_text(text)
    if variables is not None:
        check_variables(len(variables))
    # Tokens are read twice rather than kept: ten million of them take more than a gigabyte.
    names, factors = _variables(text, variables)
    parser = _Parser(text, {name: i for i, name in enumerate(names)}, work or Work(), factors)
    return names, parser.polynomial()


def read_as_products(text: str) -> dict[str, list[str]]:
    """Return what stands side by side in a text and is read as a product, with its factors."""
    return products({token.text for token in tokens(text) if token.kind == "name"})


def check_text(text: str) -> None:
    """Refuse a text that is too long to be read."""
    if len(text) > MAX_TEXT:
        raise SizeError(
            f"the text has {len(text):,} characters, the limit is {MAX_TEXT:,}; "
            "build the polynomial with Polynomial.from_terms instead"
        )


def _variables(
    text: str, variables: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the variables of a text, and which of its names are products of them."""
    known = None if variables is None else set(variables)
    names: dict[str, Token] = {}
    for token in tokens(text, known):  # to the end: an unreadable character is reported first
        if token.kind == "name":
            names.setdefault(token.text, token)
    if variables is None:
        factors = products(names)
        own = {name: token for name, token in names.items() if name not in factors}
        _check_names(text, own, own)
        found = {*own, *(factor for parts in factors.values() for factor in parts)}
        return tuple(sorted(found, key=natural_order)), factors
    for token in names.values():
        if token.text not in variables:
            raise UnknownVariableError(_unknown(token.text, variables), text, token.column)
    return tuple(variables), {}


def check_names(text: str, names: Collection[str]) -> None:
    """Refuse a name of the text that may be a product of ``names``, which other texts use, too."""
    own = {token.text: token for token in tokens(text) if token.kind == "name"}
    for name in products(own):
        del own[name]
    _check_names(text, own, names)


def _check_names(text: str, own: Mapping[str, Token], names: Collection[str]) -> None:
    for token in own.values():
        if problem := misreading(token.text, names):
            raise ParseError(problem, text, token.column)
    if alike := twins(names):
        place = own.get(alike[1]) or own.get(alike[0])
        if place is not None:
            raise ParseError(
                f"{alike[0]} and {alike[1]} look like one variable; write one of them, or declare "
                "both with variables=",
                text,
                place.column,
            )


def _unknown(name: str, variables: Sequence[str]) -> str:
    if name in FUNCTIONS:
        return function_problem(name)
    factors = product_of(name, variables)
    product = f"; write {' '.join(factors)} for the product" if factors else ""
    return f"unknown variable {name!r}; variables are {', '.join(variables)}{product}"


def _apart(found: Iterator[Token], factors: Mapping[str, list[str]]) -> Iterator[Token]:
    """Yield tokens with products of names taken apart; an exponent belongs to the last factor."""
    for token in found:
        if token.kind == "name" and token.text in factors:
            for factor in factors[token.text]:
                yield Token("name", factor, token.column)
        else:
            yield token


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
    def __init__(
        self, text: str, index: dict[str, int], work: Work, factors: Mapping[str, list[str]]
    ) -> None:
        self.text, self.index = text, index
        self.ring = ring(len(index))
        self.tokens = _apart(tokens(text, {*index, *factors}), factors)
        self.here = next(self.tokens)
        self.work = work

    def polynomial(self) -> fmpq_mpoly:
        result = self.sum(depth=0)
        if self.here.kind in (")", "}"):
            self.fail("this parenthesis closes nothing")
        if self.here.kind == "{":
            self.fail("braces stand behind ^, _ and \\frac only; write parentheses")
        polynomial = self.expand(result)
        self.limit_bits(_height(polynomial), self.here)
        return polynomial

    def take(self) -> Token:
        token = self.here
        self.here = next(self.tokens, token)
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
            elif token.kind in ("name", "(", "frac"):
                self.multiply(product, depth)
            elif token.kind == "number":
                self.fail(f"a number cannot follow a factor; write ^{token.text} or *{token.text}")
            else:
                return product

    def multiply(self, product: _Product, depth: int) -> None:
        token = self.here
        if token.kind == "number":
            self.take()
            if self.here.kind == "frac":
                self.fail(r"a number and a fraction: write 2 \cdot \frac{1}{2}, or 2 + \frac{1}{2}")
            self.scale(product, self.number(token), self.exponent(), token)
        elif token.kind == "name":
            self.take()
            if token.text in FUNCTIONS and self.here.kind == "(":
                self.fail(
                    f"{token.text} is declared as a variable; write {token.text}*(…) for a product",
                    token,
                )
            variable, exponent = self.index[token.text], self.exponent()
            if exponent:
                product.powers[variable] = product.powers.get(variable, 0) + exponent
                self.limit_degree(product.powers[variable], token)
        elif token.kind == "(":
            self.multiply_sum(product, self.group(depth, ")"), self.exponent(), token)
        elif token.kind == "frac":
            self.multiply_fraction(product, depth)
        elif token.kind == "end":
            self.fail("the text ends where a number, a variable or '(' should stand")
        else:
            self.fail(f"expected a number, a variable or '(' but found {token.text!r}")

    def group(self, depth: int, closing: str) -> _Sum:
        opening = self.take()
        if depth >= MAX_NESTING:
            self.fail(
                f"parentheses nest deeper than {MAX_NESTING} levels; multiply out the inner ones",
                opening,
            )
        group = self.sum(depth + 1)
        if self.here.kind != closing:
            self.fail("this parenthesis is never closed", opening)
        self.take()
        return group

    def multiply_fraction(self, product: _Product, depth: int) -> None:
        opening = self.take()
        parts: list[_Sum] = []
        for _ in range(2):
            if self.here.kind != "{":
                self.fail(r"write both parts of a fraction in braces: \frac{1}{2}")
            place = self.here
            parts.append(self.group(depth, "}"))
        if self.here.kind in ("^", "superscript"):
            self.fail(r"a power of a fraction needs parentheses: write (\frac{1}{2})^2")
        self.multiply_sum(product, parts[0], 1, opening)
        divisor = _Product(fmpq(1), {})
        self.multiply_sum(divisor, parts[1], 1, place)
        self.divide_by(product, divisor, place)

    def multiply_sum(self, product: _Product, group: _Sum, exponent: int, opening: Token) -> None:
        if group.expanded is None and set(group.terms) <= {()}:
            self.scale(product, group.terms.get((), fmpq(0)), exponent, opening)
            return
        factor = self.power(self.expand(group), exponent, opening)
        if product.expanded is not None:
            height = _height(product.expanded) + _height(factor)
            check_product(product.expanded, factor, _up_to(opening))
            self.spend(len(product.expanded), len(factor), height, opening)
            factor = product.expanded * factor
        self.limit_degree(int(factor.total_degree()), opening)
        product.expanded = factor

    def divide(self, product: _Product, depth: int) -> None:
        token = self.here
        divisor = _Product(fmpq(1), {})
        sign = self.signs()
        self.multiply(divisor, depth)
        divisor.coefficient *= sign
        self.divide_by(product, divisor, token)
        glued = self.here.kind in ("name", "(") and self.text[self.here.column - 2].isdigit()
        if glued and (product.powers or product.expanded is not None):
            self.fail(
                "this factor may be in the divisor or behind it; write x*y/2 or x/2*y for x/2y"
            )

    def divide_by(self, product: _Product, divisor: _Product, token: Token) -> None:
        if divisor.powers or divisor.expanded is not None:
            self.fail("a polynomial can be divided by a number only", token)
        if divisor.coefficient == 0:
            self.fail("division by zero", token)
        self.scale(product, 1 / divisor.coefficient, 1, token)

    def exponent(self) -> int:
        """Read an optional exponent; ``x^2^3`` is refused because people disagree about it."""
        token = self.here
        if token.kind == "superscript":
            self.take()
            exponent = self.integer(token, token.text.translate(_SUPERSCRIPTS))
        elif token.kind == "^":
            self.take()
            closing = {"(": ")", "{": "}"}.get(self.here.kind)
            if closing:
                self.take()
            exponent = self.integer(self.here, self.here.text)
            self.take()
            if closing and self.here.kind != closing:
                self.fail("an exponent is one whole number")
            if closing:
                self.take()
        else:
            return 1
        if self.here.kind in ("^", "superscript"):
            self.fail("a power of a power needs parentheses: write (x^2)^3 or x^8")
        return exponent

    def integer(self, token: Token, digits: str) -> int:
        if not digits.isascii() or not digits.isdigit():
            self.fail("an exponent must be a whole number that is not negative", token)
        if len(digits) > 10 or int(digits) > MAX_EXPONENT:
            self.fail(f"the exponent is larger than {MAX_EXPONENT:,}; give a smaller one", token)
        return int(digits)

    def number(self, token: Token) -> fmpq:
        mantissa, _, exponent = token.text.lower().partition("e")
        whole, _, decimals = mantissa.partition(".")
        if len(whole) + len(decimals) > MAX_DIGITS:
            self.fail(f"the number has more than {MAX_DIGITS:,} digits; round it", token)
        power = exponent.lstrip("+-0") or "0"  # int() would count leading zeros as digits
        if len(power) > 5 or int(power) > MAX_DECIMAL_EXPONENT:
            self.fail(
                f"the decimal exponent is beyond ±{MAX_DECIMAL_EXPONENT:,}; rescale the variables",
                token,
            )
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
            self.fail(
                f"a coefficient grows past {MAX_COEFFICIENT_BITS:,} bits here; round the numbers",
                token,
            )

    def limit_degree(self, degree: int, token: Token) -> None:
        if degree > MAX_EXPONENT:
            self.fail(f"the degree grows past {MAX_EXPONENT:,} here; lower the exponents", token)

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
            check_sum(total.expanded, term, _up_to(self.here))
            self.spend(len(total.expanded), 1, 1, self.here)
            term = total.expanded + term
        total.expanded = term

    def expand(self, total: _Sum) -> fmpq_mpoly:
        self.spend(len(total.terms), len(self.index), 0, self.here)
        loose = self.ring.from_dict({self.dense(k): c for k, c in total.terms.items()})
        if total.expanded is None:
            return loose
        check_sum(loose, total.expanded, _up_to(self.here))
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
            terms = check_power(base, exponent, _up_to(token))
            self.spend(terms, len(base), _height(base) * exponent, token)
        return base**exponent

    def spend(self, left: int, right: int, height: int, token: Token) -> None:
        """Refuse before the work is done, with the place that asks for it."""
        self.work.spend(left * right * (height // 64 + 1), token.column)


def _up_to(token: Token) -> str:
    return f", multiplied out up to column {token.column},"


def _height(polynomial: fmpq_mpoly) -> int:
    return max((bits(c) for c in polynomial.coeffs()), default=0)
