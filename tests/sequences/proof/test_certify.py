"""The certificate of a sequence map: it holds for what is right, and for nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import pytest
import torch

from exactformer.core.certificate import Kind
from exactformer.core.layers import Attention, BiasedHead, FeedForward, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.core.upper import float_above
from exactformer.errors import CertificationError, InputError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions import keys as sequence_keys
from exactformer.sequences.constructions import shifts as sequences
from exactformer.sequences.constructions.softening import soften
from exactformer.sequences.grid import Grid, GridTable
from exactformer.sequences.proof.certify import (
    SequenceCertificate,
    certify_sequence,
    certify_softened,
    fits,
)
from exactformer.sequences.proof.error import SequenceErrorBound
from exactformer.sequences.proof.layer_rounding import literal_rounding_of
from exactformer.sequences.run.literal import LiteralSequence
from tests.cases.sequences import FORMS, SIZES, grid, random_table


@pytest.mark.spread(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_form_is_certified_by_both_methods(size: tuple[int, int, int], form: str) -> None:
    table = random_table(grid(size, form))
    blueprint = SEQUENCE_FORMS[form](table)
    by_keys = certify_sequence(blueprint, table, exhaustive_work=0)
    assert by_keys.method == "keys"
    assert by_keys.outside
    assert by_keys.classes == table.grid.size
    if form != "four-layer":
        every = certify_sequence(blueprint, table, exhaustive_work=10**6)
        assert every == replace(by_keys, method="exhaustive")
    units = blueprint.stage("values").parts[0]
    layer = units
    biases = [-layer.b1[m, 0] for m in range(layer.w1.rows)]  # type: ignore[union-attr]
    unit = 1 / blueprint.code[0, min(r for _, r, _ in blueprint.code)]
    assert by_keys.smallest_key == min(biases) / unit
    assert by_keys.largest_key == max(biases) / unit == blueprint.largest_key


@pytest.mark.parametrize("form", FORMS)
def test_with_positions_only_the_papers_form_says_nothing_about_outsiders(form: str) -> None:
    table = random_table(grid((1, 2, 3), form, positional=True))
    assert certify_sequence(SEQUENCE_FORMS[form](table), table).outside == (form != "paper")


def test_python_integers_take_over_where_keys_leave_sixty_four_bits() -> None:
    """Values of 10^18 ask for a global shift of about as much in the paper's form."""
    where = grid((1, 2, 4), "paper")
    table = GridTable.of(where, {ids: [[10**18 + k] for k in ids] for ids in where.classes()})
    certificate = certify_sequence(SEQUENCE_FORMS["paper"](table), table, exhaustive_work=0)
    assert certificate.key_bits > 62
    assert certificate.outside
    assert not certificate.float_exact["float64"]


Change = Callable[[SequenceBlueprint], SequenceBlueprint]


def staged(name: str, change: Callable[[list[object]], list[object]]) -> Change:
    def apply(blueprint: SequenceBlueprint) -> SequenceBlueprint:
        stages = [
            Stage(s.name, tuple(change(list(s.parts)))) if s.name == name else s  # type: ignore[arg-type]
            for s in blueprint.stages
        ]
        return replace(blueprint, stages=tuple(stages))

    return apply


def nudged(matrix: Matrix, by: Fraction | int, place: tuple[int, int] | None = None) -> Matrix:
    where = place or next(iter(matrix.entries), (matrix.rows - 1, 0))
    return Matrix.of(*matrix.shape, {**matrix.entries, where: matrix[where] + by})


def units_changed(name: str, index: int, field: str, by: Fraction | int) -> Change:
    def change(parts: list[object]) -> list[object]:
        part = parts[index]
        units = part
        assert isinstance(units, FeedForward)
        new = replace(units, **{field: nudged(getattr(units, field), by)})  # type: ignore[arg-type]
        parts[index] = new
        return parts

    return staged(name, change)


def head_changed(layer: int, field: str, by: Fraction | int) -> Change:
    def change(parts: list[object]) -> list[object]:
        part = parts[layer]
        assert isinstance(part, Attention)
        first = part.heads[0]
        altered = replace(first, **{field: nudged(getattr(first, field), by)})  # type: ignore[arg-type]
        parts[layer] = Attention((altered, *part.heads[1:]), part.selection)
        return parts

    return staged("contextual mapping", change)


