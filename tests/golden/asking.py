"""The questions: the only place that knows how a model is asked, and what its certificate has.

A question is a few words, an answer is text: words, numbers in hexadecimal, or the digest of something
long. A refusal is an answer: the class of the error and the first words of its message. Answers of
``ask`` are the same on every processor wherever tables are. Those of ``run`` are bits of a forward
pass, which may differ, and are only compared on one machine.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from itertools import product
from typing import Any

import torch

import exactformer as ef
from exactformer.coq.prove import law_of
from exactformer.core.certificate import Certificate
from exactformer.core.formats import FORMATS
from exactformer.couplings.proof.bound import ErrorTerms
from exactformer.couplings.proof.certificate import CouplingCertificate
from exactformer.errors import ExactformerError
from exactformer.polynomials.proof.certificate import PolynomialCertificate
from exactformer.programs.proof.certificate import ProgramCertificate
from exactformer.sequences.proof.certify import SequenceCertificate, certify_sequence
from exactformer.sequences.proof.layer_rounding import literal_rounding_of
from tests.golden.case import Case
from tests.golden.layers import Layered

Answers = dict[str, str]
MODELS = (ef.PolynomialModel, ef.SequenceModel, ef.ProgramModel, ef.CouplingModel)
MODULUS = 1
"""A modulus of continuity that sequence maps are said to have, so that there is a bound."""
_WORDS = 12
_FOLDER = re.compile(r"\S*/(?=[\w.-]+\.safetensors)")


def ask(case: Case) -> Answers:
    """Return all that a case says about itself; where it cannot be made, why."""
    try:
        subject = case.make()
    except ExactformerError as error:
        return {"made": refusal(error)}
    if isinstance(subject, Layered):
        return _layered(subject)
    if isinstance(subject, ErrorTerms):
        return dict(_numbers("term", subject))
    try:
        answers = dict(_certified(subject, getattr(subject, "certificate", subject)))
    except ExactformerError as error:
        return {"certificate": refusal(error)}
    if isinstance(subject, MODELS):
        answers["exact outputs"] = told(
            lambda: _digest([subject.exact(x) for x in _points(subject, case)])
        )
        answers["text for Coq"] = told(lambda: _digest(law_of(subject).text))
    return answers


def asked(case: Case) -> Answers:
    """Return the answers in the form in which they are stored."""
    answers = ask(case)
    if not case.short or "made" in answers:
        return answers
    return {"made": f"accepted, all answers {_digest(sorted(answers.items()))}"}


def run(case: Case) -> Answers:
    """Return the bits of the forward pass: every executor and format, few inputs and many."""
    answers = {}
    for dtype, executor in product(case.dtypes, case.executors):
        options = {} if dtype == "float64" else {"dtype": getattr(torch, dtype)}
        try:
            model = case.make(executor=executor, **options)
        except ExactformerError as error:
            answers[f"bits, {dtype}, {executor}"] = refusal(error)
            continue
        for path, x in _inputs(model, case):
            answers[f"bits, {dtype}, {executor}, {path}"] = told(lambda m=model, x=x: _bits(m(x)))
    return answers


def told(question: Callable[[], str]) -> str:
    """Return an answer, or the refusal."""
    try:
        return question()
    except (ExactformerError, NotImplementedError) as error:
        return refusal(error)


def refusal(error: Exception) -> str:
    """Name an error by its class, the first words of its message without folders, and a digest."""
    text = _FOLDER.sub("", str(error))
    words = text.split()
    rest = f" … ({_digest(text)[:6]})" if len(words) > _WORDS else ""
    return f"{type(error).__name__}: {' '.join(words[:_WORDS])}{rest}"


# What certificates say.


def _certified(subject: Any, certificate: Certificate) -> Iterator[tuple[str, str]]:
    yield "weights", certificate.blueprint_digest[:16]
    yield "zero error", str(certificate.zero_error)
    yield from _claims(certificate)
    match certificate:
        case PolynomialCertificate():
            yield from _bounds(certificate, certificate.executors)
        case ProgramCertificate():
            yield from _bounds(certificate, ("literal",))
            yield from _registers(certificate)
        case SequenceCertificate():
            yield from _of_sequence(subject, certificate)
        case CouplingCertificate():
            yield from _numbers("term", certificate.terms)
            yield from _bounds(certificate, ("fused", "literal"))


def _claims(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Yield the claims, in words."""
    try:
        for claim in certificate.claims:
            yield f"claim, {claim.name}", f"{claim.kind}: {claim.text}"
    except ExactformerError as error:
        yield "claims", refusal(error)


