"""The path of models from few terms to many: a table and a picture, to choose by eye.

Rows left out judge each model: the R² of row i is that of the model fitted without it. The terms of
each model were chosen with all rows, so models with more terms than the law look a little too good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exactformer.learning.laws import formula
from exactformer.learning.laws.dictionary.terms import Exponents

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Step:
    """One model: its terms, R² on all rows, R² of rows left out, whether it is the law."""

    exponents: list[Exponents]
    r2: float
    held_out_r2: float
    chosen: bool

    def embedded(self, embed: Callable[[Exponents], Exponents]) -> Step:
        """Return the step with exponents over all columns."""
        return replace(self, exponents=[embed(alpha) for alpha in self.exponents])


def table(steps: Sequence[Step], names: Sequence[str]) -> pd.DataFrame:
    """Return one row for each model: how many terms, which, R², R² of rows left out, chosen."""
    import pandas as pd

    return pd.DataFrame(
        {
            "terms": [len(step.exponents) for step in steps],
            "model": [
                " + ".join(formula.monomial(a, names) for a in reversed(step.exponents)) or "0"
                for step in steps
            ],
            "r2": [step.r2 for step in steps],
            "held_out_r2": [step.held_out_r2 for step in steps],
            "chosen": [step.chosen for step in steps],
        }
    )


def figure(paths: Sequence[Sequence[Step]]) -> Figure:
    """Return a figure of 1 − R² against the number of terms, one panel for each output."""
    from exactformer.figures.style import BLUE, GREY, ORANGE, subplots

    drawing, panels = subplots(5 * max(1, len(paths)), 3.5, 1, max(1, len(paths)), squeeze=False)
    for axes, steps in zip(panels[0], paths, strict=True):
        count = [len(step.exponents) for step in steps]
        for name, color in (("r2", GREY), ("held_out_r2", BLUE)):
            label = "training data" if name == "r2" else "rows left out"
            left = [max(1 - getattr(step, name), 1e-16) for step in steps]
            axes.plot(count, left, ".-", color=color, label=label)
        for step in steps:
            if step.chosen:
                axes.plot(len(step.exponents), max(1 - step.held_out_r2, 1e-16), "o", color=ORANGE)
        axes.set(yscale="log", xlabel="terms", ylabel="1 − R²")
        axes.legend()
    return drawing
