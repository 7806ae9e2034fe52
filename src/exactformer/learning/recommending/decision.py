"""The rule: from what both families explain on held-out sequences to a verdict.

    1. Fewer than 40 independent sequences: undecided.
    2. Neither family explains 5 % of the variance: undecided.
    3. A function of the own token explains as much as the better family: undecided, no memory needed.
    4. One family is clearly better: that family.
    5. Both are as good, and a time-invariant linear map explains as much as they do:
         it takes at most 8 or τ/4 states                         → RNN, the cheaper one
         more, and its kernel is not known well                   → undecided
         more, but at most a quarter as many lags                 → transformer: few places, far back
         else                                                     → undecided: a long, dense memory
    6. Both are as good on something nonlinear: undecided.

*Clearly better* means by at least 0.5 % of the variance and by at least 5 % of what the worse one
leaves unexplained; *as much* means not clearly worse. A kernel is known well if its squared errors are
at most a tenth of its energy. The rule is applied to every bootstrap draw of the tested sequences; a
verdict that fewer than 90 % of the draws agree with becomes undecided.

Case 5 is where theory must speak: both families can do it. A long lag ℓ is no limit to an RNN, a shift
register does it, but that takes ℓ states, while a head need look at one place. A kernel that is long
and dense costs both of them about τ numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from exactformer.learning.recommending.comparison import (
    INVARIANT,
    OWN_TOKEN,
    RNN,
    TRANSFORMER,
    Comparison,
)
from exactformer.learning.recommending.memory import Memory
from exactformer.learning.recommending.samples import Samples

Verdict = Literal["transformer", "rnn", "undecided"]
Reason = Literal[
    "few sequences", "noise", "no memory", "transformer better", "rnn better", "short memory",
    "far places", "long memory", "unclear memory", "both", "unsure",
]  # fmt: skip

FEWEST_SEQUENCES = 40
_LEAST_EXPLAINED = 0.05
_LEAST_GAIN, _LEAST_PART = 0.005, 0.05
_FEW_STATES, _FEW_STATES_SHARE = 8, 0.25
_MOST_DOUBT = 0.1
_AGREEMENT = 0.9

_VERDICTS: dict[Reason, Verdict] = {
    "transformer better": "transformer",
    "far places": "transformer",
    "rnn better": "rnn",
    "short memory": "rnn",
}


@dataclass(frozen=True)
class Decision:
    """A verdict, its reason, and the share of draws that came to each verdict."""

    verdict: Verdict
    reason: Reason
    shares: dict[Verdict, float]

    @property
    def confidence(self) -> float:
        """The share of draws that agree; for undecided, that do not agree on anything else."""
        if self.verdict != "undecided":
            return self.shares[self.verdict]
        return 1 - max(self.shares["transformer"], self.shares["rnn"])


def decide(samples: Samples, comparison: Comparison, memory: Memory) -> Decision:
    """Apply the rule to the test sequences and to every draw of them."""
    if samples.independent < FEWEST_SEQUENCES:
        return Decision(
            "undecided", "few sequences", {"transformer": 0.0, "rnn": 0.0, "undecided": 1.0}
        )
    names = (TRANSFORMER, RNN, INVARIANT, OWN_TOKEN)
    linear = linear_reason(memory)
    reason = explained_reason(linear, *(comparison.share(name) for name in names))
    drawn = [
        _VERDICTS.get(explained_reason(linear, *shares), "undecided")
        for shares in np.stack([comparison.drawn(name) for name in names], axis=1).tolist()
    ]
    verdicts: tuple[Verdict, ...] = ("transformer", "rnn", "undecided")
    found = {verdict: drawn.count(verdict) / len(drawn) for verdict in verdicts}
    verdict = _VERDICTS.get(reason, "undecided")
    if verdict != "undecided" and found[verdict] < _AGREEMENT:
        return Decision("undecided", "unsure", found)
    return Decision(verdict, reason, found)


def explained_reason(
    linear: Reason, transformer: float, rnn: float, invariant: float, own_token: float
) -> Reason:
    """Return which case of the rule holds, given shares of variance and the answer to case 5."""
    best = max(transformer, rnn)
    if best < _LEAST_EXPLAINED:
        return "noise"
    if not clearly_better(best, own_token):
        return "no memory"
    if clearly_better(transformer, rnn):
        return "transformer better"
    if clearly_better(rnn, transformer):
        return "rnn better"
    return "both" if clearly_better(best, invariant) else linear


def linear_reason(memory: Memory) -> Reason:
    """Return which case holds where a time-invariant linear map explains everything."""
    length, d, k = memory.kernel.shape
    if memory.states <= max(_FEW_STATES, _FEW_STATES_SHARE * length * min(d, k)):
        return "short memory"
    if memory.doubt > _MOST_DOUBT:
        return "unclear memory"
    return "far places" if 4 * memory.lags <= memory.states else "long memory"


def clearly_better(one: float, other: float) -> bool:
    """Return whether one share of variance explained is clearly above another."""
    gain = one - other
    return gain >= _LEAST_GAIN and gain >= _LEAST_PART * (1 - other)
