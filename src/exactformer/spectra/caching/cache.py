"""The smaller cache: latents of every token, the first token as it is, positions as numbers.

A layer's :class:`LatentLayer` holds r numbers for a token where an ordinary cache holds all keys and
values. Attention to the first token of a text takes up what a head has no use for; that token is kept
exactly, once for every text. Keys are turned by their position when they are read, so the positions
are kept, too: four bytes a token for all layers together.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicLayer


class LatentLayer(DynamicLayer):  # type: ignore[misc]
    """Latents (batch, tokens, rank) of one layer, and the first token's state (batch, state)."""

    def __init__(self) -> None:
        super().__init__()
        self.latents: Tensor | None = None
        self.first: Tensor | None = None

    @property
    def is_initialized(self) -> bool:
        """Whether any token has come."""
        return self.latents is not None

    @is_initialized.setter
    def is_initialized(self, value: bool) -> None:
        if not value:
            self.latents = self.first = None

    def append(self, latents: Tensor) -> None:
        """Add the latents of further tokens."""
        self.latents = latents if self.latents is None else torch.cat([self.latents, latents], 1)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> Any:
        """Refuse keys and values: this layer holds latents."""
        raise TypeError("a cache of latents takes no keys and values; it belongs to its own model")

    def get_seq_length(self) -> int:
        """Return the number of tokens."""
        return 0 if self.latents is None else self.latents.shape[1]

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens; the number of them is negative, as in transformers."""
        if self.latents is not None and tokens_to_remove < 0:
            self.latents = self.latents[:, :tokens_to_remove]

    def _each(self, change: Any) -> None:
        self.latents = None if self.latents is None else change(self.latents)
        self.first = None if self.first is None else change(self.first)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder texts, for beam search."""
        self._each(lambda x: x.index_select(0, beam_idx.to(x.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every text."""
        self._each(lambda x: x.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some texts."""
        self._each(lambda x: x[indices])

    def offload(self) -> None:
        """Move to the CPU."""
        self._each(lambda x: x.to("cpu", non_blocking=True))


class LatentCache(Cache):  # type: ignore[misc]
    """The cache of a model that ``ef.shrink_cache`` made; ``generate`` creates it by itself."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[LatentLayer() for _ in range(layers)])
        self.positions: Tensor | None = None
        """(batch, tokens), int32."""
        self.places: Tensor | None = None
        """(batch,): where each text begins behind its padding; −1 as long as nothing was seen of it."""
        self._rotation: tuple[int, Tensor, Tensor] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the cache holds now."""
        layers: list[Any] = self.layers
        held = [t for layer in layers for t in (layer.latents, layer.first)]
        held += [self.positions, self.places]
        return sum(t.nbytes for t in held if t is not None)

    def begin(self, positions: Tensor, batch: int, mask: Tensor | None) -> None:
        """Note the positions of new tokens, and where texts begin; called once in a forward pass."""
        new = positions.to(torch.int32).expand(batch, -1)
        before = 0 if self.positions is None else self.positions.shape[1]
        self.positions = new if self.positions is None else torch.cat([self.positions, new], 1)
        self._rotation = None
        if self.places is None:
            self.places = torch.full((batch,), -1, device=new.device)
        if bool((self.places < 0).any()):
            starts = first_visible(mask, batch, before + new.shape[1], new.device)
            self.places = torch.where(self.places < 0, starts, self.places)

    def rotation(self, rotary: nn.Module, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of all positions, computed once in a forward pass."""
        assert self.positions is not None
        length = self.positions.shape[1]
        if self._rotation is None or self._rotation[0] != length:
            cos, sin = rotary(like, self.positions.long())
            self._rotation = (length, cos, sin)
        return self._rotation[1:]

    def below(self, index: int, lookback: int, tokens: int | None = None) -> list[Tensor]:
        """Return latents of the layers just below one, of all tokens or of the last ones."""
        layers: list[Any] = self.layers[max(0, index - lookback) : index]
        latents = [layer.latents for layer in layers if layer.latents is not None]
        return latents if tokens is None else [x[:, x.shape[1] - tokens :] for x in latents]

    def keep_first(self, index: int, state: Tensor) -> None:
        """Store the state of each text's first token, if it is among the newest tokens."""
        layer: Any = self.layers[index]
        assert self.places is not None
        batch, tokens, width = state.shape
        place = self.places - (layer.get_seq_length() - tokens)
        now = (place >= 0) & (place < tokens)
        if layer.first is None:
            layer.first = state.new_zeros(batch, width)
        if bool(now.any()):
            chosen = state[torch.arange(batch, device=state.device), place.clamp(0, tokens - 1)]
            layer.first = torch.where(now[:, None], chosen, layer.first)

    def _each(self, change: Any) -> None:
        self.positions = None if self.positions is None else change(self.positions)
        self.places = None if self.places is None else change(self.places)
        self._rotation = None

    def reset(self) -> None:
        """Forget everything."""
        for layer in self.layers:
            layer.is_initialized = False
        self.positions = self.places = self._rotation = None

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens; the number of them is negative, as in transformers."""
        super().crop(tokens_to_remove)
        if self.positions is not None and tokens_to_remove < 0:
            self.positions, self._rotation = self.positions[:, :tokens_to_remove], None

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder texts, for beam search."""
        super().reorder_cache(beam_idx)
        self._each(lambda x: x.index_select(0, beam_idx.to(x.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every text."""
        super().batch_repeat_interleave(repeats)
        self._each(lambda x: x.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some texts."""
        super().batch_select_indices(indices)
        self._each(lambda x: x[indices])


def first_visible(mask: Tensor | None, batch: int, tokens: int, device: torch.device) -> Tensor:
    """Return the first token that the newest one may see, by text; −1 where it sees none.

    A mask is (batch, 1, queries, tokens): true or 0 where a query may look.
    """
    if mask is None:
        return torch.zeros(batch, dtype=torch.long, device=device)
    row = mask[:, 0, -1, :tokens].expand(batch, -1)
    seen = row if row.dtype == torch.bool else row > -1
    return torch.where(seen.any(dim=1), seen.int().argmax(dim=1), -1)
