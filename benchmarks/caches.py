"""Decoding behind a long context: the original attention next to attention to latents, on a GPU.

    python -m benchmarks.caches measure results.json [--sweep] [--quick] [--seconds 480]
    python -m benchmarks.caches table results.json
    python -m benchmarks.caches processor [--quick]

``measure`` needs a GPU, torch, Triton and transformers. It compares the kernel with the same formula in
float64, and times one layer's attention and one token of a whole model at random weights. The limit of
a way is the larger of bytes read over the bandwidth and operations over the rate of products, both
measured in the same run. ``processor`` times a token on the CPU, ways in turn, processor time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exactformer.spectra.caching.cache import LatentCache, distance_tables
from exactformer.spectra.caching.decoding import WIDEST, Held, attend
from exactformer.spectra.caching.rotary import Sizes

SMALL = Sizes(heads=9, key_heads=3, head_dim=64, rotary_dim=64, scale=64**-0.5)
LARGE = Sizes(heads=32, key_heads=8, head_dim=128, rotary_dim=128, scale=128**-0.5)
SHAPES: dict[str, tuple[Sizes, tuple[int, ...]]] = {
    "SmolLM2, a quarter": (SMALL, (96,)),
    "SmolLM2, half": (SMALL, (192,)),
    "SmolLM2, a quarter, lookback 3": (SMALL, (96, 96, 96, 96)),
    "8B, a quarter": (LARGE, (512,)),
    "8B, half": (LARGE, (1024,)),
}
CONTEXTS, BATCHES = (4096, 16384, 32768), (1, 8, 32)
CHECKS: tuple[tuple[Sizes, tuple[int, ...], int, int, bool], ...] = (
    (SMALL, (96,), 1, 1, False),
    (SMALL, (96,), 2, 15, False),
    (SMALL, (97,), 2, 16, True),
    (SMALL, (192,), 3, 1000, True),
    (SMALL, (96, 50, 7, 61), 2, 4097, True),
    (LARGE, (512,), 2, 777, True),
    (LARGE, (1024,), 1, 2000, False),
    (Sizes(8, 8, 80, 32, 0.1), (130,), 2, 513, True),
    (Sizes(4, 2, 8, 8, 0.4), (5, 3), 3, 200, True),
)
LIMITS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Largest error allowed, over the largest entry of the output."""


