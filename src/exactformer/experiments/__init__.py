"""The papers' tables and figures by name: run, resumed, checked and shown.

An experiment is a named grid of independent cells (parameters -> metrics), what the paper printed,
and what its claim says. To add one, write a module that defines ``EXPERIMENT`` and name it in
``registry.py``::

    def run(parameters, device):            # found by name from worker processes
        model = train(parameters["model"], parameters["seed"], device)
        return {"test": model.test_error, "curve": model.losses}

    def cells(scale):
        seeds = range(1 if scale == "smoke" else 5)
        return [{"model": m, "seed": s} for s in seeds for m in ("attention", "width")]

    EXPERIMENT = Experiment(
        name="fang-table-1",
        title="Three models learn a polynomial of degree five",
        claim="Attention fits the target; networks of the same size do not.",
        source="Fang et al. 2022, Table 1",
        cells=cells,
        run=run,
        quantities=(
            Quantity("attention, test", "test", {"model": "attention"}, printed=0.109,
                     place="Table 1", better="lower", within=0.35),
            Quantity("width, test", "test", {"model": "width"}, printed=35.66, within=0.5),
        ),
        statements=(
            Statement("attention is ahead of width",
                      lambda s: s["attention, test"] < s["width, test"]),
        ),
    )

Every finished cell is a file of its own (``engine/store.py``), so a run may be killed at any
moment and started again.
"""

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.experiment import Experiment, Quantity, Scale, Statement
from exactformer.experiments.engine.report import write_report
from exactformer.experiments.engine.reproduce import reproduce
from exactformer.experiments.engine.result import Result
from exactformer.experiments.engine.summary import Row, Summary
from exactformer.experiments.engine.verdict import Verdict
from exactformer.experiments.registry import find, names, register

__all__ = [
    "Cell",
    "Experiment",
    "Quantity",
    "Result",
    "Row",
    "Scale",
    "Statement",
    "Summary",
    "Verdict",
    "find",
    "names",
    "register",
    "reproduce",
    "write_report",
]