def wrong_activation(parts: list[object]) -> list[object]:
    units = parts[-1]  # type: ignore[attr-defined]
    phi = PiecewiseLinear.of((0, 1), ((0, 0), (0, 0), (0, 0)))
    return [*parts[:-1], replace(units, activation=phi, successive=1)]


TAMPERED: dict[str, Change] = {
    "a value": units_changed("values", 0, "w2", Fraction(1, 10**9)),
    "a key": units_changed("values", 0, "b1", 1),
    "a half key": units_changed("values", 0, "b1", Fraction(1, 2)),
    "a cell's edge": units_changed("quantise", 0, "b1", Fraction(1, 10**9)),
    "what a cell collapses to": units_changed("quantise", 0, "w2", Fraction(1, 10**9)),
    "a cell not quite collapsed": units_changed("quantise", 0, "w2", -Fraction(1, 10**9)),
    "a shift's factor": head_changed(1, "value", 1),
    "a shift's bias": head_changed(1, "bias", -1),
    "the global shift": head_changed(-1, "value", 1),
    "a shift left out": staged("contextual mapping", lambda parts: parts[1:]),
    "shifts out of order": staged("contextual mapping", lambda p: [*p[1:-1], p[0], p[-1]]),
    "the readout": lambda b: replace(b, readout=nudged(b.readout, 1)),
    "the embedding": lambda b: replace(
        b, embedding=replace(b.embedding, features=nudged(b.embedding.features, Fraction(1, 999)))
    ),
    "the code": lambda b: replace(b, code=nudged(b.code, 1)),
    "the order of the stages": lambda b: replace(
        b, stages=(b.stages[0], b.stages[-1], *b.stages[1:-1])
    ),
    "a stage twice": lambda b: replace(b, stages=(*b.stages, b.stages[-1])),
    "a value layer twice": staged("values", lambda parts: [*parts, *parts]),
    "a value for every column": units_changed("values", 0, "b2", 1),
    "the largest key": lambda b: replace(b, largest_key=b.largest_key - 1),
}


@pytest.mark.parametrize("form", ["compact", "paper"])
@pytest.mark.parametrize("what", TAMPERED)
def test_altered_weights_are_refused(what: str, form: str) -> None:
    table = random_table(grid((1, 2, 4), form))
    altered = TAMPERED[what](SEQUENCE_FORMS[form](table))
    with pytest.raises(CertificationError):
        certify_sequence(altered, table, exhaustive_work=0)


@pytest.mark.parametrize(
    "change",
    [
        units_changed("quantise", 0, "w2", 1),
        units_changed("quantise", 0, "b1", Fraction(1, 7)),
        units_changed("contextual mapping", 0, "w2", 1),
        units_changed("values", 0, "w2", Fraction(1, 7)),
        units_changed("values", 0, "b1", 1),
        lambda b: replace(b, readout=nudged(b.readout, 1, (0, 0))),
    ],
)
def test_altered_four_layers_are_refused(change: Change) -> None:
    table = random_table(grid((1, 2, 4), "four-layer"))
    with pytest.raises(CertificationError):
        certify_sequence(change(SEQUENCE_FORMS["four-layer"](table)), table, exhaustive_work=0)


def test_outsiders_that_are_not_sent_away_are_not_certified() -> None:
    """Inside nothing changes, so the table is reproduced; the claim about outside is withdrawn."""
    table = random_table(grid((1, 2, 4), "compact"))
    lax = staged("quantise", wrong_activation)(SEQUENCE_FORMS["compact"](table))
    assert not certify_sequence(lax, table).outside


def test_a_reject_layer_that_is_too_weak_is_not_certified() -> None:
    table = random_table(grid((1, 2, 4), "paper"))

    def weakened(strength: Fraction) -> SequenceBlueprint:
        def weaken(parts: list[object]) -> list[object]:
            units = parts[0]  # type: ignore[attr-defined]
            return [
                replace(units, w2=Matrix.of(1, 1, {(0, 0): -strength}), successive=1),
                *parts[1:],
            ]

        return staged("reject", weaken)(SEQUENCE_FORMS["paper"](table))

    # Half is enough for equal columns, whose keys are far below t_l, but not for what lies above t_r.
    assert not certify_sequence(weakened(Fraction(1, 2)), table).outside
    with pytest.raises(CertificationError, match="class"):
        certify_sequence(weakened(Fraction(1, 100)), table)


