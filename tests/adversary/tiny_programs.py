"""Models of programs with numbers that may be taken for zero, proven and run with and without that.

Most changes leave what is computed as it is, or add a number so small that it must not matter. What
the hard ones compute is held, without any allowance, against what is proven in exact arithmetic.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import torch

from exactformer.core.layers import FeedForward, Rule
from exactformer.core.matrix import Matrix
from exactformer.programs.blueprint import ProgramBlueprint, ProgramLayer, Register
from exactformer.programs.proof.certificate import ProgramCertificate
from exactformer.programs.run.stack import ProgramStack
from tests.adversary.engine import Candidate
from tests.adversary.program_gauges import larger_register, other_claim, other_head, other_units
from tests.adversary.programs import (
    Programs,
    Subject,
    base_of,
    changed,
    matrices,
    mutate,
    with_entry,
)
from tests.adversary.tiny_numbers import flushed, tiny_number
from tests.cases.programs import all_inputs

FLUSHED = "proof: flushed"
DTYPES = ("float64", "float64", "float32", "bfloat16", "float16")


EXPONENTS = (14, 24, 60, 100, 126, 149, 180, 199, 200)
"""Those of numbers that a proof takes, in some format."""


def _tiny(rng: random.Random) -> Fraction:
    """Return a tiny number, in most cases one with which a proof goes on."""
    if rng.random() < 0.1:
        return tiny_number(rng)
    return Fraction(1, 2 ** rng.choice(EXPONENTS))


def _factor(rng: random.Random) -> Fraction:
    return _tiny(rng) ** rng.choice((1, -1))


def _tiny_entry(rng: random.Random, blueprint: ProgramBlueprint) -> ProgramBlueprint:
    """Add a tiny number to an entry, or multiply one by it."""
    place, matrix = rng.choice([(p, m) for p, m in matrices(blueprint) if m.rows * m.columns])
    at = rng.randrange(matrix.rows), rng.randrange(matrix.columns)
    if matrix.entries and rng.random() < 0.7:
        at = rng.choice(list(matrix.entries))
    tiny = _tiny(rng) * rng.choice((1, -1))
    value = matrix[at] * tiny if rng.random() < 0.3 else matrix[at] + tiny
    return changed(blueprint, place, with_entry(matrix, *at, value))


def _tiny_path(rng: random.Random, blueprint: ProgramBlueprint) -> ProgramBlueprint:
    """Let a number come to the output through layers that make it tiny, each said to write nothing."""
    sources = [d for register in blueprint.registers for d in register.directions]
    source, sink = rng.choice(sources), rng.randrange(blueprint.readout.rows)
    for _ in range(rng.choice((1, 2, 3))):
        blueprint, source = hop(blueprint, source, _tiny(rng), _tiny(rng))
    if rng.random() < 0.5:
        blueprint, source = hop(blueprint, source, _factor(rng), _factor(rng))
    entry = with_entry(blueprint.readout, sink, source, _factor(rng))
    return replace(blueprint, readout=entry)


def hop(
    blueprint: ProgramBlueprint, source: int, read: Fraction, write: Fraction
) -> tuple[ProgramBlueprint, int]:
    """Add a layer with a unit that copies a direction to a new one, and a register said to be zero."""
    width = blueprint.width
    blueprint = _wider(blueprint)
    unit = FeedForward(
        Matrix.of(1, width + 1, {(0, source): read}),
        Matrix.of(1, 1, {}),
        Matrix.of(width + 1, 1, {(width, 0): write}),
        Matrix.of(width + 1, 1, {}),
    )
    register = Register(None, None, (width,), Matrix.of(1 + blueprint.beginning, 1, {}))
    layers = (*blueprint.layers, ProgramLayer((), unit))
    registers = (*blueprint.registers, register)
    return replace(blueprint, layers=layers, registers=registers), width


def _wider(blueprint: ProgramBlueprint) -> ProgramBlueprint:
    """Return the model with one more direction, which nothing reads or writes."""

    def columns(m: Matrix) -> Matrix:
        return Matrix(m.rows, m.columns + 1, m.entries)

    def rows(m: Matrix) -> Matrix:
        return Matrix(m.rows + 1, m.columns, m.entries)

    layers = tuple(
        ProgramLayer(
            tuple(
                replace(
                    head,
                    query=columns(head.query),
                    key=columns(head.key),
                    value=columns(head.value),
                    output=rows(head.output),
                )
                for head in layer.heads
            ),
            replace(
                layer.feed_forward,
                w1=columns(layer.feed_forward.w1),
                w2=rows(layer.feed_forward.w2),
                b2=rows(layer.feed_forward.b2),
            ),
        )
        for layer in blueprint.layers
    )
    return replace(
        blueprint,
        tokens=columns(blueprint.tokens),
        positions=columns(blueprint.positions),
        layers=layers,
        readout=columns(blueprint.readout),
        dimensions=(*blueprint.dimensions, f"extra {blueprint.width}"),
    )


MUTATIONS: dict[str, Callable[[random.Random, ProgramBlueprint], ProgramBlueprint]] = {
    "tiny register": lambda rng, b: larger_register(rng, b, _factor(rng)),
    "tiny claim": lambda rng, b: other_claim(rng, b, _tiny(rng)),
    "tiny head": lambda rng, b: other_head(rng, b, _factor(rng)),
    "tiny units": lambda rng, b: other_units(rng, b, _factor(rng)),
    "tiny entry": _tiny_entry,
    "tiny path": _tiny_path,
}


def run_rationally(blueprint: ProgramBlueprint, ids: list[int]) -> list[list[Fraction]]:
    """Run a blueprint of hard maxima on one input, by the definition, in rational numbers."""

    def product(matrix: Matrix, tokens: list[list[Fraction]]) -> list[list[Fraction]]:
        found = [[Fraction(0)] * matrix.rows for _ in tokens]
        for i, j, value in matrix:
            for line, token in zip(found, tokens, strict=True):
                line[i] += value * token[j]
        return found

    rows = [blueprint.tokens.rows - 1, *ids] if blueprint.beginning else ids
    width = range(blueprint.width)
    stream = [
        [blueprint.tokens[row, j] + blueprint.positions[at, j] for j in width]
        for at, row in enumerate(rows)
    ]
    for layer in blueprint.layers:
        result = [list(token) for token in stream]
        for head in layer.heads:
            queries, keys, values = (product(m, stream) for m in (head.query, head.key, head.value))
            mixed = []
            for i, query in enumerate(queries):
                seen = keys[: i + 1] if blueprint.causal else keys
                scores = [sum(map(Fraction.__mul__, query, key), Fraction(0)) for key in seen]
                chosen = [j for j, score in enumerate(scores) if score == max(scores)]
                mixed.append(
                    [
                        sum((values[j][r] for j in chosen), Fraction(0)) / len(chosen)
                        for r in range(head.value.rows)
                    ]
                )
            for token, change in zip(result, product(head.output, mixed), strict=True):
                token[:] = map(Fraction.__add__, token, change)
        ff = layer.feed_forward
        hidden = [
            [max(v + ff.b1[k, 0], Fraction(0)) for k, v in enumerate(line)]
            for line in product(ff.w1, result)
        ]
        stream = [
            [v + c + ff.b2[k, 0] for k, (v, c) in enumerate(zip(token, change, strict=True))]
            for token, change in zip(result, product(ff.w2, hidden), strict=True)
        ]
    return product(blueprint.readout, stream)[blueprint.beginning :]


class TinyPrograms(Programs):
    """Small models of programs with tiny numbers."""

    def candidate(self, seed: int) -> Candidate:
        """Return one or two tiny numbers, and sometimes another change."""
        rng = random.Random(f"tiny programs {seed}")
        blueprint, program, rule = base_of(rng)
        kinds = [str(rule), *([FLUSHED] if rng.random() < 0.5 else [])]
        for name in rng.choices(list(MUTATIONS), k=rng.choice((1, 1, 2))):
            blueprint = MUTATIONS[name](rng, blueprint)
            kinds.append(name)
        if rng.random() < 0.1:
            blueprint, kind = mutate(rng, blueprint)
            kinds.append(kind)
        return Candidate(Subject(blueprint, program, rng.choice(DTYPES)), tuple(kinds))

    def certify(self, candidate: Candidate) -> ProgramCertificate:
        """Prove what can be proven, half of it while tiny numbers are taken for zero."""
        with flushed(FLUSHED in candidate.kinds):
            return super().certify(candidate)

    def refute(
        self, candidate: Candidate, certificate: ProgramCertificate, seed: int
    ) -> str | None:
        """Run every input, or many: in rational numbers, and by the module in both settings."""
        subject: Subject = candidate.subject
        blueprint, program = subject.blueprint, subject.program
        universe = certificate.proof.facts.universe(program.output)
        exact = Fraction(certificate.proof.outcome().error)
        rounded = Fraction(certificate.bound(subject.dtype).total)
        module = ProgramStack(blueprint, getattr(torch, subject.dtype))
        hard = blueprint.selection.rule is Rule.HARD_MAX
        for xs in all_inputs(list(program.tokens), program.max_length, 24, seed):
            ids = [program.tokens.index(x) for x in xs]
            values = program(xs)
            if program.numerical:
                ideal = [[Fraction(v)] for v in values]
            else:
                ideal = [[Fraction(v == u) for u in universe] for v in values]
            if hard and (error := _distance(run_rationally(blueprint, ids), ideal)) > exact:
                return f"on {xs}: {float(error)} in rational numbers, {float(exact)} proven"
            for flush in (False, True):
                with flushed(flush):
                    found = module(torch.tensor([ids]))[0].double().tolist()
                if (error := _distance(found, ideal)) > rounded:
                    return (
                        f"on {xs}: {float(error)} in {subject.dtype}, {float(rounded)} proven, "
                        f"flushed: {flush}"
                    )
        return None


def _distance(found: list[list[Any]], ideal: list[list[Fraction]]) -> Fraction:
    return max(
        abs(Fraction(v) - w)
        for line, wanted in zip(found, ideal, strict=True)
        for v, w in zip(line, wanted, strict=True)
    )


FAMILY = TinyPrograms()
