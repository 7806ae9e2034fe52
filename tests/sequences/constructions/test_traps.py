"""What the slides leave out or have wrong: every trap shown with its guard removed, then with it."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from exactformer.core.layers import Attention, BiasedHead, FeedForward, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import shifts as sequences
from exactformer.sequences.constructions.keys import keys, largest_key, smallest_key
from exactformer.sequences.constructions.shifts import sequence_layers
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.run.exact import run_sequence
from tests.cases.sequences import expected, grid, random_table

Part = Attention | FeedForward
OUTSIDE = Fraction(-3)
GRID = grid((1, 2, 4), "paper")
TABLE = random_table(GRID)


def with_stage(
    blueprint: SequenceBlueprint, name: str, change: Callable[[list[Part]], list[Part]]
) -> SequenceBlueprint:
    """Return a blueprint with one of its stages changed."""
    stages = [
        Stage(name, tuple(change(list(s.parts)))) if s.name == name else s  # type: ignore[arg-type]
        for s in blueprint.stages
    ]
    return replace(blueprint, stages=tuple(stages))


def rejected_columns() -> list[list[Fraction]]:
    """All sequences of (1, 2, 4) that have equal columns or one outside: 13, with 26 columns."""
    places = [Fraction(k, 4) for k in range(4)] + [OUTSIDE]
    pairs = [list(pair) for pair in product(places, repeat=2)]
    return [pair for pair in pairs if OUTSIDE in pair or pair[0] == pair[1]]


def codes(blueprint: SequenceBlueprint, x: list[list[Fraction]]) -> list[Fraction]:
    seen: dict[str, list[list[Fraction]]] = {}
    run_sequence(blueprint, x, seen.__setitem__)
    last = f"contextual mapping {len(blueprint.stage('contextual mapping'))}"
    return [sum((v * c[r] for _, r, v in blueprint.code), Fraction(0)) for c in seen[last]]


def test_the_slides_value_outside_lets_rejected_columns_land_among_the_keys() -> None:
    def printed(parts: list[Part]) -> list[Part]:
        units = parts[-1]  # type: ignore[union-attr]
        away = (-1, -(Fraction(1, 4) ** 2))  # −δ^(nd) for −δ^(−nd)
        phi = PiecewiseLinear.of((0, 1), (away, (0, 0), away))
        return [*parts[:-1], replace(units, activation=phi, successive=1)]

    ours = sequence_layers(TABLE, "paper")
    slides = with_stage(ours, "quantise", printed)
    low = smallest_key(2, 4, 64) - Fraction(1, 2)
    high = largest_key(2, 4, 64) + Fraction(1, 2)

    def landed(blueprint: SequenceBlueprint) -> int:
        every = [
            code for pair in rejected_columns() for code in codes(blueprint, [[v] for v in pair])
        ]
        assert len(every) == 26
        return sum(low <= code < high for code in every)

    assert landed(slides) == 8
    assert landed(ours) == 0


def test_without_the_reject_layers_rejected_columns_are_not_zero() -> None:
    ours = sequence_layers(TABLE, "paper")
    careless = replace(ours, stages=tuple(s for s in ours.stages if s.name != "reject"))

    def non_zero(blueprint: SequenceBlueprint) -> int:
        outputs = [run_sequence(blueprint, [[v] for v in pair]) for pair in rejected_columns()]
        return sum(column != [0] for output in outputs for column in output)

    assert non_zero(careless) == 24
    assert non_zero(ours) == 0


def test_reject_layers_after_the_values_would_reject_values() -> None:
    ours = sequence_layers(TABLE, "paper")
    first, second, reject, values = ours.stages
    late = replace(ours, stages=(first, second, values, reject))
    ids = (0, 1)
    x = [GRID.centre(k) for k in ids]
    assert run_sequence(ours, x) == expected(TABLE, ids)
    assert run_sequence(late, x) != expected(TABLE, ids)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_values_that_swap_two_pairs_of_keys_are_taken_for_keys(
    backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values of one class are the keys of another, and back: no order of the layers helps."""

    def key_values(ids: tuple[int, int]) -> list[list[Fraction]]:
        return [[Fraction(key, 4)] for key in keys(ids, 4, 64)]

    zeros = {ids: [[0], [0]] for ids in GRID.classes()}
    swap = {(0, 1): key_values((1, 3)), (1, 3): key_values((0, 1))}
    table = GridTable.of(GRID, {**zeros, **swap})

    def turned(parts: list[Part]) -> list[Part]:
        units = parts[0]  # type: ignore[union-attr]
        m = units.w1.rows

        def flipped(matrix: Matrix, axis: int) -> Matrix:
            places = {
                (m - 1 - i if axis == 0 else i, m - 1 - j if axis == 1 else j): v
                for i, j, v in matrix
            }
            return Matrix.of(*matrix.shape, places)

        return [
            replace(
                units,
                w1=flipped(units.w1, 0),
                b1=flipped(units.b1, 0),
                w2=flipped(units.w2, 1),
                successive=1,
            )
        ]

    def wrong(blueprint: SequenceBlueprint) -> int:
        if backwards:
            blueprint = with_stage(blueprint, "values", turned)
        count = 0
        for ids in product(range(4), repeat=2):
            if ids[0] != ids[1]:
                output = run_sequence(blueprint, [GRID.centre(k) for k in ids])
                count += sum(a != b for a, b in zip(output, expected(table, ids), strict=True))
        return count

    assert wrong(sequence_layers(table, "paper")) == 0  # the global shift was enlarged
    assert wrong(sequence_layers(table, "compact")) == 0  # values are never read
    monkeypatch.setattr(sequences, "global_shift", lambda shared, largest: 64)
    assert wrong(sequence_layers(table, "paper")) == 4  # of 24 columns


