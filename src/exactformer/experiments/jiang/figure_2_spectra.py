"""A cell of jiang-figure-2: one model's spectra over inputs, and its control's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from exactformer.experiments.jiang.vision import image_data
from exactformer.experiments.jiang.vision_weights import trained
from exactformer.experiments.models.vision.model import normalised
from exactformer.experiments.real_data import MADE_UP, minilm, multi30k
from exactformer.spectra import Spectrum, spectrum

LEADING = 8
"""How many singular values count as leading."""
_KEPT = 96
"""Inputs whose spectra are kept for drawing."""


def vision(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Analyse the trained vision transformers, one per seed."""
    known = trained(parameters, device)
    images = normalised(image_data(parameters, "cpu").test[: parameters["inputs"]])
    batches = list(torch.split(images, 32))
    found = [measured(_spectrum(one.model(), batches, one.configuration.seed)) for one in known]
    values = {name: [each[name] for each in found] for name in found[0] if name not in _DRAWN}
    return {
        **values,
        **{name: found[0][name] for name in _DRAWN},
        "accuracy": [one.accuracy for one in known],
        "train loss": [one.train_loss for one in known],
        "training seconds": known[0].seconds,
        "trained on": known[0].hardware,
    }


def sentences(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Analyse the pretrained sentence encoder."""
    from exactformer.spectra.preparation import load
    from exactformer.spectra.texts import tokenizer_at

    folder = minilm()
    written = texts(parameters, tokenizer_at(folder))
    return measured(_spectrum(load(folder), written))


def texts(parameters: Mapping[str, Any], tokenizer: Any) -> list[dict[str, Any]]:
    """Return batches of texts of exactly so many tokens: sentences in a row, cut where they end."""
    count, tokens = parameters["inputs"], parameters["tokens"]
    lines = _sentences(parameters)
    whole: list[str] = []
    place = 0
    while len(whole) < count:
        text: list[str] = []
        while sum(len(line.split()) for line in text) < tokens:
            text.append(lines[place % len(lines)])
            place += 1
        whole.append(" ".join(text))
    return [
        dict(
            tokenizer(
                whole[start : start + 32], return_tensors="pt", truncation=True, max_length=tokens
            )
        )
        for start in range(0, count, 32)
    ]


def _sentences(parameters: Mapping[str, Any]) -> list[str]:
    random = np.random.default_rng(parameters["seed"])
    if parameters["made_up"]:
        drawn = random.integers(len(MADE_UP), size=16 * parameters["inputs"])
        return [MADE_UP[k] for k in drawn]
    return [str(line) for line in random.permutation(np.array(multi30k("test_2016_flickr")))]


_DRAWN = ("violins", "control means", "layers", "head_dim")


def measured(found: Spectrum) -> dict[str, Any]:
    """Return the numbers of the table, and what is drawn: the first head of first and last layer."""
    assert found.control is not None
    heads = [(0, 0), (len(found.layers) - 1, 0)]
    return {
        **_concentration(found),
        **{f"control {name}": value for name, value in _concentration(found.control).items()},
        "cv by layer": [_variation(layer).mean(axis=1).tolist() for layer in found.layers],
        "agreement": found.agreement,
        "violins": [_short(found.layers[at].samples[:, head]) for at, head in heads],
        "control means": [_short(found.control.layers[at].mean[head]) for at, head in heads],
        "layers": len(found.layers),
        "head_dim": found.layers[0].head_dim,
    }


def _concentration(found: Spectrum) -> dict[str, float]:
    table = found.table
    variations = np.concatenate([_variation(layer) for layer in found.layers])
    return {
        "cv": float(np.median(variations)),
        "cv first": float(np.median(_variation(found.layers[0])[0])),
        "effective": float(table["effective_rank"].mean()),
        "rank": float(table["rank"].mean()),
        "needed": float(table["dim_99"].mean()),
    }


def _variation(layer: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return spread over mean of the leading singular values, (heads, LEADING)."""
    mean, spread = (part[:, :LEADING] for part in (layer.mean, layer.spread))
    found: np.ndarray[Any, np.dtype[np.float64]] = spread / np.maximum(
        mean, np.finfo(np.float64).tiny
    )
    return found


def _spectrum(model: Any, inputs: Any, seed: int = 0) -> Spectrum:
    return spectrum(
        model,
        inputs,
        control="reinitialised",
        samples=_KEPT,
        seed=seed,
        device="cpu",
        progress=False,
    )


def _short(values: Any) -> list[Any]:
    """Return numbers to four digits: they are only drawn."""
    rounded: list[Any] = np.vectorize(lambda v: float(f"{v:.4g}"))(values).tolist()
    return rounded
