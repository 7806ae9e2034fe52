"""The cost of sequence maps: layers, weights and key bits by dimension, tokens and cells.

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

from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from math import comb, log2
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Cell, Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.experiments.yun.contextual import FORMS
from exactformer.experiments.yun.contextual import SIZES as BUILT
from exactformer.figures.style import BLUE, GREEN, GREY, ORANGE, legend, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGER = ((1, 2, 64), (1, 3, 32), (2, 2, 8), (2, 3, 4))
KNOWN = {(1, 2, 64): 4165, (1, 3, 32): 14_949, (2, 2, 8): 4120, (2, 3, 4): 1712}
"""Layers of the paper's form, as counted in advance: d more than the lemmas add up to."""
DIMENSIONS = (1, 2, 4, 8)
TOKENS = 2
MANTISSA = 53


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Predicted: all dimensions and numbers of cells. Built: what is small."""
    sweep = [(d, TOKENS, 2**k) for d in DIMENSIONS for k in range(1, 9)]
    sweep += [(1, n, 16) for n in (1, 3, 4, 6, 8)]
    sweep += [*BUILT, *LARGER, (2, 3, 8), (8, 8, 4)]
    built = by_scale(BUILT, BUILT + LARGER)[scale]
    sizes = [("predicted", *size) for size in dict.fromkeys(sweep)]
    sizes += [("built", *size) for size in built]
    names = ("kind", "d", "n", "cells")
    return [{**dict(zip(names, size, strict=True)), "form": f} for size in sizes for f in FORMS]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Predict the size of a model from formulas alone, or build it and count."""
    d, n, cells, form = (parameters[name] for name in ("d", "n", "cells", "form"))
    found: Any
    if parameters["kind"] == "predicted":
        from exactformer.sequences.grid import Grid
        from exactformer.sequences.sizes import predict_size

        found = predict_size(Grid(n, d, cells, repeats=form == "four-layer"), form)
        keys, count = found.keys, weights(d, n, cells, form)
    else:
        from exactformer.sequences.compile import compile_sequence

        # Of a map without zeros every value is a weight.
        delta = Fraction(1, cells)
        model = compile_sequence(lambda x: x - 2, tokens=n, dim=d, delta=delta, form=form)
        found = model.blueprint.counts()
        keys, count = model.table.grid.keys, found.weights
    return {
        "layers": float(found.depth),
        "keys": float(keys),
        "weights": float(count),
        "key bits": found.key_bits,
        **{name: float(count) for name, count in found.layers.items()},
    }


def weights(d: int, n: int, cells: int, form: str) -> int:
    """Return the number of weights that are not zero, for a map without zeros."""
    N, D = cells, int(cells**d)
    if form == "four-layer":
        return (d + 2) * D * comb(D + n - 2, n - 1) + 3 * D + 3 * d * N + 4 * d + 1
    reject = 4 * d if form == "paper" else 0
    values = (2 * d + 1) * n * comb(D, n) - (n == 1)  # a token alone has its id for a key: one is 0
    return d * (3 * N + 1) + 2 * D * (3 * d + 1) + 3 * d + 2 * d + reject + values


def _row(label: str, metric: str, size: tuple[int, int, int], **options: Any) -> Quantity:
    d, n, cells = size
    where = {"kind": "predicted", "d": d, "n": n, "cells": cells, "form": "paper"}
    return Quantity(label, metric, where, place="counted by hand", **options)


def _built(summary: Summary) -> list[tuple[Cell, Cell]]:
    """Return built models with their predictions."""
    return [
        (cell, twin)
        for cell in summary.select(kind="built")
        for twin in summary.select(**{**cell.parameters, "kind": "predicted"})
    ]


def _curve(summary: Summary, form: str, d: int, metric: str) -> dict[int, float]:
    """Return a metric of two tokens by the number of cells, powers of two."""
    mine = summary.select(kind="predicted", form=form, d=d, n=TOKENS)
    found = {c.parameters["cells"]: c.metrics[metric] for c in mine}
    return {cells: found[cells] for cells in sorted(found) if cells & (cells - 1) == 0}


_LOOKS: dict[str, dict[str, Any]] = {
    "paper": {"ls": "-", "lw": 3.2, "alpha": 0.3},
    "compact": {"ls": "-", "lw": 1.3},
    "four-layer": {"ls": "--", "lw": 1.6},
}
_COLOURS = dict(zip(DIMENSIONS, (BLUE, GREEN, "#b8860b", ORANGE), strict=True))


