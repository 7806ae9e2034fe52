"""A softmax blueprint run on polynomials, its attention linearised.

A token that shares its attention between itself and one constant token, with logits that differ by ℓ,
receives v + (v' − v)·σ(ℓ), the logistic function of ℓ. Its linear part 1/2 + ℓ/4 keeps every entry of
the stream a polynomial in the token's own feature t_i, computed here exactly; what σ has beyond is an
error for :mod:`exactformer.polynomials.proof.softmax_error` to bound, as is the attention that leaks
to all other tokens. Whom a token attends to is not assumed but found, from logits bounded over the
domain.

Heads whose ℓ are multiples ε_m·z of one bilinear form z of the stream are taken together
(:class:`Product`): what enters z is common to them, so its errors are not amplified, and the powers
of z beyond the first cancel where Σ_m v_m ε_m^(2j+1) = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import fmpq, fmpq_poly
from numpy.typing import NDArray

from exactformer.algebra.rational import to_float, to_fmpq, to_fraction
from exactformer.core.arrays import Array
from exactformer.core.domain import Domain
from exactformer.core.layers import Block, Head, Rule
from exactformer.core.matrix import Matrix
from exactformer.core.upper import Upper, gamma
from exactformer.errors import CertificationError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.folded_tables import Folding
from exactformer.polynomials.proof.magnitudes import Sizes
from exactformer.polynomials.proof.shared_polynomials import Sharing, Token
from exactformer.polynomials.proof.symbolic import SymbolicRun, check_shapes, read

NEAR = 16.0
"""Logits within this of the largest count as attended; the rest is leakage."""

ALONE = -1
"""Partner of a token that attends to a single one."""

Values = dict[int, Fraction]
"""What a token offers, by dimension."""

Form = tuple[tuple[tuple[int, int], Fraction], ...]
"""A bilinear form of the stream, {(a, b): coefficient} in order: z_ij = Σ s_i[a] s_j[b]."""


@dataclass(frozen=True)
class Projection:
    """Queries or keys of every token, as polynomials and as ranges."""

    tokens: list[Token]
    ranges: Ranges


@dataclass(frozen=True)
class SoftmaxHead:
    """Queries, keys and constant values of every token, and whom each attends to."""

    queries: Projection
    keys: Projection
    values: list[Values]
    focus: NDArray[np.int64]
    """The token attended to: oneself where there is a partner, anyone where there is none."""
    partner: NDArray[np.int64]
    """The constant token that shares the attention, or ``ALONE``."""
    scale: Fraction
    """ε: the logits differ by ε·z, z the form of the product this head belongs to."""


@dataclass(frozen=True)
class Product:
    """Heads, by number, whose logits are multiples of one form."""

    form: Form
    heads: tuple[int, ...]
    differences: list[fmpq_poly]
    """z of every token, 0 for those without a partner."""


@dataclass(frozen=True)
class SoftmaxBlock:
    """One block: its heads, grouped into products, and the linearised stream after it."""

    heads: list[SoftmaxHead]
    products: list[Product]
    output: list[Token]


@dataclass(frozen=True)
class SoftmaxRun(SymbolicRun):
    """The whole journey; no block selects, so ``blocks`` is empty and ``shared`` has them."""

    shared: list[SoftmaxBlock]

    @cached_property
    def folding(self) -> Folding:
        """The blueprint as it is: tokens meet others' values, and no dimension is theirs alone."""
        return Folding.plain(self.blueprint)


def is_softmax(blueprint: Blueprint) -> bool:
    """Whether some block selects by softmax."""
    return any(b.attention.selection.rule is Rule.SOFTMAX for b in blueprint.blocks)


@np.errstate(all="ignore")
def run_softmax(blueprint: Blueprint, domain: Domain) -> SoftmaxRun:
    """Run ``blueprint`` on polynomials over a domain; refuse what is not shared attention."""
    check_shapes(blueprint)
    features = blueprint.embedding.features
    rows = [features.by_row.get(i, []) for i in range(features.rows)]
    sizes = Sizes([domain.reach(row) for row in rows])
    shared = Sharing()
    stream: list[Token] = [{} for _ in rows]
    for i, dimension, value in blueprint.embedding.constant:
        stream[i][dimension] = shared.constant(value)
    feature = fmpq_poly([0, 1])
    for token, row in zip(stream, rows, strict=True):
        at_centre = sum((value * domain.offset(j) for j, value in row), Fraction(0))
        for entry in (shared.constant(at_centre), feature) if row else ():
            here = token.get(blueprint.embedding.dimension)
            token[blueprint.embedding.dimension] = shared.added(here, entry)
    tokens, blocks = stream, []
    live = _live_dimensions(blueprint)
    for b, block in enumerate(blueprint.blocks, start=1):
        blocks.append(_run_block(block, stream, live, sizes, shared, b))
        live |= {row for head in block.attention.heads for row, _, _ in head.value}
        stream = blocks[-1].output
    readouts = [read(readout.beta, stream) for readout in blueprint.readouts]
    return SoftmaxRun(blueprint, domain, sizes, tokens, [], readouts, blocks)


