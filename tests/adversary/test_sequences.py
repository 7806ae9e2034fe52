"""No certificate of a mutated sequence blueprint is false; only errors of the package are raised."""

import random

import pytest

from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.run.exact import run_sequence
from tests.adversary.engine import Tally, search
from tests.adversary.sequence_drafts import (
    RUNS_BADLY,
    honest_draft,
    random_values,
    refit,
    retabulate,
)
from tests.adversary.sequence_interpreter import Interpreter
from tests.adversary.sequence_mutations import MUTATIONS, mutate
from tests.adversary.sequence_softness_truth import run_precisely
from tests.adversary.sequence_truth import false_in_layers, trials
from tests.adversary.sequences import FAMILY

SEEDS = [40, 140, 152, 208, 268, 312, 656, 704, 904, 912, 1120, 1324, 1356, 1428, 1640, 1704]
"""Their certificates were false once, or errors not those of the package."""


def check(tally: Tally) -> None:
    assert not tally.findings, str(tally)
    assert 0.1 < tally.certified_share < 0.5


def test_no_certificate_of_a_mutated_blueprint_is_false() -> None:
    check(search("sequences", range(80)))


@pytest.mark.slow
def test_no_certificate_of_many_mutated_blueprints_is_false() -> None:
    check(search("sequences", range(80, 12_000)))


def test_numbers_that_may_be_taken_for_zero_are_certified_as_what_they_are() -> None:
    """Values, breaks, queries, rows, cells and supports near the ends of float64."""
    tally = search("sequences", SEEDS)
    assert not tally.findings, str(tally)


def test_every_mutation_applies_to_some_blueprint() -> None:
    applied: set[str] = set()
    for seed in range(40):
        for name in MUTATIONS.keys() - applied:
            draft = honest_draft(random.Random(seed))
            mutate(draft, [name])
            applied.update(draft.mutations)
    # An honest blueprint is fitted already.
    assert applied | {"fit the values anew"} == MUTATIONS.keys()


def test_a_seed_replays_its_candidate() -> None:
    for seed in range(20):
        assert FAMILY.candidate(seed) == FAMILY.candidate(seed)


@pytest.mark.parametrize("seed", range(12))
def test_honest_blueprints_are_fitted_and_tabulated_as_they_are(seed: int) -> None:
    draft = honest_draft(random.Random(seed))
    blueprint, table = draft.blueprint, draft.table
    retabulate(draft)
    assert draft.table == table
    refit(draft)
    assert draft.blueprint.largest_key == blueprint.largest_key
    retabulate(draft)
    assert draft.table == table


def test_a_wrong_table_is_refuted() -> None:
    """The search would notice a certificate that certifies anything."""
    for seed in range(10):
        draft = honest_draft(random.Random(seed))
        certificate = certify_sequence(draft.blueprint, draft.table)
        found = trials(draft.table, random.Random(seed))
        assert false_in_layers(draft.blueprint, certificate, found, random.Random(seed)) is None
        draft.table = random_values(random.Random(seed + 1000), draft.grid)
        found = trials(draft.table, random.Random(seed))
        assert false_in_layers(draft.blueprint, certificate, found, random.Random(seed)) is not None


def test_precise_runs_of_uniform_attention_are_exact_runs() -> None:
    """Without scores softmax is the hard maximum, so both runs of the four layers agree."""
    for seed in range(40):
        draft = honest_draft(random.Random(seed))
        if draft.blueprint.form != "four-layer":
            continue
        for trial in trials(draft.table, random.Random(seed))[:3]:
            exact = run_sequence(draft.blueprint, trial.tokens)
            precise = run_precisely(draft.blueprint, trial.tokens)
            assert all(
                abs(a - float(b)) < 1e-12
                for x, y in zip(precise, exact, strict=True)
                for a, b in zip(x, y, strict=True)
            )


def test_both_exact_interpreters_agree_on_mutated_blueprints() -> None:
    for seed in range(60):
        subject = FAMILY.candidate(seed).subject
        try:
            run = Interpreter(subject.limit or subject.blueprint)
            for trial in trials(subject.table, random.Random(seed))[:4]:
                own = run_sequence(subject.limit or subject.blueprint, trial.tokens)
                assert run(trial.tokens) == tuple(map(tuple, own))
        except RUNS_BADLY:
            continue
