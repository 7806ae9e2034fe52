"""The cost of the offset: the paper's construction against the scaled one, by radius and format."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Experiment, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEGREE = 5
RADII = (1, 5, 10, 30)
CONSTRUCTIONS = ("paper", "scaled")
FORMATS = ("float64", "float32")


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for every construction, format and radius."""
    points = by_scale(2_000, 20_000, 200_000)[scale]
    return [
        {"construction": c, "format": f, "radius": r, "points": points, "seed": 0}
        for c in CONSTRUCTIONS
        for f in FORMATS
        for r in RADII
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, float]:
    """Compile x^5 and compare with extended precision at uniform points of [−B, B]."""
    import numpy as np
    import torch

    from exactformer.polynomials.compile import compile

    radius, dtype = parameters["radius"], getattr(torch, parameters["format"])
    # The paper's offset may leave no digit, which is what is shown.
    options = {"construction": parameters["construction"], "executor": "literal", "tolerance": inf}
    model = compile(f"x^{DEGREE}", radius, dtype=dtype, **options).to(device)
    rng = np.random.default_rng(parameters["seed"])
    points = torch.tensor(rng.uniform(-radius, radius, size=(parameters["points"], 1)), dtype=dtype)
    points.clamp_(-radius, radius)
    exact = points.double().numpy().astype(np.longdouble)[:, 0] ** DEGREE
    error = np.abs(model(points.to(device)).double().cpu().numpy() - exact).max()
    size = float(radius) ** DEGREE
    return {"error": float(error) / size, "bound": model.certificate.bound(dtype, "literal") / size}


def draw(summary: Summary) -> Figure:
    """Draw error over B^q against the radius, observed and certified."""
    figure, panels = subplots(9, 4, 1, 2)
    for axes, name in zip(panels, FORMATS, strict=True):
        for construction, colour in zip(CONSTRUCTIONS, (ORANGE, BLUE), strict=True):
            mine = summary.frame.query("construction == @construction and format == @name")
            for metric, style, word in (("bound", "--", "certified"), ("error", "o-", "observed")):
                label = f"{construction}, {word}"
                axes.loglog(mine["radius"], mine[metric], style, color=colour, label=label)
        axes.set(title=name, xlabel="radius B", ylabel="largest error / $B^5$")
        axes.legend(fontsize=8)
    return figure


EXPERIMENT = Experiment(
    name="rounding-by-radius",
    title="What floating point costs the construction",
    claim="The paper's offset 2M² costs digits as the radius grows; scaled features do not.",
    source="Fang et al. 2022, proof of Theorem 3.5, run in floating point",
    cells=cells,
    run=run,
    quantities=rows(
        "{construction}, {format}, B = {radius}",
        "error",
        {"format": FORMATS, "construction": CONSTRUCTIONS, "radius": RADII},
        drift=0.5,
    ),
    figure=draw,
)


@EXPERIMENT.states("scaled is as accurate on every radius as on B = 1, within a factor 4")
def _(summary: Summary) -> bool:
    return all(
        summary[f"scaled, {f}, B = {r}"] <= 4 * summary[f"scaled, {f}, B = 1"]
        for f in FORMATS
        for r in RADII
    )


@EXPERIMENT.states("the paper's error grows at least a hundredfold from B = 1 to B = 30")
def _(summary: Summary) -> bool:
    return all(
        summary[f"paper, {f}, B = 30"] >= 100 * summary[f"paper, {f}, B = 1"] for f in FORMATS
    )


@EXPERIMENT.states("no observed error passes its certified bound")
def _(summary: Summary) -> bool:
    return summary.every("", "error <= bound")