def _live_dimensions(blueprint: Blueprint) -> set[int]:
    """Return the dimensions that can carry an error: the feature, and constants beside 0 and ±1."""
    constants = blueprint.embedding.constant
    return {d for _, d, value in constants if abs(value) != 1} | {blueprint.embedding.dimension}


def _run_block(
    block: Block, stream: list[Token], live: set[int], sizes: Sizes, shared: Sharing, b: int
) -> SoftmaxBlock:
    _check_layers(block, b)
    projections: dict[tuple[object, ...], Projection] = {}

    def project(matrix: Matrix) -> Projection:
        key = matrix.shape, frozenset(matrix.entries.items())
        if key not in projections:
            tokens = [shared.applied(matrix, token) for token in stream]
            projections[key] = Projection(tokens, Ranges.of(tokens, sizes, matrix.rows))
        return projections[key]

    heads: list[SoftmaxHead] = []
    groups: dict[Form, list[int]] = {}
    for h, head in enumerate(block.attention.heads):
        place = f"block {b}, head {h + 1}"
        form, scale = _form(head, live)
        values = _constants([shared.applied(head.value, token) for token in stream], place)
        queries, keys = project(head.query), project(head.key)
        focus, partner = _attended(*logit_ranges(queries.ranges, keys.ranges), place)
        _check_partners(partner, stream, place)
        heads.append(SoftmaxHead(queries, keys, values, focus, partner, scale))
        groups.setdefault(form, []).append(h)
    output = [dict(token) for token in stream]
    products = []
    for form, members in groups.items():
        differences = _differences(form, [heads[h] for h in members], stream, shared, b)
        products.append(Product(form, tuple(members), differences))
        for h in members:
            _attend(heads[h], differences, output, shared)
    return SoftmaxBlock(heads, products, output)


def _check_layers(block: Block, b: int) -> None:
    selection, layer = block.attention.selection, block.feed_forward
    if not block.attention.heads:
        raise CertificationError(f"block {b} has no head: there is no attention to run")
    if selection.rule is not Rule.SOFTMAX or selection.temperature != 1:
        raise CertificationError(
            f"block {b} selects by {selection.rule} at temperature {selection.temperature}; beside "
            "softmax at temperature 1 no other rule is covered"
        )
    if layer.w1.rows or layer.b2.nonzeros:
        raise CertificationError(
            f"block {b} has a feed-forward layer, which this certificate does not cover"
        )


def _form(head: Head, live: set[int]) -> tuple[Form, Fraction]:
    """Return the live part of W_Qᵀ W_K, divided by its first entry, and that entry."""
    entries: dict[tuple[int, int], Fraction] = {}
    keys = head.key.by_row
    for row, columns in head.query.by_row.items():
        for a, left in columns:
            for b, right in keys.get(row, ()):
                if a in live or b in live:
                    entries[a, b] = entries.get((a, b), Fraction(0)) + left * right
    kept = sorted((place, value) for place, value in entries.items() if value != 0)
    scale = kept[0][1] if kept else Fraction(1)
    return tuple((place, value / scale) for place, value in kept), scale


def _check_partners(partner: NDArray[np.int64], stream: list[Token], place: str) -> None:
    for p in {int(p) for p in partner if p != ALONE}:
        if any(entry.length() > 1 for entry in stream[p].values()):
            raise CertificationError(
                f"{place}: token {p + 1} shares others' attention but is not constant"
            )


def _constants(tokens: list[Token], place: str) -> list[Values]:
    """Return the tokens' values; equal ones are one object."""
    known: dict[tuple[tuple[int, int], ...], Values] = {}
    found = []
    for token in tokens:
        key = tuple((dimension, id(entry)) for dimension, entry in token.items())
        if key not in known:
            if any(entry.length() > 1 for entry in token.values()):
                raise CertificationError(
                    f"{place}: its values depend on x; only constant ones are covered"
                )
            known[key] = {d: to_fraction(fmpq(entry[0])) for d, entry in token.items() if entry}
        found.append(known[key])
    return found


