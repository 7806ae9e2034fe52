"""M vision transformers as one module: every weight has a leading axis for the model.

Models may differ in seed, in the size of queries and keys, and in the order of patches. Queries and
keys are padded by zeros up to the largest size; a mask keeps what is padded out of the scores and of
the gradient, so that it stays zero. What a model is depends on its own configuration alone: its weights
are drawn at its own size, queries and keys last, so that models of one seed agree in everything else.

Products of matrices may be taken in a shorter format (``compute``); sums along the way from layer to
layer, norms and logits stay in that of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.models.vision.model import (
    VisionConfiguration,
    VisionTransformer,
    normed,
    patches_of,
)
from exactformer.learning.ensembles.models.base import (
    StackedModels,
    generators,
    padded,
    same_sizes,
    uniform,
)

_SHARED = ("side", "patch", "classes", "width", "layers", "heads", "value_dim", "hidden")


class VisionEnsemble(StackedModels):
    """Images (B, 3, side, side), shared by all models, to logits (M, B, classes)."""

    order: Tensor
    mask: Tensor
    scales: Tensor

    def __init__(
        self,
        configurations: Sequence[VisionConfiguration],
        dtype: torch.dtype = torch.float32,
        compute: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        same_sizes(configurations, _SHARED)
        self.configurations, self.compute = tuple(configurations), compute or dtype
        self.models = len(configurations)
        self._draw(dtype)
        largest = max(one.head_dim for one in configurations)
        sizes = torch.tensor([one.head_dim for one in configurations])
        self.register_buffer("mask", (torch.arange(largest) < sizes[:, None]).to(dtype))
        scales = torch.tensor([one.scale for one in configurations], dtype=torch.float64)
        self.register_buffer("scales", scales.to(dtype))
        self.register_buffer("order", torch.tensor([one.order for one in configurations]))
        self._moved = any(one.moved for one in configurations)
        self.join: Callable[..., tuple[Tensor, Tensor]] = joined

    def _draw(self, dtype: torch.dtype) -> None:
        """Draw every model's weights from its own seed, as ``nn.Linear`` does."""
        sources = generators([one.seed for one in self.configurations])
        c, models = self.configurations[0], self.models

        def drawn(*shape: int, fan_in: int) -> nn.Parameter:
            return nn.Parameter(uniform(sources, [shape] * models, fan_in**-0.5).to(dtype))

        self.patches = drawn(c.pixels, c.width, fan_in=c.pixels)
        normal = [torch.randn(c.tokens, c.width, generator=g, dtype=torch.float64) for g in sources]
        self.places = nn.Parameter(0.02 * padded(normal).to(dtype))
        self.values = drawn(c.layers, c.width, c.heads, c.value_dim, fan_in=c.width)
        self.project = drawn(c.layers, c.heads * c.value_dim, c.width, fan_in=c.heads * c.value_dim)
        if c.hidden:
            self.widen = drawn(c.layers, c.width, c.hidden, fan_in=c.width)
            self.narrow = drawn(c.layers, c.hidden, c.width, fan_in=c.hidden)
        self.classify = drawn(c.width, c.classes, fan_in=c.width)
        self.bias = drawn(c.classes, fan_in=c.width)
        own = [(c.layers, c.width, c.heads, one.head_dim) for one in self.configurations]
        self.queries, self.keys = (
            nn.Parameter(uniform(sources, own, c.width**-0.5).to(dtype)) for _ in range(2)
        )

    def forward(self, images: Tensor, kept: Tensor | None = None) -> Tensor:
        """Classify images; ``kept`` (layers, 2, B) multiplies what each part adds to each image."""
        x = self._tokens(images)
        models, batch, tokens, width = x.shape
        x = x.reshape(models, batch * tokens, width)
        held = None if kept is None else kept.repeat_interleave(tokens, dim=-1)[..., None]
        weights = [part.unbind(dim=1) for part in self._layers()]
        normal = normed(x).to(self.compute)
        for layer, (attend, project, *forward) in enumerate(zip(*weights, strict=True)):
            first, second = (None, None) if held is None else held[layer]
            added = self._attention(normal, attend, project, batch)
            x, normal = self.join(x, added, first, self.compute)
            if forward:
                widen, narrow = forward
                added = torch.bmm(functional.gelu(torch.bmm(normal, widen)), narrow)
                x, normal = self.join(x, added, second, self.compute)
        pooled = normed(x.view(models, batch, tokens, width).mean(dim=2))
        return torch.baddbmm(self.bias.unsqueeze(1), pooled, self.classify)

    def _tokens(self, images: Tensor) -> Tensor:
        """Return the tokens (M, B, τ, width) before the first layer.

        A patch is embedded without looking at others, so it may change places before as well as after.
        """
        patches = patches_of(images, self.configurations[0].patch).to(self.compute)
        batch, tokens, pixels = patches.shape
        if self._moved:
            moved = patches[:, self.order].transpose(0, 1).reshape(self.models, -1, pixels)
        else:
            moved = patches.reshape(1, -1, pixels).expand(self.models, -1, -1)
        embedded = torch.bmm(moved, self.patches.to(self.compute))
        return embedded.view(self.models, batch, tokens, -1) + self.places.unsqueeze(1)

    def _layers(self) -> list[Tensor]:
        """Return the weights of all layers, (M, layers, …), in the format of products."""
        queries = self.queries * (self.mask * self.scales[:, None])[:, None, None, None]
        keys = self.keys * self.mask[:, None, None, None]
        attend = torch.cat([part.flatten(3) for part in (queries, keys, self.values)], dim=-1)
        parts = [attend, self.project]
        if self.configurations[0].hidden:
            parts += [self.widen, self.narrow]
        return [part.to(self.compute) for part in parts]

    def _attention(self, x: Tensor, attend: Tensor, project: Tensor, batch: int) -> Tensor:
        c, size = self.configurations[0], self.mask.shape[1]
        sizes = [c.heads * size, c.heads * size, c.heads * c.value_dim]
        q, k, v = (
            part.reshape(self.models * batch, -1, c.heads, part.shape[-1] // c.heads).transpose(
                1, 2
            )
            for part in torch.split(torch.bmm(x, attend), sizes, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, scale=1.0)
        return torch.bmm(mixed.transpose(1, 2).reshape(self.models, x.shape[1], -1), project)

    def own_shape(self, name: str, model: int) -> tuple[int, ...]:
        """Return the shape of a parameter of one model, without padding."""
        shape = super().own_shape(name, model)
        if name in ("queries", "keys"):
            return (*shape[:-1], self.configurations[model].head_dim)
        return shape

    def member(self, model: int) -> VisionTransformer:
        """Return one model by itself, with heads of its own size, ready to be used."""
        return VisionTransformer(self.configurations[model], self.weights(model)).eval()


def joined(
    x: Tensor, added: Tensor, kept: Tensor | None, compute: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return x with what a part adds to it, and its norm for the next part."""
    total = x + (added if kept is None else added * kept)
    return total, normed(total).to(compute)
