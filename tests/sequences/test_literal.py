"""ReLUs of softened sequence models, each evaluated in float64: what cancels, and what is left."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.core.layers import Attention, FeedForward, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.core.upper import float_above
from exactformer.errors import CertificationError, SizeError
from exactformer.sequences.blueprint import SequenceBlueprint, Stage
from exactformer.sequences.constructions import SEQUENCE_FORMS
from exactformer.sequences.constructions.softening import soften
from exactformer.sequences.files import save_sequence
from exactformer.sequences.grid import Grid
from exactformer.sequences.proof.relu_rounding import is_exact, quantiser_rounding
from exactformer.sequences.run.exact import run_sequence
from exactformer.sequences.run.literal import LiteralSequence
from exactformer.sequences.soft_model import prove_softened
from tests.cases.forged_sequences import added, units_of, with_parts, with_units
from tests.cases.sequences import FORMS, random_table
from tests.cases.sequences import softened as soften_map

ROUNDOFF = Fraction(1, 2**53) * (1 + Fraction(1, 2**20))
"""With what products of roundings add."""


def softened(form: str, cells: int = 4, tokens: int = 2, dim: int = 1, **options: Any) -> Any:
    return soften_map(
        lambda X: X - X.mean(axis=0) + 0.25,
        tokens=tokens,
        dim=dim,
        delta=Fraction(1, cells),
        form=form,
        **options,
    )


def with_cancelling_pairs(
    model: Any, stage: str, size: int, offset: Fraction, times: Fraction
) -> SequenceBlueprint:
    """Put copies of the first of every ``size`` ReLUs before and after them, moved: h and −h."""

    def changed(part: Any) -> Any:
        units: FeedForward = part
        w1, b1, w2 = {}, {}, {}
        groups = range(0, units.w1.rows, size)
        order = [
            (m + k, f) for m in groups for k, f in ((0, 1), *((i, 0) for i in range(size)), (0, -1))
        ]
        for new, (row, copy) in enumerate(order):
            w1.update({(new, j): v for j, v in units.w1.by_row.get(row, ())})
            b1[new, 0] = units.b1[row, 0] + (offset if copy else 0)
            scale = copy * times if copy else 1
            w2.update({(i, new): scale * v for i, v in units.w2.by_column.get(row, ())})
        rows, width = len(order), units.w1.columns
        layer = FeedForward(
            Matrix.of(rows, width, w1), Matrix.of(rows, 1, b1), Matrix.of(width, rows, w2), units.b2
        )
        return replace(layer, successive=part.successive and size + 2)

    return with_parts(model.blueprint, stage, lambda parts: [changed(parts[0]), *parts[1:]])


def hardened(blueprint: SequenceBlueprint) -> SequenceBlueprint:
    """Put the hard maximum back, which rationals can be run through."""
    stages = [
        Stage(
            stage.name,
            tuple(
                Attention(p.heads, Selection(Rule.HARD_MAX)) if isinstance(p, Attention) else p
                for p in stage.parts
            ),
        )
        for stage in blueprint.stages
    ]
    return replace(blueprint, stages=tuple(stages))


@pytest.mark.parametrize("form", FORMS)
def test_pairs_that_cancel_in_rationals_but_not_in_floats_are_not_run_literally(
    form: str, tmp_path: Path
) -> None:
    """2^60 + t − 2^60 is t in rationals and nothing in float64."""
    model = softened(form)
    forged = with_cancelling_pairs(
        model, "quantise", 2 if form == "four-layer" else 4, Fraction(2**60), Fraction(1)
    )
    grid, table = model.table.grid, model.table.values
    centres = {ids: [grid.centre(k) for k in ids] for ids in table}
    for ids, columns in table.items():
        assert tuple(map(tuple, run_sequence(hardened(forged), centres[ids]))) == columns
    x = torch.tensor([[[float(v) for v in c] for c in p] for p in centres.values()]).double()
    wanted = torch.tensor([[[float(v) for v in c] for c in p] for p in table.values()]).double()
    assert (LiteralSequence(forged)(x) - wanted).abs().max() > 0.1
    path = tmp_path / "forged.safetensors"
    save_sequence(forged, model.table, path)
    assert (ef.load(path)(x) - wanted).abs().max() <= 1e-9
    with pytest.raises(CertificationError, match="ReLUs of the construction only"):
        ef.load(path, executor="literal")


def test_the_clip_is_not_run_literally_with_other_relus() -> None:
    """Pairs at its own bends keep what it is, and lose every digit of it."""
    model = softened("paper")
    forged = with_cancelling_pairs(model, "clip", 2, Fraction(0), Fraction(2**70))
    prove_softened(forged, model.limit, model.table, "fused")
    with pytest.raises(CertificationError, match="ReLUs of the construction only"):
        prove_softened(forged, model.limit, model.table, "literal")


@pytest.mark.spread(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ramp", [2, 3, 20, 29])
def test_every_model_of_the_construction_is_still_run(form: str, ramp: int, tmp_path: Path) -> None:
    model = softened(form, ramp=ramp, executor="literal")
    assert model.certificate == softened(form, ramp=ramp).certificate
    model.save(tmp_path / "m.safetensors")
    assert ef.load(tmp_path / "m.safetensors", executor="literal").certificate == model.certificate


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    ("form", "cells", "dim"), [("compact", 5, 1), ("compact", 2, 2), ("paper", 4, 1)]
)
@pytest.mark.parametrize("ramp", [6, 45])
def test_one_by_one_binary_cells_are_quantised_without_rounding(
    form: str, cells: int, dim: int, ramp: int
) -> None:
    """Any float beside the ramps, alone or in a batch, ends as its cell's number exactly."""
    model = softened(form, cells, dim=dim, ramp=ramp)
    blueprint = model.blueprint
    assert is_exact(blueprint)
    rng = np.random.default_rng(0)
    tiny = np.exp(-rng.uniform(0, 30, size=(20, 2, dim))) / cells * (1 - 2.0**-5)
    x = np.concatenate([rng.uniform(size=(200, 2, dim)), tiny])
    place = x * cells % 1
    x = x[((place > 2.0**-6) & (place < 1 - 2.0**-5)).all((1, 2)) | (x < 0.9 / cells).all((1, 2))]
    last = f"quantise {len(blueprint.stages[0])}"
    unit = 1 / cells if form == "paper" else 1
    wanted = torch.tensor(np.floor(x * cells) * unit)
    literal = LiteralSequence(blueprint)
    alone: list[dict[str, torch.Tensor]] = [{} for _ in x]
    for sequence, seen in zip(torch.tensor(x), alone, strict=True):
        literal(sequence, seen.__setitem__)
    together: dict[str, torch.Tensor] = {}
    literal(torch.tensor(x), together.__setitem__)
    rows = torch.stack([seen[last] for seen in alone])
    for found in (rows, together[last]):
        assert torch.equal(found[..., :dim], wanted)


