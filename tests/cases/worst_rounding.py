"""The worst arithmetic that a rounding bound has to cover, in rationals.

Every product and every addition errs as the standard model allows: by a factor 1 ± u, not at all where
it is exact (a zero, a product with a power of two), or by all of it where an operand or the result is
subnormal and may be flushed to zero. Which error an operation makes is chosen to move the output as
far as possible. No processor is as unlucky; a bound that holds here holds on each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from flint import fmpq

from exactformer.algebra.rational import to_fmpq, to_fraction
from exactformer.core.formats import FloatFormat
from exactformer.core.layers import RELU, Rule
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint

ZERO, ONE = fmpq(0), fmpq(1)
FLUSHED = 2
"""A choice beside −1, 0 and 1 units of roundoff."""

Token = list[fmpq]
Computation = Callable[["Arithmetic"], fmpq]


class Arithmetic:
    """Operations that err as they have been told, in the order in which they are carried out."""

    def __init__(self, format: FloatFormat, choices: dict[int, int] | None = None) -> None:
        self.format, self.choices = format, choices or {}
        self.can_round: list[bool] = []
        self.can_flush: list[bool] = []

    def weight(self, value: Fraction, format: FloatFormat | None = None) -> fmpq:
        """A number as a format stores it."""
        format = format or self.format
        stored = _stored(value, format)
        return self._done(stored, False, abs(stored) < _tiny(format))

    def converted(self, value: fmpq, format: FloatFormat) -> fmpq:
        """A result that is rounded once more, to another format."""
        return self._done(value, True, abs(value) < _tiny(format), format)

    def times(self, a: fmpq, b: fmpq) -> fmpq:
        """A product."""
        if a == 0 or b == 0:
            return ZERO
        exact = is_power_of_two(a) or is_power_of_two(b)
        return self._done(a * b, not exact, min(abs(a), abs(b), abs(a * b)) < _tiny(self.format))

    def plus(self, a: fmpq, b: fmpq) -> fmpq:
        """A sum of two."""
        if a == 0 or b == 0:
            return a + b
        return self._done(a + b, True, abs(a + b) < _tiny(self.format))

    def sum(self, terms: Sequence[fmpq]) -> fmpq:
        """A sum one term after the other, the largest first: it meets every addition."""
        total = ZERO
        for term in sorted(terms, key=abs, reverse=True):
            total = self.plus(total, term)
        return total

    def tree(self, terms: Sequence[fmpq]) -> fmpq:
        """A sum by halves."""
        level = list(terms)
        while len(level) > 1:
            half = (len(level) + 1) // 2
            rest = [*level[half:], *[ZERO] * (2 * half - len(level))]
            level = [self.plus(a, b) for a, b in zip(level[:half], rest, strict=True)]
        return level[0] if level else ZERO

    def several(self, value: fmpq, roundings: fmpq) -> fmpq:
        """A result of several roundings that go the same way."""
        k = len(self.can_round)
        self.can_round.append(value != 0 and roundings != 0)
        self.can_flush.append(False)
        return value * (1 + self.choices.get(k, 0) * roundings * _unit(self.format))

    def _done(
        self, value: fmpq, rounds: bool, flushes: bool, format: FloatFormat | None = None
    ) -> fmpq:
        choice = self.choices.get(len(self.can_round), 0)
        self.can_round.append(rounds)
        self.can_flush.append(flushes and value != 0)
        if choice == FLUSHED:
            return ZERO
        return value * (1 + choice * _unit(format or self.format))


def worst(compute: Computation, exact: Fraction, format: FloatFormat) -> Fraction:
    """Return how far errors, each chosen for what it does alone, take a result from the exact one."""
    plain = Arithmetic(format)
    start = compute(plain)
    moves = []
    for k, (rounds, flushes) in enumerate(zip(plain.can_round, plain.can_flush, strict=True)):
        options = ([1, -1] if rounds else []) + ([FLUSHED] if flushes else [])
        moves.append({o: compute(Arithmetic(format, {k: o})) - start for o in [0, *options]})
    results = []
    for sign in (1, -1):
        choices = {k: max(by, key=lambda o: sign * by[o]) for k, by in enumerate(moves)}
        results.append(abs(to_fraction(compute(Arithmetic(format, choices))) - exact))
    return max(results)


def embedded(on: Arithmetic, blueprint: Blueprint, x: Sequence[Fraction]) -> list[list[fmpq]]:
    """Return the stream before the first block."""
    place, point = blueprint.embedding.dimension, [to_fmpq(coordinate) for coordinate in x]
    stream = [[ZERO] * blueprint.width for _ in range(blueprint.tokens)]
    for i, dimension, value in blueprint.embedding.constant:
        stream[i][dimension] = on.weight(value)
    for i, token in enumerate(stream):
        row = blueprint.embedding.features.by_row.get(i, [])
        token[place] = on.sum([token[place], *(on.times(on.weight(v), point[j]) for j, v in row)])
    return stream


def run_in(arithmetic: Arithmetic, blueprint: Blueprint, x: Sequence[Fraction]) -> fmpq:
    """Run a blueprint, every sum in the worst order but the readout's, which has its tree."""
    on, n, w = arithmetic, blueprint.tokens, blueprint.width
    stream = embedded(on, blueprint, x)
    for block in blueprint.blocks:
        added: list[list[list[fmpq]]] = [[[] for _ in range(w)] for _ in range(n)]
        for head in block.attention.heads:
            q, k, v = (
                [linear(on, matrix, token) for token in stream]
                for matrix in (head.query, head.key, head.value)
            )
            for i in range(n):
                scores = [
                    on.sum([on.times(a, b) for a, b in zip(q[i], key, strict=True)]) for key in k
                ]
                best = max(range(n), key=lambda j: scores[j])
                one_hot = block.attention.selection.rule is Rule.ONE_HOT_MAX
                weight = scores[best] if one_hot else ONE
                for r in range(w):
                    added[i][r].append(on.times(weight, v[best][r]))
        stream = _plus(on, stream, added)
        layer = block.feed_forward
        b1, b2 = ({i: on.weight(value) for i, _, value in b} for b in (layer.b1, layer.b2))
        added = []
        for token in stream:
            hidden = linear(on, layer.w1, token, b1)
            if layer.activation == RELU:
                hidden = [max(unit, ZERO) for unit in hidden]
            products = [
                [on.times(on.weight(v), hidden[u]) for u, v in layer.w2.by_row.get(r, [])]
                for r in range(w)
            ]
            added.append([[*terms, b2.get(r, ZERO)] for r, terms in enumerate(products)])
        stream = _plus(on, stream, added)
    readout = blueprint.readouts[0]
    terms = [[ZERO] * w for _ in range(n)]
    for i, dimension, value in readout.beta:
        terms[i][dimension] = on.times(on.weight(value), stream[i][dimension])
    bias = on.weight(readout.bias)
    return on.plus(on.tree([on.tree(row) for row in terms]), bias)


