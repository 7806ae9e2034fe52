"""A fused form on the GPU: one Triton kernel from points to values.

Written out in torch, the formula moves n·N numbers through memory at every step; here nothing but
points and values does. A thread keeps a few points in registers for the whole run and walks over the
tokens, two at a time, so that every weight it loads (the same for all threads: one cache line) is
used for each of its points. What is left is d + q fused multiply-adds a token and point, in plain
float32 or float64: no tensor cores, whose float32 products would be rounded to fewer digits.

The sum over tokens runs on three levels, ``RUN`` terms long on the first two, so that few roundings
meet a term (:meth:`~exactformer.polynomials.run.closed_form.FusedForm.additions`). Missing tokens and
outputs are zeros, which change nothing.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor
from torch.nn.functional import pad

from exactformer.polynomials.run.closed_form import RUN, TILE, Basis

_WARPS = 4
_REGISTERS = 144  # of 32 bits, for what a thread keeps: more leave too few threads to hide latency
_BLOCKS = 512  # in flight on a large card: small batches use fewer points a thread
_OUTPUTS = 4  # at once: their sums share the registers


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _evaluate(  # type: ignore[no-untyped-def]
    points,  # N × d, any strides
    centre,  # d
    weights,  # (d + m q) × tokens: the columns of F, then output by output the coefficients
    biases,  # m
    values,  # m × N
    count,
    by_point,
    by_coordinate,
    tokens,
    D: tl.constexpr,
    Q: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CHEBYSHEV: tl.constexpr,
    RUN: tl.constexpr,
    TILE: tl.constexpr,
    POINTS: tl.constexpr,
):
    number = weights.dtype.element_ty
    output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.program_id(0).to(tl.int64) * POINTS + tl.arange(0, POINTS)
    known = row < count
    x = ()
    for k in tl.static_range(D):
        place = points + row * by_point + k * by_coordinate
        offset = tl.load(place, mask=known, other=0.0).to(number) - tl.load(centre + k)
        x += (offset,)  # type: ignore[assignment]
    total = tl.zeros([OUTPUTS, POINTS], number)
    for first in range(0, tokens, RUN * RUN * TILE):
        stretch = tl.zeros([OUTPUTS, POINTS], number)
        for second in range(first, min(first + RUN * RUN * TILE, tokens), RUN * TILE):
            terms = tl.zeros([OUTPUTS, TILE, POINTS], number)
            for third in range(second, min(second + RUN * TILE, tokens), TILE):
                column = weights + third + tl.arange(0, TILE)
                t = tl.load(column)[:, None] * x[0][None, :]  # type: ignore[misc]
                for k in tl.static_range(1, D):
                    t += tl.load(column + k * tokens)[:, None] * x[k][None, :]
                t = t[None, :, :]
                coefficient = column[None, :] + (D + output[:, None] * Q) * tokens
                value = tl.load(coefficient + (Q - 1) * tokens)[:, :, None]
                if CHEBYSHEV:
                    value += tl.zeros([OUTPUTS, TILE, POINTS], number)
                    before = tl.zeros([OUTPUTS, TILE, POINTS], number)
                    for s in tl.static_range(Q - 2, -1, -1):
                        c = tl.load(coefficient + s * tokens)[:, :, None]
                        value, before = 2 * t * value + (c - before), value
                    terms += t * value - before
                else:
                    for s in tl.static_range(Q - 2, -1, -1):
                        value = value * t + tl.load(coefficient + s * tokens)[:, :, None]
                    terms += value * t
            stretch += tl.sum(terms, axis=1)
        total += stretch
    total += tl.load(biases + output)[:, None]
    place = values + output[:, None].to(tl.int64) * count + row[None, :]
    tl.store(place, total, mask=known[None, :])


def fits(d: int, dtype: torch.dtype) -> bool:
    """Whether a thread can hold a point of ``d`` coordinates."""
    return d * dtype.itemsize // 4 <= _REGISTERS


def evaluate(
    x: Tensor,
    centre: Tensor | None,
    features: Tensor,
    coefficients: Tensor,
    bias: Tensor,
    basis: Basis,
    dtype: torch.dtype,
) -> Tensor:
    """Return what ``closed_form_cpu.evaluate`` returns, computed on a GPU."""
    (n, d), (m, q, _) = features.shape, coefficients.shape
    outputs = _power_of_two(min(_OUTPUTS, 2 * m - 1))
    spare = -m % outputs
    weights = torch.cat([features.T, coefficients.reshape(m * q, n)])
    weights = pad(weights, (0, -n % 16, 0, spare * q))  # rows begin where a wide load can
    values = torch.empty((m + spare, len(x)), dtype=dtype, device=x.device)
    recurrence = 2 if basis is Basis.POWER else 3
    kept = (d + TILE + recurrence * outputs * TILE) * weights.itemsize // 4
    threads = 32 * _WARPS
    points = threads * _power_of_two(min(8, _REGISTERS // kept, len(x) // (threads * _BLOCKS)))
    with torch.cuda.device(x.device):
        _evaluate[(-(-len(x) // points), (m + spare) // outputs)](
            x,
            features.new_zeros(d) if centre is None else centre,
            weights,
            pad(bias, (0, spare)),
            values,
            len(x),
            *x.stride(),
            weights.shape[1],
            D=d,
            Q=q,
            OUTPUTS=outputs,
            CHEBYSHEV=basis is not Basis.POWER,
            RUN=RUN,
            TILE=TILE,
            POINTS=points,
            num_warps=_WARPS,
        )
    return values[:m]


def _power_of_two(limit: int) -> int:
    """Return the largest power of two up to a limit, at least 1."""
    return 1 << max(limit, 1).bit_length() - 1
