"""Yun et al. 2020: layers that map every class of a grid to its values, exactly."""

import random
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from math import comb

import pytest

from exactformer.core.layers import Attention, BiasedHead, FeedForward
from exactformer.errors import InputError
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions.keys import keys, largest_key, shifted, smallest_key
from exactformer.sequences.grid import Grid
from exactformer.sequences.run.exact import run_sequence, run_sequences
from tests.cases.sequences import (
    FORMS,
    SIZES,
    every_class,
    expected,
    grid,
    random_table,
    somewhere,
    symbols,
)

rng = random.Random(5)


@pytest.mark.spread(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_class_has_its_values_and_equal_columns_go_to_zero(
    size: tuple[int, int, int], form: str
) -> None:
    table = random_table(grid(size, form))
    classes = list(every_class(table.grid))
    inputs = [[somewhere(table.grid, k, rng) for k in ids] for ids in classes]
    outputs = run_sequences(SEQUENCE_FORMS[form](table), inputs)
    wrong = [
        (ids, j)
        for ids, output in zip(classes, outputs, strict=True)
        for j, column in enumerate(output)
        if column != expected(table, ids)[j]
    ]
    assert wrong == []


@pytest.mark.spread(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sequences_with_a_coordinate_outside_go_to_zero(
    size: tuple[int, int, int], form: str
) -> None:
    table = random_table(grid(size, form))
    n, d = table.grid.tokens, table.grid.dim
    columns = list(symbols(table.grid, rng))
    inputs = [
        [column for column, _ in chosen]
        for chosen in combinations_with_replacement(columns, n)
        if not all(inside for _, inside in chosen)
    ]
    assert len(inputs) == comb(len(columns) + n - 1, n) - comb(table.grid.points + n - 1, n)
    for output in run_sequences(SEQUENCE_FORMS[form](table), inputs):
        assert output == [[Fraction(0)] * d] * n


@pytest.mark.parametrize("form", FORMS)
def test_the_order_of_the_columns_is_that_of_the_values(form: str) -> None:
    table = random_table(grid((1, 3, 4), form))
    blueprint = SEQUENCE_FORMS[form](table)
    for ids in [(0, 1, 3), (1, 2, 3), (0, 2, 2)]:
        for order in permutations(ids):
            output = run_sequence(blueprint, [table.grid.centre(k) for k in order])
            assert output == expected(table, order)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(1, 2, 3), (2, 2, 2), (1, 3, 2)], ids=str)
def test_with_positions_every_order_has_its_own_values(
    size: tuple[int, int, int], form: str
) -> None:
    table = random_table(grid(size, form, positional=True))
    classes = list(product(range(table.grid.points), repeat=size[1]))
    inputs = [[somewhere(table.grid, k, rng) for k in ids] for ids in classes]
    outputs = run_sequences(SEQUENCE_FORMS[form](table), inputs)
    assert all(output == expected(table, ids) for ids, output in zip(classes, outputs, strict=True))


@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_with_positions_in_rows_of_their_own_outside_goes_to_zero(form: str) -> None:
    table = random_table(grid((1, 3, 2), form, positional=True))
    blueprint = SEQUENCE_FORMS[form](table)
    for column in ([Fraction(3, 2)], [Fraction(-1, 2)], [Fraction(1)], [Fraction(-7)]):
        for place in range(3):
            x = [[Fraction(1, 4)]] * 3
            x[place] = column
            assert run_sequence(blueprint, x) == [[Fraction(0)]] * 3


@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_one_token_is_a_sequence_too(form: str) -> None:
    table = random_table(grid((2, 1, 3), form))
    blueprint = SEQUENCE_FORMS[form](table)
    for k in range(9):
        assert run_sequence(blueprint, [table.grid.centre(k)]) == expected(table, [k])
    assert run_sequence(blueprint, [(Fraction(0), Fraction(1))]) == [[0, 0]]


def test_a_support_may_be_any_interval() -> None:
    where = Grid(2, 1, 3, support=(Fraction(-2), Fraction(5, 2)))
    table = random_table(where)
    for form in ("compact", "paper"):
        blueprint = SEQUENCE_FORMS[form](table)
        for ids in permutations(range(3), 2):
            x = [somewhere(where, k, rng) for k in ids]
            assert run_sequence(blueprint, x) == expected(table, ids)
        assert run_sequence(blueprint, [[Fraction(5, 2)], [Fraction(0)]]) == [[0], [0]]


