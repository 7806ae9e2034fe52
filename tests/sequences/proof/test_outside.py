"""Sequences with a coordinate outside: where they are proven to go to 0, every one of them does.

Families of blueprints around the three arguments for it, with numbers on both sides of every limit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    Head,
    PiecewiseLinear,
    Rule,
    Selection,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import ExactformerError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions import shifts as sequences
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof.cells import Quantised, quantised
from exactformer.sequences.proof.certify import certify_sequence
from exactformer.sequences.proof.lookups import cell_unit
from exactformer.sequences.proof.outside import (
    largest_inside,
    largest_outside,
    number_and_mean,
    outside_goes_to_zero,
    rejects,
    selective_shifts,
    starts_at_zero,
    sums_are_negative,
)
from exactformer.sequences.run.exact import run_sequences
from tests.adversary.sequence_drafts import Draft, NotApplicableError, refit
from tests.cases.forged_sequences import (
    HALF,
    added,
    is_wrong,
    made,
    shifts_of,
    units,
    units_of,
    widened,
    with_parts,
    with_units,
)
from tests.cases.sequences import grid

HARD = Selection(Rule.HARD_MAX)


def refitted(blueprint: SequenceBlueprint, table: Any) -> SequenceBlueprint | None:
    """Return a blueprint whose value layers have the keys that its codes ask for."""
    draft = Draft(random.Random(0), blueprint, table)
    try:
        refit(draft)
    except NotApplicableError:
        return None
    return draft.blueprint


def outsiders(blueprint: SequenceBlueprint) -> Iterator[list[tuple[Fraction, ...]]]:
    """Yield sequences with a coordinate below or above the support, all else in any cell."""
    low, high = blueprint.support
    side = (high - low) / blueprint.cells
    inside = [low + side * (q + HALF) for q in range(blueprint.cells)]
    places = [*inside, low - side / 3, high]
    columns = list(product(places, repeat=blueprint.dim))
    for tokens in product(columns, repeat=blueprint.tokens):
        if any(not low <= v < high for column in tokens for v in column):
            yield list(tokens)


def all_go_to_zero(blueprint: SequenceBlueprint) -> bool:
    outputs = run_sequences(blueprint, list(outsiders(blueprint)))
    return not any(v for output in outputs for column in output for v in column)


def verdict(blueprint: SequenceBlueprint | None, table: Any) -> bool | None:
    """Return whether outsiders are proven to go to 0, which is then seen; None if nothing is."""
    try:
        if blueprint is None:
            return None
        found = certify_sequence(blueprint, table, exhaustive_work=0)
    except ExactformerError:
        return None
    assert not found.outside or all_go_to_zero(blueprint)
    return found.outside


def shifting(
    honest: SequenceBlueprint, K: int, G: int, below: int, above: int, last: Any = None
) -> SequenceBlueprint:
    """Return the compact form with K selective shifts, a global one, and outsiders where they go."""
    code = {r: int(v) for _, r, v in honest.code}
    layers = shifts_of(code, 0, Fraction(1), K, G, honest.width).parts
    moved = with_parts(honest, "contextual mapping", lambda _: list(layers))
    N = honest.cells
    away = PiecewiseLinear.of((0, N), ((-1, below), (0, 0), (-1, above)))

    def quantise(parts: list[Any]) -> list[Any]:
        d = honest.dim
        return [
            *parts[:d],
            *(replace(p, activation=away) for p in parts[d:]),
        ]

    return with_parts(moved, "quantise", quantise)


@pytest.mark.spread(3)
@pytest.mark.parametrize("size", [(1, 1, 3), (1, 2, 3), (2, 1, 2), (1, 2, 2)], ids=str)
@pytest.mark.parametrize("positional", [False, True])
def test_shifts_that_are_proven_to_send_outsiders_away_do(
    size: tuple[int, int, int], positional: bool
) -> None:
    honest, table = made("compact", size, positional)
    rng = random.Random(str((size, positional)))
    D = table.grid.points * (size[1] if positional else 1)
    verdicts = []
    for _ in range(50):
        K = rng.choice([D - 1, D, D, D, D + 1])
        G = rng.choice([-3, 0, 1, 2, K, K**2, K**3])
        ends = [-1, -2, -K, *[-(K**2), -(K**3)] * 3, 0, 1, D, K**3]
        below = rng.choice(ends)
        above = below if rng.random() < 0.6 else rng.choice(ends)
        forged = shifting(honest, K, G, below, above)
        if rng.random() < 0.2:
            start = rng.choice([-1, 1, 2])
            row = rng.choice([0, honest.width - 1])
            constant = added(forged.embedding.constant, {(row, 0): start})
            forged = replace(forged, embedding=replace(forged.embedding, constant=constant))
        verdicts.append(verdict(refitted(forged, table), table))
    assert {True, False} <= set(verdicts)


def test_outsiders_must_be_deeper_than_keys_can_make_up_for() -> None:
    """K = 4, G = 64 and keys up to 2535: G·K·M > 2535 from M = 10 on."""
    honest, table = made("compact")
    for depth, proven in ((9, False), (10, True)):
        assert verdict(shifting(honest, 4, 64, -depth, -depth), table) is proven
        for one_side in (
            shifting(honest, 4, 64, -99, -depth),
            shifting(honest, 4, 64, -depth, -99),
        ):
            assert verdict(one_side, table) is proven


def test_a_number_that_stands_in_the_output_from_the_start_stays_there() -> None:
    honest, table = made("compact", (1, 2, 3), positional=True)
    row = honest.width - 1
    for part in ("constant", "positions"):
        matrix = getattr(honest.embedding, part)
        places = {(row, i): 5 for i in range(matrix.columns)}
        embedding = replace(honest.embedding, **{part: added(matrix, places)})
        forged = refitted(replace(honest, embedding=embedding), table)
        assert forged is not None
        assert not all_go_to_zero(forged)
        assert verdict(forged, table) is False


@pytest.mark.parametrize("stage", ["quantise", "contextual mapping"])
def test_what_a_stage_writes_to_the_output_stays_there(stage: str) -> None:
    """A head, a unit or a constant that writes to the row of the values, for outsiders too."""
    form = "four-layer"
    honest, table = made(form, (1, 2, 3))
    w, row = honest.width, honest.width - 1
    layer = units_of(honest, stage)
    gifts = [{"b2": added(layer.b2, {(row, 0): 5})}]
    gifts.append({"w2": added(layer.w2, {(row, m): 5 for m in range(layer.w1.rows)})})
    forgeries = [with_units(honest, stage, **gift) for gift in gifts]
    if stage == "contextual mapping":
        nothing = Matrix.of(1, w, {})
        ids = Matrix.of(w, w, {(row, 1): 2})
        copy = Attention((Head(nothing, nothing, ids),), HARD)
        forgeries.append(with_parts(honest, stage, lambda parts: [copy, *parts]))
    for forged in forgeries:
        assert verdict(refitted(forged, table), table) is not True


def summing(honest: SequenceBlueprint, rng: random.Random) -> SequenceBlueprint:
    """Return the form with sums with other numbers, weights and look-ups."""
    w, n, D = honest.width, honest.tokens, honest.cells**honest.dim
    source, row = w - honest.dim - 1, w - honest.dim - 2
    step = rng.choice([1, n])
    numbers = [step * a for a in rng.choice([(0, 1, 3), (0, 1, 4), (-2, 0, 5), (3, 1, 0)])][:D]
    weight = rng.choice([n, 2 * n, D * n, 1, -n])
    most = max(numbers)
    rest = rng.choice([-1, -most, -most - 1, -n * most - 1, -n * most - 2, -9 * most - 9, 2])
    number = units_of(honest, "contextual mapping")
    (head,) = honest.stage("contextual mapping").parts[1].heads  # type: ignore[union-attr]
    entries = {(source, m): a - rest for m, a in enumerate(numbers)}
    choice = rng.random()
    changes: dict[str, Any] = {
        "w2": Matrix.of(w, D, entries),
        "b2": Matrix.of(w, 1, {(source, 0): rest}),
    }
    if choice < 0.08:
        changes["b2"] = added(changes["b2"], {(row, 0): rng.choice([1, 40])})
    elif choice < 0.16:
        changes["w2"] = added(changes["w2"], {(row, 0): D})
    elif choice < 0.24:
        changes["b1"] = added(number.b1, {(m, 0): rng.choice([1, 2]) for m in range(D)})
    elif choice < 0.3:
        changes["w2"] = Matrix.of(w, D, {p: v for p, v in entries.items() if p[1]})
    value = Matrix.of(w, w, {(row, source): weight})
    mean = Attention((replace(head, value=value),), HARD)
    forged = with_units(honest, "contextual mapping", **changes)
    forged = with_parts(forged, "contextual mapping", lambda parts: [parts[0], mean])
    if 0.3 < choice < 0.5:
        place = rng.choice([row, source])
        start = added(forged.embedding.constant, {(place, 0): rng.choice([-1, 1, 30])})
        forged = replace(forged, embedding=replace(forged.embedding, constant=start))
    elif 0.5 < choice < 0.6:
        count = units_of(forged, "quantise")
        gift = added(count.w2, {(source, rng.randrange(count.w1.rows)): rng.choice([1, 50])})
        forged = with_units(forged, "quantise", w2=gift)
    return forged


def test_sums_that_are_proven_to_be_negative_are() -> None:
    rng = random.Random(5)
    verdicts = []
    for size in ((1, 2, 3), (1, 1, 3), (1, 3, 2)) * 60:
        honest, table = made("four-layer", size)
        verdicts.append(verdict(refitted(summing(honest, rng), table), table))
    assert verdicts.count(True) > 10
    assert verdicts.count(False) > 10


def numbered(weight: int, numbers: list[int], rest: int) -> tuple[SequenceBlueprint, Any]:
    honest, table = made("four-layer")
    number = units_of(honest, "contextual mapping")
    forged = with_units(
        honest,
        "contextual mapping",
        w2=Matrix.of(*number.w2.shape, {(2, m): a - rest for m, a in enumerate(numbers)}),
        b2=Matrix.of(*number.b2.shape, {(2, 0): rest}),
    )
    (head,) = honest.stage("contextual mapping").parts[1].heads  # type: ignore[union-attr]
    value = Matrix.of(*head.value.shape, {(1, 2): weight})
    mean = Attention((replace(head, value=value),), HARD)
    return with_parts(forged, "contextual mapping", lambda parts: [parts[0], mean]), table


def test_a_sum_below_zero_may_still_meet_a_key_half_a_cell_above() -> None:
    """3 + (8·7 − 63)/2 = −1/2, and the unit of the key 0 fires from there on. −1 is far enough."""
    forged, table = numbered(1, [0, 8, 24, 56], -63)
    assert not is_wrong(forged, table)
    assert not all_go_to_zero(forged)
    assert verdict(forged, table) is False
    forged, table = numbered(1, [0, 8, 24, 56], -64)
    assert all_go_to_zero(forged)
    assert verdict(forged, table) is True


def test_one_outsider_is_enough_whatever_the_others_hold() -> None:
    """With n − 1 largest numbers and the largest id: 3 + 4·(7 + rest) ≤ −1 from rest = −8 on."""
    for rest, proven in ((-7, False), (-8, True)):
        assert verdict(*numbered(8, [0, 1, 3, 7], rest)) is proven


def weakened(strength: Fraction, low: Fraction | None = None) -> tuple[SequenceBlueprint, Any]:
    honest, table = made("paper")
    band = units_of(honest, "reject")
    first, high = band.activation.breaks
    start = first if low is None else low
    shape = PiecewiseLinear.of((start, high), ((-1, start), (0, 0), (1, -high)))
    write = Matrix.of(*band.w2.shape, {(0, 0): -strength})
    return with_units(honest, "reject", w2=write, activation=shape), table


def test_a_reject_layer_takes_outsiders_below_zero_or_is_not_said_to() -> None:
    """A column of uᵀz ≥ G·K·M·δ is lowered by s(uᵀz − t_r) at least, and is uᵀz at most."""
    honest, _ = made("paper")
    full = -units_of(honest, "reject").w2[0, 0]
    verdicts = {}
    for strength in (1, HALF, Fraction(9, 8), Fraction(5, 4), 2, 3, 8, full):
        verdicts[strength] = verdict(*weakened(Fraction(strength)))
    assert verdicts[full] is True
    assert verdicts[HALF] is False
    assert verdicts[1] is False


def test_rejected_columns_may_not_meet_the_key_zero() -> None:
    """What is rejected becomes 0, and is looked up like anything else."""
    honest, table = made("paper", (1, 2, 3), positional=True)
    assert verdict(honest, table) is False  # 1 … 2 is position 2's [0, 1)


def test_the_layers_of_the_theorem_are_read_letter_for_letter() -> None:
    honest, _ = made("compact")
    unit = cell_unit(honest)

    def found(parts: Any) -> Any:
        return selective_shifts(
            replace(honest.stage("contextual mapping"), parts=tuple(parts)), honest, unit
        )

    parts = list(honest.stage("contextual mapping").parts)
    assert found(parts) == (4, 64)
    assert found(parts[-1:]) == (0, 64)
    wrong = [
        [],
        parts[:-1],
        parts[1:],
        [*parts, parts[-1]],
        parts[::-1],
        [parts[1], parts[0], *parts[2:]],
    ]
    first, last = parts[0], parts[-1]
    assert isinstance(first, Attention)
    assert isinstance(last, Attention)
    warm = Selection(Rule.SOFTMAX)
    wrong += [
        [replace(first, selection=warm), *parts[1:]],
        [*parts[:-1], replace(last, selection=warm)],
        [replace(first, heads=first.heads[:1]), *parts[1:]],
        [replace(first, heads=first.heads[::-1]), *parts[1:]],
        [*parts[:-1], replace(last, heads=last.heads * 2)],
        [units(honest.width, [{0: 1}], [0], [{0: 1}]), *parts[1:]],
        [*parts[:-1], units(honest.width, [{0: 1}], [0], [{0: 1}])],
    ]
    for field in ("query", "key", "value", "bias"):
        for k, part in ((0, first), (len(parts) - 1, last)):
            for h in range(len(part.heads)):
                heads = list(part.heads)
                matrix = getattr(heads[h], field)
                nudged = added(matrix, {(0, matrix.columns - 1): 1})
                heads[h] = replace(heads[h], **{field: nudged})
                wrong.append([*parts[:k], replace(part, heads=tuple(heads)), *parts[k + 1 :]])
    for other in wrong:
        assert found(other) is None


def found_shifts(code: dict[int, int], home: int, unit: Fraction, K: int, G: int) -> Any:
    """Return what is found of K shifts and a global one that write to a row."""
    honest, _ = made("compact", (2, 2, 2))
    stage = shifts_of(code, home, unit, K, G, honest.width)
    named = Matrix.of(1, honest.width, {(0, r): v / unit for r, v in code.items()})
    return selective_shifts(stage, replace(honest, code=named), unit)


@pytest.mark.parametrize("unit", [Fraction(1), Fraction(1, 4)])
def test_shifts_write_to_the_first_row_that_counts_cells(unit: Fraction) -> None:
    for code, home in (({0: 1, 1: 2}, 0), ({0: 2, 1: 1}, 1), ({0: 3, 1: 1, 2: 1}, 1)):
        for row in range(3):
            assert found_shifts(code, row, unit, 3, 7) == ((3, 7) if row == home else None)


def test_a_code_without_a_row_of_weight_one_has_no_shifts() -> None:
    honest, _ = made("compact")
    code = Matrix.of(1, honest.width, {(0, 0): -1})
    assert (
        selective_shifts(
            honest.stage("contextual mapping"), replace(honest, code=code), Fraction(1)
        )
        is None
    )
    assert (
        found_shifts({0: -1}, 0, Fraction(1), 0, 0) is None
    )  # a shift that adds nothing to any row


def every_id(after: Quantised, read: dict[int, Fraction], outside: bool) -> list[Fraction]:
    """Return the ids of all columns inside, or of all with a coordinate outside, one by one."""
    found = []
    for base, cells, sides in zip(after.base, after.cells, after.outside or (), strict=True):
        ways = [
            [(c, False) for c in inside] + [(c, True) for c in away]
            for inside, away in zip(cells, sides, strict=True)
        ]
        for column in product(*ways):
            if any(away for _, away in column) is outside:
                rows = [base, *(c for c, _ in column)]
                found.append(
                    sum((v * row[r] for row in rows for r, v in read.items()), Fraction(0))
                )
    return found


def test_the_largest_ids_are_those_of_some_column() -> None:
    rng = random.Random(0)

    def rows(count: int) -> tuple[list[int], ...]:
        return tuple([rng.randint(-9, 9) for _ in range(3)] for _ in range(count))

    for _ in range(50):
        after = Quantised(
            base=rows(2),
            cells=tuple(tuple(rows(2) for _ in range(2)) for _ in range(2)),
            outside=tuple(tuple(rows(2) for _ in range(2)) for _ in range(2)),
            free=frozenset(),
        )
        read = {0: Fraction(rng.randint(-3, 3)), 2: Fraction(rng.randint(1, 3))}
        assert largest_inside(after, read) == max(every_id(after, read, False))
        assert largest_outside(after, read) == max(every_id(after, read, True))


def test_outsiders_are_deep_enough_to_the_last_key() -> None:
    """Two coordinates: ids are q_1 + 2 q_2, and those of outsiders M at most, G·K·M above all keys."""
    honest, _ = made("compact", (2, 2, 2))
    after = quantised(honest, Fraction(1))
    K, G = selective_shifts(honest.stage("contextual mapping"), honest, Fraction(1)) or (0, 0)
    depth = -max(every_id(after, {0: Fraction(1), 1: Fraction(2)}, True))
    lifted = int(G * K * depth)

    def proven(blueprint: SequenceBlueprint, smallest: int, largest: int) -> bool:
        return outside_goes_to_zero(blueprint, after, Fraction(1), smallest, largest)

    assert lifted > honest.largest_key
    assert proven(honest, 0, lifted - 1)
    assert not proven(honest, 0, lifted)
    assert not proven(honest, -1, lifted - 1)
    # The largest id is 3, and K layers meet those below K.
    for layers, met in ((4, True), (3, False)):
        assert proven(shifting(honest, layers, int(G), -9, -9), 0, 1) is met


@pytest.mark.parametrize("unit", [Fraction(1), Fraction(1, 4), Fraction(3)])
@pytest.mark.parametrize("tokens", [2, 3])
def test_sums_stay_a_cell_below_zero_whatever_a_cell_measures(unit: Fraction, tokens: int) -> None:
    """3 cells for the largest id, and 8·((n − 1)·7 + rest)/n for the mean: −1 cell at most."""
    forged, _ = numbered(8, [0, 1, 3, 7], -8)
    after = quantised(forged, Fraction(1))
    number, read = units_of(forged, "contextual mapping"), {1: Fraction(1)}

    def negative(rest: Fraction, quantise: Any = None) -> bool:
        w2 = Matrix.of(*number.w2.shape, {(2, m): a - rest for m, a in enumerate([0, 1, 3, 7])})
        b2 = Matrix.of(*number.b2.shape, {(2, 0): rest})
        moved = with_units(forged, "contextual mapping", w2=w2, b2=b2)
        moved = replace(with_parts(moved, "quantise", lambda p: quantise or p), tokens=tokens)
        return sums_are_negative(moved.stage("contextual mapping"), moved, after, read, unit)

    limit = -unit * 4 * tokens / 8 - 7 * (tokens - 1)
    assert negative(limit)
    assert not negative(limit + Fraction(1, 10**9))
    gift = replace(units(forged.width, [{0: 1}], [0], [{}]), b2=number.b2)
    assert not negative(limit, [gift])  # the number is not all that the source holds
    assert not sums_are_negative(forged.stage("values"), forged, after, read, unit)


def test_what_is_lifted_is_measured_in_the_stream() -> None:
    """The paper's form: uᵀz ≥ G·K·M cells, each δ, is lowered by s(uᵀz − t_r), and below 0 by that."""
    honest, after, unit = rejecting()
    K, G = selective_shifts(honest.stage("contextual mapping"), honest, unit) or (0, 0)
    depth = -max(every_id(after, {0: Fraction(1), 1: Fraction(2)}, True))
    parts = [c for i in (*after.cells, *(after.outside or ())) for r in i for c in r]
    far = unit * max(abs(v) for column in parts for v in column) * 3
    lifted, slack = unit * G * K * depth, far * (1 + 2) + far
    band = units_of(honest, "reject")
    strength = -band.w2[0, 0]
    high = lifted - (slack + lifted) / strength  # s(lifted − high) − lifted = slack
    low = band.activation.breaks[0]
    for end, proven in ((high - Fraction(1, 10**9), True), (high, False)):
        shape = PiecewiseLinear.of((low, end), ((-1, low), (0, 0), (1, -end)))
        forged = with_units(honest, "reject", activation=shape)
        assert outside_goes_to_zero(forged, after, unit, 1, honest.largest_key) is proven


