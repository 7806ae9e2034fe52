"""Blueprints as JSON and tensors, by the declared types of their fields.

Files hold a closed set of types: frozen dataclasses by their names, tuples, enumerations of texts, texts,
whole numbers, flags, None, fractions, mappings of texts, sparse matrices of rationals and tables of
float64. A class whose fields have another type is refused when its :class:`Schema` is made, and so are
classes that contain themselves: the nesting of a file is that of its types.

Matrices are kept apart, equal ones once. All their entries are two tensors, ``places`` (int64, k × 2: row
and column, in ascending order) and ``values`` (bytes: hexadecimal ``numerator/denominator``, one per line);
the list of matrices states the shape of each, how much of the tensors is its own, and a SHA-256 of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from exactformer.core import header
from exactformer.core.matrix import Matrix
from exactformer.errors import AlteredFileError, FileFormatError

Tensors = dict[str, NDArray[Any]]
NAME = "is"
"""The field of a JSON object that holds the name of its class."""


class Writer:
    """Matrices and tables of a value that is being written."""

    def __init__(self) -> None:
        self.matrices: list[list[Any]] = []
        self.tables: list[NDArray[np.float64]] = []
        self._places: list[bytes] = []
        self._values: list[bytes] = []
        self._by_content: dict[tuple[int, int, str], int] = {}
        self._by_identity: dict[int, int] = {}

    def matrix(self, matrix: Matrix) -> int:
        """Return the number of a matrix; equal ones have one number."""
        if (number := self._by_identity.get(id(matrix))) is not None:
            return number
        entries = sorted(matrix.entries.items())
        flat = chain.from_iterable(place for place, _ in entries)
        places = np.fromiter(flat, dtype="<i8", count=2 * len(entries)).tobytes()
        values = "\n".join([f"{v.numerator:x}/{v.denominator:x}" for _, v in entries]).encode()
        content = content_digest(places, values)
        number = self._by_content.setdefault((*matrix.shape, content), len(self.matrices))
        if number == len(self.matrices):
            self.matrices.append([*matrix.shape, len(entries), len(values), content])
            self._places.append(places)
            self._values.append(values)
        self._by_identity[id(matrix)] = number
        return number

    def table(self, table: NDArray[np.float64]) -> int:
        """Return the number of a table; every table has its own."""
        self.tables.append(np.ascontiguousarray(table))
        return len(self.tables) - 1

    def parts(self) -> dict[str, Any]:
        """Return what the header says about matrices and tables."""
        return {
            "matrices": self.matrices,
            "tables": [content_digest(table.tobytes()) for table in self.tables],
        }

    def tensors(self) -> Tensors:
        """Return all entries and tables."""
        return {
            "places": np.frombuffer(b"".join(self._places), dtype="<i8").reshape(-1, 2),
            "values": np.frombuffer(b"".join(self._values), dtype=np.uint8),
            **{f"table.{k}": table for k, table in enumerate(self.tables)},
        }


class Reader:
    """Matrices and tables of a file, by number; each is compared with its digest where it is used."""

    def __init__(self, parts: Mapping[str, Any], tensors: Tensors, verify: bool) -> None:
        self.parts: list[tuple[str, Any]] = []
        """Every dataclass that was read, with its place."""
        self._tensors, self._verify = tensors, verify
        self._places = header.tensor(tensors, "places", np.int64, 2)
        self._values = header.tensor(tensors, "values", np.uint8)
        self._numbers: dict[str, Fraction] = {}
        self._matrices: dict[int, Matrix] = {}
        self._tables: set[int] = set()
        self._spans = header.list_of(header.entry(parts, "matrices"), "matrices", _span)
        self._digests = header.list_of(header.entry(parts, "tables"), "tables", header.text)
        self._starts = [(0, 0)]
        for span in self._spans:
            entry, byte = self._starts[-1]
            self._starts.append((entry + span.entries, byte + span.bytes))
        if self._starts[-1] != (len(self._places), len(self._values)):
            raise FileFormatError("places and values are not those of the matrices")
        known = {"places", "values", *(f"table.{k}" for k in range(len(self._digests)))}
        if tensors.keys() != known:
            name = min(tensors.keys() ^ known)
            raise FileFormatError(
                f"the tensor {name[:40]} is missing or belongs to no part of the model"
            )

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
            raise FileFormatError(f"{place} is a table that belongs to another part")
        self._tables.add(number)
        table = header.table(self._tensors, f"table.{number}")
        self._compare(place, self._digests[number], table.tobytes())
        return table

    def check_all_used(self) -> None:
        """Raise where matrices or tables belong to no part of the model."""
        unused = len(self._spans) + len(self._digests) - len(self._matrices) - len(self._tables)
        if unused:
            raise FileFormatError(f"{unused:,} matrices or tables belong to no part of the model")

    def _read(self, number: int, place: str) -> Matrix:
        span, (entry, byte) = self._spans[number], self._starts[number]
        places = self._places[entry : entry + span.entries]
        text = self._values[byte : byte + span.bytes].tobytes()
        self._compare(place, span.digest, places.tobytes(), text)
        try:
            lines = text.decode("ascii").split("\n") if text else []
        except UnicodeDecodeError:
            raise FileFormatError(f"the values of {place} are not a text of numbers") from None
        for line in set(lines) - self._numbers.keys():
            self._numbers[line] = header.rational(line, f"a number of {place}")
        values = map(self._numbers.__getitem__, lines)
        entries = dict(zip(map(tuple, places.tolist()), values, strict=False))
        if not len(lines) == len(entries) == span.entries:
            raise FileFormatError(f"places and values of {place} do not match")
        return Matrix(span.rows, span.columns, entries)

    def _compare(self, place: str, digest: str, *content: bytes) -> None:
        if self._verify and content_digest(*content) != digest:
            raise AlteredFileError(f"the weights {place} are not those that were saved")


@dataclass(frozen=True)
class _Span:
    rows: int
    columns: int
    entries: int
    bytes: int
    digest: str


def _span(value: Any, name: str) -> _Span:
    if not isinstance(value, list) or len(value) != 5:
        raise FileFormatError(f"{name} is not rows, columns, entries, bytes and a digest")
    rows, columns, entries, size = (header.integer(v, name) for v in value[:4])
    return _Span(rows, columns, entries, size, header.text(value[4], name))


def content_digest(*content: bytes) -> str:
    """Return the SHA-256 of bytes."""
    found = hashlib.sha256()
    for part in content:
        found.update(part)
    return found.hexdigest()


@dataclass(frozen=True)
class Codec:
    """The two ways between a Python type and its JSON."""

    python: type
    json: type
    encode: Callable[[Any, Writer, str], Any]
    decode: Callable[[Any, Reader, str], Any]
    name: str = ""
    """That of a dataclass."""


def _refuse(value: Any, place: str, wanted: str) -> FileFormatError:
    return FileFormatError(f"{place} must be {wanted}, not {repr(value)[:60]}")


def _plain(python: type, json: type, read: Callable[[Any, str], Any]) -> Codec:
    """Return the codec of a type that JSON holds as it is."""
    return Codec(python, json, lambda v, _, at: read(v, at), lambda v, _, at: read(v, at))


def _nothing(value: Any, place: str) -> None:
    if value is not None:
        raise _refuse(value, place, "nothing")


def _typed(kind: type, encode: Callable[[Any, Writer], Any]) -> Callable[[Any, Writer, str], Any]:
    """Return ``encode`` with a check of the type before it."""

    def checked(value: Any, writer: Writer, place: str) -> Any:
        if not isinstance(value, kind):
            raise _refuse(value, place, f"a {kind.__name__}")
        return encode(value, writer)

    return checked


LARGE = Codec(
    int,
    str,
    lambda value, _, place: f"{header.integer(value, place, 0, 16**header.MOST_DIGITS):x}",
    lambda value, _, place: int(header.rational(f"{header.text(value, place)}/1", place)),
)
"""A whole number of any size, as a hexadecimal text."""

_MATRIX = Codec(
    Matrix,
    int,
    _typed(Matrix, lambda v, writer: writer.matrix(v)),
    lambda v, r, at: r.matrix(v, at),
)
_TABLE = Codec(
    np.ndarray,
    int,
    _typed(np.ndarray, lambda v, writer: writer.table(v)),
    lambda v, r, at: r.table(v, at),
)
_TEXTS = Codec(
    dict,
    dict,
    lambda value, _, place: header.texts(
        dict(value) if isinstance(value, Mapping) else value, place
    ),
    lambda value, _, place: header.texts(value, place),
)
_PLAIN: dict[Any, Codec] = {
    str: _plain(str, str, header.text),
    int: _plain(int, int, header.integer),
    bool: _plain(bool, bool, header.flag),
    NoneType: _plain(NoneType, NoneType, _nothing),
    Fraction: Codec(
        Fraction,
        str,
        _typed(Fraction, lambda value, _: header.rational_text(value)),
        lambda value, _, place: header.rational(value, place),
    ),
    Matrix: _MATRIX,
    NDArray[np.float64]: _TABLE,
    Mapping[str, str]: _TEXTS,
}


class Schema:
    """The types below a dataclass.

    ``variants`` are subclasses that may stand where a field declares their base. Whole numbers are below
    2^31; ``large`` names the fields in which they may have any size.
    """

    def __init__(self, variants: Iterable[type] = (), large: Iterable[str] = ()) -> None:
        self._variants, self._large = tuple(variants), frozenset(large)
        self._known: dict[type, Codec | None] = {}

    def codec(self, hint: Any) -> Codec:
        """Return the codec of a type; raise TypeError where files do not hold it."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in _PLAIN:
            return _PLAIN[hint]
        if origin in (Union, UnionType):
            return self._union([codec for a in arguments for codec in self._alternatives(a)])
        if origin is tuple and arguments:
            return self._tuple(arguments)
        if isinstance(hint, type) and issubclass(hint, StrEnum):
            return Codec(
                hint,
                str,
                _typed(hint, lambda value, _: value.value),
                lambda value, _, place: header.choice(value, place, hint),
            )
        if is_dataclass(hint):
            return self._union(list(self._alternatives(hint)))
        raise TypeError(f"files do not hold values of the type {hint}")

    def _alternatives(self, hint: Any) -> Iterable[Codec]:
        if hint in _PLAIN or not is_dataclass(hint):
            return [self.codec(hint)]
        assert isinstance(hint, type)
        subclasses = [
            kind for kind in self._variants if issubclass(kind, hint) and kind is not hint
        ]
        return [self._dataclass(kind) for kind in (hint, *subclasses)]

    def _dataclass(self, kind: type) -> Codec:
        if kind in self._known:
            if (known := self._known[kind]) is None:
                raise TypeError(f"files do not hold {kind.__name__}: it contains itself")
            return known
        self._known[kind] = None
        hints = get_type_hints(kind)
        codecs = {
            f.name: LARGE if f.name in self._large else self.codec(hints[f.name])
            for f in fields(kind)
        }
        names = {NAME, *codecs}

        def encode(value: Any, writer: Writer, place: str) -> Any:
            content = {
                name: codec.encode(getattr(value, name), writer, _at(place, name))
                for name, codec in codecs.items()
            }
            return {NAME: kind.__name__, **content}

        def decode(value: Any, reader: Reader, place: str) -> Any:
            if value.keys() != names:
                name = min(value.keys() ^ names)
                raise FileFormatError(f"{_at(place, name)[:80]} is missing or not a field")
            content = {
                name: codec.decode(value[name], reader, _at(place, name))
                for name, codec in codecs.items()
            }
            reader.parts.append((place, part := kind(**content)))
            return part

        self._known[kind] = found = Codec(kind, dict, encode, decode, kind.__name__)
        return found

    def _union(self, members: list[Codec]) -> Codec:
        by_type = {member.python: member for member in members}
        by_json = {(member.json, member.name): member for member in members}
        if len(by_json) < len(members) or ((dict, "") in by_json and len(members) > 1):
            types = ", ".join(member.python.__name__ for member in members)
            raise TypeError(f"files cannot tell these types apart: {types}")
        wanted = " or ".join(f"a {member.python.__name__}" for member in members)

        def encode(value: Any, writer: Writer, place: str) -> Any:
            if (member := by_type.get(type(value))) is None:
                raise _refuse(value, place, wanted)
            return member.encode(value, writer, place)

        def decode(value: Any, reader: Reader, place: str) -> Any:
            name = value.get(NAME) if isinstance(value, dict) else ""
            member = by_json.get((type(value), name)) if isinstance(name, str) else None
            if member is None:
                raise _refuse(value, place, wanted)
            return member.decode(value, reader, place)

        return Codec(object, object, encode, decode)

    def _tuple(self, arguments: tuple[Any, ...]) -> Codec:
        if arguments[-1] is Ellipsis:
            items, size = [self.codec(arguments[0])], None
        else:
            items, size = [self.codec(argument) for argument in arguments], len(arguments)

        def paired(value: Any, place: str, kind: Any) -> Iterator[tuple[Codec, Any, str]]:
            if not isinstance(value, kind) or size not in (None, len(value)):
                raise _refuse(value, place, "a list" if size is None else f"a list of {size} items")
            for k, item in enumerate(value):
                yield items[k % len(items)], item, _at(place, k)

        return Codec(
            tuple,
            list,
            lambda value, writer, place: [
                codec.encode(item, writer, at) for codec, item, at in paired(value, place, tuple)
            ],
            lambda value, reader, place: tuple(
                codec.decode(item, reader, at) for codec, item, at in paired(value, place, list)
            ),
        )


def _at(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)
