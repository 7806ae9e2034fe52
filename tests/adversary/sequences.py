"""The family of sequence models: mutated blueprints against tables, certificates against runs.

A candidate begins as an honest blueprint, is mutated, and is certified against one of three tables: the
honest one; the one it has where it is run at the centres of the classes in their own order, so that all
else hangs on the structure of the proof; the honest one with entries changed in both.
"""

import random
import tempfile
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import isfinite
from pathlib import Path

import torch

import exactformer
from exactformer.core.layers import Attention
from exactformer.errors import ExactformerError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.compile import prove_sequence
from exactformer.sequences.constructions.softening import soften
from exactformer.sequences.files import save_sequence
from exactformer.sequences.grid import GridTable
from exactformer.sequences.model import SequenceModel
from exactformer.sequences.proof.certify import (
    SequenceCertificate,
    certify_sequence,
    certify_softened,
)
from exactformer.sequences.soft_model import SoftSequenceModel
from tests.adversary.engine import Candidate
from tests.adversary.sequence_drafts import (
    Draft,
    NotApplicableError,
    honest_draft,
    retabulate,
    units_of,
)
from tests.adversary.sequence_mutations import mutate, random_names, tiny_names
from tests.adversary.sequence_softness_truth import false_softness
from tests.adversary.sequence_truth import (
    Trial,
    differing,
    false_counts,
    false_in_layers,
    inputs_of,
    trials,
    wanted_columns,
)
from tests.adversary.tiny_numbers import flushed

SHARPNESSES = [1, 5, 10, 20, 30, 50, 70, 100, 200, 300, 500, 1000, 3000, 10**4, 10**6]
EXECUTORS = ("fused", "literal", "exact")
SOFT_SHARE = 0.15
TINY_EVERY = 4
"""Of so many seeds one has numbers that may be taken for zero."""
SMALLEST = float(torch.finfo(torch.float64).tiny)
LITTLE_WORK = 300
"""Classes times units up to which a proof that runs every class is quick."""


@dataclass(frozen=True)
class Subject:
    """What is certified, and by which way."""

    blueprint: SequenceBlueprint
    table: GridTable
    limit: SequenceBlueprint | None
    """The hard limit of a softened blueprint."""
    by_keys: bool
    """Whether the proof may not run every class."""
    from_file: bool
    """Whether the blueprint is saved and loaded."""


@dataclass(frozen=True)
class Certified:
    """A certificate and what it is about; a file may hold less than was saved."""

    certificate: SequenceCertificate
    blueprint: SequenceBlueprint
    table: GridTable
    limit: SequenceBlueprint | None


class Sequences:
    """Mutated sequence blueprints."""

    def candidate(self, seed: int) -> Candidate:
        """Return the candidate of a seed."""
        rng = random.Random(seed)
        if rng.random() < SOFT_SHARE:
            return _soft_candidate(rng)
        draft = honest_draft(rng)
        mutate(draft, tiny_names(rng) if seed % TINY_EVERY == 0 else random_names(rng))
        _choose_table(draft)
        subject = Subject(
            draft.blueprint,
            draft.table,
            limit=None,
            by_keys=rng.random() < (0.5 if _is_quick(draft.blueprint, draft.table) else 0.95),
            from_file=rng.random() < 0.04,
        )
        return Candidate(subject, tuple(draft.mutations))

    def certify(self, candidate: Candidate) -> Certified:
        """Return the certificate of a candidate, and what it is about."""
        subject = candidate.subject
        blueprint, table, limit = subject.blueprint, subject.table, subject.limit
        if subject.from_file:
            model = _loaded(subject, "fused")
            hard = model.limit if isinstance(model, SoftSequenceModel) else None
            return Certified(model.certificate, model.blueprint, model.table, hard)
        if limit is not None:
            certificate = certify_softened(blueprint, limit, table)
        elif subject.by_keys:
            certificate = certify_sequence(blueprint, table, exhaustive_work=0)
        else:
            certificate = certify_sequence(blueprint, table)
        return Certified(certificate, blueprint, table, limit)

    def refute(self, candidate: Candidate, certified: Certified, seed: int) -> str | None:
        """Return what is false about a certificate."""
        rng = random.Random(f"points {seed}")
        certificate, table = certified.certificate, certified.table
        if certified.limit is not None:
            false = false_softness(
                certified.blueprint, certified.limit, table, certificate.softness, rng
            )
            if false:
                return false
        hard = certified.limit or certified.blueprint
        found = trials(table, rng)
        false = false_in_layers(hard, certificate, found, rng)
        false = false or false_counts(hard, certificate, table)
        if false or certified.limit is not None:
            return false
        return _false_models(candidate.subject, certified, found, rng)


