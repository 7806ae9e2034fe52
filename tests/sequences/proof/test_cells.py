"""Quantisers of all kinds: where a cell is said to end at one number, every point of it does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from exactformer.core.layers import Attention, FeedForward, Head, PiecewiseLinear, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.core.run_exact import apply_layer, to_column
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint, SequenceEmbedding, Stage
from exactformer.sequences.proof.cells import cell_edges, quantised, visits
from exactformer.sequences.run.exact import embed
from tests.cases.forged_sequences import units

ONE = Fraction(1)
STEP = PiecewiseLinear.of((0,), ((0, 0), (0, 1)))
COLLAPSE = PiecewiseLinear.of((0, 1), ((0, 0), (-1, 0), (0, 0)))


def quantiser(
    *parts: Any, dim: int = 1, width: int = 2, cells: int = 2, **embedding: Any
) -> SequenceBlueprint:
    """Return two tokens' cells as [0, N) of the stream, and parts that do something to them."""
    features = embedding.get("features", {(r, r): 1 for r in range(dim)})
    return SequenceBlueprint(
        tokens=2,
        dim=dim,
        delta=Fraction(1, cells),
        form="none",
        positional=False,
        support=(Fraction(0), Fraction(cells)),
        realisation="hard",
        dimensions=tuple(f"row {r}" for r in range(width)),
        embedding=SequenceEmbedding(
            Matrix.of(width, dim, features),
            Matrix.of(width, 1, embedding.get("constant", {})),
            Matrix.of(width, 2, embedding.get("positions", {})),
        ),
        stages=(Stage("quantise", parts),),
        readout=Matrix.of(dim, width, {}),
        code=Matrix.of(1, width, {(0, 0): 1}),
        largest_key=0,
    )


def stream_after(blueprint: SequenceBlueprint, tokens: Any) -> list[list[Fraction]]:
    stream = embed(blueprint.embedding, tokens)
    for layer in blueprint.stages[0].layers():
        stream = apply_layer(layer, stream)
    return [to_column(token, blueprint.width) for token in stream]


def agrees(blueprint: SequenceBlueprint, rng: random.Random) -> bool:
    """Whether the parts add up to what the layers make of points; False where nothing is said."""
    try:
        after = quantised(blueprint, ONE)
    except CertificationError:
        return False
    edges = cell_edges(blueprint)
    tiny = Fraction(1, 10**6)
    for k in range(3 * blueprint.cells):
        tokens, parts = [], []
        for i in range(2):
            column, total = [], list(after.base[i])
            for r in range(blueprint.dim):
                q = rng.randrange(blueprint.cells) if k or not after.outside else -1
                below = rng.random() < 0.5
                low, high = edges[q], edges[q + 1] if q >= 0 else edges[-1]
                inside = rng.choice([low, low + tiny, (low + high) / 2, high - tiny])
                away = rng.choice([tiny, 1, 5, 1000])
                x = inside if q >= 0 else edges[0] - away if below else edges[-1] + away - tiny
                part = after.cells[i][r][q] if q >= 0 else after.outside[i][r][not below]  # type: ignore[index]
                column.append(x)
                total = [a + b for a, b in zip(total, part, strict=True)]
            tokens.append(column)
            parts.append(total)
        for own, whole in zip(stream_after(blueprint, tokens), parts, strict=True):
            used = [row for row in range(blueprint.width) if row not in after.free]
            assert [own[row] for row in used] == [whole[row] for row in used]
    return True


def anything(rng: random.Random) -> SequenceBlueprint:
    """Return a quantiser of random units, some of which collapse cells as those of the theorem do."""
    dim, cells = rng.randint(1, 2), rng.randint(1, 3)
    width = dim + 1
    parts: list[Any] = []
    for _ in range(rng.randint(1, 4)):
        count = rng.randint(1, 3)
        shapes = [COLLAPSE, STEP, random_shape(rng)]
        activation = rng.choice(shapes)
        rows = [rng.randrange(dim) for _ in range(count)]
        writes: list[dict[int, Fraction | int]] = [
            {rng.choice([r, width - 1]): rng.choice([1, 1, 1, -1, 2])} for r in rows
        ]
        layer = units(
            width,
            [{r: rng.choice([1, 1, 1, 2, Fraction(1, 2)])} for r in rows],
            [-rng.randint(-1, cells) for _ in rows],
            writes,
            activation,
        )
        if rng.random() < 0.2:
            layer = replace(layer, b2=Matrix.of(width, 1, {(width - 1, 0): rng.randint(-3, 3)}))
        parts.append(replace(layer, successive=1) if rng.random() < 0.5 else layer)
    for r in range(dim):
        edges = list(range(cells))
        if rng.random() < 0.2:
            rng.shuffle(edges)
        layer = units(width, [{r: 1}] * cells, [-k for k in edges], [{r: 1}] * cells, COLLAPSE)
        parts.insert(rng.randint(0, len(parts)), replace(layer, successive=1))
        if rng.random() < 0.7:
            away = PiecewiseLinear.of((0, cells), ((-1, -9), (0, 0), (-1, -9)))
            parts.append(units(width, [{r: 1}], [0], [{r: 1}], away))
    return quantiser(
        *parts,
        dim=dim,
        width=width,
        cells=cells,
        constant={(width - 1, 0): rng.randint(-2, 2)},
        positions={(rng.randrange(width), 1): rng.choice([0, 0, 1])},
    )


