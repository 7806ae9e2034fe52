"""Arrays and tables from files: sizes are predicted, and damage is one error of the family."""

import io
import zipfile

import numpy as np
import pytest

from exactformer.core import archives
from exactformer.core.archives import read_npz
from exactformer.errors import FileFormatError, InputError, SizeError
from exactformer.learning.laws.tables import Wanted, read_table


def header(shape, dtype="<f8"):
    stream = io.BytesIO()
    facts = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()


def test_what_savez_writes_is_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, inputs=np.eye(3), outputs=np.arange(3))
    found = read_npz(path)
    assert sorted(found) == ["inputs", "outputs"]
    assert found["inputs"].tolist() == np.eye(3).tolist()
    assert list(read_npz(path, ("outputs", "others"))) == ["outputs"]


def test_an_array_that_promises_more_than_the_file_has_is_never_allocated(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inputs.npy", header((10**15, 2)) + b"\0" * 100)
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("the arrays were read"))
    with pytest.raises(FileFormatError, match=r"'inputs' has shape \(1000000000000000, 2\)"):
        read_npz(path)


def test_arrays_that_a_small_file_unpacks_to_are_limited(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, inputs=np.zeros(200_000))
    monkeypatch.setattr(archives, "ALLOWED", 10_000)
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("the arrays were read"))
    with pytest.raises(SizeError, match=r"1,600,000 bytes, the limit is"):
        read_npz(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"no archive", header((2, 2)) + b"\0" * 32],
    ids=["empty", "cut", "text", "npy"],
)
def test_what_is_no_archive_is_one_kind_of_error(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"is not an \.npz file of numbers"):
        read_npz(path)


def test_a_damaged_archive_is_the_same_error(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, inputs=np.random.default_rng(0).normal(size=1000))
    content = bytearray(path.read_bytes())
    content[500:600] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"is not an \.npz file of numbers"):
        read_npz(path)


def test_objects_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.array([{}], dtype=object))
    with pytest.raises(FileFormatError):
        read_npz(path)


def test_a_table_of_too_many_columns_is_refused_by_its_header(tmp_path, monkeypatch):
    import pandas as pd

    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(2000)]
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    monkeypatch.setattr(pd, "read_csv", lambda *a, **k: pytest.fail("the table was read"))
    with pytest.raises(SizeError, match=r"1,999 columns to learn from, the limit is 1,000"):
        read_table(path, Wanted(["c0"], most=1000))


def test_some_columns_of_a_wide_table_are_read(tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(2000)]
    rows = [",".join(names), *(",".join([str(k)] * 2000) for k in range(3))]
    path.write_text("\n".join(rows))
    table = read_table(path, Wanted(["c0"], ["c7", "c9"], most=1000))
    assert list(table.features) == ["c7", "c9"]


def test_repeated_names_of_a_wide_header_are_counted(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(["a", *(f"c{i}" for i in range(50_000)), "a"]) + "\n1\n")
    with pytest.raises(InputError, match="repeated: a"):
        read_table(path, Wanted(["a"]))
