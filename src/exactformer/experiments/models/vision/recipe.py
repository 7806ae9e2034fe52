"""The recipe of training vision transformers, and everything random about it, drawn beforehand.

A pass over the data is a handful of tables: which image comes when, how far it is moved and whether it
is mirrored, how much of its neighbour is mixed in, what is dropped. They are drawn on the CPU from the
recipe's seed, so all models of an ensemble see the same, on every device.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from exactformer.errors import InputError
from exactformer.experiments.models.vision.model import normalised


@dataclass(frozen=True)
class Recipe:
    """AdamW with one cycle of the rate, on images moved by up to ``margin`` pixels and mirrored.

    ``mix`` blends each batch with its neighbours: the whole image (mixup, share from Beta(.8, .8)) or a
    box (cutmix, Beta(1, 1)), each in half of the batches. ``smoothing`` goes to all classes alike. Each
    part of the last layer is left out for a share ``drop_path`` of the images, of those below less.
    """

    epochs: int = 100
    batch: int = 512
    rate: float = 1e-3
    rise: float = 0.15
    weight_decay: float = 0.05
    clip: float = 1.0
    margin: int = 4
    mirror: bool = True
    mix: bool = True
    smoothing: float = 0.1
    drop_path: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained with."""
        if self.epochs < 0 or self.batch < 1 or self.margin < 0:
            raise InputError("epochs and margin must be at least 0, batch at least 1.")
        if not (0 <= self.drop_path < 1 and 0 <= self.smoothing < 1):
            raise InputError("drop_path and smoothing are shares below 1.")


@dataclass(frozen=True)
class Pass:
    """One pass over the data; S steps of B images. All are tensors, of one device."""

    rows: Tensor
    """(S, B): which image."""
    shift: Tensor
    """(S, 2, B): how far down and right it is read, from −margin to margin."""
    mirrored: Tensor
    """(S, B)"""
    own: Tensor
    """(S, 1): the share of the image that is its own where the whole is mixed; 1 without."""
    box: Tensor
    """(S, 4): top, bottom, left, right, in shares of the side, of the box from the neighbour."""
    kept: Tensor
    """(S, layers, 2, B): 0 where a part is dropped, else the inverse of how often it is not."""

    def to(self, device: torch.device) -> Pass:
        """Return a copy there."""
        return Pass(*(getattr(self, field.name).to(device) for field in fields(self)))

    def refill(self, other: Pass) -> None:
        """Take over the numbers of another pass, in the memory of this one."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name), non_blocking=True)

    def at(self, step: Tensor) -> Pass:
        """Return one step, without the axis S; ``step`` is a tensor (1,)."""
        return Pass(*(getattr(self, f.name).index_select(0, step).squeeze(0) for f in fields(self)))


def draw_pass(recipe: Recipe, images: int, layers: int, source: torch.Generator) -> Pass:
    """Draw a pass over ``images`` images."""
    batch = min(recipe.batch, images)
    steps = images // batch
    shape = (steps, batch)
    rows = torch.randperm(images, generator=source)[: steps * batch].view(shape)
    shift = torch.randint(2 * recipe.margin + 1, (steps, 2, batch), generator=source)
    mirrored = torch.rand(shape, generator=source) < (0.5 if recipe.mirror else 0.0)
    none = torch.ones(steps, 1), torch.zeros(steps, 4)
    own, box = _mixing(steps, source) if recipe.mix else none
    drop = torch.linspace(0, recipe.drop_path, layers)[:, None, None]
    stays = torch.rand(steps, layers, 2, batch, generator=source) >= drop
    return Pass(rows, shift - recipe.margin, mirrored, own, box, stays / (1 - drop))


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


def _mixing(steps: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    whole = torch.rand(steps, 1, generator=source) < 0.5
    seed = int(torch.randint(2**31, (), generator=source))
    share = torch.as_tensor(np.random.default_rng(seed).beta(0.8, 0.8, (steps, 1))).float()
    area, *centre = torch.rand(3, steps, generator=source)
    half = area.sqrt() / 2
    edges = [(c + sign * half).clamp(0, 1) for c in centre for sign in (-1, 1)]
    box = torch.stack(edges, dim=1)
    return torch.where(whole, share, 1.0), torch.where(whole, 0.0, box)


def _inside(place: Tensor, side: int) -> Tensor:
    """Reflect places beyond the edges."""
    place = place.abs()
    return torch.minimum(place, 2 * (side - 1) - place)
