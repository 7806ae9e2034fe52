"""ReLUs in place of jumps: where they are the limit's function, where not, and by how much."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import nextafter
from typing import Any

import pytest

from exactformer.core.layers import IDENTITY, RELU, Attention, FeedForward, PiecewiseLinear, Rule
from exactformer.core.matrix import Matrix
from exactformer.core.upper import float_above
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions import shifts as sequences
from exactformer.sequences.constructions import softening as softening
from exactformer.sequences.constructions.softening import soften
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof import softness as softness
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.proof.softness import (
    check_softened,
    checked_group,
    literal_rounding,
    narrowest_ramp,
    output_spans,
    reject_margin,
    without_relus,
)
from tests.cases.forged_sequences import (
    added,
    made,
    shifts_of,
    units,
    units_of,
    widened,
    with_parts,
    with_units,
)
from tests.cases.sequences import grid, random_table

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
STEP = PiecewiseLinear.of((0,), ((0, 0), (0, 1)))


def relus(*parts: tuple[Any, Any, Any]) -> list[softness.Relu]:
    return [(Fraction(s), Fraction(o), Fraction(c)) for s, o, c in parts]


def test_the_difference_of_relus_and_a_function_is_where_it_is() -> None:
    """At random: outside the intervals both are the same, inside each they differ somewhere."""
    rng = random.Random(0)
    points = [Fraction(k, 4) for k in range(-28, 29)]
    for _ in range(100):
        group = [
            (
                Fraction(rng.choice([1, 1, -1, 2])),
                Fraction(rng.randint(-3, 3)),
                Fraction(rng.choice([-1, 1, 2])),
            )
            for _ in range(rng.randint(2, 4))
        ]
        same = PiecewiseLinear.of_relus(group)
        pieces = [
            (a, b + rng.choice([0, 1]) * (0 < k < len(same.breaks)))
            for k, (a, b) in enumerate(same.pieces)
        ]
        differ = [
            t
            for t in points
            if PiecewiseLinear.of(same.breaks, pieces)(t) != softness._sum(group, t)
        ]
        ramps = softness._difference(group, PiecewiseLinear.of(same.breaks, pieces), "here")
        assert all(any(a <= t <= b for a, b in ramps) for t in differ)
        assert all(any(a < t < b for t in differ) for a, b in ramps)
        for end in (0, -1):
            wrong = list(pieces)
            wrong[end] = (pieces[end][0], pieces[end][1] + 1)
            with pytest.raises(CertificationError, match="do not end"):
                softness._difference(group, PiecewiseLinear.of(same.breaks, wrong), "here")
    assert softness._difference([], PiecewiseLinear.of((), ((0, 0),)), "here") == []


def test_steps_become_ramps() -> None:
    ramp = relus((1, 0, 4), (1, -QUARTER, -4))
    assert softness._difference(ramp, STEP, "here") == [(0, QUARTER)]
    for wrong in (relus((1, 0, 4)), relus((1, 0, 4), (1, -QUARTER, -3)), relus((-1, 0, 1)), []):
        with pytest.raises(CertificationError, match="do not end"):
            softness._difference(wrong, STEP, "here")


@pytest.mark.parametrize(
    ("interval", "distance"),
    [
        ((Fraction(3, 8), Fraction(5, 8)), Fraction(3, 8)),
        ((Fraction(-5, 8), Fraction(-3, 8)), Fraction(3, 8)),
        ((Fraction(1, 8), HALF), Fraction(1, 8)),
        ((Fraction(0), HALF), 0),
        ((HALF, Fraction(1)), 0),
        ((HALF, Fraction(9, 8)), -1),
        ((Fraction(-1, 8), Fraction(1, 8)), -1),
        ((Fraction(2), Fraction(5, 2)), 0),
    ],
)
def test_clearance_is_the_distance_from_the_nearest_integer(interval: Any, distance: Any) -> None:
    for unit in (Fraction(1), QUARTER):
        scaled = (interval[0] * unit, interval[1] * unit)
        assert softness._clearance(scaled, unit) == distance


def test_neighbouring_look_ups_share_a_weight_of_one() -> None:
    """A hat on (−1, 1) is 1 with its neighbours; wider, higher or lower is not shared."""
    unit = Fraction(1)
    trapezoid = relus(
        (1, Fraction(5, 8), 4),
        (1, Fraction(3, 8), -4),
        (1, Fraction(-3, 8), -4),
        (1, Fraction(-5, 8), 4),
    )
    softness._check_partition(trapezoid, unit)
    softness._check_partition([(s, o / 4, c * 4) for s, o, c in trapezoid], QUARTER)
    nearly = relus(
        (1, Fraction(9, 10), Fraction(10, 9)),
        (1, 0, Fraction(-20, 9)),
        (1, Fraction(-9, 10), Fraction(10, 9)),
    )
    softness._check_partition(nearly, unit)
    high = [(s, o, c * Fraction(11, 10)) for s, o, c in trapezoid]
    low = [(s, o, -c) for s, o, c in trapezoid]
    wide = relus((1, Fraction(6, 8), 4), (1, HALF, -4), (1, -HALF, -4), (1, Fraction(-6, 8), 4))
    skew = relus(
        (1, Fraction(5, 8), 4), (1, Fraction(3, 8), -4), (1, -HALF, -4), (1, Fraction(-6, 8), 4)
    )
    far = relus((1, Fraction(3, 2), 1), (1, HALF, -1), (1, 0, -1), (1, -1, 1))
    for wrong in (high, low, wide, skew, far):
        with pytest.raises(CertificationError, match="overlap"):
            softness._check_partition(wrong, unit)


def pair(form: str, ramp: int = 4, sharpness: int = 10**4) -> tuple[Any, Any, Any]:
    honest, table = made(form)
    return soften(honest, table, Fraction(sharpness), ramp), honest, table


FIELDS = (
    ("tokens", 3),
    ("dim", 2),
    ("delta", Fraction(1, 3)),
    ("positional", True),
    ("support", (Fraction(0), Fraction(2))),
    ("largest_key", 7),
)


@pytest.mark.parametrize(("field", "value"), FIELDS)
def test_a_softened_blueprint_is_on_the_grid_of_its_limit(field: str, value: Any) -> None:
    soft, limit, table = pair("compact")
    with pytest.raises(CertificationError):
        check_softened(replace(soft, **{field: value}), limit, table)


def test_embedding_rows_readout_and_code_are_those_of_the_limit() -> None:
    soft, limit, table = pair("compact")
    embedding = replace(soft.embedding, features=added(soft.embedding.features, {(0, 0): 1}))
    for changes in (
        {"embedding": embedding},
        {"readout": added(soft.readout, {(0, 1): 1})},
        {"code": added(soft.code, {(0, 0): 1})},
        {"dimensions": ("a", "b")},
    ):
        with pytest.raises(CertificationError, match=f"differ in {next(iter(changes))}"):
            check_softened(replace(soft, **changes), limit, table)


def test_stages_are_those_of_the_limit_and_clip_in_the_papers_form() -> None:
    for form in ("compact", "paper"):
        soft, limit, table = pair(form)
        *stages, last = soft.stages
        more = Stage("clip", last.parts) if form == "compact" else Stage("more", last.parts)
        for wrong in ((*stages,), (*stages, last, more), (*stages, replace(last, name="other"))):
            with pytest.raises(CertificationError, match="has the stages"):
                check_softened(replace(soft, stages=wrong), limit, table)


Parts = Callable[[list[Any]], list[Any]]


def units_replaced(**changes: Any) -> Parts:
    def change(parts: list[Any]) -> list[Any]:
        part = parts[0]
        units = part
        new = replace(units, **{k: v(units) for k, v in changes.items()})
        return [new, *parts[1:]]

    return change


def identity(parts: list[Any]) -> list[Any]:
    return units_replaced(activation=lambda _: IDENTITY)(parts)


def one_by_one(parts: list[Any]) -> list[Any]:
    return [replace(parts[0], successive=1), *parts[1:]]


def together(parts: list[Any]) -> list[Any]:
    return [replace(parts[0], successive=None), *parts[1:]]


def fewer(parts: list[Any]) -> list[Any]:
    """Leave out the last ReLU: groups no longer have one size."""
    units = parts[0]
    m = units.w1.rows - 1
    w = units.w1.columns
    less = FeedForward(
        Matrix.of(m, w, {p: v for p, v in units.w1.entries.items() if p[0] < m}),
        Matrix.of(m, 1, {p: v for p, v in units.b1.entries.items() if p[0] < m}),
        Matrix.of(w, m, {p: v for p, v in units.w2.entries.items() if p[1] < m}),
        units.b2,
    )
    return [replace(less, successive=1), *parts[1:]]


GROUPS: dict[str, Parts] = {
    "another activation": identity,
    "ReLUs one by one": one_by_one,
    "units together": together,
    "a ReLU less": fewer,
    "a part more": lambda parts: [*parts, parts[0]],
    "a constant": units_replaced(b2=lambda u: added(u.b2, {(0, 0): 1})),
    "a weight of the last": units_replaced(
        w1=lambda u: added(u.w1, {(u.w1.rows - 1, 0): Fraction(1, 9)})
    ),
    "a row more": units_replaced(w1=lambda u: added(u.w1, {(u.w1.rows - 1, 1): Fraction(1, 9)})),
    "a bias of the last": units_replaced(
        b1=lambda u: added(u.b1, {(u.b1.rows - 1, 0): Fraction(1, 9)})
    ),
    "a result of the last": units_replaced(
        w2=lambda u: added(u.w2, {(0, u.w2.columns - 1): Fraction(1, 9)})
    ),
}


@pytest.mark.parametrize("stage", ["quantise", "values"])
@pytest.mark.parametrize("what", GROUPS)
def test_every_group_of_relus_is_that_of_the_first_unit(what: str, stage: str) -> None:
    soft, limit, table = pair("compact")
    check_softened(soft, limit, table)
    with pytest.raises(CertificationError):
        check_softened(with_parts(soft, stage, GROUPS[what]), limit, table)


def test_a_piecewise_layer_is_not_softened() -> None:
    soft, limit, table = pair("compact")
    hard = limit.stage("values").parts
    with pytest.raises(CertificationError, match="not the ReLU form"):
        check_softened(with_parts(soft, "values", lambda _: list(hard)), limit, table)
    attention = [p for p in soft.stage("contextual mapping").parts if isinstance(p, Attention)]
    with pytest.raises(CertificationError):
        check_softened(with_parts(soft, "values", lambda _: attention[:1]), limit, table)


CLIPS: dict[str, Parts] = {
    "lower": units_replaced(b1=lambda u: added(u.b1, {(0, 0): Fraction(1, 10)})),
    "narrower": units_replaced(b1=lambda u: added(u.b1, {(1, 0): Fraction(1, 10)})),
    "half as strong": units_replaced(
        w2=lambda u: Matrix.of(*u.w2.shape, {p: v / 2 for p, v in u.w2.entries.items()})
    ),
    "a constant": units_replaced(b2=lambda u: added(u.b2, {(0, 0): 1})),
    "another activation": identity,
    "twice": lambda parts: [*parts, *parts],
    "one by one": one_by_one,
    "not at all": units_replaced(w2=lambda u: Matrix.of(*u.w2.shape, {})),
}


@pytest.mark.parametrize("what", CLIPS)
def test_clipping_is_a_clamp_that_keeps_the_table(what: str) -> None:
    soft, limit, table = pair("paper")
    check_softened(soft, limit, table)
    with pytest.raises(CertificationError):
        check_softened(with_parts(soft, "clip", CLIPS[what]), limit, table)


def test_spans_are_those_of_the_values_with_zero() -> None:
    for form in ("compact", "paper", "four-layer"):
        soft, limit, table = pair(form)
        found = [v for columns in table.values.values() for c in columns for v in c]
        span = float_above(max(0, *found) - min(0, *found))
        assert check_softened(soft, limit, table).spans == (span,)
        assert list(output_spans(table)) == [span]


def left_over(code_error: float, key: int) -> float:
    """What stays in the paper's form, whose cells measure a quarter: never below the true number."""
    return float_above((Fraction(code_error) + Fraction(key * 4, 2**53)) / 4)


