from math import comb

import numpy as np
import pytest

from exactformer.experiments import (
    Cell,
    Scale,
    Summary,
)
from exactformer.experiments.yun import contextual as yun_contextual
from exactformer.experiments.yun import positions as yun_positions
from exactformer.experiments.yun import rate as yun_rate
from exactformer.experiments.yun import sizes as yun_sizes
from exactformer.experiments.yun import softmax as yun_softmax


def summary(*cells):
    return Summary(Scale.SMOKE, (), tuple(Cell(p, m, 0.0, "") for p, m in cells))


def holds(experiment, words, *cells):
    (statement,) = [s for s in experiment.statements if words in s.text]
    return statement.holds(summary(*cells))


@pytest.mark.parametrize(("size", "ends"), yun_contextual.ENDS.items())
def test_the_formula_gives_the_ends_worked_out_by_hand(size, ends):
    d, n, N = size
    first = [[k] for k in range(n)]
    last = [[k] for k in (*range(n - 1), N - 1)]
    assert d == 1
    assert yun_contextual.keys(first, N, "paper", False)[0] == ends[0]
    assert yun_contextual.keys(last, N, "paper", False)[-1] == ends[1]


def test_keys_go_with_their_columns():
    x = [[2, 1], [0, 0], [1, 2]]
    keys = yun_contextual.keys(x, 3, "compact", False)
    order = [1, 2, 0]
    moved = yun_contextual.keys([x[j] for j in order], 3, "compact", False)
    assert moved == [keys[j] for j in order]


@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize("form", yun_contextual.FORMS)
def test_a_grid_in_two_dimensions_has_a_contextual_mapping(form, positional):
    parameters = {"d": 2, "n": 2, "cells": 2, "form": form, "positional": positional}
    found = yun_contextual.run(parameters, "cpu")
    assert found["collisions"] == 0
    assert found["tokens"] == (24 if form != "four-layer" and not positional else 32)
    assert found.get("wrong keys", 0) == 0


def test_a_wrong_formula_would_be_noticed(monkeypatch):
    monkeypatch.setattr(yun_contextual, "keys", lambda x, *_: [0] * len(x))
    parameters = {"d": 1, "n": 2, "cells": 3, "form": "compact", "positional": False}
    found = yun_contextual.run(parameters, "cpu")
    assert found["wrong keys"] == 12
    assert not holds(yun_contextual.EXPERIMENT, "integers, every one", (parameters, found))


def test_collisions_are_noticed():
    for collisions in (0, 1):
        cell = ({"form": "paper"}, {"collisions": collisions})
        assert holds(yun_contextual.EXPERIMENT, "no two codes", cell) is (collisions == 0)


@pytest.mark.parametrize("form", yun_sizes.FORMS)
@pytest.mark.parametrize("size", [(1, 1, 3), (1, 2, 5), (2, 2, 2), (1, 4, 4), (3, 1, 2)])
def test_sizes_are_predicted_weight_for_weight(form, size):
    if form == "paper" and size[1] == 1:
        pytest.skip("the paper's form needs two tokens")
    parameters = dict(zip(("d", "n", "cells"), size, strict=True)) | {"form": form}
    built, predicted = (
        yun_sizes.run({**parameters, "kind": kind}, "cpu") for kind in ("built", "predicted")
    )
    assert built.pop("key bits") <= predicted.pop("key bits")
    assert built == predicted


def test_a_prediction_that_is_off_by_one_is_noticed():
    where = {"d": 1, "n": 2, "cells": 4, "form": "paper"}
    for layers, right in ((22.0, True), (23.0, False)):
        cells = [({**where, "kind": "built"}, {"layers": 22.0, "key bits": 12})]
        cells += [({**where, "kind": "predicted"}, {"layers": layers, "key bits": 12})]
        assert holds(yun_sizes.EXPERIMENT, "of built models", *cells) is right


def test_known_layers_are_those_of_the_lemmas_and_d_more():
    for (d, n, N), known in yun_sizes.KNOWN.items():
        lemmas = d * (N + 1) + N**d + 1 + d + 1 + n * comb(N**d, n)
        assert known - lemmas == d


