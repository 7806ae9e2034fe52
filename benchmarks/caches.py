"""Smaller caches on a processor: time of one token behind a long context, next to the original.

    python -m benchmarks.caches [--quick]

A model of SmolLM2's shape (30 layers of 9 query heads over 3 key heads of 64) at random weights, one
core, float32, random numbers in the caches. All models write one token in turn, and the best round of
each counts.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.heads import timed
from benchmarks.tables import keep, markdown, origin, provenance, show

CONTEXTS = (1024, 4096)
ROUNDS = 7
ORIGINAL, AGAIN = "original", "original again"
"""The same model a second time: how far two minima of one thing are apart."""
WAYS = {
    "half": (0.5, 0),
    "a quarter": (0.25, 0),
    "half, lookback 3": (0.5, 3),
    "a quarter, lookback 3": (0.25, 3),
}


def model(quick: bool) -> Any:
    """Return a model of SmolLM2's shape at random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=576,
        num_attention_heads=9,
        num_key_value_heads=3,
        num_hidden_layers=2 if quick else 30,
        intermediate_size=1536,
        vocab_size=100 if quick else 49152,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def shrunk(original: Any, share: float, lookback: int) -> Any:
    """Return the model with latents in its cache, nothing fitted: its time is what counts."""
    from exactformer.spectra.caching.calibration import outline
    from exactformer.spectra.caching.rotary import rotary_layers

    ranks = [(int(share * layer.sizes.state),) for layer in rotary_layers(original)]
    return outline(original, ranks, lookback, "joint")


def filled(one: Any, length: int) -> Any:
    """Return a cache of random numbers."""
    import torch
    from transformers import DynamicCache

    cache: Any
    config = one.config
    if not hasattr(config, "ranks"):
        cache = DynamicCache()
        shape = (2, 1, config.num_key_value_heads, length, config.head_dim)
        for i in range(config.num_hidden_layers):
            cache.update(*torch.randn(shape), i)
        return cache
    cache = one.new_cache()
    cache.begin(torch.arange(length)[None], 1, None)
    for layer, attention in zip(cache.layers, one.attentions(), strict=True):
        layer.append(torch.randn(1, length, attention.rank))
        layer.first = torch.randn(1, attention.sizes.state)
    return cache


def measure(quick: bool) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    original = model(quick)
    models = {ORIGINAL: original, AGAIN: original}
    models |= {name: shrunk(original, *way) for name, way in WAYS.items()}
    token, rows = torch.zeros(1, 1, dtype=torch.long), []
    for length in (64,) if quick else CONTEXTS:
        caches = {name: filled(one, length) for name, one in models.items()}

        def write(name: str, caches: dict[str, Any] = caches) -> None:
            with torch.no_grad():
                models[name](input_ids=token, past_key_values=caches[name], use_cache=True)

        calls = {name: (lambda name=name, write=write: write(name)) for name in models}
        rows.append({"context": length, "seconds": timed(calls, 1 if quick else ROUNDS)})
    return rows


def table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    ways = (AGAIN, *WAYS)
    columns = ["tokens before", "original, ms", *(f"{way}, times as long" for way in ways)]
    return columns, [
        [
            f"{row['context']:,}",
            f"{1000 * row['seconds'][ORIGINAL]:.0f}",
            *(f"{row['seconds'][way] / row['seconds'][ORIGINAL]:.2f}" for way in ways),
        ]
        for row in rows
    ]


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    return [
        "One token of a model of SmolLM2's shape (30 layers of 9 query heads over 3 key heads of 64, "
        "random weights) behind a context, with half and a quarter of its cache, next to the original: "
        f"one core, float32, all in turn, the least processor time of {ROUNDS} rounds. Keys are "
        "rebuilt from the latents of one layer, or with a lookback of 3 from those of four. Other work "
        "ran on the machine meanwhile; the original measured a second time in the same rounds shows "
        "what no difference looks like.",
        "",
        *markdown(*table(contents["rows"])),
        "",
        origin(contents["provenance"]),
    ]


def run(quick: bool = False) -> None:
    """Measure, print, and unless quick write the page."""
    rows = measure(quick)
    show("Smaller caches", *table(rows))
    if not quick:
        made = provenance("caches", ("exactformer", "torch", "transformers"))
        contents = {"rows": rows, "provenance": made}
        keep("caches", "Smaller caches", page(contents), contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
