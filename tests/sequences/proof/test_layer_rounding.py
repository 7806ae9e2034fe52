"""How far float64 takes the layers of a hard sequence blueprint, against rationals that are rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.core.run_exact import apply_layer, to_column, to_token
from exactformer.errors import CertificationError, InputError
from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.proof import layer_rounding as module
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.proof.integers import SmallHead, Streams
from exactformer.sequences.proof.layer_rounding import literal_rounding_of
from exactformer.sequences.proof.lookups import Lookup, every_class
from exactformer.sequences.run.literal import LiteralSequence
from tests.cases.sequences import expected, random_table

U = Fraction(1, 2**53)
Rounding = Callable[[Fraction], Fraction]
Stream = list[list[Fraction]]


def case(
    where: Grid, form: str = "paper", largest: Fraction | None = None
) -> tuple[Any, GridTable]:
    table = random_table(where)
    if largest is not None:
        size = {ids: [[largest] * where.dim] * where.tokens for ids in table.values}
        table = GridTable.of(where, size)
    return SEQUENCE_FORMS[form](table), table


@pytest.mark.spread(12)
@pytest.mark.parametrize("delta", [Fraction(1, N) for N in (3, 5, 6, 7)])
@pytest.mark.parametrize("tokens", [1, 2])
@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize("form", ["paper", "compact", "four-layer"])
def test_every_corner_and_half_point_is_within_the_bound(
    delta: Fraction, tokens: int, positional: bool, form: str
) -> None:
    """The centre of a cell is the half-point; a corner belongs to the cell that it begins."""
    where = Grid(tokens, 1, delta.denominator, positional, form == "four-layer")
    table = random_table(where)
    arguments = {"tokens": tokens, "dim": 1, "delta": delta, "form": form, "positional": positional}
    if form == "paper" and tokens == 1:
        return
    model = ef.compile_sequence(dict(table.values), executor="literal", **arguments)
    allowed = Fraction(model.certificate.rounding["literal"])
    # A corner that is not a float is met from above: the next float is in the same cell.
    edges = [float(q * delta) for q in range(where.cells)]
    corners = [x if Fraction(x) >= q * delta else x + 2.0**-52 for q, x in enumerate(edges)]
    for points in (corners, [float((q + Fraction(1, 2)) * delta) for q in range(where.cells)]):
        for ids in product(range(where.cells), repeat=tokens):
            found = model([[points[q]] for q in ids]).tolist()
            for x, v in zip(found, expected(table, ids), strict=True):
                assert abs(Fraction(x[0]) - v[0]) <= allowed


def rounded_run(blueprint: SequenceBlueprint, stream: Stream, fl: Rounding) -> Stream:
    """Run the layers after the quantiser as the module does, every operation rounded by ``fl``.

    Exact are integer weights, products with powers of two, and sums with 0.
    """

    def add(a: Fraction, b: Fraction) -> Fraction:
        return fl(a + b) if a and b else a + b

    def weight(v: Fraction) -> Fraction:
        return v if v.denominator == 1 else fl(v)

    def times(matrix: Matrix, column: list[Fraction]) -> list[Fraction]:
        result = []
        for row in range(matrix.rows):
            terms = [
                v * column[r]
                if v.denominator == 1 and abs(v.numerator).bit_count() == 1
                else fl(weight(v) * column[r])
                for r, v in matrix.by_row.get(row, ())
            ]
            result.append(reduce(add, terms, Fraction(0)))
        return result

    def attend(layer: Attention, stream: Stream) -> Stream:
        result = list(stream)
        for head in layer.heads:
            keys = [times(head.key, z)[0] for z in stream]
            values = [times(head.value, z) for z in stream]
            for i, z in enumerate(stream):
                bias = head.bias[0, 0] if isinstance(head, BiasedHead) else Fraction(0)
                query = add(times(head.query, z)[0], fl(bias))
                scores = [fl(query * key) for key in keys]
                (chosen,) = (j for j, score in enumerate(scores) if score == max(scores))
                result[i] = [add(a, b) for a, b in zip(result[i], values[chosen], strict=True)]
        return result

    def feed(layer: FeedForward, z: list[Fraction]) -> list[Fraction]:
        hidden = []
        for m, t in enumerate(times(layer.w1, z)):
            t = add(t, fl(layer.b1[m, 0]))
            piece = sum(fl(b) <= t for b in layer.activation.breaks)
            slope, rest = layer.activation.pieces[piece]
            hidden.append(slope * t + rest)
        return [add(a, b) for a, b in zip(z, times(layer.w2, hidden), strict=True)]

    for stage in blueprint.stages[1:]:
        for layer in stage.layers():
            if isinstance(layer, Attention):
                stream = attend(layer, stream)
            else:
                stream = [feed(layer, z) for z in stream]
    return [times(blueprint.readout, z) for z in stream]


def quantised_stream(blueprint: SequenceBlueprint, where: Grid, ids: tuple[int, ...]) -> Stream:
    """Return what the quantiser leaves, in exact arithmetic."""
    columns = []
    for i, k in enumerate(ids):
        point = where.centre(k)
        embedding = blueprint.embedding
        column = [
            sum((v * point[r] for r, v in embedding.features.by_row.get(row, ())), Fraction(0))
            + embedding.constant[row, 0]
            + embedding.positions[row, i]
            for row in range(blueprint.width)
        ]
        token = [to_token(column)]
        for layer in blueprint.stages[0].layers():
            token = apply_layer(layer, token)
        columns.append(to_column(token[0], blueprint.width))
    return columns


def upwards(x: Fraction) -> Fraction:
    """Round every number away from 0, by as much as the standard model allows."""
    return x * (1 + U)


def any_way(x: Fraction) -> Fraction:
    """Round by any part of that, the same for x and −x."""
    return x * (1 + U * (hash(abs(x)) % 2001 - 1000) / 1000)


def worst(where: Grid, fl: Rounding) -> tuple[Fraction, Fraction]:
    """Return the largest error of any class, and what is allowed."""
    blueprint, table = case(where)
    off = Fraction(0)
    for ids, columns in table.values.items():
        stream = [[fl(z) for z in column] for column in quantised_stream(blueprint, where, ids)]
        found = rounded_run(blueprint, stream, fl)
        for output, column in zip(found, columns, strict=True):
            off = max(off, *(abs(x - v) for x, v in zip(output, column, strict=True)))
    return off, Fraction(literal_rounding_of(blueprint, table))


SMALL = [Grid(2, 1, 3), Grid(2, 1, 6), Grid(3, 1, 3), Grid(2, 2, 3), Grid(2, 1, 3, positional=True)]


@pytest.mark.spread(3)
@pytest.mark.parametrize("where", SMALL, ids=str)
def test_the_bound_holds_for_every_rounding_and_is_near_the_worst(where: Grid) -> None:
    """Numbers that are all rounded away from 0 add up to a sixth of the bound or more."""
    off, allowed = worst(where, any_way)
    assert 0 < off <= allowed
    off, allowed = worst(where, upwards)
    assert off <= allowed <= 6 * off


@pytest.mark.parametrize("cells", [3, 5, 6, 7])
def test_errors_of_two_tokens_follow_their_codes(cells: int) -> None:
    """The derivation, written out for two tokens of one coordinate; K is the number of cells."""
    K, where = cells, Grid(2, 1, cells)
    blueprint, table = case(where)
    (last,) = blueprint.stages[1].parts[-1].heads
    G = int(last.value[0, 0])
    most = Fraction(0)
    for ids, values in table.values.items():
        z, e = list(ids), list(ids)
        for k in range(K):
            high, low = z.index(max(z)), z.index(min(z))
            grown, errors = list(z), list(e)
            for i in range(2):
                if z[i] == k:
                    grown[i] = z[i] + K * (z[high] - z[low])
                    answers = K * (e[high] + z[high]) + K * (e[low] + z[low])
                    errors[i] = e[i] + answers + (z[i] + K * z[high]) + grown[i]
                else:
                    a = K * (z[high] if z[i] > k else z[low])
                    errors[i] = e[i] + (z[i] + a) + z[i]
            z, e = grown, errors
        high = z.index(max(z))
        keys = [v + G * z[high] for v in z]
        for i in range(2):
            error = e[i] + G * (e[high] + z[high]) + keys[i]
            value = values[i][0] * cells
            most = max(most, error + abs(value - keys[i]) + abs(value))
    most *= U / cells * (1 + Fraction(1, 2**20))
    assert most <= literal_rounding_of(blueprint, table) <= most * (1 + Fraction(1, 2**40))


@pytest.mark.parametrize("where", [Grid(2, 1, 4), Grid(2, 1, 2, positional=True), Grid(2, 1, 8)])
def test_on_binary_cells_only_values_are_rounded(where: Grid) -> None:
    """In the paper's form v − z, as a weight, and its sum with the column z, which is the key."""
    blueprint, table = case(where)
    units = blueprint.stages[-1].parts[0]
    pairs = [(units.w2[0, m], -units.b1[m, 0]) for m in range(units.w1.rows)]
    most = U * max(abs(w) + abs(w + z) for w, z in pairs)
    assert (
        most <= Fraction(literal_rounding_of(blueprint, table)) <= most * (1 + Fraction(1, 2**19))
    )