def test_units_side_by_side_that_round_a_number_away_are_refused() -> None:
    """Steps at 0 … 4, of height 4 at 0 and 1 else: ten ReLUs, two of them never active."""
    blueprint = softened("four-layer", ramp=38).blueprint
    assert not is_exact(blueprint)
    w = Fraction(1, 2**38)
    grown = sum((4 if s == 0 else 1) * (4 + s + 4 + s + w) for s in range(4)) / w
    moved = 14 * ROUNDOFF * grown
    assert quantiser_rounding(blueprint, Fraction(0), Fraction(1)) == moved
    softened("four-layer", ramp=41, executor="literal")
    assert 8 * moved < Fraction(3, 8) < 16 * moved
    with pytest.raises(SizeError, match=r"and 0\.38 is allowed"):
        softened("four-layer", ramp=42, executor="literal")


def test_cells_that_are_no_binary_numbers_have_wider_ramps() -> None:
    """Two tokens of one number in thirds: rounding takes so much of both sides of every ramp."""
    for ramp in (20, 30):
        plain, literal = (softened("paper", 3, ramp=ramp, executor=e) for e in ("fused", "literal"))
        assert not is_exact(literal.blueprint)
        moved = quantiser_rounding(literal.blueprint, Fraction(0), Fraction(1))
        # Three units of slopes −1, 1, 2^k and −2^k at the edges b, b + 1, b + 1 − w, b + 1.
        k, w = 2**ramp, Fraction(1, 3 * 2**ramp)
        bends = [[Fraction(b, 3), Fraction(b + 1, 3), Fraction(b + 1, 3) - w] for b in range(3)]
        # At 1 itself the last unit's edges are not passed.
        active = [[1 + b0, (1 + b1) * (1 + k) * (b1 < 1), (1 + b2) * k] for b0, b1, b2 in bends]
        assert moved == 3 * 8 * ROUNDOFF * sum(map(sum, active))
        found, before = (m.certificate.softness.ramp_mass for m in (literal, plain))
        assert found == float_above(Fraction(before) + 4 * moved)
        assert replace(literal.certificate.softness, ramp_mass=before) == plain.certificate.softness
    with pytest.raises(SizeError, match="quantiser cancel"):
        softened("paper", 3, ramp=40, executor="literal")


