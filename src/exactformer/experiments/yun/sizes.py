"""What sequence maps cost: layers, weights and key bits by dimension, tokens and cells.

With D = N^d points, paper and compact models have a value layer for every token in every context,
n·C(D, n) ≈ D^n / (n − 1)! of them: the curse of dimension, N^(dn). The four-layer form has four layers
at any size, and as many units in the last of them. Figures are predicted, so that they go far beyond
what can be built; where a model can be, it is, and its own counts are compared.

Weights that are not zero, no value being 0 (a head reads, asks and writes d rows each):

    quantise    d (3N + 1)            reject   4d          (paper)
    shifts      2 D (3d + 1) + 3d     values   (2d + 1) n·C(D, n)
    ends        2d

and (d + 2) D·C(D+n−2, n−1) + 3D + 3dN + 4d + 1 in the four-layer form.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import comb, log2
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.cell import Cell
    from exactformer.experiments.engine.summary import Summary

FORMS = ("paper", "compact", "four-layer")
BUILT = ((1, 2, 4), (1, 3, 4), (1, 2, 8), (2, 2, 3), (2, 3, 2), (3, 2, 2))
"""(d, n, N)."""
LARGER = ((1, 2, 64), (1, 3, 32), (2, 2, 8), (2, 3, 4))
KNOWN = {(1, 2, 64): 4165, (1, 3, 32): 14_949, (2, 2, 8): 4120, (2, 3, 4): 1712}
"""Layers of the paper's form, as a prototype counted them: d more than the lemmas add up to."""
DIMENSIONS = (1, 2, 4, 8)
TOKENS = 2
MANTISSA = 53


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Predicted: all dimensions and numbers of cells. Built: what is small."""
    sweep = [(d, TOKENS, 2**k) for d in DIMENSIONS for k in range(1, 9)]
    sweep += [(1, n, 16) for n in (1, 3, 4, 6, 8)]
    sweep += [*BUILT, *LARGER, (2, 3, 8), (8, 8, 4)]
    built = BUILT if scale is Scale.SMOKE else BUILT + LARGER
    sizes = [("predicted", *size) for size in dict.fromkeys(sweep)]
    sizes += [("built", *size) for size in built]
    names = ("kind", "d", "n", "cells")
    return [{**dict(zip(names, size, strict=True)), "form": f} for size in sizes for f in FORMS]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Predict the size of a model, or build it and count."""
    d, n, cells, form = (parameters[name] for name in ("d", "n", "cells", "form"))
    if parameters["kind"] == "predicted":
        return predicted(d, n, cells, form)
    from exactformer.sequences.compile import compile_sequence

    def map_without_zeros(x: Any) -> Any:
        return x - 2

    model = compile_sequence(
        map_without_zeros, tokens=n, dim=d, delta=Fraction(1, cells), form=form
    )
    counts = model.blueprint.counts()
    return {
        "layers": float(counts.depth),
        "keys": float(model.table.grid.keys),
        "weights": float(counts.weights),
        "key bits": counts.key_bits,
        **{name: float(count) for name, count in counts.layers.items()},
    }


def predicted(d: int, n: int, cells: int, form: str) -> dict[str, Any]:
    """Return layers, weights and bits, from formulas alone."""
    from exactformer.sequences.grid import Grid
    from exactformer.sequences.sizes import predict_size

    size = predict_size(Grid(n, d, cells, repeats=form == "four-layer"), form)
    return {
        "layers": float(size.depth),
        "keys": float(size.keys),
        "weights": float(weights(d, n, cells, form)),
        "key bits": size.key_bits,
        **{name: float(count) for name, count in size.layers.items()},
    }