def test_clearance_is_three_eighths_of_a_cell() -> None:
    """Ramps of a quarter, centred half a cell from the keys, in whatever stage."""
    for form in ("compact", "paper", "four-layer"):
        assert check_softened(*pair(form)).clearance == 0.375


def test_sharpness_is_the_inverse_of_the_one_temperature() -> None:
    found = check_softened(*pair("compact", sharpness=123))
    assert found.sharpness == 123
    assert found.threshold == pytest.approx(
        softness.Leakage.of(made("compact")[0]).sharpness_for(0.25)
    )
    paper = check_softened(*pair("paper"))
    leakage = softness.Leakage.of(made("paper")[0])
    assert paper.threshold == pytest.approx(16 * leakage.sharpness_for(0.25))
    assert paper.code_error == leakage.code_error(10**4 / 16)
    key = made("paper")[0].largest_key
    assert paper.stream_error == left_over(paper.code_error, key)


def test_rejecting_takes_codes_nearer_than_values_do() -> None:
    """A column a little off t_l is lowered by the strength times that, and must become negative."""
    honest, _ = made("paper")
    t = honest.largest_key * Fraction(1, 4)
    assert reject_margin(honest) == float(1 / (2 * (t + 1) + Fraction(3, 4)))
    leakage = softness.Leakage.of(honest)
    edge = leakage.sharpness_for(reject_margin(honest)) * 16
    for sharpness, rejects in ((edge * 1.0001, True), (edge * 0.99, False)):
        soft, limit, table = pair("paper", sharpness=int(sharpness * 1000))
        scaled = soften(limit, table, Fraction(sharpness), 4)
        assert check_softened(scaled, limit, table).rejects is rejects
        assert soft.tokens == 2
    compact = made("compact")[0]
    edge = softness.Leakage.of(compact).sharpness_for(0.375)
    for sharpness, rejects in ((edge * 1.0001, True), (edge * 0.99, False)):
        _, limit, table = pair("compact")
        found = check_softened(soften(limit, table, Fraction(sharpness), 4), limit, table)
        assert found.rejects is found.selects is rejects


