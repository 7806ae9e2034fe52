"""Augmentation: images moved, mirrored and mixed, with the share of each class in them."""

from __future__ import annotations

import torch
from torch import Tensor

from exactformer.experiments.models.vision.model import normalised
from exactformer.experiments.models.vision.recipe import Pass


def augmented(images: Tensor, labels: Tensor, step: Pass, classes: int) -> tuple[Tensor, Tensor]:
    """Return images (B, 3, side, side) round zero, and the share of every class in them (B, classes).

    ``images`` are all of them, as bytes. Beyond an edge an image goes on as its mirror image.
    """
    side = images.shape[-1]
    pixels = torch.arange(side, device=images.device)
    down, right = (_inside(pixels + shift[:, None], side) for shift in step.shift)
    right = torch.where(step.mirrored[:, None], right.flip(1), right)
    rows = step.rows[:, None, None]
    own = normalised(images[rows, :, down[:, :, None], right[:, None, :]].permute(0, 3, 1, 2))
    share = (labels[step.rows, None] == torch.arange(classes, device=labels.device)).to(own)
    top, bottom, left, end = (step.box * side).round()
    inside = ((pixels >= top) & (pixels < bottom))[:, None] & ((pixels >= left) & (pixels < end))
    mask = step.own * (~inside).to(own)  # (side, side): of each pixel, what is its own
    part = mask.mean()
    mixed = own * mask + own.roll(1, 0) * (1 - mask)
    return mixed, share * part + share.roll(1, 0) * (1 - part)


def _inside(place: Tensor, side: int) -> Tensor:
    """Reflect places beyond the edges."""
    place = place.abs()
    return torch.minimum(place, 2 * (side - 1) - place)
