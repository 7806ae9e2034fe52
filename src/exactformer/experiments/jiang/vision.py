"""The vision transformers of section 5.2 and table 1 of Jiang and Li: their sizes, data and training.

The paper fine-tunes ViT-B/16; here a smaller one is trained from scratch on CIFAR-10 (the JPEG copy):
patches of 4 × 4, width 256, 6 layers of 4 heads. Smoke scale has images of its own, see
:mod:`alternatives_tasks`.

A model that is trained once is kept on disk and shared by the experiments that look at it:

    weights/vision-KEY.safetensors       in $EXACTFORMER_CACHE, else in the user's cache folder

``KEY`` is the SHA-256 of sizes, recipe, data and seed. Beside the weights a file says what they
reached, where, and how long that took; a result made from weights that came from elsewhere repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.core.folders import cache_folder
from exactformer.experiments.engine.cell import fingerprint
from exactformer.experiments.engine.experiment import Scale, by_scale
from exactformer.experiments.engine.store import write_atomically
from exactformer.experiments.engine.work import hardware

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from exactformer.experiments.models.vision import (
        Recipe,
        VisionConfiguration,
        VisionEnsemble,
        VisionTransformer,
    )

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
    classes: int


def image_data(parameters: Mapping[str, Any], device: str) -> ImageData:
    """Return the images that ``parameters`` name."""
    import torch

    from exactformer.experiments.yun.alternatives_tasks import images

    found = images(parameters["data"], parameters["train"])
    parts = (found.train, found.train_labels, found.test, found.test_labels)
    x, y, test_x, test_y = (torch.as_tensor(part, device=device) for part in parts)
    return ImageData(x, y, test_x, test_y, found.classes)


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


@dataclass(frozen=True)
class Trained:
    """One trained model: its weights by name, and how it came about."""

    configuration: VisionConfiguration
    weights: dict[str, Tensor]
    accuracy: float
    """On the test images."""
    train_loss: float
    """Cross-entropy on the training images as they are."""
    seconds: float
    """Of training, of all models that were trained together."""
    together: int
    """How many these were."""
    hardware: str

    def model(self) -> VisionTransformer:
        """Return the model by itself."""
        from exactformer.experiments.models.vision import VisionEnsemble

        alone = VisionEnsemble([self.configuration])
        alone.set_weights(0, self.weights)
        return alone.member(0)


def trained(parameters: Mapping[str, Any], device: str) -> list[Trained]:
    """Return the full-size model for each seed: kept ones, and the others trained here together."""
    configurations = [configuration(parameters, seed=k) for k in range(parameters["seeds"])]
    paths = [weights_file(parameters, one) for one in configurations]
    missing = [one for one, path in zip(configurations, paths, strict=True) if not path.is_file()]
    if missing:
        for one in train(parameters, missing, device):
            _save(one, weights_file(parameters, one.configuration))
    return [_load(path, one) for path, one in zip(paths, configurations, strict=True)]


def train(
    parameters: Mapping[str, Any], configurations: list[VisionConfiguration], device: str
) -> list[Trained]:
    """Train models together and test them."""
    from exactformer.experiments.models.vision import score, train_vision

    data = image_data(parameters, device)
    ensemble = ensemble_of(configurations, device)
    history = train_vision(ensemble, data.train, data.train_labels, recipe(parameters))
    test = score(ensemble, data.test, data.test_labels)
    seen = score(ensemble, data.train, data.train_labels)
    return [
        Trained(
            one,
            {name: value.cpu() for name, value in ensemble.weights(k).items()},
            test.accuracy[k],
            seen.loss[k],
            history.seconds,
            len(configurations),
            hardware(device),
        )
        for k, one in enumerate(configurations)
    ]


def weights_file(parameters: Mapping[str, Any], one: VisionConfiguration) -> Path:
    """Where the weights of a model are or will be."""
    how = {"data": parameters["data"], "train": parameters["train"]}
    key = fingerprint({**how, **asdict(recipe(parameters)), "model": asdict(one)})
    return cache_folder("weights") / f"vision-{key[:16]}.safetensors"


def _save(one: Trained, path: Path) -> None:
    from safetensors.torch import save

    names = ("accuracy", "train_loss", "seconds", "together", "hardware")
    facts = {name: getattr(one, name) for name in names}
    contiguous = {name: value.contiguous() for name, value in one.weights.items()}
    write_atomically(path, save(contiguous, {"facts": json.dumps(facts)}))


def _load(path: Path, one: VisionConfiguration) -> Trained:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Trained(one, weights, **json.loads(file.metadata()["facts"]))