@pytest.mark.parametrize("where", [Grid(2, 1, 3), Grid(1, 2, 5), Grid(2, 1, 3, positional=True)])
@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_integers_and_values_in_rows_of_their_own_are_not_rounded_again(
    where: Grid, form: str
) -> None:
    blueprint, table = case(replace(where, repeats=form == "four-layer"), form)
    assert literal_rounding_of(blueprint, table) == 0


def test_numbers_beyond_float64_are_rounded_on_binary_cells_too() -> None:
    """As long as they can be told apart; here they cannot, for keys have more than 53 bits."""
    blueprint, table = case(Grid(2, 1, 4), largest=Fraction(10**16))
    assert blueprint.key_bits > 53
    with pytest.raises(CertificationError, match="keys of 58 bits"):
        literal_rounding_of(blueprint, table)


def test_layers_whose_cells_could_be_mistaken_are_refused_with_the_reason() -> None:
    """Large values need large keys, which leave less than half a cell for the roundings of thirds."""
    where = Grid(2, 1, 3)
    blueprint, table = case(where, largest=Fraction(10**14))
    with pytest.raises(CertificationError) as caught:
        literal_rounding_of(blueprint, table)
    for words in ("delta = 1/3", "half a cell", "executor='fused'", "1/2^m"):
        assert words in str(caught.value)
    certificate = certify_sequence(blueprint, table)
    assert set(certificate.rounding) == {"fused", "exact"}
    arguments: dict[str, Any] = {"tokens": 2, "dim": 1, "form": "paper"}
    with pytest.raises(CertificationError, match="delta = 1/3"):
        ef.compile_sequence(dict(table.values), delta="1/3", executor="literal", **arguments)
    fused = ef.compile_sequence(dict(table.values), delta="1/3", **arguments).bounded(1)
    with pytest.raises(InputError, match="choose one of fused, exact"):
        fused.certificate.bound(executor="literal")
    binary, quarters = case(Grid(2, 1, 4), largest=Fraction(10**14))
    assert 0 < literal_rounding_of(binary, quarters) < 0.1