def test_values_of_the_papers_form_stay_a_cell_below_the_keys() -> None:
    """u·v + δ ≤ smallest key, exactly; a softened unit reaches no farther."""
    honest, table = made("paper")
    look_up = honest.stage("values").parts[0]  # type: ignore[union-attr]
    smallest = min(-v for _, _, v in look_up.b1)
    for largest, good in (
        (smallest - QUARTER, True),
        (smallest - QUARTER + Fraction(1, 999), False),
    ):
        values = dict(table.values)
        values[0, 1] = ((largest,), (Fraction(0),))
        other = replace(table, values=values)
        if good:
            softness._check_margin(honest, other, QUARTER)
        else:
            with pytest.raises(CertificationError, match="take a value for a key"):
                softness._check_margin(honest, other, QUARTER)


def test_a_quantised_coordinate_lies_on_no_ramp() -> None:
    """A ramp that begins at the edge of the cell before: there the collapsed coordinate stands."""
    soft, limit, table = pair("compact", ramp=2)
    check_softened(soft, limit, table)
    wide = 9 * QUARTER  # from 5/4 below the cell's own edge, in place of within the cell

    def wider(parts: list[Any]) -> list[Any]:
        units: FeedForward = parts[0]
        h = units.successive
        assert h is not None
        bias, write = dict(units.b1.entries), dict(units.w2.entries)
        for m in range(0, units.w1.rows, h):
            for k in range(h):
                offset = units.b1[m + k, 0] + Fraction(m, h)
                weight = units.w2[0, m + k]
                if offset == -1 + QUARTER:
                    bias[m + k, 0] = units.b1[m + k, 0] + wide - QUARTER
                if abs(weight) == 4:
                    write[0, m + k] = weight * QUARTER / wide
        new = replace(
            units, b1=Matrix.of(*units.b1.shape, bias), w2=Matrix.of(*units.w2.shape, write)
        )
        return [new, *parts[1:]]

    with pytest.raises(CertificationError):
        check_softened(with_parts(soft, "quantise", wider), limit, table)


