"""What the offset costs: the paper's construction against the scaled one, by radius and format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from exactformer.experiments.engine.summary import Summary

DEGREE = 5
RADII = (1, 5, 10, 30)
CONSTRUCTIONS = ("paper", "scaled")
FORMATS = ("float64", "float32")


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for every construction, format and radius."""
    points = {Scale.SMOKE: 2_000, Scale.DEFAULT: 20_000, Scale.PAPER: 200_000}[scale]
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
    options = {"construction": parameters["construction"], "executor": "literal"}
    model = compile(f"x^{DEGREE}", radius, dtype=dtype, **options).to(device)
    rng = np.random.default_rng(parameters["seed"])
    points = torch.tensor(rng.uniform(-radius, radius, size=(parameters["points"], 1)), dtype=dtype)
    points.clamp_(-radius, radius)
    exact = points.double().numpy().astype(np.longdouble)[:, 0] ** DEGREE
    error = np.abs(model(points.to(device)).double().cpu().numpy() - exact).max()
    size = float(radius) ** DEGREE
    return {"error": float(error) / size, "bound": model.certificate.bound(dtype, "literal") / size}


def _quantities() -> tuple[Quantity, ...]:
    return tuple(
        Quantity(
            f"{c}, {f}, B = {r}",
            "error",
            {"construction": c, "format": f, "radius": r},
            drift=0.5,
        )
        for f in FORMATS
        for c in CONSTRUCTIONS
        for r in RADII
    )


def _flat(summary: Summary) -> bool:
    return all(
        summary[f"scaled, {f}, B = {r}"] <= 4 * summary[f"scaled, {f}, B = 1"]
        for f in FORMATS
        for r in RADII
    )


def _grows(summary: Summary) -> bool:
    return all(
        summary[f"paper, {f}, B = 30"] >= 100 * summary[f"paper, {f}, B = 1"] for f in FORMATS
    )


def _bounded(summary: Summary) -> bool:
    return all(cell.metrics["error"] <= cell.metrics["bound"] for cell in summary.cells)


def draw(summary: Summary) -> Figure:
    """Draw error over B^q against the radius, observed and certified."""
    from matplotlib.figure import Figure

    from exactformer.figures.style import BLUE, ORANGE, exactformer_style

    with exactformer_style():
        figure = Figure(figsize=(9, 4), layout="constrained")
        for axes, name in zip(figure.subplots(1, 2, sharey=False), FORMATS, strict=True):
            for construction, colour in zip(CONSTRUCTIONS, (ORANGE, BLUE), strict=True):
                chosen = summary.select(construction=construction, format=name)
                radii = [cell.parameters["radius"] for cell in chosen]
                for metric, style in (("bound", "--"), ("error", "o-")):
                    axes.loglog(
                        radii,
                        [cell.metrics[metric] for cell in chosen],
                        style,
                        color=colour,
                        label=f"{construction}, {'certified' if metric == 'bound' else 'observed'}",
                    )
            axes.set(title=name, xlabel="radius B", ylabel="largest error / $B^5$")
            axes.legend(fontsize=8)
    return figure


EXPERIMENT = Experiment(
    name="rounding-by-radius",
    title="What floating point costs the construction",
    claim="The paper's offset 2M² costs digits as the radius grows; scaled features do not.",
    source="Fang et al. 2022, proof of Theorem 3.5, run in floating point",
    ours=True,
    cells=cells,
    run=run,
    quantities=_quantities(),
    statements=(
        Statement("scaled is as accurate on every radius as on B = 1, within a factor 4", _flat),
        Statement("the paper's error grows at least a hundredfold from B = 1 to B = 30", _grows),
        Statement("no observed error passes its certified bound", _bounded),
    ),
    figure=draw,
)
