"""Random models and random tampering: Python and Coq must agree.

    python -m tests.coq.campaign [--models 200] [--seed 0] [--softmax]

Every model that Python proves must be proved by Coq, up to ``Qed``. Of the models that were tampered
with (a weight, the domain, the rule, the target), Coq must prove those that Python proves and refuse
those that Python shows to be wrong. Where Python shows neither, Coq may still find a proof; such models
are printed. A statement about a larger domain than the one that was checked must be refused.

Softmax models keep the error of their law when they are tampered with; a law with a thousandth of the
error must be refused.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import exactformer as ef
from exactformer.algebra import Polynomial, Target
from exactformer.coq.check import compiled
from exactformer.coq.installation import Coq, find_coq
from exactformer.coq.law import law
from exactformer.coq.softmax_law import soft_data
from exactformer.core.domain import Ball, Box, Domain
from exactformer.core.layers import Head, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, ExactformerError, IdentityError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.proof.certify import certify_blueprint
from tests.coq.laws import together, verdicts

VARIABLES = ("x", "y", "z")
FILE = 20
"""Laws in a file."""


def random_target(rng: random.Random) -> Target:
    d = rng.randint(1, 3)
    names = VARIABLES[:d]
    most = (7, 5, 4)[d - 1]

    def polynomial() -> Polynomial:
        terms = {}
        for _ in range(rng.randint(1, 4)):
            exponents = [0] * d
            for _ in range(rng.randint(0, most)):
                exponents[rng.randrange(d)] += 1
            terms[tuple(exponents)] = Fraction(rng.randint(-9, 9), rng.randint(1, 7))
        return Polynomial.from_terms(terms, names)

    count = rng.choice([1, 1, 1, 2, 3])
    return Target(tuple(polynomial() for _ in range(count)), vector=count > 1 or rng.random() < 0.1)


def random_domain(rng: random.Random, d: int) -> Domain:
    def number() -> Fraction:
        return Fraction(rng.randint(-6, 6), rng.randint(1, 4))

    if rng.random() < 0.4:
        widths = tuple(Fraction(rng.randint(1, 8), rng.randint(1, 5)) for _ in range(d))
        return Box(tuple(number() for _ in range(d)), widths)
    centre = tuple(number() for _ in range(d)) if rng.random() < 0.4 else ()
    return Ball(Fraction(rng.randint(1, 12), rng.randint(1, 6)), centre)


def random_model(rng: random.Random) -> tuple[Blueprint, Target]:
    """Return a blueprint that Python proves, and its target."""
    while True:
        target = random_target(rng)
        try:
            model = ef.compile(
                list(target) if target.vector else target.polynomials[0],
                domain=random_domain(rng, target.dimension),
                variables=target.variables,
                construction=rng.choice(list(CONSTRUCTIONS)),
                directions=rng.choice(["auto", "lattice", "spread", "tailored"]),
            )
        except ExactformerError:
            continue
        return model.blueprint, target


def tampered(rng: random.Random, blueprint: Blueprint, target: Target) -> tuple[Blueprint, Target]:
    """Return the model with a weight, its domain, its rule or its target changed."""
    kind = rng.choice(["weight", "weight", "weight", "domain", "target", "rule"])
    if kind == "target":
        wrong = target.polynomials[0] + Polynomial.from_terms(
            {(rng.randint(0, 2),) + (0,) * (target.dimension - 1): Fraction(1, rng.randint(1, 99))},
            target.variables,
        )
        return blueprint, replace(target, polynomials=(wrong, *target.polynomials[1:]))
    if kind == "domain":
        return replace(
            blueprint, domain=blueprint.domain.enlarged(Fraction(rng.randint(2, 9)))
        ), target
    if kind == "rule" and blueprint.blocks:
        blocks = list(blueprint.blocks)
        b = rng.randrange(len(blocks))
        attention = replace(blocks[b].attention, selection=Selection(Rule.HARD_MAX))
        blocks[b] = replace(blocks[b], attention=attention)
        return replace(blueprint, blocks=tuple(blocks)), target
    path, old = rng.choice([(p, m) for p, m in blueprint.matrices() if m.shape != (0, 0)])
    return _with_matrix(blueprint, path, changed(rng, old)), target


def changed(rng: random.Random, matrix: Matrix) -> Matrix:
    """Return a matrix with another number at one place."""
    places = list(matrix.entries)
    if places and rng.random() < 0.8:
        place = rng.choice(places)
    elif matrix.rows and matrix.columns:
        place = (rng.randrange(matrix.rows), rng.randrange(matrix.columns))
    else:
        return matrix
    change = Fraction(rng.choice([-1, 1]) * rng.randint(1, 9), rng.choice([1, 2, 1000, 10**9]))
    return Matrix.of(*matrix.shape, {**matrix.entries, place: matrix[place] + change})


def _with_matrix(blueprint: Blueprint, path: str, matrix: Matrix) -> Blueprint:
    match path.split("."):
        case ["embedding", name]:
            return replace(blueprint, embedding=replace(blueprint.embedding, **{name: matrix}))
        case ["readouts", k, name]:
            readouts = list(blueprint.readouts)
            value = matrix if name == "beta" else matrix[0, 0]
            readouts[int(k)] = replace(readouts[int(k)], **{name: value})
            return replace(blueprint, readouts=tuple(readouts))
        case ["blocks", b, *rest]:
            blocks = list(blueprint.blocks)
            block = blocks[int(b)]
            if rest[0] == "heads":
                heads: list[Head] = list(block.attention.heads)
                heads[int(rest[1])] = replace(heads[int(rest[1])], **{rest[2]: matrix})
                block = replace(block, attention=replace(block.attention, heads=tuple(heads)))
            else:
                block = replace(
                    block, feed_forward=replace(block.feed_forward, **{rest[1]: matrix})
                )
            blocks[int(b)] = block
            return replace(blueprint, blocks=tuple(blocks))
    raise AssertionError(path)


def asked_python(blueprint: Blueprint, target: Target) -> str:
    """Return what Python's proof says of a model: it is right, it is wrong, or neither was shown."""
    try:
        certify_blueprint(blueprint, target)
    except IdentityError:
        return "wrong"
    except CertificationError:
        return "not shown"
    return "right"


