"""How far a softmax transformer can be from its polynomial: truncation, leakage and rounding.

For every entry of the stream three errors are carried apart, each a bound over the whole domain:

* truncation, what σ has beyond its linear part. Where k heads of one product satisfy
  Σ_m v_m ε_m^(2j+1) = 0 for j = 1 … k − 1, it is at most |slope·z| Π_m (ε_m z)²/(π² + (ε_m z)²);
* leakage, the attention e^(−L) that masked tokens get;
* rounding, by the standard model of :mod:`exactformer.execution.bounds`.

Errors of the stream pass through a product z = xy as |x|·δy + |y + δy|·δx, once for all its heads.

What is assumed of ``scaled_dot_product_attention``, whichever kernel runs it. Logits, sums and products
follow the standard model in any order. The exponential of x errs by ``EXP_ULPS`` units in the last
place and 4u·|x| (for the subtraction of the maximum and a change to base 2). The running maximum of
an online softmax changes at most once after the first of the two attended tokens has been met; one
more exponential, of two units, and one product rescale what came before, and exp(0) = 1. Weights are
divided, or multiplied by a reciprocal, before or after they meet the values. Sums with masked terms
err by no more than these terms: rounding to nearest does not move a number by more than what is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import TypeVar

import numpy as np
from flint import fmpq_poly
from numpy.typing import NDArray

from exactformer.algebra.rational import to_float
from exactformer.blueprint import Head, Matrix, Readout
from exactformer.execution.bounds import Analysis, Entries, OverflowsError
from exactformer.execution.formats import FloatFormat
from exactformer.execution.magnitudes import Array, above, times, total, up
from exactformer.execution.softmax_run import (
    ALONE,
    NEAR,
    Product,
    SoftmaxBlock,
    SoftmaxHead,
    SoftmaxRun,
    logit_ranges,
)
from exactformer.execution.symbolic import Token

Indices = NDArray[np.int64]
T = TypeVar("T", float, Array)

EXP_ULPS = {"float64": 2, "float32": 20, "bfloat16": 2, "float16": 2}
"""Units in the last place of the format; PyTorch's fused float32 kernel on CPUs says 20 of itself."""

_RESCALING_ULPS = 2
_PI_SQUARED = 9.869
"""Below π²."""

_PER_WEIGHT = 4
"""Roundings of one weight: rescaled, normalised, stored, multiplied with its value."""
_COMMON = 5
"""Roundings of an answer: its normaliser's sum and reciprocal, its own sum, a division, storing it."""

PARTS = ("truncation", "leakage", "rounding")


@dataclass(frozen=True)
class ErrorBound:
    """A guarantee on |computed − Q| over the domain, by cause; ``reason`` says why there is none."""

    truncation: float | None
    leakage: float | None
    rounding: float | None
    reordering: float | None
    """What the output's own sum can cost beyond ``rounding`` if taken in another order."""
    reason: str = ""

    @classmethod
    def worst(cls, bounds: Sequence[ErrorBound]) -> ErrorBound:
        """Return what holds for every output, cause by cause."""
        causes = (*PARTS, "reordering")
        found = {cause: [getattr(bound, cause) for bound in bounds] for cause in causes}
        most = {cause: None if None in values else max(values) for cause, values in found.items()}
        return cls(**most, reason=next((b.reason for b in bounds if b.reason), ""))

    @property
    def total(self) -> float | None:
        """The whole bound."""
        if self.truncation is None or self.leakage is None or self.rounding is None:
            return None
        return float(up(np.asarray(self.truncation + self.leakage + self.rounding), 3))

    @property
    def any_order(self) -> float | None:
        """The whole bound whatever the order of summation."""
        if self.total is None or self.reordering is None:
            return None
        return float(up(np.asarray(self.total + self.reordering)))


def roundings_of_a_weight(target: FloatFormat, logit: T) -> T:
    """Return how many units of roundoff a weight times its value meets, for |logit| up to this."""
    return 8 * logit + (2 * (EXP_ULPS[target.name] + _RESCALING_ULPS) + _PER_WEIGHT)


def softmax_bound(run: SoftmaxRun, target: FloatFormat) -> ErrorBound:
    """Bound every error of the stock module in one format."""
    try:
        return _SharedAttention(run, target).bound()
    except OverflowsError as problem:
        return ErrorBound(None, None, None, None, str(problem))


