"""Models with half a head next to the originals on a GPU: time of a forward pass, by length.

    python -m benchmarks.heads_gpu [--quick]

Models of the sizes of MiniLM and of one layer of GPT-2, random weights, shrunk to half a head. Each
pass is recorded as a CUDA graph, so that the GPU's own time counts and not the processor's, which
launches as many steps either way. All run in turn, and the least of the rounds counts.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.heads import AGAIN, LENGTHS, WAYS, gpt2, shrunk, table, verdict
from benchmarks.tables import keep, markdown, origin, provenance, show

TOKENS = 65_536
"""Tokens of a batch that keeps the GPU busy."""
FORMATS = ("bfloat16", "float32")
ROUNDS = 7
PASSES = 5
"""Of a round."""


def minilm() -> tuple[str, Any]:
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 384, "num_attention_heads": 12, "num_hidden_layers": 6}
    config = BertConfig(**sizes, intermediate_size=1536, max_position_embeddings=512)
    return "MiniLM", BertModel(config).eval()


def measure(quick: bool) -> list[dict[str, Any]]:
    import torch

    rows = []
    for label, model in (minilm(), gpt2(quick=False)):
        models = {"original": model} | {way: shrunk(model, values) for way, values in WAYS.items()}
        for number in FORMATS:
            for one in models.values():
                one.to("cuda", getattr(torch, number))
            for length in LENGTHS[:1] if quick else LENGTHS:
                if length > model.config.max_position_embeddings:
                    continue
                for inputs in (1, TOKENS // length):
                    seconds = timed(models, inputs, length, 1 if quick else ROUNDS)
                    row = {"model": f"{label}, {number}", "inputs": inputs, "length": length}
                    rows.append(row | {"seconds": seconds})
    return rows


def timed(models: dict[str, Any], inputs: int, length: int, rounds: int) -> dict[str, float]:
    """Return the least seconds of each way, all of them in turn in every round."""
    import torch

    ids = torch.randint(5, 1000, (inputs, length), device="cuda")
    graphs = {way: recorded(model, ids) for way, model in models.items()}
    graphs[AGAIN] = graphs["original"]
    best = dict.fromkeys(graphs, float("inf"))
    for _ in range(rounds):
        for way, graph in graphs.items():
            ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            graph.replay()
            ends[0].record()
            for _ in range(PASSES):
                graph.replay()
            ends[1].record()
            torch.cuda.synchronize()
            best[way] = min(best[way], ends[0].elapsed_time(ends[1]) / 1000 / PASSES)
    return best


def recorded(model: Any, ids: Any) -> Any:
    """Return a forward pass as a CUDA graph."""
    import torch

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.inference_mode():
        with torch.cuda.stream(stream):
            for _ in range(2):
                model(input_ids=ids, use_cache=False)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            model(input_ids=ids, use_cache=False)
    return graph


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    rows = contents["rows"]
    return [
        "A forward pass of a model with half a head, next to the original: the same tokens, recorded "
        f"as CUDA graphs, all in turn, the least time of {ROUNDS} rounds. A model of MiniLM's size "
        "goes from heads of 32 to 16 and is limited to 512 tokens by its positions; one layer of "
        "GPT-2's size goes from 64 to 32. Their weights are random, which takes the same time. The "
        "original measured a second time in the same rounds shows what no difference looks like.",
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
    show("Smaller heads on a GPU", *table(rows))
    print(verdict(rows))
    if not quick:
        import torch

        made = provenance("heads_gpu", ("exactformer", "torch", "triton", "transformers"))
        contents = {"rows": rows, "provenance": made | {"machine": torch.cuda.get_device_name()}}
        keep("heads_gpu", "Smaller heads on a GPU", page(contents), contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few lengths, nothing written")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
