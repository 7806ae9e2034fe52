"""The vision transformers of section 5.2 and table 1 of Jiang and Li: their sizes, data and training.

The paper fine-tunes ViT-B/16; here a smaller one is trained from scratch on CIFAR-10 (the JPEG copy):
patches of 4 × 4, width 256, 6 layers of 4 heads. Smoke scale has images of its own, see
:mod:`alternatives_tasks`.

A model that is trained once is kept (:mod:`vision_weights`) and shared by the experiments that
look at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.experiment import Scale, by_scale

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from exactformer.experiments.models.vision import Recipe, VisionConfiguration, VisionEnsemble

SEEDS = by_scale(1, 2, 3)

_COMMON = {"patch": 4, "rise": 0.15, "weight_decay": 0.05}
_CIFAR = {"data": "cifar10", "side": 32, "classes": 10, "margin": 4, "mirror": True}

FULL: dict[Scale, dict[str, Any]] = by_scale(
    _COMMON
    | {"data": "synthetic", "train": 2560, "side": 16, "classes": 4}
    | {"width": 32, "layers": 2, "heads": 2, "head_dim": 16, "value_dim": 16, "hidden": 64}
    | {"epochs": 12, "batch": 64, "rate": 5e-3}
    | {"margin": 0, "mirror": False, "mix": False, "smoothing": 0.0, "drop_path": 0.0},
    _COMMON
    | {**_CIFAR, "train": 5000, "mix": False, "smoothing": 0.1, "drop_path": 0.0}
    | {"width": 64, "layers": 3, "heads": 4, "head_dim": 16, "value_dim": 16, "hidden": 128}
    | {"epochs": 6, "batch": 128, "rate": 2e-3},
    _COMMON
    | {**_CIFAR, "train": 50_000, "mix": True, "smoothing": 0.1, "drop_path": 0.1}
    | {"width": 256, "layers": 6, "heads": 4, "head_dim": 64, "value_dim": 64, "hidden": 512}
    | {"epochs": 100, "batch": 512, "rate": 1e-3},
)
"""The model at its full head size, and how it is trained."""


def full_size(scale: Scale) -> dict[str, Any]:
    """Return the parameters of the full-size model: those of its training and the number of seeds."""
    return {**FULL[scale], "seeds": SEEDS[scale]}


@dataclass(frozen=True)
class ImageData:
    """Training and test images as bytes, on one device."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


def image_data(parameters: Mapping[str, Any], device: str) -> ImageData:
    """Return the images that ``parameters`` name."""
    import torch

    from exactformer.experiments.yun.alternatives_tasks import images

    found = images(parameters["data"], parameters["train"])
    parts = (found.train, found.train_labels, found.test, found.test_labels)
    return ImageData(*(torch.as_tensor(part, device=device) for part in parts))


def configuration(parameters: Mapping[str, Any], **changes: Any) -> VisionConfiguration:
    """Return the configuration among ``parameters``, with changes."""
    from exactformer.experiments.models.vision import VisionConfiguration

    return VisionConfiguration(**_among(VisionConfiguration, {**parameters, **changes}))


def recipe(parameters: Mapping[str, Any], **changes: Any) -> Recipe:
    """Return the recipe among ``parameters``, with changes."""
    from exactformer.experiments.models.vision import Recipe

    return Recipe(**_among(Recipe, {"seed": 0, **parameters, **changes}))


def ensemble_of(
    configurations: Sequence[VisionConfiguration], device: str, exact: bool = False
) -> VisionEnsemble:
    """Return fresh models on a device; a GPU multiplies matrices in bfloat16 unless ``exact``."""
    import torch

    from exactformer.experiments.models.vision import VisionEnsemble

    short = device.startswith("cuda") and not exact
    compute: torch.dtype | None = torch.bfloat16 if short else None
    return VisionEnsemble(configurations, compute=compute).to(device)


def _among(kind: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in parameters.items() if name in names}
