"""What an experiment is made of: values by scale, rows of the table, statements, a figure by name."""

import math

import pytest

from exactformer.errors import ExperimentError
from exactformer.experiments import (
    Cell,
    Experiment,
    Quantity,
    Result,
    Scale,
    Summary,
    by_scale,
    rows,
)
from tests.experiments import toy


def experiment(**options):
    return Experiment("one", "", "", "", lambda scale: [], toy.run, [], **options)


def summary(*cells):
    return Summary(Scale.FULL, (), tuple(Cell(p, m, 0.0, "") for p, m in cells))


def test_the_papers_sizes_are_the_default_ones_unless_given():
    assert by_scale(1, 2) == {Scale.SMOKE: 1, Scale.DEFAULT: 2, Scale.FULL: 2}
    assert by_scale(1, 2, 3)[Scale.FULL] == 3
    assert by_scale(1, 2, 0)[Scale.FULL] == 0


def test_rows_are_the_product_of_what_they_run_over():
    found = rows("{model} {size}", "mse", {"model": {"a": "A", "b": "B"}, "size": (1, 2)}, {"k": 0})
    assert [q.label for q in found] == ["A 1", "A 2", "B 1", "B 2"]
    assert found[2] == Quantity("B 1", "mse", {"k": 0, "model": "b", "size": 1})


def test_a_table_of_metrics_is_the_innermost_loop_and_has_its_own_drift():
    table = {"error": ("mse", 0.1), "minutes": ("minutes", math.inf), "size": "size"}
    found = rows("{m}, {row}", table, {"m": "ab"}, drift=0.5)
    assert [q.label for q in found[:4]] == ["a, error", "a, minutes", "a, size", "b, error"]
    assert [q.drift for q in found[:3]] == [0.1, math.inf, 0.5]


def test_options_may_depend_on_the_row_and_only_expected_values_have_a_place():
    first, second = rows(
        "{m}, {row}",
        {"error": "mse"},
        {"m": "ab"},
        expected=lambda row: 0.3 if (row["m"], row["row"]) == ("a", "error") else None,
        place="Table 0",
        within=0.5,
        note="Seen twice.",
    )
    assert first == Quantity("a, error", "mse", {"m": "a"}, 0.3, "Table 0", 0.5, "Seen twice.")
    assert second == Quantity("b, error", "mse", {"m": "b"}, note="Seen twice.")
    with pytest.raises(TypeError, match="withn"):
        rows("error", "mse", withn=0.5)


def test_an_option_may_be_a_table_by_label_that_lacks_rows():
    found = rows(
        "{m}", "mse", {"m": "ab"}, expected={"b": 0.3}, place="Table 0", note={"a": "Odd."}
    )
    assert found[0] == Quantity("a", "mse", {"m": "a"}, note="Odd.")
    assert found[1] == Quantity("b", "mse", {"m": "b"}, 0.3, "Table 0")


def test_a_statement_stands_above_its_test():
    one = experiment()

    @one.states("there are cells")
    def _(summary):
        return len(summary.cells) > 0

    (statement,) = one.statements
    assert statement.text == "there are cells"
    assert statement.holds(summary(({}, {})))
    assert not statement.holds(summary())
    with pytest.raises(ExperimentError, match="states twice that there are cells"):
        one.states("there are cells")
    assert experiment().statements == []


def test_a_frame_has_a_row_per_cell_and_a_column_per_single_value():
    frame = summary(
        ({"model": "a", "train": 10}, {"train": 0.5, "curve": [1.0], "right": True}),
        ({"model": "b", "train": 20}, {"train": math.inf, "bound": 2.0, "why": None}),
    ).frame
    assert list(frame.columns) == ["model", "train", "metric train", "right", "bound", "why"]
    assert list(frame["train"]) == [10, 20]
    assert list(frame["metric train"]) == [0.5, math.inf]
    assert frame["bound"].isna().tolist() == [True, False]
    assert frame.query("model == 'b'")["bound"].tolist() == [2.0]


def test_a_figure_is_imported_when_it_is_drawn():
    assert experiment(figure="builtins:len").draw([1, 2]) == 2
    missing = experiment(figure="no.such.module:draw")
    with pytest.raises(ModuleNotFoundError):
        missing.draw(summary())
    with pytest.raises(ExperimentError, match="module:function"):
        experiment(figure="module.function")


def test_a_statement_that_a_run_is_too_small_for_is_left_out():
    one, small = experiment(), summary(({}, {}))
    one.states("two cells agree")(lambda found: None if len(found.cells) < 2 else True)
    one.states("there are cells")(lambda found: len(found.cells) > 0)
    result = Result.of(one, small, None)
    assert result.statements == {"there are cells": True}
    assert [part.text for part, _ in result.tested] == ["there are cells"]