@pytest.mark.parametrize("name", yun_rate.MAPS)
@pytest.mark.parametrize("kept", [False, True])
def test_closed_forms_are_the_moments_of_the_difference(name, kept):
    """Computed here without a model: the map at the centre of the cells, 0 where two are equal."""
    from exactformer.targets import sequence_map

    f, n, N = sequence_map(name), yun_rate.MAPS[name], 5
    x = np.random.default_rng(3).random((100_000, n, 1))
    cells = np.floor(N * x)
    equal = (np.diff(np.sort(cells, axis=1), axis=1) == 0).any(axis=(1, 2))
    given_up = np.zeros_like(equal) if kept else equal
    away = np.abs(f(x) - np.where(given_up[:, None, None], 0.0, f((cells + 0.5) / N)))
    for p in (1, 2):
        exact = yun_rate.closed_form(name, n, N, kept, p)
        powers = (away**p).sum(axis=(1, 2))
        if exact is not None:
            assert abs(powers.mean() - exact**p) <= 4 * powers.std() / 100_000**0.5


def test_an_error_off_its_closed_form_or_beyond_its_bound_is_noticed():
    honest = {"d_2": 1.0, "d_2 closed form": 1.0, "d_2 standard error": 0.01, "bound": 1.0}
    honest |= {"d_1": 1.0, "d_1 closed form": 1.0, "d_1 standard error": 0.01}
    for words in ("closed forms", "certified bound"):
        assert holds(yun_rate.EXPERIMENT, words, ({}, honest))
        for wrong in (1.1, np.nan):
            assert not holds(yun_rate.EXPERIMENT, words, ({}, {**honest, "d_2": wrong}))
    assert not holds(yun_rate.EXPERIMENT, "certified bound", ({}, {**honest, "bound": np.nan}))


@pytest.mark.parametrize(("compact", "same"), [(0.5, True), (0.6, False), (np.nan, False)])
def test_forms_that_differ_are_noticed(compact, same):
    where = {"map": "sort", "cells": 8}
    cells = [
        ({**where, "form": form}, {"d_2": d_2 if compact == compact else compact})
        for form, d_2 in (("paper", 0.5), ("compact", compact), ("four-layer", 0.1))
    ]
    assert holds(yun_rate.EXPERIMENT, "same function", *cells) is same


def test_a_refusal_comes_with_a_pair_that_shows_it():
    parameters = {"map": "reverse", "cells": 3, "positional": False, "samples": 2, "seed": 0}
    found = yun_positions.run(parameters, "cpu")
    assert found["refused"]
    assert yun_positions.shows_it(found["inputs"], found["outputs"])


def test_a_pair_that_shows_nothing_is_seen_through():
    x, moved = [0.1, 0.2, 0.3], [0.2, 0.1, 0.3]
    assert not yun_positions.shows_it([x, moved], [x, moved])  # equivariant: columns move along
    assert yun_positions.shows_it([x, moved], [x, x])
    assert not yun_positions.shows_it([x, [0.2, 0.1, 0.4]], [x, x])  # not the same columns
    assert not yun_positions.shows_it([[0.1, 0.1], [0.1, 0.1]], [[0, 1], [1, 0]])


def test_codes_of_a_sharp_softmax_are_integers_and_those_of_a_blunt_one_are_not():
    sharp, blunt = (
        yun_softmax.run({"sweep": "sharpness", "half": half}, "cpu") for half in (40, 1)
    )
    assert sharp["error"] <= sharp["bound"] + 1e-9 < 1e-8
    assert blunt["error"] > 1
    assert blunt["bound"] is None


def test_another_rate_of_decay_is_noticed():
    from math import exp

    for rate, right in ((1.0, True), (0.5, False)):
        cells = [
            ({"sweep": "sharpness", "half": h}, {"error": 1e3 * exp(-rate * h), "bound": None})
            for h in range(2, 26, 2)
        ]
        assert holds(yun_softmax.EXPERIMENT, "past the threshold", *cells) is right


def test_a_tolerance_that_is_missed_is_noticed():
    for distance, right in ((0.09, True), (0.11, False)):
        cell = ({"sweep": "tolerance", "tolerance": 0.1}, {"d_2": distance, "standard error": 0.0})
        assert holds(yun_softmax.EXPERIMENT, "tolerance", cell) is right
