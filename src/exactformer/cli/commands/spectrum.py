"""``exactformer spectrum``: how much of its head dimension each attention head of a model uses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.support.options import Force, Json, Plot, out_file
from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.core.whole_files import write_bytes
from exactformer.core.words import at_most
from exactformer.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from exactformer.spectra import Spectrum

ModelFolder = Annotated[
    Path,
    typer.Argument(help="Folder of a saved Hugging Face model; nothing is fetched."),
]
Texts = Annotated[Path | None, typer.Option(help="A text file, one input per line.")]
ImageFolder = Annotated[Path | None, typer.Option(help="A folder of images.")]
Npz = Annotated[
    Path | None,
    typer.Option(help="Arrays named as the model's arguments, one entry per input."),
]
Limit = Annotated[int, typer.Option(help="Use at most this many inputs.", min=1)]
BatchSize = Annotated[int, typer.Option(help="Inputs the model sees at once.", min=1)]
Device = Annotated[
    str | None, typer.Option(help="cpu or cuda; a GPU if there is one, unless given.")
]

_COLUMNS = {
    "sigma_1": ("σ₁", ".3g"),
    "rank": ("rank", "d"),
    "effective_rank": ("effective", ".1f"),
    "alpha": ("α", ".2f"),
    "fit": ("R²", ".2f"),
    "shared_99": ("99 %", "d"),
    "shared_999": ("99.9 %", "d"),
}
"""Columns of the table to show: the head of each, and the form of its numbers."""


def spectrum(
    model: ModelFolder,
    texts: Texts = None,
    images: ImageFolder = None,
    npz: Npz = None,
    limit: Limit = 256,
    batch_size: BatchSize = 16,
    control: str | None = None,
    centred: bool = False,
    heads: bool = False,
    plot: Plot = None,
    kind: str = "both",
    layer: int = -1,
    head: Annotated[int, typer.Option(min=0)] = 0,
    out: Annotated[Path | None, out_file(".safetensors", ".csv")] = None,
    force: Force = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Measure the singular values of the attention scores of a model, head by head, on your inputs.

    Queries and keys are taken from the model as it runs, and attention rebuilt from them must equal
    the model's own. Columns 99 % and 99.9 % are the head dimensions that keep this share of the scores'
    energy with one basis for all inputs.

    Args:
        control: Also analyse a copy with weights shuffled or reinitialised.
        centred: Subtract the mean key, which a softmax does not see.
        heads: Show every head, not only a line for each layer.
        kind: What to draw: both, violin, decay or needed.
        layer: Layer to draw, from 0; −1 is the last.
        head: Head to draw.
        out: Write everything (.safetensors) or the table (.csv).
    """
    from exactformer.spectra import spectrum as analyse

    if kind not in ("both", "violin", "decay", "needed"):
        raise InputError(f"--kind {kind}: choose both, violin, decay or needed")
    result = analyse(
        model,
        given_inputs(model, texts, images, npz, limit, batch_size),
        control=control,  # type: ignore[arg-type]
        centred=centred,
        batch_size=batch_size,
        device=device,
        progress=not as_json,
    )
    if plot is not None:
        from exactformer.figures import save_figure

        save_figure(result.plot(layer, head, kind), plot)  # type: ignore[arg-type]
    if out is not None and out.suffix == ".csv":
        write_bytes(result.table.to_csv(index=False).encode(), out)
    elif out is not None:
        result.save(out)
    if as_json:
        print_json(result.to_dict(), out, plot)
    else:
        _show(result, heads)
        print_saved(out, plot)


def given_inputs(
    model: Path,
    texts: Path | None,
    images: Path | None,
    npz: Path | None,
    limit: int,
    batch_size: int,
) -> Any:
    """Return the inputs that one of three options names."""
    from exactformer.spectra.files import Images, read_arrays, read_texts

    if sum(option is not None for option in (texts, images, npz)) != 1:
        raise InputError("give inputs by one of --texts FILE, --images FOLDER, --npz FILE")
    if texts is not None:
        return read_texts(texts, limit)
    if images is not None:
        return Images(images, model, batch_size, limit)
    assert npz is not None
    return read_arrays(npz, batch_size, limit)


def _show(result: Spectrum, every_head: bool) -> None:
    screen = console()
    first = result.layers[0]
    screen.print(
        f"{result.headline} of {first.tokens:.0f} tokens on average; attention rebuilt within "
        f"{at_most(result.agreement, 2)} of the model's own."
    )
    shown = shortened([layer.name for layer in result.layers])
    if shown[first.name] != first.name:
        before, _, after = first.name.partition(f".{shown[first.name]}.")
        screen.print(f"Layers are {before}.*.{after}." if after else f"The first is {first.name}.")
    screen.print(_by_head(result) if every_head else _by_layer(result))
    if result.control is not None:
        screen.print("The control, whose weights know nothing:")
        screen.print(_by_head(result.control) if every_head else _by_layer(result.control))
    for left in result.left_out:
        screen.print(f"Left out: {left}.")


def _by_layer(result: Spectrum) -> Table:
    names = shortened([layer.name for layer in result.layers])
    columns = {name: column for name, column in _COLUMNS.items() if name != "fit"}
    heads = (head for head, _ in columns.values())
    table = empty_table("layer", "heads", "size", *heads, right=1, ruled=False)
    for layer in result.layers:
        rows = result.table[result.table["layer"] == layer.name]
        cells = (_span(rows[name], form) for name, (_, form) in columns.items())
        table.add_row(names[layer.name], str(layer.heads), str(layer.head_dim), *cells)
    return table


def _by_head(result: Spectrum) -> Table:
    names = shortened([layer.name for layer in result.layers])
    heads = (head for head, _ in _COLUMNS.values())
    table = empty_table("layer", "head", *heads, "verdict", right=1, ruled=False)
    table.columns[-1].justify = "left"
    for row in result.table.to_dict(orient="records"):
        cells = {name: format(row[name], form) for name, (_, form) in _COLUMNS.items()}
        cells["sigma_1"] += f" ± {row['sigma_1_spread']:.1g}"
        table.add_row(names[row["layer"]], str(row["head"]), *cells.values(), row["verdict"])
    return table


def shortened(names: list[str]) -> dict[str, str]:
    """Return what tells names apart: without the parts that all have at their start and end.

    >>> shortened(["encoder.layer.0.attention", "encoder.layer.1.attention"])
    {'encoder.layer.0.attention': '0', 'encoder.layer.1.attention': '1'}
    """
    parts = [name.split(".") for name in names]
    shortest = min(map(len, parts))
    start = next((i for i in range(shortest) if len({p[i] for p in parts}) > 1), 0)
    ends = range(1, shortest - start + 1)
    end = next((i for i in ends if len({p[-i] for p in parts}) > 1), 1)
    return {
        name: ".".join(p[start : len(p) - end + 1]) for name, p in zip(names, parts, strict=True)
    }


def _span(values: Any, form: str) -> str:
    """Return the least and the largest of a column."""
    low, high = format(values.min(), form), format(values.max(), form)
    return low if low == high else f"{low}–{high}"