def test_outsiders_that_are_not_far_enough_are_not_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequences.Shared, "far", property(lambda shared: 1))
    table = random_table(grid((1, 2, 4), "compact"))
    assert not certify_sequence(SEQUENCE_FORMS["compact"](table), table).outside


def test_numbers_of_outsiders_must_make_every_sum_negative() -> None:
    table = random_table(grid((1, 2, 4), "four-layer"))

    def nearer(parts: list[object]) -> list[object]:
        number = parts[0]
        assert isinstance(number, FeedForward)
        far = -number.b2[2, 0] - 1
        write = Matrix.of(*number.w2.shape, {p: v - far for p, v in number.w2.entries.items()})
        return [replace(number, w2=write, b2=nudged(number.b2, far)), *parts[1:]]

    near = staged("contextual mapping", nearer)(SEQUENCE_FORMS["four-layer"](table))
    assert not certify_sequence(near, table).outside


def test_values_within_reach_of_keys_are_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is another's key is found although every single layer is as it should be."""
    where = grid((1, 2, 4), "paper")
    taken = Fraction(sequence_keys.keys((1, 3), 4, 64)[0], 4)
    table = GridTable.of(where, {(0, 1): [[taken], [0]]})
    assert certify_sequence(SEQUENCE_FORMS["paper"](table), table).zero_error
    monkeypatch.setattr(sequences, "global_shift", lambda layout, largest: 64)
    careless = SEQUENCE_FORMS["paper"](table)
    with pytest.raises(CertificationError, match=r"class \(0, 1\): a later value layer"):
        certify_sequence(careless, table, exhaustive_work=0)


def test_codes_must_differ_even_where_values_do_not() -> None:
    where = grid((1, 1, 4), "compact")
    table = GridTable.of(where, {ids: [[1]] for ids in where.classes()})
    flat = head_changed(-1, "value", -17)(SEQUENCE_FORMS["compact"](table))  # z + (16 − 17)z = 0
    with pytest.raises(CertificationError, match="other codes"):
        certify_sequence(flat, table, exhaustive_work=0)


def test_two_units_with_one_key_are_refused() -> None:
    table = random_table(grid((1, 2, 4), "compact"))

    def doubled(parts: list[object]) -> list[object]:
        units = parts[0]  # type: ignore[attr-defined]
        return [replace(units, b1=nudged(units.b1, units.b1[1, 0] - units.b1[0, 0]), successive=1)]

    with pytest.raises(CertificationError, match="two units fire"):
        certify_sequence(staged("values", doubled)(SEQUENCE_FORMS["compact"](table)), table)


def test_averages_that_are_no_integers_are_refused() -> None:
    table = random_table(grid((1, 2, 4), "compact"))

    def uniform(parts: list[object]) -> list[object]:
        last = parts[-1]
        assert isinstance(last, Attention)
        nothing = Matrix.of(1, 2, {})
        head = replace(last.heads[0], query=nothing, value=nudged(last.heads[0].value, 1))
        return [*parts[:-1], Attention((head,), last.selection)]

    mean = staged("contextual mapping", uniform)(SEQUENCE_FORMS["compact"](table))
    with pytest.raises(CertificationError, match="unequal columns"):
        certify_sequence(mean, table, exhaustive_work=0)


def test_a_count_of_cells_that_slopes_is_refused() -> None:
    table = random_table(grid((1, 2, 4), "four-layer"))

    def sloping(parts: list[object]) -> list[object]:
        count = parts[0]
        assert isinstance(count, FeedForward)
        return [replace(count, activation=PiecewiseLinear.of((0,), ((0, 0), (1, 1))))]

    with pytest.raises(CertificationError, match="whole cell"):
        certify_sequence(staged("quantise", sloping)(SEQUENCE_FORMS["four-layer"](table)), table)


def test_another_table_is_not_certified() -> None:
    table = random_table(grid((1, 2, 4), "compact"))
    blueprint = SEQUENCE_FORMS["compact"](table)
    ids = (1, 3)
    other = GridTable.of(
        table.grid,
        {**table.values, ids: [[7], [8]]},
    )
    with pytest.raises(CertificationError, match=r"class \(1, 3\)"):
        certify_sequence(blueprint, other)


def test_a_biased_head_is_needed_in_the_proof_as_well() -> None:
    table = random_table(grid((1, 2, 4), "compact"))

    def unbiased(parts: list[object]) -> list[object]:
        return [
            Attention(
                tuple(BiasedHead(h.query, h.key, h.value, Matrix.of(1, 1, {})) for h in p.heads),
                p.selection,
            )
            for p in parts
            if isinstance(p, Attention)
        ]

    with pytest.raises(CertificationError):
        certify_sequence(
            staged("contextual mapping", unbiased)(SEQUENCE_FORMS["compact"](table)), table
        )


