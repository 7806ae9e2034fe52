"""The papers' tables and figures by name: run, resumed, checked and shown.

An experiment is a named grid of independent cells (parameters -> metrics), the rows of its table, and
statements about them. What the papers publish and claim stands in :mod:`exactformer.claims`. To add an
experiment, write a module that defines ``EXPERIMENT`` and name it in ``registry.py``::

    def run(parameters, device):            # found by name from worker processes
        model = train(parameters["model"], parameters["seed"], device)
        return {"test": model.test_error, "curve": model.losses}

    def cells(scale):
        seeds = range(by_scale(1, 3, 5)[scale])
        return [{"model": m, "seed": s} for s in seeds for m in ("attention", "width")]

    EXPERIMENT = Experiment(
        name="fang-table-1",
        title="Three models learn a polynomial of degree five",
        claim="Attention fits the target; networks of the same size do not.",
        source="Fang et al. 2022, Table 1",
        cells=cells,
        run=run,
        quantities=rows("{model}, test", "test", {"model": ("attention", "width")}),
        figure="module:function",           # imported when it is drawn
    )

    @EXPERIMENT.states("attention is ahead of width")
    def _(summary):
        return summary["attention, test"] < summary["width, test"]

Every finished cell is a file of its own (``engine/store.py``), so a run may be killed at any
moment and started again.
"""

from exactformer.claims import Verdict
from exactformer.experiments.engine.cell import Cell, Metrics, Parameters
from exactformer.experiments.engine.experiment import (
    Experiment,
    Metric,
    Quantity,
    Scale,
    Statement,
    by_scale,
    rows,
)
from exactformer.experiments.engine.report import write_report
from exactformer.experiments.engine.reproduce import reproduce
from exactformer.experiments.engine.result import Result
from exactformer.experiments.engine.summary import Row, Summary
from exactformer.experiments.registry import find, names, register

__all__ = [
    "Cell",
    "Experiment",
    "Metric",
    "Metrics",
    "Parameters",
    "Quantity",
    "Result",
    "Row",
    "Scale",
    "Statement",
    "Summary",
    "Verdict",
    "by_scale",
    "find",
    "names",
    "register",
    "reproduce",
    "rows",
    "write_report",
]