def test_outsiders_above_all_ids_are_no_deeper_for_a_negative_shift() -> None:
    """5 − 5 is the key of the only cell: G·K·M = 5 is more than it, but M = −5 is no depth."""
    honest, table = made("compact", (1, 1, 1))
    forged = refitted(shifting(honest, 1, -1, 5, 5), table)
    assert forged is not None
    assert not all_go_to_zero(forged)
    assert verdict(forged, table) is False


def test_outsiders_with_an_id_have_a_number() -> None:
    """A last edge that takes a coordinate back to the first cell, not out of all of them."""
    honest, table = made("four-layer")
    count = units_of(honest, "quantise")
    back = added(count.w2, {(1, count.w1.rows - 1): 4})
    forged = with_units(honest, "quantise", w2=back)
    assert not all_go_to_zero(forged)
    assert verdict(forged, table) is False


def test_rejected_sums_may_come_back() -> None:
    """A stage that sets negative codes to 0 gives outsiders the key 0."""
    honest, table = made("four-layer")
    negative = PiecewiseLinear.of((0,), ((-1, 0), (0, 0)))
    reject = Stage("reject", (units(honest.width, [{1: 1}], [0], [{1: 1}], negative),))
    *before, last = honest.stages
    forged = replace(honest, stages=(*before, reject, last))
    assert not all_go_to_zero(forged)
    assert verdict(forged, table) is False


