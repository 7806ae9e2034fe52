"""The engine counts what happened: a refusal is an answer, a false claim and a crash are findings."""

from __future__ import annotations

from typing import Any

import pytest

from exactformer.errors import CertificationError
from tests.adversary.engine import Candidate, Outcome, Tally, check_name, examine


class Toys:
    """Seeds 0 to 4 stand for what can happen."""

    def candidate(self, seed: int) -> Candidate:
        if seed == 4:
            raise IndexError("no such candidate")
        return Candidate(seed, ("even",) if seed % 2 == 0 else ("odd", "odd"))

    def certify(self, candidate: Candidate) -> str:
        if candidate.subject == 1:
            raise CertificationError("block 3: token 17 is too large (by 4.5)")
        if candidate.subject == 3:
            raise KeyError("width")
        return "proven"

    def refute(self, candidate: Candidate, certificate: Any, seed: int) -> str | None:
        return "it is not" if candidate.subject == 2 else None


@pytest.mark.parametrize(
    ("seed", "outcome", "check"),
    [
        (0, Outcome.CERTIFIED, ""),
        (1, Outcome.REFUSED, "CertificationError: is too large"),
        (2, Outcome.FALSE, ""),
        (3, Outcome.CRASHED, "KeyError: 'width'"),
        (4, Outcome.CRASHED, "IndexError: no such candidate"),
    ],
)
def test_every_seed_has_one_outcome(seed: int, outcome: Outcome, check: str) -> None:
    verdict = examine(Toys(), seed)
    assert (verdict.outcome, verdict.check) == (outcome, check)


def test_only_false_claims_and_crashes_are_findings() -> None:
    tally = Tally()
    for seed in range(5):
        tally.add(examine(Toys(), seed))
    assert [verdict.seed for verdict in tally.findings] == [2, 3, 4]
    assert tally.kinds["odd"] == {Outcome.REFUSED: 1, Outcome.CRASHED: 1}
    assert tally.to_dict()["outcomes"] == {
        "certified": 1,
        "refused": 1,
        "false": 1,
        "crashed": 2,
    }


@pytest.mark.parametrize(
    "message",
    [
        "block 1: token 3 is not shown to select itself on ‖x‖ ≤ 1 (its margin is 0.1)",
        "block 12, head 4: token 1 is not shown to select itself on [0, 1]² (its margin is -1e-7)",
    ],
)
def test_places_and_numbers_do_not_make_another_check(message: str) -> None:
    assert check_name(CertificationError(message)) == (
        "CertificationError: is not shown to select itself on"
    )
