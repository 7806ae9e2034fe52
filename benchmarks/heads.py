"""Models with half a head next to the originals: time of a forward pass, by length of the input.

    python -m benchmarks.heads [--quick]

MiniLM (six layers of twelve heads of 32, pretrained) and one layer of GPT-2's size (twelve heads of
64, random weights), shrunk to half a head. Both run in one process on the same tokens,
in turn, and the best round of each counts. Two ways to shrink: queries and keys alone, which are filled
up with zeros where they meet, and values too.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.tables import keep, markdown, origin, provenance, show

LENGTHS = (32, 64, 128, 256, 512, 1024)
TOKENS = 1024
"""Tokens of a batch: fewer inputs of a greater length."""
ROUNDS = 7
AGAIN = "original again"
"""The same model a second time: how far two minima of one thing are apart."""
WAYS = {"queries, keys": False, "values too": True}


def minilm(quick: bool) -> tuple[str, Any]:
    import torch
    from transformers import AutoModel, BertConfig, BertModel

    if quick:
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1}
        return "MiniLM", BertModel(BertConfig(**sizes, intermediate_size=32, vocab_size=50)).eval()
    from exactformer.experiments.real_data import minilm as folder

    return "MiniLM", AutoModel.from_pretrained(folder()).eval()


def gpt2(quick: bool) -> tuple[str, Any]:
    import torch
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    quickly = {"n_embd": 32, "n_head": 4, "n_layer": 1, "vocab_size": 50}
    config = GPT2Config(**(quickly if quick else {"n_layer": 1}))
    return "GPT-2, one layer", GPT2Model(config).eval()


def shrunk(model: Any, values: bool) -> Any:
    """Return a copy with half a head, fitted to a few random tokens: its time is what counts."""
    import torch

    from exactformer.spectra.shrinking import shrink_heads

    torch.manual_seed(1)
    ids = torch.randint(5, model.config.vocab_size, (8, 48))
    module = next(m for m in model.modules() if hasattr(m, "scaling"))
    size = getattr(module, "attention_head_size", getattr(module, "head_dim", 0))
    return shrink_heads(
        model, {"input_ids": ids}, head_dim=size // 2, values=values, progress=False
    ).model


def timed(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least processor seconds of each way, all of them in turn in every round."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds + 1):
        for name, way in ways.items():
            began = time.thread_time()
            way()
            best[name] = min(best[name], time.thread_time() - began)
    return best


def measure(quick: bool) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    rows = []
    for make in (minilm, gpt2):
        label, model = make(quick)
        models = {"original": model, AGAIN: model}
        models |= {name: shrunk(model, values) for name, values in WAYS.items()}
        for length in LENGTHS[:2] if quick else LENGTHS:
            if length > model.config.max_position_embeddings:
                continue
            shape = (max(1, TOKENS // length), length)
            ids = torch.randint(5, model.config.vocab_size, shape)

            def run(way: Any, ids: Any = ids) -> None:
                with torch.inference_mode():
                    way(input_ids=ids, use_cache=False)

            calls = {name: (lambda way=way: run(way)) for name, way in models.items()}
            seconds = timed(calls, 1 if quick else ROUNDS)
            rows.append({"model": label, "inputs": shape[0], "length": length, "seconds": seconds})
    return rows


def table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    ways = (AGAIN, *WAYS)
    named = [f"{way}, times as fast" for way in ways]
    columns = ["model", "inputs × length", "original, ms", *named]
    return columns, [
        [
            row["model"],
            f"{row['inputs']} × {row['length']}",
            f"{1000 * row['seconds']['original']:.3g}",
            *(f"{row['seconds']['original'] / row['seconds'][way]:.2f}" for way in ways),
        ]
        for row in rows
    ]


def verdict(rows: list[dict[str, Any]]) -> str:
    """Say whether any row is slower than the original is than itself."""

    def least(way: str) -> float:
        return min(row["seconds"]["original"] / row["seconds"][way] for row in rows)

    noise = min(least(AGAIN), 1)
    found = (
        f"{way} {least(way):.3f}, {'met' if least(way) >= noise else '**not met**'}" for way in WAYS
    )
    return (
        f"Asked for: nowhere slower than the original is than itself ({noise:.3f}). Least ratios: "
        f"{'; '.join(found)}."
    )


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    rows = contents["rows"]
    return [
        "A forward pass of a model with half a head, next to the original: one core, float32, the same "
        f"tokens, all in turn, the least processor time of {ROUNDS} rounds. MiniLM goes from heads of "
        "32 to 16 and is limited to 512 tokens by its positions. GPT-2 goes from 64 to 32: one of its "
        "twelve equal layers, with random weights, which take the same time. Other work ran on the "
        "machine meanwhile; the original measured a second time in the same rounds shows what no "
        "difference looks like.",
        "",
        *markdown(*table(rows)),
        "",
        verdict(rows),
        "",
        origin(contents["provenance"]),
    ]


def run(quick: bool = False) -> None:
    """Measure, print, and unless quick write the page."""
    rows = measure(quick)
    show("Smaller heads", *table(rows))
    if not quick:
        made = provenance("heads", ("exactformer", "torch", "transformers"))
        contents = {"rows": rows, "provenance": made, "cores": os.cpu_count()}
        keep("heads", "Smaller heads", page(contents), contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
