"""Changed answers are told in lines that say which model, which question, what was and what is."""

from __future__ import annotations

import pytest

from exactformer.errors import CertificationError
from tests.golden.asking import ask, asked, refusal
from tests.golden.case import Case
from tests.golden.families import FAMILIES, cases_of
from tests.golden.stored import agreed, differences, read


def test_a_changed_number_is_told_with_its_model_and_its_question() -> None:
    old = {"x^2": {"bound, float32": "0x1.8p-3", "weights": "ab"}}
    new = {"x^2": {"bound, float32": "0x1.0p-2", "weights": "ab"}}
    (line,) = differences("polynomials", old, new)
    assert line == "polynomials | x^2 | bound, float32: 0x1.8p-3 (0.1875) → 0x1.0p-2 (0.25)"
    assert list(differences("polynomials", old, old)) == []


def test_models_and_questions_that_come_or_go_are_told() -> None:
    old = {"x": {"weights": "ab", "claims": "none"}, "y": {}}
    new = {"x": {"weights": "ab", "keys": "0 7"}, "z": {}}
    assert list(differences("programs", old, new)) == [
        "programs | x | claims: none → not asked",
        "programs | x | keys: not asked → 0 7",
        "programs | y: is gone",
        "programs | z: is new",
    ]


def test_what_depends_on_the_setting_is_not_stored_and_not_compared() -> None:
    first, second = {"x": {"a": "1", "b": "2"}}, {"x": {"a": "1", "b": "3"}}
    kept = agreed(first, second)
    assert kept == {"x": {"a": "1", "b": None}}
    assert list(differences("couplings", kept, {"x": {"a": "1", "b": "4"}})) == []
    assert len(list(differences("couplings", kept, {"x": {"a": "2", "b": "4"}}))) == 1


def test_a_refusal_is_an_answer_without_the_folder_it_came_from() -> None:
    def make() -> None:
        raise CertificationError("/tmp/xyz/model.safetensors: no")

    case = Case("refused", make, short=True)
    assert ask(case) == asked(case) == {"made": "CertificationError: model.safetensors: no"}
    long = [refusal(ValueError("one " * 20 + end)) for end in ("here", "there")]
    assert long[0] != long[1]
    assert all(text.startswith("ValueError: one one") and len(text) < 80 for text in long)


@pytest.mark.parametrize("family", FAMILIES)
def test_forgeries_of_every_family_are_refused_or_accepted_with_all_their_answers(
    family: str,
) -> None:
    forged = {name for name, case in cases_of(family).items() if case.short and case.stored}
    answers = [read(family)[name].get("made") or "" for name in forged]
    assert sum("Error: " in answer for answer in answers) >= 5
    assert any(answer.startswith("accepted, all answers ") for answer in answers)
