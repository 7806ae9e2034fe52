"""Each thing that the algebra of the keys rests on, taken away in turn."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from exactformer.core.layers import Attention, FeedForward, Head, PiecewiseLinear, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, RoundingError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions.softening import soften
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof import certify as certificates
from exactformer.sequences.proof.cells import Quantised
from exactformer.sequences.proof.certify import certify_sequence, certify_softened
from exactformer.sequences.proof.lookups import (
    cell_unit,
    check_by_keys,
    check_weights,
    every_class,
    quantised_streams,
    read_lookup,
    reads_values_only,
)
from tests.cases.forged_sequences import (
    HALF,
    INDICATOR,
    added,
    is_wrong,
    made,
    refused,
    units,
    units_of,
    widened,
    with_parts,
    with_units,
)
from tests.cases.sequences import grid, random_table
from tests.sequences.proof.test_outside import refitted

HARD = Selection(Rule.HARD_MAX)
ONE = Fraction(1)


def fires(low: Fraction | int, high: Fraction | int) -> PiecewiseLinear:
    return PiecewiseLinear.of((low, high), ((0, 0), (0, 1), (0, 0)))


@pytest.mark.parametrize("unit", [ONE, Fraction(1, 4), Fraction(3)])
def test_units_fire_at_their_key_and_less_than_a_cell_around_it(unit: Fraction) -> None:
    """[low, high) holds 0 and no other multiple of a cell."""
    tiny = unit / 10**9
    for low, high, good in (
        (-unit / 2, unit / 2, True),
        (Fraction(0), unit, True),
        (tiny - unit, tiny, True),
        (-unit, unit / 2, False),
        (-unit / 2, Fraction(0), False),
        (-unit / 2, unit + tiny, False),
        (tiny, unit, False),
    ):
        layer = units(2, [{0: 1}], [-5 * unit], [{1: unit}], fires(low, high))
        at = [k for k in range(-9, 10) if layer.activation(k * unit)]
        assert (at == [0]) is good
        if good:
            assert read_lookup(layer, unit).columns == {5: {1: 1}}
            assert read_lookup(layer, unit).low == low
        else:
            with pytest.raises(CertificationError, match="single integers"):
                read_lookup(layer, unit)


@pytest.mark.parametrize(
    "activation",
    [
        PiecewiseLinear.of((-HALF, HALF), ((0, 0), (0, 2), (0, 0))),
        PiecewiseLinear.of((-HALF, HALF), ((0, 1), (0, 1), (0, 0))),
        PiecewiseLinear.of((-HALF, HALF), ((0, 0), (0, 1), (0, 1))),
        PiecewiseLinear.of((-HALF, HALF), ((0, 0), (1, 1), (0, 0))),
        PiecewiseLinear.of((-HALF, HALF, 3), ((0, 0), (0, 1), (0, 0), (0, 1))),
        PiecewiseLinear.of((0,), ((0, 0), (0, 1))),
        PiecewiseLinear.of((), ((0, 0),)),
    ],
)
def test_other_functions_are_no_look_up(activation: PiecewiseLinear) -> None:
    with pytest.raises(CertificationError, match="single integers"):
        read_lookup(units(2, [{0: 1}], [0], [{1: 1}], activation), ONE)


def test_units_of_a_look_up_read_the_same() -> None:
    """One that reads another row, or nothing, fires elsewhere than where it is looked up."""
    good: Any = [{0: 1, 1: 2}] * 3
    read = read_lookup(units(3, good, [0, -1, -2], [{2: 1}] * 3), ONE).read
    assert dict(read.entries) == {(0, 0): 1, (0, 1): 2}
    for wrong in (
        [{}, {}, {}],
        [good[0], good[0], {0: 1}],
        [good[0], {}, good[0]],
        [{}, *good[:2]],
    ):
        with pytest.raises(CertificationError, match="read the same"):
            read_lookup(units(3, wrong, [0, -1, -2], [{2: 1}] * 3), ONE)


def test_a_look_up_is_made_of_piecewise_units() -> None:
    layer = units(2, [{0: 1}], [0], [{1: 1}])
    relus = FeedForward(layer.w1, layer.b1, layer.w2, layer.b2)
    attention = Attention((Head(layer.w1, layer.w1, Matrix.of(2, 2, {})),), HARD)
    for part in (relus, replace(relus, successive=1), attention):
        with pytest.raises(CertificationError, match=r"piecewise-linear|single integers"):
            read_lookup(part, ONE)


def test_what_a_look_up_adds_is_counted_in_cells() -> None:
    layer = units(
        3, [{0: 1}] * 2, [0, Fraction(-3, 2)], [{1: 1}, {2: -HALF}], fires(-HALF / 2, HALF)
    )
    found = read_lookup(replace(layer, b2=Matrix.of(3, 1, {(1, 0): 2})), HALF)
    assert found.columns == {0: {1: 2}, 3: {2: -1}}
    assert found.rest == {1: 4}
    with pytest.raises(CertificationError, match="should be an integer"):
        read_lookup(replace(layer, b1=Matrix.of(2, 1, {(0, 0): Fraction(1, 3)})), HALF)


@pytest.mark.parametrize("field", ["w2", "b2"])
def test_units_act_in_turn_where_they_write_what_they_read(field: str) -> None:
    layer = units(2, [{0: 1}], [0], [{1: 1}])
    own = replace(layer, **{field: added(getattr(layer, field), {(0, 0): 1})})
    assert read_lookup(replace(own, successive=1), ONE).in_turn
    assert not read_lookup(own, ONE).in_turn
    assert not read_lookup(replace(layer, successive=1), ONE).in_turn


def test_a_cell_is_what_the_smallest_weight_of_the_code_counts() -> None:
    honest, _ = made("compact")
    for weights, unit in (((-1, 2), 1), ((-4, 8), Fraction(1, 4)), ((HALF, -3), 2)):
        code = Matrix.of(1, 2, {(0, r): v for r, v in enumerate(weights)})
        assert cell_unit(replace(honest, code=code)) == unit


def test_value_layers_read_the_code_and_nothing_else() -> None:
    """A row that always holds 1 shifts all keys by one."""
    honest, table = made("compact")
    wide = widened(honest)
    last = wide.width - 1
    start = added(wide.embedding.constant, {(last, 0): 1})
    wide = replace(wide, embedding=replace(wide.embedding, constant=start))
    assert not is_wrong(wide, table)
    read = units_of(wide, "values").w1
    more = added(read, {(m, last): 1 for m in range(read.rows)})
    forged = with_units(wide, "values", w1=more)
    assert is_wrong(forged, table)
    refused(forged, table, "do not read the code")


def test_value_layers_write_nothing_without_a_key() -> None:
    honest, table = made("four-layer", (1, 1, 3))
    look_up = units_of(honest, "values")
    row = honest.width - 1
    gift = added(look_up.b2, {(row, 0): 5})
    less = added(look_up.w2, {(row, m): -5 for m in range(look_up.w1.rows)})
    forged = with_units(honest, "values", b2=gift, w2=less)
    assert not is_wrong(forged, table)  # inside; what lies outside has no key, and gets 5
    refused(forged, table, "without a key")


def test_tokens_in_context_have_keys_of_their_own() -> None:
    """Without a global shift contexts are not told apart, even where values do not differ."""
    where = grid((1, 1, 4), "compact")
    table = GridTable.of(where, {ids: [[1]] for ids in where.classes()})

    def flat(parts: list[Any]) -> list[Any]:
        (head,) = parts[-1].heads
        value = Matrix.of(*head.value.shape, {(0, 0): -1})
        return [*parts[:-1], Attention((replace(head, value=value),), HARD)]

    forged = refitted(
        with_parts(SEQUENCE_FORMS["compact"](table), "contextual mapping", flat), table
    )
    assert forged is not None
    assert not is_wrong(forged, table)
    refused(forged, table, "other codes")


def test_a_unit_too_many_is_refused() -> None:
    honest, table = made("compact")
    look_up = units_of(honest, "values")
    more = look_up.w1.rows + 1
    forged = with_units(
        honest,
        "values",
        w1=Matrix.of(more, 2, {**look_up.w1.entries, (more - 1, 0): 1}),
        b1=Matrix.of(more, 1, {**look_up.b1.entries, (more - 1, 0): -2000}),
        w2=Matrix.of(2, more, {**look_up.w2.entries, (1, more - 1): 1}),
    )
    refused(forged, table, "other codes")


READERS = ("query", "key", "value", "look-up", "readout", "code")


@pytest.mark.parametrize("reader", READERS)
def test_nothing_reads_a_coordinate_as_it_was(reader: str) -> None:
    """The four layers leave x in its row; whatever reads it there is not constant on a cell."""
    honest, table = made("four-layer")
    w = honest.width

    def reading(parts: list[Any]) -> list[Any]:
        number, mean = parts
        if reader == "look-up":
            rows = {(m, 0): 4 for m in range(number.w1.rows)}
            return [replace(number, w1=added(number.w1, rows)), mean]
        (head,) = mean.heads
        field = getattr(head, reader)
        return [number, Attention((replace(head, **{reader: added(field, {(0, 0): 1})}),), HARD)]

    if reader in ("readout", "code"):
        forged = replace(honest, **{reader: added(getattr(honest, reader), {(0, 0): 1})})
    else:
        forged = with_parts(honest, "contextual mapping", reading)
    assert forged.width == w
    refused(forged, table, "as it was")


def grids(table: GridTable) -> dict[str, GridTable]:
    """Return tables of the same values on other grids."""
    where = table.grid
    wide = replace(where, support=(Fraction(0), Fraction(2)))
    return {
        "support": GridTable(wide, table.values),
        "positions": random_table(replace(where, positional=True)),
        "cells": random_table(replace(where, cells=3)),
        "tokens": random_table(replace(where, tokens=3)),
        "coordinates": random_table(replace(where, dim=2)),
    }


@pytest.mark.parametrize("other", ["support", "positions", "cells", "tokens", "coordinates"])
def test_a_blueprint_is_compared_on_its_own_grid(other: str) -> None:
    honest, table = made("compact")
    refused(honest, grids(table)[other], "not on the same grid")


def test_a_table_holds_every_class_and_no_other() -> None:
    honest, table = made("compact")
    values = dict(table.values)
    first = next(iter(values))
    less = {ids: v for ids, v in values.items() if ids != first}
    for wrong in (less, {**less, (7, 9): values[first]}, {**values, (7, 9): values[first]}):
        refused(honest, GridTable(table.grid, wrong), "does not hold the 6 classes")


def test_a_softened_blueprint_is_not_taken_for_a_hard_one() -> None:
    honest, table = made("compact")
    refused(replace(honest, realisation="softmax-relu"), table, "hard realisation")


def test_stages_are_those_of_the_theorem() -> None:
    honest, table = made("compact")
    first, second, last = honest.stages
    for stages in (
        (second, last),
        (first, last),
        (first, second),
        (replace(first, name="count"), second, last),
        (first, second, last, Stage("reject", last.parts)),
        (first, Stage("reject", second.parts), second, last),
    ):
        refused(replace(honest, stages=stages), table, "not those of the theorem")
    twice = with_parts(honest, "values", lambda parts: [*parts, *parts])
    refused(twice, table, "not those of the theorem")


def test_quantised_streams_do_not_wrap_around() -> None:
    """Three parts below 2^62 add up to more than an int64."""
    where = grid((2, 1, 2), "compact")
    most = 2**62 - 1
    after = Quantised(
        base=([most],), cells=((([most], [0]), ([most], [1])),), outside=None, free=frozenset()
    )
    streams = quantised_streams(where, after, np.array([[0], [1], [2], [3]]))
    assert streams.entries.ravel().tolist() == [3 * most, 2 * most, 2 * most + 1, most + 1]
    assert streams.largest == most


def shifted(shift: int) -> tuple[SequenceBlueprint, GridTable]:
    """Return the compact form of one token and two cells with a global shift: keys 0 and 1 + G."""
    honest, table = made("compact", (1, 1, 2))

    def change(parts: list[Any]) -> list[Any]:
        (head,) = parts[-1].heads
        value = Matrix.of(*head.value.shape, {(0, 0): shift})
        return [*parts[:-1], Attention((replace(head, value=value),), HARD)]

    keys = Matrix.of(2, 1, {(1, 0): -1 - shift})
    forged = with_units(with_parts(honest, "contextual mapping", change), "values", b1=keys)
    return replace(forged, largest_key=1 + shift), table


def test_floats_are_exact_below_two_to_the_fifty_three() -> None:
    """A unit reads code − key, at most twice the largest key."""
    for shift, plain in ((2**52 - 2, True), (2**52 - 1, False)):
        found = certify_sequence(*shifted(shift), exhaustive_work=0)
        assert found.largest_key == 1 + shift
        assert found.plain_floats is plain


def test_layers_that_are_not_followed_in_floats_are_not_called_exact() -> None:
    """A reject stage, and value layers that write what they read.

    Columns without a key, equal ones of three, have codes among the keys: none of them fires.
    """
    honest, table = made("compact", (1, 3, 3))
    idle = Stage("reject", (units(2, [{0: 1}], [0], [{}], INDICATOR),))
    *before, last = honest.stages
    rejecting = replace(honest, stages=(*before, idle, last))
    look_up = units_of(honest, "values")
    keys = {(0, m): look_up.b1[m, 0] for m in range(look_up.w1.rows)}
    emptying = with_units(honest, "values", w2=added(look_up.w2, keys))
    for forged in (rejecting, emptying):
        assert not is_wrong(forged, table)
        assert not certify_sequence(forged, table, exhaustive_work=0).plain_floats
    assert certify_sequence(honest, table, exhaustive_work=0).plain_floats


def test_one_scaled_output_of_two_is_not_called_exact() -> None:
    honest, table = made("compact", (2, 1, 2))
    look_up = units_of(honest, "values")
    row = honest.width - 1
    third = {(row, m): -look_up.w2[row, m] * 2 / 3 for m in range(look_up.w1.rows)}
    forged = replace(
        with_units(honest, "values", w2=added(look_up.w2, third)),
        readout=added(honest.readout, {(1, row): 2}),
    )
    assert not is_wrong(forged, table)
    assert not check_by_keys(forged, table).float_exact
    assert check_by_keys(honest, table).float_exact


def test_numbers_are_looked_up_by_units_side_by_side() -> None:
    """Two swaps 1 ↔ 3 undo each other; in turn, each takes both to 1."""
    honest, table = made("compact")
    swap = units(honest.width, [{0: 1}, {0: 1}], [-1, -3], [{0: 2}, {0: -2}])
    for part in (swap, replace(swap, successive=1)):
        forged = with_parts(
            honest, "contextual mapping", lambda parts, part=part: [part, part, *parts]
        )
        if part.successive is None:
            check_by_keys(forged, table)
        else:
            with pytest.raises(CertificationError, match="one after another"):
                check_by_keys(forged, table)


def test_an_output_is_an_entry_of_the_stream_or_a_sum_of_several() -> None:
    blueprint = replace(made("compact")[0], dim=2)
    for entries, alone in (
        ({(0, 0): 1, (1, 1): 1}, True),
        ({(0, 0): 1, (0, 1): 5, (1, 1): 1}, False),
        ({(0, 0): 1, (1, 1): 2}, False),
        ({(0, 0): 1}, False),
    ):
        readout = Matrix.of(2, blueprint.width, entries)
        assert reads_values_only(replace(blueprint, readout=readout)) == alone


def test_the_largest_key_is_the_largest_that_fires() -> None:
    honest, table = made("compact")
    for off in (1, -1):
        refused(replace(honest, largest_key=honest.largest_key + off), table, "the largest key")


def test_a_rejected_code_that_is_no_integer_is_refused() -> None:
    """A unit may fire a little off its key: half a cell below or above is no key, or is it?"""
    honest, table = made("compact")
    half = units(2, [{0: 1}], [0], [{0: HALF}], PiecewiseLinear.of((), ((0, 1),)))
    *before, last = honest.stages
    forged = replace(honest, stages=(*before, Stage("reject", (half,)), last))
    refused(forged, table, "no integer")


def test_rejecting_layers_are_carried_out_before_values_are_looked_up() -> None:
    """All codes moved by one, and all keys too; with only one of both nothing fits."""
    honest, table = made("compact")
    step = units(2, [{0: 1}], [0], [{0: 1}], PiecewiseLinear.of((), ((0, 1),)))
    look_up = units_of(honest, "values")
    later = Matrix.of(look_up.w1.rows, 1, {(m, 0): v - 1 for m, _, v in look_up.b1})
    *before, last = honest.stages
    moved = replace(honest, stages=(*before, Stage("reject", (step, step, step)), last))
    assert is_wrong(moved, table)
    refused(moved, table, "the table has")
    three = Matrix.of(look_up.w1.rows, 1, {(m, 0): v - 2 for m, _, v in later})
    fitted = replace(with_units(moved, "values", b1=three), largest_key=honest.largest_key + 3)
    assert not is_wrong(fitted, table)
    assert certify_sequence(fitted, table, exhaustive_work=0).largest_key == honest.largest_key + 3


def test_a_unit_at_another_code_is_refused_even_if_it_writes_nothing() -> None:
    where = grid((1, 2, 4), "compact")
    table = GridTable.of(where, {(0, 1): [[1], [2]]})
    honest = SEQUENCE_FORMS["compact"](table)
    look_up = units_of(honest, "values")
    idle = look_up.w1.rows - 2  # of (2, 3), which goes to 0
    forged = with_units(honest, "values", b1=added(look_up.b1, {(idle, 0): 1}))
    assert not is_wrong(forged, table)
    refused(forged, table, "other codes")


@pytest.mark.parametrize("positional", [False, True])
def test_every_class_is_followed(positional: bool) -> None:
    where = grid((2, 2, 2), "compact", positional)
    ids = range(4)
    wanted = [(a, b) for a in ids for b in ids if positional or a <= b]
    assert [tuple(c) for c in every_class(where).tolist()] == wanted
    found = check_by_keys(*made("compact", (2, 2, 2), positional))
    assert found.rejected == (0 if positional else 4)


def test_every_input_is_run_where_that_is_little_work() -> None:
    """By itself, whatever the algebra says: 10 inputs through 5 + 9 + 12 units and heads."""
    honest, table = made("compact")
    work = 10 * (4 + 1 + 8 + 1 + 12)
    assert certify_sequence(honest, table, exhaustive_work=work).method == "exhaustive"
    assert certify_sequence(honest, table, exhaustive_work=work - 1).method == "keys"
    placed = made("compact", (1, 2, 2), positional=True)
    work = 4 * (2 + 1 + 8 + 1 + 8)
    assert certify_sequence(*placed, exhaustive_work=work).method == "exhaustive"
    assert certify_sequence(*placed, exhaustive_work=work - 1).method == "keys"


@pytest.mark.parametrize(("units", "method"), [(20_000, "exhaustive"), (20_001, "keys")])
def test_inputs_are_run_up_to_twenty_thousand_units(
    units: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One input, and a blueprint that counts as large; beyond the limit no layer is run."""
    honest, table = made("compact", (1, 1, 1))
    ran: list[Any] = []
    monkeypatch.setattr(certificates, "_units", lambda _: units)
    monkeypatch.setattr(certificates, "_run_everything", lambda *given: ran.append(given))
    assert certify_sequence(honest, table).method == method
    assert ran == [(honest, table)] * (method == "exhaustive")