def _plus(on: Arithmetic, stream: list[Token], added: list[list[list[fmpq]]]) -> list[Token]:
    return [
        [on.sum([entry, *terms]) for entry, terms in zip(token, more, strict=True)]
        for token, more in zip(stream, added, strict=True)
    ]


def linear(
    on: Arithmetic, matrix: Matrix, token: Token, bias: dict[int, fmpq] | None = None
) -> Token:
    """Return W·z + b."""
    rows = matrix.by_row
    return [
        on.sum(
            [
                (bias or {}).get(r, ZERO),
                *(on.times(on.weight(value), token[c]) for c, value in rows.get(r, [])),
            ]
        )
        for r in range(matrix.rows)
    ]


def is_power_of_two(value: fmpq) -> bool:
    """Whether products with a number are exact, underflow apart."""
    above, below = abs(int(value.p)), int(value.q)
    return above & (above - 1) == 0 and below & (below - 1) == 0


@lru_cache
def _stored(value: Fraction, format: FloatFormat) -> fmpq:
    stored = format.round(value)
    assert stored is not None
    return to_fmpq(stored)


@lru_cache
def _tiny(format: FloatFormat) -> fmpq:
    return to_fmpq(Fraction(format.tiny))


@lru_cache
def _unit(format: FloatFormat) -> fmpq:
    return to_fmpq(Fraction(format.unit))
