"""The heads of a pretrained sentence encoder: how small MiniLM's 72 heads of 32 can be.

First the spectra: the head dimension that keeps 99 % of each head's score energy, with one basis for
all sentences. Then all heads are shrunk to 24, 16 and 8 dimensions, fitted to sentences of Multi30k's
training part. What is left of sentence embeddings is measured on its test part, which no fit has seen:

    change      ‖e' − e‖ / ‖e‖, mean-pooled embeddings e
    order       Spearman's rank correlation of the cosine similarities of all pairs of sentences with
                those of the original: what a search by meaning would notice

Beside it stands the truncation of W_QᵀW_K, which looks at the weights alone. At smoke scale sentences
are put together from a few words, and no data are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    from pandas import DataFrame

METHODS = {"data": "fitted", "weights": "weights only"}


DIMS = by_scale((16,), (24, 16, 8))
"""The new head dimensions."""
SEEDS = by_scale(1, 1, 3)
"""Draws of the sentences that heads are fitted to."""


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for the spectra, one for every dimension, method and draw; weights need one draw."""
    fit, test = by_scale((24, 24), (32, 200), (128, 1000))[scale]
    sizes = {"sentences": fit, "tested": test, "made_up": scale is Scale.SMOKE}
    shrunk = [
        {"what": "shrink", "head_dim": r, "method": method, "seed": seed, **sizes}
        for r, method, seed in product(DIMS[scale], METHODS, range(SEEDS[scale]))
        if method == "data" or seed == 0
    ]
    return [{"what": "spectra", "seed": 0, **sizes}, *shrunk]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Analyse the model, or shrink it and compare embeddings."""
    folder = minilm()
    fitted, tested = _sentences(parameters)
    if parameters["what"] == "spectra":
        return _spectra(folder, fitted, device)
    return _shrink(folder, fitted, tested, parameters, device)


def _spectra(folder: str, sentences: list[str], device: str) -> dict[str, Any]:
    from exactformer.spectra import spectrum

    table = spectrum(folder, sentences, device=device, centred=True, progress=False).table
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


def _shrink(
    folder: str,
    fitted: list[str],
    tested: list[str],
    parameters: Mapping[str, Any],
    device: str,
) -> dict[str, Any]:
    from scipy.spatial.distance import pdist
    from scipy.stats import spearmanr

    from exactformer.spectra.preparation import load
    from exactformer.spectra.shrinking.shrink import shrink_heads
    from exactformer.spectra.texts import tokenizer_at

    model, tokenizer = load(folder).to(device), tokenizer_at(folder)
    small, report = shrink_heads(
        model,
        fitted,
        head_dim=parameters["head_dim"],
        held_out=tested,
        method=parameters["method"],
        tokenizer=tokenizer,
        batch_size=32,
        device=device,
        progress=False,
    )
    before, after = (_embeddings(m, tokenizer, tested) for m in (model, small))
    order = spearmanr(pdist(before, "cosine"), pdist(after, "cosine")).statistic
    return {
        "change": float(np.linalg.norm(after - before) / np.linalg.norm(before)),
        "order": float(order),
        "score error": report.fitted.score_error,
        "predicted score error": report.predicted_score_error,
        "attention": report.fitted.attention_change,
        "outputs": report.fitted.output_change,
        "parameters saved": report.parameters.share,
        "cache saved": report.key_cache.share,
        "form": report.form,
    }


def _embeddings(model: Any, tokenizer: Any, sentences: list[str]) -> NDArray[np.float64]:
    """Return the mean of the last hidden states over the tokens of each sentence."""
    import torch

    from exactformer.spectra.texts import TokenizedTexts

    device = next(model.parameters()).device
    found = []
    with torch.no_grad():
        for batch in TokenizedTexts(sentences, tokenizer, model, 50):
            tokens = {name: value.to(device) for name, value in batch.items()}
            there = tokens["attention_mask"][..., None]
            states = model(**tokens).last_hidden_state
            found.append(((states * there).sum(dim=1) / there.sum(dim=1)).double().cpu().numpy())
    return np.concatenate(found)


def _sentences(parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return sentences to fit to and others to test on, drawn by the seed."""
    random = np.random.default_rng(parameters["seed"])
    fit, test = parameters["sentences"], parameters["tested"]
    if parameters["made_up"]:
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
            "head {head_dim}, {method}: {row}",
            {
                "change of embeddings": "change",
                "rank correlation of similarities": "order",
                "error of scores": "score error",
            },
            {"head_dim": DIMS[scale], "method": METHODS},
            {"what": "shrink"},
            drift=0.02,
        ),
    ]


def draw(summary: Summary) -> Figure:
    """Draw needed dimensions by layer, change of embeddings and order kept by head dimension."""
    figure, (needed, change, order) = subplots(13, 4, 1, 3)
    _needed(needed, summary)
    _losses(change, summary, "change", "change of sentence embeddings, held out")
    _losses(order, summary, "order", "rank correlation of similarities, held out")
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


def _losses(axes: Axes, summary: Summary, metric: str, label: str) -> None:
    shrunk = summary.frame.query("what == 'shrink'")
    for method, name, colour in (
        ("data", "fitted to sentences", BLUE),
        ("weights", "weights only", ORANGE),
    ):
        mine = shrunk[shrunk["method"] == method]
        means = mine.groupby("head_dim")[metric].mean()
        axes.plot(means.index, means, "o-", color=colour, label=name)
        axes.plot(mine["head_dim"], mine[metric], "_", color=colour, markersize=10)
        axes.set_xticks(means.index)
    axes.set_xlabel("new head dimension, of 32")
    axes.set_ylabel(label)


EXPERIMENT = Experiment(
    name="spectra-minilm",
    title="How much head MiniLM needs",
    claim="Heads can be halved by a fit to data at a small loss, which weights alone do not allow.",
    source="Jiang & Li 2023, section 5.2, on a pretrained sentence encoder",
    cells=cells,
    run=run,
    quantities=_quantities,
    figure=draw,
)


def _by_method(summary: Summary, metric: str) -> DataFrame:
    """Return means over draws, one row per head dimension, one column per method."""
    draws = summary.frame.query("what == 'shrink'").groupby(["head_dim", "method"])[metric]
    return draws.agg(lambda values: values.mean(skipna=False)).unstack()


@EXPERIMENT.states(
    "at head 16 fitting to data changes embeddings at most half as much as truncating weights"
)
def _(summary: Summary) -> bool:
    change = _by_method(summary, "change").loc[16]
    return bool(change["data"] <= change["weights"] / 2)


@EXPERIMENT.states("it keeps the order of similarities better at every size")
def _(summary: Summary) -> bool:
    order = _by_method(summary, "order")
    return bool((order["data"] > order["weights"]).all())


@EXPERIMENT.states("predicted errors of scores are within 10 % of the measured")
def _(summary: Summary) -> bool:
    near = "abs(`predicted score error` / `score error` - 1) <= 0.1"
    return summary.every("what == 'shrink'", near)


@EXPERIMENT.states("for 99 % the first layer needs more head than the last")
def _(summary: Summary) -> bool:
    cell = summary.cell(what="spectra")
    needed, heads = cell.metrics["needed 99 %"], cell.metrics["heads"] // cell.metrics["layers"]
    return bool(sum(needed[:heads]) > sum(needed[-heads:]))
