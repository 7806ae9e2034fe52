"""Linear relationships y = T x between sequences of numbers, and the kernels of appendices C and D.

Equation (75) has H_t(x) = Σ_{s ≤ t} ρ(s) x(t − s): the input filtered by ρ, the past only, and the same
filter at all times. Written as a matrix for the τ values of a sequence,

        ρ(0)
    T = ρ(1) ρ(0)                  lower triangular: *causal*
        ρ(2) ρ(1) ρ(0)             constant along diagonals (Toeplitz): *time-invariant*

so a kernel is a special matrix. Reordering or mixing the inputs (:mod:`exactformer.targets.temporal`)
keeps a target linear but may cost it either property.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import as_array, like, namespace, reals
from exactformer.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearTarget:
    """The relationship y = T x; ``weights`` is the kernel (τ,) or the matrix T (τ, τ).

    Call it on NumPy arrays or torch tensors (…, τ); the answer is of the same kind.
    """

    weights: Array = field(repr=False)
    name: str = "linear"

    def __init__(self, weights: ArrayLike, name: str = "linear") -> None:
        array = reals(weights, "the weights of a linear target")
        square = array.ndim == 2 and array.shape[0] == array.shape[1]
        if not (array.ndim == 1 or square) or array.size == 0:
            raise InputError(
                f"a linear target is a kernel (tau,) or a matrix (tau, tau), not {array.shape}"
            )
        if not np.isfinite(array).all():
            raise InputError("the weights of a linear target must be finite")
        array.flags.writeable = False
        object.__setattr__(self, "weights", array)
        object.__setattr__(self, "name", name)

    @property
    def tau(self) -> int:
        """The length of the sequences."""
        return len(self.weights)

    @cached_property
    def matrix(self) -> Array:
        """T, with y = T x."""
        return self.weights if self.weights.ndim == 2 else toeplitz(self.weights)

    @cached_property
    def kernel(self) -> Array | None:
        """ρ(0), …, ρ(τ−1), or None if the relationship is not causal and time-invariant."""
        if self.weights.ndim == 1:
            return self.weights
        first = self.weights[:, 0]
        return first if np.array_equal(toeplitz(first), self.weights) else None

    @property
    def is_causal(self) -> bool:
        """Whether no output depends on a later input."""
        return self.weights.ndim == 1 or not np.triu(self.weights, 1).any()

    @property
    def is_time_invariant(self) -> bool:
        """Whether one kernel serves all times: what a linear RNN can be, equation (75)."""
        return self.kernel is not None

    def __call__(self, x: Any) -> Any:
        """Return T x for the sequences along the last axis."""
        x = as_array(x)
        if x.ndim == 0 or x.shape[-1] != self.tau:
            raise InputError(
                f"this target takes sequences (…, {self.tau}), not of shape {tuple(x.shape)}"
            )
        return along_time(self.matrix, x)

    def sample(self, count: int, seed: int = 0) -> Array:
        """Return ``count`` input sequences, uniform on [0, 1]."""
        return np.random.default_rng(seed).random((count, self.tau))


def toeplitz(kernel: ArrayLike) -> Array:
    """Return the lower triangular matrix with ``kernel`` as its first column, constant on diagonals."""
    kernel = np.asarray(kernel, dtype=np.float64)
    lag = np.subtract.outer(np.arange(len(kernel)), np.arange(len(kernel)))
    return np.where(lag >= 0, kernel[np.maximum(lag, 0)], 0.0)


def along_time(matrix: Array, x: Any, axis: int = -1) -> Any:
    """Return ``matrix`` applied along the time axis of ``x``: a NumPy array or a torch tensor."""
    weights = like(matrix.T, x)
    if namespace(x) is np:
        return np.moveaxis(np.moveaxis(x, axis, -1) @ weights, -1, axis)
    return (x.movedim(axis, -1) @ weights).movedim(-1, axis)


def exponential_kernel(tau: int, rate: float = 1.0) -> Array:
    """Return ρ(s) = e^(−rate·s), s < τ: the kernel of table 2."""
    return np.asarray(np.exp(-rate * np.arange(_length(tau))))


def random_kernel(tau: int, seed: int = 0) -> Array:
    """Return ρ(s) drawn uniformly from [0, 1], s < τ: a kernel as in table 3."""
    return np.random.default_rng(seed).random(_length(tau))


def _length(tau: int) -> int:
    if tau < 1:
        raise InputError(f"a kernel has at least one value, not {tau}")
    return tau