def random_shape(rng: random.Random) -> PiecewiseLinear:
    breaks = sorted(rng.sample(range(-2, 4), rng.randint(1, 2)))
    pieces = [(rng.choice([0, 0, 0, -1, 1]), rng.randint(-2, 2)) for _ in range(len(breaks) + 1)]
    return PiecewiseLinear.of(breaks, pieces)


def test_what_is_said_of_a_cell_holds_at_its_points() -> None:
    rng = random.Random(0)
    followed = [agrees(anything(rng), rng) for _ in range(600)]
    assert 60 < sum(followed) < 400


def collapsing(cells: int = 2, width: int = 2, row: int = 0) -> FeedForward:
    layer = units(
        width, [{row: 1}] * cells, [-k for k in range(cells)], [{row: 1}] * cells, COLLAPSE
    )
    return replace(layer, successive=1)


def test_both_sides_of_an_edge_are_told_apart() -> None:
    """[0, 1) is one cell and 1 begins the next: an edge moved up or down is no edge of the grid."""
    tiny = Fraction(1, 10**9)
    count = [
        units(2, [{0: 1}] * 2, [-1 + by, 0], [{1: 1}, {1: 1}], STEP) for by in (0, tiny, -tiny)
    ]
    honest, early, late = (quantiser(one, collapsing()) for one in count)
    after = quantised(honest, ONE)
    assert list(after.cells[0][0]) == [[0, 1], [1, 2]]
    for wrong in (early, late):
        with pytest.raises(CertificationError, match="whole cell"):
            quantised(wrong, ONE)


def test_whatever_is_above_or_below_is_followed_to_infinity() -> None:
    """A unit that bends again at 1000 leaves the inside alone, and says nothing about outside."""
    for place in (1000, -1000):
        bent = PiecewiseLinear.of(
            (place,), ((0, 0), (1, -place)) if place > 0 else ((1, -place), (0, 0))
        )
        away = PiecewiseLinear.of((0, 2), ((-1, -9), (0, 0), (-1, -9)))
        last = units(2, [{0: 1}], [0], [{0: 1}], away)
        plain = quantiser(collapsing(), last)
        assert quantised(plain, ONE).outside == (((([-9, 0]), [-9, 0]),),) * 2
        strange = quantiser(units(2, [{0: 1}], [0], [{0: 1}], bent), collapsing(), last)
        assert quantised(strange, ONE).cells == quantised(plain, ONE).cells
        assert quantised(strange, ONE).outside is None


def test_a_number_at_a_break_belongs_to_the_piece_above_it() -> None:
    """Outside becomes -9, where a step begins."""
    away = PiecewiseLinear.of((0, 2), ((-1, -9), (0, 0), (-1, -9)))
    last = units(2, [{0: 1}], [0], [{0: 1}], away)
    step = units(2, [{0: 1}], [9], [{1: 1}], STEP)
    after = quantised(quantiser(collapsing(), last, step), ONE)
    assert after.outside == ((([-9, 1], [-9, 1]),),) * 2


def test_numbers_are_counted_in_cells_of_any_support() -> None:
    """[1, 3) in two cells: the stream's 0 and 1 are 0 and 2 halves."""
    moved = replace(
        quantiser(collapsing(), constant={(0, 0): -1}), support=(Fraction(1), Fraction(3))
    )
    assert cell_edges(moved) == [1, 2, 3]
    assert quantised(moved, Fraction(1, 2)).cells == ((([0, 0], [2, 0]),),) * 2
    assert [(v.low, v.high) for v in visits(moved)][::2] == [(1, 2), (2, 3)] * 2


