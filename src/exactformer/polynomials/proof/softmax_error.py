"""Bounds of the error of a softmax transformer: truncation, leakage and rounding.

For every entry of the stream three errors are carried apart, each a bound over the whole domain:

* truncation, what σ has beyond its linear part. Where k heads of one product satisfy
  Σ_m v_m ε_m^(2j+1) = 0 for j = 1 … k − 1, it is at most |slope·z| Π_m (ε_m z)²/(π² + (ε_m z)²);
* leakage, the attention e^(−L) that masked tokens get;
* rounding, by the standard model of :mod:`exactformer.polynomials.proof.literal_rounding`.

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
from typing import TypeVar

import numpy as np
from flint import fmpq_poly
from numpy.typing import NDArray

from exactformer.core.formats import EXP_ULPS, FloatFormat
from exactformer.core.layers import Readout
from exactformer.core.upper import Upper, above
from exactformer.polynomials.proof.folded_tables import Columns, FoldedHead, FoldedMatrix
from exactformer.polynomials.proof.literal_rounding import Analysis, Entries, OverflowsError
from exactformer.polynomials.proof.shared_polynomials import Token
from exactformer.polynomials.proof.softmax_symbolic import (
    ALONE,
    NEAR,
    Product,
    SoftmaxBlock,
    SoftmaxHead,
    SoftmaxRun,
    Values,
    logit_ranges,
    lowered,
    raised,
)

_Indices = NDArray[np.int64]
T = TypeVar("T", float, Upper)

_RESCALING_ULPS = 2
_PI_SQUARED = 9.869
"""Below π²."""

_PER_WEIGHT = 4
"""Roundings of one weight: rescaled, normalised, stored, multiplied with its value."""
_COMMON = 5
"""Roundings of an answer: its normaliser's sum and reciprocal, its own sum, a division, storing it."""

_EXP = 1.0 + 2.0**-48
"""NumPy's exponential is not correctly rounded; sixteen units in the last place are allowed for."""
_SMALLEST = float(np.finfo(np.float64).tiny)
"""What an exponential that underflows can be."""

_ZERO = Fraction(0)
_PARTS = ("truncation", "leakage", "rounding")
_TRUNCATION, _LEAKAGE, _ROUNDING = range(len(_PARTS))


@dataclass(frozen=True)
class ErrorBound:
    """A guarantee on |computed − Q| over the domain, by cause; ``reason`` says why there is none."""

    truncation: float | None
    leakage: float | None
    rounding: float | None
    reason: str = ""

    @classmethod
    def worst(cls, bounds: Sequence[ErrorBound]) -> ErrorBound:
        """Return what holds for every output, cause by cause."""
        found = {cause: [getattr(bound, cause) for bound in bounds] for cause in _PARTS}
        most = {cause: None if None in values else max(values) for cause, values in found.items()}
        return cls(**most, reason=next((b.reason for b in bounds if b.reason), ""))

    @property
    def total(self) -> float | None:
        """The whole bound."""
        if self.truncation is None or self.leakage is None or self.rounding is None:
            return None
        return float(Upper(self.truncation) + self.leakage + self.rounding)


def roundings_of_a_weight(target: FloatFormat, logit: T) -> T:
    """Return how many units of roundoff a weight times its value meets, for |logit| up to this."""
    return 8 * logit + (2 * (EXP_ULPS[target.name] + _RESCALING_ULPS) + _PER_WEIGHT)


@np.errstate(all="ignore")
def softmax_bound(run: SoftmaxRun, target: FloatFormat) -> ErrorBound:
    """Bound every error of the stock module in one format."""
    try:
        return _SharedAttention(run, target).bound()
    except OverflowsError as problem:
        return ErrorBound(None, None, None, str(problem))


@dataclass(frozen=True)
class _Stream:
    """Sizes with the total error, and the errors by cause: an array parts × tokens × dimensions."""

    entries: Entries
    errors: Upper

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
        vanish = all(sum(v * e ** (2 * j + 1) for e, v in used) == 0 for j in range(1, len(used)))
        if slope and vanish:  # so no two ε² are equal: by Vandermonde the slope would vanish too
            return cls(slope, tuple(e for e, _ in used), None)
        cubes = sum((abs(v * e**3) for e, v in used), Fraction(0)) / 48
        return cls(slope, (), cubes)

    def truncation(self, z: Upper) -> Upper:
        """Bound what the sum of the heads has beyond its linear part, for |z| up to these."""
        if self.cubes is not None:
            return Upper.of(self.cubes) * z**3
        result = Upper.of(self.slope) * z
        for node in self.nodes:
            square = (Upper.of(node) * z) ** 2
            result = result * (square / lowered(_PI_SQUARED + square.values))
        return result