FAMILY = Sequences()


def _choose_table(draft: Draft) -> None:
    """Certify against the honest table, the blueprint's own, or leave it to the mutations."""
    if draft.rng.random() < 0.3:
        try:
            retabulate(draft)
            draft.mutations.append("(own table)")
        except NotApplicableError:
            return


def _soft_candidate(rng: random.Random) -> Candidate:
    """Mutate the limit, the softened blueprint, or both."""
    while True:
        draft = honest_draft(rng, soft=True)
        mutate(draft, [n for n in random_names(rng, 2) if rng.random() < 0.8])
        if rng.random() < 0.25:
            mutate(draft, [rng.choice(["permute rows", "add free rows", "scale a row"])])
        sharpness = Fraction(rng.choice(SHARPNESSES))
        ramp = rng.choice([2, 3, 6, 10, 20, 20, 20])
        try:
            soft = soften(draft.blueprint, draft.table, sharpness, ramp)
            break
        except (ExactformerError, ValueError, TypeError, ZeroDivisionError):
            continue
    limit = draft.blueprint
    draft.mutations.append("(softened)")
    if rng.random() < 0.35:
        draft.blueprint = soft
        mutate(draft, random_names(rng, 2))
        soft = draft.blueprint
        if rng.random() < 0.3:
            limit = _alike(limit, soft)
    subject = Subject(soft, draft.table, limit, by_keys=False, from_file=rng.random() < 0.2)
    return Candidate(subject, tuple(draft.mutations))


def _alike(limit: SequenceBlueprint, soft: SequenceBlueprint) -> SequenceBlueprint:
    """Return a limit that differs from its softened blueprint in the stages only."""
    return replace(
        soft, stages=limit.stages, realisation=limit.realisation, metadata=limit.metadata
    )


def _loaded(subject: Subject, executor: str) -> SequenceModel:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        save_sequence(subject.blueprint, subject.table, path)
        model = exactformer.load(path, executor=executor, outside="zero")
    assert isinstance(model, SequenceModel)
    return model


def _false_models(
    subject: Subject, certified: Certified, found: list[Trial], rng: random.Random
) -> str | None:
    """Return where a model that is handed out differs from the table."""
    quick = _is_quick(certified.blueprint, certified.table)
    if not quick and rng.random() < 0.7:
        return None
    for executor in EXECUTORS if quick else (rng.choice(EXECUTORS),):
        try:
            if subject.from_file:
                model = _loaded(subject, executor)
            else:
                model = prove_sequence(subject.blueprint, subject.table, executor, outside="zero")
        except ExactformerError:
            continue  # it may be refused for reasons of its own, such as keys beyond a float
        false = _false_model(model, executor, found, rng)
        if false:
            return f"{executor} model, {false}"
    return None


def _is_quick(blueprint: SequenceBlueprint, table: GridTable) -> bool:
    units = sum(
        len(part.heads) if isinstance(part, Attention) else units_of(part).w1.rows
        for stage in blueprint.stages
        for part in stage.parts
    )
    return units * table.grid.size <= LITTLE_WORK


def _false_model(
    model: SequenceModel, executor: str, found: list[Trial], rng: random.Random
) -> str | None:
    most = torch.finfo(torch.float64).max
    tried = [t for t in found if all(abs(v) <= most for token in t.tokens for v in token)]
    if executor == "exact":
        tried = rng.sample(tried, min(2, len(tried)))
    inputs = inputs_of(tried)
    allowed = Fraction(model.certificate.rounding[executor])
    for flush in (False, True):
        with torch.no_grad(), flushed(flush):
            outputs = model(inputs).tolist()
        for x, output in zip(inputs.tolist(), outputs, strict=True):
            # Such an input may be read as 0 itself.
            if flush and any(0 < abs(v) < SMALLEST for token in x for v in token):
                continue
            tokens = tuple(tuple(map(Fraction, token)) for token in x)
            trial = Trial(tokens, *wanted_columns(model.table, tokens))
            pairs = zip(chain(*output), chain(*trial.wanted), strict=True)
            if not all(isfinite(y) and abs(Fraction(y) - v) <= allowed for y, v in pairs):
                return ("flushed, " if flush else "") + differing(trial, str(output))
    return None
