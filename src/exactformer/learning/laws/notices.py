"""Notices of a fit: sentences for ``notes_``, and warnings about what may make a law wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws import formula
from exactformer.learning.laws.dense.solvers import Solved
from exactformer.learning.laws.diagnosis import Discovered, Finding, LawWarning, diagnose
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.functions import Dictionary
from exactformer.learning.laws.sample import DependentColumnsWarning, RowLabelsWarning, Sample
from exactformer.learning.laws.tables import counts_rows

# Names that pandas gives to a column of row labels, and that people do.
_LABELS = {"Unnamed: 0", "__index_level_0__", "index", "level_0", "id", "ID"}
_SHOWN = 5
# Rows left out must be explained as well as this, compared with the training data.
_DROP = 0.5


def account(
    sample: Sample,
    output: int,
    solved: Solved,
    fitted: Array,
    names: list[str],
    significance: float,
    set_aside: NDArray[np.bool_] | None,
) -> list[Finding]:
    """Return what there is to say about the law of one output with these fitted values.

    ``significance`` is the level of a discovery, ``set_aside`` the rows that a robust loss set aside.
    """
    terms = sum(any(alpha) for alpha in solved.laws[output].powers())
    law = Discovered(terms, solved.degree, significance, solved.design)
    used = [names[j] for j in sample.used]
    found = diagnose(sample, output, fitted, used, set_aside=set_aside, discovered=law)
    for step in solved.paths[output]:
        if step.chosen and step.r2 - step.held_out_r2 > _DROP and set_aside is None:
            text = f"R² is {step.r2:.3g} on the rows and {step.held_out_r2:.3g} when each is left out. "
            text += "A few rows at the edge of the data decide; more rows there would help"
            found.append(Finding(text, True))
    return found + balance(solved, output, names)


def balance(solved: Solved, output: int, names: list[str]) -> list[Finding]:
    """Return which terms of a law were kept, and which left out, although a test said otherwise."""
    found = []
    disputed, irrelevant = (
        ", ".join(formula.monomial(a, names) for a in part[output])
        for part in (solved.disputed, solved.irrelevant)
    )
    if disputed:
        text = f"kept because most rows support them: {disputed}. A few rows of much leverage make "
        found.append(Finding(text + "their standard errors large", False))
    if irrelevant:
        text = f"significant, but left out as too small to matter: {irrelevant}; relevance=0 keeps them"
        found.append(Finding(text, False))
    return found


def about_the_search(solved: Solved, dictionary: Dictionary) -> list[Finding]:
    """Return where the degree stopped, and which functions were left out."""
    found = []
    if solved.stopped:
        found.append(Finding(f"degree {solved.degree}: {solved.stopped}", False))
    if dictionary.left_out:
        found.append(Finding(f"functions left out: {', '.join(dictionary.left_out)}", False))
    return found


def warn_of_findings(findings: Iterable[Finding]) -> None:
    """Warn of the serious ones."""
    for finding in findings:
        if finding.serious:
            warnings.warn(finding.text, LawWarning, stacklevel=4)


def warn_of_row_labels(names: Sequence[str], X: Array) -> None:
    """Warn of a column that is called like an index and counts the rows."""
    for name, values in zip(names, X.T, strict=True):
        if name in _LABELS and counts_rows(values):
            warnings.warn(
                f"column {name!r} counts the rows; it looks like an index, of which no law should be "
                "made. Leave it out with X.drop(columns=…)",
                RowLabelsWarning,
                stacklevel=3,
            )
            return


def warn_of_dependence(unused: Mapping[str, str], aliases: Iterable[Iterable[str]]) -> None:
    """Warn of columns and terms that the data cannot distinguish from others."""
    relations = [f"{name} ({why})" for name, why in unused.items() if why != "constant"]
    if relations:
        warnings.warn(
            f"not used: {', '.join(relations)}. The data cannot tell these columns from the "
            "others, in which the law is written",
            DependentColumnsWarning,
            stacklevel=4,
        )
    if hidden := sorted({term for terms in aliases for term in terms}):
        shown = ", ".join(hidden[:_SHOWN]) + (", …" if len(hidden) > _SHOWN else "")
        warnings.warn(
            f"on these data {shown} cannot be told from combinations of the terms in the "
            "formula; other formulas fit exactly as well",
            DependentColumnsWarning,
            stacklevel=4,
        )
