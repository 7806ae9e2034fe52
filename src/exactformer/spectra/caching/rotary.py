"""Rotary attention read from a Hugging Face language model: projections, norms, heads and rotation.

A layer makes queries, keys and values of a token x, and turns the first two by the token's position:

    q = norm(W_Q x + b_Q),   k = norm(W_K x + b_K),   v = W_V x + b_V,
    score(s, t) = scale · (R(s) q_s)ᵀ (R(t) k_t),     output = W_O Σ_t softmax(score)(s, t) v_t + b_O.

R(t) turns the pairs of coordinates (i, i + m/2) of a head by the angles t·θ_i; norms are those of Qwen3
and Phi, or absent. What a cache must hold of a token is its *state* u = (k before rotation, v), all key
heads together.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from exactformer.spectra.errors import ExtractionError

_OUTPUTS = ("o_proj", "dense")
_NORMS = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"))
_FIXED = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions whose angles do not depend on the length of the text."""
_AGREE = 1e-5
"""Attention rebuilt here and the model's own differ by rounding, relative to its largest entry."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of one layer's attention."""

    heads: int
    key_heads: int
    head_dim: int
    rotary_dim: int
    """Coordinates of a head that are turned; Phi leaves the rest as they are."""
    scale: float

    @property
    def keys(self) -> int:
        """Numbers in all keys of a token, and as many in its values."""
        return self.key_heads * self.head_dim

    @property
    def state(self) -> int:
        """Numbers that an ordinary cache holds for a token in this layer."""
        return 2 * self.keys

    @property
    def shared(self) -> int:
        """Query heads for one key head."""
        return self.heads // self.key_heads


class Projections:
    """Queries and states of tokens, for whatever has the projections, norms and sizes of attention."""

    q_proj: Any
    k_proj: Any
    v_proj: Any
    o_proj: Any
    q_norm: Any
    k_norm: Any
    sizes: Sizes

    def queries(self, x: Tensor) -> Tensor:
        """Return queries before rotation, (batch, heads, tokens, head dim)."""
        q = by_head(self.q_proj(x), self.sizes.heads)
        normed: Tensor = q if self.q_norm is None else self.q_norm(q)
        return normed.transpose(1, 2)

    def state(self, x: Tensor) -> Tensor:
        """Return what a cache must hold, keys before rotation and values, (batch, tokens, state)."""
        k = self.k_proj(x)
        if self.k_norm is not None:
            k = self.k_norm(by_head(k, self.sizes.key_heads)).flatten(-2)
        return torch.cat([k, self.v_proj(x)], dim=-1)


class RotaryLayer(Projections):
    """One layer of a model: its attention module and the parts of it."""

    def __init__(self, name: str, index: int, block: nn.Module, attention: Any) -> None:
        self.name, self.index, self.block, self.attention = name, index, block, attention
        self.q_proj, self.k_proj = attention.q_proj, attention.k_proj
        self.v_proj = attention.v_proj
        self.o_proj = next(getattr(attention, o) for o in _OUTPUTS if hasattr(attention, o))
        self.q_norm, self.k_norm = _norms(attention)
        self.sizes = _sizes(attention)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
        """Return the output of the layer's attention for all tokens of an input."""
        keys, values = split(self.state(x), self.sizes)
        mixed = nn.functional.scaled_dot_product_attention(
            rotated(self.queries(x), cos, sin),
            rotated(keys, cos, sin),
            values,
            mask,
            is_causal=mask is None,
            scale=self.sizes.scale,
            enable_gqa=True,
        )
        result: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return result


def by_head(x: Tensor, heads: int) -> Tensor:
    """Return (…, heads, head dim) of rows (…, heads · head dim)."""
    return torch.unflatten(x, -1, (heads, -1))