def test_the_first_column_may_be_rejected_and_have_the_key_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One token in the paper's form, with a band that begins above 0: outsiders become 0 too."""
    monkeypatch.setattr(sequences, "refuse_key_zero", lambda layout: None)
    monkeypatch.setattr(sequences, "global_shift", lambda layout, largest: 64)
    where = grid((1, 1, 4), "paper")
    table = GridTable.of(where, {ids: [[-5]] for ids in where.classes()})  # below all keys
    honest = SEQUENCE_FORMS["paper"](table)
    band = units_of(honest, "reject")
    _, high = band.activation.breaks
    low = Fraction(1, 8)
    shape = PiecewiseLinear.of((low, high), ((-1, low), (0, 0), (1, -high)))
    strong = Matrix.of(*band.w2.shape, {(0, 0): -(10**9)})
    forged = with_units(honest, "reject", activation=shape, w2=strong)
    assert not is_wrong(forged, table)
    assert not all_go_to_zero(forged)
    assert verdict(forged, table) is False


def test_a_number_and_a_mean_are_read_letter_for_letter() -> None:
    """A look-up, and one head of equal scores that copies one row to one other."""
    honest, _ = made("four-layer")
    mapping = honest.stage("contextual mapping")
    number, mean = mapping.parts
    assert isinstance(mean, Attention)
    (head,) = mean.heads
    w = honest.width

    def found(*parts: Any) -> Any:
        return number_and_mean(replace(mapping, parts=parts))

    assert found(number, mean) == (number, 1, 2, 8)
    unbiased = BiasedHead(head.query, head.key, head.value, Matrix.of(1, 1, {}))
    assert found(number, Attention((unbiased,), HARD)) == (number, 1, 2, 8)
    keyed = replace(head, key=Matrix.of(1, w, {(0, 1): 1}))  # equal scores, whatever the keys
    assert found(number, Attention((keyed,), HARD)) == (number, 1, 2, 8)
    others = (
        Attention((head, head), HARD),
        Attention((replace(head, query=Matrix.of(1, w, {(0, 1): 1})),), HARD),
        Attention((replace(unbiased, bias=Matrix.of(1, 1, {(0, 0): 1})),), HARD),
        Attention((replace(head, value=added(head.value, {(0, 0): 1})),), HARD),
        Attention((replace(head, value=Matrix.of(w, w, {})),), HARD),
    )
    for other in others:
        assert found(number, other) is None
    for parts in ((number,), (number, mean, mean), (mean, number), (number, number), (mean, mean)):
        assert found(*parts) is None
    assert found(replace(number, successive=1), mean) is None


