"""Sequence blueprints that no construction makes: what certifies is the table, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

import exactformer as ef
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
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.compile import prove_sequence
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions import shifts as sequences
from exactformer.sequences.constructions.softening import soften
from exactformer.sequences.files import save_sequence
from exactformer.sequences.grid import GridTable
from exactformer.sequences.proof.certify import certify_sequence, certify_softened
from exactformer.sequences.proof.leakage import Leakage
from tests.cases.forged_sequences import (
    HALF,
    NOTHING,
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


def test_positions_are_seen_whatever_the_flag_says() -> None:
    """The values of sorted columns are those of the table, the others 0: no equivariant map."""
    placed, known = made("compact", (1, 2, 3), positional=True)
    where = grid((1, 2, 3), "compact")
    table = GridTable(where, {ids: known.values[ids] for ids in where.classes()})
    value = placed.stage("values").parts[0]  # type: ignore[union-attr]
    kept = [m for m, ids in enumerate(known.values) for _ in range(2) if ids in table.values]
    rows = [2 * m + j for m in dict.fromkeys(kept) for j in range(2)]
    look_up = units(
        placed.width,
        [dict(value.w1.by_row[m]) for m in rows],
        [value.b1[m, 0] for m in rows],
        [dict(value.w2.by_column.get(m, ())) for m in rows],
        value.activation,  # type: ignore[arg-type]
    )
    largest = int(max(-b for _, _, b in look_up.b1))
    forged = replace(
        with_parts(placed, "values", lambda _: [replace(look_up, successive=1)]),
        positional=False,
        largest_key=largest,
    )
    assert is_wrong(forged, table)
    for work in (0, 10**6):
        with pytest.raises(CertificationError, match="position"):
            certify_sequence(forged, table, exhaustive_work=work)


def test_columns_are_not_rejected_by_attention() -> None:
    """On one column attention selects that column; on the whole stream it does not."""
    honest, table = made("compact")
    w = honest.width
    zero, whole = Matrix.of(1, w, {}), Matrix.of(w, w, {(r, r): 1 for r in range(w)})
    doubled = Attention((Head(zero, zero, whole),), Selection(Rule.HARD_MAX))
    halving = units(w, [{r: 1} for r in range(w)], [0] * w, [{r: -HALF} for r in range(w)])
    halving = replace(halving, activation=PiecewiseLinear.of((), ((1, 0),)))
    *before, last = honest.stages
    forged = replace(honest, stages=(*before, Stage("reject", (doubled, halving)), last))
    assert is_wrong(forged, table)
    refused(forged, table, "not by attention")


def test_units_in_turn_are_not_read_as_units_side_by_side() -> None:
    """Two swaps 3 ↔ 7 undo each other side by side; one after the other 7 becomes 3."""
    honest, table = made("compact", (1, 2, 8))
    swap = units(honest.width, [{0: 1}, {0: 1}], [-3, -7], [{0: 4}, {0: -4}])
    forged = with_parts(
        honest,
        "contextual mapping",
        lambda parts: [replace(swap, successive=1), replace(swap, successive=1), *parts],
    )
    assert is_wrong(forged, table)
    refused(forged, table, "one after another")
    together = with_parts(honest, "contextual mapping", lambda parts: [swap, swap, *parts])
    assert not is_wrong(together, table)
    assert certify_sequence(together, table, exhaustive_work=0).zero_error


@pytest.mark.parametrize("executor", ["fused", "literal", "exact"])
def test_what_lies_outside_is_zero_in_every_executor(executor: str) -> None:
    """A last unit that writes nothing tells nothing about where the layers send outsiders."""
    honest, table = made("compact")
    idle = replace(units(honest.width, [{0: 1}], [0], [{}], NOTHING), successive=1)
    forged = with_parts(honest, "quantise", lambda parts: [*parts, idle])
    model = prove_sequence(forged, table, executor, outside="zero")
    x = [[[-7.0], [0.9]], [[0.1], [1.0]], [[1e300], [0.3]], [[0.1], [0.9]]]
    values = model(torch.tensor(x, dtype=torch.float64))
    assert not values[:3].any()
    assert values[3].any()


def test_a_wide_unit_may_fire_at_a_value_just_below_the_smallest_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Units that fire from 7/8 of a cell below their key take 836 − 3/4 for 836; plain ones do not."""
    monkeypatch.setattr(sequences, "global_shift", lambda layout, largest: 64)
    where = grid((1, 2, 4), "paper")
    smallest = 836
    value = (smallest - Fraction(3, 4)) / 4
    table = GridTable.of(where, {(2, 3): [[value], [0]], (0, 1): [[1], [2]]})
    honest = SEQUENCE_FORMS["paper"](table)

    def last_first(parts: list[Any], reach: Fraction) -> list[Any]:
        layer = parts[0]
        rows = range(layer.w1.rows - 1, -1, -1)
        fires = PiecewiseLinear.of((-reach, Fraction(1, 8)), ((0, 0), (0, 1), (0, 0)))
        turned = units(
            honest.width,
            [dict(layer.w1.by_row[m]) for m in rows],
            [layer.b1[m, 0] for m in rows],
            [dict(layer.w2.by_column.get(m, ())) for m in rows],
            fires,
        )
        return [replace(turned, successive=1)]

    plain = with_parts(honest, "values", lambda parts: last_first(parts, Fraction(1, 8)))
    assert certify_sequence(plain, table, exhaustive_work=0).smallest_key == smallest
    assert not is_wrong(plain, table)
    for reach in (Fraction(7, 32), Fraction(3, 16)):  # 3/4 of a cell is just enough
        wide = with_parts(honest, "values", lambda parts, r=reach: last_first(parts, r))  # type: ignore[misc]
        assert is_wrong(wide, table)
        refused(wide, table, "a later value layer")