@pytest.mark.parametrize("size", range(10, 16))
def test_layers_are_certified_only_if_they_are_right(size: int) -> None:
    """Wherever no refusal is raised, every class comes out within the bound."""
    where = Grid(2, 1, 3)
    blueprint, table = case(where, largest=Fraction(10**size, 7))
    try:
        allowed = literal_rounding_of(blueprint, table)
    except CertificationError:
        assert size > 13
        return
    assert size < 15
    classes = every_class(where)
    centres = [[[float(v) for v in where.centre(k)] for k in ids] for ids in classes.tolist()]
    found = LiteralSequence(blueprint)(torch.tensor(centres, dtype=torch.float64)).tolist()
    for ids, output in zip(classes.tolist(), found, strict=True):
        for token, column in zip(output, expected(table, ids), strict=True):
            once = abs(column[0] - Fraction(float(column[0])))
            assert abs(Fraction(token[0]) - column[0]) <= Fraction(allowed) + once


def forged(blueprint: SequenceBlueprint, stage: int, **changes: Any) -> SequenceBlueprint:
    """Change the first part of a stage."""
    stages = list(blueprint.stages)
    first, *rest = stages[stage].parts
    stages[stage] = replace(stages[stage], parts=(replace(first, **changes), *rest))
    return replace(blueprint, stages=tuple(stages))