def draw(summary: Summary) -> "Figure":
    """Draw layers, weights and key bits against the number of cells, by dimension."""
    from exactformer.sequences.sizes import MAX_KEYS

    figure, panels = subplots(13, 4.4, 1, 3)
    for axes, metric in zip(panels, ("layers", "weights", "key bits"), strict=True):
        for (form, look), (d, colour) in product(_LOOKS.items(), _COLOURS.items()):
            curve = _curve(summary, form, d, metric)
            axes.plot(list(curve), list(curve.values()), color=colour, **look)
        axes.set_xscale("log", base=2)
        axes.set(yscale="log", xlabel="cells a side, 1/δ")
    layers, weights, bits = panels
    layers.set_title(f"layers, n = {TOKENS} tokens")
    weights.set_title("weights: the curse of dimension")
    bits.set_title("bits of the largest key")
    bits.set_yscale("linear")
    layers.axhline(MAX_KEYS, color=GREY, lw=0.8, ls=":")
    layers.text(256, MAX_KEYS * 1.6, "most that is built", fontsize=8, color=GREY, ha="right")
    bits.axhline(MANTISSA, color=GREY, lw=0.8, ls=":")
    bits.text(256, MANTISSA + 1.5, "float64", fontsize=8, color=GREY, ha="right")
    bits.set_ylim(0, 200)
    colours = {f"d = {d}": {"color": colour} for d, colour in _COLOURS.items()}
    legend(figure, colours | {form: {"color": GREY, **look} for form, look in _LOOKS.items()})
    return figure


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
    quantities=[
        *(
            _row(
                f"layers, paper, (d, n, 1/δ) = {size}",
                "layers",
                size,
                expected=layers,
                within=0.002,
                note="It counts d layers more than the lemmas add up to.",
            )
            for size, layers in KNOWN.items()
        ),
        _row("value layers, paper, (2, 3, 8)", "values", (2, 3, 8), expected=1.25e5, within=0.01),
        _row("value layers, paper, (8, 8, 4)", "values", (8, 8, 4), expected=7e34, within=0.05),
        *rows(
            "weights, {form}, ({d}, 2, 16)",
            "weights",
            {"form": FORMS, "d": DIMENSIONS},
            {"kind": "predicted", "n": TOKENS, "cells": 16},
        ),
        *rows(
            "key bits, {form}, (1, 3, 32)",
            "key bits",
            {"form": FORMS},
            {"kind": "predicted", "d": 1, "n": 3, "cells": 32},
        ),
    ],
    figure=draw,
)


@EXPERIMENT.states("layers, keys and weights of built models are as predicted")
def _(summary: Summary) -> bool:
    pairs = _built(summary)
    return len(pairs) == len(summary.select(kind="built")) > 0 and all(
        {**cell.metrics, "key bits": 0} == {**twin.metrics, "key bits": 0} for cell, twin in pairs
    )


@EXPERIMENT.states("so are key bits, at most as predicted in four layers")
def _(summary: Summary) -> bool:
    return all(
        cell.metrics["key bits"] <= twin.metrics["key bits"]
        if cell.parameters["form"] == "four-layer"
        else cell.metrics["key bits"] == twin.metrics["key bits"]
        for cell, twin in _built(summary)
    )


@EXPERIMENT.states("paper: d(1/δ + 1), 1/δ^d + 1, d + 1 and n·C(1/δ^d, n) layers a stage")
def _(summary: Summary) -> bool:
    def layers(d: int, n: int, cells: int, **_: Any) -> list[int]:
        D = cells**d
        return [d * (cells + 1), D + 1, d + 1, n * comb(D, n)]

    stages = ("quantise", "contextual mapping", "reject", "values")
    return all(
        [cell.metrics[stage] for stage in stages] == list(map(float, layers(**cell.parameters)))
        for cell in summary.select(form="paper")
    )


@EXPERIMENT.states("the four-layer form has four layers at every size")
def _(summary: Summary) -> bool:
    return summary.every("form == 'four-layer'", "layers == 4")


@EXPERIMENT.states("weights grow as N^(dn) in every form, within 10 % of the exponent")
def _(summary: Summary) -> bool:
    """The last doubling of the cells multiplies weights by 2^(dn), within 10 %."""
    return all(
        abs(log2(after / before) / (d * TOKENS) - 1) <= 0.1
        for form, d in product(FORMS, DIMENSIONS)
        for *_, before, after in [_curve(summary, form, d, "weights").values()]
    )


@EXPERIMENT.states("from 16 points on, four-layer keys have at most 65 % of the bits")
def _(summary: Summary) -> bool:
    bits = summary.frame.query("kind == 'predicted' and n == @TOKENS and cells ** d >= 16").pivot(
        index=["d", "cells"], columns="form", values="key bits"
    )
    return bool((bits["four-layer"] <= 0.65 * bits["compact"]).all())