def test_biases_beyond_sixty_four_bits_do_not_wrap_around() -> None:
    """(id − k ± ½)·2^70 has the sign that it has, and a layer of such heads is as good as the other."""
    honest, table = made("compact")
    scale = 2**70

    def steeper(parts: list[Any]) -> list[Any]:
        head, other = parts[1].heads
        heads = tuple(
            BiasedHead(
                Matrix.of(1, honest.width, {p: scale * v for p, v in h.query.entries.items()}),
                h.key,
                h.value,
                Matrix.of(1, 1, {(0, 0): scale * h.bias[0, 0]}),
            )
            for h in (head, other)
        )
        return [parts[0], Attention(heads, parts[1].selection), *parts[2:]]

    forged = with_parts(honest, "contextual mapping", steeper)
    found = certify_sequence(forged, table, exhaustive_work=0)
    assert not is_wrong(forged, table)
    assert not found.plain_floats
    assert not found.outside  # the layers are not those of the theorem, letter for letter


def test_numbers_that_cancel_are_not_called_exact_in_floats() -> None:
    """2^60 times the largest id is added and taken away: in float64 nothing of a column is left."""
    honest, table = made("compact")
    w = honest.width
    none, read = Matrix.of(1, w, {}), Matrix.of(1, w, {(0, 0): 1})

    def largest(weight: int) -> BiasedHead:
        value = Matrix.of(w, w, {(0, 0): weight})
        return BiasedHead(none, read, value, Matrix.of(1, 1, {(0, 0): 1}))

    there_and_back = Attention((largest(2**60), largest(-(2**60))), Selection(Rule.HARD_MAX))
    forged = with_parts(honest, "contextual mapping", lambda parts: [there_and_back, *parts])
    assert certify_sequence(honest, table).plain_floats
    assert not certify_sequence(forged, table).plain_floats
    assert not is_wrong(forged, table)
    for executor in ("fused", "literal"):
        with pytest.raises(CertificationError, match="in float64"):
            prove_sequence(forged, table, executor)


def sums(change: Callable[[FeedForward, Attention], list[Any]]) -> tuple[Any, Any]:
    honest, table = made("four-layer")
    return with_parts(honest, "contextual mapping", lambda parts: change(*parts)), table


def test_a_biased_head_does_not_average() -> None:
    """Scores b·k_j are not equal: a head without query rows has to be without bias as well."""

    def biased(number: FeedForward, mean: Attention) -> list[Any]:
        (head,) = mean.heads
        w = head.query.columns
        key = Matrix.of(1, w, {(0, w - 1): 1})
        skewed = BiasedHead(head.query, key, head.value, Matrix.of(1, 1, {(0, 0): 1}))
        return [number, Attention((skewed,), mean.selection)]

    forged, table = sums(biased)
    assert not certify_sequence(forged, table, exhaustive_work=0).outside
    with pytest.raises(CertificationError, match="neither uniform"):
        Leakage.of(forged)


def test_outsiders_may_not_bring_a_number_of_their_own() -> None:
    """A quantiser that writes to the row of the numbers makes up for the negative one."""
    honest, table = made("four-layer")
    count = honest.stage("quantise").parts[0]
    assert isinstance(count, FeedForward)
    source = 2
    raised = dict(count.w2.entries)
    raised[source, count.w1.rows - 1] = Fraction(
        10**6
    )  # the unit of the last edge: above the support
    forged = with_parts(
        honest,
        "quantise",
        lambda parts: [replace(parts[0], w2=Matrix.of(*count.w2.shape, raised))],
    )
    inside_only = certify_sequence(forged, table, exhaustive_work=0)
    assert inside_only.zero_error
    assert not inside_only.outside
    assert not prove_sequence(forged, table, outside="zero")([[2.0], [0.1]]).any()


