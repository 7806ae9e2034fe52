"""From hard to soft: what ReLUs and softmax change, and what they do not."""

from dataclasses import replace
from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import exactformer as ef
from exactformer.core.layers import RELU, Attention, FeedForward, Rule, Selection
from exactformer.errors import ExecutionError, InputError, SizeError
from exactformer.sequences.blueprint import Stage
from exactformer.sequences.constructions.softening import MOST_RELUS, ramps, relu_sum, soften
from exactformer.sequences.proof.leakage import Leakage
from exactformer.sequences.proof.softness import literal_rounding
from exactformer.sequences.run.exact import run_sequence
from exactformer.sequences.run.literal import LiteralSequence
from tests.cases.sequences import softened

FORMS = ("compact", "paper", "four-layer")


def shifted_mean(X):
    return X - X.mean(axis=0) + 0.3


def hard(form, tokens=2, dim=1, cells=4, **options):
    return ef.compile_sequence(
        shifted_mean, tokens=tokens, dim=dim, delta=Fraction(1, cells), form=form, **options
    )


def soft(form, tokens=2, dim=1, cells=4, **options):
    where = {"tokens": tokens, "dim": dim, "delta": Fraction(1, cells), "form": form}
    return softened(shifted_mean, **where, **options)


def parts(blueprint):
    return [(stage.name, part) for stage in blueprint.stages for part in stage.parts]


def functions():
    """Every activation of the three forms, with the stage that it belongs to."""
    found = {}
    for form in FORMS:
        for name, units in parts(hard(form).blueprint):
            if isinstance(units, FeedForward):
                found[units.activation, name == "quantise"] = None
    return list(found)


@pytest.mark.spread(4)
@pytest.mark.parametrize(("function", "steep"), functions())
@given(t=st.fractions(-8, 8, max_denominator=64))
def test_few_relus_are_the_function_beside_its_ramps(function, steep, t):
    spread = ramps(function, Fraction(1, 16), steep)
    units = relu_sum(function, spread)
    assert len(units) <= MOST_RELUS
    if not any(between and between[0] < t < between[1] for between in spread):
        at_end = [b for b, between in zip(function.breaks, spread, strict=True) if between]
        if t not in at_end:  # a jump belongs to the piece on its right, a ramp to both
            assert sum(c * max(0, s * t + o) for s, o, c in units) == function(t)


@pytest.mark.parametrize("form", FORMS)
def test_relus_alone_leave_every_class_as_it_was(form):
    """With the hard maximum put back, the softened layers are run in rationals."""
    model = hard(form)
    blueprint = soften(model.blueprint, model.table, Fraction(100), 5)
    sharp = [
        Attention(part.heads, Selection(Rule.HARD_MAX)) if isinstance(part, Attention) else part
        for _, part in parts(blueprint)
    ]
    sizes = [len(stage.parts) for stage in blueprint.stages]
    stages, start = [], 0
    for stage, size in zip(blueprint.stages, sizes, strict=True):
        stages.append(Stage(stage.name, tuple(sharp[start : start + size])))
        start += size
    blueprint = replace(blueprint, stages=tuple(stages))
    grid = model.table.grid
    for ids, columns in model.table.values.items():
        output = run_sequence(blueprint, [grid.centre(k) for k in ids])
        assert tuple(map(tuple, output)) == columns


@pytest.mark.parametrize("form", FORMS)
def test_all_that_is_left_is_softmax_and_relu(form):
    for _, part in parts(soft(form).blueprint):
        if isinstance(part, Attention):
            assert part.selection.rule is Rule.SOFTMAX
        else:
            units = part
            assert isinstance(units, FeedForward)
            assert units.activation == RELU
            assert (units.successive or 0) <= MOST_RELUS


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    ("form", "tokens", "dim", "cells", "positional"),
    [
        ("compact", 2, 1, 4, False),
        ("compact", 3, 1, 4, False),
        ("compact", 2, 2, 2, False),
        ("compact", 2, 1, 3, True),
        ("paper", 2, 1, 4, False),
        ("paper", 2, 1, 3, False),
        ("paper", 2, 1, 2, True),
        ("four-layer", 2, 1, 4, False),
        ("four-layer", 3, 1, 3, False),
    ],
)
def test_relus_and_the_functions_they_are_agree_within_the_predicted_rounding(
    form, tokens, dim, cells, positional
):
    options = {"positional": positional, "ramp": 6}
    quick = soft(form, tokens, dim, cells, **options)
    literal = soft(form, tokens, dim, cells, executor="literal", **options)
    x = torch.rand(400, tokens, dim, dtype=torch.float64, generator=torch.manual_seed(0))
    # On a ramp a code may be anything, and a look-up's ramp makes four of a rounding error.
    place = x * cells % 1
    plain = ((place > 2.0**-6) & (place < 1 - 2.0**-6)).all(-1).all(-1)
    difference = (quick(x) - literal(x))[plain].abs().max()
    assert difference <= literal_rounding(quick.blueprint)
    limit = hard(form, tokens, dim, cells, positional=positional)
    bound = quick.certificate.softness.stream_error
    assert (quick(x) - limit(x))[plain].abs().max() <= bound
    assert form == "paper" or bound == 0


