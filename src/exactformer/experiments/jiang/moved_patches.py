"""The half of table 1 with images: what moving the first ten patches to the end costs a trained model.

The patches change places after they are embedded and before places are added, as in the paper. Three
numbers stand beside the accuracy before: directly after the move; after fine-tuning with it; and after
as much fine-tuning without it, which tells what is due to the move.
"""

from collections.abc import Mapping
from typing import Any

from exactformer.experiments.engine.experiment import Scale, by_scale
from exactformer.experiments.jiang.vision import full_size, image_data, recipe

MOVED = by_scale(3, 10)
_TUNING: dict[Scale, dict[str, Any]] = by_scale(
    {"tune_epochs": 6, "tune_rate": 5e-3},
    {"tune_epochs": 3, "tune_rate": 2e-3},
    {"tune_epochs": 20, "tune_rate": 1e-3},
)


def moved_parameters(scale: Scale) -> dict[str, Any]:
    """Return the parameters of the one cell that :func:`moved_accuracies` takes: all seeds together."""
    return {**full_size(scale), **_TUNING[scale], "moved": MOVED[scale], "seed": 0}


def moved_accuracies(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return accuracies on test images, each a list with one value per seed.

    ``original`` as trained; ``moved at once`` without fine-tuning; ``moved`` with it; ``control``
    fine-tuned as long with nothing moved.
    """
    from dataclasses import replace

    from exactformer.experiments.jiang.vision import ensemble_of
    from exactformer.experiments.jiang.vision_weights import trained
    from exactformer.experiments.models.vision import score, train_vision

    before = {key: value for key, value in parameters.items() if key not in ("moved", "seed")}
    known = trained(before, device)
    data = image_data(parameters, device)
    still = [one.configuration for one in known]
    moved = [replace(one, moved=parameters["moved"]) for one in still]
    ensemble = ensemble_of([*moved, *still], device)
    for k in range(ensemble.models):
        ensemble.set_weights(k, known[k % len(known)].weights)
    at_once = score(ensemble, data.test, data.test_labels)
    tuning = recipe(before, epochs=parameters["tune_epochs"], rate=parameters["tune_rate"], seed=1)
    history = train_vision(ensemble, data.train, data.train_labels, tuning)
    tuned = score(ensemble, data.test, data.test_labels)
    count = len(known)
    return {
        "original": at_once.accuracy[count:],
        "moved at once": at_once.accuracy[:count],
        "moved": tuned.accuracy[:count],
        "control": tuned.accuracy[count:],
        "training accuracy": [one.accuracy for one in known],
        "training seconds": known[0].seconds,
        "trained on": known[0].hardware,
        "tuning seconds": history.seconds,
        "curve": history.losses,
    }
