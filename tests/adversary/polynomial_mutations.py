"""Changes to a blueprint: each keeps it well formed, none cares whether it stays right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from exactformer.core.domain import Ball, Box
from exactformer.core.layers import IDENTITY, RELU, Block, Head, Readout, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.polynomials.blueprint import Blueprint
from tests.adversary.interpreter import FloatBlueprint
from tests.adversary.points import at, float_points
from tests.adversary.polynomial_bases import direction, domain, rational
from tests.adversary.polynomial_blocks import layer, positions, with_block
from tests.cases.blueprints import tampered, with_matrix

Mutation = Callable[[random.Random, Blueprint], Blueprint | tuple[Blueprint, str] | None]

_MOST_BLOCKS, _MOST_TOKENS = 6, 8
_FACTORS = [Fraction(k, 10) for k in (-10, 5, 9, 11, 20)] + [
    1 + Fraction(1, 2**k) for k in (30, 10)
]
_CLOSE = [Fraction(k, 100) for k in (90, 99, 100, 101, 105, 120, 200)]


def mutated(rng: random.Random, blueprint: Blueprint) -> tuple[Blueprint, str]:
    """Apply one change; a change that does not fit is replaced by another."""
    while True:
        name = rng.choices(list(MUTATIONS), [share for share, _ in MUTATIONS.values()])[0]
        found = MUTATIONS[name][1](rng, blueprint)
        if isinstance(found, tuple):
            return found
        if found is not None:
            return found, name


def misshapen(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Give one matrix a row or a column more, or one less where no entry stands."""
    paths = [path for path, _ in blueprint.matrices() if not path.endswith("bias")]
    path = rng.choice([path for path in paths if not path.startswith("readouts.1")])
    matrix = dict(blueprint.matrices())[path]
    rows, columns = matrix.shape
    rows, columns = rng.choice(((rows + 1, columns), (rows, columns + 1), (rows - 1, columns)))
    entries = {p: v for p, v in matrix.entries.items() if p[0] < rows}
    return with_matrix(blueprint, path, Matrix.of(max(rows, 0), columns, entries))


def _append_block(rng: random.Random, blueprint: Blueprint) -> tuple[Blueprint, str] | None:
    if blueprint.depth >= _MOST_BLOCKS:
        return None
    return with_block(rng, blueprint, blueprint.depth)


def _insert_block(rng: random.Random, blueprint: Blueprint) -> tuple[Blueprint, str] | None:
    if blueprint.depth >= _MOST_BLOCKS:
        return None
    return with_block(rng, blueprint, rng.randint(0, blueprint.depth))