def test_a_coordinate_that_falls_is_not_followed() -> None:
    """x ↦ 2 − 2x and back: pieces are found for rising lines only."""
    flip = units(2, [{0: 1}], [0], [{0: -2}], PiecewiseLinear.of((), ((1, 0),)))
    with pytest.raises(CertificationError, match="whole cell"):
        quantised(quantiser(flip, collapsing()), ONE)


def test_a_row_of_its_own_is_no_coordinate() -> None:
    """Units write sums to other rows only while these do not depend on where in a cell x is."""
    sloping = units(2, [{0: 1}], [0], [{1: 1}], PiecewiseLinear.of((), ((1, 0),)))
    with pytest.raises(CertificationError, match="whole cell"):
        quantised(quantiser(sloping, collapsing()), ONE)
    after = quantised(quantiser(collapsing(), sloping), ONE)
    assert after.cells[0][0] == ([0, 0], [1, 1])


def test_rows_that_nothing_writes_to_still_hold_their_coordinate() -> None:
    after = quantised(quantiser(units(2, [{0: 1}], [-1], [{1: 1}], STEP)), ONE)
    assert after.free == {0}
    assert after.cells[0][0] == ([0, 0], [0, 1])
    assert quantised(quantiser(collapsing()), ONE).free == frozenset()


UPSIDE_DOWN = units(2, [{0: 1}], [0], [{0: 1}], PiecewiseLinear.of((0,), ((-1, 5), (-1, 0))))
"""Takes 0 to 0 and all below to 5: at the lower edge of a falling cell, not on it."""

