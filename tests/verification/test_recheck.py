"""A stored verdict that was altered is caught, or what it says is called stated."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import exactformer as ef
from exactformer.errors import FileFormatError, InputError
from exactformer.verification.recheck import recheck
from exactformer.verification.verdict import Verdict
from tests.verification.models import Net, net


@cache
def model() -> Net:
    made = net(7, 2.0, tokens=4, length=3, act="relu")
    return made


def first(tokens: Any) -> Any:
    return tokens[0]


@cache
def verdict() -> Verdict:
    return ef.verify(model(), first, vocabulary=range(4), length=3, show_progress=False)


def altered(path: Path, **fields: Any) -> Verdict:
    verdict().save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | fields))
    return Verdict.load(path)


def test_a_true_verdict_is_confirmed(tmp_path: Path) -> None:
    stored = altered(tmp_path / "verdict.json")
    assert stored.stated
    found = recheck(stored, model(), first)
    assert found.holds
    assert found.replayed == stored.wrong > 0
    assert found.confirmed == stored.right + stored.wrong
    assert "Nothing contradicts" in str(found)


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    stored = altered(tmp_path / "verdict.json")
    other = net(7, 2.0, tokens=4, length=3, act="relu")
    other.readout.weight[0, 0] += 2.0**-20
    with pytest.raises(InputError, match="another model"):
        recheck(stored, other, first)


def test_counts_that_do_not_go_with_the_answer_are_refused(tmp_path: Path) -> None:
    right = verdict().right
    for fields in ({"right": right + 1}, {"agrees": True}, {"share": ["1", "1"]}, {"total": 0}):
        with pytest.raises(FileFormatError, match=r"altered|between"):
            altered(tmp_path / "verdict.json", **fields)


def test_a_file_that_calls_wrong_inputs_right_is_caught(tmp_path: Path) -> None:
    stored = altered(
        tmp_path / "verdict.json",
        right=64,
        wrong=0,
        counterexamples=[],
        agrees=True,
        share=["1", "1"],
    )
    found = recheck(stored, model(), first)
    assert not found.holds
    assert "is called right, and is wrong" in str(found)


def test_a_counterexample_that_is_none_is_caught(tmp_path: Path) -> None:
    wrong = {case.number for case in verdict().counterexamples}
    innocent = next(k for k in range(64) if k not in wrong)
    verdict().save(tmp_path / "verdict.json")
    cases = json.loads((tmp_path / "verdict.json").read_text())["counterexamples"]
    cases[0]["number"] = innocent
    found = recheck(altered(tmp_path / "verdict.json", counterexamples=cases), model(), first)
    assert "is called wrong, and is not" in str(found)


def test_what_is_not_a_verdict_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    for text in ("{", "[]", '{"format": 1}', '{"format": "exactformer verdict 1"}'):
        path.write_text(text)
        with pytest.raises(FileFormatError):
            Verdict.load(path)
    torch.save({"a": 1}, path)
    with pytest.raises(FileFormatError):
        Verdict.load(path)