def _bounds(certificate: Certificate, executors: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for dtype, executor in product(FORMATS, executors):
        question = f"bound, {dtype}, {executor}"
        yield question, told(lambda d=dtype, e=executor: certificate.bound(d, e).hex())


def _registers(certificate: ProgramCertificate) -> Iterator[tuple[str, str]]:
    """Yield what is proven on the way to the bound, in the formats that have one."""
    for dtype in FORMATS:
        with suppress(ExactformerError):
            found = certificate.proof.outcome(dtype)
            errors = [(name, error.hex()) for name, error in found.registers]
            yield f"limit, {dtype}", found.limit.hex()
            yield f"registers, {dtype}", _digest(errors)


def _of_sequence(subject: Any, certificate: SequenceCertificate) -> Iterator[tuple[str, str]]:
    """Yield what a sequence's certificate has besides its claims; ``subject`` has its blueprint."""
    keys = certificate.smallest_key, certificate.largest_key, certificate.key_bits
    yield "keys", " ".join(map(str, keys))
    yield "floats are exact", str(certificate.plain_floats)
    for executor, error in certificate.rounding.items():
        yield f"rounding, {executor}", float(error).hex()
    if certificate.softness is None:
        question = "rounding of layers"
        yield question, told(lambda: literal_rounding_of(subject.blueprint, subject.table).hex())
    else:
        yield from _numbers("softness", certificate.softness)
    if isinstance(subject, ef.SequenceModel):
        for p in (1, 2):
            question = f"bound, modulus {MODULUS}, p = {p}"
            yield (
                question,
                told(lambda p=p: subject.bounded(MODULUS, p=p).certificate.bound().hex()),
            )


def _layered(subject: Layered) -> Answers:
    """Return what the two proofs of layers say of a blueprint, certified or not."""
    blueprint, table = subject.blueprint, subject.table

    def rounding() -> str:
        try:
            return literal_rounding_of(blueprint, table).hex()
        except LookupError:
            return "a key is missing, as can be where nothing is certified"

    return {
        "certified": told(lambda: str(certify_sequence(blueprint, table, exhaustive_work=0))),
        "rounding of layers": told(rounding),
    }


def _numbers(what: str, record: Any) -> Iterator[tuple[str, str]]:
    """Yield the numbers that are fields of a record."""
    for each in fields(record):
        value = getattr(record, each.name)
        numbers = value if isinstance(value, tuple) else (value,)
        hexed = (v.hex() if isinstance(v, float) else str(v) for v in numbers)
        yield f"{what}, {each.name}", " ".join(hexed)


# Inputs, the same for everybody who asks.


def _points(model: Any, case: Case, count: int = 3) -> list[Any]:
    """Return rational inputs inside the domain."""
    rng = random.Random(f"points of {case.name}")

    def part(most: int = 8) -> Fraction:
        return Fraction(rng.randint(0, most), 8)

    if isinstance(model, ef.ProgramModel):
        words, most = len(model.program.vocabulary), model.program.max_length
        return [[rng.randrange(words) for _ in range(rng.randint(1, most))] for _ in range(count)]
    if isinstance(model, ef.SequenceModel):
        grid = model.table.grid
        low, high = map(Fraction, grid.support)
        sizes = range(count), range(grid.tokens), range(grid.dim)
        return [
            [[low + (high - low) * part(7) for _ in sizes[2]] for _ in sizes[1]] for _ in sizes[0]
        ]
    if isinstance(model, ef.CouplingModel):
        low, high = map(Fraction, model.blueprint.domain)
        tokens = range(model.blueprint.tau)
        return [[low + (high - low) * part() for _ in tokens] for _ in range(count)]
    domain, axes = model.blueprint.domain, range(len(model.blueprint.variables))
    share = max(1, len(axes))  # so that the sum of all parts is below 1, in a ball as in a box
    return [
        [domain.offset(j) + domain.extent(j) * (part(14) - Fraction(7, 8)) / share for j in axes]
        for _ in range(count)
    ]


def _inputs(model: Any, case: Case) -> Iterator[tuple[str, Any]]:
    """Yield inputs for every path through a runner."""
    if isinstance(model, ef.ProgramModel):
        rng = random.Random(f"inputs of {case.name}")
        words, most = len(model.program.vocabulary), model.program.max_length
        full = [[rng.randrange(words) for _ in range(most)] for _ in range(6)]
        yield "full", full
        lengths = [1 + i % most for i in range(6)]
        yield "padded", [row[:m] + [-1] * (most - m) for row, m in zip(full, lengths, strict=True)]
        yield "one token", [full[0][:1]]
        yield "one sequence", full[1]
        return
    points = [_floats(x) for x in _points(model, case, 7)]
    yield "one", points[0]
    yield "several", points
    yield "two by three", [points[:3], points[3:6]]


def _floats(x: Any) -> Any:
    return [_floats(v) for v in x] if isinstance(x, list) else float(x)


def _bits(values: torch.Tensor) -> str:
    plain = values.detach().cpu().contiguous()
    held = plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain
    return _digest(f"{plain.dtype} {tuple(plain.shape)}", held.numpy().tobytes())


def _digest(*parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else str(part).encode())
    return found.hexdigest()[:16]
