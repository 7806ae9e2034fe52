"""The cache of a small language model: what half and a quarter of SmolLM2's keys and values cost.

SmolLM2-135M-Instruct (30 layers, 9 query heads over 3 key heads of 64, rotary positions) gets a smaller
cache by every method of ``ef.shrink_cache``. Calibration is on windows of the Debian Administrator's
Handbook, drawn by the seed; or on as many of it and of Python's help topics together. Perplexity is
measured on windows of both that no fit has seen and no choice was made on:

    ratio       perplexity with the smaller cache over that of the original
    strain      what the states lose by the diagonal of the Fisher information, over its expectation

and, apart from that, processor time for a token behind a long context, random numbers in the caches.
At smoke scale the model is a random one that wrote its texts itself, and no data are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREEN, INK, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

SHARES = by_scale((0.5, 0.25), (0.5, 0.25), (0.75, 0.5, 0.375, 0.25))
PEERS = {
    "grouped": "heads in groups (Palu)",
    "keys": "keys alone (Eigen Attention)",
    "weights": "weights alone",
    "planes": "planes (EliteKV, first step)",
}
METHODS = {"joint": "joint latent, ours", **PEERS}
SEEDS = by_scale(1, 1, 3)
"""Draws of calibration text; the methods of others and other depths see the first."""
DEPTHS = by_scale((0, 2), (), (0, 6, 30))
"""Layers below that a latent is predicted from, beside three; at a quarter of the cache."""
BOTH = by_scale(True, False, True)
"""Whether to calibrate on both texts, too."""
CONTEXT = by_scale(64, 4096)
SIZES = by_scale(
    {"length": 32, "fitted": 12, "tested": 4},
    {"length": 512, "fitted": 16, "tested": 3},
    {"length": 512, "fitted": 96, "tested": 16},
)


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell per draw, method and size, and two for times."""
    common = {"made_up": scale is Scale.SMOKE, **SIZES[scale]}
    found: list[dict[str, Any]] = []
    for seed in range(SEEDS[scale]):
        asked = [("shrink", "joint", share, "handbook", 3) for share in SHARES[scale]]
        if seed == 0:
            asked += [("shrink", m, c, "handbook", 0) for m, c in product(PEERS, SHARES[scale])]
            asked += [("depth", "joint", 0.25, "handbook", d) for d in DEPTHS[scale]]
        asked += [("shrink", "joint", 0.5, "both", 3)] * BOTH[scale]
        names = ("what", "method", "cache", "text", "lookback")
        found += [{**dict(zip(names, a, strict=True)), "seed": seed, **common} for a in asked]
    timed = {"what": "time", "context": CONTEXT[scale], "seed": 0, "made_up": common["made_up"]}
    return [*found, *({**timed, "cache": c} for c in (0.5, 0.25))]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Shrink the cache and measure, or time a step of decoding."""
    if parameters["what"] == "time":
        return _timed(parameters)
    from exactformer.spectra.caching import methods
    from exactformer.spectra.caching.calibration import calibrate
    from exactformer.spectra.caching.evaluation import cache_bytes, losses_and_strains
    from exactformer.spectra.caching.scores import measured_changes

    names = ("made_up", "length", "fitted", "tested", "text", "seed")
    model, layers, fitted, tested, moments, before = _material(
        *(parameters[n] for n in names), device
    )
    numbers = sum(layer.sizes.state for layer in layers)
    method, lookback = parameters["method"], parameters["lookback"]
    total = int(parameters["cache"] * numbers) - 1  # a position takes the room of one number
    plans = methods.plans(method, layers, moments, total, lookback)
    small, found = calibrate(
        model, layers, fitted, moments, plans, method=method, lookback=lookback
    )
    result: dict[str, Any] = {
        "ranks": [sum(plan) for plan in plans],
        "bytes": cache_bytes(small, next(iter(tested.values()))[0]),
        "predicted": sum(layer.predicted for layer in found),
        "scores predicted": _middle([layer.scores for layer in found]),
        "scores measured": _middle(measured_changes(small, tested["handbook"])),
    }
    for name, windows in tested.items():
        if method != "joint" and name != "handbook":
            continue  # peers are compared on the text that they were fitted to
        after, strains = losses_and_strains(small, windows)
        change = after - before[name]
        result |= {
            f"perplexity {name}": float((before[name] + change).mean().exp()),
            f"original {name}": float(before[name].mean().exp()),
            f"ratio {name}": float(change.mean().exp()),
            f"error {name}": float(change.std() / len(change) ** 0.5),
            f"strain {name}": float(strains.mean()) / small.config.expected_strain,
        }
    return result


def _middle(changes: list[float]) -> float:
    """Return the root mean square over layers."""
    return float((sum(x * x for x in changes) / len(changes)) ** 0.5)


@lru_cache(maxsize=1)
def _material(
    made_up: bool, length: int, fitted: int, tested: int, text: str, seed: int, device: str
) -> tuple[Any, ...]:
    """Return model, layers, windows to fit on and to test on, moments, and losses of the original."""
    import torch

    from exactformer.spectra.caching.evaluation import losses
    from exactformer.spectra.caching.moments import gather
    from exactformer.spectra.caching.rotary import rotary_layers, verify

    model, texts = _made_up(length) if made_up else _real(length)
    model.to(device)
    kept = {name: windows[:tested].to(device) for name, windows in texts.items()}
    random = torch.Generator().manual_seed(seed + 1)
    names = ["handbook"] if text == "handbook" else list(texts)
    drawn = []
    for name in names:
        rest = texts[name][2 * tested :]  # the windows between were there to make choices on
        drawn.append(rest[torch.randperm(len(rest), generator=random)[: fitted // len(names)]])
    windows = torch.cat(drawn).to(device)
    layers = rotary_layers(model)
    verify(model, layers, windows[:1])
    moments = gather(model, layers, windows, seed=seed)
    before = {name: losses(model, tested) for name, tested in kept.items()}
    return model, layers, windows, kept, moments, before


@lru_cache(maxsize=1)
def _real(length: int) -> tuple[Any, dict[str, Any]]:
    import torch

    from exactformer.experiments.real_data import handbook, smollm2, topics
    from exactformer.spectra.caching.windows import windows_of

    model, tokenizer = smollm2()
    random = torch.Generator().manual_seed(0)
    texts = {}
    for name, text in (("handbook", handbook()), ("topics", topics())):
        windows = windows_of(text, tokenizer, length)
        texts[name] = windows[torch.randperm(len(windows), generator=random)]
    return model, texts


def _made_up(length: int) -> tuple[Any, dict[str, Any]]:
    """Return a random model with states near few dimensions, and texts that it wrote itself."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 50}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
    sizes["eos_token_id"] = None
    make: Any = LlamaForCausalLM
    model = make(LlamaConfig(**sizes))
    model.eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "proj" in name and parameter.ndim == 2:
            parameter *= 6
        if "k_proj" in name or "v_proj" in name:
            parameter *= torch.linspace(0, -3, 16).exp()[torch.randperm(16), None]
    model.lm_head.weight *= 30
    texts = {}
    for name, low, high in (("handbook", 0, 25), ("topics", 25, 50)):
        begin = torch.randint(low, high, (40, 2))
        texts[name] = model.generate(
            begin,
            attention_mask=torch.ones_like(begin),
            do_sample=True,
            max_new_tokens=length - 2,
            pad_token_id=0,
        )
    return model, texts


