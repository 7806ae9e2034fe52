"""The loss and accuracy of a trained ensemble on images as they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from exactformer.experiments.models.vision.ensemble import VisionEnsemble
from exactformer.experiments.models.vision.model import normalised


@dataclass(frozen=True)
class Score:
    """Of each model: mean cross-entropy, and the share of images it names rightly."""

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
