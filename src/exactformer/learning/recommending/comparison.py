"""Shares of variance that each model, and each family, explains on sequences it has not seen.

Families share what both can do:

    RNN            own token · time-invariant linear map · gated recurrent network
    transformer    own token · all linear maps · attention by content, by content and place, and causal
    order-blind    own token · equivariant linear map · attention by content

*Own token* is a function of the token itself, linear or not: neither architecture is needed for it.

Every sequence that is tested is predicted by models that were neither trained nor stopped on it; where
sequences are few, or windows of a series, all of them are tested, a fifth at a time. Predictions that
are not linear are kept within the range of the outputs trained on. A family predicts by the combination
of its models, none with negative weight, that is best on the other tested sequences, or by a model that
both families share where that is better: combinations fail where the stretches of a series differ.

Shares of variance are 1 − Σ|y − ŷ|² / Σ|y − ȳ|²; their uncertainty is that of drawing other sequences
(the bootstrap), windows of a series in runs that do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.recommending.gru import fit_gated
from exactformer.learning.recommending.heads import Head, HeadKind, fit_head
from exactformer.learning.recommending.linear import fit_classes, ridge
from exactformer.learning.recommending.samples import FOLDS, Array, Parts, Samples, draws, squares
from exactformer.learning.recommending.token_basis import TokenBasis
from exactformer.learning.threads import one_torch_thread

RNN, TRANSFORMER, ORDER_BLIND = "rnn", "transformer", "order-blind"
OWN_TOKEN, _CURVED, _GATED = "own token", "own token, any function", "gated network"
_POINTWISE, _EQUIVARIANT = "linear, pointwise", "linear, equivariant"
INVARIANT = "linear, time-invariant"
_CAUSAL, _ANY = "linear, causal", "linear, any"
ATTENTION: dict[HeadKind, str] = {
    "any order": "attention",
    "by place": "attention with places",
    "causal": "causal attention",
}
FAMILIES = {
    OWN_TOKEN: (_POINTWISE, _CURVED),
    RNN: (_POINTWISE, _CURVED, INVARIANT, _GATED),
    TRANSFORMER: (_POINTWISE, _CURVED, _EQUIVARIANT, INVARIANT, _CAUSAL, _ANY, *ATTENTION.values()),
    ORDER_BLIND: (_POINTWISE, _CURVED, _EQUIVARIANT, ATTENTION["any order"]),
}
SHARED = (_POINTWISE, _CURVED, INVARIANT)
_SIZES = (1, 2, 4, 8)
"""Head sizes at which the best head is tried."""
_MANY = 1500
"""With this many sequences, testing one fold of five is enough."""

_Begin = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """Squared errors (n,) of each tested sequence by model and family, and its squared deviation.

    Errors are in units of the outputs' variances. ``draws`` (draws, n) counts how often each sequence
    is drawn; ``cut`` gives the errors of the best head with its score cut to rank m.
    """

    errors: dict[str, Array]
    total: Array
    draws: Array
    head: Head
    cut: dict[int, Array]

    def share(self, name: str) -> float:
        """Return the share of the variance that a model or family explains."""
        return explained(self.errors[name], self.total)

    def drawn(self, name: str) -> Array:
        """Return that share on every draw of sequences."""
        return np.asarray(1 - self.draws @ self.errors[name] / (self.draws @ self.total))


@dataclass(frozen=True)
class _Turn:
    """Deviations from the training means, in spreads: of the outputs tested, predicted, and cut."""

    wanted: Array
    predicted: dict[str, Array]
    head: Head
    cut: dict[int, Array]


def explained(errors: Array, total: Array) -> float:
    """Return the share of the variance explained, given squared errors and squared deviations."""
    return 1 - float(errors.sum() / total.sum())


def turns_for(samples: Samples) -> int:
    """Return how many of the five folds are tested: all of a series, whose seasons differ."""
    return FOLDS if samples.reach else int(np.clip(round(_MANY / samples.count), 1, FOLDS))


def compare(samples: Samples, folds: NDArray[np.int64], seed: int, begin: _Begin) -> Comparison:
    """Fit every model without some folds, and measure it on these."""
    count = turns_for(samples)
    every = [Parts.of(samples, folds, turn) for turn in range(count)]
    with one_torch_thread(0):
        turns = [_turn(samples, parts, seed, begin) for parts in every]
    wanted = np.concatenate([turn.wanted for turn in turns])
    models = turns[0].predicted
    predicted = {name: np.concatenate([turn.predicted[name] for turn in turns]) for name in models}
    errors = {name: squares(values - wanted) for name, values in predicted.items()}
    for family, members in FAMILIES.items():
        together = _combined([predicted[name] for name in members], wanted)
        choices = [squares(together - wanted), *(errors[m] for m in members if m in SHARED)]
        errors[family] = min(choices, key=np.sum)
    groups = np.concatenate([samples.groups()[parts.test] for parts in every])
    cut = {m: np.concatenate([squares(t.cut[m] - t.wanted) for t in turns]) for m in _SIZES}
    return Comparison(errors, squares(wanted), draws(groups, seed), turns[0].head, cut)


def _turn(samples: Samples, parts: Parts, seed: int, begin: _Begin) -> _Turn:
    train, check, test = parts.pick(samples)
    begin("linear maps")
    found: dict[str, Array] = {
        f"linear, {name}": fit.predict(test.inputs) for name, fit in fit_classes(train).items()
    }
    basis = TokenBasis.of(train.inputs, seed)
    found[_CURVED] = _own_token(basis, train, test)
    heads = {}
    for kind, name in ATTENTION.items():
        begin(name)
        heads[name] = fit_head(kind, basis, train, check)
        found[name] = heads[name].predict(test.inputs)
    begin(_GATED)
    found[_GATED] = fit_gated(train, check, seed)(test.inputs)
    head = heads[min(heads, key=lambda name: float(squares(found[name] - test.outputs).sum()))]
    cut = {m: head.predict(test.inputs, m) for m in _SIZES}
    low, high = train.outputs.min(axis=(0, 1)), train.outputs.max(axis=(0, 1))

    def scaled(values: Array, name: str = "") -> Array:
        kept = values if name.startswith("linear") else np.clip(values, low, high)
        return np.asarray((kept - train.offset) / train.spread)

    return _Turn(
        wanted=np.asarray((test.outputs - train.offset) / train.spread),
        predicted={name: scaled(values, name) for name, values in found.items()},
        head=head,
        cut={m: scaled(values) for m, values in cut.items()},
    )


def _own_token(basis: TokenBasis, train: Samples, test: Samples) -> Array:
    """Predict by a function of the token itself, the same at every place."""
    outputs = train.outputs.shape[1]
    b = basis(train.inputs[:, -outputs:]).reshape(-1, basis.size)
    y = (train.outputs - train.offset).reshape(len(b), -1)
    weights = ridge(b.T @ b, b.T @ y, np.square(y).sum(axis=0), len(b))
    return np.asarray(basis(test.inputs[:, -outputs:]) @ weights + train.offset)


def _combined(members: list[Array], wanted: Array) -> Array:
    """Return, for each fifth of the sequences, the combination that is best on the others."""
    from scipy.optimize import nnls

    fifths = np.arange(len(wanted)) * FOLDS // len(wanted)
    stacked = np.stack(members, axis=-1)
    combined = np.empty_like(wanted)
    for fifth in np.unique(fifths):
        others = fifths != fifth
        columns = stacked[others].reshape(-1, len(members))
        weights, _ = nnls(columns, wanted[others].ravel())
        combined[~others] = stacked[~others] @ weights
    return combined