@dataclass(frozen=True)
class _Stream:
    """Sizes with the total error, and the errors by cause: an array parts × tokens × dimensions."""

    entries: Entries
    errors: Array

    @property
    def clean(self) -> Entries:
        """What is computed, taken as given: for noise that arises from here on."""
        return self.entries.clean


@dataclass(frozen=True)
class _Combination:
    """How the heads of one product act together on one dimension of one token."""

    slope: Fraction
    nodes: tuple[Fraction, ...]
    cubes: Fraction | None
    """Σ|v_m ε_m³|/48 where the heads do not extrapolate."""

    @classmethod
    def of(
        cls, scales: Sequence[Fraction], pairs: Sequence[tuple[Fraction, Fraction]]
    ) -> _Combination:
        """Return it for heads with these ε and these values at the token and its partner."""
        used = [
            (e, own - other) for e, (own, other) in zip(scales, pairs, strict=True) if own != other
        ]
        slope = sum((e * v for e, v in used), Fraction(0)) / 4
        distinct = len({e * e for e, _ in used}) == len(used)
        vanish = all(sum(v * e ** (2 * j + 1) for e, v in used) == 0 for j in range(1, len(used)))
        if slope and distinct and vanish:
            return cls(slope, tuple(e for e, _ in used), None)
        cubes = sum((abs(v * e**3) for e, v in used), Fraction(0)) / 48
        return cls(slope, (), cubes)

    def truncation(self, z: Array) -> Array:
        """Bound what the sum of the heads has beyond its linear part, for |z| up to these."""
        if self.cubes is not None:
            return times(np.full_like(z, above(self.cubes)), times(z, times(z, z)))
        result = times(np.full_like(z, above(self.slope)), z)
        for node in self.nodes:
            square = times(np.full_like(z, above(node * node)), times(z, z))
            result = times(result, up(square / (_PI_SQUARED + square), 3))
        return result


@dataclass(frozen=True)
class _HeadNoise:
    """What a head returns beyond the answer to an exact stream, by cause, and how large that can be."""

    truncation: Array
    leakage: Array
    rounding: Array
    size: Array


