"""Matrices and tables of a file, kept apart from its description.

Equal matrices are stored once. All their entries are two tensors: ``places`` (int64, k × 2: row and
column, ascending) and ``values`` (bytes: hexadecimal ``numerator/denominator``, one per line). The
header states the shape of each matrix, how much of the tensors belongs to it, and a SHA-256 of that.
Each table of float64 is a tensor of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core import header
from exactformer.core.matrix import Matrix
from exactformer.errors import AlteredFileError, FileFormatError

Tensors = dict[str, NDArray[Any]]
Span = tuple[int, int, int, int, str]
"""Rows, columns, entries and bytes of a matrix, and its digest."""


class Writer:
    """Matrices and tables of a value that is being written."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._places: list[bytes] = []
        self._values: list[bytes] = []
        self._tables: list[NDArray[np.float64]] = []
        self._by_content: dict[tuple[int, int, str], int] = {}
        self._by_identity: dict[int, int] = {}

    def matrix(self, matrix: Matrix, place: str) -> int:
        """Return the number of a matrix; equal ones have one number."""
        if (known := self._by_identity.get(id(matrix))) is not None:
            return known
        entries = sorted(matrix.entries.items())
        flat = chain.from_iterable(at for at, _ in entries)
        places = np.fromiter(flat, dtype="<i8", count=2 * len(entries)).tobytes()
        values = "\n".join([f"{v.numerator:x}/{v.denominator:x}" for _, v in entries]).encode()
        content = digest_of(places, values)
        number = self._by_content.setdefault((*matrix.shape, content), len(self._spans))
        if number == len(self._spans):
            self._spans.append((*matrix.shape, len(entries), len(values), content))
            self._places.append(places)
            self._values.append(values)
        self._by_identity[id(matrix)] = number
        return number

    def table(self, table: NDArray[np.float64], place: str) -> int:
        """Return the number of a table; every table has its own."""
        if table.dtype != np.float64 or table.ndim != 2:
            raise FileFormatError(f"{place} is not a table of float64, but {table.dtype}")
        self._tables.append(np.ascontiguousarray(table))
        return len(self._tables) - 1

    def description(self) -> dict[str, Any]:
        """Return what the header states about matrices and tables."""
        tables = [digest_of(table.tobytes()) for table in self._tables]
        return {"matrices": self._spans, "tables": tables}

    def tensors(self) -> Tensors:
        """Return all entries and tables."""
        return {
            "places": np.frombuffer(b"".join(self._places), dtype="<i8").reshape(-1, 2),
            "values": np.frombuffer(b"".join(self._values), dtype=np.uint8),
            **{f"table.{k}": table for k, table in enumerate(self._tables)},
        }


class Reader:
    """Matrices and tables of a file, by number; each is compared with its digest where it is used."""

    def __init__(self, description: Mapping[str, Any], tensors: Tensors, verify: bool) -> None:
        self.parts: list[tuple[str, Any]] = []
        """Every dataclass that was read, with its place."""
        self._tensors, self._verify = tensors, verify
        self._spans = header.list_of(header.entry(description, "matrices"), "matrices", _span)
        self._digests = header.list_of(header.entry(description, "tables"), "tables", header.text)
        self._numbers: dict[str, Fraction] = {}
        self._matrices: dict[int, Matrix] = {}
        self._tables: set[int] = set()
        wanted = {"places", "values", *(f"table.{k}" for k in range(len(self._digests)))}
        if strange := tensors.keys() ^ wanted:
            raise FileFormatError(f"the tensor {min(strange)[:40]} is missing or not of a model")
        self._places = header.tensor(tensors["places"], "places", np.int64, 2)
        self._values = header.tensor(tensors["values"], "values", np.uint8, 1)
        self._entries = [0, *accumulate(span[2] for span in self._spans)]
        self._bytes = [0, *accumulate(span[3] for span in self._spans)]
        if (self._places.shape, len(self._values)) != ((self._entries[-1], 2), self._bytes[-1]):
            raise FileFormatError("places and values are not as many as those of the matrices")

    def matrix(self, value: Any, place: str) -> Matrix:
        """Return a matrix by its number."""
        number = header.integer(value, place, 0, len(self._spans) - 1)
        if number not in self._matrices:
            self._matrices[number] = self._read(number, place)
        return self._matrices[number]

    def table(self, value: Any, place: str) -> NDArray[np.float64]:
        """Return a table by its number, once."""
        number = header.integer(value, place, 0, len(self._digests) - 1)
        if number in self._tables:
            raise FileFormatError(f"{place} is the table of another part")
        self._tables.add(number)
        table = header.tensor(self._tensors[f"table.{number}"], place, np.float64, 2)
        self._compare(place, self._digests[number], table.tobytes())
        return table

    def check_all_used(self) -> None:
        """Raise where matrices or tables belong to no part of the model."""
        stored = len(self._spans) + len(self._digests)
        if unused := stored - len(self._matrices) - len(self._tables):
            raise FileFormatError(f"{unused:,} matrices or tables belong to no part of the model")

    def _read(self, number: int, place: str) -> Matrix:
        rows, columns, count, _, digest = self._spans[number]
        places = self._places[self._entries[number] : self._entries[number + 1]]
        text = self._values[self._bytes[number] : self._bytes[number + 1]].tobytes()
        self._compare(place, digest, places.tobytes(), text)
        lines = text.decode("ascii", "replace").split("\n") if text else []
        for line in set(lines) - self._numbers.keys():
            self._numbers[line] = header.rational(line, f"a number of {place}")
        numbers = map(self._numbers.__getitem__, lines)
        entries = dict(zip(map(tuple, places.tolist()), numbers, strict=False))
        if not len(lines) == len(entries) == count:
            raise FileFormatError(f"places and values of {place} do not match")
        return Matrix(rows, columns, entries)

    def _compare(self, place: str, digest: str, *content: bytes) -> None:
        if self._verify and digest_of(*content) != digest:
            raise AlteredFileError(f"the weights {place} are not those that were saved")


def digest_of(*content: bytes) -> str:
    """Return the SHA-256 of bytes."""
    found = hashlib.sha256()
    for part in content:
        found.update(part)
    return found.hexdigest()


def _span(value: Any, name: str) -> Span:
    if not isinstance(value, list) or len(value) != 5:
        raise FileFormatError(f"{name} is not rows, columns, entries, bytes and a digest")
    rows, columns, entries, size = (header.integer(number, name) for number in value[:4])
    return rows, columns, entries, size, header.text(value[4], name)
