"""Blocks that no construction draws, whose tokens select themselves barely, almost, or comfortably.

A block's scores are sums over rows of q(t_i)·k(t_j), q and k polynomials of the tokens' features, and a
weight for the token's own position. How much the rows can take from that weight is what a proof of
selection has to bound; the weight is therefore set near the largest loss that was found on a sample of
points, or as low as the proof itself allows.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_poly

from exactformer.core.layers import (
    IDENTITY,
    RELU,
    Attention,
    Block,
    FeedForward,
    Head,
    PiecewiseLinear,
    Readout,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import ExactformerError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.proof.certify import SLACK
from exactformer.polynomials.proof.selection import prove_selection
from exactformer.polynomials.proof.symbolic import run_symbolic
from tests.adversary.interpreter import Array, FloatBlueprint, dense
from tests.adversary.interpreter import fraction as to_fraction
from tests.adversary.points import at, float_points
from tests.adversary.polynomial_bases import rational

Row = dict[int, Fraction]
"""Weights of the dimensions that a row of a query or key matrix combines."""

_MOST_DEGREE = 8
_NEAR = [Fraction(k, 20) for k in (14, 16, 17, 18, 19, 20, 21, 22, 24, 30, 40)]
_BARELY = [Fraction(1, 2**30), Fraction(1, 2**16), Fraction(1, 100), Fraction(1, 10)]


def positions(blueprint: Blueprint) -> dict[int, int]:
    """Return for every token a dimension in which it alone has a constant, where there is one."""
    users: dict[int, list[int]] = {}
    for i, dimension, _ in blueprint.embedding.constant:
        users.setdefault(dimension, []).append(i)
    found = {tokens[0]: d for d, tokens in users.items() if len(tokens) == 1}
    return {i: d for i, d in found.items() if d != blueprint.embedding.dimension}


class Stream:
    """What stands in the dimensions before a block, if every token selects itself until there."""

    def __init__(self, blueprint: Blueprint, depth: int, rng: random.Random) -> None:
        self.blueprint = replace(blueprint, blocks=blueprint.blocks[:depth])
        run = run_symbolic(self.blueprint, blueprint.domain)
        self.tokens = run.blocks[-1].output if run.blocks else run.tokens
        self.reach = max(run.sizes.reach) or Fraction(1)
        own = set(positions(blueprint).values())
        entries = [(d, p) for d, p in self.tokens[0].items() if d not in own and p]
        self.by_degree: dict[int, list[int]] = {}
        for d, polynomial in entries:
            self.by_degree.setdefault(polynomial.degree(), []).append(d)
        self.dimensions = [d for d, _ in entries] or [blueprint.embedding.dimension]
        self.rng = rng

    @property
    def degree(self) -> int:
        """The highest degree of an entry of the first token."""
        return max(self.by_degree, default=0)

    def row(self) -> Row:
        """Return a row: one dimension, several, or a polynomial of the feature."""
        kind = self.rng.random()
        if kind < 0.55:
            return self._expressed(self._polynomial()) or self._combined(2)
        return self._combined(1) if kind < 0.8 else self._combined(self.rng.randint(2, 3))

    def _combined(self, count: int) -> Row:
        chosen = self.rng.sample(self.dimensions, min(count, len(self.dimensions)))
        return {d: rational(self.rng) for d in chosen}

    def _polynomial(self) -> fmpq_poly:
        """Return a polynomial on [−1, 1]: sums of Chebyshev polynomials, and products of roots."""
        rng, degree = self.rng, self.rng.randint(1, max(1, min(self.degree, 5)))
        kind = rng.random()
        if kind < 0.5:
            return _chebyshev(degree)
        if kind < 0.75:
            terms = [_chebyshev(k) * fmpq(rng.randint(-2, 2)) for k in range(degree + 1)]
            return sum(terms, fmpq_poly([]))
        product = fmpq_poly([1])
        for _ in range(degree):
            product *= fmpq_poly([fmpq(rng.randint(-4, 4), 4), rng.choice((-1, 1))])
        return product

    def _expressed(self, polynomial: fmpq_poly) -> Row | None:
        """Return weights that make a row of the first token p(t/reach), highest degree first."""
        scale = fmpq(self.reach.denominator, self.reach.numerator)
        rest = polynomial(fmpq_poly([0, scale]))
        row: Row = {}
        while rest:
            degree = rest.degree()
            if degree not in self.by_degree:
                return None
            d = self.rng.choice(self.by_degree[degree])
            weight = fmpq(rest[degree]) / fmpq(self.tokens[0][d][degree])
            row[d] = row.get(d, Fraction(0)) + to_fraction(weight)
            rest -= self.tokens[0][d] * weight
        return {d: weight for d, weight in row.items() if weight}


def _chebyshev(k: int) -> fmpq_poly:
    below, current = fmpq_poly([1]), fmpq_poly([0, 1])
    for _ in range(k - 1):
        below, current = current, fmpq_poly([0, 2]) * current - below
    return current if k else fmpq_poly([1])


def with_block(
    rng: random.Random, blueprint: Blueprint, depth: int
) -> tuple[Blueprint, str] | None:
    """Insert a block before ``blocks[depth]``; ``None`` where none fits."""
    try:
        stream = Stream(blueprint, depth, rng)
    except ExactformerError:
        return None
    rows = [(stream.row(), stream.row()) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
    for k, (query, _) in enumerate(rows):
        kind = rng.random()
        if kind < 0.45:  # the same polynomial on both sides, mostly against itself
            sign = rng.choice((-1, -1, 1)) * rng.choice((1, 1, 1, 2, Fraction(1, 2)))
            rows[k] = query, {d: sign * weight for d, weight in query.items()}
    own = positions(blueprint)
    rows = [pair for pair in rows if pair[0] and pair[1]]
    if len(own) < blueprint.tokens or not rows:
        return None
    weights, how = _position_weights(rng, stream, rows, own)
    head = Head(*_matrices(rows, own, weights, blueprint.width), _nothing(blueprint))
    if rng.random() < 0.5 or stream.degree * 2 > _MOST_DEGREE:
        return _mixing(rng, blueprint, depth, head, stream), f"block, hard maximum, {how}"
    return _multiplying(rng, blueprint, depth, head, weights), f"block, one-hot, {how}"


def _matrices(
    rows: list[tuple[Row, Row]], own: dict[int, int], weights: list[Fraction], width: int
) -> tuple[Matrix, Matrix]:
    query: dict[tuple[int, int], Fraction] = {}
    key: dict[tuple[int, int], Fraction] = {}
    for r, (q, k) in enumerate(rows):
        query |= {(r, d): weight for d, weight in q.items()}
        key |= {(r, d): weight for d, weight in k.items()}
    for i, weight in enumerate(weights):
        query[len(rows) + i, own[i]] = weight
        key[len(rows) + i, own[i]] = Fraction(1)
    count = len(rows) + len(weights)
    return Matrix.of(count, width, query), Matrix.of(count, width, key)


def _position_weights(
    rng: random.Random, stream: Stream, rows: list[tuple[Row, Row]], own: dict[int, int]
) -> tuple[list[Fraction], str]:
    """Return a weight per token, and how it was chosen."""
    losses = _losses(rng, stream, rows)
    most = Fraction(float(losses.max(initial=0))).limit_denominator(2**20)
    if rng.random() < 0.5:
        lowest = _lowest_weights(stream, rows, own, 8 * abs(most) + 1)
        if lowest is not None:
            more = 1 + rng.choice(_BARELY)
            if rng.random() < 0.5:
                lowest = [max(lowest)] * len(lowest)
            return [weight * more for weight in lowest], "lowest weight proven"
    if rng.random() < 0.7:
        factor = rng.choice(_NEAR)
        return [most * factor or Fraction(1)] * len(losses), "weight near the largest loss"
    return [most * rng.choice((2, 4, 16)) + 1] * len(losses), "generous weight"


def _losses(rng: random.Random, stream: Stream, rows: list[tuple[Row, Row]]) -> Array:
    """Return for every token the most that the rows take from its margin, on a sample of points."""
    blueprint = stream.blueprint
    points = at(float_points(blueprint, rng, 48), blueprint)
    streams = FloatBlueprint(blueprint).run(points).streams[-1]
    query, key = _matrices(rows, {}, [], blueprint.width)
    scores = (streams @ dense(query).T) @ (streams @ dense(key).T).transpose(0, 2, 1)
    n = blueprint.tokens
    lost = scores - scores[:, np.arange(n), np.arange(n)][:, :, None]
    return np.nan_to_num(np.asarray(lost.max(axis=(0, 2))), posinf=1.0)


def _lowest_weights(
    stream: Stream, rows: list[tuple[Row, Row]], own: dict[int, int], enough: Fraction
) -> list[Fraction] | None:
    """Return the weights at which the proof would just succeed, if it succeeds at all."""
    blueprint, n = stream.blueprint, stream.blueprint.tokens
    for weight in (enough, 64 * enough):
        matrices = _matrices(rows, own, [weight] * n, blueprint.width)
        block = _block(blueprint, Head(*matrices, _nothing(blueprint)), Rule.HARD_MAX)
        longer = replace(blueprint, blocks=(*blueprint.blocks, block))
        try:
            proof = prove_selection(run_symbolic(longer, blueprint.domain.enlarged(SLACK)))
        except ExactformerError:
            continue
        margins = proof.margins[-1][0].tolist()
        scales = [abs(blueprint.embedding.constant[i, own[i]]) ** 2 for i in range(n)]
        if all(np.isfinite(margins)):
            pairs = zip(margins, scales, strict=True)
            return [weight - Fraction(margin) / scale for margin, scale in pairs]
    return None


def _nothing(blueprint: Blueprint) -> Matrix:
    return Matrix.of(blueprint.width, blueprint.width, {})


def _block(
    blueprint: Blueprint, head: Head, rule: Rule, feed_forward: FeedForward | None = None
) -> Block:
    return Block(Attention((head,), Selection(rule)), feed_forward or layer(blueprint.width))


def layer(
    width: int,
    units: int = 0,
    activation: PiecewiseLinear = RELU,
    **entries: dict[tuple[int, int], Fraction],
) -> FeedForward:
    """Return a feed-forward layer of some units from the entries of w1, b1, w2, b2."""
    shapes = {"w1": (units, width), "b1": (units, 1), "w2": (width, units), "b2": (width, 1)}
    matrices = {name: Matrix.of(*shape, entries.get(name, {})) for name, shape in shapes.items()}
    return FeedForward(**matrices, activation=activation)


def _mixing(
    rng: random.Random, blueprint: Blueprint, depth: int, head: Head, stream: Stream
) -> Blueprint:
    """Insert a block that adds multiples of the selected token, and undo them for the own token."""
    share = rng.choice((1, 1, 1, 2, -2, Fraction(1, 2), Fraction(-1, 2)))
    dimensions = stream.dimensions if rng.random() < 0.7 else stream.dimensions[:1]
    dimensions = [d for d in dimensions if rng.random() < 0.95]
    value = {(d, d): Fraction(share) for d in dimensions}
    head = replace(head, value=Matrix.of(blueprint.width, blueprint.width, value))
    undone = 1 / (1 + Fraction(share))
    at_the_end = depth == blueprint.depth
    if rng.random() < 0.15:
        return _inserted(blueprint, depth, _block(blueprint, head, Rule.HARD_MAX))
    if at_the_end and rng.random() < 0.5:
        longer = _inserted(blueprint, depth, _block(blueprint, head, Rule.HARD_MAX))
        return replace(
            longer, readouts=tuple(_weighed(r, dimensions, undone) for r in longer.readouts)
        )
    units = len(dimensions)
    scaled = layer(
        blueprint.width,
        units,
        IDENTITY,
        w1={(u, d): Fraction(1) for u, d in enumerate(dimensions)},
        w2={(d, u): undone - 1 for u, d in enumerate(dimensions)},
    )
    return _inserted(blueprint, depth, _block(blueprint, head, Rule.HARD_MAX, scaled))


def _multiplying(
    rng: random.Random, blueprint: Blueprint, depth: int, head: Head, weights: list[Fraction]
) -> Blueprint:
    """Insert a block that writes the selected score somewhere, less the position's weight."""
    width = blueprint.width
    ones = [d for d in range(width) if blueprint.embedding.constant[0, d] == 1]
    source = rng.choice([*ones, rng.randrange(width)])
    written = {
        d for block in blueprint.blocks for h in block.attention.heads for d, _, _ in h.value
    }
    constant = {d for _, d, _ in blueprint.embedding.constant}
    empty = sorted(set(range(width)) - written - constant - {blueprint.embedding.dimension})
    slot = rng.choice(empty) if empty and rng.random() < 0.8 else rng.randrange(width)
    share = rng.choice((1, 1, -1, Fraction(1, 2)))
    head = replace(head, value=Matrix.of(width, width, {(slot, source): share}))
    offset = {(slot, 0): -share * weights[0]} if rng.random() < 0.8 else {}
    block = _block(blueprint, head, Rule.ONE_HOT_MAX, layer(width, b2=offset))
    longer = _inserted(blueprint, depth, block)
    if slot in empty and rng.random() < 0.8:
        readouts = tuple(
            replace(r, beta=Matrix.of(*r.beta.shape, {**r.beta.entries, **_column(rng, r, slot)}))
            for r in longer.readouts
        )
        return replace(longer, readouts=readouts)
    return longer


def _column(rng: random.Random, readout: Readout, slot: int) -> dict[tuple[int, int], Fraction]:
    return {(i, slot): rational(rng) for i in range(readout.beta.rows)}


def _weighed(readout: Readout, dimensions: list[int], factor: Fraction) -> Readout:
    entries = {(i, d): value * factor if d in dimensions else value for i, d, value in readout.beta}
    return replace(readout, beta=Matrix.of(*readout.beta.shape, entries))


def _inserted(blueprint: Blueprint, depth: int, block: Block) -> Blueprint:
    blocks = (*blueprint.blocks[:depth], block, *blueprint.blocks[depth:])
    return replace(blueprint, blocks=blocks)
