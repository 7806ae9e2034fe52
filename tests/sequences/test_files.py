"""Sequence blueprints as data: every layer of the theorem, saved without loss."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from exactformer.core.files import kind_of
from exactformer.core.layers import FeedForward
from exactformer.errors import FileFormatError, InputError
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.files import (
    load_sequence,
    save_sequence,
    sequence_digest,
)
from exactformer.sequences.grid import Grid, GridTable
from tests.cases.sequences import FORMS, grid, random_table


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positional", [False, True])
def test_what_is_read_is_what_was_written(form: str, positional: bool, tmp_path: Path) -> None:
    table = random_table(grid((1, 2, 3), form, positional))
    blueprint = SEQUENCE_FORMS[form](table)
    path = tmp_path / "map.safetensors"
    save_sequence(blueprint, table, path)
    assert kind_of(path) == "sequence"
    assert load_sequence(path) == (blueprint, table)


def test_digests_tell_models_apart() -> None:
    first, second = (random_table(grid((1, 2, 3), "compact"), seed) for seed in (0, 1))
    digests = {
        sequence_digest(SEQUENCE_FORMS[form](table), table)
        for form in ("compact", "paper")
        for table in (first, second)
    }
    assert len(digests) == 4


def test_a_file_with_another_description_is_refused(tmp_path: Path) -> None:
    table = random_table(grid((1, 2, 3), "compact"))
    path = tmp_path / "map.safetensors"
    save_sequence(SEQUENCE_FORMS["compact"](table), table, path)
    with safe_open(path, framework="np") as file:
        metadata = dict(file.metadata())
    content = json.loads(metadata["content"])
    content["model"]["blueprint"]["tokens"] = 3
    altered = {**metadata, "content": json.dumps(content, sort_keys=True)}
    save_file(load_file(path), path, metadata=altered)
    with pytest.raises(FileFormatError, match="seal is broken"):
        load_sequence(path)
    save_file(load_file(path), path, metadata={"format": "other"})
    assert kind_of(path) is None
    with pytest.raises(FileFormatError, match="no sequence model"):
        load_sequence(path)


def test_units_in_succession_are_the_columns_of_the_wide_layer() -> None:
    blueprint = SEQUENCE_FORMS["compact"](random_table(grid((2, 2, 2), "compact")))
    stage = blueprint.stage("values")
    wide = stage.parts[0]
    assert isinstance(wide, FeedForward)
    layers = list(stage.layers())
    assert len(layers) == len(stage) == wide.w1.rows
    for m, layer in enumerate(layers):
        assert isinstance(layer, FeedForward)
        assert layer.b1[0, 0] == wide.b1[m, 0]
        assert {i: v for i, _, v in layer.w2} == dict(wide.w2.by_column.get(m, ()))


def test_weights_are_counted_layer_by_layer() -> None:
    blueprint = SEQUENCE_FORMS["paper"](random_table(grid((1, 2, 3), "paper")))
    names = ("w1", "b1", "w2", "b2")
    weights = sum(
        sum(getattr(layer, name).nonzeros for name in names)
        if isinstance(layer, FeedForward)
        else sum(
            matrix.nonzeros
            for head in layer.heads  # type: ignore[union-attr]
            for matrix in (head.query, head.key, head.value, head.bias)  # type: ignore[attr-defined]
        )
        for _, layer in blueprint.layers()
    )
    ends = blueprint.embedding.features.nonzeros + blueprint.readout.nonzeros
    assert blueprint.counts().weights == weights + ends


def test_grids_count_their_classes_and_keys() -> None:
    for repeats in (False, True):
        for positional in (False, True):
            where = Grid(3, 1, 4, positional, repeats)
            classes = list(where.classes())
            tokens = {(ids, j if positional else k) for ids in classes for j, k in enumerate(ids)}
            assert len(set(classes)) == len(classes) == where.size
            assert len(tokens) == where.keys


def test_cells_and_ids_are_one_numbering() -> None:
    where = Grid(1, 2, 3, support=(Fraction(-1), Fraction(2)))
    assert where.coordinates(5) == (2, 1)
    assert where.corner(5) == (1, 0)
    assert where.centre(5) == (Fraction(3, 2), Fraction(1, 2))
    with pytest.raises(InputError, match="from 0 to 8"):
        GridTable.of(where, {(9,): [[0, 0]]})
