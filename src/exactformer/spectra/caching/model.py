"""A causal language model with a smaller cache: the original with other attention modules.

It generates, saves and loads as other models of transformers do:
after ``import exactformer``, ``AutoModelForCausalLM.from_pretrained(folder)`` reads it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from exactformer.errors import InputError
from exactformer.spectra.cache_config import LatentCacheConfig
from exactformer.spectra.caching.attention import LatentAttention
from exactformer.spectra.caching.cache import LatentCache
from exactformer.spectra.caching.rotary import rotary_layers, rotary_of

_ENOUGH = 64
"""Tokens of a text from which its strain says something."""


class UnfamiliarTextWarning(UserWarning):
    """A text lies outside what the smaller cache was calibrated on."""


class LatentCacheForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """The original model as ``network``, in which every attention module reads latents."""

    config_class = LatentCacheConfig
    base_model_prefix = "network"
    main_input_name = "input_ids"
    _supports_sdpa = True
    _can_compile_fullgraph = False

    def __init__(self, config: LatentCacheConfig, network: PreTrainedModel | None = None) -> None:
        """Build the model; ``network`` is an original model whose modules are taken over."""
        super().__init__(config)
        self.network = (
            AutoModelForCausalLM.from_config(config.text_config) if network is None else network
        )
        self.network.set_attn_implementation(config._attn_implementation)
        rotary, layers = rotary_of(self.network), rotary_layers(self.network)
        if len(config.ranks) != len(layers):
            raise InputError(f"{len(config.ranks)} ranks for {len(layers)} layers")
        for layer, rank in zip(layers, config.ranks, strict=True):
            lower = config.ranks[max(0, layer.index - config.lookback) : layer.index]
            layer.block.self_attn = LatentAttention(
                layer, rotary, rank, config.lookback, sum(lower)
            )
        self.warned = self._watching = False
        self._weights: list[Tensor] = []
        self.post_init()

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Move or convert the model, but leave the frequencies of rotation as exact as they were.

        In half precision an angle at position 1,000 would be off by a radian, and saving and loading
        would bring the exact ones back.
        """
        self._weights = []
        rotary = rotary_of(self.network)
        exact = dict(rotary.named_buffers())
        super()._apply(fn, recurse)
        for name, buffer in exact.items():
            moved = rotary.get_buffer(name)
            if moved.dtype != buffer.dtype:
                setattr(rotary, name, buffer.to(moved.device))
        return self

    def attentions(self) -> list[LatentAttention]:
        """Return the attention modules, lowest layer first."""
        return [m for m in self.network.modules() if isinstance(m, LatentAttention)]

    def changes(self) -> int:
        """Return how often weights were changed in place, as training and loading do.

        Writing to the ``data`` of a parameter is not counted.
        """
        self._weights = self._weights or list(self.parameters())
        return sum(0 if x.is_inference() else x._version for x in self._weights)

    def get_input_embeddings(self) -> Any:
        """Return the embedding of tokens."""
        return self.network.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        """Return the map to logits."""
        return self.network.get_output_embeddings()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Compute logits as the original does; its arguments are the same."""
        if kwargs.get("output_attentions"):
            raise InputError("output_attentions: attention to latents is not returned")
        cache = past_key_values
        if cache is None:
            cache = self.new_cache()
        if not isinstance(cache, LatentCache):
            raise InputError(
                f"past_key_values is a {type(cache).__name__}: this model writes to a LatentCache; "
                "leave it out, or give model.new_cache()"
            )
        if not cache.claim(self):
            raise InputError(
                "past_key_values was filled by another model, or by one that was changed or no longer "
                "exists: its numbers mean something else here; leave it out, or give model.new_cache()"
            )
        given = input_ids if input_ids is not None else inputs_embeds
        _check_texts(cache, given, attention_mask, position_ids)
        cache.watching = self._watching or self._could_warn(cache, attention_mask)
        out = self.network(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            inputs_embeds=inputs_embeds,
            labels=labels,
            use_cache=True,
            logits_to_keep=logits_to_keep,
            **kwargs,
        )
        if cache.watching and not self._watching and cache.get_seq_length() >= _ENOUGH:
            self._compare(self.strain(), cache.get_seq_length())
        if use_cache is False:
            out.past_key_values = None
        return out

    def new_cache(self) -> LatentCache:
        """Return an empty cache for this model."""
        cache = LatentCache(len(self.config.ranks))
        cache.claim(self)
        return cache

    def strain(self) -> float:
        """Return the strain of the text read last: what its states lose, weighted, in nats."""
        strains = [a.strain for a in self.attentions()]
        return sum(float(s) for s in strains if s is not None) / 2

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure the strain of every text that is read inside, and warn of none."""
        self._watching = True
        try:
            yield
        finally:
            self._watching = False

    def _could_warn(self, cache: LatentCache, mask: Tensor | None) -> bool:
        """Whether a text is read from its beginning, as long as no warning was given."""
        if self.config.strain_limit <= 0 or self.warned or torch.is_grad_enabled():
            return False
        return cache.get_seq_length() == 0 and (mask is None or bool((mask == 1).all()))

    def _compare(self, strain: float, tokens: int) -> None:
        """Warn of a strain above the limit; means over fewer tokens vary more, so theirs is higher."""
        usual, limit = self.config.expected_strain, self.config.strain_limit
        limit = usual + (limit - usual) * max(1.0, self.config.strain_length / tokens) ** 0.5
        if strain > limit:
            self.warned = True
            warnings.warn(
                f"the cache was fitted to other text: what it loses of this one is "
                f"{strain / usual:.1f} times what it lost in calibration (up to {limit / usual:.1f} "
                "times is usual); calibrate on text of this kind, too",
                UnfamiliarTextWarning,
                stacklevel=3,
            )

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        """Give ``generate`` the cache of latents."""
        if generation_config.cache_implementation not in (None, "dynamic"):
            raise InputError(
                f"cache_implementation = {generation_config.cache_implementation!r}: this model has "
                "a cache of its own; leave it out"
            )
        if model_kwargs.get("past_key_values") is None and generation_config.use_cache is not False:
            model_kwargs["past_key_values"] = self.new_cache()


def _check_texts(
    cache: LatentCache, given: Tensor | None, mask: Any, positions: Tensor | None
) -> None:
    """Refuse what would be read as something else: several texts in a row, other texts than before."""
    if mask is not None and (not isinstance(mask, Tensor) or mask.ndim != 2):
        kind = f"{mask.ndim} dimensions" if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(
            f"attention_mask ({kind}): a mask (texts, tokens) is read, since the first token of "
            "every text is kept by itself; give several texts as a batch, padded"
        )
    if given is None:
        return
    texts, tokens = given.shape[:2]
    if cache.positions is not None and len(cache.positions) != texts:
        raise InputError(
            f"{texts} texts for a cache of {len(cache.positions)}: give the cache of these texts, or "
            "none"
        )
    if positions is None or tokens < 2:
        return
    wrong = positions.diff(dim=-1) != 1
    if mask is not None:
        seen = mask[:, -tokens:].bool()
        wrong = wrong & seen[:, 1:] & seen[:, :-1]
    if bool(wrong.any()):
        raise InputError(
            "position_ids do not go up by one inside a text: several texts in a row are not read, "
            "since the first token of every text is kept by itself; give them as a batch, padded"
        )


AutoModelForCausalLM.register(LatentCacheConfig, LatentCacheForCausalLM, exist_ok=True)