def wider(text: str, blueprint: Blueprint) -> str:
    """Return the law with a statement about a larger domain than the one in its data."""
    if isinstance(blueprint.domain, Box):
        return text.replace("<= x <=", "<= x + 1 <=", 1)
    return text.replace(" ^ 2 ->", " ^ 2 + 1 ->", 1)


def campaign(coq: Coq, count: int, seed: int) -> list[str]:
    """Return every disagreement of Python and Coq, in words."""
    rng, found = random.Random(seed), []
    seen: Counter[str] = Counter()
    for start in range(0, count, FILE):
        size = min(FILE, count - start)
        models = [random_model(rng) for _ in range(size)]
        texts = [law(*model) for model in models]
        answer = compiled(coq, together(texts))
        if answer.returncode:
            found.append(f"Coq refuses one of the models from {start} on: {answer.stderr[-500:]}")
        attempts = [tampered(rng, *model) for model in models]
        answers = [asked_python(*attempt) for attempt in attempts]
        said = verdicts(coq, [law(*attempt) for attempt in attempts])
        for (blueprint, target), python, verdict in zip(attempts, answers, said, strict=True):
            seen[f"{python}, {verdict}"] += 1
            if (python == "right") != (verdict == "Proved"):
                line = f"Python: {python}, Coq: {verdict}, {blueprint.construction}, {target}"
                print(f"{line} on {blueprint.domain}", flush=True)
                # A proof by Coq of what Python only failed to show is no contradiction.
                if python != "not shown":
                    found.append(line)
        stated = [wider(t, b) for t, (b, _) in zip(texts, models, strict=True)]
        refusing = "Proof. intros. Fail certify region. Abort."
        answer = compiled(coq, together(stated, refusing))
        if answer.returncode:
            found.append(f"Coq accepts a wider statement from {start} on: {answer.stderr[-500:]}")
        print(f"{start + size} models, {len(found)} disagreements: {dict(seen)}", flush=True)
    return found


def random_soft_model(rng: random.Random) -> tuple[Blueprint, Target]:
    """Return a softmax blueprint of few heads that Python proves, and its target."""
    while True:
        target = random_target(rng)
        if target.degree > 3 + (target.dimension == 1):
            continue
        try:
            model = ef.compile(
                list(target) if target.vector else target.polynomials[0],
                domain=random_domain(rng, target.dimension),
                variables=target.variables,
                construction="softmax",
                tolerance=rng.choice([1.0, 1e-3, 1e-6]),
            )
        except ExactformerError:
            continue
        return model.blueprint, target


def soft_campaign(coq: Coq, count: int, seed: int) -> list[str]:
    """Return every disagreement of Python and Coq about softmax models, in words."""
    rng, found = random.Random(seed), []
    seen: Counter[str] = Counter()
    for start in range(0, count, FILE):
        size = min(FILE, count - start)
        models = [random_soft_model(rng) for _ in range(size)]
        data = [soft_data(blueprint) for blueprint, _ in models]
        both = list(zip(models, data, strict=True))
        texts = [law(*model, soft) for model, soft in both]
        answer = compiled(coq, together(texts))
        if answer.returncode:
            found.append(f"Coq refuses one of the models from {start} on: {answer.stderr[-500:]}")
        attempts = []
        for model, soft in both:
            attempt = tampered(rng, *model)
            try:
                attempts.append((attempt, law(*attempt, soft)))
            except CertificationError:  # another rule or layer: it cannot even be stated
                assert asked_python(*attempt) != "right"
                seen["not stated"] += 1
        small = [law(*model, replace(soft, error=soft.error / 1000)) for model, soft in both]
        said = verdicts(coq, [*(text for _, text in attempts), *small])
        for (attempt, _), verdict in zip(attempts, said, strict=False):
            python = asked_python(*attempt)
            seen[f"{python}, {verdict}"] += 1
            if verdict == "SoftProved" and python != "right":
                line = f"Python: {python}, Coq: {verdict}, {attempt[1]} on {attempt[0].domain}"
                print(line, flush=True)
                if python == "wrong":
                    found.append(line)
        for ((blueprint, target), soft), verdict in zip(both, said[len(attempts) :], strict=True):
            seen[f"too small an error, {verdict}"] += 1
            if soft.error and blueprint.blocks and verdict != "TooFar":
                found.append(f"{verdict} with a thousandth of the error: {target}")
        print(
            f"{start + size} softmax models, {len(found)} disagreements: {dict(seen)}", flush=True
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--softmax", action="store_true")
    options = parser.parse_args()
    chosen = soft_campaign if options.softmax else campaign
    disagreements = chosen(find_coq(), options.models, options.seed)
    print(
        "\n".join(disagreements) or f"{options.models} models and as many tampered ones: agreement."
    )
