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
_BOTH = "On held-out sequences transformers explain {transformer} of the variance, RNNs {rnn}"
_LINEAR = f"{_BOTH}: both do it, and so does a time-invariant linear map"
_REASONS: dict[Reason, str] = {
    "few sequences": (
        f"There are {{sequences}} independent sequences; below {FEWEST_SEQUENCES} no held-out "
        "comparison can be trusted. Give more."
    ),
    "noise": f"{_BOTH}: too little of it to tell what kind of relationship there is.",
    "no memory": (
        f"The {{token}} token explains {{own_token}} by itself; o{_BOTH[1:]}. No memory is needed: a "
        "feed-forward network does."
    ),
    "transformer better": f"{_BOTH}.",
    "rnn better": f"{_BOTH}.",
    "unsure": f"{_BOTH}; other held-out sequences could well have turned the answer round.",
    "both": f"{_BOTH}: both do it, and it is not linear, so that no count of states decides.",
    "unclear memory": f"{_LINEAR}, but its kernel is too uncertain to count the states it takes.",
    "short memory": f"{_LINEAR}. A linear RNN holds it in {{states}}, which is cheap.",
    "far places": (
        f"{_LINEAR}. A linear RNN holds it in no fewer than {{states}}, while a head need look at "
        "{places} only."
    ),
    "long memory": (
        f"{_LINEAR}. A linear RNN holds it in {{states}}; a head would have to look at {{places}}."
    ),
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
    counts = {name: int(numbers[name].value) for name in ("sequences", "states", "lags")}
    return _REASONS[reason].format(
        transformer=_share(numbers, "transformer"),
        rnn=_share(numbers, "rnn"),
        own_token=_share(numbers, "own token"),
        token="last" if last_only else "own",
        sequences=counts["sequences"],
        states=plural(counts["states"], "state"),
        places=plural(counts["lags"], "place"),
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
    words = f"Knowing the tokens' places adds {_percents(order)} of the variance: order {words}."
    if last_only:
        return f"Ordering: everything is past when the output comes. {words}"
    future = max(
        (numbers["future, linear"], numbers["future, by content"]), key=lambda one: one.value
    )
    if future.low > 0 and future.value >= _NOTICEABLE:
        worth = f"{_percents(future)} of the variance"
        first = f"Outputs depend on later tokens, worth {worth}: lost to every RNN."
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
    return _percents(numbers[f"explained: {name}"])


def _percents(one: Evidence) -> str:
    return f"{_percent(one.value)} [{_percent(one.low)}, {_percent(one.high)}]"


def _percent(share: float) -> str:
    digits = 1 if abs(share) < 0.995 or share > 1 else 2
    return f"{100 * share:.{digits}f} %".replace("-", "−").replace("100.00 %", "100 %")