def test_a_query_that_rounding_may_turn_is_refused() -> None:
    blueprint, table = case(Grid(2, 1, 6))
    first = blueprint.stages[1].parts[0]
    for k, refused in ((Fraction(1, 2), False), (Fraction(1), False), (Fraction(-1), True)):
        bias = Matrix.of(1, 1, {(0, 0): k * blueprint.delta})
        heads = (replace(first.heads[0], bias=bias), first.heads[1])
        changed = forged(blueprint, 1, heads=heads)
        if refused:  # the column of id 1 reads 0, up to roundings
            with pytest.raises(CertificationError, match="the sign of a query"):
                literal_rounding_of(changed, table)
        else:
            literal_rounding_of(changed, table)


def test_rejecting_layers_that_may_touch_a_column_are_refused() -> None:
    blueprint, table = case(Grid(2, 1, 3))
    band = blueprint.stages[2].parts[0]
    low, high = band.activation.breaks
    literal_rounding_of(blueprint, table)
    smallest = low + blueprint.delta / 2
    for end, refused in ((smallest - blueprint.delta / 2**20, False), (smallest, True)):
        activation = replace(band.activation, breaks=(end, high))
        changed = forged(blueprint, 2, activation=activation)
        if refused:
            with pytest.raises(CertificationError, match="a unit of the stage 'reject'"):
                literal_rounding_of(changed, table)
        else:
            literal_rounding_of(changed, table)
    for changes in (
        {"b1": Matrix.of(1, 1, {(0, 0): 1})},
        {"b2": Matrix.of(1, 1, {(0, 0): 1})},
        {"activation": replace(band.activation, breaks=(high, high + 1))},
    ):
        with pytest.raises(CertificationError, match="nothing is known"):
            literal_rounding_of(forged(blueprint, 2, **changes), table)
    half = Matrix.of(1, 1, {(0, 0): Fraction(1, 2)})
    with pytest.raises(CertificationError, match="should be an integer"):
        literal_rounding_of(forged(blueprint, 2, w1=half), table)


def test_outputs_that_are_sums_of_rows_are_refused() -> None:
    blueprint, table = case(Grid(2, 1, 3))
    with pytest.raises(CertificationError, match="sums of rows"):
        literal_rounding_of(replace(blueprint, readout=Matrix.of(1, 1, {(0, 0): 2})), table)


def test_cells_that_are_neither_binary_nor_delta_are_refused() -> None:
    blueprint, table = case(Grid(2, 1, 3))
    with pytest.raises(CertificationError, match="a cell measures 1/3"):
        literal_rounding_of(replace(blueprint, delta=Fraction(1, 5)), table)


# Layers by hand. A third is a cell that float64 does not hold; where u is changed to a large number,
# small errors are as large as distances.

THIRD = Fraction(1, 3)
LAYERS = case(Grid(2, 1, 3))[0]


def analysis(unit: Fraction = THIRD, width: int = 2) -> Any:
    """Return the analysis of layers in a stream of some rows, all of which are outputs."""
    readout = Matrix.of(width, width, {(r, r): 1 for r in range(width)})
    return module._Analysis(replace(LAYERS, readout=readout), unit)


def state(columns: list[list[int]], errors: list[list[float]]) -> Any:
    """Return a single class of columns, with errors."""
    entries = np.array([columns], dtype=np.int64)
    return module._Rounded(Streams(entries, int(np.abs(entries).max())), np.array([errors], float))


def refused(words: str) -> Any:
    return pytest.raises(CertificationError, match=words)


def larger_u(monkeypatch: pytest.MonkeyPatch, u: float) -> None:
    monkeypatch.setattr(module, "ROUNDOFF", u)


