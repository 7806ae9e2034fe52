"""The family of programs: weights and registers of small models, changed, and tried on all inputs.

A certificate claims that decoded outputs are the program's on every input, and that outputs are
within a bound of the ideal ones. Inputs are few enough to run them all: in numbers by an interpreter
that shares nothing with the package, and by the module in the format of the certificate.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import torch

from exactformer import rasp
from exactformer.core.layers import Rule
from exactformer.core.matrix import Matrix
from exactformer.programs import library
from exactformer.programs.blueprint import ProgramBlueprint
from exactformer.programs.constructions import construct
from exactformer.programs.program import Program
from exactformer.programs.proof.certificate import ProgramCertificate
from exactformer.programs.run.stack import ProgramStack
from exactformer.programs.tabulation import tabulated
from tests.adversary.engine import Candidate
from tests.adversary.program_gauges import GAUGES
from tests.cases.programs import all_inputs, certify, random_program

BASES: list[tuple[Any, Any, int, bool]] = [
    (library.make_reverse(), "ab", 3, False),
    (library.make_hist(), "ab", 3, False),
    (library.make_sort(), [1, 2], 3, False),
    (library.make_frac_prevs(rasp.tokens == "a"), "ab", 3, False),
    (library.make_shuffle_dyck(["()"]), "()", 4, False),
    (library.make_induction(), "ab", 4, True),
    (library.shift_by(1), "ab", 3, False),
    (library.detect_pattern(rasp.tokens, "ab"), "ab", 3, False),
    (library.make_pair_balance(rasp.tokens, "(", ")"), "()", 3, False),
    (rasp.tokens + rasp.indices, [1, 2], 3, False),
]
RANDOM_SHARE = 0.3
DTYPES = ("float64", "float64", "float32", "bfloat16")
CHANGES = (
    *(Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 4), Fraction(2), Fraction(-64)),
    *(Fraction(1, 1000), Fraction(-1, 10**9), Fraction(1, 8)),
)


@dataclass(frozen=True)
class Subject:
    """A changed model, the program that it is held against, and a format."""

    blueprint: ProgramBlueprint
    program: Program
    dtype: str


@cache
def _base(number: int, rule: Rule, sharpness: Fraction) -> tuple[ProgramBlueprint, Program]:
    if number < len(BASES):
        expression, vocabulary, length, causal = BASES[number]
    else:
        expression, vocabulary, length, causal = random_program(number, depth=3)
        vocabulary, length = vocabulary[:2], min(length, 3)
    program, analysis = tabulated(expression, vocabulary, length, causal)
    return construct(program, analysis, rule, sharpness), program


def matrices(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Matrix]]:
    """Return all matrices of a blueprint, with their places."""
    if isinstance(value, Matrix):
        return [(place, value)]
    if isinstance(value, tuple):
        return [m for k, item in enumerate(value) for m in matrices(item, (*place, k))]
    if is_dataclass(value):
        return [
            m for f in fields(value) for m in matrices(getattr(value, f.name), (*place, f.name))
        ]
    return []


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a blueprint with another part in one place."""
    if not place:
        return new
    if isinstance(value, tuple):
        at = place[0]
        return (*value[:at], changed(value[at], place[1:], new), *value[at + 1 :])
    return replace(value, **{place[0]: changed(getattr(value, place[0]), place[1:], new)})


def with_entry(matrix: Matrix, i: int, j: int, value: Fraction) -> Matrix:
    """Return a matrix with one entry changed."""
    return Matrix.of(*matrix.shape, {**matrix.entries, (i, j): value})


def mutate(rng: random.Random, blueprint: ProgramBlueprint) -> tuple[ProgramBlueprint, str]:
    """Change one entry of one matrix, or exchange two."""
    choices = [(place, m) for place, m in matrices(blueprint) if m.rows * m.columns]
    place, matrix = rng.choice(choices)
    i, j = rng.randrange(matrix.rows), rng.randrange(matrix.columns)
    if matrix.entries and rng.random() < 0.7:
        i, j = rng.choice(list(matrix.entries))
    kind = rng.choice(("added", "added", "removed", "scaled", "moved"))
    value = matrix[i, j]
    if kind == "added":
        new = with_entry(matrix, i, j, value + rng.choice(CHANGES))
    elif kind == "removed":
        new = with_entry(matrix, i, j, Fraction(0))
    elif kind == "scaled":
        new = with_entry(matrix, i, j, value * rng.choice((2, Fraction(1, 2), -1, Fraction(9, 8))))
    else:
        other = rng.randrange(matrix.rows), rng.randrange(matrix.columns)
        new = with_entry(with_entry(matrix, i, j, matrix[other]), *other, value)
    name = (
        str(place[0])
        if place[0] != "layers"
        else ".".join(str(p) for p in place if isinstance(p, str))
    )
    return changed(blueprint, place, new), f"{name}: {kind}"


