"""Layers in which tokens meet: attention, and two simpler ones that Yun et al. put in its place.

All map (batch, n, w) to (batch, n, w); what they are added to, and the norm before, is the block's
business. With X one token a row:

    attention      Σ_h softmax(X W_Q (X W_K)ᵀ / √m) X W_V W_O     who is looked at depends on content
    bilinear       Σ_h P_h X W_V W_O                              … on the places alone, P_h is learnt
    convolution    (K ∗ X) W_O                                    … on the distance, within a window

A mask (batch, n) is true at tokens that are there. Those that are not are neither looked at nor
summed, so that a sequence comes out the same however far it is padded.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.errors import InputError


class SelfAttention(nn.Module):
    """Multi-head self-attention: the tokens' contents decide who looks at whom."""

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
    """Values mixed by one learnt n × n matrix a head, whatever the tokens hold.

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


def mixer(
    kind: str, width: int, heads: int, tokens: int, kernel: int, shape: tuple[int, ...] = ()
) -> nn.Module:
    """Return the mixing layer called ``kind``."""
    if width % heads:
        raise InputError(f"width {width} is no multiple of the number of heads, {heads}.")
    if shape and math.prod(shape) != tokens:
        raise InputError(f"a grid of shape {shape} has not {tokens} tokens.")
    match kind:
        case "attention":
            return SelfAttention(width, heads)
        case "bilinear":
            return BilinearProjection(width, heads, tokens)
        case "convolution":
            return SeparableConvolution(width, kernel, shape)
    raise InputError(f"{kind!r} is none of attention, bilinear, convolution.")
