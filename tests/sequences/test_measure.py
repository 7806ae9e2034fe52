"""d_p of sequence models: closed forms, bounds, and what a tolerance promises."""

import json
from dataclasses import replace
from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest

import exactformer as ef
from exactformer.core.certificate import Kind
from exactformer.errors import CertificationError, InputError, SizeError, WeightMismatchError
from exactformer.sequences.check import certify_sequence_model
from exactformer.sequences.files import save_sequence
from exactformer.sequences.proof.error import bound_sequence_error, kept_mass

SAMPLES = 4000


def centred(X):
    return X - X.mean(axis=0)


def identity(X):
    return X


def ordered(X):
    return np.sort(X, axis=0)


def attention(X):
    scores = np.exp(4 * X @ X.T)
    return (scores / scores.sum(axis=1, keepdims=True)) @ X


def within(error, expected, deviations=3):
    return abs(error.value - expected) <= deviations * error.standard_error


@pytest.mark.parametrize(("dim", "cells"), [(1, 4), (1, 16), (2, 4)])
def test_mean_subtraction_of_two_tokens_is_off_by_delta_root_of_d_over_12(dim, cells):
    model = ef.compile_sequence(
        centred, tokens=2, dim=dim, delta=Fraction(1, cells), form="four-layer"
    )
    error = model.measure(centred, samples=SAMPLES)
    assert within(error, sqrt(dim / 12) / cells)


@pytest.mark.parametrize(("tokens", "cells"), [(2, 8), (3, 4)])
def test_sorting_with_positions_is_off_as_rounding_each_entry_is(tokens, cells):
    model = ef.compile_sequence(
        ordered, tokens=tokens, dim=1, delta=Fraction(1, cells), positional=True
    )
    first = model.measure(ordered, p=1, samples=SAMPLES)
    second = model.measure(ordered, p=2, samples=SAMPLES)
    assert within(first, tokens / (4 * cells))
    assert within(second, sqrt(tokens / 12) / cells)


@pytest.mark.parametrize(("tokens", "dim", "cells"), [(2, 1, 8), (3, 1, 8), (2, 2, 3)])
def test_identity_without_equal_columns_is_off_by_its_closed_form(tokens, dim, cells):
    model = ef.compile_sequence(
        identity, tokens=tokens, dim=dim, delta=Fraction(1, cells), form="compact"
    )
    error = model.measure(identity, samples=SAMPLES)
    kept, entries = kept_mass(model.table.grid), dim * tokens
    assert kept == pytest.approx(np.prod([1 - i / cells**dim for i in range(tokens)]))
    smooth = kept * entries / (12 * cells**2)
    assert within(error, sqrt(smooth + (1 - kept) * entries / 3))
    assert within(error.parts["smooth"], sqrt(smooth))
    assert sum(part.value**2 for part in error.parts.values()) == pytest.approx(error.value**2)


@pytest.mark.spread(14)
@pytest.mark.parametrize(
    ("form", "positional", "f", "modulus", "p", "factor"),
    [
        ("compact", False, identity, 1, 2, 1.3),
        ("compact", False, identity, 1, 1, 1.3),
        ("paper", False, identity, 1, 2, 1.3),
        ("four-layer", False, identity, 1, 2, 1.1),
        ("four-layer", False, centred, 1, 2, 1.6),
        ("compact", False, centred, 1, 2, 1.6),
        ("compact", True, ordered, 1, 2, 1.1),
        ("compact", True, ordered, 1, 1, 1.1),
        ("four-layer", True, ordered, lambda h: h, 2, 2.0),
    ],
)
@pytest.mark.parametrize(("tokens", "cells"), [(2, 4), (2, 8), (3, 4)])
@pytest.mark.parametrize("realisation", ["hard", "softmax-relu"])
def test_bounds_hold_and_are_within_a_stated_factor(
    form, positional, f, modulus, p, factor, tokens, cells, realisation
):
    model = ef.compile_sequence(
        f,
        tokens=tokens,
        dim=1,
        delta=Fraction(1, cells),
        form=form,
        positional=positional,
    ).bounded(modulus, p=p, target=f)
    if realisation != "hard":
        model = model.softened(1e-3, p=p)
    error = model.measure(f, p=p, samples=1000)
    bound = model.certificate.bound()
    assert bound.kind is Kind.PROVEN
    assert bound >= error.value - 3 * error.standard_error
    assert bound <= factor * (error.value + 3 * error.standard_error)


