import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.cli.support import points as reading
from exactformer.errors import ExactformerError
from tests.examples import examples

CELLS = st.one_of(
    st.floats().map(repr), st.sampled_from(["", "x", "y", "1_0", '"', "nan", "١", "1e5", " 2 "])
)
TABLES = st.lists(st.lists(CELLS, max_size=4), max_size=6).map(
    lambda rows: "\n".join(",".join(row) for row in rows).encode()
)


def read(content):
    source = reading._sniff(io.BytesIO(content), "points", len(content), ("x", "y"), False)
    return source, list(source.batches)


@settings(max_examples=examples(500))
@given(st.one_of(st.binary(), TABLES, st.binary().map(lambda b: b"\x93NUMPY" + b)))
def test_any_bytes_are_finite_points_or_a_clear_error(content):
    try:
        _, batches = read(content)
    except ExactformerError:
        return
    for batch in batches:
        assert batch.points.shape == (len(batch.places), 2)
        assert np.isfinite(batch.points).all()


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1))
def test_what_repr_writes_is_read_back_exactly(rows):
    _, batches = read("\n".join(f"{x!r},{y!r}" for x, y in rows).encode())
    assert np.vstack([b.points for b in batches]).tolist() == [list(row) for row in rows]


def test_batches_know_their_lines_and_how_far_they_have_come(monkeypatch):
    monkeypatch.setattr(reading, "BATCH", 2)
    content = b"x,y\n1,2\n\n3,4\n5,6\n"
    source, batches = read(content)
    assert [list(b.places) for b in batches] == [[2, 4], [5]]
    assert batches[-1].progress == source.total == len(content)


def test_a_header_is_cells_that_are_no_numbers():
    assert read(b"y,x\n1,2\n")[1][0].points.tolist() == [[2.0, 1.0]]
    assert not read(b"1,2\n")[0].has_header


@pytest.mark.parametrize("content", [b"1\n2\n3\n", b"a\nb\n", b"1,2,3"])
def test_short_first_lines_are_not_lost(content):
    with pytest.raises(ExactformerError):
        read(content)


def wide(columns, ignore_extra=False):
    header = ",".join(["y", "x", *(f"c{i}" for i in range(columns))])
    content = f"{header}\n{','.join(['1', '2', *['3'] * columns])}\n".encode()
    return reading._sniff(io.BytesIO(content), "points", len(content), ("x", "y"), ignore_extra)


class Name(str):
    """A name that counts how often names are compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    def strip(self):
        return self


def test_names_of_a_header_are_looked_up_and_not_compared_with_each_other():
    table = reading._Table("points", iter(()), ("x", "y"), True)
    header = [Name(f"c{i}") for i in range(3000)] + [Name("y"), Name("x")]
    Name.compared = 0
    assert table.match(header) == [3001, 3000]
    assert Name.compared < 10 * len(header)


def test_two_hundred_thousand_columns_are_read_or_refused_with_some_of_their_names():
    (batch,) = wide(200_000, ignore_extra=True).batches
    assert batch.points.tolist() == [[2.0, 1.0]]
    with pytest.raises(ExactformerError, match=r"c0, c1, .* and 199,988 more") as caught:
        wide(200_000)
    assert len(str(caught.value)) < 500


def test_a_batch_of_wide_rows_has_fewer_of_them(monkeypatch):
    monkeypatch.setattr(reading, "CELLS", 8)
    content = b"x,y,a,b\n" + b"1,2,3,4\n" * 5
    source = reading._sniff(io.BytesIO(content), "points", len(content), ("x", "y"), True)
    assert [len(batch.points) for batch in source.batches] == [2, 2, 1]


def test_a_line_that_does_not_end_is_refused_before_all_of_it_is_read(monkeypatch):
    monkeypatch.setattr(reading, "LONGEST", 100)
    stream = io.BytesIO(b"1,2\n" + b"1" * 10_000)
    with pytest.raises(ExactformerError, match="line 2: more than 100 bytes"):
        list(reading._sniff(stream, "points", None, ("x", "y"), False).batches)
    assert stream.tell() < 1000


def npy(array, shape=None, order="C"):
    stream = io.BytesIO()
    array = np.asarray(array, order=order)
    facts = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(stream, facts | ({"shape": shape} if shape else {}))
    return stream.getvalue() + array.tobytes(order="A")


@pytest.mark.parametrize("total", [None, 1000])
@pytest.mark.parametrize("fortran", [False, True])
def test_a_header_that_promises_more_than_the_file_has_allocates_nothing(
    monkeypatch, total, fortran
):
    content = npy(np.ones((3, 2)), (10**15, 2), "F" if fortran else "C")
    asked = []
    monkeypatch.setattr(np, "empty", lambda *a, **k: asked.append(a))
    with pytest.raises(ExactformerError, match="not a complete NPY file"):
        list(reading._sniff(io.BytesIO(content), "points", total, ("x", "y"), False).batches)
    assert not asked


@pytest.mark.parametrize("fortran", [False, True])
def test_an_array_without_rows_has_no_batches(fortran):
    stream = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": fortran, "shape": (0, 2)}
    np.lib.format.write_array_header_1_0(stream, facts)
    assert read(stream.getvalue())[1] == []


def test_a_wrong_shape_is_refused_by_the_header_alone():
    stream = io.BytesIO(npy(np.ones((3, 5)), (10**15, 5)))
    with pytest.raises(ExactformerError, match=r"shape \(1000000000000000, 5\)"):
        reading._sniff(stream, "points", None, ("x", "y"), False)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i2"])
def test_arrays_of_any_order_and_format_are_the_same_points(monkeypatch, order, dtype):
    monkeypatch.setattr(reading, "BATCH", 4)
    array = np.arange(22).reshape(11, 2).astype(dtype)
    _, batches = read(npy(array, order=order))
    assert np.vstack([b.points for b in batches]).tolist() == array.tolist()
    assert [len(b.points) for b in batches] == [4, 4, 3]
