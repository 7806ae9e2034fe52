"""Dataclasses as JSON, by the declared types of their fields.

Files hold a closed set of types: dataclasses by their names, tuples, enumerations of texts, texts,
whole numbers, flags, None, fractions, mappings of texts, matrices and tables of float64. A class with a
field of another type is refused when its schema is made, and so is a class that contains itself: a file
is nested only as deep as its types are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from exactformer.core import header
from exactformer.core.matrix import Matrix
from exactformer.core.pool import Reader, Writer
from exactformer.errors import FileFormatError

NAME = "is"
"""The field of a JSON object that holds the name of its class."""


@dataclass(frozen=True)
class Codec:
    """The two ways between a Python type and its JSON."""

    python: Any
    json: type
    spell: Callable[[Writer, Any, str], Any]
    decode: Callable[[Reader, Any, str], Any]
    name: str = ""
    """That of a dataclass."""

    def encode(self, writer: Writer, value: Any, place: str) -> Any:
        """Return the JSON of a value; matrices and tables go to ``writer``."""
        if not isinstance(value, self.python):
            raise header.refusal(value, place, f"a {self.python.__name__}")
        return self.spell(writer, value, place)


def _plain(python: type, read: Callable[[Any, str], Any]) -> Codec:
    return Codec(python, python, lambda _, v, at: read(v, at), lambda _, v, at: read(v, at))


_PLAIN: dict[Any, Codec] = {
    str: _plain(str, header.text),
    int: _plain(int, header.integer),
    bool: _plain(bool, header.flag),
    NoneType: _plain(NoneType, lambda value, place: None),
    Fraction: Codec(
        Fraction,
        str,
        lambda _, value, place: header.rational_text(value),
        lambda _, value, place: header.rational(value, place),
    ),
    Mapping[str, str]: Codec(
        Mapping,
        dict,
        lambda _, value, place: header.texts(dict(value), place),
        lambda _, value, place: header.texts(value, place),
    ),
    Matrix: Codec(Matrix, int, Writer.matrix, Reader.matrix),
    NDArray[np.float64]: Codec(np.ndarray, int, Writer.table, Reader.table),
}
_LARGE = Codec(
    int,
    str,
    lambda _, value, place: f"{value:x}",
    lambda _, value, place: int(header.rational(f"{header.text(value, place)}/1", place)),
)


class Schema:
    """The types below a dataclass.

    ``variants`` are subclasses that may stand where a field declares their base. Whole numbers are
    below 2^31; ``large`` names the fields that hold integers of any size. Texts can be printed;
    ``values`` names the tuples that hold any text.
    """

    def __init__(
        self,
        variants: Iterable[type] = (),
        large: Iterable[str] = (),
        values: Iterable[str] = (),
    ) -> None:
        self._variants = tuple(variants)
        self._special = dict.fromkeys(large, _LARGE) | dict.fromkeys(values, _VALUES)
        self._open: list[type] = []

    def codec(self, hint: Any) -> Codec:
        """Return the codec of a type; raise TypeError where files do not hold it."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in _PLAIN:
            return _PLAIN[hint]
        if origin in (Union, UnionType):
            return _union([codec for kind in arguments for codec in self._alternatives(kind)])
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return _tuple([self.codec(arguments[0])], None)
        if origin is tuple and arguments:
            return _tuple([self.codec(kind) for kind in arguments], len(arguments))
        if isinstance(hint, type) and issubclass(hint, StrEnum):
            return Codec(
                hint, str, lambda _, v, at: v.value, lambda _, v, at: header.choice(v, at, hint)
            )
        if isinstance(hint, type) and is_dataclass(hint):
            return _union(self._alternatives(hint))
        raise TypeError(f"files do not hold values of the type {hint}")

    def _alternatives(self, hint: Any) -> list[Codec]:
        if hint in _PLAIN or not (isinstance(hint, type) and is_dataclass(hint)):
            return [self.codec(hint)]
        variants = (kind for kind in self._variants if issubclass(kind, hint))
        return [self._dataclass(kind) for kind in dict.fromkeys((hint, *variants))]

    def _dataclass(self, kind: type) -> Codec:
        if kind in self._open:
            raise TypeError(f"files do not hold {kind.__name__}, which contains itself")
        self._open.append(kind)
        hints = get_type_hints(kind)
        codecs = {
            f.name: self._special.get(f.name) or self.codec(hints[f.name]) for f in fields(kind)
        }
        self._open.pop()

        def spell(writer: Writer, value: Any, place: str) -> Any:
            content = {
                name: codec.encode(writer, getattr(value, name), _at(place, name))
                for name, codec in codecs.items()
            }
            return {NAME: kind.__name__, **content}

        def decode(reader: Reader, value: Any, place: str) -> Any:
            if strange := value.keys() ^ {NAME, *codecs}:
                raise FileFormatError(f"{_at(place, min(strange))[:80]} is missing or not a field")
            content = {
                name: codec.decode(reader, value[name], _at(place, name))
                for name, codec in codecs.items()
            }
            reader.parts.append((place, part := kind(**content)))
            return part

        return Codec(kind, dict, spell, decode, kind.__name__)


def _union(members: list[Codec]) -> Codec:
    """Return the codec of several types, which JSON must tell apart."""
    by_type = {member.python: member for member in members}
    by_json = {(member.json, member.name): member for member in members}
    wanted = " or ".join(member.python.__name__ for member in members)
    if len(by_json) < len(members) or Mapping in by_type:
        raise TypeError(f"files cannot tell these types apart: {wanted}")

    def spell(writer: Writer, value: Any, place: str) -> Any:
        if type(value) not in by_type:
            raise header.refusal(value, place, wanted)
        return by_type[type(value)].spell(writer, value, place)

    def decode(reader: Reader, value: Any, place: str) -> Any:
        name = value.get(NAME) if isinstance(value, dict) else ""
        if not isinstance(name, str) or (type(value), name) not in by_json:
            raise header.refusal(value, place, wanted)
        return by_json[type(value), name].decode(reader, value, place)

    return Codec(object, object, spell, decode)


def _tuple(items: list[Codec], size: int | None) -> Codec:
    """Return the codec of a tuple of ``size`` items, each of its own type, or of any number of one."""

    def paired(value: Any, place: str) -> Iterator[tuple[Codec, Any, str]]:
        if size is not None and len(value) != size:
            raise FileFormatError(f"{place} has {len(value):,} items, not {size}")
        for k, item in enumerate(value):
            yield items[k % len(items)], item, _at(place, k)

    def spell(writer: Writer, value: Any, place: str) -> Any:
        return [codec.encode(writer, item, at) for codec, item, at in paired(value, place)]

    def decode(reader: Reader, value: Any, place: str) -> Any:
        if not isinstance(value, list):
            raise header.refusal(value, place, "a list")
        return tuple(codec.decode(reader, item, at) for codec, item, at in paired(value, place))

    return Codec(tuple, list, spell, decode)


_VALUES = _tuple([_plain(str, header.any_text)], None)


def _at(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)
