"""Whether a new run agrees with the stored one.

A row drifts when its means differ by more than three standard errors of that difference, plus the
row's own relative allowance (1e-6 unless the experiment says otherwise):

    |m - m'| > 3 sqrt(s²/n + s'²/n') + drift·max(|m|, |m'|)

with spread s over n seeds. One seed has no spread, so a single-seed row is held to its allowance.
A row that diverges in one run and not in the other drifts; so does one that has come or gone.
"""

import math

from exactformer.errors import DriftError
from exactformer.experiments.engine.result import Result
from exactformer.experiments.engine.summary import Row


def check(stored: Result, new: Result) -> None:
    """Raise :class:`DriftError`, naming every row that drifted, unless the results agree."""
    before = {row.label: row for row in stored.summary.rows}
    after = {row.label: row for row in new.summary.rows}
    lines = [f"{label}: only in the stored run" for label in before.keys() - after.keys()]
    lines += [f"{label}: only in the new run" for label in after.keys() - before.keys()]
    for label in before.keys() & after.keys():
        was, now = before[label], after[label]
        if not agree(was, now):
            lines.append(
                f"{label}: stored {was.mean:.6g}, now {now.mean:.6g}, "
                f"allowed ±{allowance(was, now):.2g}"
            )
    if lines:
        name = new.experiment.name
        raise DriftError(
            f"{name} has drifted from its stored result in {len(lines)} of "
            f"{len(before.keys() | after.keys())} rows:\n  " + "\n  ".join(sorted(lines))
        )


def agree(was: Row, now: Row) -> bool:
    """Whether two runs of one row differ by no more than chance allows."""
    if math.isinf(now.drift):
        return True
    if not (math.isfinite(was.mean) and math.isfinite(now.mean)):
        return repr(was.mean) == repr(now.mean)
    return abs(was.mean - now.mean) <= allowance(was, now)


def allowance(was: Row, now: Row) -> float:
    """Return the largest difference of the means that still counts as agreement."""
    variance = sum((row.spread or 0.0) ** 2 / len(row.values) for row in (was, now))
    return 3 * math.sqrt(variance) + now.drift * max(abs(was.mean), abs(now.mean))