def test_the_token_that_comes_out_wrong_is_named() -> None:
    honest, table = made("compact")
    first, second = table.values[1, 3]
    for token, columns in ((1, ((Fraction(7),), second)), (2, (first, (Fraction(7),)))):
        wrong = GridTable(table.grid, {**table.values, (1, 3): columns})
        with pytest.raises(CertificationError, match=rf"class \(1, 3\): token {token} comes out"):
            certificates._run_everything(honest, wrong)


def test_a_code_that_is_no_key_is_left_as_it_is() -> None:
    """Values in turn that take their codes away. Equal columns of id 3 have 195 and get a code above
    all keys, at which nothing fires.
    """
    honest, table = made("compact")
    look_up = units_of(honest, "values")
    back = added(look_up.w2, {(0, m): -(10**6) for m in range(look_up.w1.rows)})
    lift = units(2, [{0: 1}], [-195], [{0: 10**5}])
    forged = with_parts(
        with_units(honest, "values", w2=back), "contextual mapping", lambda parts: [*parts, lift]
    )
    assert read_lookup(forged.stages[-1].parts[0], ONE).in_turn
    certify_sequence(forged, table)


@pytest.mark.parametrize("ids", [(1, 3), (2, 2)])
def test_running_every_input_is_a_proof_of_its_own(
    ids: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the algebra switched off, a wrong value and a class that should go to 0 are still seen."""
    honest, table = made("compact")
    found = check_by_keys(honest, table)
    monkeypatch.setattr(certificates, "check_by_keys", lambda *_: found)
    certify_sequence(honest, table)
    values = dict(table.values)
    if ids in values:
        values[ids] = ((Fraction(7),), values[ids][1])
        wrong = honest
    else:
        # Code 130 is that of equal columns of id 2.
        wrong = with_units(
            honest, "values", b1=added(units_of(honest, "values").b1, {(0, 0): 836 - 130})
        )
        values = {c: v for c, v in values.items() if c != (0, 1)} | {(0, 1): ((Fraction(0),),) * 2}
        zero = Matrix.of(*units_of(honest, "values").w2.shape, {
            p: v for p, v in units_of(honest, "values").w2.entries.items() if p[1] != 1
        })  # fmt: skip
        wrong = with_units(wrong, "values", w2=zero)
    with pytest.raises(CertificationError, match=rf"class \({ids[0]}, {ids[1]}\)"):
        certify_sequence(wrong, GridTable(table.grid, values))


def test_only_a_softened_model_that_selects_without_error_reproduces_its_table() -> None:
    honest, table = made("compact")
    hard = certify_sequence(honest, table)
    soft = certify_softened(soften(honest, table, Fraction(10**4), 4), honest, table)
    softness = soft.softness
    assert softness is not None
    assert hard.zero_error
    assert soft.zero_error
    for changes in (
        {"code_error": 0.5},
        {"code_error": None},
        {"stream_error": 1e-9},
        {"stream_error": None},
    ):
        worse = replace(softness, **changes)  # type: ignore[arg-type]
        assert not replace(soft, softness=worse).zero_error
    assert replace(soft, softness=replace(softness, code_error=softness.clearance)).zero_error


LARGEST = Fraction(2) ** 1024 - Fraction(2) ** 971


@pytest.mark.parametrize(
    "place", ["w1", "b1", "w2", "b2", "break", "slope", "intercept", "embedding"]
)
@pytest.mark.parametrize(
    ("size", "good"),
    [
        (Fraction(1, 2**1022), True),
        (Fraction(1, 2**1022) - Fraction(1, 2**1075), True),  # it is rounded up
        (Fraction(1, 2**1022) - Fraction(1, 2**1074), False),
        (Fraction(1, 2**1074), False),
        (Fraction(1, 2**1100), False),
        (LARGEST, True),
        (Fraction(2) ** 1024, False),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_weights_are_normal_numbers(place: str, size: Fraction, good: bool, sign: int) -> None:
    blueprint, _ = made("compact")
    number = sign * size
    layer = units_of(blueprint, "values")
    if place in ("w1", "b1", "w2", "b2"):
        matrix = getattr(layer, place)
        layer = replace(layer, **{place: Matrix.of(*matrix.shape, {(0, 0): number})})
    elif place == "break":
        layer = replace(layer, activation=PiecewiseLinear.of((number,), ((0, 0), (0, 1))))
    elif place != "embedding":
        piece = (number, 0) if place == "slope" else (0, number)
        layer = replace(layer, activation=PiecewiseLinear.of((0,), ((0, 0), piece)))
    else:
        constant = Matrix.of(blueprint.width, 1, {(0, 0): number})
        blueprint = replace(blueprint, embedding=replace(blueprint.embedding, constant=constant))
    blueprint = with_parts(blueprint, "values", lambda parts: [layer])
    if good:
        check_weights(blueprint)
    else:
        about = size.numerator.bit_length() - size.denominator.bit_length()
        with pytest.raises(RoundingError, match=rf"of about 2\^{about} is not a normal number"):
            check_weights(blueprint)


@pytest.mark.parametrize(("exponent", "good"), [(1022, True), (1023, False), (1100, False)])
def test_layers_whose_values_may_be_taken_for_zero_are_not_exact(exponent: int, good: bool) -> None:
    where = grid((1, 2, 2), "compact")
    values = {ids: [[Fraction(1, 2**exponent)]] * 2 for ids in random_table(where).values}
    table = GridTable.of(where, values)
    certificate = certify_sequence(SEQUENCE_FORMS["compact"](table), table)
    assert certificate.plain_floats is good
    assert ("literal" in certificate.rounding) is good
    # All of a value may be lost, and a bound must not be taken for zero.
    assert set(certificate.rounding.values()) == {0.0 if good else 2.0**-1022}
