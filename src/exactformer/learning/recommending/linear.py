"""The linear part of a relationship, by nested classes of y(t) = Σ_s T(t, s) x(s).

    pointwise        T(t, t) alone, the same at every t        no memory
    equivariant      T(t, s) = a at s = t, b elsewhere         order does not matter
    time-invariant   T(t, s) = κ(t − s) for s ≤ t              what a linear RNN can do
    causal           any T(t, s) for s ≤ t                     time may matter
    any              any T(t, s)                               the future may be read

A linear RNN with enough states does exactly the time-invariant maps (appendix D.1), and no RNN, linear
or not, reads the future. What *any* explains beyond *causal* on sequences that were held out is
therefore lost to every RNN; what *causal* explains beyond *time-invariant* is lost to linear ones.

All five are ridge regressions, and all normal equations are sums of blocks of the one matrix Σ x xᵀ.
The penalty minimises the generalised cross-validation score of each output. Offsets are free at every
position in every class: means over sequences are no memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.recommending.samples import FOLDS, Array, Samples

LinearClass = Literal["pointwise", "equivariant", "time-invariant", "causal", "any"]
_CLASSES: tuple[LinearClass, ...] = get_args(LinearClass)

_PENALTIES = 10.0 ** np.arange(-12, 3)
"""Relative to the mean eigenvalue of the normal equations."""
_LEAST_FREEDOM = 0.05
"""Fits that leave fewer degrees of freedom to the residual, relative to its number, are not trusted."""


@dataclass(frozen=True)
class LinearFit:
    """A map ``operator`` (τ, d, P, k) about means ``centre`` (τ, d) and ``offset`` (P, k)."""

    operator: Array
    centre: Array
    offset: Array

    def predict(self, inputs: Array) -> Array:
        """Return outputs (N, P, k)."""
        return self.offset + np.tensordot(inputs - self.centre, self.operator, axes=2)

    @property
    def kernel(self) -> Array:
        """κ(s) (τ, d, k): how the last output depends on the token s before it."""
        kernel: Array = self.operator[::-1, :, -1]
        return kernel

    def with_kernel(self, kernel: Array) -> LinearFit:
        """Return the time-invariant map of another kernel about the same means."""
        return LinearFit(_convolution(kernel, self.operator.shape[2]), self.centre, self.offset)


@dataclass(frozen=True)
class LinearEvidence:
    """Held-out predictions (N, P, k) of each class, fits to all, and time-invariant fits by fold."""

    predictions: dict[LinearClass, Array]
    fits: dict[LinearClass, LinearFit]
    fold_fits: tuple[LinearFit, ...]


def cross_validate(samples: Samples, folds: NDArray[np.int64]) -> LinearEvidence:
    """Fit every class on all folds but one, in turn, and predict that one."""
    predictions = {name: np.empty_like(samples.outputs) for name in _CLASSES}
    fold_fits = []
    for fold in range(FOLDS):
        held_out = folds == fold
        fits = fit_classes(samples.pick(samples.training(held_out)))
        for name, fit in fits.items():
            predictions[name][held_out] = fit.predict(samples.inputs[held_out])
        fold_fits.append(fits["time-invariant"])
    whole = fit_classes(samples.pick(np.ones(samples.count, dtype=bool)))
    return LinearEvidence(predictions, whole, tuple(fold_fits))


def fit_classes(samples: Samples) -> dict[LinearClass, LinearFit]:
    """Fit all classes to sequences."""
    centre, offset = samples.inputs.mean(axis=0), samples.offset
    moments = _Moments.of(samples.inputs - centre, samples.outputs - offset, samples.last_only)
    operators = {name: getattr(moments, name.replace("-", "_"))() for name in _CLASSES}
    return {name: LinearFit(operator, centre, offset) for name, operator in operators.items()}


@dataclass(frozen=True)
class _Moments:
    """Σ x xᵀ (τ, d, τ, d), Σ x yᵀ (τ, d, P, k) and Σ y² (P, k) of ``count`` centred sequences."""

    xx: Array
    xy: Array
    yy: Array
    count: int
    ends: list[int]
    """The token after which each of the P outputs stands."""

    @classmethod
    def of(cls, x: Array, y: Array, last_only: bool) -> _Moments:
        count, length, _ = x.shape
        ends = [length - 1] if last_only else list(range(length))
        xx, xy = np.tensordot(x, x, axes=(0, 0)), np.tensordot(x, y, axes=(0, 0))
        return cls(xx, xy, np.square(y).sum(axis=0), count, ends)

    def time_invariant(self) -> Array:
        """Sum the equations over time: Σ_t x(t−s) x(t−r)ᵀ κ(r) = Σ_t x(t−s) y(t)."""
        normal, right = np.zeros_like(self.xx), np.zeros_like(self.xy[:, :, 0])
        for p, t in enumerate(self.ends):
            normal[: t + 1, :, : t + 1] += self.xx[t::-1, :, t::-1]
            right[: t + 1] += self.xy[t::-1, :, p]
        return _convolution(self._pooled(normal, right), len(self.ends))

    def pointwise(self) -> Array:
        return self._spread(self._pooled(*self._own()))

    def equivariant(self) -> Array:
        """Fit y(t) = a x(t) + b Σ_s x(s)."""
        own_normal, own_right = self._own()
        others = self.xx.sum(axis=2)
        d = len(own_right)
        normal = np.zeros((2, d, 2, d))
        normal[0, :, 0] = own_normal
        normal[1, :, 0] = sum(self.xx[:, :, t].sum(axis=0) for t in self.ends)
        normal[0, :, 1] = normal[1, :, 0].T
        normal[1, :, 1] = len(self.ends) * others.sum(axis=0)
        right = np.stack([own_right, self.xy.sum(axis=(0, 2))])
        a, b = self._pooled(normal, right)
        return np.asarray(self._spread(a) + b[None, :, None, :])

    def causal(self) -> Array:
        operator = np.zeros_like(self.xy)
        for p, t in enumerate(self.ends):
            part = slice(t + 1)
            operator[part, :, p] = self._solve(
                self.xx[part, :, part], self.xy[part, :, p], self.yy[p], self.count
            )
        return operator

    def any(self) -> Array:
        return self._solve(self.xx, self.xy, self.yy, self.count)

    def _own(self) -> tuple[Array, Array]:
        normal = sum(self.xx[t, :, t] for t in self.ends)
        right = sum(self.xy[t, :, p] for p, t in enumerate(self.ends))
        return np.asarray(normal), np.asarray(right)

    def _spread(self, own: Array) -> Array:
        operator = np.zeros_like(self.xy)
        for p, t in enumerate(self.ends):
            operator[t, :, p] = own
        return operator

    def _pooled(self, normal: Array, right: Array) -> Array:
        return self._solve(normal, right, self.yy.sum(axis=0), self.count * len(self.ends))

    @staticmethod
    def _solve(normal: Array, right: Array, total: Array, count: int) -> Array:
        size = int(np.sqrt(normal.size))
        solution = ridge(normal.reshape(size, size), right.reshape(size, -1), total.ravel(), count)
        return solution.reshape(right.shape)


def _convolution(kernel: Array, outputs: int) -> Array:
    """Return T(t, s) = κ(t − s), as (τ, d, P, k), for the last P = ``outputs`` of the τ tokens."""
    length, d, k = kernel.shape
    operator = np.zeros((length, d, outputs, k))
    for p in range(outputs):
        t = length - outputs + p
        operator[: t + 1, :, p] = kernel[t::-1]
    return operator


def ridge(normal: Array, right: Array, total: Array, count: int) -> Array:
    """Solve (G + λ) θ = b, with λ for each column by generalised cross-validation.

    With G = U diag(e) Uᵀ and z = Uᵀ b the residual is Σy² − Σ (2/(e+λ) − e/(e+λ)²) z², its degrees of
    freedom are Σ e/(e+λ).
    """
    values, vectors = np.linalg.eigh(normal)
    values = np.maximum(values, 0.0)
    scale = values.mean() or 1.0
    z = vectors.T @ right
    best, scores = np.zeros_like(z), np.full(len(total), np.inf)
    for penalty in _PENALTIES * scale:
        inverse = 1 / (values + penalty)
        share = 1 - (values * inverse).sum() / count
        if share < _LEAST_FREEDOM:
            continue
        residual = total - (2 * inverse - values * inverse**2) @ z**2
        score = np.maximum(residual, 0) / share**2
        better = score < scores
        scores[better] = score[better]
        best[:, better] = inverse[:, None] * z[:, better]
    return np.asarray(vectors @ best)
