import os
import subprocess
import sys

import pytest

from exactformer.learning.laws.streamed import memory


class Library:
    def __init__(self):
        self.called = []

    def mallopt(self, which, value):
        self.called.append((which, value))

    def malloc_trim(self, pad):
        self.called.append("returned")


@pytest.fixture
def library(monkeypatch):
    found = Library()
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr(memory, "_glibc", lambda: found)
    return found


@pytest.mark.parametrize("fails", [False, True])
def test_memory_goes_back_and_the_setting_is_as_before(library, monkeypatch, fails):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    try:
        with memory.kept_memory():
            inside = list(library.called)
            assert not fails
    except AssertionError:
        assert fails
    assert len(inside) == 2
    assert library.called[2:] == [(-3, 2**17), (-1, 65536), "returned"]


@pytest.mark.parametrize("told", [None, "", "all"])
def test_nothing_is_touched_where_nothing_was_told(library, monkeypatch, told):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    if told is not None:
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", told)
    with memory.kept_memory():
        pass
    assert library.called == []


def test_sizes_beyond_an_int_are_the_largest_int(library, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", str(2**40))
    with memory.kept_memory():
        pass
    assert library.called[3] == (-1, 2**31 - 1)


MAPPED = """
import ctypes
import numpy as np
from exactformer.learning.laws.streamed.memory import kept_memory

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Info

def mapped():
    before = library.mallinfo2().d
    array = np.empty(2**17)
    return library.mallinfo2().d - before

print(mapped(), end=" ")
try:
    with kept_memory():
        print(mapped(), end=" ")
        raise KeyError
except KeyError:
    print(mapped())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(memory._glibc(), "mallinfo2"), reason="needs glibc"
)
@pytest.mark.parametrize(
    ("own", "found"), [({}, "1 0 1"), ({"MALLOC_MMAP_THRESHOLD_": str(2**23)}, "0 0 0")]
)
def test_after_a_task_that_fails_glibc_maps_a_megabyte_as_before(own, found):
    told = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536", **own}
    command = [sys.executable, "-c", MAPPED]
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found
