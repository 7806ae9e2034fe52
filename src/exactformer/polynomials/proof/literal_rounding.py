"""Bounds of the rounding errors of a blueprint's literal module, in any float format.

Standard model: fl(a ∘ b) = (a ∘ b)(1 + δ) with |δ| ≤ u. A sum of m terms in *any* order, with or
without fused multiply-add, errs by at most γ_{m−1}·Σ|terms| with γ_k = ku/(1 − ku); a sum of two by
u·|result|. Zeros are exact, so only terms that can differ from zero count; products with a power of
two are exact. Underflow may flush a result or an operand to zero, as the matrix units of some
processors do: a product a·b then errs by at most tiny·(1 + |a| + |b|), a sum of two by 3·tiny.

For every entry of the stream two numbers are carried: ``size`` ≥ |exact value| on the domain (from the
polynomials of :mod:`symbolic`) and ``error`` ≥ |computed − exact|, both of a type that rounds up. No
sum may come near the largest number even in absolute terms, so that no order of summation overflows.
Tables are folded (:mod:`exactformer.polynomials.proof.folded_tables`): dimensions that no two tokens
share stand in one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isfinite, log2

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exactformer.core.arrays import Array
from exactformer.core.formats import FloatFormat
from exactformer.core.layers import RELU, FeedForward, Readout
from exactformer.core.matrix import Matrix
from exactformer.core.upper import Mask, Upper, above, below, gamma
from exactformer.core.words import at_least
from exactformer.polynomials.proof.folded_tables import Columns, FoldedMatrix
from exactformer.polynomials.proof.magnitudes import CoordinateSizes, alike
from exactformer.polynomials.proof.shared_polynomials import Token
from exactformer.polynomials.proof.symbolic import BlockRun, SymbolicRun


@dataclass(frozen=True)
class RoundingBound:
    """A guarantee on |computed − exact| over the domain; ``reason`` says why there is none."""

    value: float | None
    reason: str = ""

    @classmethod
    def worst(cls, bounds: Iterable[RoundingBound]) -> RoundingBound:
        """Return what holds for every output."""
        found = list(bounds)
        known = [bound.value for bound in found if bound.value is not None]
        reason = next((b.reason for b in found if b.reason), "")
        return cls(max(known) if len(known) == len(found) else None, reason)


@dataclass(frozen=True)
class Entries:
    """Sizes and errors of a table of numbers.

    ``unit`` marks exact constants ±2^k ≥ 1, with which products are exact, ``safe`` exact constants
    that no underflow touches.
    """

    size: Upper
    error: Upper
    unit: Mask
    safe: Mask

    @cached_property
    def computed(self) -> Upper:
        """Bounds of what is computed: size plus error."""
        return self.size + self.error

    @property
    def clean(self) -> Entries:
        """What is computed, taken as given: for errors that arise from here on."""
        return Entries(self.computed, Upper.zeros(self.error.shape), self.unit, self.safe)

    def columns(self, kept: Mask) -> Entries:
        """Return some of the columns."""
        size, error = self.size[:, kept], self.error[:, kept]
        return Entries(size, error, self.unit[:, kept], self.safe[:, kept])


class OverflowsError(Exception):
    """Some number leaves the format, or the selection is not safe in it."""


@np.errstate(all="ignore")
def rounding_bound(
    run: SymbolicRun, margins: Sequence[Sequence[Array]], target: FloatFormat
) -> RoundingBound:
    """Bound the rounding error of the module in one format, given the proven selection margins."""
    try:
        return Analysis(run, target).walk(margins)
    except OverflowsError as problem:
        return RoundingBound(None, str(problem))


class Analysis:
    """The standard model of one format, applied to one run; subclasses know other layers."""

    def __init__(self, run: SymbolicRun, target: FloatFormat) -> None:
        self.run, self.format = run, target
        self.u, self.tiny = target.unit, target.tiny
        self.limit = float(target.largest) / 2
        # Underflow of a product and of a sum, with room for what later roundings add to it.
        self.underflow, self.flush = 2 * target.tiny, 4 * target.tiny
        self.folding, self.width = run.folding, run.blueprint.width
        self.rounded: dict[tuple[int, int], tuple[float, float, bool]] = {}

    def walk(self, margins: Sequence[Sequence[Array]]) -> RoundingBound:
        """Follow the stream from the input to the outputs."""
        stream = self.embedding()
        for b, block in enumerate(self.run.blocks):
            attended = self.attention(b, block, stream, margins[b])
            stream = self.feed_forward(b, block, attended)
        outputs = self.folding.readouts
        return RoundingBound.worst(self.readout(readout, stream) for readout in outputs)

    def gamma(self, roundings: Upper | ArrayLike) -> Upper:
        """Return γ_k in this format."""
        return gamma(roundings, self.u)

    def fits(self, absolute: Upper, what: str = "values on the domain come") -> None:
        """Refuse sums whose terms add up to half the largest number: partial sums could overflow."""
        if not np.all(absolute < self.limit):
            raise OverflowsError(f"{what} close to {self.format.name}'s largest number")

    def weight(self, value: Fraction) -> tuple[float, float, bool]:
        """Return |fl(w)|, |fl(w) − w| and whether products with fl(w) are exact, underflow apart."""
        key = value.numerator, value.denominator  # whose hashes are quick, unlike a Fraction's
        if key not in self.rounded:
            nearest = self.format.round(value)
            if nearest is None:
                raise OverflowsError(f"a weight is beyond {self.format.name}'s largest number")
            exact = _is_power_of_two(nearest)
            flushed = abs(nearest) < Fraction(self.tiny)  # it may be read as zero
            change = above(value if flushed else nearest - value)
            self.rounded[key] = above(nearest), change, exact
        return self.rounded[key]

    def weights(self, values: Iterable[Fraction], *shape: int) -> tuple[Upper, Upper, Mask]:
        """Return the same of many weights, as tables of a shape."""
        found = np.array([self.weight(value) for value in values], dtype=float).reshape(*shape, 3)
        return Upper(found[..., 0]), Upper(found[..., 1]), found[..., 2] > 0

    def entries(
        self, tokens: Sequence[Token], error: Upper, columns: Columns | None = None
    ) -> Entries:
        """Attach the sizes of exact values to errors, by default in the columns of the stream."""
        size, constant = self.run.sizes.tables(tokens, columns or self.folding.columns)
        self.fits(size + error)
        exact = ~error.nonzero
        unit = exact & (constant >= 1) & (np.frexp(constant)[0] == 0.5)
        return Entries(size, error, unit, exact & (constant >= self.tiny))

    def product_noise(self, product: Upper, exact: Mask, operands: Upper, safe: Mask) -> Upper:
        """Bound the rounding of products: none where ``exact``; underflow unless ``safe``."""
        noise = (self.u * product).where(~exact) + self.underflow * (1 + operands)
        return noise.where(product.nonzero & ~(exact & safe))

    def weighted_noise(
        self, product: Upper, weight: Upper, exact: Mask, unit: Mask, safe: Mask
    ) -> Upper:
        """The same for products of weights and entries; a weight below 1 may make any underflow."""
        safe = unit | (safe & (weight.values >= 1))
        return self.product_noise(product, exact | unit, weight, safe)

    def sum_noise(self, count: ArrayLike, absolute: Upper) -> Upper:
        """Bound the rounding of sums of ``count`` terms, in any order."""
        additions: NDArray[np.int_] = np.maximum(np.asarray(count, dtype=int) - 1, 0)
        gammas = self.gamma(np.arange(additions.max(initial=0) + 1))
        return gammas[additions] * absolute + additions * self.flush

    def embedding(self) -> Entries:
        """t = F·x − F·c, summed in any order; of x only its absolute size on the domain counts."""
        embedding, columns = self.run.blueprint.embedding, self.folding.columns
        tokens, feature = self.run.blueprint.tokens, columns.place[embedding.dimension]
        error, count = Upper.zeros((tokens, columns.count)), np.zeros(tokens)
        own, absolute = Upper.zeros(tokens), Upper.zeros(tokens)
        for i, dimension, value in embedding.constant:
            weight, error[i, columns.place[dimension]], _ = self.weight(value)
            if dimension == embedding.dimension:
                absolute[i], count[i] = weight, weight > 0
        sizes = CoordinateSizes(self.run.domain)
        for rows, coordinates, values in alike(embedding.features):
            weights, changes, exact = self.weights(values, *coordinates.shape)
            own[rows] = sizes.absolute(coordinates, changes) + self.underflow * (1 + weights).sum(1)
            absolute[rows] = absolute[rows] + sizes.absolute(coordinates, weights)
            count[rows] += coordinates.shape[1] + ~exact.all(axis=1)
        self.fits(absolute)
        error[:, feature] += own + self.sum_noise(count, absolute)
        return self.entries(self.run.tokens, error)

    def linear(self, matrix: FoldedMatrix, stream: Entries, extra: Matrix | None = None) -> Upper:
        """Return the error of W·z (+ b) for every token, any order of summation."""
        error = Upper.zeros((len(stream.size), matrix.rows))
        biases, wrong = Upper.zeros(matrix.rows), Upper.zeros(matrix.rows)
        for i, _, value in () if extra is None else extra:
            biases[i], wrong[i], _ = self.weight(value)
        weights, changes, powers = self.weights(matrix.weights, len(matrix.weights))
        for line in matrix.lines:
            weight, change = weights[line.which], changes[line.which]
            exact, bias, columns = powers[line.which], biases[line.rows], line.columns
            product = stream.computed[:, columns] * weight
            unit, safe = stream.unit[:, columns], stream.safe[:, columns]
            noise = self.weighted_noise(product, weight, exact, unit, safe)
            carried = stream.error[:, columns] * weight + stream.size[:, columns] * change
            absolute = product.sum(2) + bias
            self.fits(absolute)
            count = product.nonzero.sum(axis=2) + bias.nonzero
            own = (carried + noise).sum(2) + self.sum_noise(count, absolute)
            error[:, line.rows] = own + wrong[line.rows]
        return error

    def attention(
        self, b: int, block: BlockRun, stream: Entries, margins: Sequence[Array]
    ) -> Entries:
        """Return the stream after attention in which every token selects itself."""
        error, absolute = stream.error, stream.computed
        count = absolute.nonzero.astype(int)
        for head, run, margin in zip(self.folding.heads[b], block.heads, margins, strict=True):
            queries = self.entries(run.queries, self.linear(head.query, stream), head.columns)
            keys = self.entries(run.keys, self.linear(head.key, stream), head.columns)
            values = self.entries(run.values, self.linear(head.value, stream))
            own, other = self.scores(queries, keys, head.columns.private)
            if not np.all(own + other < margin):
                raise OverflowsError(
                    f"block {b + 1}: in {self.format.name} rounding could change which token is "
                    f"selected (margin {at_least(margin.min(), 2)})"
                )
            score = self.run.sizes.column(run.weights)
            slip = own[:, None]
            product = (score + slip) * values.computed
            operands = score + slip + values.computed
            noise = self.product_noise(product, values.unit, operands, np.zeros_like(values.unit))
            error = error + slip * values.computed + score * values.error + noise
            absolute = absolute + product
            count += product.nonzero
        size = self.run.sizes.table(block.attended, self.folding.columns)
        return self.entries(block.attended, self._summed(error, absolute, count, size))

    def scores(self, queries: Entries, keys: Entries, private: Mask) -> tuple[Upper, Upper]:
        """Return the error of each token's score with itself, and of any with another token.

        ``private`` columns are another row for every token.
        """
        product, operands = queries.computed * keys.computed, queries.computed + keys.computed
        exact, safe = queries.unit | keys.unit, queries.safe & keys.safe
        noise = self.product_noise(product, exact, operands, safe)
        carried = queries.error * keys.computed + queries.size * keys.error
        own = self._score(product, carried + noise)
        # Against another token only rows count that several tokens use.
        shared = ~private & (operands.nonzero.sum(axis=0) > 1)
        q, k = queries.columns(shared), keys.columns(shared)
        top, slip = k.computed.max(0), k.error.max(0)
        cross, never = q.computed * top, np.zeros(q.size.shape, bool)
        noise = self.product_noise(cross, never, q.computed + top, never)
        return own, self._score(cross, q.error * top + q.size * slip + noise)

    def _score(self, product: Upper, error: Upper) -> Upper:
        """Return the error of sums of products that err."""
        absolute = product.sum(1)
        self.fits(absolute, "scores come")
        return error.sum(1) + self.sum_noise(product.nonzero.sum(axis=1), absolute)

    def _summed(self, error: Upper, absolute: Upper, count: ArrayLike, size: Upper) -> Upper:
        """Add the rounding of a sum of ``count`` terms: by its result if two, by all if more."""
        self.fits(absolute)
        count = np.asarray(count)
        pair = self.u * (size + error) + self.flush
        return error + pair.where(count == 2) + self.sum_noise(count, absolute).where(count > 2)

    def feed_forward(self, b: int, block: BlockRun, stream: Entries) -> Entries:
        """Return the stream after the feed-forward layer."""
        layer = self.folding.layers[b]
        inwards, units = FoldedMatrix.plain(layer.w1, layer.b1.by_row), Columns.plain(layer.w1.rows)
        raw = self.linear(inwards, stream, layer.b1)
        hidden = self.entries(block.hidden, self._activate(layer, block, raw), units)
        # Units that follow their input carry its errors as a matrix would: z − 2z errs as −z does.
        follows = self._follows(layer, block, raw)
        arising = self.linear(inwards, stream.clean, layer.b1)
        own = arising.where(follows) + hidden.error.where(~follows)
        after = Entries(hidden.computed, own, hidden.unit, hidden.safe)
        change = self.linear(FoldedMatrix.plain(layer.w2), after)
        error = _carried(layer, follows, stream.error) + change
        weights = Upper.zeros(layer.w2.shape)
        for i, j, value in layer.w2:
            weights[i, j] = self.weight(value)[0]
        absolute = stream.computed + hidden.computed @ weights.transposed
        terms = hidden.computed.nonzero.astype(float) @ weights.transposed.nonzero.astype(float)
        count = terms + stream.computed.nonzero
        for dimension, _, value in layer.b2:
            bias, wrong, _ = self.weight(value)
            error[:, dimension] += wrong
            absolute[:, dimension] += bias
            count[:, dimension] += 1
        size = self.run.sizes.table(block.output, self.folding.columns)
        return self.entries(block.output, self._summed(error, absolute, count, size))

    def _activate(self, layer: FeedForward, block: BlockRun, error: Upper) -> Upper:
        """σ does not enlarge errors; a unit that stays below zero outputs an exact zero."""
        if layer.activation != RELU:
            return error
        error = error.copy()
        for i, token in enumerate(block.raw):
            for unit, entry in token.items():
                _, high = self.run.sizes.range(i, entry)
                if error[i, unit] < below(-high):
                    error[i, unit] = 0.0
        return error

    def _follows(self, layer: FeedForward, block: BlockRun, error: Upper) -> Mask:
        """Return which units are σ(s) = s for sure, in exact arithmetic and as computed."""
        if layer.activation != RELU:
            return np.ones(error.shape, dtype=bool)
        follows = np.zeros(error.shape, dtype=bool)
        for i, token in enumerate(block.hidden):
            for unit, entry in token.items():
                low, _ = self.run.sizes.range(i, entry)
                follows[i, unit] = error[i, unit] < below(low)
        return follows

    def readout(self, readout: Readout, stream: Entries) -> RoundingBound:
        """Bound one output."""
        shape = stream.size.shape
        weight, change, exact = Upper.zeros(shape), Upper.zeros(shape), np.zeros(shape, bool)
        for i, dimension, value in readout.beta:
            weight[i, dimension], change[i, dimension], exact[i, dimension] = self.weight(value)
        product = weight * stream.computed
        noise = self.weighted_noise(product, weight, exact, stream.unit, stream.safe)
        error = (weight * stream.error + change * stream.size + noise).sum()
        absolute = product.sum()
        bias, wrong, _ = self.weight(readout.bias)
        self.fits(absolute + bias, "the result can come")
        terms = int(product.nonzero.sum())
        tree = ceil(log2(self.width)) + ceil(log2(shape[0]))

        def summed(additions: int, size: Upper) -> Upper:
            return self.gamma(additions) * size + terms * self.flush

        # Products by a tree, the bias last; no order meets more additions than there are terms.
        inner = error + summed(min(tree, max(terms - 1, 0)), absolute)
        last = self.u * (absolute + inner + bias) + self.flush if bias else 0.0
        by_tree = float(inner + last + wrong)
        others = max(terms + (bias > 0) - 1, 0)
        any_order = float(error + summed(others, absolute + bias) + wrong)
        if not isfinite(by_tree):
            raise OverflowsError(f"sums of {terms:,} terms leave no digit of {self.format.name}")
        return RoundingBound(min(by_tree, any_order) if isfinite(any_order) else by_tree)


def _carried(layer: FeedForward, follows: Mask, error: Upper) -> Upper:
    """Return |I + W_2 D W_1| times the errors of every token, D the units that follow their input."""
    carried = error.copy()
    for pattern in np.unique(follows, axis=0):
        tokens = (follows == pattern).all(axis=1)
        for row, units in layer.w2.by_row.items():
            entries = {row: Fraction(1)}
            for unit, outer in units:
                for column, inner in layer.w1.by_row.get(unit, []) if pattern[unit] else ():
                    entries[column] = entries.get(column, Fraction(0)) + outer * inner
            factors = np.array([above(value) for value in entries.values()])
            carried[tokens, row] = (error[np.ix_(tokens, list(entries))] * factors).sum(1)
    return carried


def _is_power_of_two(value: Fraction) -> bool:
    """Return whether a number of a format, the denominator of which is one, is one itself, or zero."""
    numerator = abs(value.numerator)
    return numerator & (numerator - 1) == 0
