import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.cli import points as reading
from exactformer.errors import ExactformerError

CELLS = st.one_of(
    st.floats().map(repr), st.sampled_from(["", "x", "y", "1_0", '"', "nan", "١", "1e5", " 2 "])
)
TABLES = st.lists(st.lists(CELLS, max_size=4), max_size=6).map(
    lambda rows: "\n".join(",".join(row) for row in rows).encode()
)


def read(content):
    source = reading._sniff(io.BytesIO(content), "points", len(content), ("x", "y"), False)
    return source, list(source.batches)


@settings(max_examples=500)
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