def largest_error(run: Callable[..., Fraction], exact: int, operations: int) -> Fraction:
    """Return the largest error in u, each operation rounded up or down as far as it can be."""
    signs = product((-1, 1), repeat=operations)
    return max(abs(run(*(sign * U for sign in line)) - exact) for line in signs) / U


def test_a_rounding_costs_the_number_except_on_binary_cells() -> None:
    assert analysis().lost([-3, 0, 2]).tolist() == [3, 0, 2]
    for unit in (Fraction(1), Fraction(1, 4)):
        assert analysis(unit).lost([-3, 0, 2]).tolist() == [0, 0, 0]


def test_integers_are_held_below_two_to_the_fifty_three() -> None:
    for unit in (THIRD, Fraction(1)):
        analysis(unit).held(2**53 - 1)
        for largest in (2**53, 10**400):
            with refused("integers of more than 53 bits"):
                analysis(unit).held(largest)


def test_an_error_as_large_as_the_distance_decides_nothing() -> None:
    """2^73 roundings are 2^20 + 1, enlarged."""
    analysis().decided("it", 2.0**73, 2**20 + 2)
    analysis().decided("it", 0.0, 0)
    analysis().decided("it", np.array([0.0, 2.0**73]), np.array([0, 2**20 + 2]))
    for error, distance in ((2.0**73, 2**20 + 1), (1.0, 0), (1.0, -1)):
        for numbers in ((error, distance), (np.array([0.0, error]), np.array([5, distance]))):
            with refused("which could change it"):
                analysis().decided("it", *numbers)


def test_what_is_read_has_the_errors_of_products_and_sums() -> None:
    """2·5 − 3·(−7), where 5 has an error of 1u and −7 one of 10u."""

    def run(a: Fraction, b: Fraction, c: Fraction, d: Fraction, e: Fraction) -> Fraction:
        return (2 * (5 + a) * (1 + b) - 3 * (-7 + 10 * c) * (1 + d)) * (1 + e)

    most = largest_error(run, 31, 5)
    given = state([[5, -7]], [[1, 10]])
    found, error = analysis().read(given, {0: 2, 1: -3})
    assert (found.tolist(), error.tolist()) == ([[31]], [[94]])
    assert 94 <= most <= 94 * (1 + Fraction(1, 2**20))
    assert analysis(Fraction(1)).read(given, {0: 2, 1: -3})[1].tolist() == [[32]]
    assert analysis().read(given, {})[1].tolist() == [[0]]
    with refused("53 bits"):
        analysis().read(given, {0: 2**51, 1: 1})


def test_signs_of_queries_need_smaller_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """15 − 7 is off by 3e, and by roundings of 15, 7 and 8."""
    larger_u(monkeypatch, 0.25)
    for sign in (1, -1):
        head = SmallHead({0: -3 * sign}, -7 * sign, {1: 1}, {}, 1)
        assert analysis()._chosen(state([[-5, 1]], [[0.5, 0]]), head).tolist() == [[[True]]]
        with refused("the sign of a query"):
            analysis()._chosen(state([[-5, 1]], [[1, 0]]), head)


