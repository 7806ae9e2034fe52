"""``exactformer shrink``: a model whose heads have fewer dimensions, with what that saves and costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.commands.spectrum import (
    BatchSize,
    Device,
    ImageFolder,
    Limit,
    ModelFolder,
    Npz,
    Texts,
    given_inputs,
    shortened,
)
from exactformer.cli.support.options import Force, Json
from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from exactformer.spectra.caching import CacheReport
    from exactformer.spectra.shrinking import ShrinkReport


def shrink(
    model: ModelFolder,
    texts: Texts = None,
    images: ImageFolder = None,
    npz: Npz = None,
    cache: float | None = None,
    head_dim: int | None = None,
    energy: float | None = None,
    max_loss: float | None = None,
    values: bool = False,
    held_out: Path | None = None,
    method: str = "data",
    limit: Limit = 256,
    batch_size: BatchSize = 16,
    heads: bool = False,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    force: Force = False,
    checkpoint: Path | None = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Make the attention heads of a model smaller: new queries and keys, the best ones on your inputs.

    One input in four is kept back from the fit. The report lists what is saved, how far scores,
    attention and outputs have moved on inputs that were kept back and on the others, and which loader
    reads the saved model.

    Args:
        cache: Language models with rotary positions: the share of the cache to keep, such as 0.5.
        head_dim: The new dimension of every head.
        energy: Keep this share of the scores' energy: 0.99.
        max_loss: Search for the smallest dimension that changes outputs by at most this: 0.05.
        values: Shrink values too, to the same dimension.
        held_out: Measure errors on these, of the kind of the inputs, not on a fourth of the inputs.
        method: data, or weights for the plain truncation that reads no input.
        heads: Show every head, not only a line for each layer.
        out: Save the new model into this folder.
        checkpoint: Smaller caches: save the fit in this folder as it goes on, and go on from there.
    """
    from exactformer.spectra.caching import shrink_cache
    from exactformer.spectra.files import read_texts
    from exactformer.spectra.shrinking import shrink_heads
    from exactformer.spectra.texts import tokenizer_at

    if out is not None and out.exists() and not out.is_dir():
        raise InputError(f"{out} is not a folder; choose another place")
    if out is not None and out.is_dir() and any(out.iterdir()) and not force:
        raise InputError(f"{out} exists; choose another folder, or replace its files with --force")
    searched = max_loss is not None and head_dim is None and energy is None
    common: dict[str, Any] = {"max_loss": max_loss, "device": device, "progress": not as_json}
    shrunk: Any
    if cache is not None or (searched and _has_rotary_positions(model)):
        if values or any(option is not None for option in (head_dim, energy, images, npz)):
            raise InputError(
                "a cache is shrunk by --texts, --held-out and --cache or --max-loss only"
            )
        if texts is None:
            raise InputError("give text to calibrate on by --texts FILE")
        shrunk = shrink_cache(
            model,
            read_texts(texts, limit),
            cache=cache,
            held_out=None if held_out is None else read_texts(held_out, limit),
            method="joint" if method == "data" else method,  # type: ignore[arg-type]
            checkpoint=checkpoint,
            **common,
        )
        table = _cache_table(shrunk.report)
    else:
        if checkpoint is not None:
            raise InputError("--checkpoint: only the fit of a smaller cache is saved; leave it out")
        others = None
        if held_out is not None:
            text, image, arrays = (kind and held_out for kind in (texts, images, npz))
            others = given_inputs(model, text, image, arrays, limit, batch_size)
        shrunk = shrink_heads(
            model,
            given_inputs(model, texts, images, npz, limit, batch_size),
            head_dim=head_dim,
            energy=energy,
            values=values,
            held_out=others,
            method=method,  # type: ignore[arg-type]
            batch_size=batch_size,
            **common,
        )
        table = _head_table(shrunk.report, heads)
    if out is not None:
        shrunk.save(out)
        if texts is not None:
            tokenizer_at(model).save_pretrained(out)
    if as_json:
        print_json(shrunk.report.to_dict(), out)
        return
    screen = console()
    screen.print(str(shrunk.report), soft_wrap=True)
    screen.print("", table)
    print_saved(out)


def _has_rotary_positions(folder: Path) -> bool:
    """Whether a folder holds a causal language model with rotary positions, by its configuration."""
    try:
        config = json.loads((folder / "config.json").read_text())
        causal = any(str(name).endswith("ForCausalLM") for name in config["architectures"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return causal and any(name in config for name in ("rope_parameters", "rope_theta"))


def _head_table(report: ShrinkReport, every_head: bool) -> Table:
    """Return a line for each head, or for each layer with the means of its heads."""
    by = ["layer", "head"] if every_head else ["layer"]
    rows = report.table.groupby(by, sort=False).mean(numeric_only=True).reset_index()
    names = shortened(list(dict.fromkeys(report.table["layer"])))
    heads = (*by, "size", "new", "energy", "scores off", "attention moved")
    table = empty_table(*heads, right=1, ruled=False)
    forms = {"head": "g", "head_dim": "g", "new_head_dim": ".3g"}
    forms |= dict.fromkeys(("energy", "score_error", "attention_change"), ".2%")
    if not every_head:
        del forms["head"]
    for row in rows.to_dict(orient="records"):
        table.add_row(names[row["layer"]], *(format(row[c], form) for c, form in forms.items()))
    return table


def _cache_table(report: CacheReport) -> Table:
    """Return a line for each layer."""
    heads = ("layer", "numbers", "kept", "states off", "loss, nats")
    table = empty_table(*heads, right=1, ruled=False)
    for index, layer in enumerate(report.layers):
        sizes = map(str, (index, layer.state, sum(layer.ranks)))
        table.add_row(*sizes, f"{layer.residual:.2%}", f"{layer.predicted:.5f}")
    return table
