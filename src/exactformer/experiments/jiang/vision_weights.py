"""Trained vision transformers on disk, one file each, so that several experiments train them once.

    weights/vision-KEY.safetensors       in $EXACTFORMER_CACHE, else in the user's cache folder

``KEY`` is the SHA-256 of sizes, recipe, data and seed. Beside the weights a file says what they
reached, where, and how long that took; a result made from weights that came from elsewhere repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.cell import fingerprint
from exactformer.experiments.engine.store import default_root, write_atomically
from exactformer.experiments.engine.work import hardware
from exactformer.experiments.jiang.vision import configuration, ensemble_of, image_data, recipe

if TYPE_CHECKING:
    from torch import Tensor

    from exactformer.experiments.models.vision import VisionConfiguration, VisionTransformer


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
    return default_root().with_name("weights") / f"vision-{key[:16]}.safetensors"


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
