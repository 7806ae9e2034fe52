"""Fused forms and Horner's schemes through the compiled kernels, where numba is installed.

Importing this loads no numba; the first evaluation does. What the kernels need to know about tensors
is checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exactformer.core.matrix import Matrix
from exactformer.core.weights import dense
from exactformer.polynomials.run.closed_form import RUN, TILE, Basis
from exactformer.polynomials.run.horner_plan import Action, Scheme

_BYTES, _FEWEST, _MOST = 3 * 2**14, 64, 512  # of a block's rows; its points
_WORTH_THREADS = 2**22  # multiply-adds: about a millisecond


Surface = tuple[int, NDArray[np.float64]]
"""The boundary of a domain: 1 for a ball, 2 for a box, 0 for none; and rows with its centre, with what
rounding took from the centre, and with the inverses of the largest |x_j − c_j|.
"""

CLEAR = 1 + 2.0**-34
"""A point no farther from the centre than this, or this squared, is clearly inside: proofs cover
1 + 2⁻³², and distances, computed in float64, err by a few units in the last place.
"""


@cache
def is_installed() -> bool:
    """Whether there is a compiler; it is not loaded."""
    return find_spec("numba") is not None


@cache
def kernels() -> Any:
    """Return the compiled functions, or None where numba is missing, unusable or switched off."""
    if not is_installed():
        return None
    try:
        import numba
    except ImportError:  # does not know this NumPy or Python yet
        return None
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined,unused-ignore]
        return None
    try:
        from exactformer.polynomials.run import compiled
    except RuntimeError:  # there is no place where compiled code could be kept
        return None
    return compiled


class CompiledTerms:
    """Points ``(N, d)`` to values ``(m, N)`` by a scheme; weights are the exact ones, rounded once."""

    def __init__(self, scheme: Scheme, dtype: torch.dtype) -> None:
        self.scheme, self.dtype, self.outputs = scheme, dtype, scheme.outputs
        self.rows, self.cost = scheme.rows, scheme.cost
        self.block = _block(scheme.dimension + scheme.rows, dtype)
        self.centre = _rounded(scheme.centre, dtype)
        self.constants = _rounded([step.constant for step in scheme.steps], dtype)
        leaves = [leaf for step in scheme.steps for leaf in step.leaves]
        # The kernel reads four at a time, whether or not there are so many.
        self.weights = np.append(_rounded([c for _, c in leaves], dtype), [0] * 4).astype(
            self.constants.dtype
        )
        self.places = np.array([j * self.block for j, _ in leaves] + [0] * 4, dtype=np.int64)
        code, first = [], 0
        for step in scheme.steps:
            place = step.variable * (1 if step.action is Action.OUT else self.block)
            code.append((step.action, step.level * self.block, place, first, len(step.leaves)))
            first += len(step.leaves)
        self.code = np.array(code, dtype=np.int64)

    def __call__(
        self, x: Tensor, dtype: torch.dtype, surface: Surface | None = None
    ) -> Tensor | None:
        """Evaluate points of the weights' format or a narrower one; round to ``dtype``.

        Values are one output after the other, in one row. None is returned unless all points are
        clearly inside the surface. Where the kernels cannot be had after all, torch takes the steps.
        """
        points = x if x.dtype is self.dtype else x.to(self.dtype)
        if kernels() is None:
            return None if surface is not None else self.stepwise(x, dtype).reshape(-1)
        values = _run(
            kernels().terms,
            points,
            self.outputs,
            self.cost,
            surface,
            self.block,
            self.rows,
            self.centre,
            self.code,
            self.constants,
            self.places,
            self.weights,
        )
        return values if values is None or self.dtype is dtype else values.to(dtype)

    def stepwise(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Evaluate by torch, one step after the other in the same order, ``(m, N)``.

        Every product and sum is rounded by itself, as in the kernels. Points may be batched by vmap,
        differentiated, or of a class of their own.
        """
        y = x.to(self.dtype)
        y = (y - torch.from_numpy(self.centre) if len(self.centre) else y).T
        rows: dict[int, Tensor] = {}
        values: list[Tensor] = []
        first = 0
        for step, constant in zip(self.scheme.steps, self.constants.tolist(), strict=True):
            last = first + len(step.leaves)
            weights = self.weights[first:last].tolist()
            leaves = [(weight, y[j]) for weight, (j, _) in zip(weights, step.leaves, strict=True)]
            first, level = last, step.level
            match step.action:
                case Action.BEGIN:
                    rows[level] = _added(torch.full_like(y[0], constant), leaves)
                case Action.CHAIN:
                    for weight in weights:
                        rows[level] = weight + y[step.variable] * rows[level]
                case Action.LEAVES:
                    rows[level] = _added(rows[level], leaves)
                case Action.FOLD:
                    rows[level] = rows[level] + y[step.variable] * rows[level + 1]
                case Action.ADD:
                    other = _added(torch.full_like(y[0], constant), leaves)
                    rows[level] = rows[level] + y[step.variable] * other
                case Action.OUT:
                    values.append(rows[level])  # outputs come in their order
        return torch.stack(values).to(dtype)


