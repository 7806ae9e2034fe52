"""A cell of yun-alternatives: one model learns one task, is tested, and its layers are probed."""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.models.mixing import MixingEncoder
from exactformer.experiments.models.vision.model import normalised, patches_of
from exactformer.experiments.yun.alternatives_tasks import MASK, PAD, UNKNOWN, images, words
from exactformer.learning.ensembles.training.train import product_precision
from exactformer.learning.laws.trained.network import count_parameters
from exactformer.probing import is_contextual_mapping

SHARE_HIDDEN = 0.15
FOLDS = 7  # in testing every seventh word is hidden, so that each is named once
COLLISION = 1e-9  # of the codes' spread; they are computed in double precision


class WordModel(nn.Module):
    """Word ids (batch, n) to tokens (batch, n, w); :meth:`logits` compares these with all words."""

    def __init__(self, vocabulary: int, encoder: MixingEncoder, width: int, tokens: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.encoder = encoder
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the encoder's tokens; padding is neither looked at nor summed."""
        result: Tensor = self.encoder(self.words(ids) + self.places[: ids.shape[1]], ids != PAD)
        return result

    def logits(self, tokens: Tensor) -> Tensor:
        """Return a score for each word of the vocabulary."""
        return tokens @ self.words.weight.T + self.bias


class PatchModel(nn.Module):
    """Patches (batch, n, p) to tokens (batch, n, w); :meth:`logits` classifies their mean."""

    def __init__(
        self, patch: int, classes: int, encoder: MixingEncoder, width: int, tokens: int
    ) -> None:
        super().__init__()
        self.patches = nn.Linear(3 * patch * patch, width)
        self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.encoder = encoder
        self.classes = nn.Linear(width, classes)

    def forward(self, patches: Tensor) -> Tensor:
        """Return the encoder's tokens."""
        result: Tensor = self.encoder(self.patches(patches) + self.places)
        return result

    def logits(self, tokens: Tensor) -> Tensor:
        """Return a score for each class."""
        result: Tensor = self.classes(tokens.mean(dim=1))
        return result


def learn(parameters: Mapping[str, Any], kinds: Sequence[str], device: str) -> dict[str, Any]:
    """Train a model whose layers are ``kinds``; return errors, cost, and how its layers do."""
    task = learn_words if parameters["task"] == "words" else learn_patches
    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        torch.manual_seed(parameters["seed"])
        return task(parameters, kinds, device)


def learn_words(parameters: Mapping[str, Any], kinds: Sequence[str], device: str) -> dict[str, Any]:
    """Learn to name hidden words; sentences of the test and validation splits are the contexts."""
    tokens, batch = parameters["tokens"], parameters["batch"]
    data = words(parameters["data"], tokens)
    model = WordModel(data.vocabulary, _encoder(parameters, kinds), parameters["width"], tokens)
    model.to(device)
    train = torch.as_tensor(data.train, device=device)
    hidden = int(SHARE_HIDDEN * batch * float((data.train > UNKNOWN).sum(1).mean()))

    def loss(rows: Tensor) -> Tensor:
        ids = train[rows]
        chance = torch.rand(ids.shape, device=device).masked_fill(ids <= UNKNOWN, -1.0)
        places = chance.flatten().topk(min(hidden, ids.numel())).indices
        asked = ids.flatten()[places]
        shown = ids.flatten().index_fill(0, places, MASK).view_as(ids)
        return functional.cross_entropy(model.logits(model(shown).flatten(0, 1)[places]), asked)

    metrics = _train(model, loss, len(train), parameters)
    metrics |= test_words(model, torch.as_tensor(data.test, device=device))
    contexts = [row[row != PAD] for row in data.probe[: parameters["probe"]]]
    return metrics | probe(model, contexts)


def test_words(model: WordModel, ids: Tensor) -> dict[str, float]:
    """Return perplexity and accuracy over all known words of ``ids``, each hidden once."""
    surprise, right, count = 0.0, 0, 0
    place = torch.arange(ids.shape[1], device=ids.device)
    with torch.no_grad():
        for fold in range(FOLDS):
            for part in torch.split(ids, 1024):
                asked = (place % FOLDS == fold) & (part > UNKNOWN)
                logits = model.logits(model(part.masked_fill(asked, MASK))[asked])
                surprise += float(functional.cross_entropy(logits, part[asked], reduction="sum"))
                right += int((logits.argmax(dim=1) == part[asked]).sum())
                count += int(asked.sum())
    return {
        "perplexity": float(np.exp(surprise / count)),
        "accuracy": right / count,
        "asked": count,
    }


def learn_patches(
    parameters: Mapping[str, Any], kinds: Sequence[str], device: str
) -> dict[str, Any]:
    """Learn to classify images from their patches."""
    patch, tokens = parameters["patch"], parameters["tokens"]
    data = images(parameters["data"], parameters["train"])
    side = data.train.shape[-1] // patch
    encoder = _encoder(parameters, kinds, (side, side))
    model = PatchModel(patch, data.classes, encoder, parameters["width"], tokens).to(device)
    x, y = (torch.as_tensor(part, device=device) for part in (data.train, data.train_labels))

    def loss(rows: Tensor) -> Tensor:
        shown = x[rows] if parameters["data"] == "synthetic" else _crop_and_flip(x[rows])
        return functional.cross_entropy(
            model.logits(model(patches_of(normalised(shown), patch))), y[rows]
        )

    metrics = _train(model, loss, len(x), parameters)
    test, labels = (torch.as_tensor(part, device=device) for part in (data.test, data.test_labels))
    with torch.no_grad():
        right = [
            model.logits(model(patches_of(normalised(part), patch))).argmax(dim=1) == named
            for part, named in zip(torch.split(test, 1000), torch.split(labels, 1000), strict=True)
        ]
    metrics["accuracy"] = float(torch.cat(right).double().mean())
    seen = patches_of(normalised(test[: parameters["probe"]]), patch).cpu().numpy()
    return metrics | probe(model, np.concatenate([seen, one_patch_changed(seen)]))


def one_patch_changed(patches: NDArray[Any]) -> NDArray[Any]:
    """Give each image one patch of the next: all its others are then met in a second context."""
    number, tokens, _ = patches.shape
    image, place = np.arange(number), np.random.default_rng(0).integers(tokens, size=number)
    changed = patches.copy()
    changed[image, place] = np.roll(patches, -1, axis=0)[image, place]
    return changed


def _crop_and_flip(shown: Tensor, margin: int = 4) -> Tensor:
    """Move each image by up to ``margin`` pixels and mirror every other one."""
    count, _, side, _ = shown.shape
    wide = functional.pad(shown, (margin,) * 4)
    pixels = torch.arange(side, device=shown.device)
    down, right = torch.randint(2 * margin + 1, (2, count, 1), device=shown.device)
    across = torch.where(torch.rand(count, 1, device=shown.device) < 0.5, pixels, pixels.flip(0))
    image = torch.arange(count, device=shown.device)[:, None, None]
    moved = wide[image, :, (down + pixels)[:, :, None], (right + across)[:, None, :]]
    return moved.permute(0, 3, 1, 2)


def probe(
    model: WordModel | PatchModel, contexts: Sequence[NDArray[Any]] | NDArray[Any]
) -> dict[str, Any]:
    """Return for each layer, from below, how close it comes to a contextual mapping.

    ``shared`` is the share of tokens that have no code of their own, ``separation`` the smallest
    distance between codes that must differ, in units of their spread. The place of a token belongs
    to it, since the models know places.
    """
    in_double = copy.deepcopy(model).double()
    found = [
        is_contextual_mapping(
            in_double, contexts, layer=f"encoder.blocks.{k}", positional=True, tolerance=COLLISION
        )
        for k in range(len(in_double.encoder.blocks))
    ]
    shared = [layer.collisions / layer.tokens for layer in found]
    separation = [layer.relative_separation for layer in found]
    return {
        "shared": shared,
        "separation": separation,
        "first_shared": shared[0],
        "last_shared": shared[-1],
        "last_separation": separation[-1],
        "probed": found[0].tokens,
    }


def _encoder(
    parameters: Mapping[str, Any], kinds: Sequence[str], shape: tuple[int, ...] = ()
) -> MixingEncoder:
    names = ("width", "heads", "tokens", "hidden", "kernel", "dropout")
    return MixingEncoder(kinds, shape=shape, **{name: parameters[name] for name in names})


def _train(
    model: WordModel | PatchModel,
    loss: Callable[[Tensor], Tensor],
    count: int,
    parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Train by AdamW with one cycle of the rate; leave the model in evaluation mode."""
    epochs, batch = parameters["epochs"], parameters["batch"]
    device = next(model.parameters()).device
    steps = count // batch
    optimiser = torch.optim.AdamW(
        model.parameters(), parameters["rate"], weight_decay=0.05, fused=device.type == "cuda"
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, parameters["rate"], total_steps=epochs * steps + 1, pct_start=0.15
    )
    losses = []
    model.train()
    with product_precision("high"):  # while training; tests and probes are in full
        began = time.perf_counter()
        for _ in range(epochs):
            order = torch.randperm(count, device=device)
            total = torch.zeros((), device=device)
            for rows in torch.split(order[: steps * batch], batch):
                value = loss(rows)
                optimiser.zero_grad(set_to_none=True)
                value.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                total += value.detach()
            losses.append(total / steps)
        curve = torch.stack(losses).tolist()
        seconds = time.perf_counter() - began
    model.eval()
    return {
        "parameters": count_parameters(model.encoder),
        "all_parameters": count_parameters(model),
        "seconds": seconds,
        "curve": curve,
    }
