"""Memory from the time-invariant kernel κ(s): how fast it fades, how many states hold it.

*Decay.* The smallest non-increasing majorant κ*(s) = max_{r≥s} |κ(r)| falls as e^{−s/γ}; γ comes from a
line through log κ* where the kernel stands clear of its own uncertainty.

*States.* A linear RNN with n states has kernels κ(s) = c Wˢ U, whose Hankel matrix κ(i + j) has rank n.
The strongest n directions of the measured Hankel matrix give such an RNN (Ho and Kalman), for the
kernel as it is and for the kernel continued by zeros. *States needed* is the least n for which one of
them, read off the other folds, is as good on held-out sequences as the full kernel is: to 0.1 % of the
variance, or 2 % of what the full kernel leaves unexplained. On a horizon of τ tokens half as many
states as tokens reproduce almost any kernel, by growing modes that are of no use beyond it; these are
not counted (the spectral radius of W is at most 1 + 1/τ).

*Lags.* The least number of s that hold all but 0.1 % of κ's energy, or all but what its uncertainty
leaves open: to how many places a head would have to look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.learning.recommending.linear import LinearEvidence
from exactformer.learning.recommending.samples import Array, Samples
from exactformer.theory.recurrent import rnn_complexity

_MISSED = 1e-3
"""The share of the variance, or of a kernel's energy, that may be missed."""
_MISSED_PART = 0.02
"""The part of what the full kernel leaves unexplained that may be missed besides."""
_STUDENT = 2.78
"""Half the width of a 95 % interval from five folds, in standard errors."""
_TINY = 1e-300
_CLEAR = 3.0
"""Standard errors by which a value must stand out."""


@dataclass(frozen=True)
class Memory:
    """A kernel κ (τ, d, k), its standard errors, and what follows from it.

    ``decay_time`` is γ in tokens, infinite where nothing fades. ``doubt`` is Σ error² / Σ κ².
    ``complexity`` is C* of :mod:`exactformer.theory.recurrent`, of the part of the kernel that
    stands clear of its errors.
    ``hankel`` are the singular values of the kernel's Hankel matrix.
    """

    kernel: Array
    error: Array
    decay_time: float
    decay_interval: tuple[float, float]
    states: int
    lags: int
    doubt: float
    complexity: float
    hankel: Array


def memory(samples: Samples, folds: NDArray[np.int64], evidence: LinearEvidence) -> Memory:
    """Read the kernel; its errors come from leaving out one fold at a time (the jackknife)."""
    kernel = evidence.fits["time-invariant"].kernel
    by_fold = np.stack([fit.kernel for fit in evidence.fold_fits])
    count = len(by_fold)
    about = np.square(by_fold - by_fold.mean(axis=0)).sum(axis=0)
    error = np.sqrt((count - 1) / count * about)
    clear = _clear_part(kernel, error)
    doubt = float(np.square(error).sum() / max(np.square(kernel).sum(), _TINY))
    return Memory(
        kernel=kernel,
        error=error,
        decay_time=decay_time(kernel, error),
        decay_interval=_decay_interval(kernel, error, by_fold),
        states=_states_needed(samples, folds, evidence),
        lags=lags_needed(kernel, min(max(_MISSED, doubt), 0.5)),
        doubt=doubt,
        complexity=rnn_complexity(clear, ends=True).least if len(clear) else 0.0,
        hankel=np.asarray(
            np.linalg.svd(_hankel(_continued(kernel)), compute_uv=False), dtype=np.float64
        ),
    )


def decay_time(kernel: Array, error: Array) -> float:
    """Return γ of κ*(s) ≈ C e^{−s/γ}; infinite if it does not fall, 0 if one token is all."""
    majorant = _clear_part(kernel, error)
    return _time(_decay_rate(majorant), len(kernel)) if len(majorant) > 1 else 0.0


def _decay_rate(majorant: Array) -> float:
    """Return 1/γ by a line through the logarithms."""
    return -float(np.polyfit(np.arange(len(majorant)), np.log(majorant), 1)[0])


