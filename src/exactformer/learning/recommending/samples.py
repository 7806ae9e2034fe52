"""Input and output sequences, checked, and cut into folds that never share what they are tested on.

Inputs are (N, τ) or (N, τ, d). Outputs are one value per token, (N, τ), several, (N, τ, k), or a single
value after the last token, (N,): then the whole input is past, and causality does not restrict it.

Windows of one long series overlap. They keep their order, folds are stretches of it, and training
leaves out the windows that reach into the stretch under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.errors import InputError

Array = NDArray[np.float64]

FOLDS = 5
LARGEST = 1e100
"""Values beyond this have no squares to speak of in float64; nor have differences below its inverse."""
_DRAWS = 1000
"""Bootstrap draws."""


@dataclass(frozen=True)
class Samples:
    """Sequences: inputs (N, τ, d), and outputs (N, τ, k) or, after the last token only, (N, 1, k).

    ``reach`` is 0 for independent sequences; for windows of a series, how many windows further on
    one still shares readings with another.
    """

    inputs: Array
    outputs: Array
    reach: int = 0

    @property
    def count(self) -> int:
        """How many sequences there are."""
        return len(self.inputs)

    @property
    def length(self) -> int:
        """Tokens of a sequence, τ."""
        return int(self.inputs.shape[1])

    @property
    def last_only(self) -> bool:
        """Whether there is one output, after the last token."""
        return self.outputs.shape[1] == 1 and self.length > 1

    @property
    def independent(self) -> int:
        """How many sequences share no readings with each other."""
        return self.count // (self.reach + 1)

    def folds(self, seed: int) -> NDArray[np.int64]:
        """Return the number of the fold, from 0, in which each sequence is held out."""
        folds = np.arange(self.count) * FOLDS // self.count
        return folds if self.reach else np.random.default_rng(seed).permutation(folds)

    def training(self, held_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which sequences share nothing with those held out."""
        if not self.reach:
            return ~held_out
        width = np.ones(2 * self.reach + 1)
        touched = np.convolve(held_out, width)[self.reach : self.reach + self.count]
        return np.asarray(touched == 0)

    def groups(self) -> NDArray[np.int64]:
        """Return the groups that are drawn together: windows of a series in runs of ``reach + 1``."""
        return np.arange(self.count) // (self.reach + 1)

    def pick(self, rows: NDArray[np.bool_]) -> Samples:
        """Return some of the sequences."""
        return Samples(self.inputs[rows], self.outputs[rows], self.reach)

    @property
    def offset(self) -> Array:
        """Mean outputs (P, k)."""
        return np.asarray(self.outputs.mean(axis=0))

    @property
    def spread(self) -> Array:
        """Standard deviation (k,) of the outputs about their means; 1 where they do not vary."""
        spread = np.sqrt(np.square(self.outputs - self.offset).mean(axis=(0, 1)))
        return np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True)
class Parts:
    """Which sequences (N,) train a model, stop it, and test it: three parts that share nothing."""

    train: NDArray[np.bool_]
    check: NDArray[np.bool_]
    test: NDArray[np.bool_]

    @classmethod
    def of(cls, samples: Samples, folds: NDArray[np.int64], turn: int) -> Parts:
        """Return fold ``turn`` as test, the next as check, and of the rest what touches neither."""
        count = int(folds.max()) + 1
        test = folds == turn
        check = (folds == (turn + 1) % count) & samples.training(test)
        return cls(samples.training(test | check), check, test)

    def pick(self, samples: Samples) -> tuple[Samples, Samples, Samples]:
        """Return the three parts."""
        return samples.pick(self.train), samples.pick(self.check), samples.pick(self.test)