def test_an_id_that_no_layer_meets_keeps_its_code_beside_an_outsider() -> None:
    """Three shifts for ids up to 7: with or without the column of id 3, that of id 4 has 4 + 4G."""
    honest, table = made("compact", (1, 2, 4), positional=True)
    forged = refitted(shifting(honest, 3, 512, -(10**6), -(10**6)), table)
    assert forged is not None
    assert not all_go_to_zero(forged)
    assert verdict(forged, table) is False


def wrongly_summed() -> Iterator[tuple[str, SequenceBlueprint, Any]]:
    """Yield forms with sums in which an outsider passes for a column, though its number is far off."""
    honest, table = made("four-layer")
    number, count = units_of(honest, "contextual mapping"), units_of(honest, "quantise")
    last, far = count.w1.rows - 1, 10**6
    back = added(count.w2, {(1, last): 4})  # above the support the id is 0

    wide = widened(honest)
    deep = added(Matrix.of(wide.width, count.w1.rows, back.entries), {(wide.width - 1, last): -far})
    code = added(wide.code, {(0, wide.width - 1): 1})
    yield "a code of two rows", replace(with_units(wide, "quantise", w2=deep), code=code), table

    high = added(
        Matrix.of(wide.width, count.w1.rows, count.w2.entries), {(wide.width - 1, last): 5}
    )
    reads = units_of(wide, "contextual mapping").w1
    both = added(reads, {(m, wide.width - 1): 1 for m in range(4)})
    forged = with_units(wide, "quantise", w2=high)
    yield "a look-up of two rows", with_units(forged, "contextual mapping", w1=both), table

    start = added(honest.embedding.constant, {(2, 0): 46})
    less = Matrix.of(*number.w2.shape, {(2, m): a - 1 for m, a in enumerate([0, 1, 3, 7])})
    forged = with_units(
        honest, "contextual mapping", w2=less, b2=Matrix.of(*number.b2.shape, {(2, 0): -45})
    )
    embedding = replace(honest.embedding, constant=start)
    yield "a number from the start", replace(forged, embedding=embedding), table

    more = Matrix.of(
        *number.w2.shape, {**{(2, m): a + 8 for m, a in enumerate([0, 1, 3, 7])}, (1, 3): 1}
    )
    forged = with_units(
        honest, "contextual mapping", w2=more, b2=Matrix.of(*number.b2.shape, {(2, 0): -8})
    )
    yield "an id that the look-up changes", forged, table

    five = units(
        honest.width,
        [{1: 1}] * 5,
        [0, -1, -2, -3, 4],
        [{2: a + 15} for a in (0, 1, 3, 7, 1)],
    )
    forged = with_parts(honest, "contextual mapping", lambda p: [replace(five, b2=number.b2), p[1]])
    yield "a unit below all ids", forged, table


