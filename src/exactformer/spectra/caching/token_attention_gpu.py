"""Attention of one new token to latents on the GPU: one pass over the cache, in Triton.

A program takes a stretch of one text and some key heads. Of every tile of tokens it rebuilds the keys
of one head after another, turns them, scores them, and adds up Σ p c for all of its heads; ``_join``
adds the stretches up, lets the first token of the text, which is no latent, count by itself, and
rebuilds the value once. The map to keys stays in shared memory. Scores are in powers of two.

Three things keep registers free, which the GPU runs out of first. A query meets the bias of a key in
cos θt · (x b₁ + y b₂) + sin θt · (y b₁ − x b₂), one small product for all heads. Keys come in columns
of eight planes' first coordinates, then of their second ones: then a thread holds both coordinates of
its planes, and turning moves nothing. And sums of weights are taken over tokens once, at the end.

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

_BESIDE = 1024
"""Bytes of shared memory that a program takes beside its maps, queries and tiles, at most."""
_TOGETHER = 4
"""Key heads of a program, at most: each makes the kernel longer."""
_LANES: tl.constexpr = tl.constexpr(8)
"""Neighbouring columns of a product that lie in a group of threads."""
_INTERPRETED = 227 * 1024
"""Bytes of shared memory of an H200, which the interpreter stands for."""
_SPLITS = 64
"""Stretches of a text at most."""
_COLUMNS: tl.constexpr = tl.constexpr(64)
"""Latent numbers that are joined at a time."""


@dataclass(frozen=True)
class Form:
    """How the work is cut."""

    groups: int
    """Key heads of a program."""
    tile: int
    stages: int
    warps: int = 4

    @property
    def resident(self) -> int:
        """Programs that one multiprocessor holds, by its registers."""
        return 8 // self.warps

    def memory(self, sizes: Sizes, rank: int, itemsize: int) -> int:
        """Return the bytes of shared memory of a program, at most."""
        planes, numbers = 2 * _planes(sizes), sum(parts(rank))
        maps = (
            self.groups * planes * numbers * (2 if itemsize == 4 else 1)
        )  # of a product in three parts
        queries = (self.groups + 1) * planes * _rows(sizes, self.groups)
        tiles = self.stages * self.tile * (numbers + planes)
        return (maps + queries + tiles) * itemsize + _BESIDE


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
    """Load rows of the map to states as columns, SIZE × 2·PLANES: of eight planes, then of eight."""
    column, number = tl.arange(0, 2 * PLANES)[None, :], AT + tl.arange(0, SIZE)[:, None]
    plane = column // (2 * _LANES) * _LANES + column % _LANES
    spot = weight + (start + plane + column // _LANES % 2 * HALF) * rank + number
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
    GROUPS: tl.constexpr,
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
    chunk, split = tl.program_id(0), tl.program_id(1)
    text = tl.program_id(2).to(tl.int64)
    row, plane, along = tl.arange(0, ROWS), tl.arange(0, PLANES), tl.arange(0, TILE)
    turning, own = plane < HALF, row < GROUPS * SHARED
    head = chunk * GROUPS * SHARED + row
    place = tl.load(places + text)
    here = latents + text * by_text
    cos += text * turns_by_text
    sin += text * turns_by_text

    real = turning[:, None] & own[None, :]
    asked = query + (text * HEADS + head[None, :]) * DIM + plane[:, None]
    x = tl.load(asked, mask=real, other=0.0).to(tl.float32) * factor
    y = tl.load(asked + HALF, mask=real, other=0.0).to(tl.float32) * factor
    newest = (length - 1) * turns_by_token + plane
    c = tl.load(cos + newest, mask=turning, other=0.0).to(tl.float32)
    s = tl.load(sin + newest, mask=turning, other=0.0).to(tl.float32)
    x, y = _turned(x, y, c[:, None], s[:, None])
    start = bias + (head // SHARED)[None, :] * DIM + plane[:, None]
    b1 = tl.load(start, mask=real, other=0.0).to(tl.float32)
    b2 = tl.load(start + HALF, mask=real, other=0.0).to(tl.float32)
    even, odd = (x * b1 + y * b2).to(number), (y * b1 - x * b2).to(number)
    both = tl.reshape(tl.join(x, y), (PLANES // _LANES, _LANES, ROWS, 2))
    both = tl.reshape(tl.permute(both, (0, 3, 1, 2)), (2 * PLANES, ROWS))
    queries, fronts, backs = (), (), ()
    for i in tl.static_range(GROUPS):
        first = (chunk * GROUPS + i) * DIM
        queries += (tl.where((row // SHARED == i)[None, :], both, 0.0).to(number),)  # type: ignore[assignment]
        fronts += (_map(weight, rank, first, HALF, PLANES, 0, FRONT),)  # type: ignore[assignment]
        if BACK > 0:
            backs += (_map(weight, rank, first, HALF, PLANES, FRONT, BACK),)  # type: ignore[assignment]

    peak = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([TILE, ROWS], tl.float32)
    front = tl.zeros([FRONT, ROWS], tl.float32)
    back = tl.zeros([BEHIND, ROWS], tl.float32)
    for tile in range(split * each, min((split + 1) * each, (length + TILE - 1) // TILE)):
        token = tile * TILE + along
        visible = (token < length) & (token != place)
        if MASKED:
            visible &= tl.load(seen + text * length + token, mask=token < length, other=0) != 0
        held = _latents(here, by_number, rank, token, readable, 0, FRONT)
        if BACK > 0:
            more = _latents(here, by_number, rank, token, readable, FRONT, BACK)
        turns = token[:, None] * turns_by_token + plane[None, :]
        there = (token < length)[:, None] & turning[None, :]
        cosines = tl.load(cos + turns, mask=there, other=0.0)
        sines = tl.load(sin + turns, mask=there, other=0.0)
        scores = tl.dot(cosines, even, input_precision=PRECISION)
        scores = tl.dot(sines, odd, scores, input_precision=PRECISION)
        for i in tl.static_range(GROUPS):
            keys = tl.dot(tl.trans(held), fronts[i], input_precision=PRECISION)
            if BACK > 0:
                keys = tl.dot(tl.trans(more), backs[i], keys, input_precision=PRECISION)
            keys = tl.reshape(keys, (TILE, PLANES // _LANES, 2, _LANES))
            k1, k2 = tl.split(tl.permute(keys, (0, 1, 3, 2)))
            k1, k2 = tl.reshape(k1, (TILE, PLANES)), tl.reshape(k2, (TILE, PLANES))
            k1, k2 = _turned(k1, k2, cosines.to(tl.float32), sines.to(tl.float32))
            keys = tl.join(k1.to(number), k2.to(number))
            keys = tl.reshape(keys, (TILE, PLANES // _LANES, _LANES, 2))
            keys = tl.reshape(tl.permute(keys, (0, 1, 3, 2)), (TILE, 2 * PLANES))
            scores = tl.dot(keys, queries[i], scores, input_precision=PRECISION)
        scores = tl.where(visible[:, None], scores, float("-inf"))
        highest = tl.maximum(peak, tl.max(scores, axis=0))
        fade = tl.exp2(peak - highest)[None, :]
        p = tl.exp2(scores - highest[None, :])
        total = total * fade + p
        peak = highest
        front = tl.dot(held, p.to(number), front * fade, input_precision=PRECISION)
        if BACK > 0:
            back = tl.dot(more, p.to(number), back * fade, input_precision=PRECISION)

    out = (text * splits + split) * HEADS + head
    tl.store(peaks + out, peak, mask=own)
    tl.store(totals + out, tl.sum(total, axis=0), mask=own)
    down = tl.arange(0, FRONT)[:, None]
    tl.store(sums + out[None, :] * rank + down, front, mask=(down < rank) & own[None, :])
    if BACK > 0:
        below = FRONT + tl.arange(0, BACK)[:, None]
        tl.store(sums + out[None, :] * rank + below, back, mask=(below < rank) & own[None, :])


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
    programs: int | None = None,
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
        programs: That fill the GPU.
    """
    (latents,), weight = held.latents, held.weight
    texts, rank, length = latents.shape
    shared, processors = gpu(query.device.index) if query.is_cuda else (_INTERPRETED, 1)
    form = form or chosen(sizes, rank, weight.itemsize, shared)
    if form is None:
        raise ValueError(f"a map from {rank} numbers is too large for the kernel")
    programs = programs or form.resident * processors
    front, back = parts(rank)
    tiles, chunks = -(-length // form.tile), sizes.key_heads // form.groups
    splits = min(tiles, _SPLITS, max(1, programs // (texts * chunks)))
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
        _scan[(chunks, splits, texts)](
            *read, latents, weight, held.bias, held.places, *written, length,
            min(latents.stride(1), -(-length // 16) * 16), each, splits, rank, latents.stride(0),
            latents.stride(1), *lengths, **known, GROUPS=form.groups,
            ROWS=_rows(sizes, form.groups), FRONT=front, BACK=back, BEHIND=back or 16, TILE=form.tile,
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


def chosen(sizes: Sizes, rank: int, itemsize: int, shared: int) -> Form | None:
    """Return how to cut the work of a layer by what was quickest on an H200, None if nothing fits.

    Two small programs of a multiprocessor hide each other's waiting; where their maps do not fit side
    by side, one larger one reads its map for more tokens.

    Args:
        sizes: Of the layer.
        rank: Numbers of a latent.
        itemsize: Bytes of a number.
        shared: Bytes of shared memory that a program may have.
    """

    def fits(form: Form, share: int = 1) -> bool:
        return form.memory(sizes, rank, itemsize) <= shared // share

    narrow = Form(groups=1, tile=32, stages=2)
    if itemsize == 4:
        return narrow if fits(narrow) else None
    for groups in range(min(_TOGETHER, max(1, 16 // sizes.shared)), 0, -1):
        if sizes.key_heads % groups:
            continue
        pair = Form(groups, tile=64, stages=3)
        if fits(pair, 2):
            return pair
        for stages in (3, 2):
            single = Form(groups, tile=128, stages=stages, warps=8)
            if fits(single):
                return single
    for form in (Form(groups=1, tile=64, stages=2), narrow):
        if fits(form):
            return form
    return None


@cache
def gpu(device: int) -> tuple[int, int]:
    """Return the bytes of shared memory that a program may have, and the multiprocessors."""
    from triton.runtime import driver  # type: ignore[import-not-found,unused-ignore]

    known = driver.active.utils.get_device_properties(device)
    return int(known["max_shared_mem"]), int(known["multiprocessor_count"])


def _rows(sizes: Sizes, groups: int) -> int:
    """Return the rows of a product with the queries of so many key heads."""
    return max(16, _power(groups * sizes.shared))


def _planes(sizes: Sizes) -> int:
    return max(16, _power(sizes.head_dim // 2))


def _power(size: int) -> int:
    """Return the next power of two."""
    return 1 << (size - 1).bit_length()
