"""The smaller cache: latents of every token, the first token as it is, positions as numbers.

A layer's :class:`LatentLayer` holds r numbers for a token where an ordinary cache holds all keys and
values. Attention to the first token of a text takes up what a head has no use for; that token is kept
exactly, once for every text. Keys are turned by their position when they are read, so the positions
are kept, too: four bytes a token for all layers together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicLayer

from exactformer.spectra.caching.identity import Filler


class _Texts:
    """Tensors whose first axis counts texts, and what ``generate`` does with texts."""

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        raise NotImplementedError

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder texts, for beam search."""
        self._each(lambda x: x.index_select(0, beam_idx.to(x.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every text."""
        self._each(lambda x: x.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some texts."""
        self._each(lambda x: x[indices])


class LatentLayer(_Texts, DynamicLayer):  # type: ignore[misc]
    """Latents of one layer, and the first token's state (batch, state).

    Latents lie in memory by number, (batch, rank, tokens), with room for a sixteenth more tokens, so
    that a new token is written without copying the others. The room holds zeros, or what was cropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._room: Tensor | None = None
        self._tokens = 0
        self.first: Tensor | None = None

    @property
    def is_initialized(self) -> bool:
        """Whether any token has come."""
        return self._room is not None

    @is_initialized.setter
    def is_initialized(self, value: bool) -> None:
        if not value:
            self._room, self._tokens, self.first = None, 0, None

    @property
    def numbers(self) -> Tensor:
        """Latents (batch, rank, tokens)."""
        assert self._room is not None
        return self._room[:, :, : self._tokens]

    @property
    def reserved(self) -> int:
        """Bytes of memory, the room for further tokens included."""
        return sum(t.nbytes for t in (self._room, self.first) if t is not None)

    def append(self, latents: Tensor) -> None:
        """Add the latents (batch, tokens, rank) of further tokens."""
        new, end = latents.mT, self._tokens + latents.shape[1]
        old = latents.new_zeros(len(new), new.shape[1], 0) if self._room is None else self._room
        if torch.is_grad_enabled() and (new.requires_grad or old.requires_grad):
            self._room = torch.cat([old[:, :, : self._tokens], new], 2)
        else:
            # What belongs to a gradient, or to inference mode, may not be written to from outside.
            closed = old.is_inference() and not torch.is_inference_mode_enabled()
            if closed or old.requires_grad or end > old.shape[2]:
                room = new.new_zeros(*new.shape[:2], _capacity(end))
                room[:, :, : self._tokens] = old[:, :, : self._tokens]
                old = room
            old[:, :, self._tokens : end] = new
            self._room = old
        self._tokens = end

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> Any:
        """Refuse keys and values: this layer holds latents."""
        raise TypeError("a cache of latents takes no keys and values; it belongs to its own model")

    def get_seq_length(self) -> int:
        """Return the number of tokens."""
        return self._tokens

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens; the number of them is negative, as in transformers."""
        self._tokens = _cropped(self._tokens, tokens_to_remove)

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        self._room = None if self._room is None else change(self._room)
        self.first = None if self.first is None else change(self.first)

    def offload(self) -> None:
        """Move to the CPU."""
        self._each(lambda x: x.to("cpu", non_blocking=True))


class LatentCache(_Texts, Cache):  # type: ignore[misc]
    """The cache of a model that ``ef.shrink_cache`` made; ``generate`` creates it by itself."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[LatentLayer() for _ in range(layers)])
        self.positions: Tensor | None = None
        """(batch, tokens), int32."""
        self.places: Tensor | None = None
        """(batch,): where each text begins behind its padding; −1 as long as nothing was seen of it."""
        self.watching = False
        """Whether attention measures its strain."""
        self._open = self._fresh = True
        self._rotation: tuple[int, Tensor, Tensor] | None = None
        self._turns: tuple[Tensor, Tensor] | None = None
        self._filler: Filler | None = None

    def claim(self, model: Any) -> bool:
        """Let a model go on with this cache; return whether it may.

        It may if the cache is empty, or was filled by this model or by one with the same weights.
        """
        if self._filler is not None and self._filler.is_itself(model):
            return True
        if self.get_seq_length() == 0:
            self.reset()
        elif self._filler is None or not self._filler.equals(model):
            return False
        self._filler = Filler(model)
        return True

    @property
    def nbytes(self) -> int:
        """Bytes that the tokens in the cache take."""
        layers: list[Any] = [layer for layer in self.layers if layer.is_initialized]
        held = [t for layer in layers for t in (layer.numbers, layer.first)]
        return sum(t.nbytes for t in (*held, self.positions, self.places) if t is not None)

    @property
    def reserved(self) -> int:
        """Bytes of memory: ``nbytes`` and the room for further tokens, up to a sixteenth or 64."""
        layers: list[Any] = self.layers
        beside = (self.positions, self.places)
        held: int = sum(layer.reserved for layer in layers)
        return held + sum(t.nbytes for t in beside if t is not None)

    def begin(self, positions: Tensor, batch: int, mask: Tensor | None) -> None:
        """Note the positions of new tokens, and where texts begin; called once in a forward pass."""
        new = positions.to(torch.int32).expand(batch, -1)
        before = 0 if self.positions is None else self.positions.shape[1]
        self.positions = new if self.positions is None else torch.cat([self.positions, new], 1)
        self._rotation = None
        if self.places is None:
            self.places = torch.full((batch,), -1, device=new.device)
        self._fresh = self._open
        if self._open:
            starts = first_visible(mask, batch, before + new.shape[1], new.device)
            self.places = torch.where(self.places < 0, starts, self.places)
            self._open = bool((self.places < 0).any())

    def rotation(self, rotary: nn.Module, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of all positions, computed once in a forward pass."""
        assert self.positions is not None
        length = self.positions.shape[1]
        if self._rotation is None or self._rotation[0] != length:
            cos, sin = rotary(like, self.positions.long())
            self._rotation, self._turns = (length, cos, sin), None
        return self._rotation[1:]

    def turns(self, rotary: nn.Module, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same by plane: (batch, planes, tokens)."""
        cos, sin = self.rotation(rotary, like)
        if self._turns is None:
            half = cos.shape[-1] // 2
            self._turns = cos[..., :half].mT.contiguous(), sin[..., :half].mT.contiguous()
        return self._turns

    def below(self, index: int, lookback: int) -> list[Tensor]:
        """Return latents (batch, rank, tokens) of the layers just below one."""
        layers: list[Any] = self.layers[max(0, index - lookback) : index]
        return [layer.numbers for layer in layers if layer.is_initialized]

    def keep_first(self, index: int, state: Tensor) -> None:
        """Store the state of each text's first token, if it is among the newest tokens."""
        layer: Any = self.layers[index]
        assert self.places is not None
        if layer.first is not None and not self._fresh:
            return
        batch, tokens, width = state.shape
        place = self.places - (layer.get_seq_length() - tokens)
        now = (place >= 0) & (place < tokens)
        if layer.first is None:
            layer.first = state.new_zeros(batch, width)
        chosen = state[torch.arange(batch, device=state.device), place.clamp(0, tokens - 1)]
        layer.first = torch.where(now[:, None], chosen, layer.first)

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        for layer in self.layers:
            layer._each(change)
        self.positions = None if self.positions is None else change(self.positions)
        self.places = None if self.places is None else change(self.places)
        self._rotation = None

    def reset(self) -> None:
        """Forget everything."""
        for layer in self.layers:
            layer.is_initialized = False
        self.positions = self.places = self._rotation = self._filler = None
        self._open = True

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens; the number of them is negative, as in transformers.

        A positive number is the length to keep, as in earlier releases.
        """
        if self.positions is None or self.places is None:
            return
        tokens = _cropped(self.positions.shape[1], tokens_to_remove)
        for layer in self.layers:
            layer.crop(tokens_to_remove)
        self.positions, self._rotation = self.positions[:, :tokens], None
        self.places = torch.where(self.places < tokens, self.places, -1)
        self._open = bool((self.places < 0).any())


def _capacity(tokens: int) -> int:
    """Return room for some more tokens: a multiple of 16, so that rows begin where wide loads may."""
    return (tokens + max(64, tokens // 16)) // 16 * 16


def _cropped(tokens: int, change: int) -> int:
    """Return the tokens that are left."""
    return min(tokens, change) if change > 0 else max(0, tokens + change)


def first_visible(mask: Tensor | None, batch: int, tokens: int, device: torch.device) -> Tensor:
    """Return the first token that the newest one may see, by text; −1 where it sees none.

    A mask is (batch, 1, queries, tokens): true or 0 where a query may look.
    """
    if mask is None:
        return torch.zeros(batch, dtype=torch.long, device=device)
    row = mask[:, 0, -1, :tokens].expand(batch, -1)
    seen = row if row.dtype == torch.bool else row > -1
    return torch.where(seen.any(dim=1), seen.int().argmax(dim=1), -1)