@pytest.mark.parametrize("what", range(5))
def test_sums_that_only_seem_to_be_negative_are_not_said_to_be(what: int) -> None:
    _, blueprint, table = list(wrongly_summed())[what]
    forged = refitted(blueprint, table)
    assert forged is not None
    assert not all_go_to_zero(forged)
    assert verdict(forged, table) is False


def test_the_mean_of_numbers_is_not_taken_away() -> None:
    """Weight −2: beside an outsider (50), 2 + 100 − 50 is 1 + 51, the code of another column."""
    honest, table = made("four-layer", (1, 2, 3))
    number = units_of(honest, "contextual mapping")
    forged = with_units(
        honest,
        "contextual mapping",
        w2=Matrix.of(*number.w2.shape, {(2, m): a - 50 for m, a in enumerate([0, -51, -100])}),
        b2=Matrix.of(*number.b2.shape, {(2, 0): 50}),
    )
    (head,) = honest.stage("contextual mapping").parts[1].heads  # type: ignore[union-attr]
    mean = Attention((replace(head, value=Matrix.of(*head.value.shape, {(1, 2): -2})),), HARD)
    fitted = refitted(with_parts(forged, "contextual mapping", lambda p: [p[0], mean]), table)
    assert fitted is not None
    assert not all_go_to_zero(fitted)
    assert verdict(fitted, table) is False


