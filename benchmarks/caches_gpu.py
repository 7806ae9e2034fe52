"""Smaller caches on a GPU: attention by itself next to torch's, and whole models next to the original.

    python -m benchmarks.caches_gpu [--quick]

Attention of one new token in bfloat16, many texts at once: torch's scaled_dot_product_attention to a
full cache by the quickest of its ways, and ours to latents, by the kernel and by torch's operations;
next to the least time in which the cache can be read. Then one token of a model of SmolLM2's shape as
transformers runs it, whose cache copies itself for every token.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from benchmarks.caches import model, shrunk
from benchmarks.tables import keep, markdown, origin, provenance, show

SHAPES = {"SmolLM2-135M": (9, 3, 64), "Llama 3 8B": (32, 8, 128)}
ATTENTION = (
    ("SmolLM2-135M", 64, 4096, (96, 192)),
    ("SmolLM2-135M", 1, 4096, (96,)),
    ("Llama 3 8B", 16, 4096, (128, 512)),
)
TEXTS = (1, 64, 128)
CONTEXT = 4096
SHARES = {"half": 0.5, "a quarter": 0.25}


def attention(quick: bool) -> list[dict[str, Any]]:
    """Return milliseconds of one layer's attention, by the ways to compute it."""
    import torch
    from triton.testing import do_bench_cudagraph as timed  # type: ignore[import-not-found]

    block = torch.ones(2**20 if quick else 2**29, device="cuda", dtype=torch.bfloat16)
    bandwidth = block.nbytes / timed(partial(block.sum, dtype=torch.float32))
    rows = []
    for shape, texts, length, ranks in ATTENTION[:1] if quick else ATTENTION:
        rows += _attention(shape, texts, 128 if quick else length, ranks, bandwidth, timed)
    return rows


