"""Attention of one new token to latents on the GPU: one pass over the cache, in Triton.

A program takes a stretch of one text and one key head. Of every tile of tokens it rebuilds the keys,
turns them, scores them, and adds up Σ p c; ``_join`` adds the stretches up, lets the first token of
the text, which is no latent, count by itself, and rebuilds the value once. The latents are read from
memory once, by the first of the key heads, and from the GPU's cache by the others; the map to keys
stays in shared memory. Scores are in powers of two.

The rank is cut in two parts whose sizes are powers of two, as those of Triton's tiles are.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from math import e, log2
from typing import Any

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

from exactformer.spectra.caching.rotary import Sizes
from exactformer.spectra.caching.token_attention import Held

_BESIDE = 20 * 1024
"""Bytes of shared memory that a program takes beside its map and its tiles, at most."""
_SPLITS = 64
"""Stretches of a text at most."""
_COLUMNS: tl.constexpr = tl.constexpr(64)
"""Latent numbers that are joined at a time."""


@dataclass(frozen=True)
class Form:
    """How the work is cut."""

    tile: int
    stages: int
    warps: int = 4
    programs: int = 1056
    """Programs that fill the GPU."""


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _turned(x, y, cos, sin):  # type: ignore[no-untyped-def]
    return x * cos - y * sin, y * cos + x * sin


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _map(  # type: ignore[no-untyped-def]
    weight,
    rank,
    start,
    HALF: tl.constexpr,
    PLANES: tl.constexpr,
    AT: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Load rows of the map to states as columns, SIZE × PLANES."""
    plane, number = tl.arange(0, PLANES)[None, :], AT + tl.arange(0, SIZE)[:, None]
    spot = weight + (start + plane) * rank + number
    return tl.load(spot, mask=(number < rank) & (plane < HALF), other=0.0)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _latents(here, by_number, rank, token, readable, AT: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load latents SIZE × TILE. The mask ends at a multiple of 16, so loads are wide."""
    number = AT + tl.arange(0, SIZE)[:, None]
    there = (number < rank) & (token < readable)[None, :]
    return tl.load(here + number * by_number + token[None, :], mask=there, other=0.0)


@triton.jit(do_not_specialize=["length", "each", "splits"])  # type: ignore[untyped-decorator,unused-ignore]
def _scan(  # type: ignore[no-untyped-def]
    query,  # texts × HEADS × 2·HALF, before rotation
    cos,  # texts × tokens × planes
    sin,
    seen,  # texts × tokens, where MASKED
    latents,  # texts × rank × tokens
    weight,  # state × rank
    bias,
    places,  # of first tokens
    sums,  # texts × splits × HEADS × rank
    peaks,  # texts × splits × HEADS
    totals,
    length,
    readable,
    each,
    splits,
    rank,
    by_text,
    by_number,
    turns_by_text,
    turns_by_token,
    factor,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    PLANES: tl.constexpr,
    ROWS: tl.constexpr,
    FRONT: tl.constexpr,
    BACK: tl.constexpr,
    BEHIND: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    number: tl.constexpr = weight.dtype.element_ty
    DIM: tl.constexpr = 2 * HALF
    SHARED: tl.constexpr = HEADS // KEY_HEADS
    group, split = tl.program_id(0), tl.program_id(1)
    text = tl.program_id(2).to(tl.int64)
    row, plane, along = tl.arange(0, ROWS), tl.arange(0, PLANES), tl.arange(0, TILE)
    turning = plane < HALF
    head = group * SHARED + row
    place = tl.load(places + text)
    here = latents + text * by_text
    cos += text * turns_by_text
    sin += text * turns_by_text

    real = turning[:, None] & (row < SHARED)[None, :]
    asked = query + (text * HEADS + head[None, :]) * DIM + plane[:, None]
    x = tl.load(asked, mask=real, other=0.0).to(tl.float32) * factor
    y = tl.load(asked + HALF, mask=real, other=0.0).to(tl.float32) * factor
    newest = (length - 1) * turns_by_token + plane
    c = tl.load(cos + newest, mask=turning, other=0.0).to(tl.float32)
    s = tl.load(sin + newest, mask=turning, other=0.0).to(tl.float32)
    x, y = _turned(x, y, c[:, None], s[:, None])
    q1, q2 = x.to(number), y.to(number)
    start = bias + group * DIM + plane
    b1 = tl.load(start, mask=turning, other=0.0).to(tl.float32)[None, :]
    b2 = tl.load(start + HALF, mask=turning, other=0.0).to(tl.float32)[None, :]
    d1 = _map(weight, rank, group * DIM, HALF, PLANES, 0, FRONT)
    d2 = _map(weight, rank, group * DIM + HALF, HALF, PLANES, 0, FRONT)
    if BACK > 0:
        d3 = _map(weight, rank, group * DIM, HALF, PLANES, FRONT, BACK)
        d4 = _map(weight, rank, group * DIM + HALF, HALF, PLANES, FRONT, BACK)

    peak = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    front = tl.zeros([FRONT, ROWS], tl.float32)
    back = tl.zeros([BEHIND, ROWS], tl.float32)
    for tile in range(split * each, min((split + 1) * each, (length + TILE - 1) // TILE)):
        token = tile * TILE + along
        visible = (token < length) & (token != place)
        if MASKED:
            visible &= tl.load(seen + text * length + token, mask=token < length, other=0) != 0
        held = _latents(here, by_number, rank, token, readable, 0, FRONT)
        k1 = tl.dot(tl.trans(held), d1, input_precision=PRECISION)
        k2 = tl.dot(tl.trans(held), d2, input_precision=PRECISION)
        if BACK > 0:
            more = _latents(here, by_number, rank, token, readable, FRONT, BACK)
            k1 = tl.dot(tl.trans(more), d3, k1, input_precision=PRECISION)
            k2 = tl.dot(tl.trans(more), d4, k2, input_precision=PRECISION)
        turns = token[:, None] * turns_by_token + plane[None, :]
        there = (token < length)[:, None] & turning[None, :]
        own_cos = tl.load(cos + turns, mask=there, other=0.0).to(tl.float32)
        own_sin = tl.load(sin + turns, mask=there, other=0.0).to(tl.float32)
        k1, k2 = _turned(k1 + b1, k2 + b2, own_cos, own_sin)
        scores = tl.dot(k1.to(number), q1, input_precision=PRECISION)
        scores = tl.dot(k2.to(number), q2, scores, input_precision=PRECISION)
        scores = tl.where(visible[:, None], scores, float("-inf"))
        highest = tl.maximum(peak, tl.max(scores, axis=0))
        fade = tl.exp2(peak - highest)
        p = tl.exp2(scores - highest[None, :])
        total = total * fade + tl.sum(p, axis=0)
        peak = highest
        front = tl.dot(held, p.to(number), front * fade[None, :], input_precision=PRECISION)
        if BACK > 0:
            back = tl.dot(more, p.to(number), back * fade[None, :], input_precision=PRECISION)

    out = (text * splits + split) * HEADS + head
    tl.store(peaks + out, peak, mask=row < SHARED)
    tl.store(totals + out, total, mask=row < SHARED)
    down = tl.arange(0, FRONT)[:, None]
    tl.store(sums + out[None, :] * rank + down, front, mask=(down < rank) & (row < SHARED)[None, :])
    if BACK > 0:
        below = FRONT + tl.arange(0, BACK)[:, None]
        some = (below < rank) & (row < SHARED)[None, :]
        tl.store(sums + out[None, :] * rank + below, back, mask=some)


@triton.jit(do_not_specialize=["length", "splits"])  # type: ignore[untyped-decorator,unused-ignore]
def _join(  # type: ignore[no-untyped-def]
    query,
    cos,
    sin,
    seen,
    first,  # texts × state
    weight,
    bias,
    places,
    sums,
    peaks,
    totals,
    output,  # texts × HEADS × 2·HALF
    length,
    splits,
    rank,
    turns_by_text,
    turns_by_token,
    factor,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    PLANES: tl.constexpr,
    MASKED: tl.constexpr,
    SPLITS: tl.constexpr,
):
    DIM: tl.constexpr = 2 * HALF
    head = tl.program_id(0)
    text = tl.program_id(1).to(tl.int64)
    group = head // (HEADS // KEY_HEADS)
    place = tl.load(places + text)
    plane = tl.arange(0, PLANES)
    turning = plane < HALF
    own = first + text * 2 * KEY_HEADS * DIM
    asked = query + (text * HEADS + head) * DIM + plane
    x = tl.load(asked, mask=turning, other=0.0).to(tl.float32) * factor
    y = tl.load(asked + HALF, mask=turning, other=0.0).to(tl.float32) * factor
    key = own + group * DIM + plane
    k = tl.load(key, mask=turning, other=0.0).to(tl.float32)
    m = tl.load(key + HALF, mask=turning, other=0.0).to(tl.float32)
    newest = text * turns_by_text + (length - 1) * turns_by_token + plane
    c = tl.load(cos + newest, mask=turning, other=0.0).to(tl.float32)
    s = tl.load(sin + newest, mask=turning, other=0.0).to(tl.float32)
    x, y = _turned(x, y, c, s)
    oldest = text * turns_by_text + place * turns_by_token + plane
    c = tl.load(cos + oldest, mask=turning, other=0.0).to(tl.float32)
    s = tl.load(sin + oldest, mask=turning, other=0.0).to(tl.float32)
    k, m = _turned(k, m, c, s)
    score = tl.sum(x * k + y * m)
    if MASKED:
        score = tl.where(tl.load(seen + text * length + place) != 0, score, -1e30)

    stretch = tl.arange(0, SPLITS)
    part = (text * splits + stretch) * HEADS + head
    some = stretch < splits
    highs = tl.load(peaks + part, mask=some, other=-1e30)
    peak = tl.maximum(score, tl.max(highs, axis=0))
    fade = tl.where(some, tl.exp2(highs - peak), 0.0)
    share = tl.exp2(score - peak)
    total = share + tl.sum(fade * tl.load(totals + part, mask=some, other=0.0), axis=0)
    share = share / total
    fade = fade / total

    start = (KEY_HEADS + group) * DIM
    v1 = tl.load(bias + start + plane, mask=turning, other=0.0).to(tl.float32) * (1 - share)
    v2 = tl.load(bias + start + HALF + plane, mask=turning, other=0.0).to(tl.float32) * (1 - share)
    v1 += tl.load(own + start + plane, mask=turning, other=0.0).to(tl.float32) * share
    v2 += tl.load(own + start + HALF + plane, mask=turning, other=0.0).to(tl.float32) * share
    for begin in range(0, rank, _COLUMNS):
        column = begin + tl.arange(0, _COLUMNS)
        kept = sums + part[:, None] * rank + column[None, :]
        parts = tl.load(kept, mask=some[:, None] & (column < rank)[None, :], other=0.0)
        mixed = tl.sum(parts * fade[:, None], axis=0)[None, :]
        rows = weight + (start + plane[:, None]) * rank + column[None, :]
        there = turning[:, None] & (column < rank)[None, :]
        v1 += tl.sum(tl.load(rows, mask=there, other=0.0).to(tl.float32) * mixed, axis=1)
        below = tl.load(rows + HALF * rank, mask=there, other=0.0).to(tl.float32)
        v2 += tl.sum(below * mixed, axis=1)
    to = output + (text * HEADS + head) * DIM + plane
    tl.store(to, v1, mask=turning)
    tl.store(to + HALF, v2, mask=turning)


def attend(
    query: Tensor,
    held: Held,
    seen: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    sizes: Sizes,
    form: Form | None = None,
) -> Tensor:
    """Return the output (batch, heads, head dim) of the newest token's attention to the cache.

    Args:
        query: (batch, heads, head dim) before rotation.
        held: What the layer reads: latents of one layer, tokens next to each other in memory, each row
            with room up to the next. What lies in that room is read and not used, but must be finite.
        seen: (batch, tokens): which tokens may be looked at, if not all.
        cos: Of all positions, (batch, tokens, planes or more), as ``sin``.
        sizes: Of the layer.
        form: How the work is cut.
    """
    (latents,), weight = held.latents, held.weight
    texts, rank, length = latents.shape
    form = form or chosen(rank, weight.itemsize)
    front, back = parts(rank)
    tiles = -(-length // form.tile)
    splits = min(tiles, _SPLITS, max(1, form.programs // (texts * sizes.key_heads)))
    each = -(-tiles // splits)
    splits = -(-tiles // each)
    space: Any = {"dtype": torch.float32, "device": query.device}
    sums = torch.empty(texts, splits, sizes.heads, rank, **space)
    peaks, totals = torch.empty(2, texts, splits, sizes.heads, **space)
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    read = (query.contiguous(), cos, sin, held.places if seen is None else seen.contiguous())
    known = {
        "HEADS": sizes.heads,
        "KEY_HEADS": sizes.key_heads,
        "HALF": sizes.head_dim // 2,
        "PLANES": _planes(sizes),
        "MASKED": seen is not None,
    }
    written = (sums, peaks, totals)
    lengths = (cos.stride(0), cos.stride(1), sizes.scale * log2(e))
    with torch.cuda.device(query.device) if query.is_cuda else nullcontext():
        _scan[(sizes.key_heads, splits, texts)](
            *read, latents, weight, held.bias, held.places, *written, length,
            min(latents.stride(1), -(-length // 16) * 16), each, splits, rank, latents.stride(0),
            latents.stride(1), *lengths, **known, ROWS=max(16, _power(sizes.shared)), FRONT=front,
            BACK=back, BEHIND=back or 16, TILE=form.tile,
            PRECISION="tf32x3" if weight.dtype == torch.float32 else "ieee",
            num_warps=form.warps, num_stages=form.stages,
        )  # fmt: skip
        _join[(sizes.heads, texts)](
            *read, held.first.contiguous(), weight, held.bias, held.places, *written, output, length,
            splits, rank, *lengths, **known, SPLITS=_power(splits),
        )  # fmt: skip
    return output


def parts(rank: int) -> tuple[int, int]:
    """Cut a rank in two powers of two, the second of which may be missing.

    >>> parts(3), parts(64), parts(96), parts(97), parts(160)
    ((16, 0), (64, 0), (64, 32), (64, 64), (128, 32))
    """
    front = 1 << max(4, rank.bit_length() - 1)
    left = rank - front
    return front, max(16, _power(left)) if left > 0 else 0


def chosen(rank: int, itemsize: int) -> Form:
    """Return how to cut the work of a layer: what was quickest on an H200."""
    if itemsize == 4:
        return Form(tile=32, stages=1)
    return Form(tile=64, stages=3 if rank <= 128 else 2 if rank < 256 else 1)


def fits(sizes: Sizes, rank: int, itemsize: int, shared: int) -> bool:
    """Whether a layer's map and the tiles in flight fit into so many bytes of shared memory."""
    form, copies = chosen(rank, itemsize), 2 if itemsize == 4 else 1  # of three-part products
    rows = 2 * _planes(sizes) + form.stages * form.tile
    return copies * rows * sum(parts(rank)) * itemsize + _BESIDE <= shared


@cache
def shared_memory(device: int) -> int:
    """Return the bytes of shared memory that a program may have on a GPU, as Triton counts them."""
    from triton.runtime import driver  # type: ignore[import-not-found,unused-ignore]

    return int(driver.active.utils.get_device_properties(device)["max_shared_mem"])


def _planes(sizes: Sizes) -> int:
    return max(16, _power(sizes.head_dim // 2))


def _power(size: int) -> int:
    """Return the next power of two."""
    return 1 << (size - 1).bit_length()