def _copy_token(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Add a token that is another's copy, turned or scaled perhaps; its position may be its own."""
    n, w = blueprint.tokens, blueprint.width
    own, embedding = positions(blueprint), blueprint.embedding
    if n >= _MOST_TOKENS:
        return None
    i = rng.randrange(n)
    factor = rng.choice((1, 1, -1, Fraction(1, 2), 0))
    features = {**embedding.features.entries}
    features |= {(n, j): v * factor for j, v in embedding.features.by_row.get(i, [])}
    constant = {**embedding.constant.entries}
    fresh = i in own and rng.random() < 0.75
    for d, v in embedding.constant.by_row.get(i, []):
        place = w if fresh and d == own[i] else d
        constant[n, place] = v * factor if d == embedding.dimension else v
    halves = rng.random() < 0.6
    readouts = []
    for readout in blueprint.readouts:
        beta = {**readout.beta.entries}
        for d, v in readout.beta.by_row.get(i, []):
            beta[n, d] = v / 2 if halves else rational(rng)
            beta[i, d] = v / 2 if halves else v
        readouts.append(replace(readout, beta=Matrix.of(n + 1, w, beta)))
    wider = replace(
        blueprint,
        embedding=replace(
            embedding,
            features=Matrix.of(n + 1, embedding.features.columns, features),
            constant=Matrix.of(n + 1, w + 1, constant),
        ),
        readouts=tuple(readouts),
        dimensions=(*blueprint.dimensions, f"position of token {n + 1}"),
    )
    return _widened(wider, own[i] if fresh else None)


def _widened(blueprint: Blueprint, like: int | None) -> Blueprint:
    """Fit all matrices to one dimension more, read by rows of its own where ``like`` is read."""
    w = blueprint.width

    def wide(matrix: Matrix) -> Matrix:
        return Matrix.of(matrix.rows, w, matrix.entries)

    def head_of(head: Head) -> Head:
        parts = {}
        rows = sorted({r for m in (head.query, head.key) for r, d, _ in m if d == like})
        for name in ("query", "key"):
            matrix: Matrix = getattr(head, name)
            entries = {**matrix.entries}
            for k, row in enumerate(rows):
                if (row, like) in entries:
                    entries[matrix.rows + k, w - 1] = entries[row, like]
            parts[name] = Matrix.of(matrix.rows + len(rows), w, entries)
        return Head(**parts, value=Matrix.of(w, w, head.value.entries))

    def block_of(block: Block) -> Block:
        ff = block.feed_forward
        heads = tuple(head_of(head) for head in block.attention.heads)
        changed = replace(
            ff,
            w1=wide(ff.w1),
            w2=Matrix.of(w, ff.w2.columns, ff.w2.entries),
            b2=Matrix.of(w, 1, ff.b2.entries),
        )
        return Block(replace(block.attention, heads=heads), changed)

    return replace(
        blueprint,
        blocks=tuple(map(block_of, blueprint.blocks)),
        readouts=tuple(replace(r, beta=wide(r.beta)) for r in blueprint.readouts),
    )


def _merge_positions(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Give one token the position of another."""
    own = positions(blueprint)
    if len(own) < 2:
        return None
    i, j = rng.sample(sorted(own), 2)
    entries = {**blueprint.embedding.constant.entries}
    value = entries.pop((i, own[i]))
    entries[i, own[j]] = value
    return _with_constant(blueprint, entries)


def _permute_tokens(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    order = list(range(blueprint.tokens))
    rng.shuffle(order)

    def moved(matrix: Matrix) -> Matrix:
        return Matrix.of(*matrix.shape, {(order[i], j): v for i, j, v in matrix})

    embedding = blueprint.embedding
    features = moved(embedding.features) if rng.random() < 0.9 else embedding.features
    readouts = [replace(r, beta=moved(r.beta)) for r in blueprint.readouts]
    return replace(
        blueprint,
        embedding=replace(embedding, features=features, constant=moved(embedding.constant)),
        readouts=tuple(readouts),
    )


def _change_feature(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Make one token's direction zero, another's, opposite, longer, or any."""
    matrix, n = blueprint.embedding.features, blueprint.tokens
    d = matrix.columns
    i, j = rng.randrange(n), rng.randrange(n)
    row = {
        "zero": [Fraction(0)] * d,
        "other": [matrix[j, k] * rng.choice((1, -1)) for k in range(d)],
        "longer": [matrix[i, k] * rng.choice(_FACTORS) for k in range(d)],
        "any": direction(rng, d),
    }[rng.choice(("zero", "other", "longer", "any"))]
    entries = {p: v for p, v in matrix.entries.items() if p[0] != i}
    entries |= {(i, k): v for k, v in enumerate(row)}
    features = Matrix.of(*matrix.shape, entries)
    return replace(blueprint, embedding=replace(blueprint.embedding, features=features))


def _change_constant(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Change one constant of one token: a longer position, another one, a moved feature."""
    entries = {**blueprint.embedding.constant.entries}
    if entries and rng.random() < 0.7:
        place = rng.choice(list(entries))
        entries[place] *= rng.choice(_FACTORS)
    else:
        place = rng.randrange(blueprint.tokens), rng.randrange(blueprint.width)
        entries[place] = entries.get(place, Fraction(0)) + rational(rng)
    return _with_constant(blueprint, entries)


def _with_constant(blueprint: Blueprint, entries: dict[tuple[int, int], Fraction]) -> Blueprint:
    constant = Matrix.of(*blueprint.embedding.constant.shape, entries)
    return replace(blueprint, embedding=replace(blueprint.embedding, constant=constant))


def _at_block(
    rng: random.Random, blueprint: Blueprint, change: Callable[[Block], Block]
) -> Blueprint | None:
    if not blueprint.blocks:
        return None
    b = rng.randrange(blueprint.depth)
    blocks = list(blueprint.blocks)
    blocks[b] = change(blocks[b])
    return replace(blueprint, blocks=tuple(blocks))


def _split_head(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Replace a head by two that share its value, or have it twice."""

    def change(block: Block) -> Block:
        heads = list(block.attention.heads)
        if not heads or len(heads) > 4:
            return block
        h = rng.randrange(len(heads))
        share = rng.choice((Fraction(1, 2), Fraction(1, 3), Fraction(2), Fraction(1)))
        rest = rng.choice((1 - share, 1 - share, Fraction(1)))
        parts = [_scaled(heads[h].value, factor) for factor in (share, rest)]
        heads[h : h + 1] = [replace(heads[h], value=value) for value in parts]
        return replace(block, attention=replace(block.attention, heads=tuple(heads)))

    return _at_block(rng, blueprint, change)


def _scaled(matrix: Matrix, factor: Fraction) -> Matrix:
    return Matrix.of(*matrix.shape, {p: v * factor for p, v in matrix.entries.items()})


def _at_head(
    rng: random.Random, blueprint: Blueprint, change: Callable[[Head], Head]
) -> Blueprint | None:
    def in_block(block: Block) -> Block:
        heads = list(block.attention.heads)
        if heads:
            h = rng.randrange(len(heads))
            heads[h] = change(heads[h])
        return replace(block, attention=replace(block.attention, heads=tuple(heads)))

    return _at_block(rng, blueprint, in_block)


def _scale_row(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Multiply a row of the query and divide that of the key, or forget to."""

    def change(head: Head) -> Head:
        if not head.query.rows:
            return head
        row, factor = rng.randrange(head.query.rows), rational(rng)
        back = 1 / factor if rng.random() < 0.7 else Fraction(1)
        return replace(
            head,
            query=_row_scaled(head.query, row, factor),
            key=_row_scaled(head.key, row, back),
        )

    return _at_head(rng, blueprint, change)


def _row_scaled(matrix: Matrix, row: int, factor: Fraction) -> Matrix:
    entries = {p: v * factor if p[0] == row else v for p, v in matrix.entries.items()}
    return Matrix.of(*matrix.shape, entries)


def _copy_row(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Have a row of query and key twice, the copies taking shares; or add a row against it."""

    def change(head: Head) -> Head:
        rows = head.query.rows
        if not rows:
            return head
        row, share = rng.randrange(rows), Fraction(rng.choice((1, 2, -1, 3)), 2)
        key = {p: v * (1 - share) if p[0] == row else v for p, v in head.key.entries.items()}
        key |= {(rows, d): v * share for (r, d), v in head.key.entries.items() if r == row}
        query = {**head.query.entries}
        query |= {(rows, d): v for (r, d), v in head.query.entries.items() if r == row}
        width = head.query.columns
        return replace(
            head, query=Matrix.of(rows + 1, width, query), key=Matrix.of(rows + 1, width, key)
        )

    return _at_head(rng, blueprint, change)


def _change_row(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Let a row of the query or key read one dimension more."""

    def change(head: Head) -> Head:
        name = rng.choice(("query", "key"))
        matrix: Matrix = getattr(head, name)
        if not matrix.rows:
            return head
        place = rng.randrange(matrix.rows), rng.randrange(matrix.columns)
        entries = {**matrix.entries, place: matrix[place] + rational(rng)}
        return replace(head, **{name: Matrix.of(*matrix.shape, entries)})

    return _at_head(rng, blueprint, change)


def _lower_positions(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Multiply what a head has for positions: all rows that read one dimension alone on both sides."""
    own = set(positions(blueprint).values())
    factor = rng.choice((Fraction(1, 2), Fraction(2, 3), Fraction(9, 10), Fraction(11, 10), 3))

    def change(head: Head) -> Head:
        entries = {p: v * factor if p[1] in own else v for p, v in head.query.entries.items()}
        return replace(head, query=Matrix.of(*head.query.shape, entries))

    return _at_head(rng, blueprint, change)


def _change_value(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    def change(head: Head) -> Head:
        w = head.value.rows
        entries = {**head.value.entries}
        place = rng.randrange(w), rng.randrange(w)
        entries[place] = entries.get(place, Fraction(0)) + rational(rng)
        return replace(head, value=Matrix.of(w, w, entries))

    return _at_head(rng, blueprint, change)


def _swap_blocks(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Exchange two blocks, or only their heads or feed-forward layers."""
    if blueprint.depth < 2:
        return None
    a, b = rng.sample(range(blueprint.depth), 2)
    blocks = list(blueprint.blocks)
    part = rng.choice(("attention", "feed_forward", "both"))
    first, second = blocks[a], blocks[b]
    for name in ("attention", "feed_forward") if part == "both" else (part,):
        blocks[a] = replace(blocks[a], **{name: getattr(second, name)})
        blocks[b] = replace(blocks[b], **{name: getattr(first, name)})
    return replace(blueprint, blocks=tuple(blocks))


def _repeat_block(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    if not 0 < blueprint.depth < _MOST_BLOCKS - 1:
        return None
    b = rng.randrange(blueprint.depth)
    blocks = (*blueprint.blocks[: b + 1], *blueprint.blocks[b:])
    return replace(blueprint, blocks=blocks)


def _drop_heads(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Leave out a head, or all heads of a block."""

    def change(block: Block) -> Block:
        heads = list(block.attention.heads)
        if heads and rng.random() < 0.5:
            heads.pop(rng.randrange(len(heads)))
        else:
            heads = []
        return replace(block, attention=replace(block.attention, heads=tuple(heads)))

    return _at_block(rng, blueprint, change)


def _exchange_rule(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    def change(block: Block) -> Block:
        rule = rng.choice([r for r in Rule if r is not block.attention.selection.rule])
        return replace(block, attention=replace(block.attention, selection=Selection(rule)))

    return _at_block(rng, blueprint, change)


def _change_temperature(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    def change(block: Block) -> Block:
        selection = replace(block.attention.selection, temperature=abs(rational(rng)))
        return replace(block, attention=replace(block.attention, selection=selection))

    return _at_block(rng, blueprint, change)


def _exchange_activation(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    def change(block: Block) -> Block:
        ff = block.feed_forward
        other = {RELU: IDENTITY, IDENTITY: RELU}
        return replace(block, feed_forward=replace(ff, activation=other[ff.activation]))

    return _at_block(rng, blueprint, change)


def _add_unit(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Add a unit whose input stays on one side of zero, nearly or exactly, on a sample of points."""
    if not blueprint.blocks:
        return None
    b = rng.randrange(blueprint.depth)
    block, w = blueprint.blocks[b], blueprint.width
    dimensions = rng.sample(range(w), min(w, rng.randint(1, 3)))
    weights = {d: rational(rng) for d in dimensions}
    shorter = replace(blueprint, blocks=blueprint.blocks[: b + 1])
    points = at(float_points(blueprint, rng, 32), blueprint)
    stream = (
        FloatBlueprint(shorter).run(points).streams[-2]
    )  # before the block, which is near enough
    values = stream @ np.array([float(weights.get(d, 0)) for d in range(w)])
    most = float(np.nan_to_num(np.abs(values).max(initial=0)))
    bias = Fraction(most).limit_denominator(2**20) * rng.choice(_CLOSE) * rng.choice((1, 1, -1))
    ff = block.feed_forward
    units = ff.w1.rows
    targets = rng.sample(range(w), rng.randint(0, min(w, 2)))
    slope = rational(rng)
    changed = layer(
        w,
        units + 1,
        ff.activation,
        w1={**ff.w1.entries, **{(units, d): c for d, c in weights.items()}},
        b1={**ff.b1.entries, (units, 0): bias},
        w2={**ff.w2.entries, **{(d, units): slope for d in targets}},
        b2=dict(ff.b2.entries),
    )
    blocks = list(blueprint.blocks)
    blocks[b] = replace(block, feed_forward=changed)
    return replace(blueprint, blocks=tuple(blocks))


def _change_bias(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    def change(block: Block) -> Block:
        ff = block.feed_forward
        name = rng.choice(("b1", "b2"))
        matrix: Matrix = getattr(ff, name)
        if not matrix.rows:
            return block
        entries = {**matrix.entries}
        place = rng.randrange(matrix.rows), 0
        entries[place] = entries.get(place, Fraction(0)) + rational(rng)
        return replace(block, feed_forward=replace(ff, **{name: Matrix.of(*matrix.shape, entries)}))

    return _at_block(rng, blueprint, change)


def _change_domain(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Enlarge or shrink the domain, make a box a ball and the reverse, or move it."""
    where, d = blueprint.domain, len(blueprint.variables)
    centre = tuple(where.offset(j) for j in range(d))
    factor = rng.choice((Fraction(1, 4), Fraction(9, 10), 1 + Fraction(1, 2**20), Fraction(2)))
    kind = rng.choice(("size", "size", "shape", "shape", "any"))
    if kind == "size":
        return replace(blueprint, domain=where.enlarged(factor))
    if kind == "shape":
        if isinstance(where, Box):
            return replace(blueprint, domain=Ball(min(where.half_widths), centre))
        return replace(blueprint, domain=Box(centre, (where.radius,) * d))
    return replace(blueprint, domain=domain(rng, d))


def _change_labels(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Exchange every text and count that describes a blueprint: none may matter."""
    names = list(blueprint.dimensions)
    rng.shuffle(names)
    construction = rng.choice(("paper", "scaled", "doubling", "chebyshev", "softmax", "none"))
    return replace(
        blueprint,
        construction=construction,
        degree=rng.randint(0, 9),
        dimensions=tuple(names),
        metadata={"target": "x1", "directions": "lattice", "heads": "3"},
    )


def _call_it_chebyshev(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    name = "chebyshev" if blueprint.construction != "chebyshev" else "scaled"
    return replace(blueprint, construction=name)


def _change_readout(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Change a weight or the bias of an output, or add an output."""
    readouts = list(blueprint.readouts)
    k = rng.randrange(len(readouts))
    if blueprint.vector and rng.random() < 0.3:
        return replace(blueprint, readouts=(*readouts, _other_readout(rng, readouts[k])))
    readouts[k] = _other_readout(rng, readouts[k])
    return replace(blueprint, readouts=tuple(readouts))


def _other_readout(rng: random.Random, readout: Readout) -> Readout:
    n, w = readout.beta.shape
    entries = {**readout.beta.entries}
    if rng.random() < 0.5:
        entries = {p: v * rng.choice(_FACTORS) for p, v in entries.items()}
    else:
        entries[rng.randrange(n), rng.randrange(w)] = rational(rng)
    return Readout(Matrix.of(n, w, entries), readout.bias + rng.choice((0, 0, 1)))


def _change_vector(rng: random.Random, blueprint: Blueprint) -> Blueprint:
    """Call a vector a scalar, or the reverse."""
    return replace(blueprint, vector=not blueprint.vector)


def _tamper(rng: random.Random, blueprint: Blueprint) -> Blueprint | None:
    """Change one entry of one matrix to anything."""
    return tampered(rng, blueprint)[0] if len(blueprint.readouts) == 1 else None


MUTATIONS: dict[str, tuple[int, Mutation]] = {
    "append block": (14, _append_block),
    "insert block": (6, _insert_block),
    "copy token": (3, _copy_token),
    "merge positions": (1, _merge_positions),
    "permute tokens": (2, _permute_tokens),
    "change feature": (3, _change_feature),
    "change constant": (2, _change_constant),
    "split head": (2, _split_head),
    "scale row": (2, _scale_row),
    "copy row": (2, _copy_row),
    "change row": (2, _change_row),
    "change positions' weight": (2, _lower_positions),
    "change value": (2, _change_value),
    "swap blocks": (1, _swap_blocks),
    "repeat block": (1, _repeat_block),
    "drop heads": (1, _drop_heads),
    "exchange rule": (1, _exchange_rule),
    "change temperature": (1, _change_temperature),
    "exchange activation": (1, _exchange_activation),
    "add unit": (3, _add_unit),
    "change bias": (1, _change_bias),
    "change domain": (3, _change_domain),
    "change labels": (1, _change_labels),
    "exchange basis": (1, _call_it_chebyshev),
    "change readout": (2, _change_readout),
    "change shape": (1, _change_vector),
    "tamper": (2, _tamper),
}
"""How often each change is made, and the change."""
