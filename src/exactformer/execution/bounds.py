"""How far rounding can take a blueprint's module from exact arithmetic, in any float format.

Standard model: fl(a ∘ b) = (a ∘ b)(1 + δ) with |δ| ≤ u. A sum of m terms in *any* order, with or
without fused multiply-add, errs by at most γ_{m−1}·Σ|terms| with γ_k = ku/(1 − ku); a sum of two by
u·|result|. Zeros are exact, so only terms that can differ from zero count; products with a power of
two are exact. Underflow may flush a result or an operand to zero, as the matrix units of some
processors do: a product a·b then errs by at most tiny·(1 + |a| + |b|), a sum of two by 3·tiny.

For every entry of the stream two numbers are carried: ``size`` ≥ |exact value| on the domain (from the
polynomials of :mod:`symbolic`) and ``error`` ≥ |computed − exact|. Both are rounded outwards. No sum
may come near the largest number even in absolute terms, so that no order of summation overflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isfinite, log2

import numpy as np
from numpy.typing import NDArray

from exactformer.blueprint import Activation, FeedForward, Matrix, Readout
from exactformer.execution.formats import FloatFormat
from exactformer.execution.magnitudes import Array, CoordinateSizes, above, below, times, total, up
from exactformer.execution.symbolic import BlockRun, HeadRun, SymbolicRun, Token, value_range

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RoundingBound:
    """A guarantee on |computed − exact| over the domain; ``reason`` says why there is none.

    ``executed`` is for the module's own order of sums, ``any_order`` for every order.
    """

    executed: float | None
    any_order: float | None
    reason: str = ""

    @classmethod
    def worst(cls, bounds: Iterable[RoundingBound]) -> RoundingBound:
        """Return what holds for every output."""
        found = list(bounds)
        executed, any_order = [b.executed for b in found], [b.any_order for b in found]
        reason = next((b.reason for b in found if b.reason), "")
        return cls(_largest(executed), _largest(any_order), reason)


@dataclass(frozen=True)
class Entries:
    """Sizes and errors of a table of numbers.

    ``unit`` marks exact constants ±2^k ≥ 1, with which products are exact, ``safe`` exact constants
    that no underflow touches.
    """

    size: Array
    error: Array
    unit: Mask
    safe: Mask

    @cached_property
    def computed(self) -> Array:
        """Bounds of what is computed: size plus error."""
        return up(self.size + self.error)

    @property
    def clean(self) -> Entries:
        """What is computed, taken as given: for errors that arise from here on."""
        return Entries(self.computed, np.zeros_like(self.error), self.unit, self.safe)

    def columns(self, kept: Mask) -> Entries:
        """Return some of the columns."""
        size, error = self.size[:, kept], self.error[:, kept]
        return Entries(size, error, self.unit[:, kept], self.safe[:, kept])


class OverflowsError(Exception):
    """Some number leaves the format, or the selection is not safe in it."""


def rounding_bound(
    run: SymbolicRun, margins: Sequence[Sequence[Array]], target: FloatFormat
) -> RoundingBound:
    """Bound the rounding error of the module in one format, given the proven selection margins."""
    try:
        return Analysis(run, target).walk(margins)
    except OverflowsError as problem:
        return RoundingBound(None, None, str(problem))


class Analysis:
    """The standard model of one format, applied to one run; subclasses know other layers."""

    def __init__(self, run: SymbolicRun, target: FloatFormat) -> None:
        self.run, self.format = run, target
        self.u, self.tiny = target.unit, target.tiny
        # Underflow of a product and of a sum, with room for what later roundings add to it.
        self.underflow, self.flush = 2 * target.tiny, 4 * target.tiny
        self.width = run.blueprint.width
        self.rounded: dict[Fraction, tuple[float, float, bool]] = {}

    def walk(self, margins: Sequence[Sequence[Array]]) -> RoundingBound:
        """Follow the stream from the input to the outputs."""
        stream = self.embedding()
        for b, block in enumerate(self.run.blocks):
            attended = self.attention(b, block, stream, margins[b])
            stream = self.feed_forward(b, block, attended)
        outputs = self.run.blueprint.readouts
        return RoundingBound.worst(self.readout(readout, stream) for readout in outputs)

    def gamma(self, roundings: Array | int) -> Array:
        """Return γ_k; infinite where so many roundings leave no digit."""
        ku = np.asarray(roundings, dtype=float) * self.u
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(ku < 0.5, up(ku / np.maximum(1 - ku, 0.5), 3), np.inf)

    def fits(self, absolute: Array, what: str = "values on the domain come") -> None:
        """Refuse sums whose terms add up to half the largest number: partial sums could overflow."""
        if not np.all(absolute < 0.5 * float(self.format.largest)):
            raise OverflowsError(f"{what} close to {self.format.name}'s largest number")

    def weight(self, value: Fraction) -> tuple[float, float, bool]:
        """Return |fl(w)|, |fl(w) − w| and whether products with fl(w) are exact, underflow apart."""
        if value not in self.rounded:
            nearest = self.format.round(value)
            if nearest is None:
                raise OverflowsError(f"a weight is beyond {self.format.name}'s largest number")
            exact = _is_power_of_two(nearest)
            flushed = abs(nearest) < Fraction(self.tiny)  # it may be read as zero
            change = above(value if flushed else nearest - value)
            self.rounded[value] = above(nearest), change, exact
        return self.rounded[value]

    def entries(self, tokens: Sequence[Token], error: Array) -> Entries:
        """Attach the sizes of exact values to errors."""
        size, constant = self.run.sizes.tables(tokens, error.shape[1])
        self.fits(size + error)
        exact = (error == 0) & (constant > 0)
        unit = exact & (constant >= 1) & (np.frexp(constant)[0] == 0.5)
        return Entries(size, error, unit, exact & (constant >= self.tiny))

    def product_noise(self, product: Array, exact: Mask, operands: Array, safe: Mask) -> Array:
        """Bound the rounding of products: none where ``exact``; underflow unless ``safe``."""
        rounding = np.where(exact, 0.0, self.u * product)
        noise = up(rounding + self.underflow * (1 + operands), 4)
        return np.where((product == 0) | (exact & safe), 0.0, noise)

    def weighted_noise(
        self, product: Array, weight: Array, exact: Mask, unit: Mask, safe: Mask
    ) -> Array:
        """The same for products of weights and entries; a weight below 1 may make any underflow."""
        return self.product_noise(product, exact | unit, weight, unit | (safe & (weight >= 1)))

    def sum_noise(self, count: Array, absolute: Array) -> Array:
        """Bound the rounding of sums of ``count`` terms, in any order."""
        additions = np.maximum(count - 1, 0)
        return up(times(self.gamma(additions), absolute) + additions * self.flush, 2)

    def embedding(self) -> Entries:
        """t = F·x − F·c, summed in any order; of x only its absolute size on the domain counts."""
        blueprint = self.run.blueprint
        error = np.zeros((blueprint.tokens, self.width))
        constant = np.zeros(blueprint.tokens)
        for i, dimension, value in blueprint.embedding.constant:
            weight, wrong, _ = self.weight(value)
            error[i, dimension] = wrong
            if dimension == blueprint.embedding.dimension:
                constant[i] = weight
        rows = blueprint.embedding.features.by_row
        sizes = CoordinateSizes(self.run.domain)
        for i in range(blueprint.tokens):
            columns = [j for j, _ in rows.get(i, [])]
            row = [self.weight(value) for _, value in rows.get(i, [])]
            if not row:
                continue
            change = np.asarray(sizes.absolute(columns, [c for _, c, _ in row]))
            products = sizes.absolute(columns, [weight for weight, _, _ in row])
            count = len(row) + (constant[i] > 0) + any(not exact for _, _, exact in row)
            absolute = up(products + constant[i], 2)
            self.fits(absolute)
            underflow = self.underflow * sum(1 + weight for weight, _, _ in row)
            noise = self.sum_noise(np.asarray(float(count)), absolute)
            own = up(change + noise + underflow, len(row) + 4)
            error[i, blueprint.embedding.dimension] += float(up(own, 2))
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
            self.fits(product)
            unit, safe = stream.unit[:, columns], stream.safe[:, columns]
            noise = self.weighted_noise(product, size, exact, unit, safe)
            error[:, single] = up(
                times(stream.error[:, columns], size)
                + times(stream.size[:, columns], change)
                + noise,
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
        n = len(stream.size)
        error, absolute, count = np.zeros(n), np.zeros(n), np.zeros(n)
        for c, value in row:
            weight, change, exact = (np.full(n, part) for part in self.weight(value))
            product = times(stream.computed[:, c], weight)
            unit, safe = stream.unit[:, c], stream.safe[:, c]
            noise = self.weighted_noise(product, weight, exact, unit, safe)
            error += times(stream.error[:, c], weight) + times(stream.size[:, c], change) + noise
            absolute += product
            count += product > 0
        if bias is not None:
            error, absolute, count = error + bias[1], absolute + bias[0], count + (bias[0] > 0)
        absolute = up(absolute, len(row) + 2)
        self.fits(absolute)
        return up(error + self.sum_noise(count, absolute), 3 * len(row) + 4)

    def attention(
        self, b: int, block: BlockRun, stream: Entries, margins: Sequence[Array]
    ) -> Entries:
        """Return the stream after attention in which every token selects itself."""
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
            shape = values.size.shape
            score = np.broadcast_to(self._scores_size(run)[:, None], shape)
            slip = np.broadcast_to(own[:, None], shape)
            weight = up(score + slip)
            product = times(weight, values.computed)
            operands = up(weight + values.computed)
            noise = self.product_noise(product, values.unit, operands, np.zeros(shape, bool))
            carried = times(slip, values.computed) + times(score, values.error)
            error = up(error + carried + noise, 5)
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
        exact, safe = queries.unit | keys.unit, queries.safe & keys.safe
        operands = up(queries.computed + keys.computed)
        noise = self.product_noise(product, exact, operands, safe)
        carried = times(queries.error, keys.computed) + times(queries.size, keys.error)
        absolute = total(product, 1)
        self.fits(absolute, "scores come")
        own = total(up(carried + noise, 2), 1)
        own = up(own + self.sum_noise((product > 0).sum(axis=1), absolute))
        # Against another token only rows count that several tokens use.
        shared = ((queries.computed > 0) | (keys.computed > 0)).sum(axis=0) > 1
        q, k = queries.columns(shared), keys.columns(shared)
        top = np.broadcast_to(k.computed.max(axis=0, initial=0.0), q.size.shape)
        slip = np.broadcast_to(k.error.max(axis=0, initial=0.0), q.size.shape)
        cross = times(q.computed, top)
        never = np.zeros(cross.shape, bool)
        noise = self.product_noise(cross, never, up(q.computed + top), never)
        absolute = total(cross, 1)
        self.fits(absolute, "scores come")
        other = total(times(q.error, top) + times(q.size, slip) + noise, 1)
        return own, up(other + self.sum_noise((cross > 0).sum(axis=1), absolute), 3)

    def _summed(self, error: Array, absolute: Array, count: Array, size: Array) -> Array:
        """Add the rounding of a sum of ``count`` terms: by its result if two, by all if more."""
        self.fits(absolute)
        pair = up(self.u * (size + error) + self.flush, 4)
        noise = np.where(
            count < 2, 0.0, np.where(count == 2, pair, self.sum_noise(count, absolute))
        )
        return up(error + noise)

    def feed_forward(self, b: int, block: BlockRun, stream: Entries) -> Entries:
        """Return the stream after the feed-forward layer."""
        layer = self.run.blueprint.blocks[b].feed_forward
        raw = self.linear(layer.w1, stream, layer.b1)
        hidden = self.entries(block.hidden, self._activate(layer, block, raw))
        # Units that follow their input carry its errors as a matrix would: z − 2z errs as −z does.
        follows = self._follows(layer, block, raw)
        arising = self.linear(layer.w1, stream.clean, layer.b1)
        own = np.where(follows, arising, hidden.error)
        change = self.linear(layer.w2, Entries(hidden.computed, own, hidden.unit, hidden.safe))
        carried = _carried(layer, follows, stream.error)
        weights = np.zeros((self.width, layer.w1.rows))
        for i, j, value in layer.w2:
            weights[i, j] = self.weight(value)[0]
        product = times(hidden.computed[:, None, :], weights[None, :, :])
        error, absolute = carried + change, stream.computed + product.sum(axis=2)
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
                if high < 0 and below(-high) > error[i, unit]:
                    error[i, unit] = 0.0
        return error

    def _follows(self, layer: FeedForward, block: BlockRun, error: Array) -> Mask:
        """Return which units are σ(s) = s for sure, in exact arithmetic and as computed."""
        if layer.activation is not Activation.RELU:
            return np.ones(error.shape, dtype=bool)
        follows = np.zeros(error.shape, dtype=bool)
        for i, token in enumerate(block.hidden):
            for unit, entry in token.items():
                low, _ = value_range(entry, self.run.sizes.reach[i])
                follows[i, unit] = below(low) > error[i, unit]
        return follows

    def readout(self, readout: Readout, stream: Entries) -> RoundingBound:
        """Bound one output."""
        weight, change = np.zeros_like(stream.size), np.zeros_like(stream.size)
        exact = np.zeros(stream.size.shape, dtype=bool)
        for i, dimension, value in readout.beta:
            weight[i, dimension], change[i, dimension], exact[i, dimension] = self.weight(value)
        product = times(weight, stream.computed)
        noise = self.weighted_noise(product, weight, exact, stream.unit, stream.safe)
        carried = times(weight, stream.error) + times(change, stream.size) + noise
        error = float(up(np.asarray(carried.sum()), carried.size + 2))
        absolute = float(up(np.asarray(product.sum()), product.size))
        bias, wrong, _ = self.weight(readout.bias)
        self.fits(np.asarray(absolute + bias), "the result can come")
        terms = int((product > 0).sum())
        tree = ceil(log2(self.width)) + ceil(log2(stream.size.shape[0]))

        def summed(additions: int, size: float) -> float:
            noise = float(times(self.gamma(additions), np.asarray(size)))
            return float(up(np.asarray(noise + terms * self.flush), 3))

        # As executed: products by a tree, the bias last. Otherwise the bias may come anywhere.
        inner = error + summed(min(tree, max(terms - 1, 0)), absolute)
        last = self.u * (absolute + inner + bias) + self.flush if bias and terms else 0.0
        executed = float(up(np.asarray(inner + last + wrong), 8))
        others = max(terms - 1, 0) + (1 if bias and terms else 0)
        any_order = float(up(np.asarray(error + summed(others, absolute + bias) + wrong), 8))
        if not isfinite(executed):
            raise OverflowsError(f"sums of {terms:,} terms leave no digit of {self.format.name}")
        if isfinite(any_order):
            return RoundingBound(min(executed, any_order), any_order)
        reason = f"in some order a sum of {terms:,} terms leaves no digit of {self.format.name}"
        return RoundingBound(executed, None, reason)


def _carried(layer: FeedForward, follows: Mask, error: Array) -> Array:
    """Return |I + W_2 D W_1| times the errors of every token, D the units that follow their input."""
    carried = error.copy()
    for pattern in np.unique(follows, axis=0):
        tokens = (follows == pattern).all(axis=1)
        for row, units in layer.w2.by_row.items():
            entries = {row: Fraction(1)}
            for unit, outer in units:
                for column, inner in layer.w1.by_row.get(unit, []) if pattern[unit] else ():
                    entries[column] = entries.get(column, Fraction(0)) + outer * inner
            terms = [times(error[tokens, c], np.asarray(above(v))) for c, v in entries.items()]
            carried[tokens, row] = up(np.sum(terms, axis=0), len(terms))
    return carried


def _largest(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _is_power_of_two(value: Fraction) -> bool:
    numerator, denominator = abs(value.numerator), value.denominator
    return numerator & (numerator - 1) == 0 and denominator & (denominator - 1) == 0
