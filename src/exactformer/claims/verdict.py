"""The verdict on a claim, derived from its evidence and from nothing else.

A published number is met if ours is within one standard error of our mean and two units of the last
digit the paper prints; the papers give no spread of their own. An exponent is met if it lies in our
95 % interval. Where our own standard error (or half-width) is more than half of the published number,
agreement is no evidence: such a comparison is *inconclusive*. These thresholds are the same for every
number, and ours.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from exactformer.claims.records import Claim, Condition, Run, Runs, Value


class Verdict(StrEnum):
    """What came of a claim, the strongest word last to first as :func:`together` weighs them."""

    REPRODUCED = "reproduced"
    SUBSTITUTES = "holds on substitutes"
    INCONCLUSIVE = "inconclusive"
    NUMBERS_DIFFER = "numbers differ"
    CORRECTED = "corrected"
    NOT_REPRODUCED = "not reproduced"
    BEYOND = "beyond the paper"
    NOT_TRIED = "not tried"


MEANINGS: dict[str, str] = {
    Verdict.REPRODUCED: "Built, proven, tested or measured here, and found as the paper says.",
    Verdict.SUBSTITUTES: "Found as the paper says, with other models, data or inputs, which are named.",
    Verdict.INCONCLUSIVE: "Our spread is too large to tell.",
    Verdict.NUMBERS_DIFFER: "What is claimed in words holds; published numbers and ours differ.",
    Verdict.CORRECTED: "It does not hold as printed; a correction is given, and a test runs the "
    "counterexample.",
    Verdict.NOT_REPRODUCED: "We tried, and part of the claim did not hold.",
    Verdict.BEYOND: "Ours, beyond the paper: it says nothing for or against the authors.",
    Verdict.NOT_TRIED: "Nothing here speaks for it or against it; the reason is given.",
}
"""What each verdict means, in the order of legends."""


@dataclass(frozen=True)
class Judgement:
    """A verdict with its reason."""

    verdict: Verdict
    why: str


def judge(claim: Claim, runs: Runs) -> Judgement:
    """Return what the evidence for ``claim`` says of it."""
    if claim.beyond:
        return Judgement(Verdict.BEYOND, "The paper does not claim this.")
    found = {name: runs(name) for name in claim.experiments}
    if wrong := [one.title for one in claim.errata if one.weight == "wrong"]:
        return Judgement(Verdict.CORRECTED, f"Corrected: {_and(wrong)}.")
    if failed := [one.statement for one in claim.conditions if _holds(found, one) is False]:
        return Judgement(Verdict.NOT_REPRODUCED, f"It does not hold that {_and(failed)}.")
    if not (claim.tests or claim.lemmas or claim.conditions or claim.values):
        return Judgement(Verdict.NOT_TRIED, claim.not_tried)
    if missing := [name for name, run in found.items() if run is None or run.is_smoke]:
        return Judgement(Verdict.NOT_TRIED, f"No full run of {_and(missing)} is stored.")
    if silent := [one.statement for one in claim.conditions if _holds(found, one) is None]:
        return Judgement(Verdict.NOT_TRIED, f"The stored run does not test that {_and(silent)}.")
    return _of_values(claim, found)


def _of_values(claim: Claim, found: dict[str, Run | None]) -> Judgement:
    compared = [(value, *compare(value, found[value.result])) for value in claim.values]
    by_kind = {
        kind: [f"{value.row} ({why})" for value, verdict, why in compared if verdict is kind]
        for kind in Verdict
    }
    for kind in (Verdict.NOT_REPRODUCED, Verdict.NUMBERS_DIFFER, Verdict.INCONCLUSIVE):
        if by_kind[kind]:
            return Judgement(kind, f"{'; '.join(by_kind[kind])}.")
    tried = [one for one in compared if one[1] is not Verdict.NOT_TRIED]
    if claim.values and not tried and not (claim.tests or claim.lemmas or claim.conditions):
        return Judgement(Verdict.NOT_TRIED, by_kind[Verdict.NOT_TRIED][0])
    if claim.substitutes:
        return Judgement(Verdict.SUBSTITUTES, f"With {claim.substitutes}.")
    return Judgement(Verdict.REPRODUCED, _evidence(claim, len(tried)))


def compare(value: Value, run: Run | None) -> tuple[Verdict, str]:
    """Return what ours says of a published number, and why."""
    if value.incomparable:
        return Verdict.NOT_TRIED, value.incomparable
    values = run.rows.get(value.row) if run else None
    if run is None or run.scale != "full" or not values:
        return Verdict.NOT_TRIED, "no full run of it is stored"
    mean, published = sum(values) / len(values), value.number
    if not all(map(math.isfinite, values)):
        return Verdict.NUMBERS_DIFFER, "a run of ours diverged"
    if value.interval:
        (half,) = run.rows[value.interval]
        width, allowed, name = half, half, "95 % interval"
    else:
        width, name = _standard_error(values), "standard error"
        allowed = width + 2 * value.last_digit
    if abs(mean - published) > allowed:
        kind = Verdict.NOT_REPRODUCED if value.interval else Verdict.NUMBERS_DIFFER
        return kind, f"{mean:.3g} ± {width:.2g}, published {value.published}"
    if width > abs(published) / 2 and published:
        return Verdict.INCONCLUSIVE, f"{mean:.3g} ± {width:.2g} cannot tell {value.published}"
    return Verdict.REPRODUCED, f"{value.published} lies within our {name} of {mean:.3g}"


def _standard_error(values: Sequence[float]) -> float:
    """Return that of the mean; one run shows none."""
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return math.hypot(*(v - mean for v in values)) / math.sqrt(len(values) * (len(values) - 1))


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Return what several claims amount to: the worst of what was found, of what was tried."""
    tried = [one for one in verdicts if one not in (Verdict.BEYOND, Verdict.NOT_TRIED)]
    order = list(Verdict)
    return max(tried, key=order.index, default=Verdict.BEYOND)


def _holds(found: dict[str, Run | None], condition: Condition) -> bool | None:
    """Return whether the stored run says that a statement holds; nothing where it does not say."""
    run = found[condition.result]
    text = run.statement(condition.statement) if run else None
    return run.statements[text] if run and text is not None else None


def _evidence(claim: Claim, values: int) -> str:
    parts = [
        f"proven for every model that is built, by {_listed(claim.lemmas)} of the trusted base"
        if claim.lemmas
        else "",
        "shown by our tests" if claim.tests else "",
        f"{_count(len(claim.conditions), 'statement')} met in stored runs"
        if claim.conditions
        else "",
        f"{_count(values, 'published number')} met" if values else "",
    ]
    told = "; ".join(part for part in parts if part)
    return f"{told[:1].upper()}{told[1:]}."


def _and(parts: Sequence[str]) -> str:
    return "; ".join(parts)


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
