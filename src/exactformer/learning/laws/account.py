"""An account of one law: what its residuals say, which terms were kept or left out on balance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.laws import formula
from exactformer.learning.laws.dense.solvers import Solved
from exactformer.learning.laws.diagnosis import Discovered, Finding, diagnose
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.sample import Sample

# Rows left out must be explained as well as this, compared with the training data.
_DROP = 0.5


@dataclass(frozen=True)
class Account:
    """How to give it: names of the columns, the level of a discovery, rows a robust loss set aside."""

    names: list[str]
    significance: float | None
    set_aside: NDArray[np.bool_] | None


def account(
    sample: Sample, output: int, solved: Solved, fitted: Array, how: Account
) -> list[Finding]:
    """Return what there is to say about the law of one output with these fitted values."""
    law = None
    if how.significance is not None:
        terms = sum(any(alpha) for alpha in solved.laws[output].powers())
        law = Discovered(terms, solved.degree, how.significance, solved.design)
    used = [how.names[j] for j in sample.used]
    found = diagnose(sample, output, fitted, used, set_aside=how.set_aside, discovered=law)
    for step in solved.paths[output]:
        if step.chosen and step.r2 - step.held_out_r2 > _DROP and how.set_aside is None:
            text = f"R² is {step.r2:.3g} on the rows and {step.held_out_r2:.3g} when each is left out. "
            text += "A few rows at the edge of the data decide; more rows there would help"
            found.append(Finding(text, True))
    return found + balance(solved, output, how.names)


def balance(solved: Solved, output: int, names: list[str]) -> list[Finding]:
    """Return which terms of a law were kept, and which left out, although a test said otherwise."""
    found = []
    named = [
        [formula.monomial(a, names) for a in part[output]]
        for part in (solved.disputed, solved.irrelevant)
    ]
    if named[0]:
        text = f"kept because most rows support them: {', '.join(named[0])}. A few rows of much "
        found.append(Finding(text + "leverage make their standard errors large", False))
    if named[1]:
        text = f"significant, but left out as too small to matter: {', '.join(named[1])}; "
        found.append(Finding(text + "relevance=0 keeps them", False))
    return found