def test_a_tolerance_counts_what_rounding_adds_to_ramps() -> None:
    """Thirds at 2^(−27): what is promised would not be kept by the ReLUs one by one."""
    tolerance = 2e-4
    softened("paper", 3, tolerance=tolerance)
    softened("paper", 4, tolerance=tolerance, executor="literal")
    with pytest.raises(SizeError, match="the output may be off"):
        softened("paper", 3, tolerance=tolerance, executor="literal")
    softened("paper", 3, tolerance=0.02, executor="literal")


@pytest.mark.spread(8)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize(
    "ends", [("-3", "5"), ("-3", "-3"), ("-99", "2"), ("9", "9"), ("-9", "-9")]
)
def test_rounding_is_that_of_all_relus_that_may_be_active(
    form: str, positional: bool, ends: tuple[str, str]
) -> None:
    """Numbers from −3 to 5, at every position: each ReLU by what it may read, some of them thrice."""
    grid = Grid(2, 2, 3, positional, form == "four-layer", (Fraction(-3), Fraction(5)))
    table = random_table(grid)
    blueprint = soften(SEQUENCE_FORMS[form](table), table, Fraction(100), 4)
    first = units_of(blueprint, "quantise")
    thrice = {
        name: Matrix.of(*matrix.shape, {place: 3 * v for place, v in matrix.entries.items()})
        for name, matrix in (("w1", first.w1), ("b1", first.b1))
    }
    blueprint = with_units(blueprint, "quantise", **thrice)
    if positional:  # as no construction has it: the first token far to the left
        positions = added(blueprint.embedding.positions, {(0, 0): -50})
        blueprint = replace(blueprint, embedding=replace(blueprint.embedding, positions=positions))
    features, constant, positions = (
        getattr(blueprint.embedding, name) for name in ("features", "constant", "positions")
    )
    read = {
        row: [
            sum(features[row, j] for j in range(2)) * Fraction(x)
            + constant[row, 0]
            + positions[row, i]
            for x in ends
            for i in range(2)
        ]
        for row in range(blueprint.width)
    }
    found = [Fraction(0)] * blueprint.width
    for part in blueprint.stages[0].parts:
        units: Any = part
        together = units.successive or units.w1.rows
        for (m, row), v in units.w1.entries.items():
            o = units.b1[m, 0]
            if any(v * t + o > 0 for t in read[row]):
                size = abs(o) + max(abs(v * t) for t in read[row])
                for i in range(blueprint.width):
                    found[i] += (together + 4) * ROUNDOFF * abs(units.w2[i, m]) * size
    cell = Fraction(1, 3) if form == "paper" else 1
    moved = quantiser_rounding(blueprint, Fraction(ends[0]), Fraction(ends[1]))
    assert moved == max(found) / cell


def test_one_part_side_by_side_is_enough_to_round() -> None:
    blueprint = softened("compact", 2, dim=2).blueprint
    assert is_exact(blueprint)
    mixed = with_parts(
        blueprint, "quantise", lambda parts: [*parts[:-1], replace(parts[-1], successive=None)]
    )
    assert not is_exact(mixed)


def test_attention_in_a_quantiser_is_not_taken_for_exact() -> None:
    """Proofs refuse it elsewhere; here nothing is said of what it rounds."""
    blueprint = softened("compact", 2).blueprint
    attention = blueprint.stage("contextual mapping").parts[0]
    assert isinstance(attention, Attention)
    assert is_exact(blueprint)
    for changed in (lambda parts: [*parts, attention], lambda parts: [attention, *parts]):
        assert not is_exact(with_parts(blueprint, "quantise", changed))