@pytest.mark.spread(3)
@pytest.mark.parametrize("size", [*SIZES, (2, 3, 4), (2, 2, 8)], ids=str)
def test_the_papers_form_has_as_many_layers_as_its_lemmas_say(size: tuple[int, int, int]) -> None:
    d, n, N = size
    table = random_table(grid(size, "paper"))
    counts = SEQUENCE_FORMS["paper"](table).counts()
    D = N**d
    assert counts.layers == {
        "quantise": d * (N + 1),
        "contextual mapping": D + 1,
        "reject": 1 + d,
        "values": n * comb(D, n),
    }
    assert counts.width == d


def test_layers_of_the_papers_form_are_as_small_as_the_theorem_says() -> None:
    blueprint = SEQUENCE_FORMS["paper"](random_table(grid((2, 2, 2), "paper")))
    layers = list(blueprint.layers())
    assert len(layers) == blueprint.counts().depth
    for _, layer in layers:
        if isinstance(layer, Attention):
            assert len(layer.heads) <= 2
            assert all(isinstance(h, BiasedHead) and h.query.rows == 1 for h in layer.heads)
        else:
            assert isinstance(layer, FeedForward)
            assert layer.w1.shape == (1, 2)
            constant = [slope == 0 for slope, _ in layer.activation.pieces]
            assert len(constant) <= 3
            assert any(constant)


def test_four_layers_are_four() -> None:
    blueprint = SEQUENCE_FORMS["four-layer"](random_table(grid((2, 2, 3), "four-layer")))
    D, n = 9, 2
    assert blueprint.counts().depth == 4
    units = [x.w1.rows for _, x in blueprint.layers() if isinstance(x, FeedForward)]
    assert units == [2 * (3 + 1), D, D * comb(D + n - 2, n - 1)]


@pytest.mark.parametrize(("factor", "n"), [(4, 2), (4, 3), (8, 2), (9, 2), (8, 4), (27, 2), (5, 1)])
def test_keys_are_those_of_the_formula(factor: int, n: int) -> None:
    """The shifts one id at a time, and the closed form, against what the value layers use."""
    K, G = factor, factor ** (n + 1)
    seen = []
    for ids in combinations(range(K), n):
        moved = list(ids)
        for k in range(K):
            reach = max(moved) - min(moved)
            moved = [v + K * reach if v == k else v for v in moved]
        last = K**n * (ids[-1] - ids[0]) + ids[-1]
        last -= sum(K ** (n - j) * (ids[j] - ids[j - 1]) for j in range(1, n))
        assert moved[-1] == last == max(moved)
        assert shifted(ids, K) == moved
        assert keys(ids, K, G) == [v + G * last for v in moved]
        seen += keys(ids, K, G)
    assert len(set(seen)) == len(seen) == n * comb(K, n)
    assert (min(seen), max(seen)) == (smallest_key(n, K, G), largest_key(n, K, G))


@pytest.mark.parametrize(
    ("size", "low", "high"), [((1, 2, 4), 836, 2535), ((1, 3, 4), 28168, 43947)]
)
def test_the_first_and_the_last_key(size: tuple[int, int, int], low: int, high: int) -> None:
    n, D = size[1], size[2] ** size[0]
    assert smallest_key(n, D, D ** (n + 1)) == low
    assert largest_key(n, D, D ** (n + 1)) == high
    units = SEQUENCE_FORMS["compact"](random_table(grid(size, "compact"))).stage("values").parts[0]
    biases = [-b for _, _, b in units.b1]  # type: ignore[union-attr]
    assert (min(biases), max(biases)) == (low, high)


@pytest.mark.parametrize("form", ["compact", "paper"])
@pytest.mark.parametrize("positional", [False, True])
def test_codes_after_the_contextual_mapping_are_the_keys(form: str, positional: bool) -> None:
    """What the layers leave in uᵀz is the integer that the value layers wait for."""
    table = random_table(grid((1, 2, 3), form, positional))
    blueprint = SEQUENCE_FORMS[form](table)
    units = blueprint.stage("values").parts[0]  # type: ignore[union-attr]
    waiting = {-b * blueprint.code[0, 0] for _, _, b in units.b1}
    found = set()
    last = f"contextual mapping {len(blueprint.stage('contextual mapping'))}"

    def record(name: str, stream: list[list[Fraction]]) -> None:
        if name == last:
            found.update(sum(v * c[r] for _, r, v in blueprint.code) for c in stream)

    for ids in table.grid.classes():
        run_sequence(blueprint, [table.grid.centre(k) for k in ids], record)
    assert found == waiting
    assert max(found) == blueprint.largest_key


def test_one_token_in_the_papers_form_is_refused() -> None:
    with pytest.raises(InputError, match="at least two tokens"):
        SEQUENCE_FORMS["paper"](random_table(grid((1, 1, 4), "paper")))