def test_the_narrowest_ramp_is_that_of_the_quantiser() -> None:
    for form in ("compact", "paper", "four-layer"):
        soft, limit, _ = pair(form, ramp=5)
        assert narrowest_ramp(soft, limit) == Fraction(1, 32)


def test_relus_and_the_function_they_are_have_the_same_layers() -> None:
    for form in ("compact", "paper", "four-layer"):
        soft, limit, _ = pair(form)
        plain = without_relus(soft, limit)
        assert [len(s) for s in plain.stages] == [len(s) for s in soft.stages]
        assert not any(
            isinstance(p, FeedForward) and p.activation == RELU
            for s in plain.stages
            for p in s.parts
        )


def test_rounding_of_cancelling_relus_grows_with_units_weights_and_keys() -> None:
    soft, _, _ = pair("compact")
    units: Any = soft.stage("values").parts[0]
    largest = max(abs(float(v)) for _, _, v in units.w2)
    assert literal_rounding(soft) == units.w1.rows * largest * soft.largest_key * 2.0**-53
    double = with_units(
        soft,
        "values",
        w2=Matrix.of(*units.w2.shape, {p: -2 * v for p, v in units.w2.entries.items()}),
    )
    assert literal_rounding(double) == 2 * literal_rounding(soft)
    paper, _, _ = pair("paper")
    layer: Any = paper.stage("values").parts[0]
    most = max(abs(float(v)) for _, _, v in layer.w2)
    assert literal_rounding(paper) == layer.w1.rows * most * paper.largest_key / 4 * 2.0**-53


def test_codes_need_three_bits_more_and_those_of_a_sum() -> None:
    assert softness.float_bits(10, 1) == 13
    assert softness.float_bits(10, 4) == 15
    assert softness.float_bits(10, 5) == 16


def test_softened_layers_have_the_shapes_of_their_blueprint() -> None:
    soft, limit, table = pair("compact")
    wrong = with_parts(soft, "values", units_replaced(b1=lambda u: Matrix.of(u.b1.rows + 1, 1, {})))
    with pytest.raises(CertificationError, match="b1 is"):
        check_softened(wrong, limit, table)


FIRST: dict[str, Parts] = {
    "another row": units_replaced(w1=lambda u: added(u.w1, {(0, 1): 1})),
    "another result": units_replaced(w2=lambda u: added(u.w2, {(0, 0): 1})),
}


@pytest.mark.parametrize("what", FIRST)
def test_the_first_group_reads_and_writes_what_the_first_unit_does(what: str) -> None:
    """Value layers read the id and write the value; the first ReLU of all does something else too."""
    soft, limit, table = pair("compact")
    with pytest.raises(CertificationError, match="ReLU 1 does not belong"):
        check_softened(with_parts(soft, "values", FIRST[what]), limit, table)


def test_units_with_other_weights_than_one_are_compared_with_them() -> None:
    """Two coordinates: look-ups read x_1 + 2 x_2."""
    honest, table = made("compact", (2, 2, 2))
    soft = soften(honest, table, Fraction(10**4), 4)
    assert check_softened(soft, honest, table).selects
    wrong = units_replaced(w1=lambda u: added(u.w1, {(0, 1): -1}))
    with pytest.raises(CertificationError, match="ReLU 1 does not belong"):
        check_softened(with_parts(soft, "values", wrong), honest, table)


def test_units_side_by_side_have_as_many_relus_each() -> None:
    soft, limit, table = pair("four-layer")
    less = units_replaced(
        w1=lambda u: Matrix.of(
            u.w1.rows - 1,
            u.w1.columns,
            {p: v for p, v in u.w1.entries.items() if p[0] + 1 < u.w1.rows},
        ),
        b1=lambda u: Matrix.of(
            u.w1.rows - 1, 1, {p: v for p, v in u.b1.entries.items() if p[0] + 1 < u.w1.rows}
        ),
        w2=lambda u: Matrix.of(
            u.w2.rows,
            u.w1.rows - 1,
            {p: v for p, v in u.w2.entries.items() if p[1] + 1 < u.w1.rows},
        ),
    )
    with pytest.raises(CertificationError, match="for every unit"):
        check_softened(with_parts(soft, "values", less), limit, table)


def test_a_clip_bends_twice() -> None:
    soft, limit, table = pair("paper")
    third = units_replaced(b1=lambda u: added(u.b1, {(u.b1.rows - 1, 0): 1}))
    with pytest.raises(CertificationError, match="clip"):
        check_softened(with_parts(soft, "clip", third), limit, table)


def test_what_is_left_in_the_papers_form_is_the_error_of_the_codes_and_rounding() -> None:
    honest, table = made("paper")
    leakage = softness.Leakage.of(honest)
    sharpness = Fraction(leakage.sharpness_for(0.01) * 16)
    found = check_softened(soften(honest, table, sharpness, 4), honest, table)
    assert found.code_error == pytest.approx(0.01, rel=1e-3)
    assert found.stream_error == left_over(found.code_error, honest.largest_key)
    compact, other = made("compact")
    sharpness = Fraction(softness.Leakage.of(compact).sharpness_for(0.01))
    assert check_softened(soften(compact, other, sharpness, 4), compact, other).stream_error == 0