def weights(d: int, n: int, cells: int, form: str) -> int:
    """Return the number of weights that are not zero, for a map without zeros."""
    N, D = cells, int(cells**d)
    if form == "four-layer":
        return (d + 2) * D * comb(D + n - 2, n - 1) + 3 * D + 3 * d * N + 4 * d + 1
    reject = 4 * d if form == "paper" else 0
    values = (2 * d + 1) * n * comb(D, n) - (n == 1)  # a token alone has its id for a key: one is 0
    return d * (3 * N + 1) + 2 * D * (3 * d + 1) + 3 * d + 2 * d + reject + values


def _where(d: int, n: int, cells: int, form: str, kind: str = "predicted") -> dict[str, Any]:
    return {"kind": kind, "d": d, "n": n, "cells": cells, "form": form}


def _quantities() -> tuple[Quantity, ...]:
    rows = [
        Quantity(
            f"layers, paper, (d, n, 1/δ) = {size}", "layers", _where(*size, "paper"),
            printed=layers, place="a prototype", within=0.002, ours=True,
            note="It counts d layers more than the lemmas add up to.",
        )
        for size, layers in KNOWN.items()
    ]  # fmt: skip
    rows += [
        Quantity("value layers, paper, (2, 3, 8)", "values", _where(2, 3, 8, "paper"), 1.25e5,
                 "a prototype", within=0.01, ours=True),
        Quantity("value layers, paper, (8, 8, 4)", "values", _where(8, 8, 4, "paper"), 7e34,
                 "a prototype", within=0.05, ours=True),
    ]  # fmt: skip
    for form in FORMS:
        for d in DIMENSIONS:
            where = _where(d, TOKENS, 16, form)
            rows.append(Quantity(f"weights, {form}, ({d}, 2, 16)", "weights", where))
    rows += [
        Quantity(f"key bits, {form}, (1, 3, 32)", "key bits", _where(1, 3, 32, form))
        for form in FORMS
    ]
    return tuple(rows)


def _built(summary: Summary) -> list[tuple[Cell, Cell]]:
    """Return built models with their predictions."""
    pairs = []
    for cell in summary.select(kind="built"):
        (twin,) = summary.select(**{**cell.parameters, "kind": "predicted"})
        pairs.append((cell, twin))
    return pairs


def _predictions_hold(summary: Summary) -> bool:
    pairs = _built(summary)
    return len(pairs) > 0 and all(
        {k: v for k, v in cell.metrics.items() if k != "key bits"}
        == {k: v for k, v in twin.metrics.items() if k != "key bits"}
        for cell, twin in pairs
    )


def _bits_hold(summary: Summary) -> bool:
    return all(
        cell.metrics["key bits"] == twin.metrics["key bits"]
        if cell.parameters["form"] != "four-layer"
        else cell.metrics["key bits"] <= twin.metrics["key bits"]
        for cell, twin in _built(summary)
    )


def _lemmas(summary: Summary) -> bool:
    def layers(d: int, n: int, N: int) -> list[float]:
        D = N**d
        return [float(v) for v in (d * (N + 1), D + 1, d + 1, n * comb(D, n))]

    stages = ("quantise", "contextual mapping", "reject", "values")
    return all(
        [cell.metrics[stage] for stage in stages] == layers(*_size(cell))
        for cell in summary.select(form="paper")
    )


def _size(cell: Cell) -> tuple[int, int, int]:
    d, n, cells = (cell.parameters[name] for name in ("d", "n", "cells"))
    return d, n, cells


def _four(summary: Summary) -> bool:
    return all(cell.metrics["layers"] == 4 for cell in summary.select(form="four-layer"))


def _curse(summary: Summary) -> bool:
    """The last doubling of the cells multiplies weights by 2^(dn), within 10 %."""
    slopes = []
    for form in FORMS:
        for d in DIMENSIONS:
            curve = _curve(summary, form, d, "weights")
            (_, before), (_, after) = curve[-2:]
            slopes.append(log2(after / before) / (d * TOKENS))
    return all(abs(slope - 1) <= 0.1 for slope in slopes)


