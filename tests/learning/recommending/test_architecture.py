"""Verdicts on relationships of known kind, on thin evidence, and what an answer can be asked."""

import json

import numpy as np
import pytest

import exactformer as ef
from exactformer.errors import InputError
from exactformer.experiments.jiang.recommend import RIGHT_NEEDED, SEED
from exactformer.experiments.jiang.relationships import HELD_OUT, RNN, THIN, TRANSFORMER
from exactformer.targets import LinearTarget, exponential_kernel, mix, random_filter

TAU = 6


@pytest.fixture(scope="module")
def recurrent():
    return ef.recommend_architecture(LinearTarget(exponential_kernel(TAU, 0.5)), count=80)


@pytest.fixture(scope="module")
def anticipating():
    target = mix(LinearTarget(exponential_kernel(TAU, 0.5)), random_filter(3, seed=1))
    return ef.recommend_architecture(target, count=150)


def test_a_fading_memory_is_for_an_rnn_with_one_state(recurrent):
    assert recurrent.verdict == "rnn"
    assert recurrent.confidence == 1
    assert recurrent["states"].value == 1
    assert recurrent["decay time"].value == pytest.approx(2, rel=0.01)
    assert recurrent["exact, causal"].value == recurrent["exact, time-invariant"].value == 1


def test_what_looks_ahead_is_for_a_transformer_and_the_loss_is_the_exact_one(anticipating):
    assert anticipating.verdict == "transformer"
    gain = anticipating["future, linear"]
    lost = 1 - anticipating["exact, causal"].value
    # Up to six weights from 120 sequences add a twentieth to the causal error.
    assert gain.low / 1.05 <= lost <= gain.high
    assert anticipating["explained: rnn"].value <= 1 - 0.8 * lost


def test_eight_sequences_decide_nothing():
    target = LinearTarget(exponential_kernel(TAU, 0.5))
    x = target.sample(8, seed=0)
    found = ef.recommend_architecture(x, target(x))
    assert (found.verdict, found.reason) == ("undecided", "few sequences")
    assert "8 independent sequences" in found.text
    assert found.text.startswith("Undecided between transformer and RNN.")


@pytest.mark.slow
def test_outputs_of_other_sequences_decide_nothing():
    target = LinearTarget(exponential_kernel(TAU, 0.5))
    x = target.sample(100, seed=0)
    found = ef.recommend_architecture(x, np.roll(target(x), 1, axis=0))
    assert (found.verdict, found.reason) == ("undecided", "noise")


def test_an_answer_is_words_numbers_plain_data_and_a_picture(recurrent):
    assert str(recurrent).startswith("An RNN suits this relationship (confidence 100 %).")
    assert all(one.name in str(recurrent) for one in recurrent.evidence)
    assert all(not one.low > one.high for one in recurrent.evidence)
    data = json.loads(json.dumps(recurrent.to_dict()))
    assert data["verdict"] == "rnn"
    assert len(data["kernel"]) == TAU
    figure = recurrent.plot()
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Errors", "Memory: time-invariant linear map", "Spectra",
    ]  # fmt: skip
    with pytest.raises(InputError, match="there is no evidence 'beauty'; there is sequences"):
        recurrent["beauty"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((50, 4)),), "give input and output sequences"),
        ((np.zeros((3, 4)), np.ones((3, 4))), "3 sequences cannot be cut into 5 folds"),
        ((np.zeros((50, 4)), np.ones((50, 4))), "outputs are the same for all sequences"),
        ((np.zeros((50, 4)), np.eye(50, 4)), "inputs are the same for all sequences"),
        ((np.eye(50, 4), np.eye(50, 4) * 1e-300), "outputs are the same for all sequences"),
    ],
)
def test_what_cannot_be_answered_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        ef.recommend_architecture(*arguments)


def test_the_held_out_relationships_are_ten_of_each_kind():
    kinds = [one.kind for one in HELD_OUT.values()]
    assert kinds.count(RNN) == kinds.count(TRANSFORMER) == 10


@pytest.mark.slow
def test_the_verdict_is_right_on_18_of_20_held_out_relationships():
    wrong = {
        name: found.verdict
        for name, one in HELD_OUT.items()
        if (found := ef.recommend_architecture(*one.sample(SEED))).verdict != one.kind
    }
    assert len(HELD_OUT) - len(wrong) >= RIGHT_NEEDED, wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", THIN)
def test_thin_evidence_is_left_undecided(name):
    assert ef.recommend_architecture(*THIN[name].sample(SEED)).verdict == "undecided"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer():
    x, y = HELD_OUT["sines, rank 2"].sample(SEED, count=200)
    one, other = (ef.recommend_architecture(x, y, seed=3) for _ in range(2))
    assert one.to_dict() == other.to_dict()
