"""Attention of one new token to latents on the GPU: one pass over the cache, in Triton.

Of every tile of tokens a program rebuilds the keys of some key heads, turns them, scores them against
all query heads that share them, and adds up p·c: values are rebuilt once, at the end. The context is
cut into stretches, so that one text fills the GPU. ``_join`` adds their parts up, ``_values`` rebuilds.

Positions are consecutive, so a score depends on the distance of two tokens alone. With T the length of
a tile, j its number and n the newest token,

    (R(n) q)ᵀ R(jT + i) k = (R(n − jT) q)ᵀ R(i) k,

so keys are turned by angles that are the same for every tile, and the few queries by the tile's own.
Tables of both are rounded from float64. The first token of a text is no latent: ``_join`` adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

from exactformer.spectra.caching.rotary import Sizes

_ROWS = 16
"""Queries that a program scores at least: the smallest side of a product on tensor cores."""
_SHARED_BYTES = 96 * 1024
"""The map to keys stays in shared memory up to this size; a larger one is read for every tile."""
_JOINED: tl.constexpr = tl.constexpr(64)
"""Latent numbers, and stretches at a time, of a program that joins."""


@dataclass(frozen=True)
class Form:
    """How the work is cut; the defaults were the quickest on an H200."""

    tile: int = 64
    warps: int = 4
    stages: int = 2
    programs: int = 528
    """Programs that fill the GPU."""


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _turned(x, y, cos, sin):  # type: ignore[no-untyped-def]
    return x * cos - y * sin, y * cos + x * sin


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _columns(weight, width, top, inside, column, limit, WIDE: tl.constexpr, TALL: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load rows of a map as columns: WIDE × TALL."""
    across = tl.arange(0, WIDE)
    down = tl.arange(0, TALL)
    spot = weight + (top + down[None, :]) * width + column + across[:, None]
    return tl.load(spot, mask=(across[:, None] < limit) & (down[None, :] < inside), other=0.0)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _rows(latents, stride, limit, token, length, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load WIDE rows of latents, as many of them as there are."""
    across = tl.arange(0, WIDE)[:, None]
    there = (across < limit) & (token[None, :] < length)
    return tl.load(latents + across * stride + token[None, :], mask=there, other=0.0)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _bias(bias, inside, WIDE: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load a bias for every token of a tile."""
    across = tl.arange(0, WIDE)
    row = tl.load(bias + across, mask=across < inside, other=0.0).to(tl.float32)
    return tl.broadcast_to(row[None, :], [TILE, WIDE])


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _queries(query, dim, head, mine, start, inside, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Load coordinates of queries as columns; zeros for those of other key heads."""
    across = tl.arange(0, WIDE)[:, None]
    there = mine[None, :] & (across < inside)
    return tl.load(query + head[None, :] * dim + start + across, mask=there, other=0.0).to(
        tl.float32
    )


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _zeros(WIDE: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.zeros([WIDE, ROWS], tl.float32)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _write(spot, values, limit, some, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    across = tl.arange(0, WIDE)[:, None]
    tl.store(spot + across, values, mask=(across < limit) & some)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _scored(  # type: ignore[no-untyped-def]
    scores,
    held,
    maps,
    query,  # of this text
    weight,
    bias,
    width,
    offsets,
    ranks,
    start,  # row of the map where the keys of this head begin
    head,  # of every query
    mine,  # queries of this key head
    cos,
    sin,
    cosines,
    sines,
    factor,
    turned_factor,
    G: tl.constexpr,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    PLANES: tl.constexpr,
    REST: tl.constexpr,
    SOURCES: tl.constexpr,
    STARTS: tl.constexpr,
    WIDTHS: tl.constexpr,
    TILE: tl.constexpr,
    RESIDENT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Add to ``scores`` those of one key head: rebuild a tile of its keys, turn them, multiply."""
    number = weight.dtype.element_ty
    CHUNKS: tl.constexpr = len(WIDTHS)
    k1 = _bias(bias + start, HALF, PLANES, TILE)
    k2 = _bias(bias + start + HALF, HALF, PLANES, TILE)
    for i in tl.static_range(CHUNKS):
        if RESIDENT:
            d1 = maps[2 * (G * CHUNKS + i)]
            d2 = maps[2 * (G * CHUNKS + i) + 1]
        else:
            at, most = offsets[SOURCES[i]] + STARTS[i], ranks[SOURCES[i]] - STARTS[i]
            d1 = _columns(weight, width, start, HALF, at, most, WIDTHS[i], PLANES)
            d2 = _columns(weight, width, start + HALF, HALF, at, most, WIDTHS[i], PLANES)
        k1 = tl.dot(tl.trans(held[i]), d1, k1, input_precision=PRECISION)
        k2 = tl.dot(tl.trans(held[i]), d2, k2, input_precision=PRECISION)
    k1, k2 = _turned(k1, k2, cosines, sines)
    q1 = _queries(query, DIM, head, mine, 0, HALF, PLANES) * turned_factor
    q2 = _queries(query, DIM, head, mine, HALF, HALF, PLANES) * turned_factor
    q1, q2 = _turned(q1, q2, cos, sin)
    scores = tl.dot(k1.to(number), q1.to(number), scores, input_precision=PRECISION)
    scores = tl.dot(k2.to(number), q2.to(number), scores, input_precision=PRECISION)
    if REST > 0:
        left: tl.constexpr = DIM - 2 * HALF
        k3 = _bias(bias + start + 2 * HALF, left, REST, TILE)
        for i in tl.static_range(CHUNKS):
            at, most = offsets[SOURCES[i]] + STARTS[i], ranks[SOURCES[i]] - STARTS[i]
            d3 = _columns(weight, width, start + 2 * HALF, left, at, most, WIDTHS[i], REST)
            k3 = tl.dot(tl.trans(held[i]), d3, k3, input_precision=PRECISION)
        q3 = _queries(query, DIM, head, mine, 2 * HALF, left, REST) * factor
        scores = tl.dot(k3.to(number), q3.to(number), scores, input_precision=PRECISION)
    return scores


@triton.jit(do_not_specialize=["length", "each", "splits"])  # type: ignore[untyped-decorator,unused-ignore]
def _scan(  # type: ignore[no-untyped-def]
    query,  # texts × heads × DIM, before rotation
    latents,  # of every layer that is read: texts × rank × tokens
    ranks,
    by_text,
    by_number,
    weight,  # 2 · key heads · DIM × width
    bias,
    within,  # TILE × (cos, sin) × HALF
    steps,  # tiles × (cos, sin) × HALF
    seen,  # texts × tokens, where MASKED
    places,  # of first tokens
    sums,  # texts × splits × heads × width
    peaks,  # texts × splits × heads
    totals,
    length,
    each,
    splits,
    width,
    factor,  # of scores, times log₂ e
    turned_factor,
    HEADS: tl.constexpr,
    SHARED: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    PLANES: tl.constexpr,
    REST: tl.constexpr,
    SOURCES: tl.constexpr,
    STARTS: tl.constexpr,
    WIDTHS: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
    RESIDENT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    number = weight.dtype.element_ty
    CHUNKS: tl.constexpr = len(WIDTHS)
    top = tl.program_id(0) * GROUP * DIM
    split = tl.program_id(1)
    text = tl.program_id(2).to(tl.int64)
    row = tl.arange(0, ROWS)
    head = tl.program_id(0) * GROUP * SHARED + row
    plane = tl.arange(0, PLANES)
    turning = plane < HALF
    along = tl.arange(0, TILE)
    newest = length - 1
    place = tl.load(places + text)
    asked = query + text * HEADS * DIM

    spot = within + along[:, None] * (2 * HALF) + plane[None, :]
    cosines = tl.load(spot, mask=turning[None, :], other=0.0)
    sines = tl.load(spot + HALF, mask=turning[None, :], other=0.0)
    rest = within + (newest % TILE) * (2 * HALF) + plane
    rest_cos = tl.load(rest, mask=turning, other=0.0)
    rest_sin = tl.load(rest + HALF, mask=turning, other=0.0)

    offsets = (0,)
    for i in tl.static_range(len(ranks) - 1):
        offsets += (offsets[i] + ranks[i],)  # type: ignore[assignment]
    maps = ()
    if RESIDENT:
        for g in tl.static_range(GROUP):
            for i in tl.static_range(CHUNKS):
                at, most = offsets[SOURCES[i]] + STARTS[i], ranks[SOURCES[i]] - STARTS[i]
                begin = top + g * DIM
                d1 = _columns(weight, width, begin, HALF, at, most, WIDTHS[i], PLANES)
                d2 = _columns(weight, width, begin + HALF, HALF, at, most, WIDTHS[i], PLANES)
                maps += (d1, d2)  # type: ignore[assignment]

    peak = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = ()
    for i in tl.static_range(CHUNKS):
        mixed += (_zeros(WIDTHS[i], ROWS),)  # type: ignore[assignment]

    for tile in range(split * each, min((split + 1) * each, (length + TILE - 1) // TILE)):
        token = tile * TILE + along
        visible = (token < length) & (token != place)
        if MASKED:
            visible &= tl.load(seen + text * length + token, mask=token < length, other=0) != 0
        step = steps + (newest // TILE - tile) * (2 * HALF) + plane
        step_cos = tl.load(step, mask=turning, other=0.0)
        step_sin = tl.load(step + HALF, mask=turning, other=0.0)
        cos, sin = _turned(step_cos, step_sin, rest_cos, rest_sin)
        held = ()
        for i in tl.static_range(CHUNKS):
            here = latents[SOURCES[i]] + text * by_text[SOURCES[i]]
            here += STARTS[i] * by_number[SOURCES[i]]
            left = ranks[SOURCES[i]] - STARTS[i]
            held += (_rows(here, by_number[SOURCES[i]], left, token, length, WIDTHS[i]),)  # type: ignore[assignment]
        scores = tl.zeros([TILE, ROWS], tl.float32)
        if RESIDENT:
            for g in tl.static_range(GROUP):
                scores = _scored(
                    scores, held, maps, asked, weight, bias, width, offsets, ranks, top + g * DIM,
                    head, row // SHARED == g, cos[:, None], sin[:, None], cosines, sines, factor,
                    turned_factor, g, DIM, HALF, PLANES, REST, SOURCES, STARTS, WIDTHS, TILE,
                    RESIDENT, PRECISION,
                )  # fmt: skip
        else:
            for g in range(GROUP):  # not unrolled: the map would be loaded ahead, and not fit
                scores = _scored(
                    scores, held, maps, asked, weight, bias, width, offsets, ranks, top + g * DIM,
                    head, row // SHARED == g, cos[:, None], sin[:, None], cosines, sines, factor,
                    turned_factor, 0, DIM, HALF, PLANES, REST, SOURCES, STARTS, WIDTHS, TILE,
                    RESIDENT, PRECISION,
                )  # fmt: skip
        scores = tl.where(visible[:, None], scores, float("-inf"))
        highest = tl.maximum(peak, tl.max(scores, axis=0))
        fade = tl.exp2(peak - highest)
        p = tl.exp2(scores - highest[None, :])
        total = total * fade + tl.sum(p, axis=0)
        peak = highest
        after = ()
        for i in tl.static_range(CHUNKS):
            faded = mixed[i] * fade[None, :]
            after += (tl.dot(held[i], p.to(number), faded, input_precision=PRECISION),)  # type: ignore[assignment]
        mixed = after

    known = (row < GROUP * SHARED) & (head < HEADS)
    spot = (text * splits + split) * HEADS + head
    tl.store(peaks + spot, peak, mask=known)
    tl.store(totals + spot, total, mask=known)
    for i in tl.static_range(CHUNKS):
        at, most = offsets[SOURCES[i]] + STARTS[i], ranks[SOURCES[i]] - STARTS[i]
        _write(sums + spot[None, :] * width + at, mixed[i], most, known[None, :], WIDTHS[i])


@triton.jit(do_not_specialize=["length", "splits"])  # type: ignore[untyped-decorator,unused-ignore]
def _join(  # type: ignore[no-untyped-def]
    query,
    first,  # texts × 2 · key heads · DIM
    within,
    steps,
    seen,
    places,
    sums,
    peaks,
    totals,
    joined,  # texts × heads × width: Σ p c
    shares,  # texts × heads: p of the first token
    length,
    splits,
    width,
    factor,
    turned_factor,
    HEADS: tl.constexpr,
    SHARED: tl.constexpr,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    PLANES: tl.constexpr,
    REST: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
):
    head = tl.program_id(0)
    column = tl.program_id(1) * _JOINED + tl.arange(0, _JOINED)
    text = tl.program_id(2).to(tl.int64)
    place = tl.load(places + text)
    distance = length - 1 - tl.maximum(place, 0)
    plane = tl.arange(0, PLANES)
    turning = plane < HALF
    spot = query + (text * HEADS + head) * DIM
    x = tl.load(spot + plane, mask=turning, other=0.0).to(tl.float32)
    y = tl.load(spot + HALF + plane, mask=turning, other=0.0).to(tl.float32)
    for kind in tl.static_range(2):
        if kind == 0:
            row = within + (distance % TILE) * (2 * HALF) + plane
        else:
            row = steps + (distance // TILE) * (2 * HALF) + plane
        cos = tl.load(row, mask=turning, other=0.0)
        sin = tl.load(row + HALF, mask=turning, other=0.0)
        x, y = _turned(x, y, cos, sin)
    key = first + (text * 2 * (HEADS // SHARED) + head // SHARED) * DIM
    score = tl.sum(x * tl.load(key + plane, mask=turning, other=0.0).to(tl.float32))
    score += tl.sum(y * tl.load(key + HALF + plane, mask=turning, other=0.0).to(tl.float32))
    score *= turned_factor
    if REST > 0:
        other = tl.arange(0, REST)
        inside = other < DIM - 2 * HALF
        x = tl.load(spot + 2 * HALF + other, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(key + 2 * HALF + other, mask=inside, other=0.0).to(tl.float32)
        score += tl.sum(x * y) * factor
    if MASKED:
        visible = tl.load(seen + text * length + tl.maximum(place, 0)) != 0
        score = tl.where(visible, score, -1e30)

    peak = score
    stretch = tl.arange(0, _JOINED)
    for start in range(0, splits, _JOINED):
        part = (text * splits + start + stretch) * HEADS + head
        some = start + stretch < splits
        peak = tl.maximum(peak, tl.max(tl.load(peaks + part, mask=some, other=-1e30), axis=0))
    share = tl.exp2(score - peak)
    total = share
    mixed = tl.zeros([_JOINED], tl.float32)
    for start in range(0, splits, _JOINED):
        part = (text * splits + start + stretch) * HEADS + head
        some = start + stretch < splits
        faded = tl.exp2(tl.load(peaks + part, mask=some, other=-1e30) - peak)
        total += tl.sum(faded * tl.load(totals + part, mask=some, other=0.0))
        there = some[:, None] & (column[None, :] < width)
        held = tl.load(sums + part[:, None] * width + column[None, :], mask=there, other=0.0)
        mixed += tl.sum(faded[:, None] * held, axis=0)
    own = text * HEADS + head
    tl.store(joined + own * width + column, mixed / total, mask=column < width)
    if tl.program_id(1) == 0:
        tl.store(shares + own, share / total)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _values(  # type: ignore[no-untyped-def]
    weight,
    bias,
    first,
    joined,
    shares,
    output,  # texts × heads × DIM
    width,
    HEADS: tl.constexpr,
    SHARED: tl.constexpr,
    DIM: tl.constexpr,
    WHOLE: tl.constexpr,
):
    head = tl.program_id(0)
    text = tl.program_id(1).to(tl.int64)
    KEY_HEADS: tl.constexpr = HEADS // SHARED
    down = tl.arange(0, WHOLE)
    inside = down < DIM
    row = (KEY_HEADS + head // SHARED) * DIM + down
    spot = text * HEADS + head
    share = tl.load(shares + spot)
    own = tl.load(first + text * 2 * KEY_HEADS * DIM + row, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(bias + row, mask=inside, other=0.0).to(tl.float32) * (1 - share) + own * share
    for start in range(0, width, _JOINED):
        across = start + tl.arange(0, _JOINED)
        some = across < width
        c = tl.load(joined + spot * width + across, mask=some, other=0.0)
        part = weight + row[:, None] * width + across[None, :]
        w = tl.load(part, mask=inside[:, None] & some[None, :], other=0.0).to(tl.float32)
        value += tl.sum(w * c[None, :], axis=1)
    tl.store(output + spot * DIM + down, value, mask=inside)


def attend(
    query: Tensor,
    latents: Sequence[Tensor],
    weight: Tensor,
    bias: Tensor,
    first: Tensor,
    places: Tensor,
    seen: Tensor | None,
    tables: tuple[Tensor, Tensor],
    sizes: Sizes,
    form: Form,
    turned: float = 1.0,
) -> Tensor:
    """Return the output (texts, heads, head dim) of attention from one token to all in the cache.

    Args:
        query: (texts, heads, head dim) before rotation.
        latents: Of each layer that keys and values are rebuilt from, (texts, rank, tokens).
        weight: The map (state, all ranks) from latents to states, and its ``bias``.
        first: States of first tokens (texts, state), and their ``places`` (texts).
        seen: (texts, tokens): which tokens may be looked at, if not all.
        tables: Of :func:`~exactformer.spectra.caching.cache.distance_tables`.
        sizes: Of the layer.
        form: How to cut the work; ``tables`` are for its tile.
        turned: The factor that the rotation multiplies by (YaRN).
    """
    texts, length, within, steps = len(query), latents[0].shape[2], *tables
    width, half = weight.shape[1], sizes.rotary_dim // 2
    rest = sizes.head_dim - sizes.rotary_dim
    sources, starts, widths = chunks([x.shape[1] for x in latents])
    group = _group(sizes)
    groups, tiles = sizes.key_heads // group, -(-length // form.tile)
    splits = min(tiles, max(1, form.programs // (groups * texts)))
    each = -(-tiles // splits)
    splits = -(-tiles // each)
    scores = sizes.scale * 1.4426950408889634
    space: Any = {"dtype": torch.float32, "device": query.device}
    sums = torch.empty(texts, splits, sizes.heads, width, **space)
    peaks, totals = torch.empty(2, texts, splits, sizes.heads, **space)
    joined = torch.empty(texts, sizes.heads, width, **space)
    shares = torch.empty(texts, sizes.heads, **space)
    output = torch.empty_like(query)
    cut = {
        "HEADS": sizes.heads,
        "SHARED": sizes.shared,
        "DIM": sizes.head_dim,
        "HALF": half,
        "PLANES": _padded(half),
        "REST": _padded(rest) if rest else 0,
        "TILE": form.tile,
        "MASKED": seen is not None,
    }
    marks = within if seen is None else seen
    with _on(query.device):
        _scan[(groups, splits, texts)](
            query,
            tuple(latents),
            tuple(x.shape[1] for x in latents),
            tuple(x.stride(0) for x in latents),
            tuple(x.stride(1) for x in latents),
            weight,
            bias,
            within,
            steps,
            marks,
            places,
            sums,
            peaks,
            totals,
            length,
            each,
            splits,
            width,
            scores,
            scores * turned**2,
            GROUP=group,
            SOURCES=sources,
            STARTS=starts,
            WIDTHS=widths,
            ROWS=_padded(group * sizes.shared),
            RESIDENT=group * sizes.head_dim * sum(widths) * weight.itemsize <= _SHARED_BYTES,
            PRECISION="tf32x3" if weight.dtype == torch.float32 else "ieee",
            num_warps=form.warps,
            num_stages=form.stages,
            **cut,
        )
        _join[(sizes.heads, -(-width // _JOINED.value), texts)](
            query,
            first,
            within,
            steps,
            marks,
            places,
            sums,
            peaks,
            totals,
            joined,
            shares,
            length,
            splits,
            width,
            scores,
            scores * turned**2,
            **cut,
        )
        _values[(sizes.heads, texts)](
            weight,
            bias,
            first,
            joined,
            shares,
            output,
            width,
            HEADS=sizes.heads,
            SHARED=sizes.shared,
            DIM=sizes.head_dim,
            WHOLE=_padded(sizes.head_dim),
        )
    return output


def chosen(weight: Tensor) -> Form:
    """Return how to cut the work of a layer with this map from latents to states."""
    size = weight.shape[1] * weight.itemsize
    tile = 64 if weight.itemsize == 2 else 32
    return Form(tile=tile, warps=4 if size <= 512 else 8, stages=2 if size <= 512 else 1)


def chunks(ranks: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Cut latents into widths that are powers of two: the source, the start and the width of each.

    Ranks are rounded up to multiples of 32, so that few kernels are compiled for many layers.

    >>> chunks([96, 7])
    ((0, 0, 1), (0, 64, 0), (64, 32, 16))
    """
    found = []
    for source, rank in enumerate(ranks):
        start, left = 0, 16 if rank <= 16 else -(-rank // 32) * 32
        while left:
            wide = min(128, 1 << left.bit_length() - 1)
            found.append((source, start, wide))
            start, left = start + wide, left - wide
    sources, starts, widths = zip(*found, strict=True)
    return sources, starts, widths


def _group(sizes: Sizes) -> int:
    """Return how many key heads a program takes: all whose queries fit, in equal parts."""
    most = max(1, _ROWS // sizes.shared)
    return max(g for g in range(1, most + 1) if sizes.key_heads % g == 0)


def _padded(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


def _on(device: torch.device) -> Any:
    from contextlib import nullcontext

    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
