"""The heads of a small language model: what smaller ones would cost SmolLM2.

SmolLM2-135M-Instruct has 30 layers of 9 query heads over 3 key heads of 64, with rotary positions. Its
scores are computed from fewer leading directions, found on windows of Python's help topics drawn by the
seed: as many for every head, as many as hold 99 % of each head's energy, or that mean number for every
head. The price is measured on windows of the topics that were not drawn, and on captions of
photographs (Multi30k), text of another kind:

    perplexity  that with fewer directions over that of the original
    KL          of the predicted distributions from the original's, in nats per token
    agreement   how often the likeliest token is the original's

At smoke scale the model is a random one that wrote its texts itself, and no data are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

TEXTS = {"topics": "help topics", "captions": "captions"}
RANKS = by_scale((6, 4, 2), (48, 32, 16, 8))
SHARE = 0.99
SEEDS = by_scale(1, 3)
SIZES = by_scale(
    {"length": 32, "fitted": 8, "tested": 3},
    {"length": 256, "fitted": 24, "tested": 10},
    {"length": 512, "fitted": 64, "tested": 16},
)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell per draw of windows; each has the price of every setting."""
    common = {"made_up": scale is Scale.SMOKE, "ranks": RANKS[scale], **SIZES[scale]}
    return [{"seed": seed, **common} for seed in range(SEEDS[scale])]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Take the spectrum on some windows, and measure prices on others."""
    import torch

    from exactformer.spectra import spectrum

    length, tested = parameters["length"], parameters["tested"]
    model, texts = _made_up(length) if parameters["made_up"] else _real(length)
    model.to(device)
    random = torch.Generator().manual_seed(parameters["seed"] + 1)
    rest = texts["topics"][tested:]
    drawn = rest[torch.randperm(len(rest), generator=random)[: parameters["fitted"]]]
    found = spectrum(
        model,
        [{"input_ids": windows, "use_cache": False} for windows in torch.split(drawn, 4)],
        centred=True,
        device=device,
        progress=False,
    )
    needed = found.table["shared_99"]
    even = round(float(needed.mean()))
    asked: dict[str, Any] = {f"{rank}": {"rank": rank} for rank in parameters["ranks"]}
    asked |= {"by head": {"energy": SHARE}, "evenly": {"rank": even}}
    result: dict[str, Any] = {
        "needed": needed.tolist(),
        "mean 99 %": float(needed.mean()),
        "least 99 %": int(needed.min()),
        "most 99 %": int(needed.max()),
        "even": even,
        "heads": len(needed),
        "layers": len(found.layers),
        "head_dim": found.layers[0].head_dim,
        "agreement": found.agreement,
        "lost": {f"{rank}": _lost(found, rank) for rank in parameters["ranks"]},
    }
    for name in TEXTS:
        windows = texts[name][:tested].to(device)
        result |= {f"{k}, {name}": v for k, v in _prices(model, found, windows, asked).items()}
    return result


def _lost(found: Any, rank: int) -> float:
    return float(np.mean([one.lost(h, rank) for one in found.layers for h in range(one.heads)]))


def _prices(
    model: Any, found: Any, windows: Tensor, asked: Mapping[str, Mapping[str, Any]]
) -> dict[str, float]:
    """Return perplexity, KL and agreement of every setting, over all tokens of the windows."""
    import torch
    from torch.nn import functional

    def predicted(window: Tensor) -> Tensor:
        logits: Tensor = model(input_ids=window[None], use_cache=False).logits[0, :-1]
        return logits.float().log_softmax(dim=-1)

    sums: dict[str, list[float]] = {}
    for window in windows:
        with torch.no_grad():
            own, labels = predicted(window), window[1:]
            loss = float(functional.nll_loss(own, labels))
            sums.setdefault("loss", []).append(loss)
            for name, options in asked.items():
                with found.truncated(model, **options):
                    other = predicted(window)
                rise = float(functional.nll_loss(other, labels)) - loss
                kl = float((own.exp() * (own - other)).sum(dim=-1).mean())
                same = float((own.argmax(dim=-1) == other.argmax(dim=-1)).double().mean())
                for what, value in (("rise", rise), ("KL", kl), ("agreement", same)):
                    sums.setdefault(f"{what} {name}", []).append(value)
    means = {name: float(np.mean(values)) for name, values in sums.items()}
    found_ratios = {f"ratio {name}": float(np.exp(means[f"rise {name}"])) for name in asked}
    return {**means, **found_ratios, "perplexity": float(np.exp(means["loss"]))}


def _real(length: int) -> tuple[Any, dict[str, Tensor]]:
    """Return the model, and windows of both kinds of text in an order that is drawn once."""
    import torch

    from exactformer.experiments.real_data import multi30k, smollm2, topics

    model, tokenizer = smollm2()
    random = torch.Generator().manual_seed(0)
    texts = {}
    for name, text in (("topics", topics()), ("captions", "\n".join(multi30k("test_2016_flickr")))):
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        windows = torch.tensor(ids[: len(ids) // length * length]).view(-1, length)
        texts[name] = windows[torch.randperm(len(windows), generator=random)]
    return model, texts


def _made_up(length: int) -> tuple[Any, dict[str, Tensor]]:
    """Return a random model whose keys are near few dimensions, and texts that it wrote itself."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 50}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    sizes["eos_token_id"] = None
    make: Any = LlamaForCausalLM
    model = make(LlamaConfig(**sizes))
    model.eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "proj" in name and parameter.ndim == 2:
            parameter *= 6
        if "k_proj" in name:
            parameter *= torch.linspace(0, -3, 16).exp()[torch.randperm(16), None]
    model.lm_head.weight *= 30
    texts = {}
    for name, low, high in (("topics", 0, 25), ("captions", 25, 50)):
        begin = torch.randint(low, high, (16, 2))
        texts[name] = model.generate(
            begin,
            attention_mask=torch.ones_like(begin),
            do_sample=True,
            max_new_tokens=length - 2,
            pad_token_id=0,
        )
    return model, texts