def test_where_nothing_is_known_about_the_codes_nothing_is_said() -> None:
    for form in ("compact", "paper"):
        found = check_softened(*pair(form, sharpness=1))
        assert found.code_error is None
        assert found.stream_error is None
        assert not found.selects
        assert not found.rejects


def test_a_value_less_than_a_cell_below_the_keys_is_not_softened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hard units fire from half a cell below their key; softened ones begin an eighth before."""
    monkeypatch.setattr(sequences, "global_shift", lambda layout, largest: 64)
    where = grid((1, 2, 4), "paper")
    for below, good in ((Fraction(3, 4), False), (Fraction(1), True)):
        table = GridTable.of(where, {(2, 3): [[(836 - below) / 4], [0]]})
        limit = SEQUENCE_FORMS["paper"](table)
        assert certify_sequence(limit, table, exhaustive_work=0).smallest_key == 836
        soft = soften(limit, table, Fraction(10**5), 4)
        if good:
            assert check_softened(soft, limit, table).selects
        else:
            with pytest.raises(CertificationError, match="take a value for a key"):
                check_softened(soft, limit, table)


def test_ramps_end_where_relus_of_any_slope_bend() -> None:
    steep = relus((2, 0, 2), (2, -HALF, -2))
    assert softness._difference(steep, STEP, "here") == [(0, QUARTER)]
    falling = relus((-2, HALF, -2), (-2, 0, 2), (0, 1, 1))
    assert softness._difference(falling, STEP, "here") == [(0, QUARTER)]


def test_functions_that_cross_are_not_the_same() -> None:
    """t − 1 on [0, 3) is 0 at one of the points that are compared."""
    crossing = PiecewiseLinear.of((0, 3), ((0, 0), (1, -1), (0, 0)))
    assert softness._difference([], crossing, "here") == [(0, 3)]
    other = PiecewiseLinear.of((0, 3), ((0, 0), (1, -2), (0, 0)))
    assert softness._difference([], other, "here") == [(0, 3)]


def test_look_ups_of_any_slope_and_side_share_a_weight_of_one() -> None:
    """Also one that is not in the middle; a spike between integers is more than its share."""
    unit = Fraction(1)
    steep = relus((2, 1, 2), (2, HALF, -2), (-2, 1, 0), (2, -1, -2), (2, Fraction(-3, 2), 2))
    softness._check_partition(steep, unit)
    spike = relus((2, Fraction(-9, 8), 1), (2, Fraction(-10, 8), -2), (2, Fraction(-11, 8), 1))
    with pytest.raises(CertificationError, match="overlap"):
        softness._check_partition([*steep, *spike], unit)
    with pytest.raises(CertificationError, match="overlap"):
        softness._check_partition([*steep, *relus((0, 1, QUARTER))], unit)


def plateau(first: Fraction, last: Fraction, height: Fraction) -> list[softness.Relu]:
    tenth = Fraction(1, 10)
    steep = height * 10
    return relus(
        (1, -first, steep),
        (1, -first - tenth, -steep),
        (1, tenth - last, -steep),
        (1, -last, steep),
    )


def test_look_ups_that_reach_beyond_their_neighbours_are_refused() -> None:
    """Low and wide: three add up to 0.9, but four or five overlap."""
    low = Fraction(3, 10)
    for first, last in ((Fraction(-5, 2), Fraction(5, 2)), (-HALF, Fraction(3))):
        with pytest.raises(CertificationError, match="overlap"):
            softness._check_partition(plateau(first, last, low), Fraction(1))
    softness._check_partition(plateau(-HALF, HALF, low), Fraction(1))
    narrow = [
        (s, o / 4, c * 4) for s, o, c in plateau(Fraction(-4, 5), Fraction(4, 5), Fraction(1))
    ]
    with pytest.raises(CertificationError, match="overlap"):
        softness._check_partition(narrow, QUARTER)


def test_ramps_are_a_part_of_the_support_wherever_it_lies() -> None:
    where = replace(grid((1, 2, 4), "compact"), support=(Fraction(-1), Fraction(2)))
    table = random_table(where)
    limit = SEQUENCE_FORMS["compact"](table)
    found = check_softened(soften(limit, table, Fraction(10**4), 4), limit, table)
    assert found.ramp_mass == 1 - (15 / 16) ** 2


def standing_for(hard: FeedForward, group: list[softness.Relu]) -> FeedForward:
    """Return c·relu(σt + o) for every (σ, o, c) in place of each unit, t being what it reads."""
    m, w, h = hard.w1.rows, hard.w1.columns, len(group)
    each = [(s, k, *group[k]) for s in range(m) for k in range(h)]
    return FeedForward(
        Matrix.of(
            m * h,
            w,
            {(s * h + k, j): a * hard.w1[s, j] for s, k, a, _, _ in each for j in range(w)},
        ),
        Matrix.of(m * h, 1, {(s * h + k, 0): a * hard.b1[s, 0] + o for s, k, a, o, _ in each}),
        Matrix.of(
            w,
            m * h,
            {(i, s * h + k): c * hard.w2[i, s] for s, k, _, _, c in each for i in range(w)},
        ),
        hard.b2,
    )


FALLING = relus((-2, HALF, -2), (-2, 0, 2), (0, 1, 1))
"""A step with a ramp on [0, ¼], from its upper end down; the last ReLU is a constant."""
STEPS = units(3, [{0: 3, 1: -2}, {1: 5}], [5, -4], [{}, {2: 7, 0: 2}], STEP)


def test_relus_are_read_beside_units_of_any_weight_and_bias() -> None:
    honest, _ = made("compact")
    soft, limit = (
        replace(honest, stages=(Stage("steps", (part,)),))
        for part in (standing_for(STEPS, FALLING), STEPS)
    )
    (found,) = softness.relu_groups(soft, limit).values()
    assert found == softness.ReluGroup(FALLING, STEP, [(0, QUARTER)])
    assert found == checked_group(standing_for(STEPS, FALLING), STEPS)


def test_relus_act_together_where_units_do() -> None:
    """Two units a layer are six ReLUs a layer."""
    soft = standing_for(STEPS, FALLING)
    for hidden, together in ((3, 1), (6, 2)):
        checked_group(replace(soft, successive=hidden), replace(STEPS, successive=together))
    for part, other in (
        (replace(soft, successive=3), replace(STEPS, successive=2)),
        (replace(soft, successive=6), replace(STEPS, successive=1)),
        (replace(soft, successive=3), STEPS),
        (soft, replace(STEPS, successive=1)),
    ):
        with pytest.raises(CertificationError, match="act together"):
            checked_group(part, other)


def test_only_relus_stand_for_units() -> None:
    soft = standing_for(STEPS, FALLING)
    attention = made("compact")[0].stage("contextual mapping").parts[0]
    other = replace(soft, activation=IDENTITY)
    for part, limit in ((attention, STEPS), (soft, attention), (STEPS, STEPS), (other, STEPS)):
        with pytest.raises(CertificationError, match="not the ReLU form"):
            checked_group(part, limit)
    blind = units(3, [{}, {1: 5}], [5, -4], [{2: 1}, {2: 7}], STEP)
    with pytest.raises(CertificationError, match="reads nothing"):
        checked_group(standing_for(blind, FALLING), blind)


def test_functions_differ_where_only_their_slopes_do_at_the_ends() -> None:
    """relu(t) and relu(−t) are 0 at 0, where nothing bends that is 0 everywhere."""
    assert softness._difference([], PiecewiseLinear.of((), ((0, 0),)), "here") == []
    for pieces in (((0, 0), (1, 0)), ((-1, 0), (0, 0))):
        with pytest.raises(CertificationError, match="do not end"):
            softness._difference([], PiecewiseLinear.of((0,), pieces), "here")


@pytest.mark.parametrize("unit", [Fraction(1), QUARTER])
def test_look_ups_reach_to_their_neighbours_and_no_farther(unit: Fraction) -> None:
    """A hat over [−1, 1] is 1 with its neighbours; a low one a little wider is refused."""
    softness._check_partition(
        relus((1, unit, 1 / unit), (1, 0, -2 / unit), (1, -unit, 1 / unit)), unit
    )
    wide = unit + Fraction(1, 10**9)
    for first, last in ((wide, unit), (unit, wide)):
        low = relus((1, first, 1 / first), (1, 0, -1 / first - 1 / last), (1, -last, 1 / last))
        with pytest.raises(CertificationError, match="overlap"):
            softness._check_partition([(s, o, c / 9) for s, o, c in low], unit)


def test_without_ramps_values_are_unchanged_up_to_half_a_cell() -> None:
    where = grid((1, 2, 4), "compact")
    table = GridTable.of(where, {})
    limit = SEQUENCE_FORMS["compact"](table)
    found = check_softened(soften(limit, table, Fraction(10**4), 4), limit, table)
    assert found.clearance == 0.5


def test_a_ramp_may_not_begin_at_an_integer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that fire from 0 on do not fire at 0 any more if their ramp begins there."""
    honest, table = made("compact")
    centred = softening.ramps
    for low, fires in ((Fraction(0), False), (Fraction(-3, 8), True)):
        shape = PiecewiseLinear.of((low, 3 * QUARTER), ((0, 0), (0, 1), (0, 0)))
        limit = with_units(honest, "values", activation=shape)
        begun = ((low, low + QUARTER), (HALF, 3 * QUARTER))
        monkeypatch.setattr(
            softening, "ramps", lambda f, w, steep, b=begun: centred(f, w, steep) if steep else b
        )
        soft = soften(limit, table, Fraction(10**4), 4)
        if fires:
            assert check_softened(soft, limit, table).clearance == 0.125
        else:
            with pytest.raises(CertificationError, match="does not fire at integers"):
                check_softened(soft, limit, table)