def samples(inputs: ArrayLike, outputs: ArrayLike, reach: int = 0) -> Samples:
    """Return checked samples."""
    x, y = _numbers(inputs, "inputs"), _numbers(outputs, "outputs")
    if x.ndim not in (2, 3) or 0 in x.shape:
        raise InputError(
            f"inputs have shape {x.shape}; give (N, τ), or (N, τ, d) for tokens of d numbers"
        )
    x = x.reshape(*x.shape[:2], -1)
    if x.shape[1] < 2:
        raise InputError("sequences of one token have no memory to speak of; give τ ≥ 2")
    fits = y.shape == x.shape[:1] or (y.ndim in (2, 3) and y.shape[:2] == x.shape[:2])
    if not fits or 0 in y.shape:
        raise InputError(
            f"outputs have shape {y.shape}; for inputs {x.shape} give (N, τ) = {x.shape[:2]}, "
            f"(N, τ, k), or (N,) for one value after the last token"
        )
    y = y.reshape(len(y), -1, 1) if y.ndim < 3 else y
    return Samples(x, y, reach)


def windows(
    series: ArrayLike,
    target: int,
    *,
    length: int = 48,
    horizon: int = 24,
    inputs: Sequence[int] | None = None,
    stride: int | None = None,
) -> Samples:
    """Cut a series (T, channels) into windows, to predict a channel from what came before.

    A window holds ``length`` readings of the channels ``inputs`` (all, if absent). With
    ``horizon`` ≥ 1 its output is the one value of channel ``target`` that comes ``horizon`` readings
    after the window's last. With ``horizon`` 0 the output is the target at every reading of the
    window, which must then not be among the inputs: a model must not read what it predicts.

    Windows begin ``stride`` readings apart; if absent, a quarter of ``length``, or half of it with
    ``horizon`` 0, where each window has many outputs.
    """
    table = _numbers(series, "the series")
    table = table.reshape(len(table), -1) if table.ndim < 3 else table
    if table.ndim != 2:
        raise InputError(f"a series is (T, channels); this has shape {table.shape}")
    channels = table.shape[1]
    sizes = (target, length, horizon, *(inputs or ()), *(() if stride is None else (stride,)))
    if not all(isinstance(size, Integral) for size in sizes):
        raise InputError("channels, length, horizon and stride of windows are whole numbers")
    chosen = list(range(channels)) if inputs is None else list(inputs)
    if inputs is None and horizon == 0:
        chosen.remove(target % channels)
    for channel in (target, *chosen):
        if not -channels <= channel < channels:
            raise InputError(f"channel {channel}: the series has {channels}, counted from 0")
    if length < 2 or horizon < 0 or (stride is not None and stride < 1):
        raise InputError("windows need length ≥ 2, horizon ≥ 0 and stride ≥ 1")
    if horizon == 0 and target % channels in [channel % channels for channel in chosen]:
        raise InputError("with horizon 0 the target cannot be among the inputs; give horizon ≥ 1")
    if not chosen:
        raise InputError("no channel is left for the inputs")
    step = max(1, length // (4 if horizon else 2)) if stride is None else stride
    starts = np.arange(0, len(table) - length - horizon + 1, step)
    if len(starts) < 2:
        raise InputError(
            f"{len(table)} readings make fewer than two windows of {length} with horizon {horizon}"
        )
    views = np.lib.stride_tricks.sliding_window_view(table, length, axis=0)[starts]
    x = np.ascontiguousarray(views[:, chosen].transpose(0, 2, 1))
    y = table[starts + length - 1 + horizon, target] if horizon else views[:, target]
    return samples(x, y, reach=-(-(length + horizon) // step) - 1)


def draws(groups: NDArray[np.int64], seed: int) -> Array:
    """Draw groups with replacement; return how often (draws, n) each member is drawn."""
    names, member = np.unique(groups, return_inverse=True)
    rng = np.random.default_rng(seed)
    often = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_DRAWS)
    return often[:, member].astype(np.float64)


def squares(values: Array) -> Array:
    """Return the sum of squares (n,) of each sequence of (n, P, k)."""
    return np.asarray(np.square(values).sum(axis=(1, 2)))


def _numbers(values: Any, name: str) -> Array:
    """Return finite real numbers; a tensor may have a gradient and live anywhere."""
    given = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        array = np.asarray(given)
        if np.iscomplexobj(array):
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of real numbers") from None
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name} hold a value that is not finite, at {place}")
    largest = np.abs(array).max(initial=0.0)
    if largest > LARGEST:
        raise InputError(
            f"{name} are as large as {largest:.0e}; scale them to at most {LARGEST:.0e}"
        )
    return array
