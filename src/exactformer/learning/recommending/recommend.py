"""``recommend_architecture``: transformer or RNN, for a user's own sequences or for a target.

Section 6 of Jiang and Li compares the two: RNNs suffer from a change of order that makes the
relationship look ahead, and from memory that does not fade; transformers from mixing, which raises the
rank of the score. All of that can be measured: the linear part by nested least squares
(:mod:`.linear`), memory from its kernel (:mod:`.memory`), the coupling and its spectrum by an attention
head in a basis (:mod:`.heads`), nonlinear recurrence by a gated network (:mod:`.gru`). The comparison
is made on sequences held out (:mod:`.comparison`), and one rule decides (:mod:`.decision`).
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.errors import InputError
from exactformer.learning.recommending.comparison import ATTENTION, compare, explained, turns_for
from exactformer.learning.recommending.decision import Reason, Verdict, decide
from exactformer.learning.recommending.description import describe
from exactformer.learning.recommending.evidence import Evidence, gather, known
from exactformer.learning.recommending.linear import cross_validate
from exactformer.learning.recommending.memory import memory
from exactformer.learning.recommending.samples import (
    FOLDS,
    LARGEST,
    Array,
    Parts,
    Samples,
    samples,
)
from exactformer.learning.threads import one_blas_thread
from exactformer.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN = 2000
"""Sequences drawn from a target."""
_WIDTH = 100


@dataclass(frozen=True, eq=False)
class Recommendation:
    """Whether a transformer or an RNN suits a relationship between sequences, and why.

    ``confidence`` is the share of bootstrap draws of the held-out sequences in which the rule comes to
    the same verdict; for "undecided", in which it comes to no other one. ``shares`` has all three.
    """

    verdict: Verdict
    confidence: float
    reason: Reason
    shares: dict[Verdict, float]
    evidence: tuple[Evidence, ...]
    text: str
    kernel: Array = field(repr=False)
    """κ(s) (τ, d, k) of the best time-invariant linear map."""
    kernel_error: Array = field(repr=False)
    hankel: Array = field(repr=False)
    """Singular values of the kernel's Hankel matrix: what each further state is worth."""
    singular_values: Array = field(repr=False)
    """Those of the learnt score; of the coupling itself where it was given."""
    by_head_size: dict[int, float] = field(repr=False)
    """Share of the variance explained with the score cut to a head of each size."""

    def __getitem__(self, name: str) -> Evidence:
        """Return the evidence of a name."""
        for one in self.evidence:
            if one.name == name:
                return one
        raise InputError(
            f"there is no evidence {name!r}; there is {', '.join(e.name for e in self.evidence)}"
        )

    def __str__(self) -> str:
        """Return the words and, below them, the numbers."""
        words = [fill(line, _WIDTH) for line in self.text.splitlines()]
        name, number = (
            max(len(text(one)) for one in self.evidence) for text in (attrgetter("name"), str)
        )
        rows = [f"  {one.name:{name}}  {one!s:{number}}  {one.meaning}" for one in self.evidence]
        return "\n".join([*words, "", *rows])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        arrays = ("kernel", "kernel_error", "hankel", "singular_values")
        return {
            **asdict(self),
            **{name: getattr(self, name).tolist() for name in arrays},
            "evidence": [asdict(one) for one in self.evidence],
            "by_head_size": {str(m): share for m, share in self.by_head_size.items()},
        }

    def plot(self) -> Figure:
        """Draw memory kernel, spectrum, and what each model explains."""
        from exactformer.learning.recommending.drawing import draw

        return draw(self)


def recommend_architecture(
    relationship: Any, outputs: Any = None, *, count: int = _DRAWN, seed: int = 0
) -> Recommendation:
    """Decide whether a transformer or an RNN suits a relationship between sequences.

    ``relationship`` is one of

    * input sequences (N, τ) or (N, τ, d), with ``outputs`` (N, τ), (N, τ, k), or (N,) for one value
      after the last token;
    * windows cut from a series by :func:`windows`;
    * a target, that is anything with ``sample(count, seed)`` that can be called on what it samples:
      ``count`` sequences are drawn from it.

    It takes some seconds; a terminal shows a bar.
    """
    data = _samples(relationship, outputs, count, seed)
    if data.count < FOLDS:
        raise InputError(f"{data.count} sequences cannot be cut into {FOLDS} folds; give more")
    for values, name, end in (
        (data.outputs, "outputs", "there is nothing to explain"),
        (data.inputs, "inputs", "they explain nothing"),
    ):
        if np.ptp(values, axis=0).max() <= 1 / LARGEST:
            raise InputError(f"the {name} are the same for all sequences: {end}")
    folds = data.folds(seed)
    every = [Parts.of(data, folds, turn) for turn in range(FOLDS)]
    if not all(parts.train.any() and parts.check.any() for parts in every):
        raise InputError(
            f"{data.count} windows, each of which shares readings with {data.reach} on either side, "
            "leave none to train on that share nothing with those held out; give a longer series, or "
            "shorter windows"
        )
    steps, begun = turns_for(data) * (2 + len(ATTENTION)), itertools.count()
    with progress("fitting models", steps) as update, one_blas_thread():
        linear = cross_validate(data, folds)
        remembered = memory(data, folds, linear)
        comparison = compare(data, folds, seed, lambda model: update(next(begun), model))
    decision = decide(data, comparison, remembered)
    exact, spectrum = known(relationship)
    evidence = (*gather(data, linear, remembered, comparison), *exact)
    return Recommendation(
        verdict=decision.verdict,
        confidence=decision.confidence,
        reason=decision.reason,
        shares=decision.shares,
        evidence=evidence,
        text=describe(decision, evidence, data.last_only),
        kernel=remembered.kernel,
        kernel_error=remembered.error,
        hankel=remembered.hankel,
        singular_values=comparison.head.singular_values() if spectrum is None else spectrum,
        by_head_size={m: explained(e, comparison.total) for m, e in comparison.cut.items()},
    )


def _samples(relationship: Any, outputs: Any, count: int, seed: int) -> Samples:
    if isinstance(relationship, Samples):
        return relationship
    if callable(relationship) and hasattr(relationship, "sample"):
        inputs = relationship.sample(count, seed)
        return samples(inputs, relationship(inputs))
    if outputs is None:
        raise InputError(
            "give input and output sequences, windows(series, ...), or a target with .sample()"
        )
    return samples(relationship, outputs)
