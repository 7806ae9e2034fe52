"""Training M vision transformers at once, each as if it were alone.

A step (gather and change images, forward, backward, AdamW) reads and writes only tensors that stay
where they are, so that a GPU replays it as one graph. Between passes the tables of :mod:`recipe` are
refilled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from exactformer.errors import InputError
from exactformer.experiments.models.vision.ensemble import VisionEnsemble, joined
from exactformer.experiments.models.vision.model import normalised
from exactformer.experiments.models.vision.recipe import Recipe, augmented, draw_pass
from exactformer.learning.ensembles.training.adam import RowAdam
from exactformer.learning.ensembles.training.packed_weights import PackedWeights
from exactformer.learning.ensembles.training.protocol import EnsembleProtocol

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True)
class VisionHistory:
    """Mean loss of every pass and model, which models diverged, and the time."""

    losses: list[list[float]]
    """(epochs, M), on the augmented images."""
    diverged: list[bool]
    seconds: float
    steps: int


def train_vision(
    ensemble: VisionEnsemble, images: Tensor, labels: Tensor, recipe: Recipe
) -> VisionHistory:
    """Train M models in place, on their device, with images (N, 3, side, side), bytes, and labels (N,).

    What lies between matrix products is compiled for a GPU, which takes seconds and saves memory
    traffic.
    """
    c = ensemble.configurations[0]
    if tuple(images.shape[1:]) != (3, c.side, c.side) or len(images) != len(labels):
        raise InputError(
            f"images have shape {tuple(images.shape)} with {len(labels)} labels; these models take "
            f"(N, 3, {c.side}, {c.side}) with N labels."
        )
    device = ensemble.patches.device
    images, labels = images.to(device), labels.to(device)
    steps = len(images) // min(recipe.batch, len(images))
    if not recipe.epochs:
        return VisionHistory([], [False] * ensemble.models, 0.0, 0)
    source = torch.Generator().manual_seed(recipe.seed)
    plan = draw_pass(recipe, len(images), c.layers, source).to(device)
    packed = PackedWeights(ensemble)
    adam = RowAdam(packed.values, _protocol(recipe, steps))
    clock = torch.zeros(1, dtype=torch.long, device=device)
    total = torch.zeros(ensemble.models, device=device, dtype=packed.values.dtype)

    def step() -> None:
        now = plan.at(clock)
        x, share = augmented(images, labels, now, c.classes)
        kept = now.kept.to(packed.values) if recipe.drop_path else None
        losses = soft_losses(ensemble(x.to(packed.values), kept), share, recipe.smoothing)
        packed.differentiate(losses)
        adam.step(packed.values, packed.gradient, losses.detach())
        total.add_(losses.detach())
        clock.add_(1)

    seen: list[Tensor] = []
    ensemble.join = torch.compile(joined) if device.type == "cuda" else joined
    with sdpa_kernel(_KERNELS):
        try:
            began = time.perf_counter()
            for epoch in range(recipe.epochs):
                if epoch:
                    plan.refill(draw_pass(recipe, len(images), c.layers, source))
                clock.zero_()
                total.zero_()
                for _ in range(steps):
                    step()
                seen.append(total / steps)
            losses = torch.stack(seen).double().tolist()
            seconds = time.perf_counter() - began
        finally:
            packed.release()
            ensemble.join = joined
    return VisionHistory(losses, (~adam.finite).tolist(), seconds, int(adam.clock))


@dataclass(frozen=True)
class Score:
    """Of each model: mean cross-entropy, and the share of images it classifies correctly."""

    loss: list[float]
    accuracy: list[float]


@torch.no_grad()
def score(ensemble: VisionEnsemble, images: Tensor, labels: Tensor, batch: int = 500) -> Score:
    """Return how each model does on images (N, 3, side, side), bytes, with labels (N,)."""
    loss = torch.zeros(ensemble.models, dtype=torch.float64, device=images.device)
    right = torch.zeros_like(loss)
    for part, named in zip(torch.split(images, batch), torch.split(labels, batch), strict=True):
        logits = ensemble(normalised(part).to(ensemble.patches))
        spread = named.expand(ensemble.models, -1)
        loss += functional.cross_entropy(logits.mT, spread, reduction="none").double().sum(dim=1)
        right += (logits.argmax(dim=2) == spread).sum(dim=1)
    count = len(images)
    return Score((loss / count).tolist(), (right / count).tolist())


def soft_losses(logits: Tensor, share: Tensor, smoothing: float) -> Tensor:
    """Return each model's mean cross-entropy (M,) of logits (M, B, classes) to shares of classes."""
    target = share.expand_as(logits).mT
    losses = functional.cross_entropy(
        logits.mT, target, reduction="none", label_smoothing=smoothing
    )
    return losses.mean(dim=1)


def _protocol(recipe: Recipe, steps: int) -> EnsembleProtocol:
    return EnsembleProtocol(
        steps=recipe.epochs * steps,
        batch_size=recipe.batch,
        rate=recipe.rate,
        rise=recipe.rise,
        weight_decay=recipe.weight_decay,
        clip=recipe.clip,
    )
