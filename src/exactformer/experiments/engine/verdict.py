"""Verdicts: our numbers against the published ones, and what follows for the paper.

A quantity or a statement is either the paper's or ours. What is ours, because the paper published no
number for it or did not claim it, never enters the verdict on the paper.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from exactformer.core.words import plural
from exactformer.experiments.engine.experiment import Quantity, Scale, Statement
from exactformer.experiments.engine.numbers import number, percent

if TYPE_CHECKING:
    from exactformer.experiments.engine.summary import Row


class Verdict(StrEnum):
    """The outcome of a comparison, of one quantity or of a whole experiment.

    A quantity *differs* where an experiment is *not reproduced* or has *numbers* that *differ*; one of
    ours *agrees* with the value expected of it. *Better* is said of the paper's own method only,
    *corrected* where the errata show that the paper's text is wrong. An experiment that tests nothing
    of the paper is *beyond the paper*.
    """

    REPRODUCED = "reproduced"
    BETTER = "better"
    CORRECTED = "corrected"
    NUMBERS_DIFFER = "statements hold, numbers differ"
    NOT_REPRODUCED = "not reproduced"
    BEYOND = "beyond the paper"
    NOT_COMPARED = "not compared"
    AGREES = "agrees"
    DIFFERS = "differs"


def mean(values: Sequence[float]) -> float:
    """Return the mean over seeds."""
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation over seeds; one seed shows none."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.hypot(*(value - centre for value in values)) / math.sqrt(len(values) - 1)


def judge(quantity: Quantity, values: Sequence[float], scale: Scale) -> tuple[Verdict, str]:
    """Compare a quantity's values over seeds with the published value; give the reason."""
    published, ours = quantity.published, mean(values)
    if published is None or math.isinf(quantity.within):
        return Verdict.NOT_COMPARED, ""
    name = "expected value" if quantity.ours else "published value"
    if scale is Scale.SMOKE:
        return Verdict.NOT_COMPARED, f"Smoke scale is too small to compare with the {name}."
    if not math.isfinite(ours):
        lost = sum(not math.isfinite(value) for value in values)
        return Verdict.DIFFERS, f"{lost} of {plural(len(values), 'seed')} diverged."

    away, deviation = abs(ours - published), spread(values)
    same = Verdict.AGREES if quantity.ours else Verdict.REPRODUCED
    if away == 0:
        return same, f"Equal to the {name}."
    if away <= quantity.within * abs(published):
        return same, f"Within {percent(quantity.within)} of the {name}."
    if deviation is not None and away <= 2 * deviation:
        return same, f"The {name} lies within two spreads of our mean."
    apart = f"{distance(ours, published)} than the {name}"
    if quantity.errata:
        return Verdict.CORRECTED, f"{apart}. {quantity.errata}"
    if not quantity.ours and quantity.better == ("lower" if ours < published else "higher"):
        return Verdict.BETTER, f"{apart}."
    seeds = "" if deviation is None else " and more than two spreads"
    return Verdict.DIFFERS, f"{apart}, beyond {percent(quantity.within)}{seeds}."


def distance(ours: float, published: float) -> str:
    """Return how far a number is from another: in per cent, or as a factor once it is large.

    >>> distance(0.147, 0.109), distance(2e-4, 0.02), distance(math.nan, 1.0)
    ('34.9% higher', '100 times lower', 'diverged')
    """
    if not math.isfinite(ours):
        return number(ours)
    side = "lower" if ours < published else "higher"
    if min(ours, published) > 0:
        ratio = max(ours / published, published / ours)
        if ratio >= 2:
            return f"{number(ratio)} times {side}"
    if published:
        return f"{percent(abs(ours - published) / abs(published))} {side}"
    return f"{number(abs(ours))} {side}"


def overall(
    rows: "Sequence[Row]",
    statements: Sequence[tuple[Statement, bool]],
    scale: Scale,
    unjudged: Sequence[str] = (),
) -> tuple[Verdict, str]:
    """Judge the paper by what is the paper's, unless there is something ``unjudged`` among that."""
    if unjudged:
        why = f"The stored run does not fit this version: {'; '.join(unjudged)}. Run it again."
        return Verdict.NOT_COMPARED, why
    claimed = [(part.text, holds) for part, holds in statements if part.of_paper]
    corrections = [part for part, holds in statements if part.corrects and holds]
    by_kind = {kind: [r for r in rows if not r.ours and r.verdict is kind] for kind in Verdict}
    if broken := [text for text, holds in claimed if not holds]:
        return Verdict.NOT_REPRODUCED, f"It does not hold that {'; nor that '.join(broken)}."
    if scale is Scale.SMOKE and (claimed or any(not row.ours for row in rows)):
        what = "Every statement of the paper holds" if claimed else "The run went through"
        why = f"{what} at smoke scale, which is too small to compare with published values."
        return Verdict.NOT_COMPARED, why
    holding = f"Every {'other ' if corrections else ''}statement of the paper holds"
    first = f"{holding}. " if claimed else ""
    if off := by_kind[Verdict.DIFFERS]:
        met = [Verdict.REPRODUCED, Verdict.BETTER, Verdict.CORRECTED]
        share = f"{len(off)} of {len(off) + sum(len(by_kind[k]) for k in met)} published values"
        verdict = Verdict.NUMBERS_DIFFER if claimed else Verdict.NOT_REPRODUCED
        return verdict, f"{first}Ours differ from {share}: {_distances(off)}."
    if wrong := [row.label for row in by_kind[Verdict.CORRECTED]] + [p.text for p in corrections]:
        return Verdict.CORRECTED, f"{first}The paper's text is corrected in: {'; '.join(wrong)}."
    if ahead := by_kind[Verdict.BETTER]:
        return Verdict.BETTER, f"{first}Better than published: {_distances(ahead)}."
    if by_kind[Verdict.REPRODUCED]:
        values = f"{holding}, and every" if claimed else "Every"
        return Verdict.REPRODUCED, f"{values} published value is met."
    if claimed:
        return Verdict.REPRODUCED, f"{holding}."
    return Verdict.BEYOND, "This goes beyond the paper and tests no claim of it."


def _distances(rows: "Sequence[Row]") -> str:
    return "; ".join(f"{row.label} ({distance(row.mean, row.published or 0.0)})" for row in rows)
