"""Layers that mutations insert: heads, units and look-ups near codes that occur."""

from dataclasses import replace
from fractions import Fraction

from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    Layer,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from tests.adversary.sequence_drafts import (
    INDICATOR,
    STEP,
    Draft,
    NotApplicableError,
    Units,
    is_piecewise,
    known_codes,
    small,
    units_of,
)


def random_row(draft: Draft) -> int:
    return draft.rng.randrange(draft.blueprint.width)


def code_row(draft: Draft) -> Matrix:
    """Return what reads a token's id or key, in the units of the stream."""
    unit = draft.unit()
    code = draft.blueprint.code
    return Matrix.of(1, code.columns, {p: v * unit for p, v in code.entries.items()})


def random_read(draft: Draft) -> Matrix:
    """Return a row that reads the code, nothing, or some row."""
    rng, w = draft.rng, draft.blueprint.width
    if rng.random() < 0.7:
        return code_row(draft)
    entries = {(0, random_row(draft)): small(rng) for _ in range(rng.randint(0, 2))}
    return Matrix.of(1, w, entries)


def random_head(draft: Draft) -> Head:
    """Return a head of size one whose bias is near an id or a key, or a tie."""
    rng, w = draft.rng, draft.blueprint.width
    half = draft.unit() * Fraction(rng.choice([0, 1, 1, -1]), 2)
    bias = half - rng.choice([Fraction(0), *known_codes(draft)])
    target = rng.choice([random_row(draft), *(r for _, r in draft.blueprint.code.entries)])
    weight = small(rng) * rng.choice([1, 1, draft.grid.points])
    read = random_read(draft)
    value = Matrix.of(w, w, {(target, r): weight * v for _, r, v in read})
    query, key = random_read(draft), random_read(draft)
    if rng.random() < 0.2:
        return Head(query, key, value)
    return BiasedHead(query, key, value, Matrix.of(1, 1, {(0, 0): bias}))


def negated(head: Head) -> Head:
    value = head.value
    opposite = {place: -v for place, v in value.entries.items()}
    return replace(head, value=Matrix.of(*value.shape, opposite))


def random_attention(draft: Draft) -> Attention:
    """Return one head, two, or two that cancel where they select the same token."""
    rng = draft.rng
    first = random_head(draft)
    heads: tuple[Head, ...] = (first,)
    kind = rng.random()
    if kind < 0.5:
        second = negated(first)
        if isinstance(second, BiasedHead):
            moved = second.bias[0, 0] + draft.unit() * small(rng)
            second = replace(second, bias=Matrix.of(1, 1, {(0, 0): moved}))
        heads = (first, second)
    elif kind < 0.6:
        heads = (first, random_head(draft))
    elif kind < 0.65:
        heads = ()
    return Attention(heads, Selection(Rule.HARD_MAX))


def random_activation(draft: Draft) -> PiecewiseLinear:
    """Return a function of the blueprint, a usual one, or one made of random pieces."""
    rng, unit = draft.rng, draft.unit()
    own = [
        units_of(part).activation
        for stage in draft.blueprint.stages
        for part in stage.parts[:2]
        if is_piecewise(part)
    ]
    goal = rng.choice(known_codes(draft))
    usual = [
        PiecewiseLinear.of((), ((0, 0),)),
        PiecewiseLinear.of((), ((1, 0),)),
        PiecewiseLinear.of((), ((0, 1),)),
        STEP,
        PiecewiseLinear.of((-unit / 2, unit / 2), ((0, 0), (0, 1), (0, 0)))
        if unit > 0
        else INDICATOR,
        PiecewiseLinear.of((0,), ((-1, 0), (0, 0))),
        PiecewiseLinear.of((0,), ((-1, goal), (0, 0))),
        PiecewiseLinear.of((0,), ((0, goal), (0, 0))),
        PiecewiseLinear.of((goal,), ((0, 0), (-1, rng.choice(known_codes(draft))))),
    ]
    breaks = sorted({unit * Fraction(rng.randint(-4, 8), 2) for _ in range(rng.randint(1, 2))})
    pieces = [(rng.choice([0, 0, 1, -1]), rng.randint(-2, 2) * unit) for _ in (*breaks, None)]
    return rng.choice([*own, *usual, PiecewiseLinear.of(breaks, pieces)])


def random_units(draft: Draft) -> FeedForward:
    """Return one to three units that read the code or a row and write to few rows, or to none."""
    rng, w = draft.rng, draft.blueprint.width
    count = rng.randint(1, 3)
    w1: dict[tuple[int, int], Fraction] = {}
    b1, w2 = {}, {}
    for m in range(count):
        if rng.random() < 0.5:
            w1.update({(m, r): v for _, r, v in code_row(draft)})
        else:
            w1[m, random_row(draft)] = Fraction(1)
        b1[m, 0] = -rng.choice([Fraction(0), *known_codes(draft)])
        for _ in range(rng.choice([0, 1, 1, 2])):
            w2[random_row(draft), m] = small(rng)
    return FeedForward(
        Matrix.of(count, w, w1),
        Matrix.of(count, 1, b1),
        Matrix.of(w, count, w2),
        Matrix.of(w, 1, {(random_row(draft), 0): small(rng)} if rng.random() < 0.15 else {}),
        random_activation(draft),
    )


def at_keys(draft: Draft, moves: dict[Fraction, Fraction]) -> FeedForward:
    """Return units that add so much to a row of the code at certain codes."""
    code, w, unit = draft.blueprint.code, draft.blueprint.width, draft.unit()
    row = next((r for _, r, v in code if v * unit == 1), None)
    if row is None or unit <= 0:
        raise NotApplicableError
    keys = list(moves)
    reads = {(m, r): v * unit for m in range(len(keys)) for _, r, v in code}
    return FeedForward(
        Matrix.of(len(keys), w, reads),
        Matrix.of(len(keys), 1, {(m, 0): -key for m, key in enumerate(keys)}),
        Matrix.of(w, len(keys), {(row, m): moves[key] for m, key in enumerate(keys)}),
        Matrix.of(w, 1, {}),
        PiecewiseLinear.of((-unit / 2, unit / 2), ((0, 0), (0, 1), (0, 0))),
    )


def permutation(draft: Draft) -> tuple[FeedForward, FeedForward]:
    """Return look-ups that permute a few codes, and the inverse."""
    codes = sorted(set(known_codes(draft)))
    size = min(len(codes), draft.rng.randint(2, 3))
    cycle = draft.rng.sample(codes, size)
    there = {a: b - a for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)}
    back = {b: a - b for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)}
    return at_keys(draft, there), at_keys(draft, back)


def in_turn(draft: Draft, units: Units, share: float = 0.5) -> Layer:
    return replace(units, successive=1) if draft.rng.random() < share else units