def test_the_certificate_says_what_it_proves() -> None:
    table = random_table(grid((1, 2, 4), "compact"))
    certificate = certify_sequence(SEQUENCE_FORMS["compact"](table), table)
    text = str(certificate)
    assert "all 6 classes" in text
    assert "4 classes with equal columns go to 0" in text
    assert "836 to 2,535" in text
    data = json.loads(json.dumps(certificate.to_dict()))
    assert data["key_bits"] == 12
    assert data["error"] is None
    assert data["float_exact"] == {
        "float64": True,
        "float32": True,
        "bfloat16": False,
        "float16": False,
    }
    shown = replace(certificate, error=SequenceErrorBound(2.0, 0.01, 0.0, 0.0, 0.0, False))
    assert "distance    proven: d_2(f, model) ≤ 0.01001" in str(shown)


def test_a_key_fits_where_n_of_them_do() -> None:
    assert fits(1, 2**53 - 1, 53)
    assert not fits(2, 2**52, 53)


def certified(form: str = "compact", **changes: Any) -> SequenceCertificate:
    """Return the certificate of two tokens on four cells, with some of its fields changed."""
    table = random_table(grid((1, 2, 4), form))
    return replace(certify_sequence(SEQUENCE_FORMS[form](table), table), **changes)


def certified_soft(**changes: Any) -> SequenceCertificate:
    """Return the same of its softmax and ReLUs."""
    table = random_table(grid((1, 2, 4), "compact"))
    limit = SEQUENCE_FORMS["compact"](table)
    soft = soften(limit, table, Fraction(10**4), 4)
    return replace(certify_softened(soft, limit, table), **changes)


SMOOTH = SequenceErrorBound(2.0, 0.5, 0.0, 0.0, 0.0, False)
UNLIKE = {"fused": 2.0**-10, "literal": 2.0**-6, "exact": 2.0**-8}
"""Roundings of which the largest is neither the first nor the last."""


@pytest.mark.parametrize(
    ("own", "asked", "meant"),
    [
        (None, None, "literal"),
        *((None, name, name) for name in UNLIKE),
        *((name, None, name) for name in UNLIKE),
        ("literal", "fused", "fused"),
        ("fused", "exact", "exact"),
    ],
)
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_a_bound_is_about_the_executor_asked_for_then_its_own_then_the_worst(
    own: str | None, asked: str | None, meant: str, p: float
) -> None:
    """Rounding each of 3 · 2 entries by r moves an output by 6^(1/p)·r in the p-norm."""
    error = replace(SMOOTH, p=p)
    certificate = certified(tokens=3, dim=2, rounding=UNLIKE, error=error, executor=own)
    bound = certificate.bound(executor=asked)
    rounding = 6 ** (1 / p) * UNLIKE[meant]
    assert set(bound.parts) == {"smooth", "rounding"}
    assert bound.parts["rounding"] == pytest.approx(rounding, rel=1e-12)
    assert bound.total == pytest.approx(0.5 + rounding, rel=1e-12)
    assert bound.norm == f"d_{p:g}(f, model)"


@pytest.mark.parametrize("own", [None, "fused"])
def test_a_bound_for_an_unknown_executor_is_refused(own: str | None) -> None:
    with pytest.raises(InputError, match="executor='quick'; choose"):
        certified(error=SMOOTH, executor=own).bound(executor="quick")


@pytest.mark.parametrize("executor", [None, "fused", "literal"])
def test_the_bound_of_a_softened_model_counts_no_rounding(executor: str | None) -> None:
    bound = certified_soft(rounding=UNLIKE, error=SMOOTH).bound(executor=executor)
    assert bound.parts == {"smooth": 0.5}
    assert bound.total == pytest.approx(0.5)
    assert bound.norm == "d_2(f, model), in exact arithmetic"


def texts(certificate: SequenceCertificate) -> dict[str, str]:
    assert all(claim.kind is Kind.PROVEN for claim in certificate.claims)
    return {claim.name: claim.text for claim in certificate.claims}


