"""``exactformer sequence``: a sequence-to-sequence map into a certified transformer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exactformer.cli.support.options import Force, Json, ModelOut, Plot, exact_text, sequence_at
from exactformer.cli.support.output import console, empty_table, print_json, print_saved
from exactformer.errors import InputError
from exactformer.progress import waiting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from exactformer.sequences.maps import NamedMap
    from exactformer.sequences.model import SequenceModel

_GOLDEN = 0.6180339887498949


def sequence(
    name: Annotated[str | None, typer.Argument(metavar="MAP")] = None,
    tokens: int = 3,
    dim: int = 1,
    delta: str = "1/8",
    form: str = "four-layer",
    positional: bool | None = None,
    realisation: str = "hard",
    tolerance: float | None = None,
    sharpness: float | None = None,
    ramp: int | None = None,
    support: str = "0,1",
    weights: Path | None = None,
    at: str | None = None,
    samples: Annotated[int, typer.Option(min=0)] = 20_000,
    out: ModelOut = None,
    plot: Plot = None,
    force: Force = False,
    as_list: Annotated[bool, typer.Option("--list")] = False,
    as_json: Json = False,
) -> None:
    """Compile a sequence-to-sequence map into a transformer, layer by layer, and prove it.

    The construction of Yun et al. (2020): quantise the tokens, give every token in every context a
    key of its own, look up its value. On the grid the transformer equals the map; between grid
    points the error is bounded where the map's Lipschitz constant is known, and measured on random
    inputs. --plot draws the example's way through the layers.

    Args:
        name: The map by its name; --list shows them all.
        tokens: How many tokens a sequence has.
        dim: How many numbers a token has.
        delta: The side of a cell, a fraction 1/N.
        form: four-layer; paper for every layer of the proof; compact for integer keys.
        positional: Give the model positions; what the map needs if absent.
        realisation: hard, exact on the grid, or softmax-relu for ordinary layers.
        tolerance: softmax-relu: how far it may be from hard, in d_2.
        sharpness: softmax-relu: the inverse temperature.
        ramp: softmax-relu: k for ramps of 2^-k of a cell.
        support: The interval in which every coordinate lies.
        weights: For softmax-attention: an .npz file with query, key and value.
        at: The example to show, token by token: 0.1,0.7,0.4.
        samples: Random inputs on which the error is measured; 0 for none.
        as_list: List the maps by name.
    """
    from exactformer.core.options import choose
    from exactformer.sequences.compile import REALISATIONS, compile_sequence
    from exactformer.sequences.maps import sequence_map

    if as_list:
        _show_maps(as_json)
        return
    if name is None:
        raise InputError("name a map, e.g. exactformer sequence sort; --list shows them all")
    choose("realisation", realisation, REALISATIONS)
    if realisation == "hard" and not tolerance is sharpness is ramp is None:
        raise InputError("--tolerance, --sharpness and --ramp belong to --realisation softmax-relu")
    target = sequence_map(name, None if weights is None else _read_weights(weights))
    low, high = _interval(support)
    with waiting("Evaluate the map on the grid, build the layers, prove them", not as_json):
        model = compile_sequence(
            target,
            tokens=tokens,
            dim=dim,
            delta=exact_text(delta, "--delta"),
            form=form,
            positional=not target.equivariant if positional is None else positional,
            support=(low, high),
        )
        if realisation == "softmax-relu":
            model = model.softened(tolerance, sharpness=sharpness, ramp=ramp)
        if target.lipschitz is not None:
            model = model.bounded(target.lipschitz(tokens), target=target)
        elif target.continuous:
            model = model.bounded("estimate", target=target)
    example = _example(at, model)
    with waiting(f"Measure the error on {samples:,} random inputs", not as_json):
        distances = (1, 2) if samples else ()
        measured = {
            f"d_{p}": model.measure(target, samples=samples, p=p).to_dict() for p in distances
        }
    if out is not None:
        model.save(out)
    if plot is not None:
        from exactformer.figures import save_figure
        from exactformer.figures.sequence_journey import sequence_journey_figure

        title = f"{target.name}, as a transformer: {target.summary}"
        save_figure(sequence_journey_figure(model, example, target, title), plot)
    facts = _facts(model, target, example, measured)
    if as_json:
        print_json({**facts, "certificate": model.certificate.to_dict()}, out, plot)
    else:
        _show(model, target, facts, out)
        print_saved(plot)


def _show_maps(as_json: bool) -> None:
    from exactformer.sequences.maps import SEQUENCE_MAPS

    if as_json:
        keys = ("name", "equivariant", "continuous", "summary")
        print_json({"maps": [{k: getattr(m, k) for k in keys} for m in SEQUENCE_MAPS.values()]})
        return
    table = empty_table("Map", "Needs", "What it does")
    for named in SEQUENCE_MAPS.values():
        needs = "" if named.equivariant else "positions"
        table.add_row(named.name, needs, named.summary)
    console().print(table)


def _read_weights(path: Path) -> tuple[Any, Any, Any]:
    from exactformer.core.archives import read_npz
    from exactformer.errors import FileFormatError

    path.stat()  # a file that is not there is another mistake
    try:
        arrays = read_npz(path, ("query", "key", "value"))
        return arrays["query"], arrays["key"], arrays["value"]
    except (FileFormatError, KeyError):
        raise InputError(
            f"{path} is not an .npz file with the matrices query, key (m, d) and value (d, d)"
        ) from None


def _interval(text: str) -> tuple[str, str]:
    ends = [end.strip() for end in text.split(",")]
    if len(ends) != 2 or not all(ends):
        raise InputError(f"--support {text.strip()!r}: an interval is two numbers, such as 0,1")
    return exact_text(ends[0], "--support"), exact_text(ends[1], "--support")


def _example(at: str | None, model: SequenceModel) -> NDArray[np.float64]:
    """Return the sequence to show, (n, d): what was given, or well-spread numbers."""
    import numpy as np

    n, d = model.blueprint.tokens, model.blueprint.dim
    if at is None:
        low, high = (float(end) for end in model.blueprint.support)
        spread = (_GOLDEN * np.arange(1, n * d + 1)) % 1.0
        return np.round(low + (high - low) * spread, 3).reshape(n, d)
    return np.array(sequence_at(at, n, d))


def _facts(
    model: SequenceModel, target: NamedMap, example: NDArray[np.float64], measured: dict[str, Any]
) -> dict[str, Any]:

    return {
        "map": target.name,
        **model.facts(),
        "example": {
            "input": example.tolist(),
            "codes": [int(code) for code in model.codes(example).tolist()],
            "output": model(example).tolist(),
            "map": target(example).tolist(),
        },
        "error": measured,
    }


def _show(model: SequenceModel, target: NamedMap, facts: dict[str, Any], out: Path | None) -> None:
    from rich.text import Text

    from exactformer.cli.support.panels import certificate_panel

    first = {"map": Text.assemble((target.name, "bold"), f": {target.summary}")}
    saved = "nowhere; -o FILE keeps it" if out is None else str(out)
    screen = console()
    panel = certificate_panel(model.certificate, model.rows(), saved, first, facts["error"])
    screen.print(panel)
    table = empty_table("Token", "Input", "Code", "Output", "The map's own", "Difference", right=0)
    columns = (facts["example"][key] for key in ("input", "codes", "output", "map"))
    for j, (x, code, y, wanted) in enumerate(zip(*columns, strict=True), start=1):
        away = max(abs(a - b) for a, b in zip(y, wanted, strict=True))
        table.add_row(f"{j}", _vector(x), f"{code:,}", _vector(y), _vector(wanted), f"{away:.2g}")
    screen.print(table)


def _vector(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