def _attention(
    shape: str,
    texts: int,
    length: int,
    ranks: Sequence[int],
    bandwidth: float,
    timed: Callable[..., float],
) -> list[dict[str, Any]]:
    import torch

    from exactformer.spectra.caching import token_attention_gpu as kernel
    from exactformer.spectra.caching.rotary import Sizes
    from exactformer.spectra.caching.token_attention import Held, attend

    random = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    heads, key_heads, dim = SHAPES[shape]
    sizes = Sizes(heads, key_heads, dim, dim, dim**-0.5)
    query = random(texts, heads, 1, dim)
    keys, values = random(2, texts, key_heads, length, dim)
    full, by = _least(_full(query, keys, values), timed)
    angles = torch.arange(length, device="cuda")[:, None] * torch.rand(dim // 2, device="cuda")
    turns = [t.to(torch.bfloat16).expand(texts, -1, -1) for t in (angles.cos(), angles.sin())]
    planes = [t.mT.contiguous() for t in turns]
    rows = []
    for rank in ranks:
        room = random(texts, rank, (length + 64) // 16 * 16)
        held = Held(
            [room[:, :, :length]],
            random(sizes.state, rank) / rank**0.5,
            random(sizes.state),
            random(texts, sizes.state),
            torch.zeros(texts, dtype=torch.long, device="cuda"),
        )
        row = {"shape": shape, "texts": texts, "tokens": length, "rank": rank}
        row |= {"share": rank / sizes.state, "full": full, "full by": by}
        row |= {"full limit": 2 * keys.nbytes / bandwidth}
        row |= {"limit": texts * rank * length * 2 / bandwidth}
        asked = (query[:, :, 0], held, None)
        row["kernel"] = timed(partial(kernel.attend, *asked, *turns, sizes))
        row["torch"] = timed(partial(attend, *asked, *planes, sizes))
        rows.append(row)
    return rows


def _full(query: Any, keys: Any, values: Any) -> dict[str, Callable[[], Any]]:
    """Return torch's ways to attend to a full cache."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def by(backend: Any) -> Any:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(query, keys, values, enable_gqa=True)

    ways = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
    return {name: partial(by, backend) for name, backend in ways.items()}


def _least(ways: dict[str, Callable[[], Any]], timed: Callable[..., float]) -> tuple[float, str]:
    found = []
    for name, way in ways.items():
        try:
            found.append((timed(way), name))
        except RuntimeError:  # a way that this GPU or this shape does not have
            continue
    return min(found)


def models(quick: bool) -> list[dict[str, Any]]:
    """Return milliseconds and gigabytes of whole models, the kernel allowed and not."""
    import torch
    from transformers import DynamicCache

    from exactformer.spectra.caching import attention as module

    original = model(quick).to("cuda", torch.bfloat16)
    small = {
        name: shrunk(original, share, 0).to("cuda", torch.bfloat16)
        for name, share in SHARES.items()
    }
    allowed, rows = module.refusal, []
    for texts in TEXTS[:1] if quick else TEXTS:
        row: dict[str, Any] = {"texts": texts, "tokens": CONTEXT}
        cache: Any = DynamicCache()
        config = original.config
        for i in range(config.num_hidden_layers):
            shape = (2, texts, config.num_key_value_heads, CONTEXT, config.head_dim)
            cache.update(*torch.randn(shape, device="cuda", dtype=torch.bfloat16), i)
        row["original"] = _token(original, cache, texts)
        del cache
        for name, one in small.items():
            ways: dict[str, Any] = {"kernel": allowed, "torch": lambda *_: "not now"}
            for way, refusal in ways.items():
                module.refusal = refusal
                row[f"{name}, {way}"] = _token(one, _filled(one, texts), texts)
        module.refusal = allowed
        rows.append(row)
    return rows


def _filled(one: Any, texts: int) -> Any:
    import torch

    cache = one.new_cache()
    cache.begin(torch.arange(CONTEXT, device="cuda")[None], texts, None)
    place: Any = {"device": "cuda", "dtype": torch.bfloat16}
    for layer, attention in zip(cache.layers, one.attentions(), strict=True):
        layer.append(torch.randn(texts, CONTEXT, attention.rank, **place))
        layer.first = torch.randn(texts, attention.sizes.state, **place)
    return cache


def _token(one: Any, cache: Any, texts: int) -> dict[str, float]:
    """Return the median time of ten tokens after two, and the most memory meanwhile."""
    import torch

    token, times = torch.zeros(texts, 1, dtype=torch.long, device="cuda"), []
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        for _ in range(12):
            torch.cuda.synchronize()
            start = perf_counter()
            one(input_ids=token, past_key_values=cache, use_cache=True)
            torch.cuda.synchronize()
            times.append(1000 * (perf_counter() - start))
    return {"ms": sorted(times[2:])[5], "GB": torch.cuda.max_memory_allocated() / 1e9}


def attention_table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    columns = ["heads of", "texts × tokens", "numbers of a latent (share)", "full cache, µs"]
    columns += ["its limit, µs", "latents, kernel, µs", "their limit, µs", "latents, torch, µs"]
    return columns, [
        [
            row["shape"],
            f"{row['texts']} × {row['tokens']:,}",
            f"{row['rank']} ({row['share']:.0%})",
            f"{1000 * row['full']:.0f} ({row['full by']})",
            *(f"{1000 * row[name]:.0f}" for name in ("full limit", "kernel", "limit", "torch")),
        ]
        for row in rows
    ]


def models_table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    ways = ["original", *(f"{name}, {way}" for name in SHARES for way in ("kernel", "torch"))]
    return ["texts × tokens", *(f"{way}: ms, GB" for way in ways)], [
        [
            f"{row['texts']} × {row['tokens']:,}",
            *(f"{row[way]['ms']:.0f}, {row[way]['GB']:.1f}" for way in ways),
        ]
        for row in rows
    ]


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    return [
        "Attention of one new token in one layer, bfloat16: to a full cache by the quickest of torch's "
        "ways, to latents by the kernel and by torch's operations. Limits are the time in which the "
        "cache can be read, at the rate of a sum over a gibibyte in the same run.",
        "",
        *markdown(*attention_table(contents["attention"])),
        "",
        "One token of a model of SmolLM2's shape (30 layers, random weights) as transformers runs it: "
        "the median of ten, and the most memory meanwhile. For few texts most of the time is the "
        "processor's, which prepares one step after the other; the original copies its cache for every "
        "token.",
        "",
        *markdown(*models_table(contents["models"])),
        "",
        origin(contents["provenance"]),
    ]


def run(quick: bool = False) -> None:
    """Measure, print, and unless quick write the page."""
    contents: dict[str, Any] = {"attention": attention(quick), "models": models(quick)}
    show("Attention to smaller caches on a GPU", *attention_table(contents["attention"]))
    show("A token of whole models", *models_table(contents["models"]))
    if not quick:
        import torch

        made = provenance("caches_gpu", ("exactformer", "torch", "triton", "transformers"))
        contents["provenance"] = made | {"machine": torch.cuda.get_device_name()}
        keep("caches_gpu", "Smaller caches on a GPU", page(contents), contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
