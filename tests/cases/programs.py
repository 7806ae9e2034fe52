"""Random programs: expressions with random tables for functions, and all inputs of a small size."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any
from zlib import crc32

from exactformer import rasp
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.finding import find_witness
from exactformer.programs.program import Program
from exactformer.programs.proof.certificate import ProgramCertificate, certify_program
from exactformer.programs.proof.claims.nodes import check_witness
from exactformer.programs.proof.facts import Facts

ORDERED = (rasp.Comparison.LT, rasp.Comparison.LEQ, rasp.Comparison.GT, rasp.Comparison.GEQ)
PLAIN = (rasp.Comparison.EQ, rasp.Comparison.NEQ, rasp.Comparison.TRUE, rasp.Comparison.EQ)
NUMBERS = [0, 1, 2, -1, Fraction(1, 2)]
WORDS = ["p", "q", "r"]


def table(salt: int, outputs: list[Any]) -> Any:
    """Return a function of any values that is always the same, and looks random."""

    def function(*values: Any) -> Any:
        text = repr((salt, [v if isinstance(v, str | tuple) else str(v) for v in values]))
        return outputs[crc32(text.encode()) % len(outputs)]

    return function


class Grower:
    """Random expressions over a vocabulary, of a depth at most."""

    def __init__(self, rng: random.Random, numeric: bool, causal: bool) -> None:
        self.rng, self.numeric, self.causal = rng, numeric, causal

    def expression(self, depth: int) -> rasp.SOp:
        """Return a sequence of any values."""
        return self.numbers(depth) if self.rng.random() < 0.7 else self.anything(depth)

    def numbers(self, depth: int) -> rasp.SOp:
        """Return a sequence of numbers, as far as no selection is empty."""
        rng = self.rng
        if depth <= 0:
            leaves: list[Any] = [rasp.indices, rasp.indices, rasp.Full(rng.choice(NUMBERS))]
            leaves += [rasp.tokens] * 2 if self.numeric else []
            leaves += [] if self.causal else [rasp.length]
            return rng.choice(leaves)
        kind = rng.randrange(7)
        if kind == 0:
            outputs = rng.sample(NUMBERS, rng.randint(2, 4))
            return rasp.Map(table(rng.random().__hash__(), outputs), self.anything(depth - 1))
        if kind == 1:
            outputs = rng.sample(NUMBERS, rng.randint(2, 4))
            function = table(rng.random().__hash__(), outputs)
            return rasp.SequenceMap(function, self.anything(depth - 1), self.anything(depth - 2))
        if kind == 2:
            factors = [rng.choice([1, -1, 2, Fraction(1, 3)]) for _ in range(2)]
            return rasp.LinearSequenceMap(
                self.numbers(depth - 1), self.numbers(depth - 2), *factors
            )
        if kind == 3:
            first, second = self.numbers(depth - 1), self.numbers(depth - 2)
            return rng.choice([first + second, first - second, first * second])
        if kind in (4, 5):
            return rasp.SelectorWidth(self.selector(depth - 1))
        return rasp.Aggregate(self.selector(depth - 1), self.numbers(depth - 2), rng.choice([0, 1]))

    def anything(self, depth: int) -> rasp.SOp:
        """Return a sequence of numbers, texts or None."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.4:
            return rng.choice([rasp.tokens, self.numbers(depth)])
        kind = rng.randrange(4)
        if kind == 0:
            function = table(rng.random().__hash__(), [*WORDS, None])
            return rasp.Map(function, self.anything(depth - 1))
        if kind == 1:
            function = table(rng.random().__hash__(), rng.sample([*WORDS, None, 0, 1], 3))
            return rasp.SequenceMap(function, self.anything(depth - 1), self.anything(depth - 2))
        if kind == 2:
            offset = rng.randint(-1, 2)
            moved = rasp.Select(rasp.indices, rasp.indices - offset, rasp.Comparison.EQ)
            return rasp.Aggregate(moved, self.anything(depth - 1), rng.choice([None, "z", 0]))
        return self.numbers(depth)

    def selector(self, depth: int) -> rasp.Selector:
        """Return a selector."""
        rng = self.rng
        kind = rng.randrange(8) if depth > 0 else rng.randrange(5)
        if kind in (0, 1):
            return rasp.Select(
                self.anything(depth - 1), self.anything(depth - 1), rng.choice(PLAIN)
            )
        if kind == 2:
            return rasp.Select(
                self.numbers(depth - 1), self.numbers(depth - 1), rng.choice(ORDERED)
            )
        if kind in (3, 4):
            function = table(rng.random().__hash__(), [True, False])
            return rasp.Select(self.anything(depth - 1), self.anything(depth - 2), function)
        if kind == 5:
            return ~self.selector(depth - 1)
        first, second = self.selector(depth - 1), self.selector(depth - 2)
        return first & second if kind == 6 else first | second


def random_program(seed: int, depth: int = 6) -> tuple[rasp.SOp, list[Any], int, bool]:
    """Return an expression, its vocabulary, a length and whether it is causal, from a seed."""
    rng = random.Random(f"program {seed}")
    numeric, causal = rng.random() < 0.5, rng.random() < 0.4
    size = rng.randint(1, 5)
    vocabulary: list[Any] = list(range(size)) if numeric else list("abcde"[:size])
    length = rng.randint(1, 6)
    return (
        Grower(rng, numeric, causal).expression(rng.randint(1, depth)),
        vocabulary,
        length,
        causal,
    )


def all_inputs(vocabulary: list[Any], length: int, most: int, seed: int = 0) -> list[list[Any]]:
    """Return every input up to a length, or, where there are too many, a sample of them."""
    count = sum(len(vocabulary) ** m for m in range(1, length + 1))
    if count <= most:
        return [list(xs) for m in range(1, length + 1) for xs in product(vocabulary, repeat=m)]
    return list(_drawn(vocabulary, length, most, seed))


def _drawn(vocabulary: list[Any], length: int, most: int, seed: int) -> Iterator[list[Any]]:
    rng = random.Random(f"inputs {seed}")
    for _ in range(most):
        yield [rng.choice(vocabulary) for _ in range(rng.randint(1, length))]


def facts_of(program: Program) -> Facts:
    """Return what a witness says of a program that was searched for and checked."""
    return check_witness(program, find_witness(program))


def certify(
    blueprint: ProgramBlueprint, program: Program, dtype: object = "float64"
) -> ProgramCertificate:
    """Prove a blueprint with a witness that was searched for."""
    return certify_program(blueprint, program, find_witness(program), dtype)
