"""Blueprints that no construction would draw: hand-made, as printed in the paper, and tampered with."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from exactformer.algebra.ridge import RidgeForm
from exactformer.core.domain import Ball
from exactformer.core.layers import (
    RELU,
    Attention,
    Block,
    Embedding,
    FeedForward,
    Head,
    PiecewiseLinear,
    Readout,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions.paper import paper

Entries = Mapping[tuple[int, int], Fraction | int]


def direct_form(
    directions: Sequence[Sequence[Fraction | int]], beta: Sequence[Sequence[Fraction | int]]
) -> RidgeForm:
    """A ridge form with directions of one's own choosing, parallel and zero ones included."""
    names = tuple(f"x{i + 1}" for i in range(len(directions[0])))
    rows = tuple(tuple(Fraction(c) for c in row) for row in directions)
    weights = tuple(tuple(Fraction(c) for c in row) for row in beta)
    return RidgeForm(names, Fraction(0), rows, weights, len(beta[0]), "by hand")


def paper_with_offsets(form: RidgeForm, radius: Fraction, bounds: Sequence[Fraction]) -> Blueprint:
    """Theorem 3.5 with M of each block as given."""
    blueprint = paper(form, radius)
    blocks = []
    for block, M in zip(blueprint.blocks, bounds, strict=True):
        (head,) = block.attention.heads
        offset = 2 * M * M
        query = {p: v if p[0] == 0 else offset for p, v in head.query.entries.items()}
        changed = replace(head, query=Matrix.of(*head.query.shape, query))
        b2 = dict.fromkeys(block.feed_forward.b2.entries, offset)
        feed_forward = replace(block.feed_forward, b2=Matrix.of(*block.feed_forward.b2.shape, b2))
        blocks.append(Block(replace(block.attention, heads=(changed,)), feed_forward))
    return replace(blueprint, blocks=tuple(blocks))


def paper_as_printed(form: RidgeForm, radius: Fraction) -> Blueprint:
    """Theorem 3.5 as printed: M = B in blocks 1 and 2, M = B^(i−1) in block i ≥ 3."""
    bounds = [radius if i <= 2 else radius ** (i - 1) for i in range(1, form.degree + 1)]
    return paper_with_offsets(form, radius, bounds)


def hand_made(
    features: Entries,
    tokens: int,
    variables: int,
    width: int,
    constant: Entries,
    blocks: Sequence[Block],
    beta: Entries,
    bias: Fraction | int = 0,
    radius: Fraction | int = 1,
) -> Blueprint:
    """Any blueprint at all; the feature stands in dimension 0."""
    return Blueprint(
        variables=tuple(f"x{i + 1}" for i in range(variables)),
        dimensions=tuple(f"dimension {i}" for i in range(width)),
        embedding=Embedding(
            Matrix.of(tokens, variables, features), 0, Matrix.of(tokens, width, constant)
        ),
        blocks=tuple(blocks),
        readouts=(Readout(Matrix.of(tokens, width, beta), Fraction(bias)),),
        domain=Ball(Fraction(radius)),
        degree=1,
        construction="by hand",
    )


def attention_block(
    width: int,
    heads: Sequence[tuple[int, Entries, Entries, Entries]],
    rule: Rule = Rule.ONE_HOT_MAX,
    w1: Entries | None = None,
    b1: Entries | None = None,
    w2: Entries | None = None,
    b2: Entries | None = None,
    units: int = 0,
    activation: PiecewiseLinear = RELU,
) -> Block:
    """A block from entries; each head is (rows, query, key, value)."""
    attention = Attention(
        tuple(
            Head(
                Matrix.of(rows, width, query),
                Matrix.of(rows, width, key),
                Matrix.of(width, width, value),
            )
            for rows, query, key, value in heads
        ),
        Selection(rule),
    )
    feed_forward = FeedForward(
        Matrix.of(units, width, w1 or {}),
        Matrix.of(units, 1, b1 or {}),
        Matrix.of(width, units, w2 or {}),
        Matrix.of(width, 1, b2 or {}),
        activation,
    )
    return Block(attention, feed_forward)


def with_matrix(blueprint: Blueprint, path: str, matrix: Matrix) -> Blueprint:
    """The same blueprint with one matrix replaced."""
    parts = path.split(".")
    if parts[0] == "embedding":
        return replace(blueprint, embedding=replace(blueprint.embedding, **{parts[1]: matrix}))
    if path == "readouts.0.beta":
        return replace(blueprint, readouts=(replace(blueprint.readouts[0], beta=matrix),))
    if path == "readouts.0.bias":
        return replace(blueprint, readouts=(replace(blueprint.readouts[0], bias=matrix[0, 0]),))
    b = int(parts[1])
    block = blueprint.blocks[b]
    if parts[2] == "heads":
        heads = list(block.attention.heads)
        heads[int(parts[3])] = replace(heads[int(parts[3])], **{parts[4]: matrix})
        block = replace(block, attention=replace(block.attention, heads=tuple(heads)))
    else:
        block = replace(block, feed_forward=replace(block.feed_forward, **{parts[3]: matrix}))
    blocks = (*blueprint.blocks[:b], block, *blueprint.blocks[b + 1 :])
    return replace(blueprint, blocks=blocks)


def tampered(rng: random.Random, blueprint: Blueprint) -> tuple[Blueprint, str]:
    """Change, add or remove one entry of one matrix; return the result and what was done."""
    path, matrix = rng.choice([m for m in blueprint.matrices() if m[1].rows * m[1].columns])
    entries = dict(matrix.entries)
    if entries and rng.random() < 0.7:
        place = rng.choice(list(entries))
        value = _other(rng, entries[place])
    else:
        place = (rng.randrange(matrix.rows), rng.randrange(matrix.columns))
        value = _other(rng, entries.get(place, Fraction(0)))
    before = entries.get(place, Fraction(0))
    entries[place] = value
    changed = with_matrix(blueprint, path, Matrix.of(*matrix.shape, entries))
    return changed, f"{path} {place}: {before} → {value}"


def _other(rng: random.Random, value: Fraction) -> Fraction:
    choices = [
        Fraction(0),
        -value,
        value * 2,
        value / 2,
        value * (1 + Fraction(rng.choice([-1, 1]), 10 ** rng.randint(1, 30))),
        value + Fraction(rng.choice([-1, 1]), 10 ** rng.randint(0, 30)),
        Fraction(rng.randint(-9, 9), rng.randint(1, 9)),
        Fraction(10) ** rng.randint(-20, 20),
    ]
    different = [c for c in choices if c != value]
    return rng.choice(different)
