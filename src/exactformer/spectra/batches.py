"""Inputs as models take them: one tensor, named tensors, a tuple of tensors, or many such batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.spectra.preparation import float_dtype

_KINDS = (
    "give a tensor, a dictionary of tensors such as a tokenizer returns, a tuple of tensors, or a "
    "list, generator or DataLoader of these"
)


@dataclass(frozen=True)
class Batch:
    """Arguments of one call of a model."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def as_taken_by(self, model: nn.Module) -> Batch:
        """Return the batch on the device and in the format of a model; what is on the CPU travels."""
        device = next(model.parameters(), torch.empty(0)).device
        dtype = float_dtype(model)
        return self._each(self.values, lambda value: _moved(value, device, dtype))

    def _each(self, some: Iterable[Any], change: Callable[[Any], Any]) -> Batch:
        """Change some arguments; one that is given twice stays one."""
        changed = {id(v): v for v in self.values} | {id(v): change(v) for v in some}
        named = {name: changed[id(value)] for name, value in self.kwargs.items()}
        return Batch(tuple(changed[id(value)] for value in self.args), named)

    @property
    def values(self) -> tuple[Any, ...]:
        """All arguments, without their names."""
        return (*self.args, *self.kwargs.values())

    def call(self, model: nn.Module) -> Any:
        """Run a model on it."""
        return model(*self.args, **self.kwargs)

    @property
    def lengths(self) -> list[int]:
        """Lengths of the first axes of all arguments, 0 where there is none."""
        return [len(v) if isinstance(v, Tensor) and v.ndim else 0 for v in self.values]

    def rows(self, rows: list[int], places: Iterable[int]) -> Batch:
        """Return the batch with some rows of the arguments at the given places."""
        values = self.values
        return self._each([values[place] for place in places], lambda value: value[rows])

    def first(self, count: int, size: int) -> Batch:
        """Return the first inputs of ``size``; all of them where a tensor does not count them first."""
        tensors = [i for i, v in enumerate(self.values) if isinstance(v, Tensor)]
        if count >= size or any(self.lengths[place] != size for place in tensors):
            return self
        return self.rows(list(range(count)), tensors)

    def __str__(self) -> str:
        named = [("", value) for value in self.args]
        named += [(f"{name}: ", value) for name, value in self.kwargs.items()]
        kinds = (
            f"{name}{getattr(v, 'dtype', type(v).__name__)} {tuple(getattr(v, 'shape', ()))}"
            for name, v in named
        )
        return f"inputs {', '.join(kinds)}"

    def named(self, name: str) -> Tensor | None:
        """Return a tensor by its name, if the batch has it."""
        value = self.kwargs.get(name)
        return value if isinstance(value, Tensor) else None


def batches(inputs: Any) -> Iterator[Batch]:
    """Yield the batches of whatever a user gives; refuse what is no input, and no input at all."""
    empty = True
    for batch in _batches(inputs):
        empty = False
        yield batch
    if empty:
        raise InputError(f"there are no inputs: {_KINDS}")


def count(inputs: Any) -> int | None:
    """Return how many batches there are, if that is known without running through them."""
    if isinstance(inputs, Tensor | Mapping) or _is_call(inputs):
        return 1
    try:
        return len(inputs)
    except TypeError:
        return None


def _batches(inputs: Any) -> Iterator[Batch]:
    if isinstance(inputs, str | bytes | int | float | None):
        raise InputError(f"inputs are {type(inputs).__name__}: {_KINDS}")
    if isinstance(inputs, Tensor | Mapping) or _is_call(inputs):
        yield _batch(inputs)
        return
    try:
        iterator = iter(inputs)
    except TypeError:
        raise InputError(f"inputs are {type(inputs).__name__}: {_KINDS}") from None
    for item in iterator:
        yield _batch(item)


def _batch(item: Any) -> Batch:
    if isinstance(item, Mapping):
        if not any(isinstance(value, Tensor) for value in item.values()):
            raise InputError(f"a batch names no tensor ({', '.join(map(str, item))}): {_KINDS}")
        batch = Batch((), {str(name): value for name, value in item.items()})
    elif isinstance(item, Tensor):
        batch = Batch((item,))
    elif _is_call(item):
        batch = Batch(tuple(item))
    else:
        what = "text: tokenize it first, or give tokenizer=" if isinstance(item, str) else _KINDS
        raise InputError(f"a batch is {type(item).__name__}: {what}")
    for value in batch.values:
        if isinstance(value, Tensor) and not value.numel():
            raise InputError(f"a batch holds a tensor of shape {tuple(value.shape)}: nothing in it")
        if _is_float(value) and not torch.isfinite(value[~torch.isinf(value)]).all():
            raise InputError("a batch holds NaN")
    return batch


def _is_call(value: Any) -> bool:
    """Whether a tuple is the arguments of one call: tensors, or None between them."""
    return (
        isinstance(value, tuple)
        and any(isinstance(v, Tensor) for v in value)
        and all(v is None or isinstance(v, Tensor) for v in value)
    )


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _moved(value: Any, device: torch.device, dtype: torch.dtype) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.device not in (device, torch.device("cpu")):
        raise InputError(
            f"an input is on {value.device} and the model on {device}: give inputs there, or on the "
            "CPU"
        )
    return value.to(device, dtype if _is_float(value) else value.dtype)
