"""Two numbers for sequences of one's own: the floor of causal linear maps, the spectrum of a head.

Section 6 of Jiang and Li compares what the two architectures find hard. A linear recurrent network is
a causal linear map, so it cannot be better than the best of these on sequences it has not seen. A
transformer needs a head as large as the rank of its score. Both are measured here, on sequences held
out; neither is a verdict: a recurrent network that is not linear can be below the floor, and a head
with other functions of a token, or several heads, can do what this one cannot.

*Floor.* y(t) = o(t) + Σ_{s≤t} T(t, s) x(s) with any T, by ridge regression; the penalty minimises the
generalised cross-validation score of the training sequences. *Head.* See :mod:`.best_head`.

Folds are stretches of the order given. Standard errors come from the means of twenty stretches, so
they hold for sequences that resemble their neighbours, too. Windows of one series must not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import reals
from exactformer.errors import InputError, SizeError
from exactformer.theory.best_head import fit_head

Array = NDArray[np.float64]

FEWEST, MOST_NUMBERS = 60, 1024
"""Sequences needed, and numbers that a sequence may have."""
_FOLDS, _STRETCHES = 3, 20
_PENALTIES = 10.0 ** np.arange(-12, 3)
"""Relative to the mean eigenvalue of the normal equations."""
_LEAST_FREEDOM = 0.05
"""Fits that leave fewer degrees of freedom to the residual, relative to its number, are not trusted."""


@dataclass(frozen=True)
class HeldOut:
    """A mean squared error on sequences held out, and its standard error."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ± {self.standard_error:.1g}"


@dataclass(frozen=True, eq=False)
class SequenceLimits:
    """What causal linear maps and one attention head leave of the outputs, on sequences held out.

    ``variance`` is what the mean of the training outputs leaves, ``causal`` what the best causal linear
    map leaves, ``head`` what the best head leaves. ``singular_values`` are those of its score, and
    ``by_size`` has its error when the score is cut to rank 0, 1, 2, …; both are means over the folds.
    """

    variance: HeldOut
    causal: HeldOut
    head: HeldOut
    singular_values: Array
    by_size: Array

    def __str__(self) -> str:
        spectrum = " ".join(f"{value:.2g}" for value in self.singular_values[:6])
        sizes = " ".join(f"{value:.2g}" for value in self.by_size[:7])
        return (
            "mean squared error on sequences held out\n"
            f"  a constant per place      {self.variance}\n"
            f"  best causal linear map    {self.causal}\n"
            f"  best attention head       {self.head}\n"
            f"singular values of its score: {spectrum} …\n"
            f"error if cut to size 0, 1, …: {sizes} …"
        )


def sequence_limits(inputs: ArrayLike, outputs: ArrayLike, *, seed: int = 0) -> SequenceLimits:
    """Measure the floor of causal linear maps and the spectrum of the best head, side by side.

    ``inputs`` are (N, τ) or (N, τ, d). ``outputs`` are (N, τ), (N, τ, k), or (N,) for one number after
    the last token. A head sees tokens, not their places; where places matter, make the place one of a
    token's d numbers. ``seed`` draws the functions of a token.
    """
    x, y = _checked(inputs, outputs)
    fold = np.arange(len(x)) * _FOLDS // len(x)
    constant, causal = np.empty_like(y), np.empty_like(y)
    cuts: list[Array] = []
    spectra = []
    for turn in range(_FOLDS):
        test, check = fold == turn, fold == (turn + 1) % _FOLDS
        train = ~test
        constant[test] = y[train].mean(axis=0)
        causal[test] = causal_prediction(x[train], y[train], x[test])
        # Half of the check part trains, so that the head sees nearly as much as the linear map.
        check &= np.cumsum(check) * 2 > check.sum()
        head = fit_head((x[train & ~check], y[train & ~check]), (x[check], y[check]), seed)
        spectra.append(head.singular_values)
        sizes = range(len(spectra[-1]) + 1)
        cuts.append(np.array([_squares(head.predict(x[test], m) - y[test]) for m in sizes]))
    count = min(map(len, spectra))
    by_size = np.concatenate([cut[[*range(count), -1]] for cut in cuts], axis=1)
    return SequenceLimits(
        variance=_held_out(_squares(constant - y)),
        causal=_held_out(_squares(causal - y)),
        head=_held_out(by_size[-1]),
        singular_values=np.mean([values[:count] for values in spectra], axis=0),
        by_size=by_size.mean(axis=1),
    )