@dataclass(frozen=True)
class _HeadNoise:
    """What a head returns beyond the answer to an exact stream, by cause, and how large that can be."""

    errors: Upper
    size: Upper


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
        errors = Upper.zeros((len(_PARTS), *embedded.size.shape))
        errors[_ROUNDING] = embedded.error
        stream = _Stream(embedded, errors)
        for b, block in enumerate(self.run.shared):
            stream = self.block(b, block, stream)
        return ErrorBound.worst(
            [self.finish(readout, stream) for readout in self.run.blueprint.readouts]
        )

    def block(self, b: int, block: SoftmaxBlock, stream: _Stream) -> _Stream:
        """Return the stream after a block."""
        errors, absolute = stream.errors.copy(), stream.entries.computed
        count = absolute.nonzero.astype(float)
        for product in block.products:
            carried = self.carried(product, block.heads[product.heads[0]], stream)
            z = self._sizes(product.differences) + carried.sum(0)
            for dimension, combinations in self.combinations(product, block.heads).items():
                for combination, rows in combinations:
                    errors[:, rows, dimension] += Upper.of(combination.slope) * carried[:, rows]
                    errors[_TRUNCATION, rows, dimension] += combination.truncation(z[rows])
            for h in product.heads:
                matrices = self.folding.heads[b][h]
                noise = self.head(matrices, block.heads[h], z, stream, f"block {b + 1}")
                errors, absolute = errors + noise.errors, absolute + noise.size
                count += noise.size.nonzero
        size = self.run.sizes.table(block.output, self.folding.columns) + errors.sum(0)
        errors[_ROUNDING] += self._summed(Upper.zeros(size.shape), absolute, count, size)
        return _Stream(self.entries(block.output, errors.sum(0)), errors)

    def carried(self, product: Product, head: SoftmaxHead, stream: _Stream) -> Upper:
        """Return the errors of z that those of the stream cause, parts × tokens."""
        size, computed, errors = stream.entries.size, stream.entries.computed, stream.errors
        partner = head.partner  # of those alone the last token, in vain
        result = Upper.zeros(errors.shape[:2])
        for (a, c), weight in product.form:
            wrong = size[:, a] * (errors[:, :, c] + errors[:, partner, c])
            seen = errors[:, :, a] * (computed[:, c] + computed[partner, c])
            result = result + Upper.of(weight) * (wrong + seen)
        return result.where(partner != ALONE)

    def combinations(
        self, product: Product, heads: Sequence[SoftmaxHead]
    ) -> dict[int, list[tuple[_Combination, _Indices]]]:
        """Return, by dimension, which tokens see which combination of the heads' values."""
        members = [heads[h] for h in product.heads]
        scales = [head.scale for head in members]
        partner = members[0].partner
        own = np.flatnonzero(partner != ALONE)
        found: dict[int, list[tuple[_Combination, _Indices]]] = {}
        for rows, values in _alike(members, own, partner[own]):
            for dimension in {d for pair in values for side in pair for d in side}:
                pairs = [(v.get(dimension, _ZERO), o.get(dimension, _ZERO)) for v, o in values]
                combination = _Combination.of(scales, pairs), own[rows]
                found.setdefault(dimension, []).append(combination)
        return found

    def head(
        self, matrices: FoldedHead, head: SoftmaxHead, z: Upper, stream: _Stream, place: str
    ) -> _HeadNoise:
        """Bound what one head adds beyond its exact answer, z apart, which is carried separately.

        An answer is a mean of values, so that it inherits at most the larger of their errors.
        """
        queries, from_queries = self.projected(matrices.query, head.queries.tokens, stream)
        keys, from_keys = self.projected(matrices.key, head.keys.tokens, stream)
        shared = head.partner != ALONE
        pair = head.focus, np.where(shared, head.partner, head.focus)
        (here, first), (there, second) = (
            self.logit_noise(queries, from_queries, keys, from_keys, j) for j in pair
        )
        slip = (here + there).where(shared)[:, None]
        apart = (Upper.of(head.scale) * z).where(shared)[:, None] + slip

        half, spread, size = self._values(head, *pair)
        arising = self.linear(matrices.value, stream.clean)
        brought = stream.errors @ self._absolute(matrices.value)
        size = size + arising + brought.sum(0)
        inherited = brought[:, pair[0]].or_above(brought[:, pair[1]])
        wrong, top = (table[pair[0]].or_above(table[pair[1]]) for table in (arising, size))
        answer = (half + spread * apart + wrong + inherited.sum(0)).or_below(top)

        mass = self.leaking(head, queries, keys, place)[:, None]
        most = size.max(0).to(size.shape)
        # Twofold for the exponentials' own errors, again for sums, which can err by what is added to
        # them, again for the roundings of weights and answers and for maxima found among the masked.
        leakage = 8.0 * mass * (most + top)
        logit = first.or_above(second)[:, None]
        weighing = top * self.gamma(roundings_of_a_weight(self.format, logit))
        summing = (answer + weighing) * self.gamma(_COMMON)
        # Each of n products and sums can underflow, and four operations of a weight and its answer.
        flushed = ((len(size) + 4) * self.flush * (1.0 + most)).where(most.nonzero)
        rounding = spread * slip + wrong + weighing + summing + flushed
        own = Upper.stack([Upper.zeros(top.shape), leakage, rounding])
        return _HeadNoise(inherited + own, answer + leakage + rounding)

    def projected(
        self, matrix: FoldedMatrix, tokens: Sequence[Token], stream: _Stream
    ) -> tuple[Entries, Upper]:
        """Return queries or keys with all their errors, and the part that arises on the way there."""
        arising = self.linear(matrix, stream.clean)
        brought = stream.entries.error @ self._absolute(matrix)
        return self.entries(tokens, brought + arising, Columns.plain(matrix.rows)), arising

    def logit_noise(
        self, queries: Entries, from_queries: Upper, keys: Entries, from_keys: Upper, j: _Indices
    ) -> tuple[Upper, Upper]:
        """Bound the arithmetic of each token's logit with token j[i], inputs taken as given.

        The second array bounds the logits themselves.
        """
        key = keys.computed[j]
        product = queries.computed * key
        exact, safe = queries.unit | keys.unit[j], queries.safe & keys.safe[j]
        noise = self.product_noise(product, exact, queries.computed + key, safe)
        arising = from_queries * key + queries.computed * from_keys[j]
        absolute = product.sum(1)
        self.fits(absolute, "logits come")
        summing = self.sum_noise(product.nonzero.sum(axis=1), absolute)
        return (arising + noise).sum(1) + summing, absolute

    def leaking(self, head: SoftmaxHead, queries: Entries, keys: Entries, place: str) -> Upper:
        """Bound the weight of all tokens that are not attended to, relative to those that are."""
        n, rows = queries.size.shape
        low, high = logit_ranges(
            head.queries.ranges.widened(queries.error), head.keys.ranges.widened(keys.error)
        )
        sums = queries.computed @ keys.computed.transposed
        self.fits(sums, "logits come")
        operands = queries.computed.sum(1)[:, None] + keys.computed.sum(1)
        products = self.u * sums + self.underflow * (rows + operands)
        noise = (products + self.sum_noise(rows, sums)).values
        here = np.arange(n)
        second = np.where(head.partner == ALONE, head.focus, head.partner)
        least = lowered(low - noise)
        reference = np.maximum(least[here, head.focus], least[here, second])[:, None]
        behind = raised(raised(high + noise) - reference)
        others = np.ones((n, n), dtype=bool)
        others[here, head.focus] = others[here, second] = False
        if not np.all(behind[others] <= -NEAR / 2):
            raise OverflowsError(
                f"{place}: in {self.format.name} rounding could change which tokens are attended to"
            )
        with np.errstate(all="ignore"):
            weight = np.exp(raised(behind * (1 - 4 * self.u))) + _SMALLEST
        return (_EXP * Upper(weight)).where(others).sum(1)

    def finish(self, readout: Readout, stream: _Stream) -> ErrorBound:
        """Read one output, each error by its cause."""
        summed = self.readout(readout, stream.clean)
        assert summed.value is not None  # there is a reason otherwise, which is raised
        weight = Upper.zeros(stream.entries.size.shape)
        for i, dimension, value in readout.beta:
            weight[i, dimension] = self.weight(value)[0]
        parts = (stream.errors * weight).sum(1).sum(1)
        parts[_ROUNDING] += summed.value
        truncation, leakage, rounding = parts.values.tolist()
        return ErrorBound(truncation, leakage, rounding, summed.reason)

    def _absolute(self, matrix: FoldedMatrix) -> Upper:
        """Return the transposed matrix of |fl(w)|, over the dimensions of the stream."""
        absolute = Upper.zeros((self.width, matrix.rows))
        weights = self.weights(matrix.weights, len(matrix.weights))[0]
        for line in matrix.lines:
            absolute[line.columns, line.rows[:, None]] = weights[line.which[0]]
        return absolute

    def _sizes(self, polynomials: Sequence[fmpq_poly]) -> Upper:
        return self.run.sizes.column(polynomials)[:, 0]

    def _values(
        self, head: SoftmaxHead, first: _Indices, second: _Indices
    ) -> tuple[Upper, Upper, Upper]:
        """Bound |v + v'|/2 and |v − v'|/4 for the values of every two tokens, and |v| of each token."""
        half, spread, size = np.zeros((3, len(head.values), self.width))
        for rows, ((one, other),) in _alike([head], first, second):
            for d in one.keys() | other.keys():
                v, w = one.get(d, _ZERO), other.get(d, _ZERO)
                half[rows, d], spread[rows, d] = above((v + w) / 2), above((v - w) / 4)
        for j, token in enumerate(head.values):
            for dimension, exact in token.items():
                size[j, dimension] = above(exact)
        return Upper(half), Upper(spread), Upper(size)


def _alike(
    heads: Sequence[SoftmaxHead], first: _Indices, second: _Indices
) -> list[tuple[list[int], list[tuple[Values, Values]]]]:
    """Return groups of pairs of tokens that offer the same values in every head, with these values."""
    # Tokens that offer the same values share these objects.
    alike: dict[tuple[int, ...], list[int]] = {}
    for row, pair in enumerate(zip(first, second, strict=True)):
        key = tuple(id(head.values[j]) for head in heads for j in pair)
        alike.setdefault(key, []).append(row)
    return [
        (rows, [(head.values[first[rows[0]]], head.values[second[rows[0]]]) for head in heads])
        for rows in alike.values()
    ]
