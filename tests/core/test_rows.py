"""Rows by name stand where matrices by number put them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exactformer.core.matrix import Matrix, column
from exactformer.core.rows import Rows

NAMES = ("x 1", "x 2", "x 10", "xs 1", "position", "one")
ROWS = Rows(*NAMES)
WEIGHTS = st.dictionaries(st.sampled_from(NAMES), st.fractions(max_denominator=9))
UNITS = st.lists(WEIGHTS, max_size=4)


def transposed(matrix: Matrix) -> Matrix:
    entries = {(j, i): v for i, j, v in matrix}
    return Matrix.of(matrix.columns, matrix.rows, entries)


def test_rows_are_numbered_in_the_order_of_their_names() -> None:
    assert [ROWS[name] for name in ROWS] == list(range(len(ROWS))) == list(range(6))
    assert ROWS.names == NAMES
    assert "one" in ROWS
    assert "two" not in ROWS
    with pytest.raises(KeyError, match="two"):
        ROWS["two"]


def test_every_row_of_a_word_is_found_and_no_other() -> None:
    assert ROWS.every("x") == ("x 1", "x 2", "x 10")
    assert ROWS.every("position") == ROWS.every("") == ()


@given(UNITS)
def test_what_is_read_has_its_weight_and_the_rest_zero(units: list[dict[str, Fraction]]) -> None:
    matrix = ROWS.reading(*units)
    assert matrix.shape == (len(units), 6)
    for m, unit in enumerate(units):
        assert [matrix[m, r] for r in range(6)] == [unit.get(name, 0) for name in NAMES]


@given(UNITS)
def test_writing_is_reading_transposed(units: list[dict[str, Fraction]]) -> None:
    assert ROWS.writing(*units) == transposed(ROWS.reading(*units))


@given(st.dictionaries(st.sampled_from(NAMES), WEIGHTS))
def test_mixing_reads_for_every_row(weights: dict[str, dict[str, Fraction]]) -> None:
    assert ROWS.mixing(weights) == ROWS.reading(*(weights.get(name, {}) for name in NAMES))


@given(st.lists(st.fractions(max_denominator=9), max_size=5))
def test_a_column_holds_its_numbers_in_order(numbers: list[Fraction]) -> None:
    matrix = column(numbers)
    assert matrix.shape == (len(numbers), 1)
    assert [matrix[m, 0] for m in range(len(numbers))] == numbers