def _decay_interval(kernel: Array, error: Array, by_fold: Array) -> tuple[float, float]:
    """Return the 95 % interval of γ that the rates of the folds' kernels give (the jackknife)."""
    length = len(_clear_part(kernel, error))
    if length < 2:
        return 0.0, 0.0
    middle = _decay_rate(_majorant(kernel)[:length])
    rates = np.array([_decay_rate(np.maximum(_majorant(k)[:length], _TINY)) for k in by_fold])
    half = _STUDENT * float(np.sqrt((len(rates) - 1) * rates.var()))
    return _time(middle + half, len(kernel)), _time(middle - half, len(kernel))


def _time(rate: float, length: int) -> float:
    """Return 1/rate; infinite where ten lengths of the sequence would see no decay."""
    return 1 / rate if rate > 1 / (10 * length) else float("inf")


def _states_needed(samples: Samples, folds: NDArray[np.int64], evidence: LinearEvidence) -> int:
    """Return the least number of states that does as well as the full kernel."""
    full = np.square(evidence.predictions["time-invariant"] - samples.outputs).sum()
    total = np.square(samples.outputs - samples.outputs.mean(axis=0)).sum()
    allowed = full + max(_MISSED * total, _MISSED_PART * full)
    kernel = evidence.fits["time-invariant"].kernel
    least = int(len(kernel) * min(kernel.shape[1:]))
    for read in (lambda values: values, _continued):
        found = zip(*(realisations(read(fit.kernel)) for fit in evidence.fold_fits), strict=False)
        for n, kernels in enumerate(found, start=1):
            if n >= least:
                break
            fits = [
                fit.with_kernel(one[: len(kernel)])
                for fit, one in zip(evidence.fold_fits, kernels, strict=True)
            ]
            missed = sum(
                np.square(
                    fit.predict(samples.inputs[folds == fold]) - samples.outputs[folds == fold]
                ).sum()
                for fold, fit in enumerate(fits)
            )
            if missed <= allowed:
                least = n
    return least


def lags_needed(kernel: Array, missed: float = _MISSED) -> int:
    """Return the least number of lags that hold all but a share ``missed`` of κ's energy."""
    energy = np.sort(np.square(kernel).sum(axis=(1, 2)))[::-1]
    total = float(energy.sum())
    return int(np.searchsorted(np.cumsum(energy), (1 - missed) * total) + 1) if total else 0


def realisations(kernel: Array) -> Iterator[Array]:
    """Yield the kernels c Wˢ U of the RNNs with 1, 2, … states read off a Hankel matrix.

    Where the n states are not stable, the kernel yielded is 0.
    """
    length, d, k = kernel.shape
    shifted = _hankel(kernel[1:])
    rows, columns = shifted.shape
    left, sigma, right = np.linalg.svd(_hankel(kernel), full_matrices=False)
    for n in range(1, int((sigma > 1e-12 * sigma[0]).sum()) + 1):
        root = np.sqrt(sigma[:n])
        observe, reach = left[:, :n] * root, root[:, None] * right[:n]
        W = np.linalg.pinv(observe[:rows]) @ shifted @ np.linalg.pinv(reach[:, :columns])
        stable = np.abs(np.linalg.eigvals(W)).max() <= 1 + 1 / length
        values = np.zeros((length, d, k))
        state = reach[:, :d]
        for s in range(length if stable else 0):
            values[s] = (observe[:k] @ state).T
            state = W @ state
        yield values


def _clear_part(kernel: Array, error: Array) -> Array:
    """Return the majorant κ*(s) as far as it stands clear of the kernel's errors."""
    majorant, doubt = _majorant(kernel), _size(error)
    hidden = majorant <= np.maximum(_CLEAR * doubt, 1e-6 * majorant[0])
    return np.asarray(majorant[: int(np.argmax(hidden))] if hidden.any() else majorant)


def _majorant(kernel: Array) -> Array:
    return np.asarray(np.maximum.accumulate(_size(kernel)[::-1])[::-1])


def _size(kernel: Array) -> Array:
    return np.asarray(np.sqrt(np.square(kernel).sum(axis=(1, 2))))


def _hankel(kernel: Array) -> Array:
    """Return the matrix of blocks κ(i + j)ᵀ, i and j up to half the length."""
    length, d, k = kernel.shape
    rows = (length + 1) // 2
    columns = length + 1 - rows
    index = np.add.outer(np.arange(rows), np.arange(columns))
    return kernel[index].transpose(0, 3, 1, 2).reshape(rows * k, columns * d)


def _continued(kernel: Array) -> Array:
    return np.concatenate([kernel, np.zeros_like(kernel)])