def run(blueprint: ProgramBlueprint, ids: list[int]) -> np.ndarray:
    """Run a blueprint on one input, by the definition, in float64."""

    def dense(m: Matrix) -> np.ndarray:
        found = np.zeros(m.shape)
        for i, j, v in m:
            found[i, j] = float(v)
        return found

    rows = [blueprint.tokens.rows - 1, *ids] if blueprint.beginning else ids
    z = dense(blueprint.tokens)[rows] + dense(blueprint.positions)[: len(rows)]
    mask = np.tri(len(rows), dtype=bool) if blueprint.causal else np.ones((len(rows),) * 2, bool)
    for layer in blueprint.layers:
        added = np.zeros_like(z)
        for head in layer.heads:
            scores = (z @ dense(head.query).T) @ (z @ dense(head.key).T).T
            scores = np.where(mask, scores, -np.inf)
            top = scores.max(1, keepdims=True)
            if blueprint.selection.rule is Rule.HARD_MAX:
                large = np.abs(scores[np.isfinite(scores)]).max()
                weights = (scores >= top - 1e-9 * large).astype(float)
            else:
                weights = np.exp(scores - top)
            weights /= weights.sum(1, keepdims=True)
            added += weights @ (z @ dense(head.value).T) @ dense(head.output).T
        z = z + added
        ff = layer.feed_forward
        hidden = np.maximum(z @ dense(ff.w1).T + dense(ff.b1).T, 0)
        z = z + hidden @ dense(ff.w2).T + dense(ff.b2).T
    return (z @ dense(blueprint.readout).T)[int(blueprint.beginning) :]


def base_of(rng: random.Random) -> tuple[ProgramBlueprint, Program, Rule]:
    """Return a model of a program of the library, or of a random one, as it is made."""
    rule = rng.choice((Rule.HARD_MAX, Rule.SOFTMAX))
    sharpness = Fraction(1) if rule is Rule.HARD_MAX else Fraction(rng.choice((16, 64, 128)))
    number = rng.randrange(len(BASES))
    if rng.random() < RANDOM_SHARE:
        number = len(BASES) + rng.randrange(40)
    try:
        return *_base(number, rule, sharpness), rule
    except ValueError:
        return *_base(number % len(BASES), rule, sharpness), rule


class Programs:
    """Small models with one to three changes."""

    def candidate(self, seed: int) -> Candidate:
        """Return a changed model."""
        rng = random.Random(f"programs {seed}")
        blueprint, program, rule = base_of(rng)
        kinds = [str(rule)]
        changes = rng.choice((0, 1, 1, 1, 2, 3))
        if seed % 2:  # numbers moved elsewhere first
            changes = rng.choice((0, 0, 0, 1))
            for _ in range(rng.choice((1, 2, 3, 5))):
                gauge = rng.choice(GAUGES)
                blueprint = gauge(rng, blueprint)
                kinds.append(gauge.__name__)
        for _ in range(changes):
            blueprint, kind = mutate(rng, blueprint)
            kinds.append(kind)
        return Candidate(Subject(blueprint, program, rng.choice(DTYPES)), tuple(kinds))

    def certify(self, candidate: Candidate) -> ProgramCertificate:
        """Prove the changed model against the program."""
        subject = candidate.subject
        return certify(subject.blueprint, subject.program, subject.dtype)

    def refute(
        self, candidate: Candidate, certificate: ProgramCertificate, seed: int
    ) -> str | None:
        """Run every input, or many, by the definition and by the module."""
        subject: Subject = candidate.subject
        program = subject.program
        inputs = all_inputs(list(program.tokens), program.max_length, 150, seed)
        universe = certificate.proof.facts.universe(program.output)
        module = ProgramStack(subject.blueprint, getattr(torch, subject.dtype))
        exact = certificate.proof.outcome().error
        rounded = certificate.bound(subject.dtype)
        longest = max(map(len, inputs))
        rows = [[program.tokens.index(x) for x in xs] for xs in inputs]
        batch = module(torch.tensor([row + [-1] * (longest - len(row)) for row in rows]))
        for xs, ids, padded in zip(inputs, rows, batch, strict=True):
            wanted = program(xs)
            if program.numerical:
                ideal = np.array([[float(v)] for v in wanted])
            else:
                ideal = np.array([[float(v == u) for u in universe] for v in wanted])
            by_definition = float(np.abs(run(subject.blueprint, ids) - ideal).max())
            if not by_definition <= exact + 1e-9:
                return f"on {xs}: {by_definition} by the definition, {exact} proven"
            for found in (module(torch.tensor([ids]))[0], padded[: len(ids)]):
                error = float(np.abs(found.double().numpy() - ideal).max())
                if not error <= rounded + 1e-15 * float(np.abs(ideal).max()):
                    return f"on {xs}: {error} in {subject.dtype}, {float(rounded)} proven"
        return None


FAMILY = Programs()