def causal_prediction(x: Array, y: Array, fresh: Array) -> Array:
    """Return what the best causal linear map from x (N, τ, d) to y (N, P, k) makes of fresh inputs."""
    centre, offset = x.mean(axis=0), y.mean(axis=0)
    x, y, fresh = x - centre, y - offset, fresh - centre
    found = np.empty((len(fresh), *y.shape[1:]))
    first = x.shape[1] - y.shape[1]
    for p in range(y.shape[1]):
        seen, asked = (part[:, : first + p + 1].reshape(len(part), -1) for part in (x, fresh))
        found[:, p] = offset[p] + asked @ ridge(seen, y[:, p])
    return found


def ridge(x: Array, y: Array) -> Array:
    """Return θ (n, k) of y ≈ x θ, the penalty of each column by generalised cross-validation.

    With xᵀx = U diag(e) Uᵀ and z = Uᵀ xᵀy the residual is Σy² − Σ (2/(e+λ) − e/(e+λ)²) z², its degrees
    of freedom are N − Σ e/(e+λ).
    """
    values, vectors = np.linalg.eigh(x.T @ x)
    values = np.maximum(values, 0.0)
    scale = values.mean() or 1.0
    z, total = vectors.T @ (x.T @ y), np.square(y).sum(axis=0)
    best, scores = np.zeros_like(z), np.full(y.shape[1], np.inf)
    for penalty in _PENALTIES * scale:
        inverse = 1 / (values + penalty)
        share = 1 - (values * inverse).sum() / len(x)
        if share < _LEAST_FREEDOM:
            continue
        residual = total - (2 * inverse - values * inverse**2) @ z**2
        score = np.maximum(residual, 0) / share**2
        better = score < scores
        scores[better] = score[better]
        best[:, better] = inverse[:, None] * z[:, better]
    return np.asarray(vectors @ best)


def _squares(error: Array) -> Array:
    """Return the mean squared error of each sequence, (N,)."""
    return np.asarray(np.square(error).mean(axis=(1, 2)))


def _held_out(squares: Array) -> HeldOut:
    means = [part.mean() for part in np.array_split(squares, _STRETCHES)]
    return HeldOut(float(squares.mean()), float(np.std(means, ddof=1) / np.sqrt(_STRETCHES)))


def _checked(inputs: ArrayLike, outputs: ArrayLike) -> tuple[Array, Array]:
    """Return inputs (N, τ, d) and outputs (N, P, k), P being τ or 1."""
    x, y = reals(inputs, "inputs"), reals(outputs, "outputs")
    if x.ndim not in (2, 3) or 0 in x.shape or x.shape[1] < 2:
        raise InputError(f"inputs have the shape {x.shape}; give (N, τ) or (N, τ, d) with τ from 2")
    if not (y.shape == x.shape[:1] or (y.ndim in (2, 3) and y.shape[:2] == x.shape[:2] and y.size)):
        raise InputError(
            f"outputs have the shape {y.shape}; for inputs {x.shape} give {x.shape[:2]}, "
            f"({len(x)}, {x.shape[1]}, k), or ({len(x)},) for one number after the last token"
        )
    for name, array in (("inputs", x), ("outputs", y)):
        if not np.isfinite(array).all() or np.abs(array).max() > 1e100:
            raise InputError(f"{name} must be finite numbers of at most 1e100")
    if len(x) < FEWEST:
        raise InputError(f"{len(x)} sequences are too few to hold some out; give {FEWEST} or more")
    if (numbers := x[0].size) > MOST_NUMBERS:
        raise SizeError(
            f"a sequence has {numbers:,} numbers, the limit is {MOST_NUMBERS:,}; give shorter ones"
        )
    return x.reshape(*x.shape[:2], -1), y.reshape(len(y), -1, 1) if y.ndim < 3 else y
