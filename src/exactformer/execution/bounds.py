"""How far rounding can take a blueprint's module from exact arithmetic, in any float format.

Standard model: fl(a ∘ b) = (a ∘ b)(1 + δ) with |δ| ≤ u, plus an absolute error ``tiny`` where a
product underflows. A sum of m terms in *any* order, with or without fused multiply-add, errs by at
most γ_{m−1}·Σ|terms| with γ_k = ku/(1 − ku); a sum of two by u·|result|. Zeros are exact, so only
terms that can differ from zero count; products with a power of two are exact.

For every entry of the stream two numbers are carried: ``size`` ≥ |exact value| on the ball (from the
polynomials of :mod:`symbolic`) and ``error`` ≥ |computed − exact|. Both are rounded outwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2

import numpy as np
from flint import fmpq_poly
from numpy.typing import NDArray

from exactformer.algebra.rational import to_fraction
from exactformer.blueprint import Activation, FeedForward, Matrix
from exactformer.execution.formats import FloatFormat
from exactformer.execution.magnitudes import Array, above, times, total, up
from exactformer.execution.symbolic import BlockRun, HeadRun, SymbolicRun, Token, value_range


@dataclass(frozen=True)
class RoundingBound:
    """A guarantee on |computed − exact| over the ball; ``reason`` says why there is none.

    ``executed`` is for the module's own order of sums, ``any_order`` for every order.
    """

    executed: float | None
    any_order: float | None
    reason: str = ""


@dataclass(frozen=True)
class Entries:
    """Sizes and errors of a table of numbers, and where they are exactly a power of two."""

    size: Array
    error: Array
    power_of_two: NDArray[np.bool_]

    @property
    def computed(self) -> Array:
        """Bounds of what is computed: size plus error."""
        return up(self.size + self.error)


class OverflowsError(Exception):
    """Some number leaves the format, or the selection is not safe in it."""


def rounding_bound(
    run: SymbolicRun, margins: Sequence[Sequence[Array]], target: FloatFormat
) -> RoundingBound:
    """Bound the rounding error of the module in one format, given the proven selection margins."""
    try:
        return _Analysis(run, target).walk(margins)
    except OverflowsError as problem:
        return RoundingBound(None, None, str(problem))


class _Analysis:
    def __init__(self, run: SymbolicRun, target: FloatFormat) -> None:
        self.run, self.format = run, target
        self.u, self.tiny = target.unit, target.tiny
        self.width = run.blueprint.width
        self.rounded: dict[Fraction, tuple[float, float, bool]] = {}

    def walk(self, margins: Sequence[Sequence[Array]]) -> RoundingBound:
        stream = self.embedding()
        for b, block in enumerate(self.run.blocks):
            attended = self.attention(b, block, stream, margins[b])
            stream = self.feed_forward(b, block, attended)
        return self.readout(stream)

    def gamma(self, roundings: Array | int) -> Array:
        """Return γ_k; infinite where so many roundings leave no digit."""
        ku = np.asarray(roundings, dtype=float) * self.u
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(ku < 0.5, up(ku / np.maximum(1 - ku, 0.5), 3), np.inf)

    def weight(self, value: Fraction) -> tuple[float, float, bool]:
        """Return |fl(w)|, |fl(w) − w| and whether products with fl(w) are exact."""
        if value not in self.rounded:
            nearest = self.format.round(value)
            if nearest is None:
                raise OverflowsError(f"a weight is beyond {self.format.name}'s largest number")
            exact = abs(nearest) >= 1 and _is_power_of_two(nearest)
            self.rounded[value] = above(nearest), above(nearest - value), exact
        return self.rounded[value]

    def entries(self, tokens: Sequence[Token], error: Array) -> Entries:
        """Attach the sizes of exact values to errors."""
        size = self.run.sizes.table(tokens, error.shape[1])
        if not np.all(size + error < 0.5 * float(self.format.largest)):
            raise OverflowsError(f"values on the ball come close to {self.format.name}'s largest")
        power = np.zeros(error.shape, dtype=bool)
        for i, token in enumerate(tokens):
            for column, entry in token.items():
                power[i, column] = error[i, column] == 0 and _is_unit(entry)
        return Entries(size, error, power)

    def embedding(self) -> Entries:
        """t = F·x: |Σ F_j x_j| terms are at most ‖F‖·R by Cauchy and Schwarz."""
        blueprint = self.run.blueprint
        error = np.zeros((blueprint.tokens, self.width))
        for i, dimension, value in blueprint.embedding.constant:
            error[i, dimension] += self.weight(value)[1]
        rows = blueprint.embedding.features.by_row
        radius = above(self.run.radius)
        for i, reach in enumerate(self.run.sizes.reach):
            row = [self.weight(value) for _, value in rows.get(i, [])]
            change = up(np.sqrt(np.sum(np.square([c for _, c, _ in row]))), len(row) + 4) * radius
            inexact = any(not exact for _, _, exact in row)
            roundings = max(len(row) - 1, 0) + inexact
            products = up(np.asarray(above(reach) + change), 2)
            noise = self.gamma(roundings) * products + (len(row) * self.tiny if inexact else 0)
            error[i, blueprint.embedding.dimension] += float(up(np.asarray(change + noise), 6))
        return self.entries(self.run.tokens, error)

    def linear(self, matrix: Matrix, stream: Entries, extra: Matrix | None = None) -> Array:
        """Return the error of W·z (+ b) for every token, any order of summation."""
        n = len(stream.size)
        error = np.zeros((n, matrix.rows))
        biases = {} if extra is None else {i: self.weight(v) for i, _, v in extra}
        rows = matrix.by_row
        single = [r for r, row in rows.items() if len(row) == 1 and r not in biases]
        if single:
            columns = [rows[r][0][0] for r in single]
            size, change, exact = (
                np.array(c) for c in zip(*(self.weight(rows[r][0][1]) for r in single), strict=True)
            )
            product = times(stream.computed[:, columns], size)
            rounding = np.where(exact | (product == 0), 0.0, up(self.u * product + self.tiny, 2))
            error[:, single] = up(
                times(stream.error[:, columns], size)
                + times(stream.size[:, columns], change)
                + rounding,
                4,
            )
        for r in set(rows) | set(biases):
            if r not in single:
                error[:, r] = self._combination(rows.get(r, []), biases.get(r), stream)
        return error

    def _combination(
        self,
        row: list[tuple[int, Fraction]],
        bias: tuple[float, float, bool] | None,
        stream: Entries,
    ) -> Array:
        terms = [
            (self.weight(value), stream.size[:, c], stream.error[:, c], stream.computed[:, c])
            for c, value in row
        ]
        n = len(stream.size)
        error, absolute, count, inexact = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        for (weight, change, exact), size, mistake, computed in terms:
            product = times(computed, np.full(n, weight))
            error = error + times(mistake, np.full(n, weight)) + times(size, np.full(n, change))
            absolute = absolute + product
            count += product > 0
            inexact += 0 if exact else product > 0
        if bias is not None:
            error, absolute, count = error + bias[1], absolute + bias[0], count + (bias[0] > 0)
        roundings = np.maximum(count - 1, 0) + (inexact > 0)
        absolute = up(absolute, len(row) + 2)
        noise = up(self.gamma(roundings) * absolute + inexact * self.tiny, 3)
        return up(error + noise, 2 * len(row) + 4)

    def attention(
        self, b: int, block: BlockRun, stream: Entries, margins: Sequence[Array]
    ) -> Entries:
        layer = self.run.blueprint.blocks[b].attention
        error, absolute = stream.error.copy(), stream.computed
        count = (stream.computed > 0).astype(float)
        for head, run, margin in zip(layer.heads, block.heads, margins, strict=True):
            queries = self.entries(run.queries, self.linear(head.query, stream))
            keys = self.entries(run.keys, self.linear(head.key, stream))
            values = self.entries(run.values, self.linear(head.value, stream))
            own, other = self.scores(queries, keys)
            if not np.all(margin > up(own + other)):
                raise OverflowsError(
                    f"block {b + 1}: in {self.format.name} rounding could change which token is "
                    f"selected (margin {float(margin.min()):.2g})"
                )
            score = self._scores_size(run)
            sum_size = up(score + own)[:, None]
            product = times(np.broadcast_to(sum_size, values.size.shape), values.computed)
            inexact = np.where(values.power_of_two, 0.0, up(self.u * product + self.tiny, 2))
            spread = np.broadcast_to(own[:, None], values.size.shape)
            carried = times(spread, values.computed) + times(
                np.broadcast_to(score[:, None], values.size.shape), values.error
            )
            error = up(error + carried + np.where(product > 0, inexact, 0.0), 5)
            absolute = up(absolute + product)
            count += product > 0
        size = self.run.sizes.table(block.attended, self.width)
        return self.entries(block.attended, self._summed(error, absolute, count, size))

    def _scores_size(self, run: HeadRun) -> Array:
        weights: list[Token] = [{0: weight} for weight in run.weights]
        return self.run.sizes.table(weights, 1)[:, 0]

    def scores(self, queries: Entries, keys: Entries) -> tuple[Array, Array]:
        """Return the error of each token's score with itself, and of any with another token."""
        product = times(queries.computed, keys.computed)
        exact = queries.power_of_two | keys.power_of_two
        carried = times(queries.error, keys.computed) + times(queries.size, keys.error)
        rounding = np.where(exact | (product == 0), 0.0, up(self.u * product + self.tiny, 2))
        count = (product > 0).sum(axis=1)
        own = total(up(carried + rounding, 4), 1)
        own = up(own + self.gamma(np.maximum(count - 1, 0)) * total(product, 1), 3)
        # Against another token only rows count that several tokens use.
        shared = ((queries.computed > 0) | (keys.computed > 0)).sum(axis=0) > 1
        q, k = (
            Entries(e.size[:, shared], e.error[:, shared], e.power_of_two[:, shared])
            for e in (queries, keys)
        )
        top = np.broadcast_to(k.computed.max(axis=0, initial=0.0), q.size.shape)
        slip = np.broadcast_to(k.error.max(axis=0, initial=0.0), q.size.shape)
        cross = times(q.computed, top)
        error = total(times(q.error, top) + times(q.size, slip), 1)
        noise = self.gamma(q.size.shape[1]) * total(cross, 1) + q.size.shape[1] * self.tiny
        return own, up(error + np.where(cross.sum(axis=1) > 0, noise, 0.0), 4)

    def _summed(self, error: Array, absolute: Array, count: Array, size: Array) -> Array:
        """Add the rounding of a sum of ``count`` terms: by its result if two, by all if more."""
        pair = up(self.u * (size + error), 3)
        several = up(self.gamma(np.maximum(count - 1, 0)) * absolute, 3)
        noise = np.where(count < 2, 0.0, np.where(count == 2, pair, several))
        return up(error + noise)

    def feed_forward(self, b: int, block: BlockRun, stream: Entries) -> Entries:
        layer = self.run.blueprint.blocks[b].feed_forward
        raw = self.linear(layer.w1, stream, layer.b1)
        hidden = self.entries(block.hidden, self._activate(layer, block, raw))
        change = self.linear(layer.w2, hidden)
        weights = np.zeros((self.width, layer.w1.rows))
        for i, j, value in layer.w2:
            weights[i, j] = self.weight(value)[0]
        product = times(hidden.computed[:, None, :], weights[None, :, :])
        error, absolute = stream.error + change, stream.computed + product.sum(axis=2)
        count = (stream.computed > 0).astype(float) + (product > 0).sum(axis=2)
        for dimension, _, value in layer.b2:
            bias, wrong, _ = self.weight(value)
            error[:, dimension] += wrong
            absolute[:, dimension] += bias
            count[:, dimension] += 1
        size = self.run.sizes.table(block.output, self.width)
        terms = layer.w1.rows + 4
        return self.entries(
            block.output, self._summed(up(error, terms), up(absolute, terms), count, size)
        )

    def _activate(self, layer: FeedForward, block: BlockRun, error: Array) -> Array:
        """σ does not enlarge errors; a unit that stays below zero outputs an exact zero."""
        if layer.activation is not Activation.RELU:
            return error
        error = error.copy()
        for i, token in enumerate(block.raw):
            for unit, entry in token.items():
                _, high = value_range(entry, self.run.sizes.reach[i])
                if high < 0 and above(high) > error[i, unit]:
                    error[i, unit] = 0.0
        return error

    def readout(self, stream: Entries) -> RoundingBound:
        readout = self.run.blueprint.readout
        weight, change = np.zeros_like(stream.size), np.zeros_like(stream.size)
        inexact = np.zeros(stream.size.shape, dtype=bool)
        for i, dimension, value in readout.beta:
            weight[i, dimension], change[i, dimension], exact = self.weight(value)
            inexact[i, dimension] = not exact
        product = times(weight, stream.computed)
        rounding = np.where(inexact & (product > 0), up(self.u * product + self.tiny, 2), 0.0)
        carried = times(weight, stream.error) + times(change, stream.size) + rounding
        error = float(up(np.asarray(carried.sum()), carried.size))
        absolute = float(up(np.asarray(product.sum()), product.size))
        if not absolute < 0.5 * float(self.format.largest):
            raise OverflowsError(f"the result can leave {self.format.name} on this ball")
        terms = int((product > 0).sum())
        tree = ceil(log2(self.width)) + ceil(log2(stream.size.shape[0]))
        bias, wrong, _ = self.weight(readout.bias)

        def bound(roundings: int) -> float:
            inner = error + float(self.gamma(roundings)) * absolute
            last = self.u * (absolute + inner + bias) if bias and terms else 0.0
            return float(up(np.asarray(inner + wrong + last), 8))

        in_any_order = bound(max(terms - 1, 0))
        return RoundingBound(min(bound(min(tree, max(terms - 1, 0))), in_any_order), in_any_order)


def _is_power_of_two(value: Fraction) -> bool:
    numerator, denominator = abs(value.numerator), value.denominator
    return numerator & (numerator - 1) == 0 and denominator & (denominator - 1) == 0


def _is_unit(entry: fmpq_poly) -> bool:
    return entry.length() == 1 and abs(entry[0]) >= 1 and _is_power_of_two(to_fraction(entry[0]))