def test_every_claim_of_a_hard_model_in_words() -> None:
    found = texts(certified(error=SMOOTH, rounding=UNLIKE, executor="fused"))
    assert found == {
        "table": "all 6 classes have their values, error zero "
        "(every class through every layer, in exact arithmetic)",
        "rest": "4 classes with equal columns go to 0; whatever lies outside the support goes to 0",
        "keys": "integers from 836 to 2,535, 12 bits; exact in: float64, float32",
        "distance": "d_2(f, model) ≤ 0.5014 (smooth 0.5, rounding 0.001382)",
    }


def test_claims_say_what_is_not_known() -> None:
    found = texts(certified(method="keys", rejected=0, outside=False, largest_key=2**60))
    assert found == {
        "table": "all 6 classes have their values, error zero (by the algebra of the keys)",
        "rest": "outside the support, layers alone may take a token for one at another position",
        "keys": f"integers from 836 to {2**60:,}, 12 bits; exact in: none",
    }


def test_the_claims_of_a_softened_model_are_about_its_hard_limit() -> None:
    hard, soft = texts(certified()), texts(certified_soft(error=SMOOTH))
    for name in ("table", "rest"):
        assert soft[name] == "in the hard limit " + hard[name]
    assert soft["keys"] == hard["keys"]
    assert list(soft) == ["table", "rest", "keys", "softmax", "ramps", "distance"]
    assert soft["distance"].startswith("d_2(f, model), in exact arithmetic ≤ 0.5001")


def of_values(form: str, *values: Any, cells: int = 4) -> tuple[SequenceBlueprint, GridTable]:
    """Return the blueprint and the table of two tokens whose values are zero but in cells 0 and 1."""
    where = grid((1, 2, cells), form)
    table = GridTable.of(where, {ids: [[0], [0]] for ids in where.classes()} | {(0, 1): values})
    return SEQUENCE_FORMS[form](table), table


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "value", [Fraction(1, 3), Fraction(2, 3), Fraction(10**30 + 1), Fraction(1)]
)
def test_a_value_is_rounded_once(value: Fraction, sign: int) -> None:
    """A third is rounded down by 2^(−54)/3, two thirds up; signs change sides."""
    blueprint, table = of_values("compact", [sign * value], [0])
    once = float_above(abs(value - Fraction(float(value))))
    assert (once == 0) == (value == 1)
    certificate = certify_sequence(blueprint, table, exhaustive_work=0)
    assert certificate.plain_floats
    assert certificate.rounding == {"fused": once, "literal": once, "exact": once}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sign", [1, -1])
def test_no_rounding_takes_a_value_beyond_float64_to_a_float(form: str, sign: int) -> None:
    blueprint, table = of_values(form, [sign * 10**400], [0])
    rounding = certify_sequence(blueprint, table, exhaustive_work=0).rounding
    assert rounding == {"fused": inf, "literal": inf, "exact": inf}


def test_layers_round_a_value_that_has_been_rounded() -> None:
    """The paper's form adds values to keys: what layers may add comes on top of a value's rounding."""
    blueprint, table = of_values("paper", [Fraction(1, 3)], [0], cells=3)
    certificate = certify_sequence(blueprint, table, exhaustive_work=0)
    assert not certificate.plain_floats
    once = float_above(Fraction(1, 3 * 2**54))
    assert certificate.rounding["fused"] == certificate.rounding["exact"] == once
    both = Fraction(once) + Fraction(literal_rounding_of(blueprint, table))
    assert both <= Fraction(certificate.rounding["literal"]) <= both * (1 + Fraction(1, 2**50))


def test_layers_in_fifths_with_positions_stay_within_their_roundings() -> None:
    """Eight of their largest key are met; the bound holds for any order, and is 28 times as large."""
    where = Grid(2, 1, 5, positional=True)
    table = random_table(where)
    blueprint = SEQUENCE_FORMS["paper"](table)
    centres = [[[float(v) for v in where.centre(k)] for k in ids] for ids in table.values]
    found = LiteralSequence(blueprint)(torch.tensor(centres, dtype=torch.float64)).tolist()
    off = max(
        abs(Fraction(x) - v)
        for output, columns in zip(found, table.values.values(), strict=True)
        for token, column in zip(output, columns, strict=True)
        for x, v in zip(token, column, strict=True)
    )
    allowed = Fraction(literal_rounding_of(blueprint, table))
    key = Fraction(blueprint.largest_key, 5)
    assert 7 < off / key * 2**53 < 8
    assert off <= allowed <= 28 * off