def split(state: Tensor, sizes: Sizes) -> tuple[Tensor, Tensor]:
    """Return keys and values (batch, key heads, tokens, head dim) of states (batch, tokens, state)."""
    parts = torch.unflatten(state, -1, (2, sizes.key_heads, sizes.head_dim))
    return parts[:, :, 0].transpose(1, 2), parts[:, :, 1].transpose(1, 2)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn planes of heads (batch, heads, tokens, head dim) by angles (batch, tokens, rotary dim)."""
    turned, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    first, second = turned.chunk(2, dim=-1)
    c, s = cos[:, None], sin[:, None]
    turned = turned * c + torch.cat([-second, first], dim=-1) * s
    return torch.cat([turned, rest], dim=-1) if rest.shape[-1] else turned


def rotary_layers(model: nn.Module) -> list[RotaryLayer]:
    """Return all layers of a causal language model with rotary positions; refuse others by name."""
    kind = type(model).__name__
    body: Any = getattr(model, getattr(model, "base_model_prefix", "") or "model", None)
    blocks = getattr(body, "layers", None)
    if not isinstance(blocks, nn.ModuleList) or not hasattr(body, "rotary_emb"):
        raise ExtractionError(
            f"{kind} is not a causal language model with rotary positions (LLaMA, Qwen, Mistral, "
            "Gemma, Phi and others): no list of layers with one rotary embedding. ef.shrink_heads "
            "shrinks other models"
        )
    _check_positions(kind, model, body.rotary_emb)
    names = {id(module): name for name, module in model.named_modules()}
    layers = []
    for index, block in enumerate(blocks):
        attention = getattr(block, "self_attn", None)
        _check_attention(kind, index, attention)
        layers.append(RotaryLayer(names[id(attention)], index, block, attention))
    return layers


def body_of(model: Any) -> Any:
    """Return the model without its head: embeddings, layers, a rotary embedding."""
    return getattr(model, model.base_model_prefix)


def rotary_of(model: nn.Module) -> nn.Module:
    """Return the module that turns positions into angles."""
    rotary: nn.Module = body_of(model).rotary_emb
    return rotary


def entering(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Return the hidden states among the arguments of a module."""
    states: Tensor = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
    return states


def verify(model: nn.Module, layers: Sequence[RotaryLayer], ids: Tensor) -> float:
    """Return how far attention rebuilt from the parts is off; raise if that is beyond rounding."""
    worst = 0.0

    def compare(layer: RotaryLayer) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            nonlocal worst
            x, (cos, sin) = entering(args, kwargs), kwargs["position_embeddings"]
            own, ours = output[0], layer.attend(x, cos, sin, kwargs.get("attention_mask"))
            off = float((own - ours).abs().max() / own.abs().max().clamp(min=1e-30))
            if not off <= _AGREE:
                raise ExtractionError(
                    f"{type(model).__name__}: attention of module {layer.name!r} rebuilt from its "
                    f"projections is {off:.1e} off; its cache is not made smaller"
                )
            worst = max(worst, off)

        return hook

    with ExitStack() as hooks, torch.no_grad():
        for layer in layers:
            hook = layer.attention.register_forward_hook(compare(layer), with_kwargs=True)
            hooks.enter_context(hook)
        model(input_ids=ids, use_cache=False)
    return worst


def _check_positions(kind: str, model: nn.Module, rotary: Any) -> None:
    rope = getattr(rotary, "rope_type", None)
    if rope not in _FIXED:
        raise ExtractionError(
            f"{kind} has rotary positions of kind {rope!r}, whose angles change with the length of the "
            f"text or from layer to layer; {', '.join(_FIXED)} are understood"
        )
    config: Any = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    windowed = "sliding_attention" in kinds or (
        window is not None and not getattr(config, "layer_types", None)
    )
    if windowed and window is not None and window < config.max_position_embeddings:
        raise ExtractionError(
            f"{kind} has a sliding window of {window} tokens, at which its cache stops growing: "
            "it is not made smaller"
        )
    if kinds - {"full_attention", "sliding_attention"}:
        raise ExtractionError(f"{kind} has layers of kinds {sorted(kinds)}; full attention is read")
    for name in ("attn_logit_softcapping", "use_bidirectional_attention"):
        if getattr(config, name, None):
            raise ExtractionError(f"{kind} has {name}, which is not understood")


def _check_attention(kind: str, index: int, attention: Any) -> None:
    parts = ("q_proj", "k_proj", "v_proj", "head_dim", "scaling")
    missing = [name for name in parts if not hasattr(attention, name)]
    if not any(hasattr(attention, name) for name in _OUTPUTS):
        missing.append(_OUTPUTS[0])
    if missing:
        raise ExtractionError(
            f"{kind}, layer {index}: attention {type(attention).__name__} has no {', '.join(missing)}, "
            "so it is not read"
        )


def _norms(attention: Any) -> tuple[nn.Module | None, nn.Module | None]:
    for query, key in _NORMS:
        if isinstance(getattr(attention, key, None), nn.Module):
            return getattr(attention, query), getattr(attention, key)
    return None, None


def _sizes(attention: Any) -> Sizes:
    dim = attention.head_dim
    return Sizes(
        heads=attention.q_proj.out_features // dim,
        key_heads=attention.k_proj.out_features // dim,
        head_dim=dim,
        rotary_dim=getattr(attention, "rotary_ndims", dim),
        scale=float(attention.scaling),
    )