class _SharedAttention(Analysis):
    """The three errors of one run in one format.

    A weight that errs by the factor 1 ± δ moves an answer by no more than δ/(1 − δ) times the larger
    value: the normaliser sees the same exponentials. What is common to all weights counts only in
    proportion to the answer, which is small where the values cancel.
    """

    run: SoftmaxRun

    def bound(self) -> ErrorBound:
        """Follow the stream to the outputs; return what holds for the worst of them."""
        embedded = self.embedding()
        errors = np.zeros((len(PARTS), *embedded.size.shape))
        errors[PARTS.index("rounding")] = embedded.error
        stream = _Stream(embedded, errors)
        for b, block in enumerate(self.run.shared):
            stream = self.block(b, block, stream)
        return ErrorBound.worst(
            [self.finish(readout, stream) for readout in self.run.blueprint.readouts]
        )

    def block(self, b: int, block: SoftmaxBlock, stream: _Stream) -> _Stream:
        """Return the stream after a block."""
        truncation, leakage, rounding = stream.errors.copy()
        absolute = stream.entries.computed.copy()
        count = (absolute > 0).astype(float)
        for product in block.products:
            carried = self.carried(product, block.heads[product.heads[0]], stream)
            z = self._sizes(product.differences)
            z = up(z + total(carried, 0))
            for dimension, combinations in self.combinations(product, block.heads).items():
                for combination, rows in combinations:
                    slope = np.full(len(rows), above(combination.slope))
                    parts = [times(slope, part[rows]) for part in carried]
                    beyond = combination.truncation(z[rows])
                    truncation[rows, dimension] += up(parts[0] + beyond)
                    leakage[rows, dimension] += parts[1]
                    rounding[rows, dimension] += parts[2]
            for h in product.heads:
                matrices = self.run.blueprint.blocks[b].attention.heads[h]
                noise = self.head(matrices, block.heads[h], z, stream, f"block {b + 1}")
                truncation = up(truncation + noise.truncation)
                leakage = up(leakage + noise.leakage)
                rounding = up(rounding + noise.rounding)
                absolute = up(absolute + noise.size)
                count += noise.size > 0
        errors = up(np.stack([truncation, leakage, rounding]), 2 * len(block.products) + 2)
        size = up(self.run.sizes.table(block.output, self.width) + total(errors, 0))
        errors[2] = up(errors[2] + self._summed(np.zeros_like(size), absolute, count, size))
        return _Stream(self.entries(block.output, total(errors, 0)), errors)

    def carried(self, product: Product, head: SoftmaxHead, stream: _Stream) -> Array:
        """Return the errors of z that those of the stream cause, parts × tokens."""
        size, computed = stream.entries.size, stream.entries.computed
        shared = head.partner != ALONE
        partner = np.where(shared, head.partner, 0)
        result = np.zeros((len(PARTS), len(size)))
        for (a, c), weight in product.form:
            factor = np.where(shared, above(weight), 0.0)
            for part, errors in enumerate(stream.errors):
                wrong = times(size[:, a], up(errors[:, c] + errors[partner, c]))
                seen = times(errors[:, a], up(computed[:, c] + computed[partner, c]))
                result[part] = up(result[part] + times(factor, up(wrong + seen)), 2)
        return result

    def combinations(
        self, product: Product, heads: Sequence[SoftmaxHead]
    ) -> dict[int, list[tuple[_Combination, Indices]]]:
        """Return, by dimension, which tokens see which combination of the heads' values."""
        members = [heads[h] for h in product.heads]
        scales = [head.scale for head in members]
        # Tokens that offer the same values share these objects.
        alike: dict[tuple[int, ...], list[int]] = {}
        for i, p in enumerate(members[0].partner):
            if p != ALONE:
                key = tuple(id(head.values[j]) for head in members for j in (i, p))
                alike.setdefault(key, []).append(i)
        found: dict[int, list[tuple[_Combination, Indices]]] = {}
        zero = Fraction(0)
        for rows in alike.values():
            i, p = rows[0], members[0].partner[rows[0]]
            values = [(head.values[i], head.values[p]) for head in members]
            for dimension in {d for pair in values for side in pair for d in side}:
                pairs = [(v.get(dimension, zero), o.get(dimension, zero)) for v, o in values]
                combination = _Combination.of(scales, pairs), np.array(rows)
                found.setdefault(dimension, []).append(combination)
        return found

    def head(
        self, matrices: Head, head: SoftmaxHead, z: Array, stream: _Stream, place: str
    ) -> _HeadNoise:
        """Bound what one head adds beyond its exact answer, z apart, which is carried separately.

        An answer is a mean of values, so that it inherits at most the larger of their errors.
        """
        queries, from_queries = self.projected(matrices.query, head.queries.tokens, stream)
        keys, from_keys = self.projected(matrices.key, head.keys.tokens, stream)
        shared = (head.partner != ALONE)[:, None]
        pair = head.focus, np.where(shared[:, 0], head.partner, head.focus)
        noise, logits = zip(
            *(self.logit_noise(queries, from_queries, keys, from_keys, j) for j in pair),
            strict=True,
        )
        slip = np.where(shared, up(noise[0] + noise[1])[:, None], 0.0)
        apart = np.where(shared, times(np.full_like(z, above(head.scale)), z)[:, None], 0.0)
        apart = up(apart + slip)

        value, size = self._values(head)
        arising = self.linear(matrices.value, stream.clean)
        brought = self.brought(matrices.value, stream.errors)
        size = up(size + arising + total(brought, 0), 2)
        inherited = np.maximum(brought[:, pair[0]], brought[:, pair[1]])
        wrong, top = (np.maximum(table[pair[0]], table[pair[1]]) for table in (arising, size))
        focus, partner = value[pair[0]], value[pair[1]]
        half = up(np.abs(focus + partner) / 2 + 2.0**-50 * top, 3)
        spread = up(np.abs(focus - partner) / 4 + 2.0**-50 * top, 3)
        answer = up(half + times(spread, apart) + wrong + total(inherited, 0), 3)
        answer = np.minimum(answer, top)

        mass = self.leaking(head, queries, keys, place)[:, None]
        most = np.broadcast_to(size.max(axis=0, initial=0.0), size.shape)
        # Twofold for the exponentials' own errors, again for those of sums, again for the rest.
        leakage = times(8 * mass, up(most + top))
        logit = np.broadcast_to(np.maximum(*logits)[:, None], top.shape)
        weighing = times(top, self.gamma(roundings_of_a_weight(self.format, logit)))
        summing = times(up(answer + weighing), self.gamma(np.full_like(answer, _COMMON)))
        flushed = np.where(most > 0, (len(size) + 4) * self.flush * (1 + most), 0.0)
        rounding = up(times(spread, slip) + wrong + weighing + summing + flushed, 8)
        truncation, leakage, rounding = up(
            inherited + np.stack([np.zeros_like(top), leakage, rounding])
        )
        return _HeadNoise(truncation, leakage, rounding, up(answer + leakage + rounding, 2))

    def brought(self, matrix: Matrix, errors: Array) -> Array:
        """Return what errors of the stream, parts × tokens × dimensions, are after a matrix."""
        result = np.zeros_like(errors)
        for row, column, value in matrix:
            size = np.full(errors.shape[:2], self.weight(value)[0])
            result[:, :, row] = up(result[:, :, row] + times(size, errors[:, :, column]))
        return result

    def projected(
        self, matrix: Matrix, tokens: Sequence[Token], stream: _Stream
    ) -> tuple[Entries, Array]:
        """Return queries or keys with all their errors, and the part that arises on the way there."""
        arising = self.linear(matrix, stream.clean)
        weights = np.zeros(matrix.shape)
        for row, column, value in matrix:
            weights[row, column] = self.weight(value)[0]
        brought = up(stream.entries.error @ weights.T, matrix.columns + 2)
        return self.entries(tokens, up(brought + arising)), arising

    def logit_noise(
        self, queries: Entries, from_queries: Array, keys: Entries, from_keys: Array, j: Indices
    ) -> tuple[Array, Array]:
        """Bound the arithmetic of each token's logit with token j[i], inputs taken as given.

        The second array bounds the logits themselves.
        """
        key = keys.computed[j]
        product = times(queries.computed, key)
        exact, safe = queries.unit | keys.unit[j], queries.safe & keys.safe[j]
        noise = self.product_noise(product, exact, up(queries.computed + key), safe)
        arising = times(from_queries, key) + times(queries.computed, from_keys[j])
        absolute = total(product, 1)
        self.fits(absolute, "logits come")
        summing = self.sum_noise((product > 0).sum(axis=1), absolute)
        return up(total(up(arising + noise, 2), 1) + summing), absolute

    def leaking(self, head: SoftmaxHead, queries: Entries, keys: Entries, place: str) -> Array:
        """Bound the weight of all tokens that are not attended to, relative to those that are."""
        n, rows = queries.size.shape
        low, high = logit_ranges(
            head.queries.ranges.widened(queries.error), head.keys.ranges.widened(keys.error)
        )
        sums = up(queries.computed @ keys.computed.T, rows + 2)
        self.fits(sums, "logits come")
        noise = up(times(self.gamma(2 * rows + 8), sums) + 4 * rows * self.flush, 4)
        here = np.arange(n)
        second = np.where(head.partner == ALONE, head.focus, head.partner)
        reference = np.maximum((low - noise)[here, head.focus], (low - noise)[here, second])[
            :, None
        ]
        behind = high + noise - reference
        behind[here, head.focus] = behind[here, second] = -np.inf
        if not np.all(behind <= -NEAR / 2):
            raise OverflowsError(
                f"{place}: in {self.format.name} rounding could change which tokens are attended to"
            )
        with np.errstate(under="ignore", invalid="ignore"):
            return total(up(np.exp(behind * (1 - 8 * self.u) + 2.0**-20), 8), 1)

    def finish(self, readout: Readout, stream: _Stream) -> ErrorBound:
        """Read one output, each error by its cause."""
        weight = np.zeros_like(stream.entries.size)
        for i, dimension, value in readout.beta:
            weight[i, dimension] = self.weight(value)[0]
        parts = [float(total(times(weight, part).reshape(1, -1), 1)[0]) for part in stream.errors]
        summed = self.readout(readout, stream.clean)
        if summed.executed is None or not all(map(isfinite, parts)):
            raise OverflowsError(f"errors leave no digit of {self.format.name}")
        truncation, leakage, rounding = parts
        rounding = float(up(np.asarray(rounding + summed.executed)))
        more = None if summed.any_order is None else max(summed.any_order - summed.executed, 0.0)
        return ErrorBound(truncation, leakage, rounding, more, summed.reason)

    def _sizes(self, polynomials: Sequence[fmpq_poly]) -> Array:
        return self.run.sizes.table([{0: p} for p in polynomials], 1)[:, 0]

    def _values(self, head: SoftmaxHead) -> tuple[Array, Array]:
        """Return the values as floats, and bounds of their absolute values."""
        value, size = np.zeros((2, len(head.values), self.width))
        for j, token in enumerate(head.values):
            for dimension, exact in token.items():
                value[j, dimension], size[j, dimension] = to_float(exact), above(exact)
        return value, size
