"""The heads of a pretrained sentence encoder: what smaller ones would cost MiniLM's 72 heads of 32.

First the spectra: the head dimension that keeps 99 % of each head's score energy, with one basis for
all sentences. Then scores are computed from 24, 16 and 8 leading directions of every head, or from as
many as hold 99 % of its energy, found on sentences of Multi30k's training part. What is left of
sentence embeddings is measured on its test part:

    change      ‖e' − e‖ / ‖e‖, mean-pooled embeddings e
    order       Spearman's rank correlation of the cosine similarities of all pairs of sentences with
                those of the original: what a search by meaning would notice

Directions are found with and without taking each input's mean key away, which a softmax does not see.
At smoke scale sentences are put together from a few words, and no data are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.real_data import MADE_UP, minilm, multi30k
from exactformer.figures.style import BLUE, GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CENTRED = {True: "without the mean key", False: "with the mean key"}
SETTINGS = {"24": 24, "16": 16, "8": 8, "99 %": 0.99}
"""Directions of every head, or the share of the energy that each keeps."""
SEEDS = by_scale(1, 3)
"""Draws of the sentences that directions are found on."""


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for the spectra, one for every setting and draw."""
    fit, test = by_scale((24, 24), (128, 400), (128, 1000))[scale]
    sizes = {"sentences": fit, "tested": test, "made_up": scale is Scale.SMOKE}
    prices = [
        {"what": "price", "seed": seed, "centred": centred, "kept": kept, **sizes}
        for seed, centred, kept in product(range(SEEDS[scale]), CENTRED, SETTINGS)
    ]
    return [{"what": "spectra", "seed": 0, **sizes}, *prices]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Take the spectra, or measure what fewer directions cost."""
    names = ("sentences", "tested", "made_up", "seed")
    sizes = tuple(parameters[name] for name in names)
    centred = parameters.get("centred", True)
    found, model, batches, before = _material(sizes, centred, device)
    table = found.table
    if parameters["what"] == "spectra":
        return {
            "needed 99 %": table["shared_99"].tolist(),
            "needed 99.9 %": table["shared_999"].tolist(),
            "layers": table["layer"].nunique(),
            "heads": len(table),
            "head_dim": int(table["head_dim"].iloc[0]),
            "least 99 %": int(table["shared_99"].min()),
            "most 99 %": int(table["shared_99"].max()),
            "mean 99 %": float(table["shared_99"].mean()),
            "mean 99.9 %": float(table["shared_999"].mean()),
        }
    kept = SETTINGS[parameters["kept"]]
    asked: Any = {"rank": kept} if isinstance(kept, int) else {"energy": kept}
    with found.truncated(model, **asked):
        after = _embeddings(model, batches)
    from scipy.spatial.distance import pdist
    from scipy.stats import spearmanr

    order = spearmanr(pdist(before, "cosine"), pdist(after, "cosine")).statistic
    ranks = [
        kept if isinstance(kept, int) else layer.shared(head, kept)
        for layer in found.layers
        for head in range(layer.heads)
    ]
    lost = [
        layer.lost(head, ranks[place * layer.heads + head])
        for place, layer in enumerate(found.layers)
        for head in range(layer.heads)
    ]
    return {
        "directions": float(np.mean(ranks)),
        "energy lost": float(np.mean(lost)),
        "change": float(np.linalg.norm(after - before) / np.linalg.norm(before)),
        "order": float(order),
    }


@lru_cache(maxsize=1)
def _material(
    sizes: tuple[int, int, bool, int], centred: bool, device: str
) -> tuple[Any, Any, list[Any], NDArray[np.float64]]:
    """Return the spectrum, the model, what it is tested on, and its embeddings of that."""
    from exactformer.spectra import spectrum
    from exactformer.spectra.preparation import load
    from exactformer.spectra.texts import TokenizedTexts, tokenizer_at

    folder = minilm()
    model, tokenizer = load(folder).to(device), tokenizer_at(folder)
    fitted, tested = _sentences(*sizes)
    options: Any = {"tokenizer": tokenizer, "device": device, "progress": False}
    found = spectrum(model, fitted, centred=centred, batch_size=32, **options)
    batches = list(TokenizedTexts(tested, tokenizer, model, 50))
    return found, model, batches, _embeddings(model, batches)


def _embeddings(model: Any, batches: list[Any]) -> NDArray[np.float64]:
    """Return the mean of the last hidden states over the tokens of each sentence."""
    import torch

    device = next(model.parameters()).device
    found = []
    with torch.no_grad():
        for batch in batches:
            tokens = {name: value.to(device) for name, value in batch.items()}
            there = tokens["attention_mask"][..., None]
            states = model(**tokens).last_hidden_state
            found.append(((states * there).sum(dim=1) / there.sum(dim=1)).double().cpu().numpy())
    return np.concatenate(found)


def _sentences(fit: int, test: int, made_up: bool, seed: int) -> tuple[list[str], list[str]]:
    """Return sentences to find directions on and others to test on, drawn by the seed."""
    random = np.random.default_rng(seed)
    if made_up:
        chosen = random.permutation(MADE_UP).tolist()
        return chosen[:fit], chosen[fit : fit + test]
    known = multi30k("train")
    drawn = random.choice(len(known), fit, replace=False)
    return [known[i] for i in drawn], list(multi30k("test_2016_flickr")[:test])


def _quantities(scale: Scale) -> list[Quantity]:
    return [
        *rows(
            "dimensions for {row}",
            {
                "99 %, mean over heads": ("mean 99 %", 0.02),
                "99 %, least": ("least 99 %", 0.1),
                "99 %, most": ("most 99 %", 0.1),
                "99.9 %, mean over heads": ("mean 99.9 %", 0.02),
            },
            where={"what": "spectra"},
        ),
        *rows(
            "{kept}, {centred}: {row}",
            {
                "directions, mean over heads": "directions",
                "energy lost, mean over heads": "energy lost",
                "change of embeddings": "change",
                "rank correlation of similarities": "order",
            },
            {"kept": {name: _words(name) for name in SETTINGS}, "centred": CENTRED},
            {"what": "price"},
            drift=0.02,
        ),
    ]


def _words(setting: str) -> str:
    return setting if setting.endswith("%") else f"{setting} directions"


def draw(summary: Summary) -> Figure:
    """Draw needed dimensions by layer, change of embeddings and order kept by directions."""
    figure, (needed, change, order) = subplots(13, 4, 1, 3)
    _needed(needed, summary)
    _prices(change, summary, "change", "change of sentence embeddings")
    _prices(order, summary, "order", "rank correlation of similarities")
    change.set_yscale("log")
    change.legend()
    return figure


def _needed(axes: Axes, summary: Summary) -> None:
    cell = summary.cell(what="spectra")
    layers, m = cell.metrics["layers"], cell.metrics["head_dim"]
    for share, colour, shift in (("99 %", BLUE, -0.12), ("99.9 %", ORANGE, 0.12)):
        values = cell.metrics[f"needed {share}"]
        heads = len(values) // layers
        places = [i // heads + shift + (i % heads - heads / 2) * 0.012 for i in range(len(values))]
        axes.plot(places, values, "o", color=colour, markersize=3, alpha=0.8, label=share)
    axes.axhline(m, color=GREY, lw=0.8, ls="--")
    axes.set_ylim(0, m + 2)
    axes.set_xlabel("layer")
    axes.set_ylabel("head dimension that keeps the energy")
    axes.set_title(f"{cell.metrics['heads']} heads of {m}")
    axes.legend(loc="lower right")


def _prices(axes: Axes, summary: Summary, metric: str, label: str) -> None:
    prices = summary.frame.query("what == 'price'")
    for centred, colour in ((True, BLUE), (False, ORANGE)):
        mine = prices[prices["centred"] == centred]
        even = mine[mine["kept"] != "99 %"]
        means = even.groupby("directions")[metric].mean()
        axes.plot(means.index, means, "o-", color=colour, label=CENTRED[centred])
        by_head = mine[mine["kept"] == "99 %"]
        words = "99 % of the energy of each head" if centred else None
        axes.plot(by_head["directions"], by_head[metric], "x", color=colour, label=words)
    axes.set_xlabel("directions for a head of 32, mean")
    axes.set_ylabel(label)


EXPERIMENT = Experiment(
    name="spectra-minilm",
    title="How much head MiniLM needs",
    claim="Scores from half of each head's directions keep the order of sentences by meaning.",
    source="Jiang & Li 2023, section 5.2, on a pretrained sentence encoder",
    cells=cells,
    run=run,
    quantities=_quantities,
    figure=draw,
)


@EXPERIMENT.states("16 of 32 directions keep a rank correlation of similarities of 0.99")
def _(summary: Summary) -> bool:
    return summary.every("what == 'price' and kept == '16' and centred == True", "order >= 0.99")


@EXPERIMENT.states("fewer directions change embeddings more")
def _(summary: Summary) -> bool:
    change = summary.frame.query("what == 'price'").groupby(["kept", "centred"])["change"].mean()
    means = change.unstack()
    return bool(
        (means.loc["24"] < means.loc["16"]).all() and (means.loc["16"] < means.loc["8"]).all()
    )


@EXPERIMENT.states("directions found without the mean key change embeddings less, at every number")
def _(summary: Summary) -> bool:
    change = summary.frame.query("what == 'price' and kept != '99 %'")
    means = change.groupby(["kept", "centred"])["change"].mean().unstack()
    return bool((means[True] < means[False]).all())


@EXPERIMENT.states("for 99 % the first layer needs more head than the last")
def _(summary: Summary) -> bool:
    cell = summary.cell(what="spectra")
    needed, heads = cell.metrics["needed 99 %"], cell.metrics["heads"] // cell.metrics["layers"]
    return bool(sum(needed[:heads]) > sum(needed[-heads:]))