def test_keys_need_a_distance_of_twice_their_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 10 and 6 is off by e, by one rounding as a product with a weight and one of the score."""
    larger_u(monkeypatch, 1 / 16)
    head = SmallHead({1: 1}, 0, {0: 1}, {}, 1)
    for sign in (1, -1):
        columns = [[10 * sign, 1000 * sign], [6 * sign, -1000 * sign]]
        chosen = analysis()._chosen(state(columns, [[11, 0], [0, 0]]), head)
        assert chosen.tolist() == [[[True, False], [False, True]]]
        with refused("the largest key"):
            analysis()._chosen(state(columns, [[12, 0], [0, 0]]), head)


def test_equal_keys_are_averaged_on_binary_cells_only() -> None:
    """A query that is 0 makes all scores equal, whatever the keys are."""
    same = state([[6, 9], [6, 9]], [[0, 0], [0, 0]])
    zero = state([[6, 0], [5, 0]], [[0, 0], [0, 0]])
    for given in (same, zero):
        head = SmallHead({1: 1}, 0, {0: 1}, {}, 1)
        chosen = analysis(Fraction(1))._chosen(given, head)
        assert chosen.all()
        with refused("one of equal keys"):
            analysis()._chosen(given, head)


def heads(*numbers: tuple[Fraction, int], unit: Fraction = THIRD) -> Attention:
    """Return heads that read row 0 for query, key and value; for each its bias and its weight."""
    row = Matrix.of(1, 2, {(0, 0): 1})
    made = (
        BiasedHead(row, row, Matrix.of(2, 2, {(0, 0): w}), Matrix.of(1, 1, {(0, 0): bias * unit}))
        for bias, w in numbers
    )
    return Attention(tuple(made), Selection(Rule.HARD_MAX))


LOW, HIGH = Fraction(-7, 2), Fraction(1, 2)
COLUMNS = [[2, 0], [5, 0]]
"""With the bias LOW the first chooses itself and the second itself; with HIGH both the second."""


def test_opposite_answers_cancel_where_they_come_from_the_same_column() -> None:
    def moved(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        own, other = 2 + a, 5 + 4 * b
        return ((own + 3 * own * (1 + c)) * (1 + d) - 3 * other * (1 + e)) * (1 + f)

    def still(a: Any, b: Any, c: Any, d: Any) -> Any:
        own = 5 + 4 * a
        answer = 3 * own * (1 + b)
        return ((own + answer) * (1 + c) - answer) * (1 + d)

    layer = heads((LOW, 3), (HIGH, -3))
    after = analysis().attended(state(COLUMNS, [[1, 0], [4, 0]]), layer)
    assert after.streams.entries.tolist() == [[[-7, 0], [5, 0]]]
    assert after.errors[0, 0].tolist() == [52, 0]
    assert np.round(after.errors[0, 1], 12).tolist() == [29, 0]
    slack = 1 + Fraction(1, 2**20)
    assert 52 <= largest_error(moved, -7, 6) <= 52 * slack
    assert 29 <= largest_error(still, 5, 4) <= 29 * slack


def test_what_cancels_is_rounded_together_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """z + â is off by u|z + a|, and where â is off by 27u, by u·27u more."""
    larger_u(monkeypatch, 2.0**-10)
    layer = heads((LOW, 3), (HIGH, -3))
    after = analysis().attended(state(COLUMNS, [[1, 0], [4, 0]]), layer)
    assert after.errors[0, 1].tolist() == [4 + 20 + 5 + 2 * 27 / 2**10, 0]


def test_other_answers_do_not_cancel() -> None:
    one, two, three = (3 * 4 + 15) + 20, (2 * 4 + 10) + 10, (3 * 4 + 15) + 5
    for layer, error in (
        (heads((LOW, 3)), one),
        (heads((LOW, 3), (HIGH, -2)), one + two),
        (heads((LOW, 3), (HIGH, 3)), one + (3 * 4 + 15) + 35),
        (heads((LOW, 3), (HIGH, -3), (HIGH, 1)), one + three + (4 + 5) + 10),
    ):
        after = analysis().attended(state(COLUMNS, [[1, 0], [4, 0]]), layer)
        assert after.errors[0, 1].tolist() == [4 + error, 0]


def test_heads_on_binary_cells_round_nothing() -> None:
    zeros = [[0, 0], [0, 0]]
    for unit in (Fraction(1), Fraction(1, 4)):
        layer = heads((LOW, 3), (HIGH, -3), unit=unit)
        after = analysis(unit).attended(state(COLUMNS, zeros), layer)
        assert after.streams.entries.tolist() == [[[-7, 0], [5, 0]]]
        assert not after.errors.any()


def test_scores_and_biases_that_float64_does_not_hold_are_refused() -> None:
    zeros = [[0, 0], [0, 0]]
    for unit in (Fraction(1), THIRD):
        analysis(unit).attended(state([[2**24, 0], [5, 0]], zeros), heads((HIGH, 1), unit=unit))
        with refused("53 bits"):  # 2^60
            analysis(unit).attended(state([[2**30, 0], [5, 0]], zeros), heads((HIGH, 1), unit=unit))
        with refused("53 bits"):
            analysis(unit).attended(state(COLUMNS, zeros), heads((THIRD, 1), unit=unit))


def lookup(columns: Any, unit: Fraction = THIRD, **changes: Any) -> Lookup:
    """Return units that read row 0 and fire half a cell around their keys."""
    options: Any = {
        "read": Matrix.of(1, 2, {(0, 0): 1}),
        "columns": columns,
        "rest": {},
        "low": -unit / 2,
        "high": unit / 2,
        "plain": True,
        "in_turn": False,
        **changes,
    }
    return Lookup(**options)


def test_numbers_are_looked_up_on_binary_cells_only() -> None:
    given = state(COLUMNS, [[0, 0], [0, 0]])
    for unit in (Fraction(1), Fraction(1, 4)):
        numbers = {5: {1: Fraction(8)}}
        after = analysis(unit).numbered(given, lookup(numbers, unit, rest={1: Fraction(-3)}))
        assert after.streams.entries.tolist() == [[[2, -3], [5, 5]]]
        assert not after.errors.any()
        with refused("53 bits"):
            analysis(unit).numbered(given, lookup(numbers, unit, rest={1: Fraction(2**53)}))
        # Units that fire at almost a cell below their key, or that begin to fire at their key.
        for low in (-unit * (1 - Fraction(1, 2**60)), Fraction(0)):
            with refused("the key of a token"):
                analysis(unit).numbered(given, lookup(numbers, unit, low=low))
    with refused("numbers are looked up"):
        analysis().numbered(given, lookup({5: {1: Fraction(8)}}))


def test_codes_need_smaller_errors_than_the_ends_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 is off by e and one rounding, −9 by one; the difference and the ends count one each."""
    larger_u(monkeypatch, 1 / 64)
    keys: Any = {3: {}, -9: {}, 1: {}}
    quarter, half = THIRD / 4, THIRD / 2
    for low, high, most in (
        (-half, half, 32),
        (-quarter, half, 16),
        (-half, quarter, 16),
        (-3 * quarter, half, 16),
        (-half, 3 * quarter, 16),
    ):
        units, e = lookup(keys, low=low, high=high), most - (3 + 9 + 2)
        codes = analysis()._codes(state([[3, 0], [1, 0]], [[e - 0.5, 0], [0, 0]]), units)
        assert codes.tolist() == [[3, 1]]
        for columns, errors in (([3, 1], [e, 0]), ([1, 3], [0, e])):
            with refused("the key of a token"):
                analysis()._codes(state([[z, 0] for z in columns], [[x, 0] for x in errors]), units)