@pytest.mark.parametrize("form", ["compact", "paper"])
def test_codes_may_be_off_by_all_that_is_allowed(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, limit, table = pair(form)
    most = 0.375 if form == "compact" else reject_margin(limit)
    for off, rejects in ((most, True), (nextafter(most, 1), False)):
        monkeypatch.setattr(softness.Leakage, "code_error", lambda *_, off=off: off)
        assert check_softened(soft, limit, table).rejects is rejects


def test_every_layer_of_attention_is_softmax() -> None:
    """Hard layers do not become soft by a temperature."""
    soft, limit, table = pair("compact")

    def hard(parts: list[Any]) -> list[Any]:
        return [replace(p, selection=replace(p.selection, rule=Rule.HARD_MAX)) for p in parts]

    with pytest.raises(CertificationError, match="not softmax"):
        check_softened(with_parts(soft, "contextual mapping", hard), limit, table)


def test_clipping_layers_are_one_for_every_coordinate() -> None:
    """Also outside a succession of one; two in one succession, or attention, are something else."""
    limit, table = made("paper", (2, 2, 2))
    soft = soften(limit, table, Fraction(10**4), 4)
    found = check_softened(soft, limit, table)
    plain = with_parts(soft, "clip", lambda parts: [replace(p, successive=None) for p in parts])
    assert check_softened(plain, limit, table) == found
    assert without_relus(plain, limit) == without_relus(soft, limit)
    for r, (low, high) in enumerate(softness._ends(table)):
        clamp = PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (-1, high)))
        one = units(2, [{r: 1}], [0], [{r: 1}], clamp)
        assert without_relus(soft, limit).stage("clip").parts[r] == one

    def merged(parts: list[Any]) -> list[Any]:
        both = [replace(p, successive=None) for p in parts]
        rows, w = both[0].w1.rows, both[0].w1.columns

        def down(name: str) -> dict[tuple[int, int], Fraction]:
            pieces = (getattr(u, name).entries.items() for u in both)
            return {(i + k * rows, j): v for k, p in enumerate(pieces) for (i, j), v in p}

        write = {(i, j + k * rows): v for k, u in enumerate(both) for i, j, v in u.w2}
        layer = FeedForward(
            Matrix.of(2 * rows, w, down("w1")),
            Matrix.of(2 * rows, 1, down("b1")),
            Matrix.of(w, 2 * rows, write),
            both[0].b2,
        )
        return [replace(layer, successive=rows)]

    attention = soft.stage("contextual mapping").parts[0]
    for change, words in (
        (merged, "not one layer for every"),
        (lambda parts: [attention, *parts[1:]], "not made of ReLUs"),
    ):
        with pytest.raises(CertificationError, match=words):
            check_softened(with_parts(soft, "clip", change), limit, table)