def test_the_global_shift_is_the_papers_where_that_is_large_enough() -> None:
    shared = sequences.Shared(GRID, "paper")
    safe = (836 - Fraction(1, 2)) / 4
    assert sequences.global_shift(shared, safe - 1) == 4**3
    assert sequences.global_shift(shared, safe) == 4**4


def test_with_one_token_a_rejected_column_is_taken_for_the_key_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequences, "refuse_key_zero", lambda shared: None)
    monkeypatch.setattr(sequences, "global_shift", lambda shared, largest: 16)
    where = Grid(1, 1, 4)
    table = GridTable.of(where, {(k,): [[k + 5]] for k in range(4)})
    assert run_sequence(sequence_layers(table, "paper"), [[OUTSIDE]]) == [[5]]
    assert run_sequence(sequence_layers(table, "compact"), [[OUTSIDE]]) == [[0]]


def test_without_a_query_bias_columns_are_not_told_apart() -> None:
    def unbiased(parts: list[Part]) -> list[Part]:
        return [
            Attention(
                tuple(BiasedHead(h.query, h.key, h.value, Matrix.of(1, 1, {})) for h in part.heads),
                part.selection,
            )
            for part in parts
            if isinstance(part, Attention)
        ]

    ours = sequence_layers(TABLE, "compact")
    blind = with_stage(ours, "contextual mapping", unbiased)
    x = [GRID.centre(1), GRID.centre(2)]
    assert codes(blind, x) == [1 + 64 * 2, 2 + 64 * 2]  # no selective shift happens
    assert run_sequence(blind, x) != expected(TABLE, [1, 2])
    assert run_sequence(ours, x) == expected(TABLE, [1, 2])


def test_with_positions_the_factor_of_the_shifts_must_exceed_every_id() -> None:
    """With D for K a column lands on an id that is still to come, and is shifted twice."""
    n, D = 2, 4
    where = grid((1, n, D), "compact", positional=True)
    ours = sequence_layers(random_table(where), "compact")

    def too_small(parts: list[Part]) -> list[Part]:
        *selective, last = parts
        return [*(slowed(part, Fraction(1, n)) for part in selective), last]  # type: ignore[arg-type]

    careless = with_stage(ours, "contextual mapping", too_small)

    def off_the_formula(blueprint: SequenceBlueprint, factor: int) -> list[tuple[int, ...]]:
        def wanted(ids: tuple[int, ...]) -> list[int]:
            return keys([i * D + k for i, k in enumerate(ids)], factor, (n * D) ** (n + 1))

        return [
            ids
            for ids in where.classes()
            if codes(blueprint, [where.centre(k) for k in ids]) != wanted(ids)
        ]

    assert off_the_formula(ours, n * D) == []
    assert off_the_formula(careless, D) == [(3, 0)]  # ids 3 and 4: 3 moves to 7, and on


def slowed(part: Attention, by: Fraction) -> Attention:
    """Return a layer whose values are scaled."""
    heads = []
    for head in part.heads:
        values = {place: v * by for place, v in head.value.entries.items()}
        heads.append(replace(head, value=Matrix.of(*head.value.shape, values)))
    return replace(part, heads=tuple(heads))


def test_all_selective_shifts_in_one_layer_give_every_column_the_same_shift() -> None:
    where = grid((1, 3, 4), "compact")
    ours = sequence_layers(random_table(where), "compact")

    def parallel(parts: list[Part]) -> list[Part]:
        *selective, last = parts
        heads = tuple(h for part in selective for h in part.heads)  # type: ignore[union-attr]
        return [Attention(heads, last.selection), last]  # type: ignore[union-attr]

    flat = with_stage(ours, "contextual mapping", parallel)
    found = {
        ids: dict(zip(ids, codes(flat, [where.centre(k) for k in ids]), strict=True))
        for ids in where.classes()
    }
    for ids, of in found.items():
        assert len({of[k] - k for k in ids}) == 1
    assert found[0, 1, 3][0] == found[0, 2, 3][0]  # the middle column is forgotten


def test_positions_added_to_the_columns_let_an_outsider_pass_for_another_position() -> None:
    """X + 1·(0, …, n − 1) is equivariant in the sum: what is outside by 1 is a token one place on."""
    table = random_table(grid((1, 2, 4), "paper", positional=True))
    swapped = [[Fraction(1, 8) + 1], [Fraction(5, 8) - 1]]
    output = run_sequence(sequence_layers(table, "paper"), swapped)
    assert output == expected(table, (2, 0))[::-1]
    assert run_sequence(sequence_layers(table, "compact"), swapped) == [[0], [0]]


def test_discarded_columns_are_as_many_as_the_birthday_problem_says() -> None:
    """1 − Π(1 − i/D) of the cube goes to 0; the four-layer form keeps it."""
    D, n = 4, 3
    where = grid((1, n, D), "compact")
    table = GridTable.of(where, {ids: [[1]] * n for ids in where.classes()})
    ours = sequence_layers(table, "compact")
    zero = sum(
        run_sequence(ours, [where.centre(k) for k in ids]) == [[0]] * n
        for ids in product(range(D), repeat=n)
    )
    assert Fraction(zero, D**n) == 1 - Fraction(3, 4) * Fraction(2, 4)