def rejecting() -> tuple[SequenceBlueprint, Quantised, Fraction]:
    """Return the paper's form of two coordinates, its quantised columns, and its cell."""
    honest, _ = made("paper", (2, 2, 2))
    unit = cell_unit(honest)
    return honest, quantised(honest, unit), unit


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("largest", ["base", "cells", "outside"])
def test_columns_are_rejected_where_no_row_can_make_up_for_it(largest: str, sign: int) -> None:
    """The band lowers all rows by s(uᵀz − t_r) or s·t_l at least, and has to lower them by more than
    uᵀz and than what the other rows hold: far·Σ|u|, and far for a row itself.
    """
    honest, after, unit = rejecting()
    band = units_of(honest, "reject")
    low, high = band.activation.breaks
    away = [0, -(10**4)]
    more = {
        "base": (*after.base[:-1], away),
        "cells": (*after.cells[:-1], (*after.cells[-1][:-1], (away,))),
        "outside": (*(after.outside or ())[:-1], (*after.cells[-1][:-1], (away,))),
    }
    after = replace(after, **{largest: more[largest]})  # type: ignore[arg-type]
    far = unit * 10**4 * 3
    slack = far * (1 + 2) + far

    def holds(strength: Fraction, first: Fraction, lifted: Fraction) -> bool:
        shape = PiecewiseLinear.of((first, high), ((-1, first), (0, 0), (1, -high)))
        write = Matrix.of(2, 1, {(0, 0): -strength, (1, 0): -strength})
        read = Matrix.of(1, 2, {(0, 0): 1, (0, 1): sign * 2})
        forged = with_units(honest, "reject", w1=read, w2=write, activation=shape)
        code = Matrix.of(1, 2, {p: v / unit for p, v in read.entries.items()})
        forged = replace(forged, code=code)
        return rejects([forged.stage("reject")], forged, after, unit, lifted)

    strength, tiny = Fraction(10**6), Fraction(1, 10**9)
    far_up = 10**9 * slack
    edge = slack / strength
    assert holds(strength, edge + tiny, far_up)
    assert not holds(strength, edge, far_up)
    # s(lifted − high) − lifted = slack, for a band that begins high enough
    at = (slack + strength * high) / (strength - 1)
    assert holds(strength, low, at + tiny)
    assert not holds(strength, low, at)
    assert not holds(Fraction(-5), -Fraction(10**9), high / 2)


