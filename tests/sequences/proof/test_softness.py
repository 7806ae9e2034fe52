"""Softened blueprints are proven against their limit: codes stay near, tampering is found."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
import torch

import exactformer as ef
from exactformer.core.layers import Attention, PiecewiseLinear, Rule, Selection
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError, RoundingError
from exactformer.sequences.blueprint import Stage
from exactformer.sequences.constructions import softening as softening
from exactformer.sequences.constructions.softening import cell, soften
from exactformer.sequences.proof.certify import certify_softened
from exactformer.sequences.proof.leakage import Leakage
from exactformer.sequences.proof.softness import check_softened
from tests.adversary.sequence_drafts import Draft
from tests.adversary.sequence_mutations.tiny import scale_cells
from tests.cases.sequences import softened


def compiled(form, tokens=2, dim=1, cells=4, positional=False):
    return ef.compile_sequence(
        lambda X: X,
        tokens=tokens,
        dim=dim,
        delta=Fraction(1, cells),
        form=form,
        positional=positional,
    )


@pytest.mark.spread(6)
@pytest.mark.parametrize("extra", [0, 3, 10])
@pytest.mark.parametrize(
    ("form", "tokens", "dim", "cells", "positional"),
    [
        ("compact", 2, 1, 4, False),
        ("compact", 3, 1, 4, False),
        ("compact", 2, 2, 2, False),
        ("compact", 2, 1, 3, True),
        ("paper", 2, 1, 4, False),
        ("paper", 3, 1, 3, False),
    ],
)
def test_codes_of_every_class_are_off_by_no_more_than_the_recursion_says(
    form, tokens, dim, cells, positional, extra
):
    model = compiled(form, tokens, dim, cells, positional)
    unit = cell(model.blueprint)
    threshold = Leakage.of(model.blueprint).sharpness_for(0.25)
    sharpness = Fraction(threshold + extra) / unit**2
    soft = softened(
        {},
        tokens=tokens,
        dim=dim,
        delta=Fraction(1, cells),
        form=form,
        positional=positional,
        sharpness=sharpness,
    )
    grid = model.table.grid
    every = (
        grid.classes() if positional else combinations_with_replacement(range(grid.points), tokens)
    )
    inputs = torch.tensor([[[float(v) for v in grid.centre(k)] for k in ids] for ids in every])
    inputs = inputs.to(torch.float64)
    streams = {}
    soft.literal(inputs, lambda name, stream: streams.update({name.rstrip(" 0123456789"): stream}))
    codes = (streams["contextual mapping"] @ soft.literal.code.T).squeeze(-1)
    off = float((codes - soft.codes(inputs)).abs().max())
    bound = soft.certificate.softness.code_error
    assert off <= bound
    assert bound <= 20 * off
    assert soft.certificate.softness.selects


def changed(blueprint, place, change):
    """Return a blueprint with one part replaced."""
    stages = []
    for stage in blueprint.stages:
        parts = list(stage.parts)
        if stage.name == place[0]:
            parts[place[1]] = change(parts[place[1]])
        stages.append(Stage(stage.name, tuple(parts)))
    return replace(blueprint, stages=tuple(stages))


def nudge(name, row, column, amount=Fraction(1, 1000)):
    """Return a change of one weight."""

    def change(part):
        matrix = getattr(part, name)
        entries = {**matrix.entries, (row, column): matrix[row, column] + amount}
        return replace(part, **{name: Matrix.of(matrix.rows, matrix.columns, entries)})

    return change


@pytest.mark.spread(7)
@pytest.mark.parametrize("form", ["compact", "paper", "four-layer"])
@pytest.mark.parametrize(
    ("stage", "name", "row", "column"),
    [
        ("quantise", "w1", 0, 0),
        ("quantise", "b1", 1, 0),
        ("quantise", "w2", 0, 2),
        ("quantise", "b2", 0, 0),
        ("values", "w1", 5, 0),
        ("values", "b1", 6, 0),
        ("values", "w2", -1, 4),
    ],
)
def test_no_weight_of_a_relu_can_be_changed(form, stage, name, row, column):
    model = compiled(form)
    soft = soften(model.blueprint, model.table, Fraction(10**4), 4)
    check_softened(soft, model.blueprint, model.table)
    row = row if row >= 0 else model.blueprint.width - 1
    wrong = changed(soft, (stage, 0), nudge(name, row, column))
    with pytest.raises(CertificationError):
        check_softened(wrong, model.blueprint, model.table)


def test_clipping_may_not_touch_the_values_of_the_table():
    model = compiled("paper")
    soft = soften(model.blueprint, model.table, Fraction(10**4), 4)
    wrong = changed(soft, ("clip", 0), nudge("b1", 0, 0, Fraction(1, 10)))
    with pytest.raises(CertificationError, match="clip"):
        check_softened(wrong, model.blueprint, model.table)


def test_attention_keeps_its_heads_and_one_temperature():
    model = compiled("compact")
    soft = soften(model.blueprint, model.table, Fraction(100), 4)
    place = ("contextual mapping", 1)

    def warm(part):
        return Attention(part.heads, Selection(Rule.SOFTMAX, Fraction(1, 50)))

    def still_hard(part):
        return Attention(part.heads, Selection(Rule.HARD_MAX))

    def one_head(part):
        return Attention(part.heads[:1], part.selection)

    for change in (warm, still_hard, one_head):
        with pytest.raises(CertificationError):
            check_softened(changed(soft, place, change), model.blueprint, model.table)


def test_a_softened_blueprint_is_compared_with_its_own_limit():
    model, other = compiled("compact"), compiled("compact", cells=3)
    soft = soften(model.blueprint, model.table, Fraction(100), 4)
    with pytest.raises(CertificationError, match="differ in"):
        check_softened(soft, other.blueprint, other.table)


@pytest.mark.parametrize("form", ["compact", "four-layer"])
def test_neighbouring_look_ups_may_not_add_up_to_more_than_one(form, monkeypatch):
    """Ramps outside their jumps would let a code between two keys have both values."""

    def outside(function, width, steep):
        if steep:
            return centred(function, width, steep)
        return tuple((b - width, b) if b < 0 else (b, b + width) for b in function.breaks)

    centred = softening.ramps
    monkeypatch.setattr(softening, "ramps", outside)
    model = compiled(form)
    soft = soften(model.blueprint, model.table, Fraction(100), 4)
    with pytest.raises(CertificationError, match="overlap"):
        check_softened(soft, model.blueprint, model.table)


@pytest.mark.parametrize("form", ["compact", "paper", "four-layer"])
@pytest.mark.parametrize("stage", ["quantise", "contextual mapping", "reject", "values"])
def test_relus_that_write_nothing_are_no_limit_that_writes(form, stage):
    """A softened model without the weights of a whole layer is not the limit off its ramps."""
    model = compiled(form)
    soft = soften(model.blueprint, model.table, Fraction(10**4), 4)
    names = [s.name for s in soft.stages]
    if stage not in names or isinstance(soft.stage(stage).parts[0], Attention):
        pytest.skip("this form has no such feed-forward layers")

    def emptied(part):
        return replace(part, w2=Matrix.of(part.w2.rows, part.w2.columns, {}))

    wrong = changed(soft, (stage, 0), emptied)
    if stage == "quantise" and form != "four-layer":  # cells are not collapsed: all is ramp
        assert check_softened(wrong, model.blueprint, model.table).ramp_mass == 1
        return
    with pytest.raises(CertificationError):
        check_softened(wrong, model.blueprint, model.table)


def test_ramps_that_overlap_take_no_more_than_every_input():
    """A hump over the two cells above its own for every unit: 2 + 2 + 1 cells of four, which are
    three different ones: more than all of a coordinate, counted one by one.
    """
    model = compiled("compact")
    soft = soften(model.blueprint, model.table, Fraction(10**4), 4)

    def humped(part):
        """Add relu(t - 1) - 2 relu(t - 2) + relu(t - 3) to what stands for each unit."""
        units, h, more = part, part.successive, ((1, 1), (2, -2), (3, 1))
        m, w = units.w1.rows // h, units.w1.columns
        first, bias, second = {}, {}, {}
        for s in range(m):
            for k in range(h):
                old, new = s * h + k, s * (h + 3) + k
                first |= {(new, j): v for j, v in units.w1.by_row.get(old, [])}
                bias[new, 0] = units.b1[old, 0]
                second |= {(i, new): v for i, v in units.w2.by_column.get(old, [])}
            for k, (place, weight) in enumerate(more):
                new = s * (h + 3) + h + k
                first[new, 0], bias[new, 0], second[0, new] = 1, -s - place, weight
        size = m * (h + 3)
        layer = replace(
            units,
            w1=Matrix.of(size, w, first),
            b1=Matrix.of(size, 1, bias),
            w2=Matrix.of(w, size, second),
        )
        return replace(layer, successive=h + 3)

    found = check_softened(changed(soft, ("quantise", 0), humped), model.blueprint, model.table)
    plain = check_softened(soft, model.blueprint, model.table)
    assert plain.ramp_mass == 1 - (15 / 16) ** 2
    assert found.ramp_mass == 1 >= 1 - (1 / 4) ** 2 > 1 - (1 - 5 / 4 - 1 / 16) ** 2


def test_a_constant_among_the_relus_of_a_unit_is_part_of_its_function():
    """1 − |…| built from both sides of 0 needs a constant, which is a ReLU of slope 0."""
    one = Fraction(1)
    sides = [(s, Fraction(o), Fraction(c)) for s in (one, -one) for o, c in ((0, 1), (-1, -1))]
    dip = PiecewiseLinear.of_relus([*sides, (Fraction(0), one, -one)])
    for t in (-2, -1, Fraction(-1, 2), 0, Fraction(1, 3), 1, 2):
        relus = sum(c * max(Fraction(0), s * t + o) for s, o, c in sides) - 1
        assert dip(Fraction(t)) == relus
    assert PiecewiseLinear.of_relus([(Fraction(0), one, one)])(Fraction(7)) == 1


def test_nothing_is_reproduced_where_ramps_take_every_input():
    model = compiled("compact")
    soft = soften(model.blueprint, model.table, Fraction(10**4), 4)
    certificate = certify_softened(soft, model.blueprint, model.table)
    assert certificate.zero_error
    covered = replace(certificate.softness, ramp_mass=1.0)
    assert not replace(certificate, softness=covered).zero_error


@pytest.mark.parametrize("power", [-1100, -201, 201, 1023, 1100])
def test_a_sharpness_whose_scores_may_overflow_or_underflow_is_refused(power):
    model = compiled("compact", cells=2)
    with pytest.raises(CertificationError, match=r"the sharpness is not between 2.-200 and 2.200"):
        model.softened(sharpness=Fraction(2) ** power)
    for good in (-200, 200):
        soft = model.softened(sharpness=Fraction(2) ** good)
        assert soft([[0.75], [0.25]]).isfinite().all()
        assert soft.certificate.softness.sharpness == 2.0**good


@pytest.mark.parametrize(
    ("power", "good"), [(-201, False), (-200, True), (200, True), (201, False)]
)
def test_a_cell_whose_scores_may_overflow_or_underflow_is_refused(power, good):
    model = compiled("compact", cells=2)
    draft = Draft(random.Random(0), model.blueprint, model.table)
    scale_cells(draft, Fraction(2) ** power)
    assert cell(draft.blueprint) == Fraction(2) ** power
    soft = soften(draft.blueprint, draft.table, Fraction(2) ** 200, 4)
    if good:
        assert check_softened(soft, draft.blueprint, draft.table).sharpness == 2.0**200
    else:
        with pytest.raises(CertificationError, match=r"a cell is not between 2.-200 and 2.200"):
            check_softened(soft, draft.blueprint, draft.table)


@pytest.mark.parametrize(("power", "good"), [(-1022, True), (-1030, False), (-1100, False)])
def test_softened_layers_whose_weights_may_be_taken_for_zero_are_refused(power, good):
    """The limit has no layers in float64, and is certified all the same."""
    value = Fraction(2) ** power
    limit = ef.compile_sequence({(0,): [[value]]}, tokens=1, dim=1, delta=Fraction(1, 2))
    soft = soften(limit.blueprint, limit.table, Fraction(1000), 4)
    if good:
        check_softened(soft, limit.blueprint, limit.table)
    else:
        with pytest.raises(RoundingError, match="is not a normal number in float64"):
            check_softened(soft, limit.blueprint, limit.table)
