"""Notices of a fit: sentences for ``notes_``, and warnings about what may make a law wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence

from exactformer.learning.laws.dense.solvers import Solved
from exactformer.learning.laws.diagnosis import Finding, LawWarning
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.functions import Dictionary
from exactformer.learning.laws.sample import DependentColumnsWarning, RowLabelsWarning
from exactformer.learning.laws.tables import counts_rows

# Names that pandas gives to a column of row labels, and that people do.
_LABELS = {"Unnamed: 0", "__index_level_0__", "index", "level_0", "id", "ID"}
_SHOWN = 5


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
