"""Encoders whose tokens meet by attention or by a simpler layer, at equal numbers of parameters.

Yun et al. (section 5) put two simpler layers in the place of attention. All map (batch, n, w) to
(batch, n, w). With X one token per row:

    attention      Σ_h softmax(X W_Q (X W_K)ᵀ / √m) X W_V W_O     weights depend on the contents
    bilinear       Σ_h P_h X W_V W_O                              … on the places alone, P_h is learnt
    convolution    (K ∗ X) W_O                                    … on the distance, within a window

Every block is x + mix(norm x), then x + feed_forward(norm x); only ``mix`` differs, and may differ
from layer to layer. What a simpler layer saves in parameters its feed-forward network gets, so that
layers, and with them any mix of kinds, are of one size.

A mask (batch, n) is true at tokens that are there. The others are neither attended to nor summed, so
that a sequence comes out the same however far it is padded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.errors import InputError
from exactformer.learning.laws.trained.network import count_parameters


class SelfAttention(nn.Module):
    """Multi-head self-attention: the tokens' contents decide which of them meet."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.incoming = nn.Linear(width, 3 * width)
        self.outgoing = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix the tokens of ``x`` (batch, n, w)."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.incoming(x).chunk(3, dim=-1)
        )
        seen = None if mask is None else mask[:, None, None, :]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        result: Tensor = self.outgoing(mixed.transpose(1, 2).flatten(2))
        return result


class BilinearProjection(nn.Module):
    """Values mixed by one learnt n × n matrix per head, whatever the tokens hold.

    Sequences shorter than ``tokens`` use the matrices' leading part.
    """

    def __init__(self, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.heads = heads
        self.value = nn.Linear(width, width)
        self.outgoing = nn.Linear(width, width)
        # At the start every token takes the mean of all, as attention does with small weights.
        start = torch.full((heads, tokens, tokens), 1 / tokens)
        self.projection = nn.Parameter(start + torch.randn_like(start) / tokens)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix the tokens of ``x`` (batch, n, w)."""
        n = x.shape[1]
        value = self.value(x) if mask is None else self.value(x) * mask[..., None]
        value = value.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        mixed = self.projection[:, :n, :n] @ value
        result: Tensor = self.outgoing(mixed.transpose(1, 2).flatten(2))
        return result


class SeparableConvolution(nn.Module):
    """A filter over neighbouring tokens for each channel, then one linear map of the channels.

    With a ``shape`` such as (8, 8) the tokens are the cells of a grid, row by row, and neighbours
    are those on the grid.
    """

    def __init__(self, width: int, kernel: int, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise InputError(f"kernel is {kernel}; a window has a middle only if it is odd.")
        self.shape = shape
        convolution = nn.Conv2d if len(shape) == 2 else nn.Conv1d
        self.depthwise = convolution(width, width, kernel, padding=kernel // 2, groups=width)
        self.pointwise = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix the tokens of ``x`` (batch, n, w)."""
        if mask is not None:
            x = x * mask[..., None]
        batch, n, width = x.shape
        channels = x.transpose(1, 2).reshape(batch, width, *(self.shape or (n,)))
        mixed = self.depthwise(channels).flatten(2).transpose(1, 2)
        result: Tensor = self.pointwise(mixed)
        return result


class Block(nn.Module):
    """A pre-norm transformer block round any mixing layer."""

    def __init__(self, mix: nn.Module, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.mix = mix
        self.before_mix, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (batch, n, w) to itself; ``mask`` (batch, n) is true at tokens that are there."""
        x = x + self.dropout(self.mix(self.before_mix(x), mask))
        result: Tensor = x + self.dropout(self.feed_forward(self.before_feed_forward(x)))
        return result


class MixingEncoder(nn.Module):
    """A stack of blocks, one for each of ``kinds`` from below, all with attention's parameters.

    ``kinds`` are "attention", "bilinear" or "convolution". ``hidden`` is the feed-forward size of a
    block with attention; the others' follow from it.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        width: int,
        heads: int,
        tokens: int,
        hidden: int,
        kernel: int = 3,
        shape: tuple[int, ...] = (),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes: dict[str, Any] = {"heads": heads, "kernel": kernel, "shape": shape}
        sizes |= {"width": width, "tokens": tokens}
        matched = {kind: matched_hidden(kind, hidden, **sizes) for kind in set(kinds)}
        self.blocks = nn.ModuleList(
            Block(mixer(kind, **sizes), width, matched[kind], dropout) for kind in kinds
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (batch, n, w) to itself; ``mask`` (batch, n) is true at tokens that are there."""
        for block in self.blocks:
            x = block(x, mask)
        result: Tensor = self.norm(x)
        return result


def mixer(
    kind: str, width: int, heads: int, tokens: int, kernel: int = 3, shape: tuple[int, ...] = ()
) -> nn.Module:
    """Return the mixing layer called ``kind``."""
    if width % heads:
        raise InputError(f"width {width} is not a multiple of the number of heads, {heads}.")
    if shape and math.prod(shape) != tokens:
        raise InputError(f"a grid of shape {shape} does not have {tokens} tokens.")
    match kind:
        case "attention":
            return SelfAttention(width, heads)
        case "bilinear":
            return BilinearProjection(width, heads, tokens)
        case "convolution":
            return SeparableConvolution(width, kernel, shape)
    raise InputError(f"{kind!r} is none of attention, bilinear, convolution.")


def matched_hidden(kind: str, hidden: int, *, width: int, tokens: int, **sizes: Any) -> int:
    """Return the feed-forward size at which a block of ``kind`` is as large as one of attention.

    ``hidden`` is the size of the block with attention; the others are those of :func:`mixer`.
    """
    counts = {
        name: count_parameters(mixer(name, width, tokens=tokens, **sizes))
        for name in ("attention", kind)
    }
    unit = 2 * width + 1  # a hidden unit has w weights in, w out, and a bias
    matched = hidden + round((counts["attention"] - counts[kind]) / unit)
    if matched < 1:
        raise InputError(
            f"a {kind} layer over {tokens} tokens has {counts[kind]:,} parameters, more than a whole "
            f"block of attention of width {width} and hidden size {hidden}; raise either."
        )
    return matched
