"""No computed bound of a mutated coupling is below its error; what a file states is marked so."""

import random
from dataclasses import replace

import numpy as np
import pytest

import exactformer.errors
from exactformer.core.formats import FloatFormat
from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.bound import bound_coupling
from exactformer.couplings.proof.certificate import certify_terms
from tests.adversary import tiny_couplings
from tests.adversary.coupling_bases import BASES, honest_draft
from tests.adversary.coupling_interpreter import Interpreter, target_outputs
from tests.adversary.coupling_mutations import MUTATIONS, mutate
from tests.adversary.coupling_refuting import inputs, refutation
from tests.adversary.coupling_runs import false_mark, false_module, loaded
from tests.adversary.couplings import FAMILY
from tests.adversary.engine import Outcome, Tally, search

FOUND = (2, 15, 24, 292, 343, 450, 602, 777, 910, 976)
"""Seeds of findings that were mended: F̂ beyond its box, overflow, underflow, zero times infinity."""

FOUND_TINY = (2071, 2105, 2117)
"""Those with tiny numbers: squares that underflow, samples of which all are one point."""


def check(tally: Tally) -> None:
    """Nothing is false, nothing crashes, and enough is bounded for that to mean something."""
    assert not tally.findings, str(tally)
    assert tally.certified_share > 0.6
    assert tally.outcomes[Outcome.REFUSED] > 0.1 * tally.count
    for name in tally.checks:
        kind = getattr(exactformer.errors, name.partition(":")[0])
        assert issubclass(kind, exactformer.errors.ExactformerError)


def test_no_bound_of_a_mutated_coupling_is_below_its_error() -> None:
    check(search("couplings", [*range(100_000, 100_020), *FOUND]))


@pytest.mark.slow
def test_no_bound_of_many_mutated_couplings_is_below_their_error() -> None:
    tally = search("couplings", [*range(100_020, 100_200), *range(1_000_000, 1_006_000)], jobs=2)
    check(tally)
    assert tally.kinds.keys() >= MUTATIONS.keys()


def test_no_bound_of_a_model_with_tiny_numbers_is_below_its_error() -> None:
    check(search("tiny-couplings", [*range(24), *FOUND_TINY]))


@pytest.mark.slow
def test_no_bound_of_many_models_with_tiny_numbers_is_below_their_error() -> None:
    tally = search("tiny-couplings", range(24, 2000), jobs=2)
    check(tally)
    assert tally.kinds.keys() >= tiny_couplings.MUTATIONS.keys()


def test_every_mutation_applies_to_some_model() -> None:
    applied: set[str] = set()
    for seed in range(200):
        draft = honest_draft(seed % BASES)
        mutate(random.Random(seed), draft, 3)
        applied.update(draft.kinds)
    assert applied >= MUTATIONS.keys()


def test_a_seed_replays_its_candidate() -> None:
    for seed in range(20):
        (one, _), (other, _) = (FAMILY.candidate(seed).subject for _ in range(2))
        assert one.kinds == other.kinds
        assert one.values.tobytes() == other.values.tobytes()
        assert one.outer_values.tobytes() == other.outer_values.tobytes()


@pytest.mark.parametrize("index", range(0, BASES, 4))
def test_the_interpreter_runs_honest_models_as_they_are(index: int) -> None:
    draft = honest_draft(index)
    blueprint, target = draft.blueprint(), draft.target
    x = inputs(blueprint, 20, index)
    own, model = Interpreter(blueprint)(x), CouplingModel(blueprint)
    assert np.abs(own - model(x).detach().numpy()).max() < 1e-9
    tokens = x if target.positions is None else x + target.positions
    assert np.abs(target_outputs(target, tokens) - target(x)).max() < 1e-9


NUMBERS = ("lipschitz", "radius", "value_error", "outer_error", "coupling_error", "concentration")


@pytest.mark.spread(3)
@pytest.mark.parametrize("name", NUMBERS)
def test_the_search_notices_a_term_that_is_too_small(name: str) -> None:
    noticed = 0
    for index in range(0, BASES, 4):
        draft = honest_draft(index)
        parts = (draft.blueprint(), draft.target, draft.decomposition)
        bound = bound_coupling(*parts)
        assert refutation(random.Random(index), *parts, bound) is None
        smaller = replace(bound, **{name: getattr(bound, name) / 100})
        noticed += refutation(random.Random(index), *parts, smaller) is not None
    assert noticed > BASES / 16


def test_the_search_notices_a_total_that_is_too_small() -> None:
    """All values are off by one, and nothing but the mean of the error is looked at."""
    for index in range(0, BASES, 8):
        draft = honest_draft(index)
        draft.outer_values = draft.outer_values + 1
        parts = (draft.blueprint(), draft.target, draft.decomposition)
        bound = replace(bound_coupling(*parts), outer_error=0.0)
        if bound.total < 0.9 * draft.tau:
            assert "E Σ" in (refutation(random.Random(index), *parts, bound) or "")


def test_the_search_notices_a_mark_that_is_wrong() -> None:
    draft = honest_draft(0)
    blueprint = draft.blueprint()
    assert false_mark(loaded(blueprint), None) is None
    terms = bound_coupling(blueprint, draft.target, draft.decomposition)
    passed_off = CouplingModel(blueprint, certify_terms(blueprint, terms))
    assert false_mark(passed_off, None) is not None
    assert false_mark(loaded(blueprint), draft.target) is not None


def test_the_search_notices_underflow_that_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FloatFormat, "tiny", property(lambda self: 0.0))
    assert [verdict.seed for verdict in search("tiny-couplings", [10]).findings] == [10]


def test_the_search_notices_a_module_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.adversary.coupling_runs.rounding_bound", lambda *_: 0.0)
    found = [false_module(random.Random(k), honest_draft(k).blueprint()) for k in range(8)]
    assert any("off by" in (finding or "") for finding in found)