def _settings(scale: Scale) -> dict[str, str]:
    """Return the words for every setting."""
    even = {f"{rank}": f"{rank} directions" for rank in RANKS[scale]}
    return {**even, "by head": "99 % of each head's energy", "evenly": "as many, evenly"}


def _quantities(scale: Scale) -> list[Quantity]:
    needed = {
        "99 %, mean over heads": ("mean 99 %", 0.02),
        "99 %, least": ("least 99 %", 0.1),
        "99 %, most": ("most 99 %", 0.1),
    }
    return [
        *rows("dimensions for {row}", needed),
        *rows(
            "original perplexity, {row}",
            {words: f"perplexity, {name}" for name, words in TEXTS.items()},
            drift=0.02,
        ),
        *(
            quantity
            for setting, words in _settings(scale).items()
            for text, kind in TEXTS.items()
            for quantity in rows(
                f"{words}, {kind}: {{row}}",
                {
                    "perplexity ratio": (f"ratio {setting}, {text}", 0.02),
                    "KL, nats per token": (f"KL {setting}, {text}", 0.1),
                    "same likeliest token": (f"agreement {setting}, {text}", 0.02),
                },
            )
        ),
    ]


def draw(summary: Summary) -> Figure:
    """Draw needed directions by layer, and the rise of the loss by directions."""
    figure, (needed, price) = subplots(10, 4, 1, 2)
    metrics = summary.cells[0].metrics
    layers, m = metrics["layers"], metrics["head_dim"]
    heads = len(metrics["needed"]) // layers
    places = [i // heads + (i % heads - heads / 2) * 0.06 for i in range(len(metrics["needed"]))]
    needed.plot(places, metrics["needed"], "o", color=BLUE, ms=3, alpha=0.8)
    needed.axhline(m, color=GREY, lw=0.8, ls="--")
    needed.set(xlabel="layer", ylabel="directions for 99 % of the energy", ylim=(0, m * 1.06))
    for text, colour in (("topics", BLUE), ("captions", ORANGE)):
        _curve(price, summary, text, colour)
    price.set(xlabel=f"directions for a head of {m}, mean", ylabel="KL, nats per token")
    price.set_yscale("log")
    price.legend(fontsize=8)
    return figure


def _curve(axes: Axes, summary: Summary, text: str, colour: str) -> None:
    cells = [cell.metrics for cell in summary.cells]
    ranks = [rank for rank in RANKS[summary.scale] if f"KL {rank}, {text}" in cells[0]]
    means = [np.mean([one[f"KL {rank}, {text}"] for one in cells]) for rank in ranks]
    axes.plot(ranks, means, "o-", color=colour, ms=4, label=TEXTS[text])
    at = [one["mean 99 %"] for one in cells]
    label = f"{TEXTS[text]}, 99 % of each head's energy"
    axes.plot(at, [one[f"KL by head, {text}"] for one in cells], "x", color=colour, label=label)


EXPERIMENT = Experiment(
    name="spectra-smollm2",
    title="How much head SmolLM2 needs",
    claim="A quarter of each head's directions can go for a few percent of perplexity; half cannot.",
    source="Jiang & Li 2023, section 5.2, on a pretrained language model",
    cells=cells,
    run=run,
    quantities=_quantities,
    figure=draw,
)


def _all(summary: Summary, holds: Any) -> bool | None:
    """Whether something holds in every draw on the real model; a random one need not fulfil it."""
    if summary.scale is Scale.SMOKE:
        return None
    return all(holds(cell.metrics) for cell in summary.cells)


@EXPERIMENT.states("fewer directions cost more, on both kinds of text")
def _(summary: Summary) -> bool:
    ranks = RANKS[summary.scale]
    return all(
        cell.metrics[f"KL {more}, {text}"] < cell.metrics[f"KL {fewer}, {text}"]
        for cell in summary.cells
        for text in TEXTS
        for more, fewer in pairwise(ranks)
    )


@EXPERIMENT.states("32 of 64 directions cost at most 5 % of perplexity on text of the same kind")
def _(summary: Summary) -> bool | None:
    return _all(summary, lambda metrics: metrics["ratio 32, topics"] <= 1.05)


@EXPERIMENT.states("text of another kind costs more, at every number of directions")
def _(summary: Summary) -> bool | None:
    ranks = RANKS[summary.scale]
    return _all(
        summary,
        lambda m: all(m[f"KL {rank}, captions"] > m[f"KL {rank}, topics"] for rank in ranks),
    )


@EXPERIMENT.states("99 % of each head's energy costs less than as many directions, evenly")
def _(summary: Summary) -> bool | None:
    return _all(summary, lambda m: all(m[f"KL by head, {t}"] < m[f"KL evenly, {t}"] for t in TEXTS))
