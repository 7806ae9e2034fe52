"""A kernel on nodes is a matrix; its singular value decomposition, and when its values have settled.

The matrix √w_i ρ(u_i, v_j) √w_j has singular values that converge to those of ρ; its singular vectors,
divided by √w, are the singular functions at the nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.theory.decomposition import Decomposition, Kernel, evaluate, is_product
from exactformer.theory.quadrature import Rule

Array = NDArray[np.float64]
Factors = tuple[Array, Array, Array]
"""U (n, r), σ (r,), V (n', r) of the weighted matrix."""


def factorise(rho: Kernel, u: Rule, v: Rule) -> Factors:
    """Return the singular value decomposition of ρ on the nodes, weighted."""
    if is_product(rho) and len(rho.sigma) < len(u):  # type: ignore[attr-defined]
        return _product_svd(rho, u, v)
    return weighted_svd(evaluate(rho, u.nodes, v.nodes), u, v)


def weighted_svd(values: Array, u: Rule, v: Rule) -> Factors:
    """Return the singular value decomposition of √w_i values_ij √w_j."""
    weighted = np.sqrt(u.weights)[:, None] * values * np.sqrt(v.weights)
    left, sigma, right = np.linalg.svd(weighted, full_matrices=False)
    return left, sigma, right.T


def _product_svd(rho: Any, u: Rule, v: Rule) -> Factors:
    """Factorise Φ diag(σ) Ψᵀ by two thin QR factorisations; the n × n' matrix is never formed."""
    q_left, r_left = np.linalg.qr(np.sqrt(u.weights)[:, None] * rho.phi(u.nodes))
    q_right, r_right = np.linalg.qr(np.sqrt(v.weights)[:, None] * rho.psi(v.nodes))
    left, sigma, right = np.linalg.svd((r_left * rho.sigma) @ r_right.T)
    return q_left @ left, sigma, q_right @ right.T


def listed(
    kernel: Kernel | None, u: Rule, v: Rule, factors: Factors, error: float
) -> Decomposition:
    """Return the terms whose σ_k exceeds the error."""
    left, sigma, right = factors
    kept = int((sigma > error).sum())
    left_values = left[:, :kept] / np.sqrt(u.weights)[:, None]
    right_values = right[:, :kept] / np.sqrt(v.weights)[:, None]
    sign = _signs(left_values)
    remainder = float(np.linalg.norm(sigma[kept:]))
    return Decomposition(
        sigma[:kept], error, remainder, kernel, u, v, left_values * sign, right_values * sign
    )


def _signs(values: Array) -> Array:
    """Return ±1 a column so that its first value of more than half the largest size is positive."""
    if not values.size:
        return np.ones(values.shape[1])
    size = np.abs(values)
    first = (size > size.max(axis=0) / 2).argmax(axis=0)
    return np.asarray(np.sign(values[first, np.arange(values.shape[1])]))


def settling_error(history: list[Array], nodes: int) -> float:
    """Return the error of the last of a sequence of doubled discretisations (see the module)."""
    largest = float(history[-1][0])
    if len(history) < 3:
        return largest
    before, last = _change(*history[-3:-1]), _change(*history[-2:])
    gain = min(max(before / max(last, 1e-300) - 1, 0.3), 3.0)
    rounding = 4 * float(np.finfo(np.float64).eps) * nodes**0.5 * largest
    return float(2 * last / gain + rounding)


def _change(coarse: Array, fine: Array) -> float:
    """Return the largest difference of two spectra; what one of them lacks counts as zero."""
    common = min(len(coarse), len(fine))
    differences = np.abs(fine[:common] - coarse[:common])
    rest = np.concatenate([coarse[common:], fine[common:]])
    return max(float(differences.max()), float(rest.max(initial=0.0)))
