"""``exactformer recommend``: transformer or RNN, for the sequences in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exactformer.cli.support.options import Force, Json, Plot, names
from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from exactformer.learning.recommending import Recommendation, Samples


_FOR_TABLES = ("target", "columns", "length", "horizon", "stride")


def recommend(
    ctx: typer.Context,
    data: Path,
    target: Annotated[str | None, typer.Option("--target", "-t")] = None,
    columns: str | None = None,
    length: int = 48,
    horizon: int = 1,
    stride: int | None = None,
    seed: int = 0,
    plot: Plot = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Recommend a transformer or an RNN for a relationship between sequences, with the reasons.

    Inputs are (N, tokens) or (N, tokens, numbers), outputs (N, tokens), (N, tokens, numbers), or
    (N,) for one value after the last token. The answer rests on how much both explain of sequences
    held out; order, memory, mixing and the spectrum of the coupling are measured and shown. Where
    the evidence is thin the answer is undecided.

    Args:
        data: An .npz file with arrays inputs and outputs, or a table with one reading per row.
        target: For tables: the column to predict.
        columns: For tables: columns to predict it from, separated by commas; all others if absent.
        length: For tables: readings in a window.
        horizon: For tables: predict the target this many readings after the window, from its own past
            too; 0 predicts its value at every reading from the other columns.
        stride: For tables: readings between the starts of windows.
        seed: For folds and training.
    """
    from exactformer.learning.recommending import recommend_architecture

    if data.suffix.lower() != ".npz":
        samples = _table(data, target, names(columns), length, horizon, stride)
    elif given := [f"--{name}" for name in _FOR_TABLES if _is_given(ctx, name)]:
        raise InputError(
            f"{data} holds sequences already; leave out what is for tables: {', '.join(given)}"
        )
    else:
        samples = _arrays(data)
    found = recommend_architecture(samples, seed=seed)
    if plot is not None:
        from exactformer.figures import save_figure

        save_figure(found.plot(), plot)
    if as_json:
        print_json(found.to_dict(), plot)
    else:
        _show(found)
        print_saved(plot)


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _arrays(path: Path) -> Samples:
    from exactformer.core.archives import read_npz
    from exactformer.learning.recommending import samples

    arrays = read_npz(path)
    missing = [name for name in ("inputs", "outputs") if name not in arrays]
    if missing:
        raise FileFormatError(
            f"{path} has no array {' and '.join(missing)}; it has {', '.join(arrays) or 'none'}. "
            "Write it by numpy.savez(path, inputs=x, outputs=y)"
        )
    return samples(arrays["inputs"], arrays["outputs"])


def _table(
    path: Path,
    target: str | None,
    columns: list[str] | None,
    length: int,
    horizon: int,
    stride: int | None,
) -> Samples:
    import numpy as np

    from exactformer.learning.laws.tables import Wanted, read_table
    from exactformer.learning.recommending import windows

    if target is None:
        raise InputError(f"{path} is a table: name the column to predict by --target")
    table = read_table(path, Wanted([target], columns))
    series = np.column_stack([table.features.to_numpy(), table.targets.to_numpy()])
    return windows(series, series.shape[1] - 1, length=length, horizon=horizon, stride=stride)


def _show(found: Recommendation) -> None:
    from rich.text import Text

    screen = console()
    head, _, rest = found.text.partition("\n")
    screen.print(Text(f"\n{head}", style="bold"))
    screen.print(Text(rest))
    rows = empty_table("evidence", "", "95 % interval", "meaning", ruled=False)
    rows.columns[1].justify = "right"
    for one in found.evidence:
        value, _, interval = str(one).partition(" ")
        rows.add_row(one.name, value, interval, one.meaning)
    screen.print("", rows)
