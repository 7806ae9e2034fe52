"""A decision and its evidence in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite

from exactformer.core.words import plural
from exactformer.learning.recommending.decision import FEWEST_SEQUENCES, Decision, Reason, Verdict
from exactformer.learning.recommending.evidence import Evidence

_HEADLINES = {
    "transformer": "A transformer suits this relationship",
    "rnn": "An RNN suits this relationship",
    "undecided": "Undecided between transformer and RNN",
}
_NOTICEABLE, _SIZEABLE = 0.005, 0.03
"""Shares of the variance. Places also tell a head its own token, which is worth something by itself."""

_Numbers = Mapping[str, Evidence]


def describe(decision: Decision, evidence: tuple[Evidence, ...], last_only: bool) -> str:
    """Return the answer, the reasons, and how sure it is, as paragraphs."""
    numbers = {e.name: e for e in evidence}
    head = headline(decision.verdict, decision.reason, decision.confidence) + "."
    reasons = [
        _because(decision.reason, numbers, last_only),
        *_details(decision, numbers, last_only),
    ]
    return "\n".join([head, "", *reasons, "", _uncertainty(decision, numbers)])


def headline(verdict: Verdict, reason: Reason, confidence: float) -> str:
    """Return the answer in a line; too few sequences give no ground for confidence in anything."""
    sure = "" if reason == "few sequences" else f" (confidence {_percent(confidence)})"
    return _HEADLINES[verdict] + sure


def _because(reason: Reason, numbers: _Numbers, last_only: bool) -> str:
    both = (
        f"On held-out sequences transformers explain {_share(numbers, 'transformer')} of the "
        f"variance, RNNs {_share(numbers, 'rnn')}"
    )
    if reason == "few sequences":
        count = int(numbers["sequences"].value)
        return (
            f"There are {count} independent sequences; below {FEWEST_SEQUENCES} no held-out "
            "comparison can be trusted. Give more."
        )
    if reason == "noise":
        return f"{both}: too little of it to tell what kind of relationship there is."
    if reason == "no memory":
        own = _share(numbers, "own token")
        return (
            f"The {'last' if last_only else 'own'} token explains {own} by itself; {both[:1].lower()}"
            f"{both[1:]}. No memory is needed: a feed-forward network does."
        )
    if reason in ("transformer better", "rnn better"):
        return f"{both}."
    if reason == "unsure":
        return f"{both}; other held-out sequences could well have turned the answer round."
    if reason == "both":
        return f"{both}: both do it, and it is not linear, so that no count of states decides."
    states, lags = int(numbers["states"].value), int(numbers["lags"].value)
    same = f"{both}: both do it, and so does a time-invariant linear map. A linear RNN holds it in"
    if reason == "unclear memory":
        return (
            f"{both}: both do it, and so does a time-invariant linear map, but its kernel is too "
            "uncertain to count the states it takes."
        )
    if reason == "short memory":
        return f"{same} {plural(states, 'state')}, which is cheap."
    if reason == "far places":
        return (
            f"{same} no fewer than {plural(states, 'state')}, while a head need look at "
            f"{plural(lags, 'place')} only."
        )
    return (
        f"{same} {plural(states, 'state')}; a head would have to look at {plural(lags, 'place')}."
    )


def _details(decision: Decision, numbers: _Numbers, last_only: bool) -> Iterator[str]:
    if decision.reason in ("few sequences", "noise", "no memory"):
        return
    yield _ordering(numbers, last_only)
    yield _memory(numbers)
    if decision.verdict != "rnn":
        yield _coupling(numbers)


def _ordering(numbers: _Numbers, last_only: bool) -> str:
    order = numbers["order"]
    if order.low <= 0 or order.value < _NOTICEABLE:
        words = "does not matter as far as can be seen (permutation equivariance)"
    else:
        words = "matters" if order.value >= _SIZEABLE else "matters little, if at all"
    words = f"Knowing the tokens' places adds {_points(order)}: order {words}."
    if last_only:
        return f"Ordering: everything is past when the output comes. {words}"
    future = max(
        (numbers["future, linear"], numbers["future, by content"]), key=lambda one: one.value
    )
    if future.low > 0 and future.value >= _NOTICEABLE:
        first = f"Outputs depend on later tokens, worth {_points(future)}: lost to every RNN."
    else:
        first = "Later tokens add nothing: the relationship is causal as far as can be seen."
    return f"Ordering: {first} {words}"


def _memory(numbers: _Numbers) -> str:
    decay, mixing = numbers["decay time"], numbers["mixing"].value
    linear = _share(numbers, "linear, time-invariant")
    if not isfinite(decay.value):
        fades = "does not fade within the sequences"
    elif decay.value == 0:
        fades = "is too weak to follow beyond one token"
    else:
        fades = f"fades as e^(−s/γ), γ = {decay} tokens"
    return (
        f"Memory: a time-invariant linear map explains {linear}; its kernel {fades}. Mixing: a linear "
        f"output weighs about {mixing:.1f} tokens together."
    )


def _coupling(numbers: _Numbers) -> str:
    rank, size = int(numbers["score rank"].value), int(numbers["head size"].value)
    spectrum = numbers.get("exact score rank")
    exact = f" (exactly: {int(spectrum.value)})" if spectrum else ""
    return (
        f"Coupling: a head of size {size} does as well as the full score that was learnt, which has "
        f"{plural(rank, 'singular value')} to speak of{exact}."
    )


def _uncertainty(decision: Decision, numbers: _Numbers) -> str:
    if decision.reason == "few sequences":
        return "No confidence is claimed for what is not decided."
    shares = ", ".join(f"{name} {_percent(share)}" for name, share in decision.shares.items())
    return (
        f"Uncertainty: over draws of other held-out sequences the rule says {shares}. That counts the "
        "chance in the sequences, not that of training or of relationships outside these families."
    )


def _share(numbers: _Numbers, name: str) -> str:
    one = numbers[f"explained: {name}"]
    return f"{_percent(one.value)} [{_percent(one.low)}, {_percent(one.high)}]"


def _points(one: Evidence) -> str:
    return f"{_percent(one.value)} [{_percent(one.low)}, {_percent(one.high)}] of the variance"


def _percent(share: float) -> str:
    digits = 1 if abs(share) < 0.995 or share > 1 else 2
    return f"{100 * share:.{digits}f} %".replace("-", "−").replace("100.00 %", "100 %")
