"""Singular values of attention scores by thin factorisations, beside forming the scores.

    python -m benchmarks.spectra [--quick]

Queries and keys are those of a transformer encoder on random tokens, float32, layer by layer; both ways
get the same tensors in the same run. The naive way is what one writes first: scores, then singular
values, of all heads of a layer at once, in float32 as they come and in float64 as ours.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.measuring import peak_memory
from benchmarks.tables import keep, markdown, origin, provenance, show

FASTER, LIGHTER, CLOSE = 20, 10, 1e-5
"""Asked for: so many times as fast, so many times less memory, values as close, relatively."""


@dataclass(frozen=True)
class Size:
    """Sizes of the encoder."""

    tau: int = 1024
    head_dim: int = 64
    heads: int = 12
    layers: int = 12


FULL, TOY = Size(), Size(64, 8, 2, 2)


def queries_and_keys(size: Size) -> list[tuple[Any, Any]]:
    """Return (heads, τ, m) of every layer of an encoder with its first weights."""
    import torch
    from torch import nn

    from exactformer.spectra.batches import Batch
    from exactformer.spectra.extraction import watching

    torch.manual_seed(0)
    width = size.heads * size.head_dim
    layer = nn.TransformerEncoderLayer(width, size.heads, width, batch_first=True)
    model = nn.TransformerEncoder(layer, size.layers).eval()
    with watching(model) as watch:
        found = watch.run(Batch((torch.randn(1, size.tau, width),)))
    return [(scores.queries[0], scores.keys[0]) for scores in found]


def thin(queries: Any, keys: Any) -> Any:
    from exactformer.spectra.singular import singular_values

    return singular_values(queries, keys).values


def naive(queries: Any, keys: Any) -> Any:
    import torch

    return torch.linalg.svdvals(queries @ keys.mT)[:, : queries.shape[-1]]


def naive_double(queries: Any, keys: Any) -> Any:
    return naive(queries.double(), keys.double())


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "thin factorisations": thin,
    "scores formed, float32": naive,
    "scores formed, float64": naive_double,
}


def measure(size: Size) -> list[dict[str, Any]]:
    """Time every way on every layer, in turn, and its memory on the first."""
    import torch

    torch.set_num_threads(1)
    layers = queries_and_keys(size)
    for way in WAYS.values():  # libraries load at first calls
        way(layers[0][0][:1, :128], layers[0][1][:1, :128])
    seconds = dict.fromkeys(WAYS, 0.0)
    apart = dict.fromkeys(WAYS, 0.0)
    for queries, keys in layers:
        values = {}
        for name, way in WAYS.items():
            began = time.perf_counter()
            values[name] = way(queries, keys).double().numpy()
            seconds[name] += time.perf_counter() - began
        exact = values["scores formed, float64"]
        for name, found in values.items():
            apart[name] = max(apart[name], float(np.max(np.abs(found / exact - 1))))
    memory = {name: peak_memory(lambda way=way: way(*layers[0]))[1] for name, way in WAYS.items()}
    return [
        {
            "way": name,
            "seconds": seconds[name],
            "times as fast": seconds["scores formed, float32"] / seconds[name],
            "bytes": memory[name],
            "difference": apart[name],
        }
        for name in WAYS
    ]


def table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    columns = ["way", "seconds", "times as fast", "memory, one layer", "largest difference"]
    lines = [
        [
            row["way"],
            f"{row['seconds']:.3g}",
            f"{row['times as fast']:.3g}",
            f"{row['bytes'] / 2**20:.3g} MiB",
            f"{row['difference']:.1e}",
        ]
        for row in rows
    ]
    return columns, lines


def page(contents: dict[str, Any]) -> list[str]:
    """Return the stored run as Markdown."""
    rows, size = contents["rows"], contents["size"]
    ours, single = rows[0], rows[1]
    lighter = single["bytes"] / max(ours["bytes"], 1)
    met = ours["times as fast"] >= FASTER and lighter >= LIGHTER and ours["difference"] <= CLOSE
    return [
        f"Singular values of the scores of {size['layers']} layers of {size['heads']} heads of "
        f"{size['head_dim']} on {size['tau']} tokens, on one core, queries and keys given. Differences "
        "are relative, of any singular value, to those of scores formed in float64.",
        "",
        *markdown(*table(rows)),
        "",
        f"Asked for: {FASTER} times as fast as forming the scores, a tenth of its memory, values "
        f"within {CLOSE:.0e}. Measured: {ours['times as fast']:.0f} times, one part in {lighter:.0f}, "
        f"{ours['difference']:.0e}: {'met' if met else '**not met**'}.",
        "",
        origin(contents["provenance"]),
    ]


def run(quick: bool = False) -> None:
    """Measure, print, and unless quick write the page."""
    size = TOY if quick else FULL
    rows = measure(size)
    show("Spectra of attention scores", *table(rows))
    if not quick:
        made = provenance("spectra", ("exactformer", "torch", "numpy"))
        contents = {"rows": rows, "size": asdict(size), "provenance": made}
        keep("spectra", "Spectra of attention scores", page(contents), contents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="toy sizes, nothing written")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