def _timed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return processor milliseconds for a token behind a context of random numbers, by model."""
    from time import process_time

    import torch
    from transformers import DynamicCache

    from exactformer.spectra.caching.calibration import outline
    from exactformer.spectra.caching.rotary import rotary_layers

    given, _ = _made_up(16) if parameters["made_up"] else _real(512)
    model, context = deepcopy(given).to("cpu"), parameters["context"]  # a processor is timed
    layers = rotary_layers(model)
    states = [layer.sizes for layer in layers]
    ranks = [(int(parameters["cache"] * sizes.state),) for sizes in states]
    full = DynamicCache()
    for i, sizes in enumerate(states):
        full.update(*torch.randn(2, 1, sizes.key_heads, context, sizes.head_dim), i)
    tried: dict[str, tuple[Any, Any]] = {"original": (model, full)}
    for lookback in (0, 3):
        small = outline(model, ranks, lookback, "joint")
        cache: Any = small.new_cache()
        cache.begin(torch.arange(context)[None], 1, None)
        for layer, rank, sizes in zip(cache.layers, ranks, states, strict=True):
            layer.latents = torch.randn(1, context, rank[0])
            layer.first = torch.randn(1, sizes.state)
        tried[f"lookback {lookback}"] = (small, cache)
    times: dict[str, list[float]] = {name: [] for name in tried}
    token = torch.zeros(1, 1, dtype=torch.long)
    with torch.no_grad():
        for _ in range(5):
            for name, (one, cache) in tried.items():
                start = process_time()
                one(input_ids=token, past_key_values=cache, use_cache=True)
                times[name].append(1000 * (process_time() - start))
    return {f"ms {name}": sorted(found)[2] for name, found in times.items()}


def _quantities(scale: Scale) -> list[Quantity]:
    shares = {share: f"{share:.1%}".replace(".0", "") for share in SHARES[scale]}
    ratios = {
        "perplexity ratio, handbook": ("ratio handbook", 0.02),
        "perplexity ratio, topics": ("ratio topics", 0.05),
    }
    scores = {f"scores, {word}": (f"scores {word}", 0.05) for word in ("predicted", "measured")}
    where = {"what": "shrink", "text": "handbook"}
    both = {"what": "shrink", "text": "both"}
    return [
        *rows("original perplexity, {row}",
              {name: f"original {name}" for name in ("handbook", "topics")},
              where={**where, "method": "joint", "cache": 0.5}),
        *rows("{cache}, {method}: perplexity ratio, handbook", "ratio handbook",
              {"cache": shares, "method": METHODS}, where, drift=0.02),
        *rows("{cache}, joint latent, ours: perplexity ratio, topics", "ratio topics",
              {"cache": shares}, {**where, "method": "joint"}, drift=0.05),
        *rows("{cache}, joint latent, ours: {row}", scores,
              {"cache": shares}, {**where, "method": "joint"}),
        *(rows("50%, both texts in the calibration: {row}", ratios, where=both) if BOTH[scale] else ()),
        *rows("25%, predicted from {lookback} layers below: perplexity ratio, handbook",
              "ratio handbook", {"lookback": DEPTHS[scale]}, {"what": "depth"}, drift=0.02),
        *rows(
            "{cache}, decoding: {row}",
            {f"processor ms per token, {name}": (f"ms {name}", float("inf")) for name in TIMED},
            {"cache": {0.5: "50%", 0.25: "25%"}},
            {"what": "time"},
        ),
    ]  # fmt: skip


TIMED = ("original", "lookback 0", "lookback 3")
COLOURS = dict(zip(METHODS, (BLUE, ORANGE, GREEN, INK, "#b48ead"), strict=True))


def draw(summary: Summary) -> Figure:
    """Draw perplexity by size of the cache, and ranks by layer."""
    figure, (losses, ranks) = subplots(10, 4, 1, 2)
    frame = summary.frame.query("what == 'shrink' and text == 'handbook'")
    for method, words in METHODS.items():
        mine = frame[frame["method"] == method]
        _curve(losses, mine, "handbook", words, COLOURS[method], "o-")
    mine = frame[frame["method"] == "joint"]
    _curve(losses, mine, "topics", "ours, on text of another kind", BLUE, "o:")
    losses.set_yscale("symlog", linthresh=0.01)
    losses.set(xlabel="share of the cache", ylabel="rise of perplexity, held out")
    losses.legend(fontsize=7)
    for share, colour in ((0.5, BLUE), (0.25, ORANGE)):
        cell = summary.cell(what="shrink", method="joint", cache=share, text="handbook", seed=0)
        places = range(len(cell.metrics["ranks"]))
        ranks.plot(places, cell.metrics["ranks"], "o-", color=colour, ms=3, label=f"{share:.0%}")
    ranks.set(xlabel="layer", ylabel="numbers in the cache for a token")
    ranks.legend(fontsize=8)
    return figure


def _curve(axes: Axes, cells: DataFrame, text: str, words: str, colour: str, look: str) -> None:
    """Draw the mean over draws, and every draw as a dash."""
    means = cells.groupby("cache")[f"ratio {text}"].mean() - 1
    axes.plot(means.index, means, look, color=colour, ms=3, label=words)
    axes.plot(cells["cache"], cells[f"ratio {text}"] - 1, "_", color=colour, ms=10)


EXPERIMENT = Experiment(
    name="spectra-smollm2",
    title="How much cache SmolLM2 needs",
    claim="One latent of keys and values per layer halves the cache for a few percent of perplexity.",
    source="Jiang & Li 2023, section 5.2, on a pretrained language model",
    cells=cells,
    run=run,
    quantities=_quantities,
    figure=draw,
)


@EXPERIMENT.states(
    "the joint latent loses less than every peer at every size, on text of the same kind"
)
def _(summary: Summary) -> bool:
    frame = summary.frame.query("what == 'shrink' and text == 'handbook'")
    means = frame.groupby(["cache", "method"])["ratio handbook"].mean().unstack()
    return bool((means.drop(columns="joint").min(axis=1) >= means["joint"]).all())


def _judged(summary: Summary, where: str, condition: str) -> bool | None:
    """Whether a condition holds for some cells of the real model; a random one need not fulfil it."""
    return None if summary.scale is Scale.SMOKE else summary.every(where, condition)


def _at_most(summary: Summary, share: float, limit: float) -> bool | None:
    """Whether the joint latent stays within a ratio in every draw."""
    asked = f"what == 'shrink' and method == 'joint' and cache == {share} and text == 'handbook'"
    return _judged(summary, asked, f"`ratio handbook` <= {limit}")


@EXPERIMENT.states("half of the cache costs at most 2 % of perplexity on text of the same kind")
def _(summary: Summary) -> bool | None:
    return _at_most(summary, 0.5, 1.02)


@EXPERIMENT.states("a quarter costs at most 8 %")
def _(summary: Summary) -> bool | None:
    return _at_most(summary, 0.25, 1.08)


@EXPERIMENT.states(
    "half costs at most 4 % on each of two kinds of text, with both in the calibration"
)
def _(summary: Summary) -> bool | None:
    if not BOTH[summary.scale]:
        return None
    limit = "`ratio handbook` <= 1.04 and `ratio topics` <= 1.04"
    return _judged(summary, "text == 'both'", limit)


@EXPERIMENT.states("scores change by what moments predict, within 10 %")
def _(summary: Summary) -> bool | None:
    asked = "what == 'shrink' and method == 'joint' and text == 'handbook'"
    near = "abs(`scores measured` / `scores predicted` - 1) <= 0.1"
    return _judged(summary, asked, near)


@EXPERIMENT.states("text of another kind strains the latents more than text of the same kind")
def _(summary: Summary) -> bool | None:
    asked = "what == 'shrink' and method == 'joint' and text == 'handbook' and cache <= 0.5"
    more = "`strain topics` > `strain handbook`"
    return _judged(summary, asked, more)