def band(
    weight: int,
    breaks: tuple[Fraction | int, ...],
    middle: tuple[int, int] = (0, 0),
    **changes: Any,
) -> FeedForward:
    """Return a unit that reads row 0 and does something outside of an interval, in cells."""
    ends = [b * THIRD for b in breaks]
    pieces = [(1, 1), middle, (1, 1)][: len(ends) + 1]
    return replace(
        FeedForward(
            Matrix.of(1, 2, {(0, 0): weight}),
            Matrix.of(1, 1, {}),
            Matrix.of(2, 1, {(0, 0): 1}),
            Matrix.of(2, 1, {}),
            PiecewiseLinear.of(ends, pieces),
        ),
        **changes,
    )


def test_ends_of_bands_need_a_distance_of_the_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """−2·5 is off by 2e and one rounding of 10, −14 or −6 by one of its own."""
    larger_u(monkeypatch, 0.125)
    for sign in (1, -1):
        for low, high, end in ((-14, 90, -14), (-90, -6, -6)):
            ends = (low, high) if sign > 0 else (-high, -low)
            e = (8 * 4 - 10 + end) / 2
            layer = band(-2 * sign, ends)
            analysis().kept(state([[5, 0], [5, 0]], [[e - 0.25, 0]] * 2), layer)
            for errors in ([[e, 0], [0, 0]], [[0, 0], [e, 0]]):
                with refused("a unit of the stage 'reject'"):
                    analysis().kept(state([[5, 0], [5, 0]], errors), layer)