def test_a_clip_that_bends_once_is_no_clamp() -> None:
    soft, limit, table = pair("paper")
    once = units_replaced(b1=lambda u: Matrix.of(*u.b1.shape, {}))
    with pytest.raises(CertificationError, match="does not bend twice"):
        check_softened(with_parts(soft, "clip", once), limit, table)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_values_of_two_rows_read_is_below_the_keys(sign: int) -> None:
    """v in both rows is read as v + 2v at most, whatever the signs of the code."""
    honest, table = made("paper", (2, 2, 2))
    code = Matrix.of(1, 2, {(0, 0): 2, (0, 1): sign * 4})
    limit = replace(honest, code=code)
    smallest = min(-v for _, _, v in units_of(honest, "values").b1)
    for more, good in ((Fraction(0), True), (Fraction(1, 10**9), False)):
        largest = (smallest - HALF) / 3 + more
        other = replace(table, values={**table.values, (0, 1): ((largest, Fraction(0)),) * 2})
        if good:
            softness._check_margin(limit, other, HALF)
        else:
            with pytest.raises(CertificationError, match="take a value for a key"):
                softness._check_margin(limit, other, HALF)


def test_rounding_is_that_of_the_largest_weight_of_either_sign() -> None:
    soft, _, _ = pair("compact")
    layer = units_of(soft, "values")
    falling = with_units(soft, "values", w2=Matrix.of(*layer.w2.shape, {(1, 0): -7, (1, 1): 2}))
    assert literal_rounding(falling) == layer.w1.rows * 7 * soft.largest_key * 2.0**-53
    attention = soft.stage("contextual mapping").parts[0]
    with pytest.raises(CertificationError, match="no attention"):
        literal_rounding(with_parts(soft, "values", lambda _: [attention]))


def test_the_narrowest_ramp_is_the_narrowest_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ramps of 1/64 and 1/16 of a cell in one function; a quantiser that writes nothing has none."""
    limit, table = made("paper")
    steep = softening.ramps

    def uneven(function: Any, width: Any, is_steep: bool) -> Any:
        found = steep(function, width, is_steep)
        return tuple(r and (r[0], r[0] + width / (1 if k else 4)) for k, r in enumerate(found))

    monkeypatch.setattr(softening, "ramps", uneven)
    assert narrowest_ramp(soften(limit, table, Fraction(100), 4), limit) == Fraction(1, 64)

    def silent(blueprint: SequenceBlueprint) -> SequenceBlueprint:
        def change(parts: list[Any]) -> list[Any]:
            return [replace(p, w2=Matrix.of(*p.w2.shape, {})) for p in parts]

        return with_parts(blueprint, "quantise", change)

    soft = soften(limit, table, Fraction(100), 4)
    assert narrowest_ramp(silent(soft), silent(limit)) is None


def banded(
    low: Fraction, high: Fraction, strength: Fraction | int, honest: SequenceBlueprint | None = None
) -> SequenceBlueprint:
    """Return the paper's form with another band to reject columns by, its ends in cells."""
    limit = honest or made("paper")[0]
    unit, w = softness.cell_unit(limit), limit.width
    low, high = low * unit, high * unit
    shape = PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (1, -high)))
    negative = PiecewiseLinear.of((0,), ((-1, 0), (0, 0)))
    read = {r: v * unit for _, r, v in limit.code}
    layers = [units(w, [read], [0], [dict.fromkeys(range(w), -strength)], shape)]
    layers += [units(w, [{r: 1}], [0], [{r: 1}], negative) for r in range(w)]
    return with_parts(limit, "reject", lambda _: layers)