@pytest.mark.spread(4)
@pytest.mark.parametrize("form", ["compact", "paper", "four-layer"])
@pytest.mark.parametrize(("p", "tolerance"), [(1, 0.02), (2, 0.2), (2, 0.02), (2, 1e-4)])
def test_a_tolerance_asked_for_is_met(form, p, tolerance):
    options = {"tokens": 2, "dim": 1, "delta": Fraction(1, 4), "form": form}
    hard = ef.compile_sequence(identity, **options)
    soft = hard.softened(tolerance, p=p)
    error = soft.measure(hard, p=p, samples=20_000)
    table = soft.measure(p=p, samples=20_000)
    assert (table.value, table.parts) == (error.value, error.parts)
    assert error.value - 3 * error.standard_error <= tolerance
    bound = bound_sequence_error(soft.table, 0, p, 0, softness=soft.certificate.softness)
    assert bound.smooth == bound.equal_columns == 0
    assert 0.1 * tolerance <= bound.total <= tolerance


def test_below_the_threshold_the_bound_still_holds():
    for form in ("compact", "paper"):
        model = ef.compile_sequence(identity, tokens=2, dim=1, delta="1/4", form=form)
        model = model.softened(sharpness=6 if form == "compact" else 100, ramp=2).bounded(1)
        assert not model.certificate.zero_error
        assert "no bound on the codes" in str(model.certificate)
        error = model.measure(identity, samples=2000)
        assert error.value > 0.2
        assert error.value - 3 * error.standard_error <= model.certificate.bound()
        assert json.loads(json.dumps(model.certificate.to_dict(), allow_nan=False))


def test_an_estimated_modulus_is_labelled():
    model = ef.compile_sequence(centred, tokens=2, dim=1, delta="1/8")
    model = model.bounded("estimate", target=centred)
    found = model.certificate.bound()
    assert found.kind is model.certificate.kind is Kind.ESTIMATED
    assert "no bound" in str(model.certificate)
    assert found == pytest.approx(sqrt(2 / 12) / 8, rel=0.01)  # a projection: L = 1


def test_a_table_alone_bounds_its_map_by_the_modulus():
    grid = ef.compile_sequence(identity, tokens=3, dim=1, delta="1/4", form="compact").table
    bound = bound_sequence_error(grid, 1)
    assert bound.equal_columns >= sqrt((1 - kept_mass(grid.grid)) * 3 / 3)
    known = bound_sequence_error(grid, 1, largest=sqrt(3))
    assert known.equal_columns == pytest.approx(sqrt((1 - kept_mass(grid.grid)) * 3))
    corner = bound_sequence_error(grid, 1, sample="corner")
    assert corner.smooth == pytest.approx(2 * bound.smooth)


def test_four_layers_err_in_proportion_to_delta_with_far_fewer_layers():
    errors = {}
    for cells in (4, 8, 16):
        model = ef.compile_sequence(
            attention, tokens=3, dim=1, delta=Fraction(1, cells), form="four-layer"
        )
        errors[cells] = model.measure(attention, samples=2000).value
    slope = log(errors[16] / errors[4]) / log(4)
    assert abs(slope + 1) <= 0.1
    from exactformer.sequences.sizes import predict_size

    assert predict_size(model.table.grid, "paper").depth >= 100 * model.blueprint.counts().depth


@pytest.mark.parametrize("form", ["compact", "paper", "four-layer"])
def test_softened_models_are_saved_and_proven_anew(form, tmp_path):
    path = tmp_path / "soft.safetensors"
    model = ef.compile_sequence(
        centred,
        tokens=2,
        dim=1,
        delta="1/4",
        form=form,
        support=(-1, 2),
    ).softened(ramp=4)
    model.save(path)
    loaded = ef.load(path)
    assert loaded.certificate == model.certificate
    assert loaded.blueprint == model.blueprint
    x = np.random.default_rng(0).uniform(-1, 2, size=(50, 2, 1))
    assert (loaded(x) == model(x)).all()
    assert loaded.measure(model, samples=100).value == 0
    with pytest.raises(InputError, match="not rational"):
        ef.load(path, executor="exact")


def test_no_name_in_a_file_makes_a_softened_model_another(tmp_path):
    model = ef.compile_sequence(centred, tokens=2, dim=1, delta="1/4", form="compact")
    model = model.softened(ramp=4)
    labels = {"sharpness": "1000000", "ramp": "30", "selects": "True"}
    path = tmp_path / "labelled.safetensors"
    save_sequence(replace(model.blueprint, metadata=labels), model.table, path)
    labelled = ef.load(path)
    assert labelled.certificate.softness == model.certificate.softness
    x = np.random.default_rng(0).uniform(0, 1, size=(500, 2, 1))
    assert (labelled(x) == model(x)).all()


