"""The journey of a sequence is the model's own: cells, codes, keys, values."""

from __future__ import annotations

import runpy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import exactformer as ef
from exactformer.errors import ExactformerError
from exactformer.sequences.files import sequence_digest
from exactformer.sequences.sizes import FORMS
from exactformer.studio.playground import sequences
from exactformer.studio.playground.frames import encode
from exactformer.studio.playground.sequences import SequenceRequest, describe, input_of, journey
from exactformer.targets import SEQUENCE_MAPS, sequence_map

REQUESTS = [
    SequenceRequest(),
    SequenceRequest("mean-subtract", 2, 2, 4, "compact", "as needed", "0.1,0.2;0.7,0.9"),
    SequenceRequest("reverse", 2, 1, 6, "paper"),
    SequenceRequest("softmax-attention", 3, 1, 8, "four-layer", "no", "0.3,0.3,0.9"),
    SequenceRequest("identity", 2, 1, 8, "compact", "yes", "0.5,1.05"),
]


def library(request: SequenceRequest) -> ef.SequenceModel:
    target = sequence_map(request.map)
    positional = {"yes": True, "no": False}.get(request.positional, not target.equivariant)
    model = ef.compile_sequence(
        target,
        tokens=request.tokens,
        dim=request.dim,
        delta=f"1/{request.cells}",
        form=request.form,
        positional=positional,
        outside="zero",
    )
    if target.lipschitz is None:
        return model
    return model.bounded(target.lipschitz(request.tokens), target=target)


def test_the_forms_are_the_librarys() -> None:
    assert sequences.CHOICES["form"] == FORMS


@pytest.mark.spread(2)
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_every_station_is_the_models(request_: SequenceRequest) -> None:
    way, model = journey(request_), library(request_)
    assert encode(way)
    x = np.array(way["input"])
    assert x.tolist() == input_of(request_).tolist()
    assert way["cells"] == model.quantise(x).tolist()
    assert way["output"] == model(x).tolist()
    assert way["map"] == sequence_map(request_.map)(x).tolist()
    assert way["difference"] == np.abs(np.array(way["output"]) - np.array(way["map"])).tolist()
    codes = model.codes(x).tolist()
    assert [key["key"] for key in way["keys"]] == codes
    assert way["codes"][-1]["codes"] == codes
    known = set(model.value_map.keys[:-1].tolist())
    assert [key["context"] is not None for key in way["keys"]] == [c in known for c in codes]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_codes_change_only_where_a_layer_is_said_to_move_them(request_: SequenceRequest) -> None:
    stations = journey(request_)["codes"]
    assert stations[0]["layer"] == 0
    for before, after in pairwise(stations):
        changed = [
            j
            for j, pair in enumerate(zip(before["codes"], after["codes"], strict=True))
            if pair[0] != pair[1]
        ]
        assert changed == after["moved"]
        assert before["layer"] < after["layer"]
    assert stations[-1]["layer"] == describe(request_)["layers"]["contextual mapping"]


def test_what_is_outside_goes_to_zero_without_a_key() -> None:
    way = journey(REQUESTS[-1])
    assert way["inside"] == [True, False]
    assert way["output"] == [[0.0], [0.0]]
    assert way["keys"][1]["context"] is None


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_the_model_is_described_by_its_own_counts(request_: SequenceRequest) -> None:
    shown, model = describe(request_), library(request_)
    assert encode(shown)
    counts = model.blueprint.counts()
    assert shown["layers"] == counts.layers
    assert list(shown["layers"]) == list(counts.layers)
    assert (shown["width"], shown["weights"], shown["key_bits"]) == (
        counts.width,
        counts.weights,
        counts.key_bits,
    )
    assert shown["digest"] == sequence_digest(model.blueprint, model.table)
    assert shown["keys"]["count"] == len(model.value_map.keys) - 1
    values = set(model.value_map.values[:-1, 0].tolist())
    assert {value for _, _, value in shown["keys"]["shown"]} <= values


@pytest.mark.parametrize("request_", REQUESTS[:2], ids=str)
def test_the_script_rebuilds_the_same_model(request_: SequenceRequest, tmp_path: Path) -> None:
    script = tmp_path / "sequence.py"
    script.write_text(journey(request_)["script"])
    made = runpy.run_path(str(script))
    assert (
        sequence_digest(made["model"].blueprint, made["model"].table)
        == describe(request_)["digest"]
    )
    assert made["x"] == journey(request_)["input"]


@pytest.mark.parametrize("name", SEQUENCE_MAPS)
def test_every_named_map_can_be_tried(name: str) -> None:
    assert journey(SequenceRequest(name, 2, 1, 3))["output"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"map": "soort"}, "did you mean sort"),
        ({"tokens": 6}, "tokens is 1 to 5"),
        ({"cells": 0}, "cells is 1 to 32"),
        ({"form": "tall"}, "choose one of"),
        ({"positional": "no"}, "not permutation equivariant"),
        ({"tokens": 5, "cells": 8}, "keys of 64 bits"),
        ({"cells": 16}, "the playground's limits are"),
        ({"input": "1,2"}, "3 finite numbers, not 2"),
        ({"input": "1,2,x"}, "no list of numbers"),
        ({"input": "1,2,nan"}, "'1,2,nan' holds a number that is not finite"),
        ({"tokens": 1, "input": "1,2"}, "1 token of dimension 1: 1 finite number, not 2"),
        ({"input": "1" * 500}, "400 characters"),
    ],
)
def test_what_cannot_be_is_refused_in_words(changes: dict, words: str) -> None:
    with pytest.raises(ExactformerError, match=words):
        journey(SequenceRequest(**changes))
