"""One vision transformer as an ordinary module: what a member of an ensemble is when it stands alone.

    x   = W_E patch + place                                 a token for each patch
    x   ← x + W_O [softmax(q kᵀ/√m_h) v]_heads               q, k, v = W_Q, W_K, W_V of norm(x)
    x   ← x + W_2 gelu(W_1 norm(x))                          in every layer
    out = W_C norm(mean over tokens of x) + b_C

Norms have no weights: each is followed by a matrix that could absorb them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.errors import InputError


@dataclass(frozen=True)
class VisionConfiguration:
    """A transformer over square patches of square images.

    ``head_dim`` is the size m_h of queries and keys alone: what a head can distinguish. Values keep
    ``value_dim``, so that models of different m_h carry equally much. ``hidden`` = 0 leaves the
    feed-forward parts out.

    The patch at place t is the ``(t + moved)``-th of the image, counted round: the first ``moved``
    come last. Places keep their learnt vectors, which are added afterwards.
    """

    head_dim: int = 64
    seed: int = 0
    side: int = 32
    patch: int = 4
    classes: int = 10
    width: int = 256
    layers: int = 6
    heads: int = 4
    value_dim: int = 64
    hidden: int = 512
    moved: int = 0

    def __post_init__(self) -> None:
        """Refuse sizes that make no model."""
        for name in ("head_dim", "patch", "classes", "width", "layers", "heads", "value_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.hidden < 0:
            raise InputError(f"hidden is {self.hidden}; it must be at least 0.")
        if self.side < self.patch or self.side % self.patch:
            raise InputError(
                f"images of side {self.side} do not fall into patches of {self.patch}."
            )
        if not 0 <= self.moved < self.tokens:
            raise InputError(f"moved is {self.moved}; there are {self.tokens} patches to move.")

    @property
    def tokens(self) -> int:
        """How many patches an image has."""
        return (self.side // self.patch) ** 2

    @property
    def pixels(self) -> int:
        """How many numbers a patch has: three colours of each pixel."""
        return 3 * self.patch**2

    @property
    def scale(self) -> float:
        """What scores are multiplied by, 1/√m_h."""
        return 1 / sqrt(self.head_dim)

    @property
    def order(self) -> list[int]:
        """Which patch comes to each place."""
        return [(place + self.moved) % self.tokens for place in range(self.tokens)]

    @property
    def parameters(self) -> int:
        """How many numbers the model learns."""
        attention = 2 * self.width * self.heads * (self.head_dim + self.value_dim)
        block = attention + 2 * self.width * self.hidden
        ends = (self.pixels + self.tokens) * self.width + (self.width + 1) * self.classes
        return self.layers * block + ends


class VisionTransformer(nn.Module):
    """Images (batch, 3, side, side), as :func:`normalised` returns them, to logits (batch, classes).

    ``weights`` are those of :meth:`VisionEnsemble.weights`, which the module takes over.
    """

    order: Tensor

    def __init__(self, configuration: VisionConfiguration, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.configuration = configuration
        self.embed = _linear(weights["patches"])
        self.places = nn.Parameter(weights["places"])
        self.blocks = nn.ModuleList(
            _Block(configuration, weights, layer) for layer in range(configuration.layers)
        )
        self.classify = _linear(weights["classify"], weights["bias"])
        self.register_buffer("order", torch.tensor(configuration.order), persistent=False)

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

    def __init__(self, c: VisionConfiguration, weights: Mapping[str, Tensor], layer: int) -> None:
        super().__init__()
        names = ("queries", "keys", "values", "project")
        self.attention = _HeadAttention(c.heads, *(weights[name][layer] for name in names))
        parts = [_linear(weights[name][layer]) for name in ("widen", "narrow") if c.hidden]
        self.dense = nn.Sequential(parts[0], nn.GELU(), parts[1]) if parts else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens (batch, τ, width) after this layer."""
        x = x + self.attention(normed(x))
        return x if self.dense is None else x + self.dense(normed(x))


class _HeadAttention(nn.Module):
    """Heads whose queries and keys have a size of their own."""

    def __init__(self, heads: int, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = _linear(query), _linear(key), _linear(value)
        self.project = _linear(out)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the heads have gathered for each token."""
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        gathered: Tensor = self.project(mixed.transpose(1, 2).flatten(2))
        return gathered


def _linear(matrix: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """Return x ↦ x·matrix + bias as a layer; what ``matrix`` has beyond two axes counts as one."""
    weight = matrix.flatten(1).T.contiguous()
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight)
    if bias is not None:
        layer.bias = nn.Parameter(bias)
    return layer


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