def test_a_reject_layer_with_another_unit_is_not_the_theorems() -> None:
    honest, table = made("paper")

    def with_a_bias(parts: list[Any]) -> list[Any]:
        band = parts[0]
        gift = replace(band, b2=Matrix.of(1, 1, {(0, 0): Fraction(10**9)}))
        return [replace(gift, successive=1), *parts[1:]]

    forged = with_parts(honest, "reject", with_a_bias)
    with pytest.raises(CertificationError):
        certify_sequence(forged, table, exhaustive_work=0)


def test_no_name_makes_a_softened_model_sharper() -> None:
    """The weights of the compact form at λ = 1 leak, whatever form they are said to have."""
    honest, table = made("compact")
    for form in ("compact", "paper", "four-layer", "perfect"):
        limit = replace(honest, form=form)
        soft = replace(soften(honest, table, Fraction(1), 4), form=form)
        certificate = certify_softened(soft, limit, table)
        assert certificate.softness is not None
        assert certificate.softness.code_error is None
        assert not certificate.zero_error


@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_names_and_metadata_strengthen_nothing(form: str, tmp_path: Path) -> None:
    honest, table = made(form)
    labels = {"outside": "True", "target": "sort", "form": "paper", "bound": "0"}
    named = replace(honest, form="four-layer", metadata=labels)
    plain, labelled = certify_sequence(honest, table), certify_sequence(named, table)
    assert replace(labelled, form=form, blueprint_digest=plain.blueprint_digest) == plain
    path = tmp_path / "named.safetensors"
    save_sequence(named, table, path)
    x = torch.rand(50, 2, 1, dtype=torch.float64)
    assert torch.equal(ef.load(path)(x), prove_sequence(honest, table)(x))


def test_hidden_units_that_do_not_make_whole_layers_are_refused() -> None:
    honest, table = made("compact")
    for hidden in (0, -1, 5, 1000):
        forged = with_parts(
            honest,
            "values",
            lambda parts, hidden=hidden: [replace(parts[0], successive=hidden)],  # type: ignore[misc]
        )
        refused(forged, table, "layers of")


def test_outputs_that_a_quantiser_writes_to_have_no_span() -> None:
    """On a ramp such a quantiser may leave anything in the rows of the output."""
    honest, table = made("compact")

    def writing(parts: list[Any]) -> list[Any]:
        flat = PiecewiseLinear.of((0, 1), ((0, 0), (0, 1), (0, 0)))
        both = units(honest.width, [{0: 1}] * 2, [0, 0], [{1: 5000}, {1: -5000}], flat)
        return [*parts, both]

    limit = with_parts(honest, "quantise", writing)
    assert certify_sequence(limit, table, exhaustive_work=0).zero_error
    with pytest.raises(CertificationError, match="not 0 before the value layers"):
        certify_softened(soften(limit, table, Fraction(10**4), 4), limit, table)


@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_values_that_cancel_are_not_called_exact_in_floats(form: str) -> None:
    """2^50 in one row and v - 2^50 in another add up to v, but not in float64."""
    honest, table = made(form)
    wide = widened(honest)
    other, value, large = wide.width - 1, wide.width - 2, 2**50
    look_up = units_of(wide, "values")
    both = {
        (row, m): sign * large
        for m in range(look_up.w1.rows)
        for row, sign in ((other, 1), (value, -1))
    }
    forged = replace(
        with_units(wide, "values", w2=added(look_up.w2, both)),
        readout=added(wide.readout, {(0, other): 1}),
    )
    assert not is_wrong(forged, table)
    assert certify_sequence(wide, table).plain_floats
    assert not certify_sequence(forged, table).plain_floats
    with pytest.raises(CertificationError, match="in float64"):
        prove_sequence(forged, table, "literal")


def test_a_scaled_output_is_not_called_exact_in_floats() -> None:
    honest, table = made("compact")
    look_up = units_of(honest, "values")
    third = Matrix.of(*look_up.w2.shape, {p: v / 3 for p, v in look_up.w2.entries.items()})
    forged = replace(
        with_units(honest, "values", w2=third), readout=added(honest.readout, {(0, 1): 2})
    )
    assert not is_wrong(forged, table)
    assert not certify_sequence(forged, table).plain_floats


