"""Sealed files: tensors, a description as JSON, and a SHA-256 over both, in one safetensors file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from exactformer.core import header
from exactformer.errors import ExactformerError, FileFormatError

Tensors = dict[str, NDArray[Any]]
Read = TypeVar("Read")

KINDS = ("U8", "I64", "F64")
"""The types of tensors that files hold: texts, places and values."""


def sealed(format: str, description: object, tensors: Tensors) -> dict[str, str]:
    """Return the header of a file of ``format``: what it holds, and its seal."""
    text = json.dumps(description, sort_keys=True)
    return {"format": format, "blueprint": text, "seal": _seal(format, text, tensors)}


def format_of(path: str | Path) -> str | None:
    """Return the format that a file states; ``None`` where it is not a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return (file.metadata() or {}).get("format")
    except (SafetensorError, OSError, ValueError):
        return None


def write_tensors(tensors: Tensors, metadata: dict[str, str], path: str | Path) -> None:
    """Write a safetensors file; an existing one is replaced only once all is written."""
    from safetensors.numpy import save

    target = Path(path)
    if target.exists() and not target.is_file():
        raise FileFormatError(f"cannot write {target}: it is not a plain file")
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_bytes(save(tensors, metadata=metadata))
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise FileFormatError(f"cannot write {target}: {error.strerror or error}") from None


def read_tensors(path: str | Path, format: str, what: str) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors and the header of a file of ``format``."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileFormatError(f"{path} does not exist or is not a file")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != format:
                raise FileFormatError(
                    f"{path} is a safetensors file but not one of exactformer's: it holds no {what} "
                    f"(format {str(metadata.get('format'))[:40]!r}, expected {format!r})"
                )
            names = list(file.keys())
            kinds = {name: str(file.get_slice(name).get_dtype()) for name in names}
            if strange := [name for name in names if kinds[name] not in KINDS]:
                raise FileFormatError(
                    f"{path}: the tensor {strange[0][:40]} is of type {kinds[strange[0]]}; models are "
                    f"stored as {', '.join(KINDS)}"
                )
            return {name: file.get_tensor(name) for name in names}, metadata
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError(f"{path} is truncated or not a safetensors file: {error}") from None


def read_sealed(
    path: str | Path, format: str, what: str, rebuild: Callable[[Any, Tensors], Read]
) -> Read:
    """Read a file and rebuild ``what`` it holds; anything that is not what was saved raises."""
    tensors, metadata = read_tensors(path, format, what)
    if not {"seal", "blueprint"} <= metadata.keys():
        raise FileFormatError(f"{path} has a damaged header; save the model again")
    if metadata["seal"] != _seal(format, metadata["blueprint"], tensors):
        raise FileFormatError(f"{path} is not what was saved: its seal is broken")
    return rebuilt(path, what, lambda: rebuild(header.parse(metadata["blueprint"]), tensors))


def rebuilt(path: str | Path, what: str, rebuild: Callable[[], Read]) -> Read:
    """Call ``rebuild``; whatever is wrong with the file is raised as one kind of error, with its path.

    The header is read by type and range (:mod:`exactformer.core.header`). The kinds of exception
    that are not this package's own are the last line of defence, for this one step only.
    """
    try:
        return rebuild()
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
    except (ExactformerError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} does not describe a {what}: {error}") from None


def _seal(format: str, description: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    content = hashlib.sha256((format + description).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        content.update(f"{name}{tensor.dtype}{tensor.shape}".encode())
        content.update(np.ascontiguousarray(tensor).tobytes())
    return content.hexdigest()
