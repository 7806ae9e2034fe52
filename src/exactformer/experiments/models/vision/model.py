"""One vision transformer as an ordinary module: what a member of an ensemble is when it stands alone.

    x   = W_E patch + place                                 a token for each patch
    x   ← x + W_O [softmax(q kᵀ/√m_h) v]_heads               q, k, v = W_Q, W_K, W_V of norm(x)
    x   ← x + W_2 gelu(W_1 norm(x))                          in every layer
    out = W_C norm(mean over tokens of x) + b_C

Norms have no weights: each is followed by a matrix that could absorb them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.models.vision.configuration import VisionConfiguration


class VisionTransformer(nn.Module):
    """Images (batch, 3, side, side), as :func:`normalised` returns them, to logits (batch, classes)."""

    order: Tensor

    def __init__(self, configuration: VisionConfiguration) -> None:
        super().__init__()
        c = self.configuration = configuration
        self.embed = nn.Linear(c.pixels, c.width, bias=False)
        self.places = nn.Parameter(torch.empty(c.tokens, c.width))
        self.blocks = nn.ModuleList(_Block(c) for _ in range(c.layers))
        self.classify = nn.Linear(c.width, c.classes)
        self.register_buffer("order", torch.tensor(c.order), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors of the places anew; all other weights are those of the parts."""
        nn.init.normal_(self.places, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """Classify images."""
        x = self.embed(patches_of(images, self.configuration.patch))
        x = x.index_select(1, self.order) + self.places
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.classify(normed(x.mean(dim=1)))
        return logits


class _Block(nn.Module):
    """Attention, then the feed-forward part if there is one."""

    def __init__(self, c: VisionConfiguration) -> None:
        super().__init__()
        self.attention = _HeadAttention(c)
        self.widen = nn.Linear(c.width, c.hidden, bias=False) if c.hidden else None
        self.narrow = nn.Linear(c.hidden, c.width, bias=False) if c.hidden else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens (batch, τ, width) after this layer."""
        x = x + self.attention(normed(x))
        if self.widen is not None and self.narrow is not None:
            x = x + self.narrow(functional.gelu(self.widen(normed(x))))
        return x


class _HeadAttention(nn.Module):
    """Heads whose queries and keys have a size of their own."""

    def __init__(self, c: VisionConfiguration) -> None:
        super().__init__()
        self.heads = c.heads
        self.query = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.key = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.value = nn.Linear(c.width, c.heads * c.value_dim, bias=False)
        self.project = nn.Linear(c.heads * c.value_dim, c.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the heads have gathered for each token."""
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        gathered: Tensor = self.project(mixed.transpose(1, 2).flatten(2))
        return gathered


def normalised(pixels: Tensor) -> Tensor:
    """Return bytes as numbers round zero of about unit size."""
    return (pixels.float() - 120.0) / 64.0


def patches_of(images: Tensor, patch: int) -> Tensor:
    """Cut images (batch, 3, side, side) into patches (batch, τ, 3·patch²), row by row."""
    batch, channels, side, _ = images.shape
    cells = side // patch
    cut = images.reshape(batch, channels, cells, patch, cells, patch).permute(0, 2, 4, 1, 3, 5)
    return cut.reshape(batch, cells * cells, channels * patch * patch)


def normed(x: Tensor) -> Tensor:
    """Return tokens with mean zero and variance one."""
    return functional.layer_norm(x, x.shape[-1:])
