"""Asking a sequence map for its values: a module, one layer inside it, or exact arithmetic.

A sequence map takes (batch, n, d) numbers or (batch, n) token ids and returns (batch, n, c) or
(batch, n). What a model of Hugging Face returns counts by its ``last_hidden_state``, a tuple by its
first member. Modules are asked in evaluation mode, without gradients, and left as they were.

Something with a method ``exact`` is asked there instead: ``exact(x)`` takes one input as an (n, d)
array of Fractions and returns its n values, or n rows of values, as rational numbers. A model of which
something is not rational (softmax) raises ExecutionError there, and is asked in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from exactformer.errors import ExecutionError, InputError

SequenceMap = Callable[..., Any]


def has_exact(module: object, x: NDArray[Any]) -> bool:
    """Whether ``module`` can be asked in exact arithmetic, tried at the input ``x`` (n, d)."""
    if not callable(getattr(module, "exact", None)):
        return False
    try:
        exact_values(module, x)
    except ExecutionError:
        return False
    return True


def exact_values(module: Any, x: NDArray[Any]) -> list[tuple[Fraction, ...]]:
    """Return one tuple of rationals for each token of the input ``x`` (n, d)."""
    rational = np.frompyfunc(_fraction, 1, 1)(x)
    values = np.asarray(module.exact(rational), dtype=object)
    if values.ndim not in (1, 2) or len(values) != len(x):
        raise InputError(
            f"exact() returned shape {values.shape} for {len(x)} tokens; it has to return one value "
            "or one row of values for each."
        )
    return [tuple(map(_fraction, row)) for row in values.reshape(len(x), -1)]


def _fraction(value: Any) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int | float | np.number):
        return Fraction(value.item() if isinstance(value, np.number) else value)
    return Fraction(int(value.p), int(value.q))  # flint's rationals


def values(
    module: SequenceMap, inputs: NDArray[Any], layer: str | None = None, batch: int = 256
) -> Tensor:
    """Return the values (batch, n, c) at ``inputs``, or what the submodule ``layer`` returns there."""
    with torch.no_grad(), _at_rest(module), _listening(module, layer) as heard:
        parts = []
        for rows in np.array_split(inputs, -(-len(inputs) // batch)):
            answer = module(_tensor(rows, module))
            if layer is not None:
                if not heard:
                    raise InputError(f"the layer {layer!r} was not used in a call of the module.")
                answer = heard.pop()
                heard.clear()
            parts.append(_rows(answer, rows.shape[:2]))
    return torch.cat(parts)


def _tensor(rows: NDArray[Any], module: SequenceMap) -> Tensor:
    if rows.dtype == object or (rows.ndim == 3 and rows.dtype.kind != "f"):
        rows = rows.astype(np.float64)  # integers in two dimensions are the ids of tokens
    tensor = torch.as_tensor(np.ascontiguousarray(rows))
    parameter = next(module.parameters(), None) if isinstance(module, nn.Module) else None
    if parameter is None:
        return tensor
    kind = parameter.dtype if tensor.is_floating_point() else torch.int64
    return tensor.to(parameter.device, kind)


def _rows(answer: Any, shape: Sequence[int]) -> Tensor:
    answer = getattr(answer, "last_hidden_state", answer)
    if isinstance(answer, tuple | list):
        answer = answer[0]
    found = answer if isinstance(answer, Tensor) else torch.as_tensor(np.asarray(answer))
    if found.ndim not in (2, 3) or tuple(found.shape[:2]) != tuple(shape):
        raise InputError(
            f"the module returned shape {tuple(found.shape)} for {shape[0]} inputs of {shape[1]} "
            "tokens; a sequence map returns (batch, tokens) or (batch, tokens, values)."
        )
    if not torch.isfinite(found).all():
        raise InputError("the module returned values that are infinite or not numbers.")
    return found.reshape(*shape, -1)


@contextmanager
def _at_rest(module: SequenceMap) -> Iterator[None]:
    """Put a module into evaluation mode for a while; each part gets its own mode back."""
    parts = list(module.modules()) if isinstance(module, nn.Module) else []
    modes = [part.training for part in parts]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


@contextmanager
def _listening(module: SequenceMap, layer: str | None) -> Iterator[list[Any]]:
    """Collect what the submodule ``layer`` returns while calls are made inside."""
    heard: list[Any] = []
    if layer is None:
        yield heard
        return
    if not isinstance(module, nn.Module):
        raise InputError("layer= names a submodule; a plain callable has none.")
    try:
        part = module.get_submodule(layer)
    except AttributeError as error:
        known = ", ".join(name for name, _ in module.named_children())
        raise InputError(f"{error}; the module's parts are {known}.") from None
    hook = part.register_forward_hook(lambda _part, _inputs, output: heard.append(output))
    try:
        yield heard
    finally:
        hook.remove()
