"""A translator learns, meets the altered order, and learns on: what table 1 measures in BLEU.

original          trained on sentences as they are
moved at once     the same weights; the first ten tokens of the source come last
moved             these weights, trained on with inputs so altered, as the paper does
control           these weights, trained on for as long with nothing altered
places moved too  the first weights, altered inputs, rows of the position table moved along:
                  Proposition 6.2 without any training
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from exactformer.experiments.jiang.translation_data import Pairs, pairs
from exactformer.experiments.models.translation.altered_order import first_to_end
from exactformer.experiments.models.translation.bleu import bleu, counter
from exactformer.experiments.models.translation.greedy import translate
from exactformer.experiments.models.translation.recurrent import RecurrentTranslator
from exactformer.experiments.models.translation.subwords import START
from exactformer.experiments.models.translation.training import cross_entropy, fit
from exactformer.experiments.models.translation.transformer import TransformerTranslator
from exactformer.learning.laws.trained.network import count_parameters

SMOOTHING = 0.1

Model = TransformerTranslator | RecurrentTranslator


def learn_to_translate(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the scores of one translator in both orders."""
    counter()
    data = pairs(*(parameters[k] for k in ("data", "train", "tested", "vocabulary", "tokens")))
    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        torch.manual_seed(parameters["seed"])
        return _scores(parameters, data, device)


def _scores(parameters: Mapping[str, Any], data: Pairs, device: str) -> dict[str, Any]:
    as_is = torch.arange(parameters["tokens"])
    moved = first_to_end(parameters["tokens"], parameters["moved"])
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
        capture=parameters["model"] != "lstm",
    )
