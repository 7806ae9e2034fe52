"""Our numbers against what is expected of them, and what an experiment says of the papers.

The verdict on a paper comes from the ledger of claims, which names the rows and statements that speak
to it. What the ledger does not name is ours and has no part in it.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

from exactformer import claims
from exactformer.claims import Run, Runs, Value
from exactformer.core.words import plural
from exactformer.experiments.engine.experiment import Quantity, Scale
from exactformer.experiments.engine.numbers import number, percent


class Outcome(StrEnum):
    """The outcome for a row that the papers say nothing of, or for a run that says nothing of them."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"


Word = claims.Verdict | Outcome


def mean(values: Sequence[float]) -> float:
    """Return the mean over seeds."""
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation over seeds; one seed shows none."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.hypot(*(value - centre for value in values)) / math.sqrt(len(values) - 1)


def published(experiment: str) -> dict[str, Value]:
    """Return the numbers of the papers that an experiment has rows for, by row."""
    found = [value for claim in claims.of_experiment(experiment) for value in claim.values]
    return {value.row: value for value in found if value.result == experiment}


def cited(experiment: str, statements: Sequence[str]) -> frozenset[str]:
    """Return those of the statements that a claim of a paper rests on."""
    parts = [one for claim in claims.of_experiment(experiment) for one in claim.conditions]
    beginnings = tuple(one.statement for one in parts if one.result == experiment)
    return frozenset(text for text in statements if text.startswith(beginnings))


def expected(quantity: Quantity, values: Sequence[float], scale: Scale) -> tuple[Outcome, str]:
    """Compare a quantity's values over seeds with the expected value; give the reason."""
    theory, ours = quantity.expected, mean(values)
    if theory is None:
        return Outcome.NOT_COMPARED, ""
    if scale is Scale.SMOKE:
        return Outcome.NOT_COMPARED, "Smoke scale is too small to compare with the expected value."
    if not math.isfinite(ours):
        lost = sum(not math.isfinite(value) for value in values)
        return Outcome.DIFFERS, f"{lost} of {plural(len(values), 'seed')} diverged."
    away, deviation = abs(ours - theory), spread(values)
    if away == 0:
        return Outcome.AGREES, "Equal to the expected value."
    if away <= quantity.within * abs(theory):
        return Outcome.AGREES, f"Within {percent(quantity.within)} of the expected value."
    if deviation is not None and away <= 2 * deviation:
        return Outcome.AGREES, "The expected value lies within two spreads of our mean."
    seeds = "" if deviation is None else " and more than two spreads"
    apart = f"{distance(ours, theory)} than the expected value"
    return Outcome.DIFFERS, f"{apart}, beyond {percent(quantity.within)}{seeds}."


def distance(ours: float, other: float) -> str:
    """Return how far a number is from another: in per cent, or as a factor once it is large.

    >>> distance(0.147, 0.109), distance(2e-4, 0.02), distance(math.nan, 1.0)
    ('34.9% higher', '100 times lower', 'diverged')
    """
    if not math.isfinite(ours):
        return number(ours)
    side = "lower" if ours < other else "higher"
    if min(ours, other) > 0:
        ratio = max(ours / other, other / ours)
        if ratio >= 2:
            return f"{number(ratio)} times {side}"
    if other:
        return f"{percent(abs(ours - other) / abs(other))} {side}"
    return f"{number(abs(ours))} {side}"


def overall(
    experiment: str, run: Run, unjudged: Sequence[str] = (), others: Runs = lambda name: None
) -> tuple[Word, str]:
    """Return what the claims of the papers that an experiment speaks to amount to, and why.

    Claims that rest on further experiments are judged by ``others``, too.
    """
    if unjudged:
        why = f"The stored run does not fit this version: {'; '.join(unjudged)}. Run it again."
        return Outcome.NOT_COMPARED, why
    about = claims.of_experiment(experiment)
    if not about:
        return claims.Verdict.BEYOND, "This goes beyond the paper and tests no claim of it."
    judged = [
        (claim, claims.judge(claim, lambda name: run if name == experiment else others(name)))
        for claim in about
    ]
    verdict = claims.together(one.verdict for _, one in judged)
    if run.is_smoke and verdict is not claims.Verdict.NOT_REPRODUCED:
        return Outcome.NOT_COMPARED, "A run at smoke scale is too small to judge a claim by."
    told = [(c, one) for c, one in judged if one.verdict is verdict] or judged
    why = " ".join(f"{claim.place.partition(',')[0]}: {one.why}" for claim, one in told)
    return verdict, why
