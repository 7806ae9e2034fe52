import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from exactformer.errors import InputError
from exactformer.learning.recommending import recommend_architecture, samples, windows
from exactformer.learning.recommending.samples import FOLDS, Parts, draws


def series(readings, channels=2):
    return np.arange(readings * channels, dtype=float).reshape(readings, channels)


def test_a_window_holds_the_readings_before_what_is_wanted():
    table = series(100)
    cut = windows(table, 1, length=8, horizon=3, stride=5)
    assert cut.last_only
    for i in range(cut.count):
        assert (cut.inputs[i] == table[5 * i : 5 * i + 8]).all()
        assert cut.outputs[i, 0, 0] == table[5 * i + 8 - 1 + 3, 1]


def test_with_horizon_zero_the_target_is_told_from_the_other_channels():
    table = series(60, channels=3)
    cut = windows(table, 2, length=10, horizon=0)
    assert (cut.inputs[0] == table[:10, :2]).all()
    assert (cut.outputs[0, :, 0] == table[:10, 2]).all()


@given(
    length=st.integers(2, 12),
    horizon=st.integers(0, 9),
    stride=st.integers(1, 15),
    turn=st.integers(0, FOLDS - 1),
)
def test_what_is_tested_shares_no_reading_with_what_is_trained_or_checked(
    length, horizon, stride, turn
):
    cut = windows(series(400), 1, length=length, horizon=horizon, stride=stride)
    parts = Parts.of(cut, cut.folds(0), turn)

    def readings(rows):
        starts = np.flatnonzero(rows) * stride
        return {s + k for s in starts for k in [*range(length), length - 1 + horizon]}

    assert not readings(parts.test) & readings(parts.train)
    assert not readings(parts.test) & readings(parts.check)
    assert not readings(parts.check) & readings(parts.train)


@given(st.integers(5, 200), st.integers(0, 3))
def test_every_sequence_is_held_out_once(count, seed):
    some = samples(np.zeros((count, 3)), np.zeros((count, 3)))
    folds = some.folds(seed)
    assert set(folds) == set(range(FOLDS))
    assert np.ptp(np.bincount(folds)) <= 1


@given(st.integers(2, 50), st.integers(0, 5))
def test_windows_that_overlap_are_drawn_together(count, reach):
    groups = np.arange(count) // (reach + 1)
    often = draws(groups, 0)
    assert all(np.ptp(often[:, groups == g], axis=1).max() == 0 for g in set(groups))


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros(4), np.zeros(4), "inputs have shape"),
        (np.zeros((4, 1)), np.zeros((4, 1)), "one token"),
        (np.zeros((4, 3)), np.zeros((4, 2)), "outputs have shape"),
        (np.zeros((4, 3)), np.full((4, 3), np.nan), "not finite, at \\(0, 0\\)"),
        ([["a", "b"]], [[0, 0]], "real numbers"),
        (np.ones((4, 3)) * 1j, np.zeros((4, 3)), "real numbers"),
        (np.full((4, 3), 1e300), np.zeros((4, 3)), r"as large as 1e\+300"),
    ],
)
def test_arrays_that_are_no_sequences_are_refused_with_the_shape_wanted(x, y, words):
    with pytest.raises(InputError, match=words):
        samples(x, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": 5}, "channel 5"),
        ({"target": 1, "length": 1}, "length ≥ 2"),
        ({"target": 1, "length": 99}, "fewer than two windows"),
        ({"target": 1, "horizon": 0, "inputs": [0, 1]}, "cannot be among the inputs"),
        ({"target": 1, "inputs": []}, "no channel"),
        ({"target": "load"}, "whole numbers"),
        ({"target": 1, "length": 8.5}, "whole numbers"),
    ],
)
def test_windows_that_cannot_be_cut_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        windows(series(100), **options)


def test_tensors_with_gradients_are_samples():
    x = np.random.default_rng(0).random((4, 3))
    found = samples(torch.tensor(x, requires_grad=True), x)
    assert np.array_equal(found.inputs[..., 0], x)


@pytest.mark.parametrize("readings", [150, 300])
def test_a_series_too_short_to_hold_anything_out_is_refused(readings):
    numbers = np.random.default_rng(0).normal(size=(readings, 7))
    with pytest.raises(InputError, match="leave none to train on"):
        recommend_architecture(windows(numbers, target=6, length=48, horizon=24))
