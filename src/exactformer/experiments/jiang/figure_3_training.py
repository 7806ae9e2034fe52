"""A cell of jiang-figure-3: models of all head sizes and seeds as one ensemble, and their spectra."""

from collections.abc import Mapping
from typing import Any

from exactformer.experiments.jiang.vision import configuration, ensemble_of, image_data, recipe
from exactformer.experiments.models.vision import VisionTransformer, score, train_vision
from exactformer.experiments.models.vision.model import normalised
from exactformer.spectra import spectrum


def learn(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Train and measure; every metric is a list by head size of lists by seed."""
    sizes, seeds = parameters["sizes"], parameters["seeds"]
    members = [
        configuration(parameters, head_dim=m, seed=seed) for m in sizes for seed in range(seeds)
    ]
    data = image_data(parameters, device)
    ensemble = ensemble_of(members, device, exact=parameters.get("exact", False))
    how = recipe(parameters, seed=0)
    fuse = device.startswith("cuda")  # compiles what lies between products
    history = train_vision(ensemble, data.train, data.train_labels, how, fuse=fuse, show=False)
    train = score(ensemble, data.train, data.train_labels)
    test = score(ensemble, data.test, data.test_labels)
    inputs = normalised(data.test[: parameters["inputs"]]).cpu()
    looked = [last_layer(ensemble.member(k).cpu(), inputs) for k in range(ensemble.models)]

    def by_size(values: list[Any]) -> list[list[Any]]:
        return [values[k : k + seeds] for k in range(0, len(values), seeds)]

    return {
        "train loss": by_size(train.loss),
        "train accuracy": by_size(train.accuracy),
        "test loss": by_size(test.loss),
        "test accuracy": by_size(test.accuracy),
        "spectra": by_size([found["mean"] for found in looked]),
        "effective rank": by_size([found["effective rank"] for found in looked]),
        "all effective ranks": by_size([found["all"] for found in looked]),
        "agreement": max(found["agreement"] for found in looked),
        "diverged": sum(history.diverged),
        "curve": [by_size(losses) for losses in history.losses],
        "parameters": [configuration(parameters, head_dim=m).parameters for m in sizes],
        "seconds": history.seconds,
        "steps": history.steps,
    }


def last_layer(model: VisionTransformer, inputs: Any) -> dict[str, Any]:
    """Return the mean spectrum of the first head of the last layer, and effective ranks of all."""
    found = spectrum(model, inputs, device="cpu", progress=False)
    last = found.layers[-1]
    return {
        "mean": last.mean[0].tolist(),
        "effective rank": float(last.effective_rank[0]),
        "all": [float(layer.effective_rank.mean()) for layer in found.layers],
        "agreement": found.agreement,
    }