def _half_the_bits(summary: Summary) -> bool:
    return all(
        four.metrics["key bits"] <= 0.65 * twin.metrics["key bits"]
        for four in summary.select(kind="predicted", form="four-layer", n=TOKENS)
        if four.parameters["cells"] ** four.parameters["d"] >= 16
        for twin in summary.select(**{**four.parameters, "form": "compact"})
    )


def _curve(summary: Summary, form: str, d: int, metric: str) -> list[tuple[int, float]]:
    mine = summary.select(kind="predicted", form=form, d=d, n=TOKENS)
    found = {c.parameters["cells"]: c.metrics[metric] for c in mine}
    return sorted((cells, value) for cells, value in found.items() if cells & (cells - 1) == 0)


def draw(summary: Summary) -> Figure:
    """Draw layers, weights and key bits against the number of cells, by dimension."""
    from matplotlib.figure import Figure

    from exactformer.figures.style import GREY, exactformer_style
    from exactformer.sequences.sizes import MAX_KEYS

    with exactformer_style():
        figure = Figure(figsize=(13, 4.4), layout="constrained")
        layers, weights, bits = figure.subplots(1, 3)
        for axes, metric in ((layers, "layers"), (weights, "weights"), (bits, "key bits")):
            _panel(axes, summary, metric)
        layers.set_title(f"layers, n = {TOKENS} tokens")
        weights.set_title("weights: the curse of dimension")
        bits.set_title("bits of the largest key")
        bits.set_yscale("linear")
        layers.axhline(MAX_KEYS, color=GREY, lw=0.8, ls=":")
        layers.text(256, MAX_KEYS * 1.6, "most that is built", fontsize=8, color=GREY, ha="right")
        bits.axhline(MANTISSA, color=GREY, lw=0.8, ls=":")
        bits.text(256, MANTISSA + 1.5, "float64", fontsize=8, color=GREY, ha="right")
        bits.set_ylim(0, 200)
        _legend(figure)
    return figure


_LOOKS: dict[str, dict[str, Any]] = {
    "paper": {"ls": "-", "lw": 3.2, "alpha": 0.3},
    "compact": {"ls": "-", "lw": 1.3},
    "four-layer": {"ls": "--", "lw": 1.6},
}


def _colours() -> dict[int, str]:
    from exactformer.figures.style import BLUE, GREEN, ORANGE

    return dict(zip(DIMENSIONS, (BLUE, GREEN, "#b8860b", ORANGE), strict=True))


def _panel(axes: Axes, summary: Summary, metric: str) -> None:
    for form, look in _LOOKS.items():
        for d, colour in _colours().items():
            x, y = zip(*_curve(summary, form, d, metric), strict=True)
            axes.plot(x, y, color=colour, **look)
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="cells a side, 1/δ")


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=c, label=f"d = {d}") for d, c in _colours().items()]
    handles += [
        Line2D([], [], color="#6b7280", label=form, **look) for form, look in _LOOKS.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


EXPERIMENT = Experiment(
    name="yun-sizes",
    title="What sequence maps cost: layers, weights and key bits",
    claim=(
        "Universality has a price of N^(dn) weights in every form; it need not be paid in layers, "
        "nor twice in bits."
    ),
    source="Yun et al. 2020, layer counts of the three lemmas",
    cells=cells,
    run=run,
    quantities=_quantities(),
    statements=(
        Statement(
            "layers, keys and weights of built models are as predicted",
            _predictions_hold,
            ours=True,
        ),
        Statement("so are key bits, at most as predicted in four layers", _bits_hold, ours=True),
        Statement("paper: d(1/δ + 1), 1/δ^d + 1, d + 1 and n·C(1/δ^d, n) layers a stage", _lemmas),
        Statement("the four-layer form has four layers at every size", _four, ours=True),
        Statement(
            "weights grow as N^(dn) in every form, within 10 % of the exponent", _curse, ours=True
        ),
        Statement(
            "from 16 points on, four-layer keys have at most 65 % of the bits",
            _half_the_bits,
            ours=True,
        ),
    ),
    figure=draw,
)