WRONG: dict[str, Callable[[], SequenceBlueprint]] = {
    "a coordinate in two rows": lambda: quantiser(
        collapsing(), width=2, features={(0, 0): 1, (1, 0): 1}
    ),
    "two coordinates in one row": lambda: quantiser(
        collapsing(), dim=2, features={(0, 0): 1, (0, 1): 1}
    ),
    "a coordinate in no row": lambda: quantiser(collapsing(), dim=2, features={(0, 0): 1}),
    "a coordinate upside down": lambda: quantiser(UPSIDE_DOWN, features={(0, 0): -1}),
    "one of two upside down": lambda: quantiser(
        units(3, [{0: 1}], [0], [{0: 1}], UPSIDE_DOWN.activation),
        collapsing(2, 3, 1),
        dim=2,
        width=3,
        features={(0, 0): -1, (1, 1): 1},
    ),
    "a unit of two coordinates": lambda: quantiser(
        units(3, [{0: 1, 1: 1}], [0], [{2: 1}], STEP),
        collapsing(2, 3, 0),
        collapsing(2, 3, 1),
        dim=2,
        width=3,
    ),
    "a unit of no coordinate": lambda: quantiser(collapsing(), units(2, [{}], [0], [{1: 1}], STEP)),
    "a unit of another row": lambda: quantiser(
        collapsing(), units(2, [{1: 1}], [0], [{1: 1}], STEP)
    ),
    "a unit upside down": lambda: quantiser(units(2, [{0: -1}], [1], [{1: 1}], STEP), collapsing()),
    "a unit that moves another coordinate": lambda: quantiser(
        units(3, [{0: 1}], [-1], [{1: 1}], STEP),
        collapsing(2, 3, 0),
        collapsing(2, 3, 1),
        dim=2,
        width=3,
    ),
    "a unit that moves another coordinate as well": lambda: quantiser(
        units(3, [{0: 1}], [-1], [{1: 1, 2: 1}], STEP),
        collapsing(2, 3, 0),
        collapsing(2, 3, 1),
        dim=2,
        width=3,
    ),
    "a coordinate moved by a constant": lambda: quantiser(
        replace(units(2, [{0: 1}], [-1], [{1: 1}], STEP), b2=Matrix.of(2, 1, {(0, 0): 1})),
        collapsing(),
    ),
    "half a cell": lambda: quantiser(
        collapsing(), units(2, [{0: 1}], [-1], [{1: Fraction(1, 2)}], STEP)
    ),
    "half a cell for all": lambda: quantiser(collapsing(), constant={(1, 0): Fraction(1, 2)}),
    "attention": lambda: quantiser(
        collapsing(),
        Attention(
            (Head(Matrix.of(1, 2, {}), Matrix.of(1, 2, {}), Matrix.of(2, 2, {(1, 0): 2})),),
            Selection(Rule.HARD_MAX),
        ),
    ),
    "ReLUs": lambda: quantiser(
        collapsing(),
        FeedForward(
            Matrix.of(1, 2, {(0, 0): 1}),
            Matrix.of(1, 1, {}),
            Matrix.of(2, 1, {(1, 0): 1}),
            Matrix.of(2, 1, {}),
        ),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_stage_that_is_not_separable_is_refused(what: str) -> None:
    with pytest.raises(CertificationError):
        quantised(WRONG[what](), ONE)


def test_units_are_visited_with_what_they_read() -> None:
    """Before its turn a coordinate is met as it is, afterwards as the number it became."""
    seen = [(v.line, v.low, v.high) for v in visits(quantiser(collapsing())) if v.token == 0]
    assert seen == [((1, 0), 0, 1), ((0, -1), 0, 1), ((1, 0), 1, 2), ((1, -1), 1, 2)]


def test_units_of_any_weight_add_up_to_what_they_write() -> None:
    """2x + 1 is read as 3(2x + 1) − 7; two units write 5 and −½ of what they read to the row."""
    line = PiecewiseLinear.of((), ((1, 0),))
    both = units(2, [{0: 3}, {0: 2}], [-7, 4], [{0: 5}, {0: Fraction(-1, 2)}], line)
    flat = units(2, [{0: 1}], [0], [{0: 1}], PiecewiseLinear.of((), ((-1, 6),)))
    blueprint = quantiser(both, flat, cells=1, features={(0, 0): 2}, constant={(0, 0): 1})
    seen = [v.line for v in visits(blueprint) if v.token == 0]
    slope, start = 2 + 5 * 6 - 2, 1 + 5 * (3 - 7) - Fraction(2 + 4, 2)
    assert seen == [(6, 3 - 7), (4, 2 + 4), (slope, start)]
    assert quantised(blueprint, ONE).cells == ((([6, 0],),),) * 2


def test_a_line_that_falls_is_not_read_off_its_lower_edge() -> None:
    """x ↦ −x: 0 stays where it is and all else of the cell goes to 5."""
    flip = units(2, [{0: 1}], [0], [{0: -2}], PiecewiseLinear.of((), ((1, 0),)))
    with pytest.raises(CertificationError, match="whole cell"):
        quantised(quantiser(flip, UPSIDE_DOWN), ONE)


def test_outside_is_known_where_it_is_for_every_coordinate() -> None:
    away = PiecewiseLinear.of((0, 2), ((-1, -9), (0, 0), (-1, -9)))
    sent = [units(3, [{r: 1}], [0], [{r: 1}], away) for r in (0, 1)]
    inner = [collapsing(2, 3, 0), collapsing(2, 3, 1)]
    assert quantised(quantiser(*inner, *sent, dim=2, width=3), ONE).outside is not None
    for one in sent:
        assert quantised(quantiser(*inner, one, dim=2, width=3), ONE).outside is None


def test_edges_are_those_of_the_row_not_of_the_coordinate() -> None:
    """Rows hold 2x, cells of 2. A step at 2 is an edge, one at 1 lies inside the first cell."""
    wide = PiecewiseLinear.of((0, 2), ((0, 0), (-1, 0), (0, 0)))
    both = replace(units(2, [{0: 1}] * 2, [0, -2], [{0: 1}] * 2, wide), successive=1)
    edge, inside = (units(2, [{0: 1}], [-at], [{1: 1}], STEP) for at in (2, 1))
    after = quantised(quantiser(edge, both, features={(0, 0): 2}), ONE)
    assert after.cells == ((([0, 0], [2, 1]),),) * 2
    with pytest.raises(CertificationError, match="whole cell"):
        quantised(quantiser(inside, both, features={(0, 0): 2}), ONE)


def test_the_base_is_all_that_a_token_is_given() -> None:
    """By the embedding, its position and every layer; what the row of x starts with is x's own."""
    gifts = [
        replace(units(2, [{0: 1}], [0], [{}], STEP), b2=Matrix.of(2, 1, {(1, 0): v}))
        for v in (3, 4)
    ]
    collapse = units(2, [{0: 1}] * 2, [-2, -3], [{0: 1}] * 2, COLLAPSE)
    after = quantised(
        quantiser(
            *gifts,
            replace(collapse, successive=1),
            constant={(0, 0): 2, (1, 0): 50},
            positions={(1, 1): 100},
        ),
        ONE,
    )
    assert after.base == ([0, 57], [0, 157])
    assert after.cells == ((([2, 0], [3, 0]),),) * 2


def test_the_largest_part_is_the_largest_of_all() -> None:
    wide = quantiser(collapsing(), units(2, [{0: 1}], [-1], [{1: -7}], STEP), constant={(1, 0): 5})
    assert quantised(wide, ONE).largest == 7
    assert quantised(quantiser(collapsing(), constant={(1, 0): -9}), ONE).largest == 9
