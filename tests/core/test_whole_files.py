"""Files are written whole or not at all, whoever else writes them."""

import errno
import threading

import pytest

from exactformer.core.whole_files import whole_file, write_bytes
from exactformer.errors import FileFormatError


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "values.csv"
    with whole_file(path) as first, whole_file(path) as second:
        first.write("a" * 10)
        second.write("b" * 20)
    assert path.read_text() == "a" * 10  # the last to end
    assert list(tmp_path.iterdir()) == [path]


def test_many_writers_of_one_file_leave_one_of_their_contents(tmp_path):
    path, failed = tmp_path / "law.safetensors", []
    contents = [bytes([letter]) * 200_000 for letter in b"abcdefgh"]

    def write(content):
        try:
            for _ in range(20):
                write_bytes(content, path)
        except FileFormatError as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_the_longest_name_of_a_file_can_be_written(tmp_path):
    path = tmp_path / ("ü" * 120 + ".npy")
    write_bytes(b"1", path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_reported_with_the_file_and_leaves_the_old_one(tmp_path):
    path = tmp_path / "law.v"
    path.write_text("old")

    def write() -> None:
        with whole_file(path) as file:
            file.write("half of it")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"law\.v'$"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