def test_outputs_that_do_not_start_at_zero_are_not_called_exact_in_floats() -> None:
    honest, table = made("four-layer")
    value, large = honest.width - 1, 2**50
    look_up = units_of(honest, "values")
    less = added(look_up.w2, {(value, m): -large for m in range(look_up.w1.rows)})
    start = added(honest.embedding.constant, {(value, 0): large})
    forged = replace(
        with_units(honest, "values", w2=less),
        embedding=replace(honest.embedding, constant=start),
    )
    assert not is_wrong(forged, table)
    found = certify_sequence(forged, table)
    assert not found.plain_floats
    assert not found.outside


@pytest.mark.parametrize("stage", ["values", "contextual mapping"])
@pytest.mark.parametrize("ends", [(-HALF, Fraction(1, 10**400)), (Fraction(1, 10**30) - 1, HALF)])
def test_units_whose_ends_floats_cannot_hold_are_not_called_exact(stage: str, ends: Any) -> None:
    """A unit that fires up to 10^-400 above its key never fires in float64; one that begins 10^-30
    after the key before fires there as well.
    """
    honest, table = made("four-layer")
    fires = PiecewiseLinear.of(ends, ((0, 0), (0, 1), (0, 0)))
    forged = with_units(honest, stage, activation=fires)
    assert not is_wrong(forged, table)
    assert certify_sequence(honest, table).plain_floats
    assert not certify_sequence(forged, table).plain_floats
    with pytest.raises(CertificationError, match="in float64"):
        prove_sequence(forged, table, "literal")


@pytest.mark.parametrize(("scale", "plain"), [(3, False), (Fraction(1, 3), False), (4, True)])
def test_cells_that_are_no_powers_of_two_are_not_called_exact(scale: Any, plain: bool) -> None:
    """The compact form with every number of its stream multiplied: keys of 12 bits need 14."""
    assert certify_sequence(*scaled(scale)).plain_floats is plain


@pytest.mark.parametrize("power", [401, -401, 2000])
def test_cells_whose_scores_floats_cannot_hold_are_not_called_exact(power: int) -> None:
    forged, table = scaled(Fraction(2) ** power)
    assert not is_wrong(forged, table)
    assert not certify_sequence(forged, table).plain_floats
    assert certify_sequence(*scaled(Fraction(2) ** (400 if power > 0 else -400))).plain_floats


def scaled(scale: Fraction) -> tuple[SequenceBlueprint, GridTable]:
    """Return the compact form with a cell of another size in the stream."""
    honest, table = made("compact")

    def times(matrix: Matrix, factor: Fraction | int = scale) -> Matrix:
        return Matrix.of(*matrix.shape, {p: v * factor for p, v in matrix.entries.items()})

    def stretched(activation: PiecewiseLinear, into: int = 1) -> PiecewiseLinear:
        """φ(t/s)·s, or φ(t/s) where the result is no number of the stream."""
        return PiecewiseLinear.of(
            [b * scale for b in activation.breaks],
            [(a, b * scale) if into else (a / scale, b) for a, b in activation.pieces],
        )

    def part(old: Any, name: str) -> Any:
        if isinstance(old, Attention):
            heads = (replace(head, bias=times(head.bias)) for head in old.heads)  # type: ignore[attr-defined]
            return replace(old, heads=tuple(heads))
        shape = stretched(old.activation, name != "values")
        return replace(old, b1=times(old.b1), activation=shape)

    embedding = honest.embedding
    return (
        replace(
            honest,
            embedding=replace(
                embedding, features=times(embedding.features), constant=times(embedding.constant)
            ),
            stages=tuple(
                Stage(s.name, tuple(part(p, s.name) for p in s.parts)) for s in honest.stages
            ),
            code=times(honest.code, 1 / Fraction(scale)),
        ),
        table,
    )


def test_negative_keys_are_as_long_as_they_are() -> None:
    """With a global shift of -2^60 the largest key is 0, and no float format holds the others."""
    where = grid((1, 1, 4), "compact")
    table = random_table(where)
    honest = SEQUENCE_FORMS["compact"](table)
    shift = -(2**60)

    def downwards(parts: list[Any]) -> list[Any]:
        *selective, last = parts
        (head,) = last.heads
        value = Matrix.of(*head.value.shape, {(0, 0): shift})
        return [*selective, Attention((replace(head, value=value),), last.selection)]

    keys = Matrix.of(4, 1, {(k, 0): -k * (1 + shift) for k in range(4)})
    forged = with_units(with_parts(honest, "contextual mapping", downwards), "values", b1=keys)
    forged = replace(forged, largest_key=0)
    found = certify_sequence(forged, table)
    assert not is_wrong(forged, table)
    assert (found.smallest_key, found.largest_key) == (3 * (1 + shift), 0)
    assert found.key_bits == 62
    assert not any(found.float_exact.values())
    assert not found.plain_floats