def example(
    sizes: Sizes,
    ranks: tuple[int, ...],
    texts: int,
    length: int,
    dtype: torch.dtype,
    device: str,
    padded: bool = False,
) -> tuple[Tensor, Held, Tensor | None, Tensor]:
    """Return a random query, what it reads, what it may see, and the frequencies of planes."""
    random = torch.Generator(device).manual_seed(length)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, device=device)

    room = -(-length // 16) * 16
    latents = [draw(texts, r, room).to(dtype)[:, :, :length] for r in ranks]
    weight = draw(sizes.state, sum(ranks)) / sum(ranks) ** 0.5
    places = torch.arange(texts, device=device) * 5 % length * padded
    seen = torch.arange(length, device=device) >= places[:, None] if padded else None
    tensors = (weight, 0.3 * draw(sizes.state), draw(texts, sizes.state))
    held = Held(latents, *(t.to(dtype) for t in tensors), places)
    planes = torch.arange(sizes.rotary_dim // 2, device=device)
    query = (2 * draw(texts, sizes.heads, sizes.head_dim)).to(dtype)
    return query, held, seen, 1e5 ** (-2 * planes / sizes.rotary_dim)


def angles(frequencies: Tensor, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of all positions, (1, planes, tokens)."""
    turns = torch.arange(length, device=frequencies.device) * frequencies.double()[:, None]
    return turns.cos().to(dtype)[None], turns.sin().to(dtype)[None]


def exactly(query: Tensor, held: Held, seen: Tensor | None, planes: Tensor, sizes: Sizes) -> Tensor:
    """Return the output in float64."""
    wide = Held(
        [x.double() for x in held.latents],
        held.weight.double(),
        held.bias.double(),
        held.first.double(),
        held.places,
    )
    turns = angles(planes, held.length, torch.float64)
    turns = tuple(x.expand(len(query), -1, -1) for x in turns)  # type: ignore[assignment]
    return attend(query.double(), wide, seen, *turns, sizes)


def kernel(
    query: Tensor, held: Held, seen: Tensor | None, planes: Tensor, sizes: Sizes, form: Any = None
) -> Callable[[], Tensor]:
    """Return a call of the kernel."""
    from exactformer.spectra.caching import decoding_gpu

    form = form or decoding_gpu.chosen(held.weight)
    tables = distance_tables(planes, held.length, form.tile)
    first = (held.first, held.places, seen)
    return lambda: decoding_gpu.attend(
        query, held.latents, held.weight, held.bias, *first, tables, sizes, form
    )


def checked() -> Iterator[dict[str, Any]]:
    """Compare the kernel with float64, and a model that uses it with the same model by torch."""
    for (sizes, ranks, texts, length, padded), name in product(CHECKS, LIMITS):
        if sum(ranks) > WIDEST[getattr(torch, name)]:
            continue
        made = example(sizes, ranks, texts, length, getattr(torch, name), "cuda", padded)
        row = {"heads": sizes.heads, "ranks": ranks, "texts": texts, "length": length}
        try:
            exact = exactly(*made, sizes)
            off = float((kernel(*made, sizes)().double() - exact).abs().max() / exact.abs().max())
        except Exception as error:  # what does not compile is a finding, too
            yield {**row, "format": name, "failed": f"{type(error).__name__}: {error}"[:500]}
            continue
        yield {**row, "format": name, "error": off, "kept": off <= LIMITS[name]}


def compared() -> dict[str, Any]:
    """Let a model write with padding, by the kernel and by torch."""
    small = model(SMALL, layers=4).float()
    ids = torch.randint(3, 1000, (3, 70), device="cuda")
    mask = torch.ones_like(ids)
    mask[1, :9] = 0
    asked = {"attention_mask": mask, "max_new_tokens": 40, "do_sample": False, "pad_token_id": 0}
    results = {}
    for lookback in (0, 3):
        smaller = shrunk(small, (96,) * (lookback + 1), lookback)
        for p in smaller.parameters():
            if p.ndim == 2:
                torch.nn.init.normal_(p, std=0.05)
        ours = smaller.generate(ids, **asked)
        reasons = {a.refusal for a in smaller.attentions()}
        with by_torch():
            theirs = smaller.generate(ids, **asked)
        results[f"lookback {lookback}"] = {
            "same text": bool(torch.equal(ours, theirs)),
            "refused": sorted(r for r in reasons if r is not None),
        }
    return results


class by_torch:  # noqa: N801
    """While it lasts, no kernel applies."""

    def __enter__(self) -> None:
        from exactformer.spectra.caching import attention

        self._module, self._own = attention, attention.refusal
        self._module.refusal = lambda *_: "asked to"

    def __exit__(self, *_: object) -> None:
        self._module.refusal = self._own


def rates() -> dict[str, float]:
    """Measure the GPU: bytes read in a second, and operations of bfloat16 products."""
    a = torch.empty(2**31, dtype=torch.int8, device="cuda").view(torch.float32)
    b, c = torch.randn(2, 8192, 8192, device="cuda", dtype=torch.bfloat16)
    return {
        "bytes": a.nbytes / seconds(lambda: a.sum()),
        "operations": 2 * 8192**3 / seconds(lambda: b @ c),
    }


def seconds(call: Callable[[], Any], rep: int = 60) -> float:
    from triton.testing import do_bench

    return float(do_bench(call, warmup=10, rep=rep, return_mode="median")) / 1e3


def limits(sizes: Sizes, width: int, tokens: int, of: dict[str, float]) -> dict[str, float]:
    """Return least seconds for reading a full cache, reading latents, and rebuilding keys."""
    return {
        "full, reading": 2 * sizes.state * tokens / of["bytes"],
        "latents, reading": 2 * width * tokens / of["bytes"],
        "latents, rebuilding": 2 * sizes.keys * width * tokens / of["operations"],
    }


def one_layer(
    sizes: Sizes, ranks: tuple[int, ...], texts: int, length: int, of: dict[str, float]
) -> dict[str, Any]:
    """Time attention of one layer for one new token, all ways."""
    dtype = torch.bfloat16
    made = example(sizes, ranks, texts, length, dtype, "cuda")
    query, held, _, planes = made
    keys, values = torch.randn(
        2, texts, sizes.key_heads, length, sizes.head_dim, device="cuda", dtype=dtype
    )
    turns = tuple(x.expand(texts, -1, -1) for x in angles(planes, length, dtype))
    asked = query[:, :, None]

    def eager() -> Tensor:
        grouped = asked.reshape(texts, sizes.key_heads, sizes.shared, -1)
        weights = (grouped @ keys.mT * sizes.scale).softmax(-1, dtype=torch.float32).to(dtype)
        return weights @ values

    def sdpa() -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            asked, keys, values, scale=sizes.scale, enable_gqa=True
        )

    def repeated() -> Tensor:  # as transformers calls it where grouped heads are not taken
        k, v = (x.repeat_interleave(sizes.shared, dim=1) for x in (keys, values))
        return torch.nn.functional.scaled_dot_product_attention(asked, k, v, scale=sizes.scale)

    ways: dict[str, Callable[[], Any]] = {
        "sdpa": sdpa,
        "sdpa, repeated": repeated,
        "eager": eager,
        "torch": lambda: attend(query, held, None, *turns, sizes),
        "kernel": kernel(*made, sizes),
    }
    tokens, width = texts * length, sum(ranks)
    row: dict[str, Any] = {"texts": texts, "length": length}
    for name, way in ways.items():
        try:
            row[name] = seconds(way)
        except Exception as error:
            row[name] = None
            row[f"{name}, failed"] = f"{type(error).__name__}: {error}"[:300]
    row |= limits(sizes, width, tokens, of)
    if row["kernel"]:
        row["kernel, bytes in a second"] = 2 * width * tokens / row["kernel"]
        row["kernel, operations in a second"] = 2 * sizes.keys * width * tokens / row["kernel"]
        row["kernel, share of its limit"] = (
            max(row["latents, reading"], row["latents, rebuilding"]) / row["kernel"]
        )
    full = [row[n] for n in ("sdpa", "sdpa, repeated", "eager") if row[n]]
    if full:
        row["full, share of its limit"] = row["full, reading"] / min(full)
    return row


def swept(name: str, of: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Time the kernel in several forms."""
    from exactformer.spectra.caching.decoding_gpu import Form

    sizes, ranks = SHAPES[name]
    narrow = sum(ranks) <= 256
    forms = (
        list(product((64, 128), (4, 8), (2, 3)))
        if narrow
        else [(64, 4, 1), (64, 8, 1), (128, 8, 1)]
    )
    made = example(sizes, ranks, 8, 16384, torch.bfloat16, "cuda")
    for tile, warps, stages in forms:
        for programs in (132, 264, 528, 1056):
            row = {"tile": tile, "warps": warps, "stages": stages, "programs": programs}
            try:
                took = seconds(kernel(*made, sizes, Form(tile, warps, stages, programs)), 30)
            except Exception as error:
                yield {**row, "failed": f"{type(error).__name__}: {error}"[:200]}
                break
            yield {**row, "seconds": took}


def model(sizes: Sizes, layers: int = 30) -> Any:
    """Return a model of SmolLM2's shape at random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=sizes.heads * sizes.head_dim,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.key_heads,
        num_hidden_layers=layers,
        intermediate_size=1536,
        vocab_size=49152,
        max_position_embeddings=65536,
    )
    place = "cuda" if torch.cuda.is_available() else "cpu"
    return LlamaForCausalLM(config).eval().to(place)


def shrunk(original: Any, ranks: tuple[int, ...], lookback: int) -> Any:
    """Return the model with latents of the given rank in each layer, at random weights."""
    from exactformer.spectra.caching.calibration import outline

    plans = [(ranks[0],)] * original.config.num_hidden_layers
    return outline(original, plans, lookback, "joint").to(original.device)


def filled(one: Any, texts: int, length: int) -> Any:
    """Return a cache of random numbers."""
    from transformers import DynamicCache

    place, dtype, config = one.device, one.dtype, one.config
    cache: Any
    if not hasattr(config, "ranks"):
        cache = DynamicCache()
        shape = (2, texts, config.num_key_value_heads, length, config.head_dim)
        for i in range(config.num_hidden_layers):
            cache.update(*torch.randn(shape, device=place, dtype=dtype), i)
        return cache
    cache = LatentCache(len(config.ranks))
    cache.begin(torch.arange(length, device=place)[None], texts, None)
    for layer, rank, attention in zip(cache.layers, config.ranks, one.attentions(), strict=True):
        layer.append(torch.randn(texts, length, rank, device=place, dtype=dtype))
        layer.first = torch.randn(texts, attention.sizes.state, device=place, dtype=dtype)
    return cache


@torch.no_grad()
def whole_model(texts: int, length: int, tokens: int = 12) -> Iterator[dict[str, Any]]:
    """Time a token of a whole model, and take the memory of its cache."""
    original = model(SMALL).bfloat16()
    ids = torch.zeros(texts, 1, dtype=torch.long, device="cuda")
    tried: list[tuple[str, Any, bool]] = [("original, sdpa", original, False)]
    tried += [("original, eager", original, False)]
    for name in ("SmolLM2, a quarter", "SmolLM2, half", "SmolLM2, a quarter, lookback 3"):
        ranks = SHAPES[name][1]
        one = shrunk(original, ranks, len(ranks) - 1)
        tried += [(f"{name}: {way}", one, way == "torch") for way in ("torch", "kernel")]
    for name, one, plain in tried:
        if one is original:
            one.set_attn_implementation(name.rpartition(" ")[2])
        row: dict[str, Any] = {"way": name, "texts": texts, "length": length}
        cache = None
        try:
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            cache = filled(one, texts, length)
            row["cache bytes"] = torch.cuda.memory_allocated() - before
            times = []
            torch.cuda.reset_peak_memory_stats()
            for _ in range(tokens):
                torch.cuda.synchronize()
                start = time.perf_counter()
                if plain:
                    with by_torch():
                        one(input_ids=ids, past_key_values=cache, use_cache=True)
                else:
                    one(input_ids=ids, past_key_values=cache, use_cache=True)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - start)
            row["seconds"] = sorted(times)[len(times) // 2]
            row["peak bytes"] = torch.cuda.max_memory_allocated() - before
            if one is not original:
                row["refused"] = sorted({str(a.refusal) for a in one.attentions()})
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}"[:300]
        del cache
        torch.cuda.empty_cache()
        yield row


def measure(path: Path, sweep: bool, quick: bool, most: float) -> None:
    """Measure on a GPU; what was found is written after every part."""
    import transformers
    import triton

    begun = time.monotonic()
    results: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(),
        "versions": {m.__name__: m.__version__ for m in (torch, triton, transformers)},
        "rates": rates(),
        "layers": {name: [] for name in SHAPES},
        "models": [],
    }

    def note(where: list[Any], row: dict[str, Any]) -> None:
        where.append(row)
        print(f"{time.monotonic() - begun:.0f} s", row, flush=True)
        path.write_text(json.dumps(results, indent=1))

    def late() -> bool:
        return time.monotonic() - begun > most

    print(results, flush=True)
    results["checks"] = []
    for row in checked():
        note(results["checks"], row)
    results["compared"] = []
    try:
        note(results["compared"], compared())
    except Exception as error:
        note(results["compared"], {"failed": f"{type(error).__name__}: {error}"[:1000]})
    for name, (sizes, ranks) in SHAPES.items():
        note(results["layers"][name], one_layer(sizes, ranks, 8, 16384, results["rates"]))
    if sweep:
        results["sweep"] = {name: [] for name in SHAPES}
        for name in SHAPES:
            for row in swept(name, results["rates"]):
                note(results["sweep"][name], row)
                if late():
                    return
    places = [p for p in product(BATCHES, CONTEXTS) if p != (8, 16384)]
    places = [(8, 4096)] if quick else places
    for texts, length in reversed(places):
        for name, (sizes, ranks) in SHAPES.items():
            row = one_layer(sizes, ranks, texts, length, results["rates"])
            note(results["layers"][name], row)
            if late():
                return
    for texts, length in reversed([*places, (8, 16384)]):
        for row in whole_model(texts, length):
            note(results["models"], row)
            if late():
                return
    results["finished"] = True
    path.write_text(json.dumps(results, indent=1))


@torch.no_grad()
def processor(quick: bool, rounds: int = 7) -> list[dict[str, Any]]:
    """Time a token on the CPU behind 4,096 others (SmolLM2's shape), ways in turn, processor time."""
    layers, length = (2, 256) if quick else (30, 4096)
    original = model(SMALL, layers)
    token = torch.zeros(1, 1, dtype=torch.long)
    tried: dict[str, tuple[Any, Any]] = {"original": (original, filled(original, 1, length))}
    for name in ("SmolLM2, half", "SmolLM2, a quarter", "SmolLM2, a quarter, lookback 3"):
        ranks = SHAPES[name][1]
        one = shrunk(original, ranks, len(ranks) - 1)
        tried[name.removeprefix("SmolLM2, ")] = (one, filled(one, 1, length))
    half = shrunk(original, (192,), 3)
    tried["half, lookback 3"] = (half, filled(half, 1, length))
    times: dict[str, list[float]] = {name: [] for name in tried}
    for _ in range(rounds):
        for name, (one, cache) in tried.items():
            start = time.process_time()
            one(input_ids=token, past_key_values=cache, use_cache=True)
            times[name].append(time.process_time() - start)
    middle = {name: sorted(taken)[rounds // 2] for name, taken in times.items()}
    return [
        {"cache": name, "processor ms": 1e3 * took, "ratio": took / middle["original"]}
        for name, took in middle.items()
    ]


def main() -> None:
    """Carry out one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("measure", "table", "processor"))
    parser.add_argument("path", type=Path, nargs="?", default=Path("caches.json"))
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=480.0)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.path, given.sweep, given.quick, given.seconds)
    elif given.command == "processor":
        for row in processor(given.quick):
            print(row)


if __name__ == "__main__":
    main()
