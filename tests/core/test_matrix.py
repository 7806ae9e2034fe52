from fractions import Fraction

import pytest

from exactformer.core.matrix import Matrix
from exactformer.errors import InputError


def test_zeros_are_dropped_and_entries_ordered() -> None:
    matrix = Matrix.of(2, 2, {(1, 0): 3, (0, 1): Fraction(1, 2), (0, 0): 0})
    assert list(matrix) == [(0, 1, Fraction(1, 2)), (1, 0, Fraction(3))]
    assert matrix.nonzeros == 2
    assert matrix[0, 0] == 0


def test_rows_and_columns_list_the_same_entries() -> None:
    matrix = Matrix.of(2, 3, {(0, 1): 5, (1, 1): 7, (1, 2): -1})
    assert matrix.by_row == {0: [(1, 5)], 1: [(1, 7), (2, -1)]}
    assert matrix.by_column == {1: [(0, 5), (1, 7)], 2: [(1, -1)]}


@pytest.mark.parametrize("place", [(2, 0), (0, 3), (-1, 0)])
def test_entries_outside_are_refused(place: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="outside a 2×3"):
        Matrix.of(2, 3, {place: 1})


def test_explicit_zeros_are_refused() -> None:
    with pytest.raises(InputError, match="explicit zero"):
        Matrix(1, 1, {(0, 0): Fraction(0)})
