"""The half of table 1 with images: what moving the first ten patches to the end costs a trained model.

The patches of a vision transformer change places after they are embedded and before places are added,
as in the paper. Three numbers stand beside the accuracy before: directly after the move; after
fine-tuning with it; and after as much fine-tuning without it, which tells what is due to the move.
An LSTM reads the same patches, the first ten last, and names the class from its last output, when it
has seen everything.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.jiang.vision import ImageData, ensemble_of, image_data, recipe, trained
from exactformer.experiments.models.translation.altered_order import first_to_end
from exactformer.experiments.models.translation.recurrent import Stack
from exactformer.experiments.models.translation.training import fit
from exactformer.experiments.models.vision import score, train_vision
from exactformer.experiments.models.vision.model import normalised, patches_of
from exactformer.experiments.models.vision.recipe import Pass, augmented


def moved_accuracies(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return accuracies on test images, each a list with one value per seed.

    ``original`` as trained; ``moved at once`` without fine-tuning; ``moved`` with it; ``control``
    fine-tuned as long with nothing moved.
    """
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


class PatchReader(nn.Module):
    """Patches (batch, n, p) to logits: LSTMs read them in order, the last output tells the class."""

    def __init__(self, pixels: int, classes: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.patches = nn.Linear(pixels, width)
        self.stack = Stack(width, layers, dropout)
        self.classes = nn.Linear(width, classes)

    def forward(self, patches: Tensor) -> Tensor:
        """Return a score for each class."""
        tokens, _ = self.stack(self.patches(patches))
        scores: Tensor = self.classes(tokens[:, -1])
        return scores


def learn_patches(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the accuracies of an LSTM, by the names of :func:`moved_accuracies`."""
    data = image_data(parameters, device)
    patch, width, layers = (parameters[k] for k in ("patch", "width", "layers"))
    tokens = (data.train.shape[-1] // patch) ** 2
    as_is = torch.arange(tokens, device=device)
    moved = first_to_end(tokens, parameters["moved"]).to(device)
    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        torch.manual_seed(parameters["seed"])
        sizes = (3 * patch**2, data.classes, width, layers, parameters["dropout"])
        model = PatchReader(*sizes).to(device)
        _train(model, data, as_is, parameters, fine=False)
        found = {
            "original": _accuracy(model, data, as_is, patch),
            "moved at once": _accuracy(model, data, moved, patch),
        }
        for name, order in (("moved", moved), ("control", as_is)):
            tuned = PatchReader(*sizes).to(device)
            tuned.load_state_dict(model.state_dict())
            _train(tuned, data, order, parameters, fine=True)
            found[name] = _accuracy(tuned, data, order, patch)
    return found


def _train(
    model: PatchReader, data: ImageData, order: Tensor, parameters: Mapping[str, Any], fine: bool
) -> None:
    x, y = data.train, data.train_labels
    batch, real = parameters["batch"], parameters["data"] == "cifar10"
    margin = 4 if real else 0  # moved or mirrored, a made-up image may be of another class
    whole, no_box = torch.ones(1, device=x.device), torch.zeros(4, device=x.device)

    def loss(rows: Tensor) -> Tensor:
        shift = torch.randint(-margin, margin + 1, (2, batch), device=x.device)
        mirrored = torch.rand(batch, device=x.device) < (0.5 if real else 0.0)
        now = Pass(rows, shift, mirrored, whole, no_box, whole)
        pixels, share = augmented(x, y, now, data.classes)
        patches = patches_of(pixels, parameters["patch"]).index_select(1, order)
        return functional.cross_entropy(model(patches), share)

    fit(
        model,
        loss,
        len(x),
        steps=parameters["fine_steps" if fine else "steps"],
        batch=batch,
        rate=parameters["rate"],
    )


@torch.no_grad()
def _accuracy(model: PatchReader, data: ImageData, order: Tensor, patch: int) -> float:
    right = 0
    parts = (torch.split(every, 1000) for every in (data.test, data.test_labels))
    for part, labels in zip(*parts, strict=True):
        patches = patches_of(normalised(part), patch)[:, order]
        right += int((model(patches).argmax(dim=1) == labels).sum())
    return right / len(data.test_labels)
