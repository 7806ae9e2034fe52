"""Sealed files: tensors, a description as JSON, and a SHA-256 over both, in one safetensors file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import ExactformerError, FileFormatError

Tensors = dict[str, NDArray[Any]]
Read = TypeVar("Read")


def sealed(format: str, description: object, tensors: Tensors) -> dict[str, str]:
    """Return the header of a file of ``format``: what it holds, and its seal."""
    text = json.dumps(description, sort_keys=True)
    return {"format": format, "blueprint": text, "seal": _seal(format, text, tensors)}


def has_format(path: str | Path, format: str) -> bool:
    """Whether a file says that it is of ``format``."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return (file.metadata() or {}).get("format") == format
    except (SafetensorError, OSError, ValueError):
        return False


def read_sealed(
    path: str | Path, format: str, what: str, rebuild: Callable[[Any, Tensors], Read]
) -> Read:
    """Read a file and rebuild ``what`` it holds; anything that is not what was saved raises."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError(f"{path} is truncated or not a safetensors file: {error}") from None
    if header.get("format") != format:
        raise FileFormatError(f"{path} holds no {what} (expected format {format!r})")
    try:
        if header["seal"] != _seal(format, header["blueprint"], tensors):
            raise FileFormatError(f"{path} is not what was saved: its seal is broken")
        return rebuild(json.loads(header["blueprint"]), tensors)
    except FileFormatError:
        raise
    except (ExactformerError, KeyError, TypeError, ValueError, IndexError) as error:
        raise FileFormatError(f"{path} does not describe a {what}: {error}") from None


def _seal(format: str, description: str, tensors: Mapping[str, NDArray[Any]]) -> str:
    content = hashlib.sha256((format + description).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        content.update(f"{name}{tensor.dtype}{tensor.shape}".encode())
        content.update(np.ascontiguousarray(tensor).tobytes())
    return content.hexdigest()
