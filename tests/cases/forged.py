"""Files that were written by somebody else: saved models, altered at will and sealed again."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file, save

from exactformer.core.files import sealed
from exactformer.core.pool import digest_of

Tensors = dict[str, NDArray[Any]]
Place = tuple[Any, ...]
"""Keys and numbers that lead from a JSON value to a part of it."""

STRANGE: tuple[Any, ...] = (
    0,
    -1,
    1,
    7,
    10**12,
    2**70,
    -(2**70),
    10**4000,
    1e308,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "1/0",
    "-1/1",
    "0/1",
    "f" * 3000 + "/1",
    "1e999999999",
    "\ud800",
    None,
    [],
    {},
    True,
    False,
    [[]],
    [0, 0],
    [None, "x", 3],
    {"x": 1},
    [2**40, 2**40],
)
DTYPES = ("int64", "uint8", "float64", "float32", "int32", "bool", "float16", "uint64")


@dataclass(frozen=True)
class File:
    """The parts of a saved model."""

    kind: str
    content: Any
    tensors: Tensors

    @classmethod
    def read(cls, path: Path) -> File:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata()
        return cls(metadata["kind"], json.loads(metadata["content"]), load_file(path))

    def written(self, path: Path, text: str | None = None) -> None:
        """Write with digests and a seal that fit; ``text`` in place of the content's JSON."""
        path.write_bytes(save(self.tensors, metadata=self.header(text)))

    def header(self, text: str | None = None) -> dict[str, str]:
        if text is None:
            text = json.dumps(self._with_digests(), sort_keys=True)
        return sealed(self.kind, text)

    def values(self, place: str) -> bytes:
        """Return the values of a matrix by its place, e.g. ``readouts.0.beta``."""
        return self.tensors["values"][self._span(self.number(place))[1]].tobytes()

    def number(self, place: str) -> int:
        """Return the number of a matrix by its place."""
        found = self.content["model"]
        for key in place.split("."):
            found = found[int(key) if key.isdigit() else key]
        return found

    def damaged(self, path: Path, values: dict[str, bytes]) -> None:
        """Write matrices with other values of the same length, under the old digests and seal."""
        content = self.tensors["values"].copy()
        for place, text in values.items():
            content[self._span(self.number(place))[1]] = np.frombuffer(text, dtype=np.uint8)
        path.write_bytes(save({**self.tensors, "values": content}, metadata=self.header()))

    def _span(self, number: int) -> tuple[slice, slice]:
        """Return what a matrix has of the places and of the values."""
        sizes = [span[2:4] for span in self.content["matrices"]]
        entry, byte = (sum(column) for column in zip((0, 0), *sizes[:number], strict=True))
        entries, length = sizes[number]
        return slice(entry, entry + entries), slice(byte, byte + length)

    def _with_digests(self) -> Any:
        """Return the content, with the digests of the matrices and tables that are there."""
        content = copy.deepcopy(self.content)
        try:
            for k, span in enumerate(content["matrices"]):
                places, values = self._span(k)
                parts = self.tensors["places"][places], self.tensors["values"][values]
                span[4] = digest_of(*(part.tobytes() for part in parts))
            for k in range(len(content["tables"])):
                content["tables"][k] = digest_of(self.tensors[f"table.{k}"].tobytes())
        except (ArithmeticError, LookupError, TypeError, ValueError):
            pass  # a forgery went too deep for digests that fit
        return content


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Yield the place of every part of a JSON value."""
    yield here
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*here, key))


def forged(file: File, rng: random.Random) -> File:
    """Return the file with one to three things changed, anything anywhere."""
    content, tensors = copy.deepcopy(file.content), dict(file.tensors)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.75:
            content = _forged_content(content, rng)
        else:
            _forge_tensor(tensors, rng)
    return File(file.kind, content, tensors)


def _forged_content(content: Any, rng: random.Random) -> Any:
    if isinstance(content, dict) and "model" in content and rng.random() < 0.8:
        return {**content, "model": _forged_header(content["model"], rng)}
    return _forged_header(content, rng)


def _forged_header(description: Any, rng: random.Random) -> Any:
    if isinstance(description, dict) and "blueprint" in description and rng.random() < 0.8:
        return {**description, "blueprint": _forged_header(description["blueprint"], rng)}
    metadata = description.get("metadata") if isinstance(description, dict) else None
    if isinstance(metadata, dict) and rng.random() < 0.3:
        try:
            bound = _forged_header(json.loads(metadata.get("bound", "")), rng)
            return {**description, "metadata": {**metadata, "bound": json.dumps(bound)}}
        except (TypeError, ValueError):
            pass  # there is none, or it has been forged before
    found = list(places(description))
    # Few places at the top decide most; each should be met often.
    top = [place for place in found if len(place) <= 2]
    place = rng.choice(top if top and rng.random() < 0.5 else found)
    if not place:
        return rng.choice((description, *STRANGE))
    holder = description
    for key in place[:-1]:
        holder = holder[key]
    _change(holder, place[-1], rng)
    return description


def _change(holder: Any, key: Any, rng: random.Random) -> None:
    old = holder[key]
    turn = rng.random()
    if rng.random() < 0.5 and _change_plausibly(holder, key, rng):
        return
    if turn < 0.15:
        del holder[key]
    elif turn < 0.25 and isinstance(holder, list):
        holder.append(copy.deepcopy(old))
    elif turn < 0.35 and len(holder) > 1:
        other = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        holder[key], holder[other] = holder[other], holder[key]
    elif turn < 0.5 and type(old) is int:
        holder[key] = old + rng.choice((-2, -1, 1, 2, 1000, 3 * 10**8))
    elif turn < 0.6 and isinstance(old, str):
        holder[key] = rng.choice((old + "0", old[1:], "-" + old, old.upper(), old * 50))
    elif turn < 0.65:
        holder[key] = [old] * rng.choice((1, 2, 30))
    else:
        holder[key] = copy.deepcopy(rng.choice(STRANGE))


def _change_plausibly(holder: Any, key: Any, rng: random.Random) -> bool:
    """Put something of the same kind in its place, which reading may accept; return whether it did."""
    old = holder[key]
    if type(old) is bool:
        holder[key] = not old
    elif type(old) is int:
        holder[key] = max(0, old + rng.randint(-3, 3))
    elif isinstance(old, str) and "/" in old:
        holder[key] = f"{rng.choice(('', '', '-'))}{rng.randint(0, 9):x}/{rng.randint(1, 9):x}"
    elif isinstance(old, list) and len(old) > 1:
        rng.shuffle(old)
        del old[len(old) - rng.choice((0, 0, 1)) :]
    else:
        return False
    return True


def _forge_tensor(tensors: Tensors, rng: random.Random) -> None:
    if not tensors:
        return
    name = rng.choice(sorted(tensors))
    old = tensors[name]
    changes: list[Callable[[], NDArray[Any]]] = [
        lambda: old[: len(old) // 2],
        lambda: np.concatenate([old, old]) if old.ndim else old,
        lambda: old.reshape(-1),
        lambda: old.reshape(1, *old.shape),
        lambda: np.zeros((0, 2**40), dtype=old.dtype),
        lambda: np.zeros((), dtype=old.dtype),
        lambda: np.ones((3, 5), dtype=old.dtype),
        lambda: old.astype(rng.choice(DTYPES)),
        lambda: np.zeros_like(old),
        lambda: -old if old.dtype.kind in "if" else 255 - old,
    ]
    with np.errstate(all="ignore"):
        if rng.random() < 0.15:
            del tensors[name]
        elif rng.random() < 0.3 and old.ndim and len(old) > 1 and old.dtype != np.uint8:
            tensors[name] = np.ascontiguousarray(np.roll(old, 1, axis=0))
        elif rng.random() < 0.3 and old.dtype == np.uint8 and old.size:
            lines = old.tobytes().split(b"\n")
            lines[rng.randrange(len(lines))] = rng.choice((b"1/1", b"-3/2", b"5/7", b"10/1"))
            tensors[name] = np.frombuffer(b"\n".join(lines), dtype=np.uint8)
        elif rng.random() < 0.5 and old.size:
            copied = old.copy()
            extremes = (
                (np.nan, np.inf, 1e308, -1e308, 0.0, 1e-320)
                if old.dtype.kind == "f"
                else tuple(b"0123456789abcdef/-\n\xff")
                if old.dtype == np.uint8
                else (-1, 0, 1, 2**31, 2**62, -(2**63))
            )
            for _ in range(rng.choice((1, 1, 3))):
                copied.flat[rng.randrange(old.size)] = rng.choice(extremes)
            tensors[name] = copied
        else:
            tensors[name] = np.ascontiguousarray(rng.choice(changes)())
