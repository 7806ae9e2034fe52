"""The two primitives in which queries and keys of most models meet.

    scaled_dot_product_attention(q, k, v, …)     what most models of today end in
    multi_head_attention_forward(x, y, z, …)     torch.nn.MultiheadAttention

A torch function mode sees each call with the very tensors that meet in the product: after biases,
rotary positions and norms. So nothing of a model has to be known or written again. :class:`Reading`
hands them on, :class:`Turning` puts other queries in their place.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from exactformer.errors import InputError
from exactformer.spectra.errors import ExtractionError

_DOT_PRODUCT = functional.scaled_dot_product_attention
_MULTI_HEAD = functional.multi_head_attention_forward
_SIGNATURE = inspect.signature(_MULTI_HEAD)


@dataclass(frozen=True)
class Attention:
    """One product of queries and keys, as the model passed it on."""

    queries: Tensor
    """(B, heads, τ_q, m), not yet times the scale."""
    keys: Tensor
    """(B, heads or kv_heads, τ_k, m)."""
    mask: Tensor | None = None
    """Added to the scores, or true where a key is seen; broadcasts to (B, heads, τ_q, τ_k)."""
    causal: bool = False
    scale: float = 1.0
    probabilities: Tensor | None = None
    """The model's own attention (B, heads, τ_q, τ_k), where it is asked for."""
    added_keys: int = 0
    """Keys at the end that are no tokens (``bias_k``, ``add_zero_attn``)."""
    same: bool | None = None
    """Whether queries and keys are of the same tokens, where known."""


class Reading(TorchFunctionMode):
    """Hands on each attention; ``whole`` asks the primitive for its probabilities, too.

    The operators that a primitive consists of run inside ``accounted``: they are read already.
    """

    def __init__(
        self,
        attention: Callable[[Attention], None],
        accounted: Callable[[], AbstractContextManager[None]],
        whole: bool = False,
    ) -> None:
        super().__init__()
        self._attention, self._accounted, self._whole = attention, accounted, whole

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Carry a call out; hand on what it attends with if it is a primitive."""
        kwargs = kwargs or {}
        result: Any
        if func is _DOT_PRODUCT:
            with self._accounted():
                result = func(*args, **kwargs)
                self._attention(_of_dot_product(_dot_product(*args, **kwargs), self._whole))
        elif func is _MULTI_HEAD:
            with self._accounted():
                result = func(*args, **kwargs)
                self._attention(_of_multi_head(_multi_head(args, kwargs), self._whole))
        else:
            result = func(*args, **kwargs)
        return result


class Turning(TorchFunctionMode):
    """Multiplies queries by a matrix per head, where ``matrix`` has one for the module that runs.

    ``matrix`` is given the number of heads and their size, and a tensor for device and format.
    """

    def __init__(self, matrix: Callable[[int, int, Tensor], Tensor | None]) -> None:
        super().__init__()
        self._matrix = matrix

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Carry a call out; one of a primitive with other queries."""
        kwargs = kwargs or {}
        if func is _DOT_PRODUCT:
            call = _dot_product(*args, **kwargs)
            query = call["query"]
            heads = query.shape[1] if query.ndim == 4 else 1
            matrix = self._matrix(heads, query.shape[-1], query)
            if matrix is not None:
                return func(
                    **call | {"query": _times(query, matrix if query.ndim == 4 else matrix[0])}
                )
        elif func is _MULTI_HEAD:
            call = _multi_head(args, kwargs)
            x, heads = call["query"], call["num_heads"]
            matrix = self._matrix(heads, x.shape[-1] // heads, x)
            if matrix is not None:
                return func(**_turned(call, matrix))
        return func(*args, **kwargs)


def _dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **named: Any,
) -> dict[str, Any]:
    """Return the arguments of a call by name; refuse one that is not a function of its inputs."""
    _check_dropout(dropout_p)
    call = {"query": query, "key": key, "value": value, "attn_mask": attn_mask}
    return {**call, "dropout_p": dropout_p, "is_causal": is_causal, **named}


