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

from exactformer.core import files as sealing
from exactformer.polynomials import files as storing

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

    format: str
    description: Any
    tensors: Tensors

    @classmethod
    def read(cls, path: Path) -> File:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata()
        return cls(metadata["format"], json.loads(metadata["blueprint"]), load_file(path))

    def written(self, path: Path, text: str | None = None) -> None:
        """Write with a seal that fits; ``text`` in place of the description's JSON."""
        path.write_bytes(save(self.tensors, metadata=self.header(text)))

    def header(self, text: str | None = None) -> dict[str, str]:
        text = json.dumps(self.description, sort_keys=True) if text is None else text
        if self.format != storing.FORMAT:
            seal = sealing._seal(self.format, text, self.tensors)
            return {"format": self.format, "blueprint": text, "seal": seal}
        names = [n.removesuffix(".place") for n in self.tensors if n.endswith(".place")]
        known = [n for n in names if f"{n}.value" in self.tensors]
        digests = {n: storing._digest(self.tensors, n) for n in known}
        seal = storing._seal(text, digests)
        sums = json.dumps(digests, sort_keys=True)
        return {"format": self.format, "blueprint": text, "digests": sums, "seal": seal}


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Yield the place of every part of a JSON value."""
    yield here
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*here, key))


def forged(file: File, rng: random.Random) -> File:
    """Return the file with one to three things changed, anything anywhere."""
    description, tensors = copy.deepcopy(file.description), dict(file.tensors)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.75:
            description = _forged_header(description, rng)
        else:
            _forge_tensor(tensors, rng)
    return File(file.format, description, tensors)


def _forged_header(description: Any, rng: random.Random) -> Any:
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
