"""The lemma on contextual mappings, checked on every input of small grids, and its integers.

A contextual mapping gives the tokens of one input different codes, and no code of one input to a token
of an input that is not a permutation of it. In units of a cell, for sorted ids k_1 < … < k_n < K:

    k̃_1 = k_1 + K (k_n − k_1),   k̃_j = k_j + K (k̃_{j−1} − k_j),   key_j = k̃_j + K^(n+1) k̃_n,
    k̃_n = K^n (k_n − k_1) − Σ_{j<n} K^(n−j) (k_{j+1} − k_j) + k_n.

These are compared with what the attention layers make of every input. Before the last layer, the
global shift, three tokens do not have codes of their own: the check has to notice.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments import Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREEN, INK, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS = ("paper", "compact", "four-layer")
SIZES = ((1, 2, 4), (1, 3, 4), (1, 2, 8), (2, 2, 3), (2, 3, 2), (3, 2, 2))
"""(d, n, N)."""
LARGER = ((1, 3, 8), (1, 4, 6), (2, 2, 4), (1, 2, 32))
DRAWN = (1, 3, 4)
ENDS = {(1, 2, 4): (836, 2535), (1, 3, 4): (28168, 43947)}
"""Smallest and largest key, t_l/δ and t_r/δ, worked out by hand from the formula."""

BEFORE = "collisions before the global shift"


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for every size and form, with and without positions."""
    sizes, most = by_scale((SIZES, 20), (SIZES + LARGER, 600))[scale]
    return [
        {"d": d, "n": n, "cells": cells, "form": form, "positional": positional}
        for d, n, cells in sizes
        for form in FORMS
        for positional in (False, True)
        if not positional or cells ** (d * n) <= most
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Compile a map and put every input of the grid to its contextual mapping."""
    from exactformer.probing import is_contextual_mapping
    from exactformer.probing.inputs import Grid
    from exactformer.sequences.compile import compile_sequence

    d, n, cells = (parameters[name] for name in ("d", "n", "cells"))
    form, positional = parameters["form"], parameters["positional"]
    model = compile_sequence(
        lambda x: x, tokens=n, dim=d, delta=Fraction(1, cells), form=form, positional=positional
    ).to(device)
    distinct = form != "four-layer" and not positional
    inputs = Grid(n, d, cells, distinct_columns=distinct).inputs()
    middles = (inputs + 0.5) / cells

    mapping = model.contextual_mapping

    def shifted(x: Any) -> Any:
        return mapping.shifted(mapping.ids(model.quantise(x)))

    found = is_contextual_mapping(model.codes, middles, positional=positional, tolerance=0.0)
    metrics: dict[str, Any] = {
        "inputs": found.inputs,
        "tokens": found.tokens,
        "collisions": found.collisions,
        "separation": found.separation,
        "smallest key": model.certificate.smallest_key,
        "largest key": model.certificate.largest_key,
    }
    if form == "four-layer":
        return metrics
    before = is_contextual_mapping(shifted, middles, positional=positional, tolerance=0.0)
    codes = model.codes(middles).tolist()
    wrong = sum(
        int(code) != key
        for x, row in zip(inputs.tolist(), codes, strict=True)
        for code, key in zip(row, keys(x, cells, form, positional), strict=True)
    )
    metrics |= {BEFORE: before.collisions, "wrong keys": wrong}
    if (d, n, cells) == DRAWN and not positional and form == "compact":
        ascending = middles[(np.diff(inputs, axis=1) > 0).all(axis=(1, 2))]
        ids = mapping.ids(model.quantise(ascending))
        metrics |= {"ids": ids.tolist(), "shifted": shifted(ascending).tolist()}
        metrics["keys"] = model.codes(ascending).tolist()
    return metrics


def keys(x: Sequence[Sequence[int]], cells: int, form: str, positional: bool) -> list[int]:
    """Return the keys of columns by the formula; of the last one in closed form."""
    d, n = len(x[0]), len(x)
    ids = [sum(q * cells**r for r, q in enumerate(column)) for column in x]
    K = cells**d
    if positional:
        # The paper adds the position to every coordinate; compact models keep it beside them.
        stride = cells * sum(cells**r for r in range(d)) if form == "paper" else K
        ids, K = [k + stride * i for i, k in enumerate(ids)], n * stride
    k = sorted(ids)
    moved = [k[0] + K * (k[-1] - k[0])]
    for own in k[1:]:
        moved.append(own + K * (moved[-1] - own))
    last = K**n * (k[-1] - k[0]) + k[-1]
    last -= sum(K ** (n - j) * (k[j] - k[j - 1]) for j in range(1, n))
    return [moved[k.index(own)] + K ** (n + 1) * last for own in ids]


def _where(d: int, n: int, cells: int) -> dict[str, Any]:
    return {"d": d, "n": n, "cells": cells, "positional": False}


def _total(name: str) -> Any:
    return lambda cells: float(sum(cell.metrics[name] for cell in cells))


def draw(summary: Summary) -> "Figure":
    """Draw the codes of one grid stage by stage, and the separation of all."""

    _, n, N = DRAWN
    cell = summary.cell(**_where(*DRAWN), form="compact")
    figure, panels = subplots(13, 4.2, 1, 4, gridspec_kw={"width_ratios": [1, 1, 1, 1.5]})
    titles = ("quantised", "after the selective shifts", "after the global shift")
    for axes, name, title in zip(panels, ("ids", "shifted", "keys"), titles, strict=False):
        _codes(axes, cell.metrics[name], title)
    panels[0].set_ylabel(f"context: {n} of {N} cells")
    _separations(panels[3], summary)
    return figure


def _codes(axes: "Axes", codes: Sequence[Sequence[float]], title: str) -> None:
    flat = [code for row in codes for code in row]
    for y, row in enumerate(codes, start=1):
        for code in row:
            met = flat.count(code) > 1
            axes.plot(code, y, "|", color=ORANGE if met else BLUE, markersize=13, markeredgewidth=2)
    axes.set_yticks(range(1, len(codes) + 1))
    axes.margins(x=0.12, y=0.2)
    shared = sum(flat.count(code) > 1 for code in flat)
    axes.set_title(title)
    axes.set_xlabel(f"code, in cells; {shared} of {len(flat)} met elsewhere")
    axes.xaxis.get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]
    axes.tick_params(axis="x", labelrotation=30 if max(flat) > 9999 else 0)


def _separations(axes: "Axes", summary: Summary) -> None:
    look = {"paper": (ORANGE, "o"), "compact": (BLUE, "x"), "four-layer": (GREEN, "s")}
    for form, (colour, marker) in look.items():
        mine = summary.frame[summary.frame["form"] == form]
        options: Any = {"color": colour, "label": form, "fillstyle": "none", "markersize": 7}
        axes.plot(mine["tokens"], mine["separation"], marker, **options)
    axes.axhline(1, color=INK, lw=0.8, ls=":")
    axes.set(xscale="log", yscale="log", xlabel="tokens in context, all of a grid")
    axes.set_ylabel("smallest distance of two codes, in cells")
    axes.set_title("all grids")
    axes.legend(loc="upper left")


EXPERIMENT = Experiment(
    name="yun-contextual",
    title="Contextual mappings, checked on every input of small grids",
    claim="Shifts by hard attention give every token in every context a code of its own.",
    source="Yun et al. 2020, lemma on contextual mappings",
    cells=cells,
    run=run,
    quantities=[
        *(
            Quantity(
                f"t_{sign}/δ for (d, n, 1/δ) = {size}",
                f"{end} key",
                _where(*size) | {"form": "paper"},
                expected=value,
                place="formula, by hand",
                within=0.0,
            )
            for size, ends in ENDS.items()
            for sign, end, value in zip("lr", ("smallest", "largest"), ends, strict=True)
        ),
        *rows("{form}: tokens compared", _total("tokens"), {"form": FORMS}),
        *rows("{form}: collisions", _total("collisions"), {"form": FORMS}),
        Quantity(f"{DRAWN}: {BEFORE}", BEFORE, _where(*DRAWN) | {"form": "compact"}),
    ],
    figure=draw,
)


@EXPERIMENT.states("no two codes that must differ are equal, on any grid in any form")
def _(summary: Summary) -> bool:
    return summary.every("", "collisions == 0")


@EXPERIMENT.states("codes that must differ are at least a cell apart")
def _(summary: Summary) -> bool:
    return summary.every("", "separation >= 1")


@EXPERIMENT.states("the layers' codes are the formula's integers, every one")
def _(summary: Summary) -> bool:
    return summary.every("form != 'four-layer'", "`wrong keys` == 0")


@EXPERIMENT.states("smallest and largest key are t_l and t_r")
def _(summary: Summary) -> bool:
    return all(
        (cell.metrics["smallest key"], cell.metrics["largest key"]) == ends
        for size, ends in ENDS.items()
        for form in ("paper", "compact")
        for cell in summary.select(**_where(*size), form=form)
    )


@EXPERIMENT.states("without the global shift, three tokens or more collide")
def _(summary: Summary) -> bool:
    return summary.every("not positional and n > 2 and form != 'four-layer'", f"`{BEFORE}` > 0")
