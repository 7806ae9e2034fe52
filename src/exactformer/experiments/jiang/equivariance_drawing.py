"""The figure of jiang-equivariance: errors beside the floors, and how symmetric models are."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from exactformer.experiments.engine.figure import subplots
from exactformer.experiments.engine.summary import Summary
from exactformer.experiments.jiang.equivariance import TARGETS
from exactformer.figures.style import BLUE, GREEN, ORANGE


def equivariance_figure(summary: Summary) -> Figure:
    """Draw errors beside the floors, and how far models are from symmetric."""
    drawn, (errors, deviations) = subplots(10.5, 3.8, 1, 2, width_ratios=(1.6, 1))
    _errors(errors, summary)
    _deviations(deviations, summary)
    return drawn


def _errors(axes: Axes, summary: Summary) -> None:
    for place, target in enumerate(TARGETS):
        for positions, colour, marker, aside in ((False, BLUE, "o", -0.1), (True, GREEN, "^", 0.1)):
            (cell,) = summary.select(target=target, positions=positions)
            values = cell.metrics["mse"]
            label = ("with positions" if positions else "without positions") if not place else None
            look: Any = {"color": colour, "fillstyle": "none", "ms": 6, "label": label}
            axes.plot(values, [place + aside] * len(values), marker, **look)
        least = cell.metrics["floor"]
        if least > 1e-12:
            label = None if place else "floor of equivariant maps"
            axes.plot([least] * 2, [place - 0.32, place + 0.32], color=ORANGE, lw=2, label=label)
    axes.set_yticks(range(len(TARGETS)), list(TARGETS.values()))
    axes.set(xscale="log", xlabel="mean squared error, a mark for each seed")
    axes.set_ylim(len(TARGETS) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_title("Trained models and the floor of symmetry")
    axes.legend(loc="lower left")


def _deviations(axes: Axes, summary: Summary) -> None:
    for place, target in enumerate(TARGETS):
        for positions, colour, marker in ((False, BLUE, "o"), (True, GREEN, "^")):
            (cell,) = summary.select(target=target, positions=positions)
            axes.plot(
                cell.metrics["deviation"], place, marker, color=colour, fillstyle="none", ms=6
            )
    axes.set_yticks(range(len(TARGETS)), [])
    axes.set(xscale="log", xlabel=r"largest $|\hat H(x\circ p)-\hat H(x)\circ p|$, relative")
    axes.set_xlim(1e-17, 10)
    axes.set_ylim(len(TARGETS) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_title("Equivariance, to rounding or not")
