"""The ledger of claims: what the papers say, what speaks for it, and the verdict that follows.

Each claim of a paper stands here once, in ``NAME.toml``: its sentence in short, the place where the
paper makes it, and its evidence. The verdict is derived from the evidence by :func:`judge` and
stored nowhere; errata, reproduction pages, badges and stored results are made from it::

    records    claims and their evidence, as plain data
    reading    the TOML files, checked
    verdict    evidence -> verdict
"""

from exactformer.claims.reading import PAPERS, every, ledger, of_experiment
from exactformer.claims.records import Claim, Condition, Erratum, Run, Runs, Value
from exactformer.claims.verdict import MEANINGS, Judgement, Verdict, compare, judge, together

__all__ = [
    "MEANINGS",
    "PAPERS",
    "Claim",
    "Condition",
    "Erratum",
    "Judgement",
    "Run",
    "Runs",
    "Value",
    "Verdict",
    "compare",
    "every",
    "judge",
    "ledger",
    "of_experiment",
    "together",
]
