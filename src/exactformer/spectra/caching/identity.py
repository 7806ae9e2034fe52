"""Digests of models: whether two of them compute the same, and which one filled a cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from weakref import ref

import torch
from torch import Tensor

_ORIGIN = ("_name_or_path", "architectures", "dtype", "transformers_version")
"""Entries of a configuration that say where a model came from, not what it computes."""


def digest_of(tensors: Mapping[str, Tensor], facts: Any = None) -> str:
    """Return a SHA-256 of named tensors, with types and shapes, and of facts that JSON can hold."""
    digest = sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        numbers: Any = tensor.cpu().contiguous().flatten().view(torch.uint8).numpy()
        digest.update(numbers)
    return digest.hexdigest()


def identity(model: Any) -> str:
    """Return a SHA-256 of all weights and buffers of a model, and of its configuration."""
    tensors = dict((*model.named_parameters(), *model.named_buffers()))
    return digest_of(tensors, _computed(model.config.to_dict()))


def _computed(config: dict[Any, Any]) -> dict[Any, Any]:
    """Return a configuration without its origin."""
    return {
        name: _computed(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name not in _ORIGIN
    }


class Filler:
    """The model whose latents a cache holds, as it was then.

    The model itself is recognised without reading a weight. Weights are read when another object
    comes: a copy, or the same model loaded again. A model that has changed since, or that no longer
    exists, cannot be compared.
    """

    def __init__(self, model: Any) -> None:
        """Refer to a model that counts its ``changes()``, or to an identity as text."""
        self._known = model if isinstance(model, str) else ref(model)
        self._changes = 0 if isinstance(model, str) else model.changes()

    def is_itself(self, model: Any) -> bool:
        """Whether this is the very object, unchanged."""
        return self._unchanged() is model

    def equals(self, model: Any) -> bool:
        """Whether a model has the same weights, to the bit, and the same configuration."""
        known = self._identity()
        return known is not None and known == identity(model)

    def _unchanged(self) -> Any:
        """Return the model; ``None`` where it is not there as it was."""
        model = None if isinstance(self._known, str) else self._known()
        return model if model is not None and model.changes() == self._changes else None

    def _identity(self) -> str | None:
        if isinstance(self._known, str):
            return self._known
        model = self._unchanged()
        return None if model is None else identity(model)

    def __deepcopy__(self, memo: Any) -> Filler:
        return self

    def __reduce__(self) -> Any:
        return Filler, (self._identity() or "gone",)