def _added(total: Tensor, leaves: Sequence[tuple[float, Tensor]]) -> Tensor:
    for weight, coordinate in leaves:
        total = total + weight * coordinate
    return total


def tokens(
    x: Tensor,
    centre: Tensor | None,
    features: Tensor,
    coefficients: Tensor,
    bias: Tensor,
    basis: Basis,
    dtype: torch.dtype,
    surface: Surface | None = None,
) -> Tensor | None:
    """Return the values (m · N) at points (N, d), computed in float32 at least, rounded to ``dtype``.

    ``features`` are (n, d), ``coefficients`` (m, q, n), ``bias`` (m); points may be in a narrower
    format. None is returned unless all points are clearly inside the surface.
    """
    (n, d), (m, q, _) = features.shape, coefficients.shape
    wide = torch.promote_types(features.dtype, torch.float32)
    weights = [w.to(wide).contiguous() for w in (features, coefficients, bias)]
    offset = None if centre is None else centre.to(wide).contiguous()
    values = _run(
        kernels().tokens,
        x.to(wide),
        m,
        n * (d + m * (q + 1)),
        surface,
        _block(d + 3 + m * (TILE + 2), wide),
        _LIKE[wide],
        *(w.data_ptr() for w in weights),
        0 if offset is None else offset.data_ptr(),
        *(n, q, m, basis is Basis.CHEBYSHEV, TILE, RUN),
    )
    return values if values is None or wide is dtype else values.to(dtype)


def same(weights: tuple[Tensor, ...], known: Mapping[str, Tensor]) -> bool:
    """Whether up to four weights on the CPU are the known ones, in their order, to the last bit.

    Weights that are not contiguous are not.
    """
    if len(weights) != len(known):
        return False
    places: list[int] = []
    for here, there in zip(weights, known.values(), strict=True):
        if here.dtype is not there.dtype or here.shape != there.shape or not here.is_contiguous():
            return False
        places += (here.data_ptr(), there.data_ptr(), here.nbytes)
    equal: bool = kernels().same(*places, *_NOTHING[len(places) :], _WORD, _BYTE)
    return equal


def _run(
    kernel: Callable[..., bool],
    x: Tensor,
    outputs: int,
    cost: float,
    surface: Surface | None,
    block: int,
    *own: Any,
) -> Tensor | None:
    """Let a kernel evaluate points of its format, on several threads where that is worth it."""
    if not (points := x.data_ptr()):
        x = x.clone()  # torch keeps zeros that a derivative is known to be without any memory
        points = x.data_ptr()
    count = x.shape[0]
    values = x.new_empty(outputs * count)
    out, (by_point, by_axis) = values.data_ptr(), x.stride()
    rest = (*(surface or (0, np.zeros((3, x.shape[1])))), CLEAR, block, *own)
    if count * cost < _WORTH_THREADS or (threads := torch.get_num_threads()) < 2:
        clear = kernel(points, by_point, by_axis, count, out, count, *rest)
        return values if clear else None
    size = x.itemsize

    def work(first: int, number: int) -> bool:
        begin, place = points + first * by_point * size, out + first * size
        return kernel(begin, by_point, by_axis, number, place, count, *rest)

    step = -(-count // (4 * threads * block)) * block
    starts = range(0, count, step)
    with ThreadPoolExecutor(threads) as pool:
        clear = all(pool.map(work, starts, [min(step, count - first) for first in starts]))
    return values if clear else None


def _block(rows: int, dtype: torch.dtype) -> int:
    """Return how many points make a block whose rows stay in the first-level cache."""
    return min(_MOST, max(_FEWEST, _BYTES // (rows * dtype.itemsize) // 32 * 32))


def _rounded(values: Sequence[Any], dtype: torch.dtype) -> NDArray[Any]:
    row = Matrix.of(1, len(values), {(0, j): value for j, value in enumerate(values) if value})
    table: NDArray[Any] = dense(row, dtype, lambda i, j: "a coefficient")[0].numpy()
    return table


_LIKE = {torch.float64: np.empty(0, np.float64), torch.float32: np.empty(0, np.float32)}
_WORD, _BYTE, _NOTHING = np.empty(0, np.uint64), np.empty(0, np.uint8), (0,) * 12
