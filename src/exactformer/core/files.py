"""Sealed files: one safetensors format for the blueprints of every family.

A file holds tensors (:mod:`exactformer.core.pool`) and four texts: the format, the kind of model, the
content as JSON (:mod:`exactformer.core.codec`), and the seal, a SHA-256 over these three. The content
has a digest of every matrix, so that the error about a damaged file names the matrix. Seals protect
against accidents; certificates against everything else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from exactformer.core import header
from exactformer.core.codec import Schema
from exactformer.core.idleness import check_idleness
from exactformer.core.pool import Reader, Tensors, Writer, digest_of
from exactformer.core.whole_files import write_bytes
from exactformer.errors import ExactformerError, FileFormatError

Stored = TypeVar("Stored")
Finished = TypeVar("Finished")

FORMAT = "exactformer-1"
TYPES = ("U8", "I64", "F64")
"""The types of tensors that files hold: texts, places and values."""


class FileKind(Generic[Stored]):
    """A kind of model in files: its name, and the dataclass that a file holds.

    ``variants``, ``large`` and ``values`` are those of :class:`Schema`.
    """

    def __init__(
        self,
        name: str,
        stored: type[Stored],
        variants: Iterable[type] = (),
        large: Iterable[str] = (),
        values: Iterable[str] = (),
    ) -> None:
        self.name = name
        self._codec = Schema(variants, large, values).codec(stored)

    def save(self, value: Stored, path: str | Path) -> None:
        """Write a file; an existing one is replaced only once all is written."""
        from safetensors.numpy import save

        writer, metadata = self._encoded(value)
        write_bytes(save(writer.tensors(), metadata=metadata), path)

    def digest(self, value: Stored) -> str:
        """Return a SHA-256 over every weight and name: equal for equal values only."""
        return self._encoded(value)[1]["seal"]

    def load(
        self, path: str | Path, finish: Callable[[Stored], Finished], verify: bool = True
    ) -> Finished:
        """Read a file, check every value for type and range, and return what ``finish`` makes of it.

        Whatever is wrong is raised as one kind of error, with the path. ``verify=False`` leaves out the
        comparison with seal and digests. The kinds of exception that are not this package's own are the
        last line of defence, for this one step only.
        """
        tensors, metadata = _read(path, self.name)
        try:
            return finish(self._decoded(tensors, metadata, verify))
        except FileFormatError as error:
            raise type(error)(f"{path}: {error}") from None
        except (ExactformerError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise FileFormatError(f"{path} does not describe a {self.name}: {error}") from None

    def _encoded(self, value: Stored) -> tuple[Writer, dict[str, str]]:
        writer = Writer()
        model = self._codec.encode(writer, value, "")
        content = json.dumps({"model": model, **writer.description()}, sort_keys=True)
        return writer, sealed(self.name, content)

    def _decoded(self, tensors: Tensors, metadata: dict[str, str], verify: bool) -> Stored:
        if not {"seal", "content"} <= metadata.keys():
            raise FileFormatError("the file has a damaged header; save the model again")
        if verify and metadata != sealed(self.name, metadata["content"]):
            raise FileFormatError("the description is not what was saved: its seal is broken")
        content = header.mapping(header.parse(metadata["content"]), "the content")
        reader = Reader(content, tensors, verify)
        value: Stored = self._codec.decode(reader, header.entry(content, "model"), "")
        reader.check_all_used()
        check_idleness(reader.parts)
        return value


def sealed(kind: str, content: str) -> dict[str, str]:
    """Return the texts of a file's header."""
    seal = digest_of(f"{FORMAT}\n{kind}\n{content}".encode())
    return {"format": FORMAT, "kind": kind, "content": content, "seal": seal}


def kind_of(path: str | Path) -> str | None:
    """Return the kind of model that a file states; ``None`` where it is not a file of this format."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError):
        return None
    return metadata.get("kind") if metadata.get("format") == FORMAT else None


def _read(path: str | Path, kind: str) -> tuple[Tensors, dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileFormatError(f"{path} does not exist or is not a file")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata, kind)
            names = list(file.keys())
            for name in names:
                if (found := str(file.get_slice(name).get_dtype())) not in TYPES:
                    raise FileFormatError(
                        f"{path}: the tensor {name[:40]} is of type {found}; models are stored as "
                        f"{', '.join(TYPES)}"
                    )
            return {name: file.get_tensor(name) for name in names}, metadata
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError(f"{path} is truncated or not a safetensors file: {error}") from None


def _check_format(path: str | Path, metadata: dict[str, str], kind: str) -> None:
    format, found = metadata.get("format", ""), metadata.get("kind", "")
    if format.startswith("exactformer-") and format != FORMAT:
        raise FileFormatError(
            f"{path} was written by another version of exactformer (format {format[:40]!r}); this one "
            f"reads {FORMAT!r}. Compile the model again and save it"
        )
    if format != FORMAT:
        raise FileFormatError(
            f"{path} is a safetensors file but not one of exactformer's: it holds no {kind} model "
            f"(format {format[:40]!r}, expected {FORMAT!r})"
        )
    if found != kind:
        raise FileFormatError(f"{path} holds a model of the kind {found[:40]!r}, not a {kind}")