def test_a_column_at_zero_is_kept_if_it_is_exact() -> None:
    """The unit takes away what is negative."""
    layer = band(1, (0,))
    assert layer.activation.pieces == ((1, 1), (0, 0))
    analysis().kept(state([[0, 0], [4, 0]], [[0, 0], [4, 0]]), layer)
    with refused("a unit of the stage 'reject'"):
        analysis().kept(state([[0, 0], [4, 0]], [[1, 0], [4, 0]]), layer)


def test_layers_that_do_something_are_not_followed() -> None:
    given = state([[5, 0]], [[5, 0]])
    analysis().kept(given, band(1, (2, 9)))
    for layer in (
        band(1, (2, 9), middle=(0, 1)),
        band(1, (2, 9), middle=(1, 0)),
        band(1, (6, 9)),
        band(1, (2, 4)),
        band(1, (2, 9), b1=Matrix.of(1, 1, {(0, 0): THIRD})),
        band(1, (2, 9), b2=Matrix.of(2, 1, {(1, 0): THIRD})),
        heads((HIGH, 1)),
    ):
        with refused("nothing is known of rounding in a unit of the stage 'reject'"):
            analysis().kept(given, layer)


def test_values_are_rounded_as_weights_and_as_sums() -> None:
    """7 − 5/2 is off by the error of 7 and one rounding of 5/2 and of 9/2; 9 alone by nothing."""
    units = lookup({7: {0: Fraction(-5, 2), 1: Fraction(9)}, 8: {}})
    assert analysis().given(state([[7, 0]], [[3, 0]]), units) == 3 + Fraction(5, 2) + Fraction(9, 2)
    assert analysis().given(state([[7, 0]], [[3, 2]]), units) == 2 + 9 + 9
    assert (
        analysis(Fraction(1)).given(state([[7, 1]], [[0, 0]]), lookup(units.columns, Fraction(1)))
        == 9 + 10
    )
    assert analysis().given(state([[8, 0]], [[8, 0]]), units) == 8
    negative = lookup({7: {0: Fraction(-15, 2)}})
    assert analysis().given(state([[7, 0]], [[3, 0]]), negative) == 3 + Fraction(15, 2) + Fraction(
        1, 2
    )
    both = state([[8, 0], [7, 0], [8, 0]], [[8, 0], [3, 0], [8, 0]])
    assert analysis().given(both, units) == 10
    second = Matrix.of(1, 2, {(0, 1): 1})
    other = replace(analysis(), blueprint=replace(LAYERS, readout=second))
    assert other.given(both, units) == 0


def test_a_value_that_may_be_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 + 6 is less than 40 − ½ by 28½. It is off by the errors of 5 and −3, and by 114 roundings.

    Three of 5 and of 6: products, their sum, and the sum with the key; two of 40, and one of a cell.
    """
    larger_u(monkeypatch, 0.125)
    read = Matrix.of(1, 2, {(0, 0): 1, (0, 1): -2})
    units = lookup({90: {}, 40: {}}, read=read)
    result = [Fraction(5), Fraction(-3)]
    analysis()._stays_silent(units, result, [Fraction(40), Fraction(73, 2)])
    with refused("whether a value is a key"):
        analysis()._stays_silent(units, result, [Fraction(40), Fraction(37)])
    units, result = lookup({-40: {}, 90: {}}, read=read), [Fraction(-90), Fraction(0)]
    analysis()._stays_silent(units, result, [Fraction(44), Fraction(0)])
    with refused("whether a value is a key"):
        analysis()._stays_silent(units, result, [Fraction(45), Fraction(0)])


def test_values_are_kept_from_keys_where_units_act_in_turn() -> None:
    """The value 30 is more than the smallest key, 20."""
    columns = {20: {}, 50: {0: Fraction(-20)}}
    given = state([[50, 0]], [[0, 0]])
    analysis().given(given, lookup(columns))
    analysis().given(given, lookup(columns | {20: {}, 50: {0: Fraction(-40)}}, in_turn=True))
    with refused("whether a value is a key"):
        analysis().given(given, lookup(columns, in_turn=True))