def _attended(low: Array, high: Array, place: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return whom every token attends to, and with whom besides; refuse anything else."""
    n = len(low)
    near = ~(high <= low.max(axis=1, keepdims=True) - NEAR)
    count = near.sum(axis=1)
    alone, own = count == 1, near[np.arange(n), np.arange(n)]
    wrong = np.flatnonzero(~(alone | ((count == 2) & own)))
    if len(wrong):
        i = int(wrong[0])
        seen = ", ".join(str(j + 1) for j in np.flatnonzero(near[i])[:4])
        raise CertificationError(
            f"{place}: token {i + 1} is not shown to attend to itself and one constant token only, "
            f"or to a single one; tokens {seen} … come within {NEAR:g} of its largest logit"
        )
    focus = np.where(alone, near.argmax(axis=1), np.arange(n))
    near[np.arange(n), focus] = False
    return focus, np.where(alone, ALONE, near.argmax(axis=1))


def _differences(
    form: Form, heads: Sequence[SoftmaxHead], stream: list[Token], shared: Sharing, b: int
) -> list[fmpq_poly]:
    """Return z of every token, having checked that ε·z is how far its two logits are apart."""
    zero = fmpq_poly([])
    partner = heads[0].partner
    if any(np.any(head.partner != partner) for head in heads):
        raise CertificationError(f"block {b}: heads of one product share with different tokens")
    found: list[fmpq_poly] = []
    for i, p in enumerate(partner):
        z: fmpq_poly | None = None
        own, other = stream[i], stream[p]
        for (a, c), weight in form if p != ALONE else ():
            for token, sign in ((own, weight), (other, -weight)):
                if a in own and c in token:
                    z = shared.added(z, shared.scaled(shared.product(own[a], token[c]), sign))
        for head in heads if p != ALONE else ():
            query, keys = head.queries.tokens[i], head.keys.tokens
            if shared.dot(query, keys[i]) - shared.dot(query, keys[p]) != (z or zero) * to_fmpq(
                head.scale
            ):
                raise CertificationError(
                    f"block {b}: the mask of token {i + 1} adds to the logits it shares"
                )
        found.append(zero if z is None else z)
    return found


def _attend(
    head: SoftmaxHead, differences: list[fmpq_poly], output: list[Token], shared: Sharing
) -> None:
    """Add what a head returns, σ(ℓ) replaced by 1/2 + ℓ/4."""
    zero = Fraction(0)
    for i, token in enumerate(output):
        own, p = head.values[head.focus[i]], head.partner[i]
        other = own if p == ALONE else head.values[p]
        for dimension in own.keys() | other.keys():
            here, there = own.get(dimension, zero), other.get(dimension, zero)
            linear = shared.scaled(differences[i], (here - there) * head.scale / 4)
            for entry in (linear, shared.constant((here + there) / 2)):
                token[dimension] = shared.added(token.get(dimension), entry)


@dataclass(frozen=True)
class Ranges:
    """A table of entries as intervals: their constants in float64, give or take all the rest."""

    constant: Array
    varying: Upper

    @classmethod
    def of(cls, tokens: Sequence[Token], sizes: Sizes, columns: int) -> Ranges:
        """Split every entry into its constant and what varies."""
        constant, varying = np.zeros((2, len(tokens), columns))
        known: dict[int, tuple[float, fmpq_poly]] = {}
        for i, token in enumerate(tokens):
            for column, entry in token.items():
                if id(entry) not in known:
                    known[id(entry)] = _split(entry)
                constant[i, column], rest = known[id(entry)]
                varying[i, column] = sizes.size(i, rest)
        return cls(constant, Upper(varying))

    def widened(self, error: Upper) -> Ranges:
        """Return the same with errors added to what varies."""
        return Ranges(self.constant, self.varying + error)

    @property
    def centre(self) -> Upper:
        """The absolute values of the constants."""
        return Upper(np.abs(self.constant))

    @property
    def size(self) -> Upper:
        """Bounds of the absolute values."""
        return self.centre + self.varying


def _split(entry: fmpq_poly) -> tuple[float, fmpq_poly]:
    nearest = to_float(to_fraction(fmpq(entry[0])))
    if abs(nearest) == np.inf:
        return 0.0, entry
    return nearest, entry - to_fmpq(Fraction(nearest))


def logit_ranges(queries: Ranges, keys: Ranges) -> tuple[Array, Array]:
    """Return bounds of ⟨q_i, k_j⟩ from below and above, n × n."""
    fixed = queries.constant @ keys.constant.T
    absolute = queries.centre @ keys.centre.transposed
    spread = queries.centre @ keys.varying.transposed + queries.varying @ keys.size.transposed
    give = (spread + gamma(queries.constant.shape[1], 2.0**-53) * absolute).values
    return lowered(fixed - give), raised(fixed + give)


def lowered(nearest: Array) -> Array:
    """Return what is at most the numbers, of either sign, of which these are the nearest float64."""
    return np.nextafter(nearest, -np.inf)


def raised(nearest: Array) -> Array:
    """Return what is at least the numbers, of either sign, of which these are the nearest float64."""
    return np.nextafter(nearest, np.inf)
