"""Inputs of every family: columns by their names, numbers never rounded without a word."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

import exactformer as ef
from exactformer.errors import InputError
from exactformer.targets import sine_family

ROWS = np.array([[0.9, 0.1], [-0.25, 0.5]])


@pytest.fixture(scope="module")
def law():
    return ef.compile("a^2 - b")


@pytest.fixture(scope="module")
def sort():
    return ef.compile_sequence(np.sort, tokens=2, dim=1, delta="1/2", positional=True)


@pytest.fixture(scope="module")
def coupling():
    return ef.compile_coupling(
        sine_family([1.0, 0.5], tau=2), head_dim=2, ff_width=32, dtype=torch.float32
    )


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_columns_of_a_frame_are_matched_by_name(order, executor):
    model = ef.compile("a^2 - b", executor=executor)
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    assert model(frame[order]).tolist() == model(ROWS).tolist()


def test_a_row_of_a_frame_is_matched_by_name(law):
    row = pd.Series({"b": 0.5, "a": -0.25})
    assert law(row) == law([-0.25, 0.5])
    assert law.exact(row) == law.exact([-0.25, 0.5])
    assert str(law.trace(row)["output"]) == str(law.trace([-0.25, 0.5])["output"])


def test_a_row_without_names_is_taken_in_order(law):
    assert law(pd.Series([-0.25, 0.5])) == law([-0.25, 0.5])


@pytest.mark.parametrize(
    "columns", [["x", "y"], ["a", "c"], [0, 1], ["a", "a"], ["A", "b"]], ids=str
)
def test_a_frame_with_other_names_is_refused_with_both_and_a_way_out(law, columns):
    with pytest.raises(InputError) as caught:
        law(pd.DataFrame(ROWS, columns=columns))
    message = str(caught.value)
    assert f"columns {columns[0]}, {columns[1]}" in message
    assert "variables a, b" in message
    assert "frame[list(model.variables)]" in message
    assert ".to_numpy()" in message


def test_a_column_too_many_is_refused(law):
    frame = pd.DataFrame({"a": [0.1], "b": [0.2], "time": [3.0]})
    with pytest.raises(InputError, match="columns a, b, time"):
        law(frame)
    assert law(frame[list(law.variables)]) == law([[0.1, 0.2]])


def test_sequences_have_no_names_that_columns_could_match(sort, coupling):
    for model in (sort, coupling):
        with pytest.raises(InputError, match=r"\.to_numpy\(\)"):
            model(pd.DataFrame([[0.25, 0.75]], columns=["first", "second"]))


NOT_SINGLE = 0.1
"""No number of float32."""


@pytest.mark.parametrize(
    "read", [torch.DoubleTensor, np.array, pd.Series], ids=["tensor", "array", "series"]
)
def test_float64_numbers_that_float32_lacks_are_refused(coupling, read):
    narrow = ef.compile("a^2 - b", dtype=torch.float32)
    for model in (narrow, coupling):
        with pytest.raises(InputError, match="rounding them is not covered"):
            model(read([NOT_SINGLE, 0.5]))


def test_the_largest_number_of_float64_is_no_infinity_of_float32():
    model = ef.compile("a^2 - b", dtype=torch.float32, outside="allow")
    with pytest.raises(InputError, match="rounding them is not covered"):
        model(np.array([np.finfo(np.float64).max, 0.0]))


def test_float64_numbers_that_float32_has_are_taken(coupling):
    narrow = ef.compile("a^2 - b", dtype=torch.float32)
    for model in (narrow, coupling):
        assert torch.equal(model(np.array([0.25, 0.5])), model([0.25, 0.5]))


def test_lists_are_read_as_the_nearest_numbers(coupling):
    narrow = ef.compile("a^2 - b", dtype=torch.float32)
    nearest = torch.tensor([NOT_SINGLE, 0.5], dtype=torch.float32)
    for model in (narrow, coupling):
        assert torch.equal(model([NOT_SINGLE, 0.5]), model(nearest))


@pytest.mark.parametrize(
    "point",
    [
        [np.complex128(0.5 + 2j), 0.5],
        [True, False],
        ["0.5", "0.25"],
        [np.datetime64("1970-01-01"), np.datetime64("1970-01-01")],
        [np.timedelta64(0, "s"), np.timedelta64(0, "s")],
        np.ma.array([0.5, 0.25], mask=[True, False]),
    ],
    ids=["complex", "bool", "text", "date", "time", "masked"],
)
def test_what_is_a_number_in_part_only_is_refused(law, point):
    with pytest.raises(InputError, match="points must be numbers"):
        law(point)


@pytest.mark.parametrize(
    "point",
    [
        [Fraction(1, 2), Decimal("0.25")],
        [torch.tensor(0.5), torch.tensor(0.25)],
        np.ma.array([0.5, 0.25]),
        [np.float32(0.5), 0.25],
    ],
    ids=["exact", "tensors", "unmasked", "mixed"],
)
def test_numbers_of_any_kind_are_taken(law, point):
    assert law(point) == 0


def test_integers_beyond_float64_are_refused_by_sequence_models(sort):
    with pytest.raises(InputError, match="rounding them is not covered"):
        sort(torch.tensor([[2**60 + 1], [0]]))


ONE, PAIR = "x^2 - x/3", "x^2; 1 - x"
"""A polynomial of one variable, and a vector of two."""


@pytest.mark.parametrize("executor", ["fused", "literal"])
@pytest.mark.parametrize("target", [ONE, PAIR])
def test_of_one_variable_a_number_is_a_point_and_numbers_in_a_row_are_points(target, executor):
    model = ef.compile(target, executor=executor)
    outputs = model([0.5]).shape
    row = np.linspace(-1, 1, 5)
    assert outputs == (() if target == ONE else (2,))
    for number in (0.5, np.float64(0.5), np.array(0.5), torch.tensor(0.5, dtype=torch.float64)):
        assert torch.equal(model(number), model([0.5]))
    for points in (row, row.tolist(), torch.as_tensor(row), pd.Series(row)):
        assert torch.equal(model(points), model(row[:, None]))
    assert model(row).shape == (5, *outputs)
    assert model(np.zeros(0)).shape == (0, *outputs)


def test_a_row_of_one_number_is_one_point_as_in_any_dimension():
    model = ef.compile(ONE)
    assert model([0.5]).shape == ()
    assert model([[0.5]]).shape == (1,)


def test_of_one_variable_exact_and_trace_take_a_number():
    model = ef.compile(ONE)
    for number in (Fraction(1, 3), 0.25, 1, Decimal("0.1"), np.float32(0.1), np.array(0.5)):
        assert model.exact(number) == model.exact([getattr(number, "item", lambda n=number: n)()])
    assert torch.equal(model.trace(0.5)["output"], model.trace([0.5])["output"])
    for point in (torch.tensor([0.1]), np.array([0.1], dtype=np.float32), torch.tensor(0.1)):
        assert model.exact(point) == model.exact(float(np.float32(0.1)))
    with pytest.raises(InputError, match="1 coordinates, not 2"):
        model.exact([0.5, 0.25])


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4)])
def test_points_of_one_variable_are_told_their_axis(shape):
    with pytest.raises(InputError, match=r"give x\[\.\.\., None\]"):
        ef.compile("x^2")(np.zeros(shape))


def test_of_two_variables_a_number_or_another_row_is_refused():
    model = ef.compile("x + y")
    for points in (0.5, [0.5], [0.1, 0.2, 0.3]):
        with pytest.raises(InputError, match=r"2 coordinates \(x, y\)"):
            model(points)


@pytest.mark.parametrize("number", [10**400, Fraction(10) ** 400])
def test_numbers_that_no_float_holds_are_refused_in_words(law, sort, number):
    with pytest.raises(InputError, match="points must be numbers"):
        law([number, 0])
    with pytest.raises(InputError, match="sequences must be numbers"):
        sort([[number], [0]])


def test_numbers_of_numpy_are_numbers_in_every_option():
    sort = ef.compile_sequence(
        np.sort, tokens=np.int64(2), dim=np.int8(1), delta=np.float32(0.5), positional=True
    )
    plain = ef.compile_sequence(np.sort, tokens=2, dim=1, delta="1/2", positional=True)
    assert sort.certificate == plain.certificate
    count = ef.compile_program(ef.rasp.length, vocabulary="ab", max_length=np.int64(3))
    assert count.decode("ab") == [2, 2]
    with pytest.raises(InputError, match="must be numbers"):
        ef.compile_sequence(np.sort, tokens=2, dim=1, delta="1e-99999999", positional=True)
