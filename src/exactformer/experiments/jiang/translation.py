"""A translator learns, meets the altered order, and learns on: what table 1 measures in BLEU.

original          trained on sentences as they are
moved at once     the same weights; the first ten tokens of the source come last
moved             these weights, trained on with inputs so altered, as the paper does
control           these weights, trained on for as long with nothing altered
places moved too  the first weights, altered inputs, rows of the position table moved along:
                  Proposition 6.2 without any training

The sentences are those of Multi30k, English to German, or at smoke scale of a made-up language: pairs
of a quality and a thing. The other language has its own words and says the thing first, so that a
translator must know what stood where.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from exactformer.experiments.models.translation.altered_order import first_to_end
from exactformer.experiments.models.translation.bleu import bleu, counter
from exactformer.experiments.models.translation.greedy import translate
from exactformer.experiments.models.translation.recurrent import RecurrentTranslator
from exactformer.experiments.models.translation.subwords import START, Subwords
from exactformer.experiments.models.translation.training import cross_entropy, fit
from exactformer.experiments.models.translation.transformer import TransformerTranslator
from exactformer.experiments.real_data import multi30k
from exactformer.learning.laws.trained.network import count_parameters

Ids = NDArray[np.int64]

QUALITIES = {"red": "rot", "old": "alt", "big": "dick", "wet": "nass"}
THINGS = {"dog": "hund", "hat": "mütze", "boat": "kahn", "tree": "baum"}
SMOOTHING = 0.1

Model = TransformerTranslator | RecurrentTranslator


@dataclass(frozen=True)
class Pairs:
    """Sentences of the source and their translations, as rows of ids; those to be tested as text."""

    source: Ids
    target: Ids
    test: Ids
    references: tuple[str, ...]
    subwords: Subwords


@cache
def pairs(data: str, train: int, tested: int, vocabulary: int, tokens: int) -> Pairs:
    """Return the first ``train`` and ``tested`` pairs of ``data``: multi30k, or made-up.

    The vocabulary is learnt from both languages of the training part alone.
    """
    if data == "multi30k":
        source, target = (multi30k("train", language)[:train] for language in ("en", "de"))
        test, references = (
            multi30k("test_2016_flickr", language)[:tested] for language in ("en", "de")
        )
    else:
        source, target = made_up(train + tested)
        test, references = source[train:], target[train:]
        source, target = source[:train], target[:train]
    subwords = Subwords([*source, *target], vocabulary)
    return Pairs(
        subwords.encode(source, tokens),
        subwords.encode(target, tokens),
        subwords.encode(test, tokens),
        references,
        subwords,
    )


def made_up(count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ``count`` sentences of two or three pairs, and their translations."""
    random = np.random.default_rng(0)
    qualities, things = list(QUALITIES), list(THINGS)
    sentences, translations = [], []
    for _ in range(count):
        chosen = random.integers(4, size=(random.integers(2, 4), 2))
        named = [(qualities[a], things[b]) for a, b in chosen]
        sentences.append(" ".join(f"{quality} {thing}" for quality, thing in named))
        translations.append(
            " ".join(f"{THINGS[thing]} {QUALITIES[quality]}" for quality, thing in named)
        )
    return tuple(sentences), tuple(translations)


def learn_to_translate(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the scores of one translator in both orders."""
    counter()
    data = pairs(*(parameters[k] for k in ("data", "train", "tested", "vocabulary", "tokens")))
    as_is = torch.arange(parameters["tokens"])
    moved = first_to_end(parameters["tokens"], parameters["moved"])
    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        torch.manual_seed(parameters["seed"])
        model = translator(parameters, data.subwords.size).to(device)
        curve = _train(model, data, as_is, parameters, fine=False)
        found: dict[str, Any] = {
            "original": score(model, data, as_is),
            "moved at once": score(model, data, moved),
        }
        if isinstance(model, TransformerTranslator):
            along = copy.deepcopy(model)
            along.source_places.copy_(model.source_places[moved])
            found["places moved too"] = score(along, data, moved)
        for name, order in (("moved", moved), ("control", as_is)):
            tuned = translator(parameters, data.subwords.size).to(device)
            tuned.load_state_dict(model.state_dict())
            _train(tuned, data, order, parameters, fine=True)
            found[name] = score(tuned, data, order)
    last = curve[-20:]
    return {**found, "loss": sum(last) / len(last), "parameters": count_parameters(model)}


def translator(parameters: Mapping[str, Any], vocabulary: int) -> Model:
    """Return a new translator of the kind and size that ``parameters`` name."""
    width, layers, dropout = (parameters[k] for k in ("width", "layers", "dropout"))
    if parameters["model"] == "lstm":
        return RecurrentTranslator(vocabulary, width, layers, dropout)
    tokens, heads, hidden = (parameters[k] for k in ("tokens", "heads", "hidden"))
    return TransformerTranslator(vocabulary, tokens, width, heads, hidden, layers, dropout)


def score(model: Model, data: Pairs, order: Tensor) -> float:
    """Return the BLEU of translating the test sentences, read in ``order``."""
    device = next(model.parameters()).device
    source = torch.as_tensor(data.test)[:, order].to(device)
    said = translate(model, source, data.target.shape[1]).cpu().numpy()
    return bleu(data.subwords.decode(said), data.references)


def _train(
    model: Model, data: Pairs, order: Tensor, parameters: Mapping[str, Any], fine: bool
) -> list[float]:
    device = next(model.parameters()).device
    source = torch.as_tensor(data.source)[:, order].to(device)
    target = torch.as_tensor(data.target, device=device)
    said = functional.pad(target[:, :-1], (1, 0), value=START)

    def loss(rows: Tensor) -> Tensor:
        return cross_entropy(model(source[rows], said[rows]), target[rows], SMOOTHING)

    return fit(
        model,
        loss,
        len(source),
        steps=parameters["fine_steps" if fine else "steps"],
        batch=parameters["batch"],
        rate=parameters["rate"],
    )
