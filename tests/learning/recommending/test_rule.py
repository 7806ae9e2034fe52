"""The rule, case by case."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.learning.recommending.comparison import (
    FAMILIES,
    INVARIANT,
    OWN_TOKEN,
    RNN,
    SHARED,
    TRANSFORMER,
    Comparison,
)
from exactformer.learning.recommending.decision import (
    clearly_better,
    decide,
    explained_reason,
    linear_reason,
)
from exactformer.learning.recommending.memory import Memory
from exactformer.learning.recommending.samples import draws, samples

shares = st.floats(-1, 1)


@pytest.mark.parametrize(
    ("transformer", "rnn", "invariant", "own", "reason"),
    [
        (0.04, 0.03, 0.0, 0.0, "noise"),
        (0.90, 0.90, 0.90, 0.899, "no memory"),
        (0.90, 0.80, 0.70, 0.1, "transformer better"),
        (0.80, 0.90, 0.70, 0.1, "rnn better"),
        (0.999, 0.99, 0.7, 0.1, "transformer better"),
        (0.999, 0.996, 0.7, 0.1, "both"),
        (0.30, 0.28, 0.2, 0.1, "both"),
        (0.90, 0.90, 0.90, 0.1, "short memory"),
    ],
)
def test_the_cases(transformer, rnn, invariant, own, reason):
    assert explained_reason("short memory", transformer, rnn, invariant, own) == reason


@given(shares, shares)
def test_of_two_at_most_one_is_clearly_better(one, other):
    assert not (clearly_better(one, other) and clearly_better(other, one))
    assert not clearly_better(one, one)


def test_clearly_is_measured_by_what_the_worse_one_leaves():
    assert clearly_better(0.336, 0.3)
    assert not clearly_better(0.334, 0.3)
    assert not clearly_better(0.9991, 0.995)


@given(shares, shares, shares, shares)
def test_exchanging_the_families_exchanges_the_answer(one, other, invariant, own):
    swapped = {"transformer better": "rnn better", "rnn better": "transformer better"}
    reason = explained_reason("long memory", one, other, invariant, own)
    back = explained_reason("long memory", other, one, invariant, own)
    assert back == swapped.get(reason, reason)


def remembered(states, lags=20, doubt=0.0, length=32):
    kernel = np.zeros((length, 1, 1))
    return Memory(kernel, kernel, 1.0, (1.0, 1.0), states, lags, doubt, 1.0, np.ones(1))


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        (remembered(8), "short memory"),
        (remembered(9), "long memory"),
        (remembered(12, lags=3), "far places"),
        (remembered(12, lags=4), "long memory"),
        (remembered(12, lags=3, doubt=0.2), "unclear memory"),
        (remembered(16, length=64), "short memory"),
    ],
)
def test_where_both_do_a_linear_map_states_and_lags_decide(memory, reason):
    assert linear_reason(memory) == reason


def comparison(transformer, rnn, count=100):
    """Return a comparison in which every sequence has the same variance and these errors."""
    ones = np.ones(count)
    errors = {TRANSFORMER: transformer * ones, RNN: rnn * ones, INVARIANT: ones, OWN_TOKEN: ones}
    return Comparison(errors, ones, draws(np.arange(count), 0), None, {})


def sequences(count):
    return samples(np.zeros((count, 4)), np.zeros((count, 4)))


def test_a_clear_difference_is_a_sure_verdict():
    found = decide(sequences(100), comparison(0.1, 0.5), remembered(1))
    assert (found.verdict, found.confidence) == ("transformer", 1.0)
    assert sum(found.shares.values()) == pytest.approx(1)


def test_few_sequences_are_never_decided():
    found = decide(sequences(39), comparison(0.1, 0.5), remembered(1))
    assert (found.verdict, found.reason) == ("undecided", "few sequences")


def test_a_difference_that_hangs_on_one_sequence_is_undecided():
    one = comparison(0.1, 0.1)
    one.errors[RNN][0] += 5
    found = decide(sequences(100), one, remembered(1))
    assert (found.verdict, found.reason) == ("undecided", "unsure")
    assert found.confidence == 1 - max(found.shares["transformer"], found.shares["rnn"])


def test_families_share_what_both_can_do():
    assert set(SHARED) == set(FAMILIES[RNN]) & set(FAMILIES[TRANSFORMER])
    assert set(FAMILIES[OWN_TOKEN]) < set(SHARED)