def leak(form, sharpness, cells=4):
    """Return d₂ between a softened model and its hard limit, beside the ramps."""
    unit = 1 / cells if form == "paper" else 1
    model = soft(form, cells=cells, sharpness=sharpness / unit**2, ramp=40)
    limit = hard(form, cells=cells)
    found = model.measure(limit, samples=1000)
    return found.value, model.certificate.softness


def test_leakage_of_the_papers_form_falls_as_the_exponential_past_its_threshold():
    """d₂·exp(λδ²/2) is a constant; λδ²/2 = (2n + 2) ln D + ln 8 is where that begins."""
    threshold = Leakage.of(hard("paper").blueprint).sharpness_for(0.25)
    constants = []
    for sharpness in (threshold, threshold + 4, threshold + 8, threshold + 16):
        value, softness = leak("paper", sharpness)
        constants.append(value * exp(sharpness / 2))
        assert value <= sqrt(2) * softness.stream_error <= 8 * value
    assert max(constants) / min(constants) < 1.005
    for sharpness in (threshold / 4, threshold / 2):
        assert leak("paper", sharpness)[0] > 0.25
    assert leak("paper", threshold / 2)[1].code_error is None


def test_leakage_of_the_compact_form_does_not_reach_the_output_past_its_threshold():
    threshold = Leakage.of(hard("compact").blueprint).sharpness_for(0.25)
    assert leak("compact", threshold)[0] == 0
    assert leak("compact", threshold / 2)[0] > 0.25


@pytest.mark.parametrize(("tokens", "cells"), [(2, 4), (3, 4), (2, 8), (3, 8)])
def test_the_threshold_is_its_leading_term_and_little_more(tokens, cells):
    leakage = Leakage.of(hard("compact", tokens, 1, cells).blueprint)
    assert 1 <= leakage.sharpness_for(0.25) / leakage.estimate() < 1.1


@pytest.mark.parametrize("form", FORMS)
def test_ramps_take_their_part_of_the_inputs_and_no_more(form):
    for ramp in (3, 5):
        model = soft(form, 2, 2, 2, ramp=ramp)
        assert model.certificate.softness.ramp_mass == pytest.approx(1 - (1 - 2.0**-ramp) ** 4)


def test_the_error_on_ramps_falls_as_the_root_of_their_width():
    errors = {}
    limit = hard("compact")
    for ramp in (3, 7):
        model = soft("compact", ramp=ramp)
        errors[ramp] = model.measure(limit, samples=40_000)
    ratio = errors[3].value / errors[7].value
    spread = sum((e.standard_error / e.value) ** 2 for e in errors.values()) ** 0.5
    # Both coordinates are on a ramp of width 1/8 more often than on one of width 1/128.
    expected = sqrt((1 - (1 - 1 / 8) ** 2) / (1 - (1 - 1 / 128) ** 2))
    assert abs(ratio / expected - 1) <= 3 * spread + 0.1


def test_without_clipping_the_papers_form_puts_out_keys_on_ramps():
    model = soft("paper", ramp=3)
    stages = tuple(stage for stage in model.blueprint.stages if stage.name != "clip")
    bare = LiteralSequence(replace(model.blueprint, stages=stages))
    x = torch.rand(2000, 2, 1, dtype=torch.float64, generator=torch.manual_seed(0))
    largest = bare(x).abs().max()
    assert largest > model.table.grid.cells**3
    assert model(x).abs().max() <= float(model.table.largest) + largest * 2.0**-53


def test_a_table_of_zeros_is_softened_to_zero():
    for form in FORMS:
        model = softened({}, tokens=2, dim=1, delta="1/3", form=form, ramp=3)
        x = np.random.default_rng(0).uniform(size=(200, 2, 1))
        on_grid = model.quantise(x).numpy()[..., 0]
        found = model(x).numpy()[on_grid[:, 0] != on_grid[:, 1]]
        assert np.abs(found).max() <= (1 if form == "paper" else 0)


def test_what_cannot_be_softened_is_refused_with_figures():
    with pytest.raises(SizeError, match=r"20,000.*four-layer"):
        softened({}, tokens=3, dim=1, delta="1/36", form="compact")
    with pytest.raises(SizeError, match="narrower than float64"):
        soft("compact", ramp=60)
    with pytest.raises(SizeError, match="narrower than float64"):
        soft("compact", tolerance=1e-9)
    with pytest.raises(SizeError, match="executor='fused'"):
        soft("paper", cells=8, executor="literal")
    with pytest.raises(SizeError, match="no binary number"):
        soft("paper", 3, 1, 9)
    with pytest.raises(InputError, match="not rational"):
        soft("compact", executor="exact")
    with pytest.raises(ExecutionError, match="not rational"):
        soft("compact").exact([[0.1], [0.2]])
    for wrong in ({"sharpness": 0}, {"sharpness": "hot"}, {"ramp": 1}, {"tolerance": -1.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            soft("compact", **wrong)
    with pytest.raises(InputError, match="at least 1, and finite"):
        soft("compact", tolerance=0.1, p=0.5)
