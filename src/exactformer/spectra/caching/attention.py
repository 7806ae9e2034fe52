"""Attention that reads latents: rebuild keys and values, turn the keys, attend.

    z = latents of a few layers below,  c = E (u, z) + e,  û = D (z, c) + d,

with u the state of a token. ``encode`` is (E, e) and ``decode`` is (D, d). The cache holds c. When many
tokens are read at once, keys and values are rebuilt. When one token is written, values need not be
(:mod:`~exactformer.spectra.caching.token_attention`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward

from exactformer.spectra.caching.cache import LatentCache
from exactformer.spectra.caching.rotary import Projections, RotaryLayer, rotated, split
from exactformer.spectra.caching.token_attention import Held, attend, refusal, visible


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
        """Mean of Σ sensitivity · (u − û)² over the newest tokens, while a cache is ``watching``."""

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
        query = self.queries(hidden_states)
        if tokens == 1:
            mixed, weights = self._one(query[:, :, 0], held, cache, attention_mask), None
        else:
            query = rotated(query, *position_embeddings)
            mixed, weights = self._many(query, held, cache, attention_mask, state, **kwargs)
        return self.o_proj(mixed.flatten(2)), weights

    def _store(self, cache: LatentCache, state: Tensor) -> Held:
        """Append to the cache; return all that this layer rebuilds from."""
        below = cache.below(self.layer_idx, self.lookback)
        layer: Any = cache.layers[self.layer_idx]
        newest = [x[:, :, x.shape[2] - state.shape[1] :].mT for x in below]
        layer.append(self.encode(torch.cat([state, *newest], dim=-1)))
        cache.keep_first(self.layer_idx, state)
        assert cache.places is not None
        places = cache.places.clamp(min=0)
        decode = self.decode
        return Held([*below, layer.numbers], decode.weight, decode.bias, layer.first, places)

    def _many(
        self,
        query: Tensor,
        held: Held,
        cache: LatentCache,
        mask: Tensor | None,
        state: Tensor,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        rebuilt = self.decode(torch.cat([x.mT for x in held.latents], dim=-1))
        if cache.watching:
            self._watch(state, rebuilt[:, -state.shape[1] :], cache)
        index = held.places[:, None, None].expand(-1, 1, rebuilt.shape[-1])
        rebuilt = rebuilt.scatter(1, index, held.first[:, None])
        keys, values = split(rebuilt, self.sizes)
        keys = rotated(keys, *cache.rotation(self._rotary[0], query))
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        kwargs = {name: kwargs[name] for name in ("output_attentions",) if name in kwargs}
        mixed, weights = attend(
            self, query, keys, values, mask, dropout=0.0, scaling=self.scaling, **kwargs
        )
        return mixed.contiguous(), weights

    def _one(self, query: Tensor, held: Held, cache: LatentCache, mask: Tensor | None) -> Tensor:
        """Attend from one token: values are mixed as latents and rebuilt once."""
        seen, rotary = visible(mask, len(query), held.length), self._rotary[0]
        if refusal(query, held, self.sizes) is None:
            from exactformer.spectra.caching import token_attention_gpu as kernel

            turns = cache.rotation(rotary, query)
            return kernel.attend(query, held, seen, *turns, self.sizes)[:, None]
        return attend(query, held, seen, *cache.turns(rotary, query), self.sizes)[:, None]

    def _watch(self, state: Tensor, rebuilt: Tensor, cache: LatentCache) -> None:
        """Note how far states are rebuilt off, padding and first tokens apart."""
        assert cache.places is not None
        start = cache.get_seq_length(self.layer_idx) - state.shape[1]
        places = start + torch.arange(state.shape[1], device=state.device)
        counted = places > cache.places.clamp(min=0)[:, None]
        squares = (state - rebuilt).float().square() @ self.sensitivity.float()
        self.strain = (squares * counted).sum() / counted.sum().clamp(min=1)
