"""Registers that ReLUs write.

In every case of the values that a register's units read, a unit is on, off, or, within the error of
what it reads, undecided. Units that are on make an affine function of what was read. Where its
coefficients cancel, so do the errors: a ramp that is passed is exactly 1, whatever the error of the
number below it.

In a float format, a sum of multiples of 2^e that stays below 2^(e + p) is exact in any order; a
float in an interval away from zero is a multiple of the spacing at its lower end. Where both hold
for what a unit reads, its value has no rounding error, and an affine function that is constant is
that constant, to the last bit. Elsewhere the sum is charged γ_k of its terms' sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from exactformer.core.layers import RELU, FeedForward
from exactformer.errors import CertificationError
from exactformer.programs.proof.arithmetic import (
    NEVER,
    UNKNOWN,
    Arithmetic,
    Array,
    Exponents,
    lowest_bits,
    times,
    up,
)
from exactformer.programs.proof.cases import cases_of
from exactformer.programs.proof.state import Held, Root, State
from exactformer.programs.witness import Flags, Integers

MOST_TOGETHER = 4_000_000
"""Numbers in a table of cases and directions."""


def prove_feed_forward(state: State, layer: FeedForward, registers: Sequence[int]) -> None:
    """Prove what registers hold that a layer writes; they are noted in the state."""
    if layer.activation != RELU or layer.successive is not None:
        raise CertificationError("a feed-forward layer of a program has ReLUs, in one layer")
    if layer.b2.entries:
        raise CertificationError("a feed-forward layer adds a constant to the stream")
    weights = [state.arithmetic.weights(matrix) for matrix in (layer.w1, layer.b1, layer.w2)]
    (w1, _), (b1, _), (w2, _) = weights
    if (((w1 != 0).any(1) | (b1[:, 0] != 0)) & ~(w2 != 0).any(0)).any():
        raise CertificationError("a unit writes to no register")
    proven = [_Register(state, number, *weights).prove() for number in registers]
    for number, (centre, radius) in zip(registers, proven, strict=True):
        state.hold(number, centre, radius)


class _Register:
    """One register, and the units that write to it."""

    def __init__(
        self,
        state: State,
        number: int,
        w1: tuple[Array, Array],
        b1: tuple[Array, Array],
        w2: tuple[Array, Array],
    ) -> None:
        self.state, self.number = state, number
        self.register = state.blueprint.registers[number]
        self.directions = np.array(self.register.directions, dtype=np.int64)
        units = np.flatnonzero((w2[0][self.directions] != 0).any(0))
        if not units.size:
            name, format_name = state.name(number), state.arithmetic.name
            raise CertificationError(f"{name}: in {format_name} no unit writes it")
        self.w1, self.e1 = w1[0][units], w1[1][units]
        self.b1, self.eb = b1[0][units, 0], b1[1][units, 0]
        self.w2, self.e2 = (m[np.ix_(self.directions, units)] for m in w2)
        self.read = np.flatnonzero((self.w1 != 0).any(0))
        self.w1, self.e1 = self.w1[:, self.read], self.e1[:, self.read]

    def prove(self) -> tuple[Array, Array]:
        """Return the codes that the register holds, and radii."""
        state = self.state
        held = self._held()
        roots = list(dict.fromkeys(h.root for h in held))
        cases = cases_of(state, roots, self.register.node, self.register.term)
        rows = cases.target
        x, radius = self._inputs(held, cases.columns, len(cases))
        centre, error = state.claimed(self.number)
        if state.blueprint.beginning:
            first, its_radius = self._at_beginning(held)
            x, radius = np.vstack([x, first]), np.vstack([radius, its_radius])
            rows = np.append(rows, len(centre) - 1)
        found = np.zeros(centre.shape)
        lowest = _spacing(state.arithmetic, x, radius)
        few = (self.w2 != 0).sum(1) <= 2
        together = max(1, MOST_TOGETHER // max(1, x.size))
        pairs = np.flatnonzero(few)
        for start in range(0, len(pairs), together):
            at = pairs[start : start + together]
            away = (
                self._pairs(at, x, radius, lowest, centre[np.ix_(rows, at)])
                + error[np.ix_(rows, at)]
            )
            worst = np.zeros((len(found), len(at)))
            np.maximum.at(worst, rows, away)
            found[:, at] = worst
        for one in np.flatnonzero(~few).tolist():
            away = self._direction(one, x, radius, lowest, centre[rows, one], error[rows, one])
            np.maximum.at(found[:, one], rows, away)
        return centre, up(found)

    def _pairs(
        self, at: Integers, x: Array, radius: Array, lowest: Exponents, centre: Array
    ) -> Array:
        """Return how far directions with one or two units each can be from their codes, all at once.

        This is :meth:`_direction` for many: whether the first unit is on, and the second, makes four
        affine functions for every direction.
        """
        arithmetic = self.state.arithmetic
        units = np.zeros((len(at), 2), np.int64)
        w2, e2 = np.zeros((len(at), 2)), np.zeros((len(at), 2))
        for k, direction in enumerate(at.tolist()):
            own = np.flatnonzero(self.w2[direction])
            units[k, : len(own)] = own
            w2[k, : len(own)] = self.w2[direction, own]
            e2[k, : len(own)] = self.e2[direction, own]
        flat = units.ravel()
        shape = (len(x), len(at), 2)
        found = self._units(flat, x, radius, lowest)
        before, away, rounding, total, exact, bits = (part.reshape(shape) for part in found)
        on, off = before - away >= 0, before + away <= 0
        on, doubtful = on & (w2 != 0), ~on & ~off & (w2 != 0)
        both = np.hstack([self.w1[flat], self.b1[flat, None]]).reshape(len(at), 2, -1)
        errors = np.hstack([self.e1[flat], self.eb[flat, None]]).reshape(both.shape)
        result = np.zeros(shape[:2])
        for first in (False, True):
            for second in (False, True):
                here = (on[..., 0] == first) & (on[..., 1] == second)
                if not here.any():
                    continue
                weights, changes = w2 * [first, second], e2 * [first, second]
                slope, slope_error = _slopes(weights, changes, both, errors)
                result = np.where(here, _distance(slope, slope_error, x, radius, centre), result)
        most = np.maximum(before, 0) + away
        parts = np.where(on, rounding, np.where(doubtful, most, 0.0))
        size = np.abs(centre) + result
        result = result + (np.abs(w2) * parts).sum(2)
        if arithmetic.format is not None:
            arithmetic.check_range((np.abs(w2) * total).sum(2), self.state.name(self.number))
            height = (np.abs(w2) * np.where(on | doubtful, most, 0.0)).sum(2)
            own_bits = np.where(exact, bits, UNKNOWN) + lowest_bits(w2)
            own_bits = np.where(on, own_bits, NEVER).min(2)
            bound = np.where(_are_powers(w2).all(1), np.minimum(height, size), height)
            fine = arithmetic.is_exact(up(bound), own_bits) & ~doubtful.any(2)
            result += np.where(fine, 0.0, arithmetic.gamma(3.0) * height + 3 * arithmetic.tiny)
        return np.asarray(result)

    def _units(self, units: Integers, x: Array, radius: Array, lowest: Exponents) -> list[Any]:
        """Return what units have before they are cut off at zero, (cases, units), six tables.

        Their values; how far these can be off, and how far by rounding; the sizes of their terms, added
        up; whether they are exact functions of the floats that they read, and their lowest bits.
        """
        arithmetic = self.state.arithmetic
        w1, b1, e1, eb = (part[units] for part in (self.w1, self.b1, self.e1, self.eb))
        sizes, ones = np.abs(x) + radius, np.ones((len(x), 1))
        before, loss = times(np.hstack([x, ones]), np.hstack([w1, b1[:, None]]).T)
        total = sizes @ np.abs(w1).T + np.abs(b1)
        wrong = loss + radius @ np.abs(w1).T + sizes @ e1.T + eb
        exact, bits = self._exactness(w1, b1, sizes, lowest, total, np.abs(before) + wrong)
        terms = (w1 != 0).sum(1)
        rounding = arithmetic.gamma(terms + 2) * total + (terms + 2) * arithmetic.tiny
        rounding = np.where(exact, 0.0, rounding)
        return [before, up(wrong + rounding), rounding, total, exact, bits]

    def _held(self) -> list[Held]:
        found: list[Held] = []
        for direction in self.read.tolist():
            number = self.state.register_at(direction)
            if number is None or number not in self.state.held:
                raise CertificationError(
                    f"{self.state.name(self.number)} reads direction {direction}, of which nothing is "
                    "known"
                )
            if (held := self.state.held[number]) not in found:
                found.append(held)
        return found

    def _inputs(
        self, held: list[Held], columns: dict[Root, Integers], cases: int
    ) -> tuple[Array, Array]:
        place = {direction: k for k, direction in enumerate(self.read.tolist())}
        x, radius = np.zeros((cases, len(self.read))), np.zeros((cases, len(self.read)))
        for h in held:
            values = columns[h.root] if h.root is not None else np.zeros(cases, np.int64)
            at = np.array([k for k, d in enumerate(h.directions.tolist()) if d in place])
            to = [place[d] for d in h.directions[at].tolist()]
            rows = h.image[values]
            x[:, to], radius[:, to] = h.centre[np.ix_(rows, at)], h.radius[np.ix_(rows, at)]
        return x, radius

    def _at_beginning(self, held: list[Held]) -> tuple[Array, Array]:
        last = [
            Held(h.number, None, np.array([-1]), h.directions, h.centre, h.radius, "") for h in held
        ]
        return self._inputs(last, {}, 1)

    def _direction(
        self, at: int, x: Array, radius: Array, lowest: Exponents, centre: Array, error: Array
    ) -> Array:
        """Return, for every case, how far one direction can be from its code."""
        arithmetic = self.state.arithmetic
        units = np.flatnonzero(self.w2[at])
        w1, b1, w2 = self.w1[units], self.b1[units], self.w2[at, units]
        e1, eb, e2 = self.e1[units], self.eb[units], self.e2[at, units]
        before, away, rounding, total, exact, bits = self._units(units, x, radius, lowest)
        on, off = before - away >= 0, before + away <= 0
        doubtful = ~on & ~off
        result = _affine(on, x, radius, w1, b1, w2, e1, eb, e2, centre)
        value = np.abs(centre) + result
        most = np.maximum(before, 0) + away
        result += (np.abs(w2) * np.where(on, rounding, np.where(doubtful, most, 0.0))).sum(1)
        if arithmetic.format is not None:
            arithmetic.check_range(total @ np.abs(w2), self.state.name(self.number))
            height = (np.abs(w2) * np.where(on | doubtful, most, 0.0)).sum(1)
            own = np.where(on, np.where(exact, bits, UNKNOWN) + lowest_bits(w2), NEVER)
            two = (on.sum(1) <= 2) & _are_powers(w2).all()
            bound = np.where(two, np.minimum(height, value), height)
            fine = arithmetic.is_exact(up(bound), own.min(1, initial=NEVER)) & ~doubtful.any(1)
            lost = arithmetic.gamma(len(units) + 1) * height + (len(units) + 1) * arithmetic.tiny
            result += np.where(fine, 0.0, lost)
        return result + error

    def _exactness(
        self,
        w1: Array,
        b1: Array,
        sizes: Array,
        lowest: Exponents,
        total: Array,
        size: Array,
    ) -> tuple[Flags, Exponents]:
        """Return where units are exact functions of the floats that they read, and their lowest bits.

        One number times a power of two, and a bias: the only rounding is that of the sum, and it is
        exact where the sum is small enough, however large its terms are.
        """
        arithmetic = self.state.arithmetic
        if arithmetic.format is None:
            return np.ones(total.shape, bool), np.zeros(total.shape, np.int64)
        arithmetic.check_range(total, self.state.name(self.number))
        bits = np.empty(total.shape, np.int64)
        bias, bound = lowest_bits(b1), total.copy()
        # Units that read the same directions are taken together.
        reads = w1 != 0
        _, first, group = np.unique(
            np.packbits(reads, axis=1), axis=0, return_index=True, return_inverse=True
        )
        for k, unit in enumerate(first.tolist()):
            own, read = np.flatnonzero(group.ravel() == k), np.flatnonzero(reads[unit])
            weights = w1[np.ix_(own, read)]
            few = (sizes[:, read] > 0).sum(1) <= 1
            power = _are_powers(weights).all(1)
            low = np.full((len(sizes), len(own)), NEVER)
            for at, direction in enumerate(read.tolist()):
                low = np.minimum(low, lowest[:, direction, None] + lowest_bits(weights[:, at]))
            bits[:, own] = np.minimum(low, bias[own])
            less = np.minimum(bound[:, own], size[:, own])
            bound[:, own] = np.where(few[:, None] & power, less, bound[:, own])
        return arithmetic.is_exact(up(bound), bits), bits


def _are_powers(numbers: Array) -> Flags:
    """Return which numbers are powers of two, or their negatives."""
    return np.asarray(np.abs(np.frexp(numbers)[0]) == 0.5)


def _affine(
    on: Flags,
    x: Array,
    radius: Array,
    w1: Array,
    b1: Array,
    w2: Array,
    e1: Array,
    eb: Array,
    e2: Array,
    centre: Array,
) -> Array:
    """Return how far what the units that are on make of the input is from a code, without rounding."""
    result = np.zeros(len(x))
    _, first, back = np.unique(
        np.packbits(on, axis=1), axis=0, return_index=True, return_inverse=True
    )
    order = np.argsort(back.ravel(), kind="stable")
    edges = np.searchsorted(back.ravel()[order], np.arange(len(first) + 1))
    for k, case in enumerate(first):
        rows = order[edges[k] : edges[k + 1]]
        chosen = np.flatnonzero(on[case])
        weights, changes = w2[None, chosen], e2[None, chosen]
        both = np.hstack([w1[chosen], b1[chosen, None]])
        errors = np.hstack([e1[chosen], eb[chosen, None]])
        slope, loss = times(weights, both)
        slope_error = loss + np.abs(weights) @ errors + changes @ (np.abs(both) + errors)
        ones = np.ones((len(rows), 1))
        read = np.flatnonzero(slope[0, :-1])  # what cancels is not rounded either
        here = np.hstack([x[np.ix_(rows, read)], ones, centre[rows, None]])
        factors = np.concatenate([slope[0, read], slope[0, -1:], [-1.0]])
        value, loss = times(here, factors[:, None])
        away = np.abs(value[:, 0]) + loss[:, 0]
        away += radius[rows] @ np.abs(slope[0, :-1])
        away += np.hstack([np.abs(x[rows]) + radius[rows], ones]) @ slope_error[0]
        result[rows] = away
    return result


def _slopes(weights: Array, changes: Array, both: Array, errors: Array) -> tuple[Array, Array]:
    """Return the affine functions of pairs of units, (directions, read + 1), and radii."""
    products = weights[:, :, None] * both
    slope = products.sum(1)
    size = np.abs(products).sum(1)
    lowest = int(lowest_bits(weights).min()) + int(lowest_bits(both).min())
    # A sum that floats round has a size that they round to the limit or beyond.
    lost = 0.0 if size.max(initial=0.0) < np.ldexp(1.0, lowest + 53) else 2.0**-51
    error = size * lost + (np.abs(weights)[:, :, None] * errors).sum(1)
    return slope, error + (changes[:, :, None] * (np.abs(both) + errors)).sum(1)


def _distance(slope: Array, slope_error: Array, x: Array, radius: Array, centre: Array) -> Array:
    """Return how far affine functions of the cases are from codes, (cases, directions)."""
    lines, level = slope[:, :-1], slope[:, -1]
    value = x @ lines.T
    size = np.abs(x) @ np.abs(lines).T
    found = np.abs(value + level - centre)
    total = size + np.abs(level) + np.abs(centre)
    used = np.where(size > 0, lowest_bits(x).min(1, initial=NEVER)[:, None], NEVER)
    bits = np.minimum(used + lowest_bits(lines).min(1, initial=NEVER), lowest_bits(level))
    exact = total < np.ldexp(1.0, np.minimum(bits, lowest_bits(centre)) + 53)
    rounded = np.where(exact, 0.0, total * 2.0**-52 * (slope.shape[1] + 2))
    found = found + rounded + radius @ np.abs(lines).T
    return found + (np.abs(x) + radius) @ slope_error[:, :-1].T + slope_error[:, -1]


def _spacing(arithmetic: Arithmetic, x: Array, radius: Array) -> Exponents:
    """Return exponents of which the actual floats are multiples: those of codes, or of the spacing."""
    if arithmetic.format is None:
        return np.zeros(x.shape, np.int64)
    least = np.nextafter(np.abs(x) - radius, 0.0)
    known = least >= 2.0**arithmetic.format.low
    _, exponent = np.frexp(least)
    spacing = np.where(known, exponent.astype(np.int64) - arithmetic.format.precision, UNKNOWN)
    return np.where(radius > 0, spacing, lowest_bits(x))
