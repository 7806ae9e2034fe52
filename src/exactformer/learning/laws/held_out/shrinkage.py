"""Shrunk laws of one degree, all strengths at once: ridge, lasso, and the lasso refitted.

Features are the orthonormal products φ, centred; y is centred too, so the constant is not shrunk.
For one lasso strength the refit takes the terms that the lasso kept and fits them without shrinkage.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path

from exactformer.learning.laws.dictionary.columns import Array, power_columns
from exactformer.learning.laws.dictionary.terms import Terms

KINDS = ("ridge", "lasso", "refitted lasso")
STRENGTHS = 30
_WEAKEST = 1e-3
_RANK = 1e-12
# A refit needs so many observations per term.
_PER_TERM = 3


@dataclass(frozen=True)
class Centred:
    """Sums that all three kinds need: means of φ and y, sizes of φ, Gram matrix, right side.

    ``spectrum`` and ``vectors`` are the eigenvalues and eigenvectors of the Gram matrix.
    """

    size: float
    mean: Array
    y_mean: float
    scale: Array
    gram: Array
    right: Array
    spectrum: Array
    vectors: Array

    @classmethod
    def of(cls, phi: Array, y: Array, weight: Array) -> Centred:
        """Centre features (N, p) and targets (N,) and scale the features to variance one."""
        size = float(weight.sum())
        mean, y_mean = weight @ phi / size, float(weight @ y / size)
        centred = phi - mean
        scale = np.sqrt(weight @ centred**2 / size)
        scale = np.where(scale > 1e-9, scale, np.inf)  # a feature that is constant here stays out
        centred = centred / scale
        weighted = centred * weight[:, None]
        gram, right = weighted.T @ centred / size, weighted.T @ (y - y_mean) / size
        return cls(size, mean, y_mean, scale, gram, right, *eigh(gram))

    def strengths(self) -> tuple[Array, Array]:
        """Return the strengths of ridge and lasso to try, from strong to weak."""
        strongest = float(np.abs(self.right).max(initial=0.0)) or 1.0
        lasso = strongest * np.geomspace(1.0, _WEAKEST, STRENGTHS)
        return np.geomspace(1e3, 1e-6, STRENGTHS), lasso

    def candidates(self, ridge: Array, lasso: Array) -> list[tuple[Array, Array]]:
        """Return for each kind the coefficients of φ (p, strengths) and the constants (strengths,)."""
        turned = (self.vectors.T @ self.right)[:, None]
        shrunk = turned / (np.maximum(self.spectrum, 0)[:, None] + ridge)
        path = self._lasso(lasso)
        found = [self.vectors @ shrunk, path, self._refitted(path)]
        own = [scaled / self.scale[:, None] for scaled in found]
        return [(one, self.y_mean - self.mean @ one) for one in own]

    def _lasso(self, strengths: Array) -> Array:
        """Return the lasso's coefficients, from p rows that have the same sums as all N."""
        there = self.spectrum > _RANK * max(float(self.spectrum[-1]), 1e-300)
        if not there.any():  # every feature is constant here
            return np.zeros((len(there), len(strengths)))
        root = np.sqrt(self.spectrum[there])
        rows = np.asfortranarray((self.vectors[:, there] * root).T)
        y = self.vectors[:, there].T @ self.right / root
        with warnings.catch_warnings():
            # At the weakest strengths a path may stop early; held-out rows judge what it gives.
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = lasso_path(rows, y, alphas=strengths / len(y), max_iter=1000, tol=1e-3)
        return np.asarray(found[1])

    def _refitted(self, lasso: Array) -> Array:
        out = np.zeros_like(lasso)
        most = int(self.size // _PER_TERM)
        for i, column in enumerate(lasso.T):
            kept = np.flatnonzero(column)
            if i and np.array_equal(kept, np.flatnonzero(lasso[:, i - 1])):
                out[:, i] = out[:, i - 1]
            elif 0 < len(kept) <= most:
                gram = self.gram[np.ix_(kept, kept)]
                jitter = 1e-10 * np.eye(len(kept))
                out[kept, i] = cho_solve(cho_factor(gram + jitter), self.right[kept])
            elif len(kept) > most:
                out[:, i:] = np.nan  # more terms than the rows can tell apart
                break
        return out


def features(terms: Terms, X: Array, scale: Array | None) -> Array:
    """Return φ (N, p) without the constant; for a scale, plain powers of x / scale instead."""
    if scale is None:
        values = terms.columns.evaluate(X)
    else:
        values = power_columns(X.shape[1], terms.degree).evaluate(X / scale)
    return np.ascontiguousarray(terms.features(values)[1:].T)
