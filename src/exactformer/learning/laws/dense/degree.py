"""The choice of a degree: leave-one-out errors of all degrees from one factorisation and one pass.

With the terms in graded order, the leading part of the Cholesky factor L of the Gram matrix is the
factor of every lower degree. The whitened features z = L⁻¹φ(x) then give, as running sums over the
degrees, both the fitted value Σ z_j c_j and the leverage h = Σ z_j²; leaving row i out turns its
residual r_i into r_i / (1 − h_i).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm

from exactformer.learning.laws.dense.least_squares import cholesky
from exactformer.learning.laws.dictionary.columns import Array
from exactformer.learning.laws.dictionary.design import Design
from exactformer.learning.laws.dictionary.terms import Terms

_ROWS = 1024


def choose_degree(design: Design, gram: Array, right: Array) -> int:
    """Return the degree with the least leave-one-out error, or a lower one as good as it.

    "As good" means that the mean difference of squared errors is within its own standard error.
    Degrees that the data do not determine are out of the running.
    """
    sample = design.sample
    mean = sample.mean(sample.Y)
    units: Array = np.maximum(sample.weight @ (sample.Y - mean) ** 2, np.finfo(float).tiny)
    errors = np.square(leave_one_out(design, gram, right)) @ (1 / units)
    best = int(np.argmin(errors @ sample.weight))
    for degree in range(best):
        excess = errors[degree] - errors[best]
        average = excess @ sample.weight / sample.size
        spread = np.sqrt(np.square(excess - average) @ sample.weight) / sample.size
        if average <= spread:
            return degree
    return best


def leave_one_out(design: Design, gram: Array, right: Array) -> Array:
    """Return the residuals of rows left out (degrees, N, outputs), for degrees the data determine."""
    terms, sample = design.terms, design.sample
    order = np.argsort(terms.total, kind="stable")
    full = gram + np.tril(gram, -1).T
    factor, undetermined = cholesky(np.asfortranarray(full[np.ix_(order, order)]))
    parts = _determined(terms, len(terms) if undetermined is None else undetermined)
    last = parts[-1].stop
    factor, order = factor[:last, :last], order[:last]
    loads: Array = solve_triangular(factor, right[order], lower=True)
    left_out = np.empty((len(parts), *sample.Y.shape))
    for start in range(0, len(sample.X), _ROWS):
        rows = slice(start, start + _ROWS)
        # From the right, so that rows of features need not become columns.
        white = dtrsm(1.0, factor, design.rows(rows)[order].T, side=1, lower=1, trans_a=1).T
        leverage = np.cumsum([np.square(white[part]).sum(axis=0) for part in parts], axis=0)
        for output, load in enumerate(loads.T):
            fitted = np.cumsum([load[part] @ white[part] for part in parts], axis=0)
            residual = sample.Y[rows, output] - fitted
            left_out[:, rows, output] = residual / np.maximum(1 - leverage, 1e-12)
    return left_out


def _determined(terms: Terms, able: int) -> list[slice]:
    """Return the places of each degree's terms, for the degrees that lie before ``able``."""
    ends = np.cumsum(np.bincount(terms.total, minlength=terms.degree + 1)).tolist()
    parts = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    return [part for part in parts if part.stop <= able]