def test_a_reject_stage_is_read_letter_for_letter() -> None:
    honest, after, unit = rejecting()
    stage = honest.stage("reject")
    lifted = Fraction(10**12)

    def holds(*parts: Any) -> bool:
        return rejects([replace(stage, parts=parts)], honest, after, unit, lifted)

    band, first, second = stage.parts
    assert isinstance(band, FeedForward)
    assert isinstance(first, FeedForward)
    assert holds(band, first, second)
    halves = [replace(stage, parts=(band,)), replace(stage, parts=(first, second))]
    assert rejects(halves, honest, after, unit, lifted)
    wrong: list[tuple[Any, ...]] = [
        (band, first),
        (band, second, first),
        (first, second, band),
        (band, first, second, second),
        (first,),
    ]
    for part, others in ((band, (first, second)), (first, (second,))):
        units = part
        for field in ("w1", "b1", "w2", "b2"):
            matrix = getattr(units, field)
            new = replace(
                units, **{field: added(matrix, {(matrix.rows - 1, matrix.columns - 1): 1})}
            )
            changed = replace(new, successive=1)
            wrong.append((changed, *others) if part is band else (band, changed, *others))
    flat = PiecewiseLinear.of((), ((0, 0),))
    bent = PiecewiseLinear.of(band.activation.breaks, ((-1, 0), (0, 0), (1, 0)))  # type: ignore[union-attr]
    wrong += [(replace(band, activation=a, successive=1), first, second) for a in (flat, bent)]
    wrong.append((band, replace(first, activation=flat, successive=1), second))
    relus = FeedForward(band.w1, band.b1, band.w2, band.b2)
    wrong.append((relus, first, second))
    assert not any(holds(*parts) for parts in wrong)
    assert not rejects([], honest, after, unit, lifted)