def test_what_cannot_be_measured_or_bounded_is_refused():
    model = ef.compile_sequence(identity, tokens=2, dim=1, delta="1/2")
    with pytest.raises(InputError, match="at least 2"):
        model.measure(identity, samples=1)
    with pytest.raises(InputError, match="at least 1"):
        model.measure(identity, p=0.5)
    for modulus, message in ((-1, "0 or more"), ("steep", "estimate"), (lambda h: np.inf, "inf")):
        with pytest.raises(InputError, match=message):
            model.bounded(modulus)
    with pytest.raises(InputError, match="needs target="):
        model.bounded("estimate")


@pytest.mark.parametrize("soft", [False, True])
def test_without_a_modulus_nothing_is_known_between_the_points_of_the_grid(soft):
    model = ef.compile_sequence(identity, tokens=2, dim=1, delta="1/4")
    model = model.softened() if soft else model
    with pytest.raises(CertificationError, match=r"model\.bounded\(modulus\)"):
        model.certificate.bound()
    bounded = model.bounded(1)
    assert bounded.certificate.bound("float64", "literal") > 0
    with pytest.raises(CertificationError, match="float64, not float32"):
        bounded.certificate.bound("float32")


@pytest.mark.spread(6)
@pytest.mark.parametrize("modulus", [1, Fraction(1, 3), 0.1, lambda h: h**0.5, "estimate"])
@pytest.mark.parametrize("form", ["compact", "four-layer"])
@pytest.mark.parametrize("soft", [False, True])
def test_the_bound_is_kept_by_saving(modulus, form, soft, tmp_path):
    model = ef.compile_sequence(
        centred, tokens=2, dim=1, delta="1/3", form=form, sample="corner", support=(-1, 2)
    )
    model = model.softened(0.5, executor="fused") if soft else model
    model = model.bounded(modulus, p=3, target=centred)
    model.save(tmp_path / "model")
    loaded = ef.load(tmp_path / "model")
    ours, read = model.certificate, loaded.certificate
    assert replace(read, error=replace(read.error, stated=False)) == ours
    found, kept = ours.bound(), read.bound()
    assert (found, found.parts, found.norm) == (kept, kept.parts, kept.norm)
    assert (found.kind, kept.kind) == (Kind.PROVEN, Kind.STATED)
    assert certify_sequence_model(tmp_path / "model") == read
    plain = model.bounded(1).blueprint.metadata
    assert plain["sample"] == "corner"
    assert ("modulus estimated" in plain) is False


def test_softening_and_bounding_may_be_done_in_either_order():
    model = ef.compile_sequence(centred, tokens=2, dim=1, delta="1/4", form="compact")
    first, second = model.bounded(1).softened(0.1), model.softened(0.1).bounded(1)
    assert first.certificate == second.certificate
    assert first.softened(0.01).certificate == model.bounded(1).softened(0.01).certificate


def test_rounding_a_value_that_is_no_float_is_part_of_the_bound():
    thirds = {(k,): [[Fraction(k, 3)]] for k in range(3)}
    model = ef.compile_sequence(thirds, tokens=1, dim=1, delta="1/3").bounded(1)
    bound = model.certificate.bound()
    assert 0 < bound.parts["rounding"] <= 2.0**-53
    assert bound > bound.parts["smooth"]
    halves = {(k,): [[Fraction(k, 2)]] for k in range(3)}
    whole = ef.compile_sequence(halves, tokens=1, dim=1, delta="1/3").bounded(1)
    assert "rounding" not in whole.certificate.bound().parts


@pytest.mark.spread(2)
@pytest.mark.parametrize("form", ["compact", "paper", "four-layer"])
@pytest.mark.parametrize("soft", [False, True])
def test_models_and_files_are_certified_from_scratch(form, soft, tmp_path):
    model = ef.compile_sequence(centred, tokens=2, dim=1, delta="1/4", form=form)
    model = model.softened(0.1) if soft else model
    model.save(tmp_path / "model")
    table = model.table.values
    for source in (model, tmp_path / "model"):
        for target in (None, centred, table):
            found = certify_sequence_model(source, target)
            assert found == model.certificate
            assert found.executor == (model.executor if source is model else None)
        with pytest.raises(CertificationError):
            certify_sequence_model(source, identity)
    with pytest.raises(SizeError, match="memory_limit"):
        certify_sequence_model(model, memory_limit=100)
    model.sweeps.value_map.values[0] += 1
    with pytest.raises(WeightMismatchError):
        certify_sequence_model(model)


def test_measurements_know_their_parts():
    model = ef.compile_sequence(identity, tokens=2, dim=1, delta="1/4", form="compact")
    found = model.measure(identity, samples=500, seed=3)
    assert (found.samples, found.seed) == (500, 3)
    assert set(found.parts) == {"smooth", "equal columns"}
    assert json.loads(json.dumps(found.to_dict()))["parts"]["smooth"]["samples"] == 500
    assert model.measure(samples=500).value == 0