def _multi_head(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    call = dict(_SIGNATURE.bind(*args, **kwargs).arguments)
    _check_dropout(call["dropout_p"] if call.get("training", True) else 0.0)
    if call.get("static_k") is not None or call.get("static_v") is not None:
        raise ExtractionError("multi_head_attention_forward with static_k or static_v is not read")
    return call


def _check_dropout(share: float) -> None:
    if share:
        raise InputError(
            f"attention is dropped at random (dropout_p={share}), so its scores are not a function of "
            "the input: set dropout to 0"
        )


def _of_dot_product(call: dict[str, Any], whole: bool) -> Attention:
    query, key, mask = call["query"], call["key"], call["attn_mask"]
    if query.ndim == 3:  # no axis for heads: there is one
        query, key = query.unsqueeze(1), key.unsqueeze(1)
        if mask is not None and mask.ndim == 3:
            mask = mask.unsqueeze(1)
    scale = call.get("scale")
    own = None
    if whole and query.ndim == 4:
        one = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device)
        values = one.expand(*key.shape[:2], -1, -1)
        asked = {"query": query, "key": key, "value": values, "attn_mask": mask}
        own = _DOT_PRODUCT(**call | asked)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return Attention(query, key, mask, bool(call["is_causal"]), factor, own)


def _of_multi_head(call: dict[str, Any], whole: bool) -> Attention:
    """Project as ``multi_head_attention_forward`` does; its inputs are (τ, B, width)."""
    x, y, heads = call["query"], call["key"], call["num_heads"]
    batched = x.ndim == 3
    rows = (t if batched else t.unsqueeze(1) for t in (x, y))
    biases = (None,) * 3 if call.get("in_proj_bias") is None else call["in_proj_bias"].chunk(3)
    if call.get("use_separate_proj_weight"):
        weights = (call["q_proj_weight"], call["k_proj_weight"])
    else:
        weights = call["in_proj_weight"].chunk(3)[:2]
    queries, keys = (
        functional.linear(t, w, b) for t, w, b in zip(rows, weights, biases[:2], strict=True)
    )
    added = 0
    if call.get("bias_k") is not None:
        keys, added = torch.cat([keys, call["bias_k"].expand(1, *keys.shape[1:])]), added + 1
    if call.get("add_zero_attn"):
        keys, added = torch.cat([keys, keys.new_zeros(1, *keys.shape[1:])]), added + 1
    batch = queries.shape[1]
    queries, keys = (t.view(*t.shape[:2], heads, -1).permute(1, 2, 0, 3) for t in (queries, keys))
    probabilities = None
    if whole:
        asked = call | {"need_weights": True, "average_attn_weights": False}
        own: Any = _MULTI_HEAD(**asked)[1]
        probabilities = own if batched else own.unsqueeze(0)
    masks = (call.get("attn_mask"), call.get("key_padding_mask"))
    return Attention(
        queries,
        keys,
        _joined_masks(*masks, batch, queries.dtype, added),
        scale=1 / math.sqrt(queries.shape[-1]),
        probabilities=probabilities,
        added_keys=added,
        same=x.data_ptr() == y.data_ptr() and x.shape == y.shape,
    )


def _joined_masks(
    attn_mask: Tensor | None, padding: Tensor | None, batch: int, dtype: torch.dtype, added: int
) -> Tensor | None:
    """Return the two masks of ``torch.nn.MultiheadAttention``, in which true hides, as one to add."""
    total: Tensor | None = None
    keys = None if padding is None else padding.view(-1, 1, 1, padding.shape[-1])
    for mask in (attn_mask, keys):
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
        if mask.ndim == 3:
            mask = mask.view(batch, -1, *mask.shape[-2:])
        mask = functional.pad(mask, (0, added)).to(dtype)
        total = mask if total is None else total + mask
    return total


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """Multiply in the matrix's format, single precision or better; return the format of ``x``."""
    with torch.autocast(x.device.type, enabled=False):
        return (x.to(matrix.dtype) @ matrix).to(x.dtype)


def _turned(call: dict[str, Any], matrix: Tensor) -> dict[str, Any]:
    """Return a call whose queries W x + b are multiplied by a matrix per head: Mᵀ(W x + b)."""
    width = call["query"].shape[-1]

    def turn(rows: Tensor) -> Tensor:
        by_head = rows.reshape(len(matrix), matrix.shape[-1], -1)
        return _times(by_head.mT, matrix).mT.reshape(rows.shape)

    changed: dict[str, Any] = {}
    name = "q_proj_weight" if call.get("use_separate_proj_weight") else "in_proj_weight"
    for part in (name, "in_proj_bias"):
        if (rows := call.get(part)) is not None:
            changed[part] = torch.cat([turn(rows[:width]), rows[width:]])
    return call | changed
