import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
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
ANYWHERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def read(tmp_path):
    def written_and_read(content: bytes, ignore_extra: bool = False):
        path = Path(tmp_path / "points")
        path.write_bytes(content)
        return reading.read_points(path, ("x", "y"), ignore_extra)

    return written_and_read


@settings(ANYWHERE, max_examples=examples(500))
@given(content=st.one_of(st.binary(), TABLES, st.binary().map(lambda b: b"\x93NUMPY" + b)))
def test_any_bytes_are_finite_points_or_a_clear_error(read, content):
    try:
        found = read(content)
    except ExactformerError:
        return
    assert found.points.shape == (len(found.places), 2)
    assert np.isfinite(found.points).all()


@ANYWHERE
@given(rows=st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1))
def test_what_repr_writes_is_read_back_exactly(read, rows):
    found = read("\n".join(f"{x!r},{y!r}" for x, y in rows).encode())
    assert found.points.tolist() == [list(row) for row in rows]


def test_points_know_their_lines(read):
    assert read(b"x,y\n1,2\n\n3,4\n5,6\n").places == [2, 4, 5]


def test_a_header_is_cells_that_are_no_numbers(read):
    assert read(b"y,x\n1,2\n").points.tolist() == [[2.0, 1.0]]
    assert not read(b"1,2\n").has_header


@pytest.mark.parametrize("content", [b"1\n2\n3\n", b"a\nb\n", b"1,2,3"])
def test_short_first_lines_are_not_lost(read, content):
    with pytest.raises(ExactformerError):
        read(content)


def test_many_columns_are_read_or_refused_with_some_of_their_names(read):
    header = ",".join(["y", "x", *(f"c{i}" for i in range(200_000))])
    content = f"{header}\n{','.join(['1', '2', *['3'] * 200_000])}\n".encode()
    assert read(content, ignore_extra=True).points.tolist() == [[2.0, 1.0]]
    with pytest.raises(ExactformerError, match=r"c0, c1, .* and 199,988 more") as caught:
        read(content)
    assert len(str(caught.value)) < 500


def test_a_table_beyond_the_limit_is_refused(monkeypatch, read):
    monkeypatch.setattr(reading, "LARGEST", 100)
    with pytest.raises(ExactformerError, match=r"has more than 0\.0 MiB; give it in parts"):
        read(b"1,2\n" * 26)


def npy(array, shape=None, order="C"):
    stream = io.BytesIO()
    array = np.asarray(array, order=order)
    facts = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(stream, facts | ({"shape": shape} if shape else {}))
    return stream.getvalue() + array.tobytes(order="A")


@pytest.mark.parametrize("order", "CF")
def test_a_header_that_promises_more_than_the_file_has_allocates_nothing(monkeypatch, read, order):
    content = npy(np.ones((3, 2)), (10**15, 2), order)
    asked = []
    monkeypatch.setattr(np, "empty", lambda *a, **k: asked.append(a))
    with pytest.raises(ExactformerError, match="not a complete NPY file"):
        read(content)
    assert not asked


@pytest.mark.parametrize("order", "CF")
def test_an_array_without_rows_has_no_points(read, order):
    assert read(npy(np.ones((0, 2)), order=order)).points.shape == (0, 2)


def test_a_wrong_shape_is_refused_by_the_header_alone(read):
    with pytest.raises(ExactformerError, match=r"shape \(1000000000000000, 5\)"):
        read(npy(np.ones((3, 5)), (10**15, 5)))


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i2"])
def test_arrays_of_any_order_and_format_are_the_same_points(read, order, dtype):
    array = np.arange(22).reshape(11, 2).astype(dtype)
    assert read(npy(array, order=order)).points.tolist() == array.tolist()
