"""Ridge powers in polynomial coordinates: given directions ξ_k, what Σ β[k, s] (ξ_k · x)^s can be.

    (ξ · x)^s = Σ_{|α| = s} (s! / α!) ξ^α x^α

so both multiplying a trained model out and least squares for given directions are linear algebra on
coefficients; the data are met only through the Gram matrix of the orthonormal products.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from exactformer.errors import InputError
from exactformer.learning.laws.dictionary.change_of_basis import to_products_sparse
from exactformer.learning.laws.dictionary.columns import Array, power_columns
from exactformer.learning.laws.dictionary.terms import Exponents, Terms, build_terms

_RANK = 1e-11


@dataclass(frozen=True)
class RidgeSolution:
    """Least squares within the span of given directions: φ-coefficients, β (n, q) and b."""

    coordinates: Array
    beta: Array
    b: float


def unit_directions(count: int, dimension: int, generator: np.random.Generator) -> Array:
    """Return ``count`` directions, uniform on the unit sphere."""
    drawn = generator.normal(size=(count, dimension))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def paper_width(dimension: int, degree: int) -> int:
    """Return C(d + q + 1, q), the number of directions of the paper's experiments (10 and 4368)."""
    return comb(dimension + degree + 1, degree)


def multiply_out(F: Array, beta: Array, b: float) -> dict[Exponents, float]:
    """Return b + Σ_k Σ_s β[k, s] (F_k · x)^s as {α: coefficient of x^α}."""
    terms = build_terms(power_columns(F.shape[1], beta.shape[1]), beta.shape[1])
    weights = np.column_stack([np.zeros(len(beta)), beta])
    total = np.zeros(len(terms))
    for rows, features in terms.blocks(F):
        total += np.einsum("pk,kp->p", features, weights[rows][:, terms.total])
    total *= _multinomials(terms)
    total[0] += b
    return dict(zip(terms.all_exponents(), total.tolist(), strict=True))


def _multinomials(terms: Terms) -> Array:
    """Return |α|!/α! for every term: the parent's, times C(|α|, k) for the last factor."""
    out = np.ones(len(terms))
    for _, power, start, stop in terms.groups:
        choose = np.array([comb(int(n), power) for n in range(terms.degree + 1)], dtype=float)
        out[start:stop] = out[terms.parent[start:stop]] * choose[terms.total[start:stop]]
    return out


def _ridge_coordinates(directions: Array, terms: Terms) -> list[Array]:
    """Return for s = 1 … q the φ-coefficients (n, p) of (ξ_k · x)^s."""
    columns = terms.columns
    if (columns.degree < terms.degree).any():
        column = int(np.argmin(columns.degree))
        raise InputError(
            f"column {column} has {columns.degree[column] + 1} distinct values, too few for powers "
            f"of degree {terms.degree} along given directions; use directions='auto'"
        )
    powers = terms.features(power_columns(columns.count, terms.degree).evaluate(directions))
    powers *= _multinomials(terms)[:, None]
    change = to_products_sparse(terms.all_exponents(), columns)
    return [
        np.asarray((change[:, terms.total == s] @ powers[terms.total == s]).T)
        for s in range(1, terms.degree + 1)
    ]


def solve_directions(
    directions: Array, terms: Terms, gram: Array, right: Array
) -> list[RidgeSolution]:
    """Solve least squares within span{1, (ξ_k · x)^s}, with β of least norm, for every output."""
    rows = _ridge_coordinates(directions, terms)
    constant = np.zeros((1, len(terms)))
    constant[0, 0] = 1.0
    # Ridge powers of size one, so that β of least norm weighs all degrees alike.
    sizes = [np.linalg.norm(r, axis=1, keepdims=True) for r in rows]
    stack = np.concatenate([constant, *(r / s for r, s in zip(rows, sizes, strict=True))])
    spectrum, vectors = eigh(stack.T @ stack)
    span = spectrum > _RANK * spectrum[-1]
    basis, spectrum = vectors[:, span], spectrum[span]
    inner = basis.T @ (np.tril(gram) + np.tril(gram, -1).T) @ basis
    solved = np.linalg.solve(inner, basis.T @ right)
    width, degree = len(directions), terms.degree
    solutions = []
    for a in solved.T:
        weights = stack @ (basis @ (a / spectrum))
        beta = weights[1:].reshape(degree, width).T / np.column_stack(sizes)
        solutions.append(RidgeSolution(basis @ a, beta, float(weights[0])))
    return solutions


def checked_directions(directions: NDArray[np.float64], dimension: int) -> Array:
    """Return directions as an array (n, d), or say what is wrong with them."""
    array = np.asarray(directions, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != dimension or len(array) == 0:
        raise InputError(
            f"directions must have shape (n, {dimension}), one row each; the shape is {array.shape}"
        )
    if not np.isfinite(array).all() or not np.abs(array).sum(axis=1).all():
        raise InputError("directions must be finite and none of them zero")
    return array
