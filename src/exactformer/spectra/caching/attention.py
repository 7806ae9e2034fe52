"""Attention that reads latents: rebuild keys and values, turn the keys, attend.

    z = latents of a few layers below,  c = E (u, z) + e,  û = D (z, c) + d,

with u the state of a token. ``encode`` is (E, e) and ``decode`` is (D, d). The cache holds c. When many
tokens are read at once, keys and values are rebuilt. When one token is written, values need not be:
Σ p_t v_t = D_V Σ p_t (z_t, c_t) + d_V.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from exactformer.spectra.caching.cache import LatentCache
from exactformer.spectra.caching.rotary import Projections, RotaryLayer, by_head, rotated, split


class LatentAttention(Projections, nn.Module):
    """A layer's attention with a latent in its cache; it takes the place of the original module."""

    def __init__(
        self, layer: RotaryLayer, rotary: nn.Module, rank: int, lookback: int, below: int
    ) -> None:
        """Take the parts of ``layer``; ``below`` is the sum of ranks of ``lookback`` layers below."""
        super().__init__()
        own: Any = layer.attention
        self.config, self.layer_idx, self.lookback = own.config, layer.index, lookback
        self.sizes, self.scaling = layer.sizes, layer.sizes.scale
        self.num_key_value_groups, self.is_causal = layer.sizes.shared, True
        self.q_proj, self.k_proj, self.v_proj = layer.q_proj, layer.k_proj, layer.v_proj
        self.q_norm, self.k_norm, self.o_proj = layer.q_norm, layer.k_norm, layer.o_proj
        self._rotary = (rotary,)  # a tuple: the model owns it, this module only looks
        place: Any = {"device": layer.k_proj.weight.device, "dtype": layer.k_proj.weight.dtype}
        state = layer.sizes.state
        self.encode = nn.Linear(state + below, rank, **place)
        self.decode = nn.Linear(below + rank, state, **place)
        self.sensitivity = nn.Parameter(torch.zeros(state, **place), requires_grad=False)
        """Weight of every number of a state in the strain."""
        self.strain: Tensor | None = None
        """Mean of Σ sensitivity · (u − û)² over the newest tokens, while ``watching``."""
        self.watching = False

    @property
    def rank(self) -> int:
        """Numbers in the cache for a token."""
        return self.encode.out_features

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with the arguments that decoder layers of transformers pass."""
        cache = past_key_values
        weights: Tensor | None
        if not isinstance(cache, LatentCache) or position_ids is None:
            raise TypeError("attention to latents needs a LatentCache and position_ids")
        batch, tokens, _ = hidden_states.shape
        if self.layer_idx == 0:
            cache.begin(position_ids, batch, attention_mask)
        state = self.state(hidden_states)
        held = self._store(cache, state)
        query = rotated(self.queries(hidden_states), *position_embeddings)
        if tokens == 1:
            mixed, weights = self._one(query, held, cache, attention_mask)
        else:
            mixed, weights = self._many(query, held, cache, attention_mask, state, **kwargs)
        return self.o_proj(mixed.flatten(2)), weights

    def _store(self, cache: LatentCache, state: Tensor) -> Tensor:
        """Append to the cache; return all latents that this layer rebuilds from."""
        below = cache.below(self.layer_idx, self.lookback, state.shape[1])
        layer: Any = cache.layers[self.layer_idx]
        layer.append(self.encode(torch.cat([state, *below], dim=-1)))
        cache.keep_first(self.layer_idx, state)
        return torch.cat([*cache.below(self.layer_idx, self.lookback), layer.latents], dim=-1)

    def _many(
        self,
        query: Tensor,
        held: Tensor,
        cache: LatentCache,
        mask: Tensor | None,
        state: Tensor,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        rebuilt = self.decode(held)
        if self.watching:
            self._watch(state, rebuilt[:, -state.shape[1] :], cache)
        rebuilt = self._with_first(rebuilt, cache)
        keys, values = split(rebuilt, self.sizes)
        keys = rotated(keys, *self._rotation(cache, query))
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, _eager)
        kwargs = {name: kwargs[name] for name in ("output_attentions",) if name in kwargs}
        mixed, weights = attend(
            self, query, keys, values, mask, dropout=0.0, scaling=self.scaling, **kwargs
        )
        return mixed.contiguous(), weights

    def _one(
        self, query: Tensor, held: Tensor, cache: LatentCache, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Attend from one token: values are mixed as latents and rebuilt once."""
        sizes, texts = self.sizes, torch.arange(len(query), device=query.device)
        (key_map, value_map), (key_bias, value_bias) = (
            torch.split(p, sizes.keys) for p in (self.decode.weight, self.decode.bias)
        )
        first, places = self._first(cache)
        keys = held @ key_map.T + key_bias
        keys[texts, places] = first[:, : sizes.keys]
        turned = rotated(
            by_head(keys, sizes.key_heads).transpose(1, 2), *self._rotation(cache, query)
        )
        grouped = query.reshape(len(query), sizes.key_heads, sizes.shared, -1)
        scores = grouped @ turned.mT * self.scaling
        if mask is not None:
            seen = mask[:, :, -1:, : held.shape[1]]
            if seen.dtype == torch.bool:
                scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
            else:
                scores = scores + seen
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
        sums = weights.flatten(1, 2) @ held
        maps = value_map.reshape(sizes.key_heads, sizes.head_dim, -1)
        mixed = sums.reshape(*weights.shape[:3], -1) @ maps.mT
        mixed = mixed + value_bias.reshape(sizes.key_heads, 1, -1)
        gap = first[:, sizes.keys :] - (held[texts, places] @ value_map.T + value_bias)
        mixed = (
            mixed
            + weights[texts, :, :, places][..., None] * by_head(gap, sizes.key_heads)[:, :, None]
        )
        return mixed.flatten(1, 2)[:, None], weights.flatten(1, 2)[:, :, None]

    def _first(self, cache: LatentCache) -> tuple[Tensor, Tensor]:
        """Return the states of first tokens, and where they stand."""
        layer: Any = cache.layers[self.layer_idx]
        assert cache.places is not None
        return layer.first, cache.places.clamp(min=0)

    def _rotation(self, cache: LatentCache, like: Tensor) -> tuple[Tensor, Tensor]:
        return cache.rotation(self._rotary[0], like)

    def _with_first(self, rebuilt: Tensor, cache: LatentCache) -> Tensor:
        first, places = self._first(cache)
        index = places[:, None, None].expand(-1, 1, rebuilt.shape[-1])
        return rebuilt.scatter(1, index, first[:, None])

    def _watch(self, state: Tensor, rebuilt: Tensor, cache: LatentCache) -> None:
        """Note how far states are rebuilt off, padding and first tokens apart."""
        assert cache.places is not None
        start = cache.get_seq_length(self.layer_idx) - state.shape[1]
        places = start + torch.arange(state.shape[1], device=state.device)
        counted = places > cache.places.clamp(min=0)[:, None]
        squares = (state - rebuilt).float().square() @ self.sensitivity.float()
        self.strain = (squares * counted).sum() / counted.sum().clamp(min=1)


def _eager(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Attend with weights written out."""
    shared: int = module.num_key_value_groups  # type: ignore[assignment]
    key, value = (x.repeat_interleave(shared, dim=1) for x in (key, value))
    scores = query @ key.mT * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
    return (weights @ value).transpose(1, 2), weights
