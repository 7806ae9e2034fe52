import json
import math
import multiprocessing
import os
from errno import ENOSPC

import numpy as np
import pytest

from exactformer.errors import ExperimentError
from exactformer.experiments.engine import store as store_module
from exactformer.experiments.engine.cell import Cell, Failure, Task, plain, restore
from exactformer.experiments.engine.store import Store
from tests.experiments import toy
from tests.waiting import PATIENCE

CELL = Cell({"seed": 1}, {"error": 0.1}, 0.5, "a processor")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cells")


def task(parameters=None, experiment="toy", device="cpu", code="c0de"):
    return Task(experiment, parameters or {"seed": 1}, device, code, toy.run)


def save(store, one=None, outcome=CELL):
    one = one or task()
    with store.claim(one):
        store.save(one, outcome)
    return store.path(one)


def test_a_saved_cell_comes_back_equal(store):
    save(store)
    assert store.load(task()) == CELL


def test_the_key_ignores_the_order_of_parameters_and_the_index_of_the_device():
    assert task({"a": 1, "b": 2}).key == task({"b": 2, "a": 1}).key
    assert task(device="cuda").key == task(device="cuda:1").key


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": {"seed": 2}},
        {"parameters": {"seed": 1.0}},
        {"experiment": "other"},
        {"device": "cuda"},
        {"code": "other"},
    ],
    ids=str,
)
def test_whatever_can_change_a_cell_changes_its_key(other):
    assert task(**other).key != task().key


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_crash_while_writing_leaves_no_cell_and_no_litter(store, monkeypatch, step):
    def crash(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store_module.os, step, crash)
        with pytest.raises(KeyboardInterrupt):
            save(store)
    assert store.load(task()) is None
    save(store)
    assert store.load(task()) == CELL
    assert {path.suffix for path in (store.root / "toy").iterdir()} == {"", ".json"}


def test_a_crash_while_rewriting_keeps_what_was_there(store, monkeypatch):
    save(store)

    def crash(*arguments):
        raise OSError(ENOSPC, "disk full")

    monkeypatch.setattr(store_module.os, "replace", crash)
    with pytest.raises(OSError, match="disk full"):
        save(store, outcome=Cell({"seed": 1}, {"error": 9.0}, 0.5, "a processor"))
    assert store.load(task()) == CELL


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"0.1", b"0.2"),
        lambda data: b"[]",
        lambda data: b"{}",
        lambda data: b"\xff\xfe",
        lambda data: bytes(len(data)),
    ],
    ids=["empty", "half", "altered", "a list", "no fields", "not text", "zeros"],
)
def test_a_damaged_cell_is_not_trusted(store, damage):
    path = save(store)
    path.write_bytes(damage(path.read_bytes()))
    assert store.load(task()) is None


def test_a_cell_under_another_cells_name_is_not_trusted(store):
    other = task({"seed": 2})
    os.replace(save(store), store.path(other))
    assert store.load(other) is None


def test_a_failure_is_kept_apart_until_the_cell_succeeds(store):
    failure = Failure({"seed": 1}, "ValueError: no", "Traceback ...")
    save(store, outcome=failure)
    assert store.load(task()) is None
    assert store.load_failure(task()) == failure
    save(store)
    assert store.load_failure(task()) is None


def test_diverged_numbers_survive_in_strict_json(store):
    metrics = {"error": math.inf, "curve": [1.0, -math.inf, math.nan]}
    path = save(store, outcome=Cell({"seed": 1}, metrics, 0.5, "a processor"))
    json.loads(path.read_bytes(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert repr(store.load(task()).metrics) == repr(metrics)


def test_a_parameter_that_reads_like_a_number_stays_text(store):
    one = task({"clip": "inf"})
    save(store, one, Cell({"clip": "inf"}, {}, 0.5, "a processor"))
    assert store.load(one).parameters == {"clip": "inf"}


def test_arrays_and_numpy_numbers_become_lists_and_numbers():
    given = {"a": np.arange(3), "b": np.float32(0.5), "c": np.bool_(True), "d": (1, 2)}
    assert plain(given) == {"a": [0, 1, 2], "b": 0.5, "c": True, "d": [1, 2]}
    assert restore(plain([np.inf, 1.0])) == [math.inf, 1.0]


@pytest.mark.parametrize("value", [{1: 2}, {"x": object()}, {"x": {3, 4}}])
def test_what_json_cannot_hold_is_named(value):
    with pytest.raises(ExperimentError, match="metrics"):
        plain(value)


def hold(root, ready, release):
    store = Store(root)
    with store.claim(task()):
        ready.set()
        release.wait(PATIENCE)
        store.save(task(), CELL)


def test_a_claim_waits_for_the_process_that_has_it(store):
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    other = context.Process(target=hold, args=(store.root, ready, release))
    other.start()
    assert ready.wait(PATIENCE)
    with store.claim(task({"seed": 2})):  # another cell is free
        pass
    release.set()
    with store.claim(task()):
        assert store.load(task()) == CELL
    other.join()
