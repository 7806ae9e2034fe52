"""Terms and tokens of a fused form as machine code, compiled by numba for the processor at hand.

A block of points is loaded coordinate by coordinate, tested for the domain while it is in the cache,
and taken through all steps; a step is a loop over the points of the block, which the compiler turns
into vector instructions. Every product and every sum is rounded by itself, in the order written here:
nothing is contracted or reassociated, so that values are the same on every processor, for every size
of a block and any number of threads. Python's lock is not held meanwhile.

Points, values and weights are given by their addresses, which takes a tenth of the time of wrapping
them in arrays; the caller answers for types, shapes and strides. Inside, pointers spare numba the
counting of references and the question whether an index counts from the end.

Compiled code is kept on disk, next to this file or in numba's own folder for the user, and is compiled
anew when this file changes.
"""

# What numba compiles has the types of its arguments.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
# mypy: disable-error-code="call-arg, var-annotated"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_compiled = njit(nogil=True, cache=True, error_model="numpy")
_part = njit(nogil=True, error_model="numpy", inline="always")


@intrinsic
def _at(context: Any, address: Any, like: Any) -> Any:
    """Return the pointer to numbers like those of an array at an address."""
    target = types.CPointer(like.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(target))

    return target(address, like), generate


@_compiled
def same(a, a_, a_size, b, b_, b_size, c, c_, c_size, d, d_, d_size, word, byte):
    """Whether so many bytes are the same at each of four pairs of addresses."""
    different = np.uint64(0)
    for here, there, size in (
        (a, a_, a_size),
        (b, b_, b_size),
        (c, c_, c_size),
        (d, d_, d_size),
    ):
        own, other = _at(here, word), _at(there, word)
        for i in range(size // 8):
            different |= own[i] ^ other[i]
        own_end, other_end = _at(here, byte), _at(there, byte)
        for i in range(size // 8 * 8, size):
            different |= np.uint64(own_end[i] ^ other_end[i])
    return different == np.uint64(0)


@_compiled
def terms(
    points,
    by_point,
    by_axis,
    count,
    values,
    spacing,
    test,
    surface,
    limit,
    block,
    rows,
    centre,
    code,
    constants,
    places,
    weights,
):
    """Evaluate Horner's scheme at points; return false if some are not clearly in the domain.

    ``test`` is 0 for none, 1 for a ball, 2 for a box. Outputs are ``spacing`` values apart.
    """
    d, steps = surface.shape[1], len(constants)
    y_rows, S_rows = np.empty(d * block, weights.dtype), np.empty(rows * block, weights.dtype)
    away_row = np.empty(block, np.float64)
    x, out = _at(points, weights), _at(values, weights)
    y, S = _at(y_rows.ctypes.data, weights), _at(S_rows.ctypes.data, weights)
    away, border = _at(away_row.ctypes.data, surface), _at(surface.ctypes.data, surface)
    op, const = _at(code.ctypes.data, code), _at(constants.ctypes.data, weights)
    place, weight = _at(places.ctypes.data, places), _at(weights.ctypes.data, weights)
    c = _at(centre.ctypes.data, weights)
    clear = True
    for start in range(0, count, block):
        size = min(block, count - start)
        if not _load(
            x, start * by_point, by_point, by_axis, size, block, d, test, border, limit, y, away
        ):
            clear = False
            break
        if len(centre):
            _move(y, size, block, d, c)
        if size == 1:
            _run_once(op, const, place, weight, steps, S, y, block, out, start, spacing)
        else:
            _run(op, const, place, weight, steps, S, y, block, size, out, start, spacing)
    return clear


@_part
def _load(x, begin, by_point, by_axis, size, block, d, test, surface, limit, y, away):
    """Read points as rows; return whether all are clearly inside, which NaN is not."""
    for j in range(d):
        row, place = j * block, begin + j * by_axis
        for p in range(size):
            y[row + p] = x[place + p * by_point]
    if test == 0:
        return True
    outside = 0
    for p in range(size):
        away[p] = 0.0
    for j in range(d):
        row = j * block
        nearest, rest, scale = surface[j], surface[d + j], surface[2 * d + j]
        if test == 2:
            for p in range(size):
                outside += not abs((y[row + p] - nearest - rest) * scale) <= limit
        elif nearest == 0.0 and rest == 0.0:
            for p in range(size):
                distance = y[row + p] * scale
                away[p] += distance * distance
        else:
            for p in range(size):
                distance = (y[row + p] - nearest - rest) * scale
                away[p] += distance * distance
    for p in range(size):
        outside += not away[p] <= limit
    return outside == 0


@_part
def _move(y, size, block, d, centre):
    """y = x − c."""
    for j in range(d):
        row, c = j * block, centre[j]
        for p in range(size):
            y[row + p] -= c


@_part
def _run_once(code, constants, places, weights, steps, S, y, block, out, start, spacing):
    """Carry out the steps at one point: the same sums without the beginnings of loops over points."""
    for i in range(steps):
        action, s, h = code[5 * i], code[5 * i + 1], y[code[5 * i + 2]]
        first = code[5 * i + 3]
        last = first + code[5 * i + 4]
        if action == 4:
            value = constants[i]
            for k in range(first, last):
                value = value + weights[k] * y[places[k]]
            S[s] = S[s] + h * value
        elif action == 3:
            S[s] = S[s] + h * S[s + block]
        elif action == 1:
            value = S[s]
            for k in range(first, last):
                value = weights[k] + h * value
            S[s] = value
        elif action == 5:
            out[code[5 * i + 2] * spacing + start] = S[s]
        else:
            value = constants[i] if action == 0 else S[s]
            for k in range(first, last):
                value = value + weights[k] * y[places[k]]
            S[s] = value


@_part
def _run(code, constants, places, weights, steps, S, y, block, size, out, start, spacing):
    """Carry out the steps of a scheme on a block; see :class:`Action`."""
    for i in range(steps):
        action, s, v, f, count = (
            code[5 * i],
            code[5 * i + 1],
            code[5 * i + 2],
            code[5 * i + 3],
            code[5 * i + 4],
        )
        a, t = constants[i], s + block
        j0, j1, j2, j3 = places[f], places[f + 1], places[f + 2], places[f + 3]
        c0, c1, c2, c3 = weights[f], weights[f + 1], weights[f + 2], weights[f + 3]
        if action == 3:
            for p in range(size):
                S[s + p] = S[s + p] + y[v + p] * S[t + p]
        elif action == 4 and count <= 4:
            if count == 1:
                for p in range(size):
                    S[s + p] = S[s + p] + y[v + p] * (a + c0 * y[j0 + p])
            elif count == 2:
                for p in range(size):
                    S[s + p] = S[s + p] + y[v + p] * (a + c0 * y[j0 + p] + c1 * y[j1 + p])
            elif count == 3:
                for p in range(size):
                    S[s + p] = S[s + p] + y[v + p] * (
                        a + c0 * y[j0 + p] + c1 * y[j1 + p] + c2 * y[j2 + p]
                    )
            else:
                for p in range(size):
                    S[s + p] = S[s + p] + y[v + p] * (
                        a + c0 * y[j0 + p] + c1 * y[j1 + p] + c2 * y[j2 + p] + c3 * y[j3 + p]
                    )
        elif action == 1:
            while count >= 4:
                c0, c1, c2, c3 = weights[f], weights[f + 1], weights[f + 2], weights[f + 3]
                for p in range(size):
                    h = y[v + p]
                    S[s + p] = c3 + h * (c2 + h * (c1 + h * (c0 + h * S[s + p])))
                f, count = f + 4, count - 4
            while count > 0:
                c0 = weights[f]
                for p in range(size):
                    S[s + p] = c0 + y[v + p] * S[s + p]
                f, count = f + 1, count - 1
        elif action == 5:
            place = v * spacing + start
            for p in range(size):
                out[place + p] = S[s + p]
        else:
            last = 4 if action == 4 else 0  # leaves of the pass that folds
            r = t if action == 4 else s
            if action != 2:
                more = (count - 1) % 4 + 1 if count > 0 else 0
                if more == 4:
                    for p in range(size):
                        S[r + p] = (
                            a + c0 * y[j0 + p] + c1 * y[j1 + p] + c2 * y[j2 + p] + c3 * y[j3 + p]
                        )
                elif more == 3:
                    for p in range(size):
                        S[r + p] = a + c0 * y[j0 + p] + c1 * y[j1 + p] + c2 * y[j2 + p]
                elif more == 2:
                    for p in range(size):
                        S[r + p] = a + c0 * y[j0 + p] + c1 * y[j1 + p]
                elif more == 1:
                    for p in range(size):
                        S[r + p] = a + c0 * y[j0 + p]
                else:
                    for p in range(size):
                        S[r + p] = a
                f, count = f + more, count - more
            while count > last:
                j0, j1, j2, j3 = places[f], places[f + 1], places[f + 2], places[f + 3]
                c0, c1, c2, c3 = weights[f], weights[f + 1], weights[f + 2], weights[f + 3]
                if count < 4:
                    for p in range(size):
                        S[r + p] = S[r + p] + c0 * y[j0 + p]
                    f, count = f + 1, count - 1
                else:
                    for p in range(size):
                        S[r + p] = (
                            S[r + p]
                            + c0 * y[j0 + p]
                            + c1 * y[j1 + p]
                            + c2 * y[j2 + p]
                            + c3 * y[j3 + p]
                        )
                    f, count = f + 4, count - 4
            if action == 4:
                j0, j1, j2, j3 = places[f], places[f + 1], places[f + 2], places[f + 3]
                c0, c1, c2, c3 = weights[f], weights[f + 1], weights[f + 2], weights[f + 3]
                for p in range(size):
                    S[s + p] = S[s + p] + y[v + p] * (
                        S[t + p] + c0 * y[j0 + p] + c1 * y[j1 + p] + c2 * y[j2 + p] + c3 * y[j3 + p]
                    )


@_compiled
def tokens(
    points,
    by_point,
    by_axis,
    count,
    values,
    spacing,
    test,
    surface,
    limit,
    block,
    like,
    features,
    coefficients,
    bias,
    centre,
    n,
    q,
    m,
    chebyshev,
    tile,
    run,
):
    """Evaluate a fused form at points; return false if some are not clearly in the domain.

    Weights are the addresses of F (n × d), the coefficients (m × q × n), b and c (0 is the origin), in
    the format of the array ``like``. Of ``run`` times ``tile`` tokens each goes to one of ``tile`` sums
    in turn; these are added, then ``run`` of what results, then all of that.
    """
    d = surface.shape[1]
    room, away_row = np.empty((d + 3 + m * (tile + 2)) * block, like.dtype), np.empty(block)
    x, out = _at(points, like), _at(values, like)
    F, C = _at(features, like), _at(coefficients, like)
    b, c = _at(bias, like), _at(centre, like)
    away, border = _at(away_row.ctypes.data, away_row), _at(surface.ctypes.data, surface)
    row, address = block * room.itemsize, room.ctypes.data
    y, t = _at(address, like), _at(address + d * row, like)
    lanes = _at(address + (d + 3) * row, like)
    stretches = _at(address + (d + 3 + m * tile) * row, like)
    totals = _at(address + (d + 3 + m * tile + m) * row, like)
    clear = True
    for start in range(0, count, block):
        size = min(block, count - start)
        if not _load(
            x, start * by_point, by_point, by_axis, size, block, d, test, border, limit, y, away
        ):
            clear = False
            break
        if centre:
            _move(y, size, block, d, c)
        for i in range(m * block):
            totals[i] = 0
        for first in range(0, n, run * run * tile):
            for i in range(m * block):
                stretches[i] = 0
            for second in range(first, min(first + run * run * tile, n), run * tile):
                for i in range(m * tile * block):
                    lanes[i] = 0
                for i in range(second, min(second + run * tile, n)):
                    _token(
                        F,
                        i * d,
                        d,
                        y,
                        C,
                        i,
                        q,
                        n,
                        m,
                        chebyshev,
                        t,
                        lanes,
                        (i - second) % tile,
                        tile,
                        size,
                        block,
                    )
                for k in range(m):
                    lane = k * tile * block
                    for other in range(lane + block, lane + tile * block, block):
                        for p in range(size):
                            lanes[lane + p] = lanes[lane + p] + lanes[other + p]
                    for p in range(size):
                        stretches[k * block + p] = stretches[k * block + p] + lanes[lane + p]
            for i in range(m * block):
                totals[i] = totals[i] + stretches[i]
        for k in range(m):
            constant = b[k]
            for p in range(size):
                out[k * spacing + start + p] = totals[k * block + p] + constant
    return clear


@_part
def _token(F, f, d, y, C, i, q, n, m, chebyshev, t, lanes, lane, tile, size, block):
    """Add P_i(t) to a lane of every output, t = Σ_j F_j y_j from left to right."""
    c0 = F[f]
    for p in range(size):
        t[p] = c0 * y[p]
    j = 1
    while j + 4 <= d:
        c0, c1, c2, c3 = F[f + j], F[f + j + 1], F[f + j + 2], F[f + j + 3]
        j0, j1, j2, j3 = j * block, (j + 1) * block, (j + 2) * block, (j + 3) * block
        for p in range(size):
            t[p] = t[p] + c0 * y[j0 + p] + c1 * y[j1 + p] + c2 * y[j2 + p] + c3 * y[j3 + p]
        j += 4
    while j < d:
        c0, j0 = F[f + j], j * block
        for p in range(size):
            t[p] = t[p] + c0 * y[j0 + p]
        j += 1
    h, g = block, 2 * block
    for k in range(m):
        c, s, place = k * q * n + i, q - 1, (k * tile + lane) * block
        c0 = C[c + s * n]
        for p in range(size):
            t[h + p] = c0
            t[g + p] = 0
        if chebyshev:  # b_s = 2t b_{s+1} + (c_s − b_{s+2})
            while s >= 2:
                s -= 2
                c0, c1 = C[c + s * n], C[c + (s + 1) * n]
                for p in range(size):
                    twice = t[p] + t[p]
                    above = twice * t[h + p] + (c1 - t[g + p])
                    t[h + p] = twice * above + (c0 - t[h + p])
                    t[g + p] = above
            if s == 1:
                c0 = C[c]
                for p in range(size):
                    above = t[h + p]
                    t[h + p] = (t[p] + t[p]) * above + (c0 - t[g + p])
                    t[g + p] = above
        else:
            while s >= 4:
                s -= 4
                c0, c1, c2, c3 = (
                    C[c + s * n],
                    C[c + (s + 1) * n],
                    C[c + (s + 2) * n],
                    C[c + (s + 3) * n],
                )
                for p in range(size):
                    t[h + p] = c0 + t[p] * (c1 + t[p] * (c2 + t[p] * (c3 + t[p] * t[h + p])))
            while s > 0:
                s -= 1
                c0 = C[c + s * n]
                for p in range(size):
                    t[h + p] = c0 + t[p] * t[h + p]
        for p in range(size):  # no zero is subtracted but in powers, where nothing changes
            lanes[place + p] = lanes[place + p] + (t[p] * t[h + p] - t[g + p])
