"""Ours against print: reproduced, better, or not reproduced, and why."""

import math
from collections.abc import Sequence
from enum import StrEnum

from exactformer.experiments.engine.experiment import Quantity, Scale


class Verdict(StrEnum):
    """What came of a comparison with the paper."""

    REPRODUCED = "reproduced"
    BETTER = "better"
    NOT_REPRODUCED = "not reproduced"
    NOT_COMPARED = "not compared"


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
    """Compare a quantity's values over seeds with what was printed; say why in one sentence."""
    verdict, why = _compare(quantity, values, scale)
    return verdict, f"{why} {quantity.note}".strip()


def _compare(quantity: Quantity, values: Sequence[float], scale: Scale) -> tuple[Verdict, str]:
    printed, ours = quantity.printed, mean(values)
    if printed is None:
        return Verdict.NOT_COMPARED, ""
    if scale is Scale.SMOKE:
        return Verdict.NOT_COMPARED, "Smoke scale is too small to be held against print."
    if not math.isfinite(ours):
        lost = sum(not math.isfinite(value) for value in values)
        return Verdict.NOT_REPRODUCED, f"{lost} of {len(values)} seeds diverged."

    away = abs(ours - printed)
    if away <= quantity.within * abs(printed):
        return Verdict.REPRODUCED, f"Within {quantity.within:.0%} of print."
    deviation = spread(values)
    if deviation is not None and away <= 2 * deviation:
        return Verdict.REPRODUCED, "Print lies within two spreads of our mean."
    side = "lower" if ours < printed else "higher"
    distance = f"{_times(ours, printed)} {side} than print"
    if side == quantity.better:
        return Verdict.BETTER, f"{distance}."
    seeds = "" if deviation is None else " and more than two spreads"
    return Verdict.NOT_REPRODUCED, f"{distance}, beyond {quantity.within:.0%}{seeds}."


def _times(ours: float, printed: float) -> str:
    """Return the distance as a percentage, or as a factor once it is large.

    >>> _times(0.147, 0.109), _times(2e-4, 0.02)
    ('35%', '100 times')
    """
    if ours * printed > 0:
        ratio = max(ours / printed, printed / ours)
        if ratio >= 2:
            return f"{ratio:.3g} times"
    if printed:
        return f"{abs(ours - printed) / abs(printed):.0%}"
    return f"{abs(ours):.3g}"


def overall(
    verdicts: dict[str, Verdict], broken: Sequence[str], held: int, scale: Scale
) -> tuple[Verdict, str]:
    """Judge a whole experiment by its rows' verdicts and by which statements are broken."""
    if broken:
        return Verdict.NOT_REPRODUCED, f"It does not hold that {'; nor that '.join(broken)}."
    if scale is Scale.SMOKE:
        what = "Every statement of the claim holds" if held else "The run went through"
        return Verdict.NOT_COMPARED, f"{what} at smoke scale, which is not held against print."
    by_kind = {kind: [label for label, v in verdicts.items() if v is kind] for kind in Verdict}
    if missed := by_kind[Verdict.NOT_REPRODUCED]:
        met = len(by_kind[Verdict.REPRODUCED]) + len(by_kind[Verdict.BETTER])
        claim = "Every statement of the claim holds, and " if held else ""
        share = f"{met} of {met + len(missed)} printed figures are met or bettered"
        why = f"{claim}{share}; off print: {'; '.join(missed)}."
        return Verdict.NOT_REPRODUCED, why[0].upper() + why[1:]
    if ahead := by_kind[Verdict.BETTER]:
        return Verdict.BETTER, f"Ahead of print: {'; '.join(ahead)}."
    if by_kind[Verdict.REPRODUCED]:
        return Verdict.REPRODUCED, "Every printed figure is met."
    if held:
        return Verdict.REPRODUCED, "Every statement of the claim holds."
    return Verdict.NOT_COMPARED, "The paper prints no figure for it."
