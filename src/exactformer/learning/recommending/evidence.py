"""Named numbers, each with the interval it lies in: what a recommendation rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from exactformer.couplings.target import Coupling
from exactformer.learning.recommending.comparison import (
    ATTENTION,
    FAMILIES,
    ORDER_BLIND,
    OWN_TOKEN,
    RNN,
    TRANSFORMER,
    Comparison,
    explained,
)
from exactformer.learning.recommending.decision import clearly_better
from exactformer.learning.recommending.linear import LinearEvidence
from exactformer.learning.recommending.memory import Memory
from exactformer.learning.recommending.samples import Array, Samples, draws, squares
from exactformer.targets.linear import LinearTarget

_ENERGY = 0.99
"""The share of a score's energy by which its rank is counted."""


@dataclass(frozen=True)
class Evidence:
    """A number, its 95 % interval, and what it means.

    Where a number is a count or known exactly, both ends are the number itself.
    """

    name: str
    value: float
    low: float
    high: float
    meaning: str

    def __str__(self) -> str:
        """Return the number with its interval."""
        if self.low == self.value == self.high:
            return _short(self.value)
        return f"{_short(self.value)} [{_short(self.low)}, {_short(self.high)}]"


def exactly(name: str, value: float, meaning: str) -> Evidence:
    """Return a number without uncertainty."""
    return Evidence(name, float(value), float(value), float(value), meaning)


def gather(
    samples: Samples, linear: LinearEvidence, memory: Memory, comparison: Comparison
) -> Iterator[Evidence]:
    """Yield what was measured, the most important first."""
    yield exactly("sequences", samples.independent, "sequences that share no readings")
    yield from _shares(comparison)
    if not samples.last_only:
        yield from _future(samples, linear, comparison)
    yield _difference(
        "order", comparison, TRANSFORMER, ORDER_BLIND, "what knowing the tokens' places adds"
    )
    yield from _memory(memory)
    yield exactly("mixing", _mixing(linear), "tokens that a linear output mixes, effectively")
    yield from _spectrum(comparison)


def known(relationship: Any) -> tuple[tuple[Evidence, ...], Array | None]:
    """Return exact evidence on a linear target or a scalar coupling, and a coupling's spectrum."""
    if isinstance(relationship, LinearTarget):
        return _known_linear(relationship), None
    if isinstance(relationship, Coupling) and relationship.dim is None:
        return _known_coupling(relationship)
    return (), None


def _known_linear(target: LinearTarget) -> tuple[Evidence, ...]:
    """Return what :mod:`exactformer.theory.floors` leave open, for inputs uniform on [0, 1]."""
    from exactformer.theory.floors import UNIFORM_VARIANCE, causal_floor

    total = UNIFORM_VARIANCE * float(np.square(target.matrix).sum()) / target.tau
    if not total:
        return ()
    causal, invariant = (
        1 - causal_floor(target.matrix, time_invariant=fixed, offset="free").error / total
        for fixed in (False, True)
    )
    return (
        exactly("exact, causal", causal, "share of the variance open to causal models of any kind"),
        exactly("exact, time-invariant", invariant, "share of the variance open to linear RNNs"),
    )


def _known_coupling(target: Coupling) -> tuple[tuple[Evidence, ...], Array]:
    from exactformer.theory import pod

    values = pod(target.rho, target.intervals, measure="probability").singular_values
    meaning = "singular values of the coupling itself with 99 % of its energy"
    return (exactly("exact score rank", energy_rank(values), meaning),), values


def _shares(comparison: Comparison) -> Iterator[Evidence]:
    for name in (TRANSFORMER, RNN, OWN_TOKEN, *(n for n in comparison.errors if n not in FAMILIES)):
        yield _interval(
            f"explained: {name}",
            comparison.share(name),
            comparison.drawn(name),
            "share of the held-out variance" + (", all its models" if name in FAMILIES else ""),
        )


def _future(samples: Samples, linear: LinearEvidence, comparison: Comparison) -> Iterator[Evidence]:
    meaning = "what {} gains by reading later tokens, which no RNN can"
    y = samples.outputs
    gain = squares(linear.predictions["causal"] - y) - squares(linear.predictions["any"] - y)
    total, often = squares(y - samples.offset), draws(samples.groups(), 0)
    share, drawn = float(gain.sum() / total.sum()), np.asarray(often @ gain / (often @ total))
    yield _interval("future, linear", share, drawn, meaning.format("a linear map"))
    whole, causal = ATTENTION["any order"], ATTENTION["causal"]
    yield _difference("future, by content", comparison, whole, causal, meaning.format("attention"))


def _memory(memory: Memory) -> Iterator[Evidence]:
    low, high = memory.decay_interval
    yield Evidence(
        "decay time", memory.decay_time, low, high, "γ of the kernel's envelope e^(−s/γ), in tokens"
    )
    yield exactly("states", memory.states, "states of a linear RNN as good as the full kernel")
    yield exactly("lags", memory.lags, "lags that hold the kernel's energy")
    yield exactly(
        "complexity", memory.complexity, "C* of the kernel: inf over β of β sup e^(s/β)|κ|"
    )


def _mixing(linear: LinearEvidence) -> float:
    """Return (Σ_s T²)² / Σ_s T⁴ of the best linear map, averaged over outputs by their energy."""
    energy = np.square(linear.fits["any"].operator).sum(axis=(1, 3))
    square, fourth = energy.sum(axis=0) ** 2, np.square(energy).sum(axis=0)
    weights = energy.sum(axis=0)
    if not weights.sum():
        return 0.0
    each = np.divide(square, fourth, out=np.zeros_like(square), where=fourth > 0)
    return float(each @ weights / weights.sum())


def _spectrum(comparison: Comparison) -> Iterator[Evidence]:
    from exactformer.theory import fit_decay

    values = comparison.head.singular_values()
    yield exactly(
        "score rank", energy_rank(values), "singular values of the score with 99 % of its energy"
    )
    line = fit_decay(values).power if values.any() else None
    if line is not None:
        meaning = "exponent α of the score's singular values, σ_k ≈ c·k^(−α)"
        yield Evidence("score decay", line.rate, *line.interval, meaning)
    yield exactly("head size", _head_size(comparison), "size of a head as good as the full score")


def energy_rank(singular_values: Array) -> int:
    """Return how many singular values hold 99 % of the energy; 0 where there is none."""
    energy = np.cumsum(np.square(singular_values))
    found = len(energy) and energy[-1]
    return int(np.searchsorted(energy, _ENERGY * energy[-1]) + 1) if found else 0


def _head_size(comparison: Comparison) -> int:
    """Return the least size tried that is not clearly worse than the head with its full score."""
    full = comparison.share(ATTENTION[comparison.head.kind])
    good = [
        m
        for m, errors in comparison.cut.items()
        if not clearly_better(full, explained(errors, comparison.total))
    ]
    return min(good, default=comparison.head.score.shape[1])


def _difference(name: str, comparison: Comparison, more: str, less: str, meaning: str) -> Evidence:
    gain = comparison.share(more) - comparison.share(less)
    return _interval(name, gain, comparison.drawn(more) - comparison.drawn(less), meaning)


def _interval(name: str, value: float, drawn: Array, meaning: str) -> Evidence:
    low, high = np.percentile(drawn, (2.5, 97.5)).tolist()
    return Evidence(name, value, low, high, meaning)


def _short(value: float) -> str:
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    return (f"{value:.0f}" if value == round(value) else f"{value:.4g}").replace("-", "−")
