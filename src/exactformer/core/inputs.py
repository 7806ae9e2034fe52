"""Inputs of a model as tensors: arrays and lists, checked, and never rounded silently."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exactformer.errors import ExecutionError, InputError

is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)


_KINDS = {"b": "truth values", "c": "complex numbers", "U": "texts", "M": "dates", "m": "times"}


def is_recording() -> bool:
    """Whether ``torch.jit.trace`` is recording: what depends on the data is baked in as it is now."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


def as_tensor(x: Any, dtype: torch.dtype, device: torch.device, name: str) -> Tensor:
    """Return real numbers as a plain strided tensor.

    Tensors and arrays keep their type; numbers in lists are read as the nearest of ``dtype``.
    """
    if hasattr(type(x), "columns"):
        raise InputError(
            f"{name} have no names that the columns of a table could match; give frame.to_numpy(), "
            "columns in the order of the tokens"
        )
    tensor = x if isinstance(x, Tensor) else _read(x, dtype, device, name)
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise InputError(f"{name} must be dense tensors, not {tensor.layout} of {tensor.dtype}")
    if tensor.is_complex() or tensor.dtype == torch.bool or _is_tiny(tensor.dtype):
        raise InputError(f"{name} must be real numbers, not {tensor.dtype}")
    return tensor.resolve_neg()  # kernels read the memory, which a lazy minus sign is not in


def has_values(tensor: Tensor) -> bool:
    """Whether data can be looked at: not on the meta device, nor where ``torch.vmap`` is at work."""
    if tensor.is_meta:
        return False
    if torch._C._are_functorch_transforms_active():
        try:
            bool((tensor.detach() == 0).any())
        except RuntimeError:  # what vmap says
            return False
    return True


def check_values(tensor: Tensor, name: str) -> None:
    """Raise where nothing can be said of the data, whose values a model has to check."""
    if not has_values(tensor):
        raise ExecutionError(
            f"these {name} have no values to check: they are vectorised, or on the meta device"
        )


def by_name(x: Any, variables: Sequence[str], columns: Sequence[str] = ()) -> Any:
    """Return the columns of a DataFrame, or the entries of its row, in the order of ``variables``.

    ``columns`` are what a table calls the variables, where that differs. Anything without names is
    returned as it is.
    """
    if hasattr(type(x), "columns"):
        labels = list(x.columns)
    elif hasattr(type(x), "iloc") and any(isinstance(label, str) for label in x.index):
        labels = list(x.index)
    else:
        return x
    for names in (columns or variables, variables):
        if len(labels) == len(names) and set(labels) == set(names):
            return x[list(names)].to_numpy()
    names, word = (columns, "columns") if columns else (variables, "variables")
    raise InputError(
        f"the table has the columns {_listed(labels)}, the model the {word} {_listed(names)}; "
        f"choose them by frame[list(model.{word})], or give frame.to_numpy() for columns in that "
        "order"
    )


def with_coordinates(points: Tensor, variables: Sequence[str]) -> Tensor:
    """Return points with their coordinates on the last axis; raise if they have other ones.

    Of one variable, a number is a point and n ≠ 1 numbers in a row are n points.
    """
    if len(variables) == 1 and points.dim() < 2 and points.shape != (1,):
        return points[..., None]
    if points.dim() == 0 or points.shape[-1] != len(variables):
        raise InputError(
            f"points need {len(variables)} coordinates ({', '.join(variables)}) on the last axis; the "
            f"shape is {tuple(points.shape)}{'; give x[..., None]' if len(variables) == 1 else ''}"
        )
    return points


def coordinates(point: Any) -> Iterable[Any]:
    """Return the coordinates of one point; a number is a point of one."""
    try:
        if getattr(point, "ndim", int(isinstance(point, Iterable))):
            return point.tolist() if hasattr(point, "tolist") else list(point)
        return [point.item() if hasattr(point, "item") else point]
    except (TypeError, RuntimeError) as error:  # what tensors say that have no values, or no rows
        raise InputError(f"a point is a row of numbers: {error}") from None


def converted(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """Return the tensor in another format; raise where a number would be rounded."""
    rounded = tensor.to(dtype)
    if narrows(tensor.dtype, dtype) and (
        is_exporting()
        or is_recording()
        or not torch.equal(_comparable(rounded.to(tensor.dtype)), _comparable(tensor))
    ):
        raise InputError(
            f"{name} are {tensor.dtype}, the model computes in {dtype}: rounding them is not covered "
            "by the certificate; convert them, or compile with that dtype"
        )
    return rounded


def narrows(source: torch.dtype, target: torch.dtype) -> bool:
    """Whether some numbers of a format are not among those of another one."""
    return not source.is_floating_point or torch.promote_types(source, target) != target


def _read(x: Any, dtype: torch.dtype, device: torch.device, name: str) -> Tensor:
    symbolic = sys.modules.get("torch.fx")
    if symbolic is not None and isinstance(x, symbolic.Proxy):
        raise ExecutionError(
            f"torch.fx gives {name} without values, which cannot be checked; make the model a leaf of "
            "the tracer, or use torch.export"
        )
    try:
        if not hasattr(x, "__array__"):
            # What would be converted by losing a part of it: an imaginary one, a unit of time.
            if (kind := np.asarray(x).dtype.kind) not in "iufO":
                raise TypeError(f"a list of {_KINDS.get(kind, 'other things')}")
            array = np.asarray(x, dtype=np.float64)
            return torch.as_tensor(array, device=device).to(dtype)
        if np.ma.is_masked(x):
            raise ValueError("some are masked")
        array = np.asarray(x)
        # Torch takes neither negative strides nor, without a warning, what cannot be written to.
        if any(stride < 0 for stride in array.strides) or not array.flags.writeable:
            array = array.copy()
        return torch.as_tensor(array, device=device)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None


def _comparable(tensor: Tensor) -> Tensor:
    """Return numbers with zeros for NaN, which equals nothing."""
    return tensor.nan_to_num(0.0, inf, -inf)


def _listed(names: Sequence[object], most: int = 12) -> str:
    shown = ", ".join(str(name)[:60] for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _is_tiny(dtype: torch.dtype) -> bool:
    """Whether a format is below half precision: torch converts such numbers but does not compute."""
    return dtype.is_floating_point and dtype.itemsize < 2
