"""``exactformer shrink --cache``: a language model whose key-value cache is smaller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from exactformer.spectra.caching import CacheReport


def has_rotary_positions(folder: Path) -> bool:
    """Whether a folder holds a causal language model with rotary positions, by its configuration."""
    try:
        config = json.loads((folder / "config.json").read_text())
        causal = any(str(name).endswith("ForCausalLM") for name in config["architectures"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return causal and any(name in config for name in ("rope_parameters", "rope_theta"))


def shrink_to(
    model: Path,
    texts: Path | None,
    held_out: Path | None,
    cache: float | None,
    max_loss: float | None,
    method: str,
    limit: int,
    out: Path | None,
    checkpoint: Path | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Shrink the cache of the model in a folder, save the model, and print the report."""
    from exactformer.spectra.caching import shrink_cache
    from exactformer.spectra.files import read_texts

    if texts is None:
        raise InputError("give text to calibrate on by --texts FILE")
    shrunk = shrink_cache(
        model,
        read_texts(texts, limit),
        cache=cache,
        max_loss=max_loss,
        held_out=None if held_out is None else read_texts(held_out, limit),
        method="joint" if method == "data" else method,  # type: ignore[arg-type]
        device=device,
        checkpoint=checkpoint,
        progress=not as_json,
    )
    if out is not None:
        shrunk.save(out)
    if as_json:
        print_json(shrunk.report.to_dict(), out)
        return
    screen = console()
    screen.print(str(shrunk.report), soft_wrap=True)
    screen.print("", _table(shrunk.report))
    print_saved(out)


def _table(report: CacheReport) -> Table:
    """Return a line for each layer."""
    table = empty_table(
        "layer", "numbers", "kept", "states off", "loss, nats", right=1, ruled=False
    )
    for index, layer in enumerate(report.layers):
        table.add_row(
            str(index),
            f"{layer.state}",
            f"{sum(layer.ranks)}",
            f"{layer.residual:.2%}",
            f"{layer.predicted:.5f}",
        )
    return table