def test_every_way_to_write_to_the_output_is_seen() -> None:
    honest, _ = made("compact")
    w, row = honest.width, honest.width - 1
    assert starts_at_zero(honest)
    head = Head(Matrix.of(1, w, {}), Matrix.of(1, w, {}), Matrix.of(w, w, {(row, 0): 1}))
    layer = units(w, [{0: 1}], [0], [{row: 1}])
    gift = replace(units(w, [{0: 1}], [0], [{0: 1}]), b2=Matrix.of(w, 1, {(row, 0): 1}))
    for stage in ("quantise", "contextual mapping"):
        for part in (Attention((head,), HARD), layer, replace(layer, successive=1), gift):
            forged = with_parts(honest, stage, lambda parts, p=part: [*parts, p])  # type: ignore[misc]
            assert not starts_at_zero(forged)
    for name in ("features", "constant", "positions"):
        matrix = added(getattr(honest.embedding, name), {(row, 0): 1})
        embedding = replace(honest.embedding, **{name: matrix})
        assert not starts_at_zero(replace(honest, embedding=embedding))


def test_what_a_look_up_writes_elsewhere_is_no_number() -> None:
    honest, table = made("four-layer")
    wide = widened(honest)
    number = units_of(wide, "contextual mapping")
    more = added(number.w2, {(wide.width - 1, m): 10**6 for m in range(4)})
    assert verdict(with_units(wide, "contextual mapping", w2=more), table) is True