LOW, HIGH = Fraction(1671, 2), Fraction(5071, 2)
"""Keys of the paper's form are 836 to 2535."""


def test_columns_with_keys_are_kept_and_others_rejected_where_codes_are_off() -> None:
    """Off by e, the code 2536 is lowered by s(½ − e) cells, and a row of it holds 2536 + e."""
    for strength in (5080, 6000, 5072 + Fraction(1, 10**6)):
        e = (Fraction(strength) / 2 - 2536) / (strength + 1)
        assert strength * (HALF - e) == 2536 + e
        assert reject_margin(banded(LOW, HIGH, strength)) == float(e)
    reject_margin(banded(HALF, HIGH + 1, 5080))
    for wrong in (
        banded(LOW, HIGH, 5072),
        banded(LOW, HIGH, 5071),
        banded(LOW + HALF, HIGH, 5080),
        banded(LOW + QUARTER, HIGH, 5080),
        banded(LOW + 1, HIGH, 5080),
        banded(-HALF, HIGH, 5080),
        banded(LOW, HIGH - HALF, 5080),
        banded(LOW, HIGH - 1, 5080),
    ):
        with pytest.raises(CertificationError, match="not shown to tell keys"):
            reject_margin(wrong)
    assert reject_margin(made("compact")[0]) == 0


def test_a_band_that_begins_at_a_key_is_not_softened() -> None:
    """In integers it leaves the key alone; a code a little below would be lowered 5080-fold."""
    _, table = made("paper")
    limit = banded(Fraction(836), HIGH, 5080)
    assert certify_sequence(limit, table, exhaustive_work=0).zero_error
    with pytest.raises(CertificationError, match="not shown to tell keys"):
        check_softened(soften(limit, table, Fraction(536), 4), limit, table)


@pytest.mark.parametrize("sign", [1, -1])
def test_rejected_rows_are_no_larger_than_their_code(sign: int) -> None:
    """No row may be negative: neither from the start, nor by its cell, nor by the code's weights."""
    honest, _ = made("paper")
    wide = banded(LOW, HIGH, 6000, widened(honest))
    margin = reject_margin(wide)
    constant = added(wide.embedding.constant, {(1, 0): sign * QUARTER})
    cell = units(2, [{0: 1}], [-QUARTER], [{1: sign * QUARTER}], STEP)
    two, _ = made("paper", (2, 2, 2))
    code = Matrix.of(1, 2, {(0, 0): 2, (0, 1): sign * 4})
    given = replace(two, code=code)
    shifts = shifts_of({0: 1, 1: sign * 2}, 0, HALF, 4, 64, width=2)
    turned = with_parts(given, "contextual mapping", lambda _: list(shifts.parts))
    low, high = (b / HALF for b in units_of(two, "reject").activation.breaks)
    for forged in (
        replace(wide, embedding=replace(wide.embedding, constant=constant)),
        with_parts(wide, "quantise", lambda parts: [cell, *parts]),
        banded(low, high, 10**6, turned),
    ):
        if sign > 0:
            assert reject_margin(forged) >= margin
        else:
            with pytest.raises(CertificationError, match="not shown to tell keys"):
                reject_margin(forged)


def test_other_stages_that_reject_are_not_softened() -> None:
    """A hat between integers is 0 at all codes, and not where they are off; sums have no band."""
    honest, table = made("compact")
    hat = PiecewiseLinear.of((0, HALF, 1), ((0, 0), (1, 0), (-1, 1), (0, 0)))
    stage = Stage("reject", (units(2, [{0: 1}], [-900], [{0: 9}], hat),))
    limit = replace(honest, stages=(*honest.stages[:2], stage, honest.stages[2]))
    assert certify_sequence(limit, table, exhaustive_work=0).zero_error
    soft = soften(limit, table, Fraction(10**4), 4)
    with pytest.raises(CertificationError, match="nothing is known"):
        check_softened(soft, limit, table)
    sums, _ = made("four-layer")
    banded_sums = banded(
        LOW, HIGH, 6000, replace(sums, stages=(*sums.stages[:2], stage, sums.stages[2]))
    )
    with pytest.raises(CertificationError, match="nothing is known"):
        reject_margin(banded_sums)


def test_columns_that_nothing_rejects_go_to_zero_where_codes_are_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values in turn that take their codes away, without a stage that rejects."""
    honest, table = made("compact")
    look_up = units_of(honest, "values")
    back = added(look_up.w2, {(0, m): -(10**6) for m in range(look_up.w1.rows)})
    limit = with_units(honest, "values", w2=back)
    clamp = relus((1, -100, -1), (-1, -100, 1))
    clip = standing_for(units(2, [{1: 1}], [0], [{1: 1}]), clamp)
    soft = soften(limit, table, Fraction(10**4), 4)
    soft = replace(soft, stages=(*soft.stages, Stage("clip", (clip,))))
    for off, rejects in ((0.0, True), (1e-9, False)):
        monkeypatch.setattr(softness.Leakage, "code_error", lambda *_, off=off: off)
        assert check_softened(soft, limit, table).rejects is rejects
