"""Files of couplings: what they state is marked as stated, and with the target it is computed."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import exactformer as ef
from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.files import load_coupling, save_coupling
from exactformer.couplings.interpolant import Interpolant, Knots
from exactformer.couplings.model import CouplingModel
from exactformer.couplings.proof.bound import ErrorTerms, bound_coupling
from exactformer.couplings.proof.certificate import certify_terms
from exactformer.errors import (
    CertificationError,
    ExactformerError,
    InputError,
    RoundingError,
    SizeError,
)
from exactformer.targets import Coupling, sine_family
from exactformer.theory import pod
from tests.cases.couplings import random_case
from tests.examples import examples


def waves(tau: int = 4, positions=None) -> Coupling:
    return Coupling(
        np.tanh,
        lambda u: np.cos(2 * u),
        lambda u, v: 2 * np.exp(-((u - v) ** 2) / 2),
        tau,
        positions=positions,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ef.compile_coupling(waves(), 2, 32).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def restated(file: Path, **numbers) -> None:
    """Write other numbers into the bound of a file."""
    blueprint = load_coupling(file)
    bound = {**json.loads(blueprint.metadata["bound"]), **numbers}
    save_coupling(replace(blueprint, metadata={"bound": json.dumps(bound)}), file)


def test_a_bound_read_from_a_file_is_marked_as_stated(file):
    made, loaded = ef.compile_coupling(waves(), 2, 32), ef.load(file)
    assert made.certificate.rounded().source == "computed"
    assert loaded.certificate.rounded().source == "stated by the file"
    assert loaded.certificate.rounded() == made.certificate.rounded()
    assert "stated by the file" in str(loaded)
    assert "stated by the file" not in str(made)
    assert loaded.certificate.rounded().to_dict()["source"] == "stated by the file"


def test_no_file_can_say_that_its_bound_was_computed(file):
    restated(file, source="computed", coupling_error=0.0, outer_error=0.0, value_error=0.0)
    assert ef.load(file).certificate.rounded().source == "stated by the file"
    ef.load(file).save(file)
    assert ef.load(file).certificate.rounded().source == "stated by the file"


def test_no_bound_of_a_coupling_is_called_proven(file):
    for model in (
        ef.compile_coupling(waves(), 2, 32),
        ef.load(file),
        ef.load(file, target=waves()),
    ):
        assert model.certificate.bound().kind == model.certificate.kind == model.certificate.source
        assert str(model.certificate.source) in str(model.certificate)


@pytest.mark.parametrize(
    "numbers",
    [
        {"lipschitz": 0.0},
        {"lipschitz": 0.9},
        {"radius": 0.0},
        {"radius": 1e-13},
        {"concentration": 0.0},
        {"concentration": 2.0},
        {"root_sums": [0.0] * 4},
        {"root_sums": [1e-13] * 3},
        {"tail": 0.0},
        {"diagonal": 0.0},
    ],
    ids=str,
)
def test_a_bound_that_contradicts_the_weights_is_refused(file, numbers):
    restated(file, **numbers)
    with pytest.raises(CertificationError, match="the file states"):
        ef.load(file)
    anew, compiled = (
        ef.load(file, target=waves()).certificate.rounded(),
        ef.compile_coupling(waves(), 2, 32).certificate.rounded(),
    )
    assert anew.total == pytest.approx(compiled.total, rel=1e-9)
    assert (anew.lipschitz, anew.radius) == (compiled.lipschitz, compiled.radius)


@pytest.mark.parametrize("value", [float("nan"), -1.0, "0", None, [], True, {}], ids=str)
@pytest.mark.parametrize("name", ["lipschitz", "tail", "rounding", "root_sums"])
def test_a_bound_is_made_of_numbers(file, name, value):
    restated(file, **{name: value})
    with pytest.raises(ExactformerError):
        ef.load(file)


def test_what_is_not_a_number_is_never_a_small_error():
    honest = ef.compile_coupling(waves(), 2, 32).certificate.rounded()
    for name in ("lipschitz", "radius", "coupling_error", "outer_error", "rounding"):
        with pytest.raises(CertificationError, match="not bounded"):
            replace(honest, **{name: float("nan")})
    with pytest.raises(CertificationError, match="not bounded"):
        replace(honest, root_sums=(0.0, float("nan")))
    endless = replace(honest, lipschitz=float("inf"))
    assert endless.total == endless.mean_squared == float("inf")
    with pytest.raises(CertificationError, match="not bounded"):
        replace(honest, lipschitz=float("inf"), value_error=0.0)


@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_a_model_beyond_its_number_format_is_refused(executor):
    blueprint = ef.compile_coupling(waves(), 2, 32).blueprint
    large = replace(blueprint.features, values=blueprint.features.values * 1e25)
    model = CouplingModel(replace(blueprint, features=large), executor=executor)
    with pytest.raises(RoundingError, match="float16"):
        CouplingModel(model.blueprint, executor=executor, dtype=torch.float16)
    with pytest.raises(CertificationError):
        _ = model.float().certificate.rounded()


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_with_its_target_a_loaded_model_has_its_bound_computed_anew(tmp_path, executor, centre):
    target = waves(positions=np.array([0.0, 2, 6, 4]))
    model = ef.compile_coupling(target, 2, 32, executor=executor, centre=centre)
    model.save(tmp_path / "model")
    loaded = ef.load(tmp_path / "model", target=target, executor=executor)
    assert loaded.certificate.rounded().source == "computed"
    assert loaded.certificate.bound() <= model.certificate.bound() * (1 + 1e-9)
    assert loaded.measure(samples=200).value <= loaded.certificate.bound()
    assert set(loaded.measure(samples=200).parts) == {"truncation", "interpolation", "rounding"}


def test_weights_that_were_trained_have_a_bound_with_their_target(tmp_path):
    target, model = waves(), ef.compile_coupling(waves(), 2, 32)
    model.network.features.values.data *= 1.01
    model.save(tmp_path / "model")
    assert "no bound" in str(ef.load(tmp_path / "model"))
    loaded = ef.load(tmp_path / "model", target=target)
    assert loaded.certificate.rounded().source == "computed"
    assert 0.001 < loaded.measure(samples=300).value <= loaded.certificate.bound()


@pytest.mark.parametrize(
    "other",
    [
        waves(tau=5),
        waves(positions=np.array([0.0, 2, 4, 6])),
        replace(waves(), domain=(0.0, 2.0)),
        replace(waves(), domain=[(0.0, 1.0), (0.0, 1.0)]),
    ],
    ids=["tau", "positions", "domain", "vectors"],
)
def test_a_target_on_other_sequences_is_refused(file, other):
    with pytest.raises(InputError, match="they must be the same"):
        ef.load(file, target=other)


def test_a_target_with_other_values_is_refused(file):
    other = replace(waves(), f=lambda u: np.stack([u, u], -1), F=lambda h: h[..., 0])
    with pytest.raises(CertificationError, match="value rows"):
        ef.load(file, target=other)


def test_another_target_has_a_bound_that_covers_it(file):
    """The bound is about the given target: the further it is, the larger."""
    for other in (
        replace(waves(), F=lambda h: np.tanh(h) + 1),
        replace(waves(), f=lambda u: np.sin(7 * u)),
        replace(waves(), rho=lambda u, v: 9 * np.sin(5 * u * v)),
    ):
        loaded = ef.load(file, target=other)
        assert loaded.measure(samples=300).value <= loaded.certificate.bound()
        assert loaded.certificate.bound() > 10 * ef.load(file, target=waves()).certificate.bound()


def test_singular_functions_may_be_turned():
    """Equal singular values leave φ and ψ free: another decomposition of ρ gives the same bound."""
    target = sine_family([1.0, 1.0, 0.5], tau=4)
    found = pod(target.rho, target.intervals, measure="probability")
    blueprint = ef.compile_coupling(target, 3, 256, decomposition=found).blueprint
    turn = np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0], [0.0, 0.0, -1.0]])
    other = replace(
        found, left_values=found.left_values @ turn, right_values=found.right_values @ turn
    )
    plain = bound_coupling(blueprint, target, found)
    assert bound_coupling(blueprint, target, other).total > 10 * plain.total
    turned = bound_coupling(blueprint, target, other, turned=True)
    assert turned.total == pytest.approx(plain.total, rel=1e-6)


def forged(blueprint: CouplingBlueprint, rng: np.random.Generator) -> CouplingBlueprint:
    """Change weights, head, knots or the box of F̂ of a blueprint, so that it still is one."""
    values, m = blueprint.features.values.copy(), blueprint.head_dim
    outer = blueprint.outer
    way = rng.choice(["flip", "scale", "spike", "order", "zero", "head", "box", "outer", "coarse"])
    row = int(rng.integers(values.shape[1]))
    if way == "flip":
        values[:, row] *= -1
    elif way == "scale":
        values[:, row] *= rng.choice([0.5, 1.1, 30.0])
    elif way == "spike":
        values[int(rng.integers(len(values))), row] += rng.choice([-1.0, 0.3, 100.0])
    elif way == "order":
        values = values[:, rng.permutation(values.shape[1])]
    elif way == "zero":
        values[:, : 2 * m] = 0
    elif way == "head" and m > 1:
        values = np.delete(values, [m - 1, 2 * m - 1], axis=1)
        m -= 1
    elif way == "box" and isinstance(outer, Interpolant):
        ((low, high),) = outer.knots.intervals
        middle, share = (low + high) / 2, Fraction(rng.choice([0.1, 0.6, 3.0]))
        box = (middle - (high - low) * share / 2, middle + (high - low) * share / 2)
        knots = Knots((box,), outer.knots.pieces)
        kept = rng.random() < 0.5  # F̂ stays as it was on a smaller or larger box, or is stretched
        outer = Interpolant(knots, outer(knots.points) if kept else outer.values)
    elif way == "coarse" and isinstance(outer, Interpolant):
        knots = Knots(outer.knots.intervals, 1)
        outer = Interpolant(knots, outer(knots.points))
    else:
        outer = replace(outer, values=outer.values + rng.normal(size=outer.values.shape))
    features = Interpolant(blueprint.features.knots, values)
    return replace(blueprint, head_dim=m, features=features, outer=outer)


def rebounded(seed: int) -> float:
    """Forge the weights of a random model; return its error over the bound computed for them."""
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    model = ef.compile_coupling(
        case.target, case.head_dim, case.ff_width, decomposition=case.decomposition
    )
    blueprint = forged(model.blueprint, rng)
    bound = bound_coupling(blueprint, case.target, case.decomposition, turned=True)
    changed = CouplingModel(blueprint, certify_terms(blueprint, bound), case.target)
    return changed.measure(samples=64, seed=seed).value / changed.certificate.bound()


@given(st.integers(0, 10**9))
@settings(max_examples=examples(25), deadline=None)
def test_no_forged_weights_have_a_computed_bound_below_their_error(seed):
    assert rebounded(seed) <= 1


@pytest.mark.slow
def test_no_forged_weights_of_a_thousand_have_a_bound_below_their_error():
    """And for some it is near."""
    found = [rebounded(seed) for seed in range(1000)]
    assert 0.5 < max(found) <= 1


def test_f_hat_on_a_box_that_means_of_f_leave_is_seen(tmp_path):
    """F̂ equals F on a tenth of the range and is constant beyond, where F is not."""
    target = Coupling(lambda h: h, lambda u: u, lambda u, v: 0 * u * v, 3)
    blueprint = ef.compile_coupling(target, 1, 16).blueprint
    narrow = Knots(((Fraction(9, 20), Fraction(11, 20)),), 16)
    outer = Interpolant(narrow, narrow.points[:, None])
    save_coupling(replace(blueprint, outer=outer), tmp_path / "model")
    loaded = ef.load(tmp_path / "model", target=target)
    assert loaded.certificate.rounded().outer_error == pytest.approx(0.45, rel=1e-3)
    assert 0.1 < loaded.measure(samples=500).value <= loaded.certificate.bound()


def test_a_model_of_more_tokens_than_memory_holds_is_refused(tmp_path):
    model = ef.compile_coupling(waves(), 2, 32)
    many = replace(model.blueprint, tau=2**30, metadata={})
    save_coupling(many, tmp_path / "model")
    with pytest.raises(SizeError, match="memory_limit="):
        ef.load(tmp_path / "model")


def test_a_bound_is_read_as_it_was_written():
    bound = ef.compile_coupling(waves(), 2, 32).certificate.rounded()
    assert ErrorTerms.of_dict(bound.to_dict()) == bound
    assert ErrorTerms.of_dict(json.loads(json.dumps(bound.to_dict()))) == bound
