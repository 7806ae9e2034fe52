"""Two experiments over one computation."""

from dataclasses import replace

import pytest

from exactformer.errors import ExperimentError
from exactformer.experiments import reproduce
from tests.experiments import toy


def test_an_experiment_that_shares_cells_runs_none_again(tmp_path, marks):
    first = toy.toy(marks=marks)
    reproduce(first, scale="smoke", jobs=1, out=tmp_path)
    second = reproduce(replace(first, name="view", shares="toy"), "smoke", jobs=1, out=tmp_path)
    assert set(toy.runs(marks).values()) == {1}
    assert second.provenance.kept == 4
    assert (tmp_path / "view.json").is_file()


def test_without_sharing_the_same_cells_are_run_for_each(tmp_path, marks):
    first = toy.toy(marks=marks)
    for experiment in (first, replace(first, name="view")):
        reproduce(experiment, scale="smoke", jobs=1, out=tmp_path)
    assert set(toy.runs(marks).values()) == {2}


def test_the_place_of_shared_cells_must_be_a_name():
    with pytest.raises(ExperimentError, match="cannot name an experiment"):
        replace(toy.toy(), shares="../elsewhere")
