"""Every row of the protocol, for every family and construction: the same words mean the same things."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer import rasp
from exactformer.core.certificate import Bound, Certificate, Claim, Kind, Measured
from exactformer.core.layers import Rule
from exactformer.core.model import CertifiedModel
from exactformer.errors import (
    CertificationError,
    ExactformerError,
    ExecutionError,
    InputError,
    OutsideDomainError,
    WeightMismatchError,
)
from exactformer.programs.library import make_frac_prevs, make_reverse
from exactformer.targets import sine_family

LAW = "x^2 + 3 x y - 1/2"


def centred(x: np.ndarray) -> np.ndarray:
    """Tokens less their mean, (tokens, dim) to the same."""
    return x - x.mean(axis=0)


def polynomial(construction: str, **options: Any) -> ef.PolynomialModel:
    return ef.compile(LAW, radius=2, construction=construction, **options)


def function(**options: Any) -> ef.PolynomialModel:
    return ef.compile(np.sin, domain=[(0, 1)], tolerance=1e-6, **options)


def sequence(form: str, **options: Any) -> ef.SequenceModel:
    return ef.compile_sequence(centred, tokens=2, dim=1, delta=Fraction(1, 4), form=form, **options)


def soft(form: str, **options: Any) -> ef.SequenceModel:
    executor = options.pop("executor", None)
    return sequence(form, **options).softened(tolerance=0.1, executor=executor)


def coupling(**options: Any) -> ef.CouplingModel:
    return ef.compile_coupling(sine_family([1.0, 0.5], tau=3), head_dim=2, ff_width=64, **options)


def program(realisation: str, **options: Any) -> ef.ProgramModel:
    return ef.compile_program(
        make_reverse(), vocabulary="abc", max_length=4, realisation=realisation, **options
    )


def mean(realisation: str, **options: Any) -> ef.ProgramModel:
    fraction = make_frac_prevs(rasp.tokens == "a")
    return ef.compile_program(
        fraction, vocabulary="ab", max_length=4, realisation=realisation, **options
    )


Maker = Callable[..., Any]
MODELS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    **{
        name: (lambda construction=name, **o: polynomial(construction, **o), ("fused", "literal"))
        for name in ("scaled", "doubling", "chebyshev", "paper")
    },
    "softmax": (lambda **o: polynomial("softmax", **o), ("literal",)),
    "function": (function, ("fused", "literal")),
    **{
        f"sequence, {form}": (
            lambda form=form, **o: sequence(form, **o),
            ("fused", "literal", "exact"),
        )
        for form in ("four-layer", "compact", "paper")
    },
    **{
        f"softened sequence, {form}": (lambda form=form, **o: soft(form, **o), ("fused", "literal"))
        for form in ("four-layer", "compact")
    },
    "coupling": (coupling, ("fused", "literal")),
    **{
        f"{kind.__name__}, {realisation}": (
            lambda kind=kind, realisation=realisation, **o: kind(realisation, **o),
            ("literal",),
        )
        for kind in (program, mean)
        for realisation in ("hard", "softmax")
    },
}
CASES = [(name, executor) for name, (_, executors) in MODELS.items() for executor in executors]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@cache
def made(name: str, executor: str) -> CertifiedModel:
    """A model that no test changes."""
    return MODELS[name][0](executor=executor)


@pytest.fixture
def model(case: tuple[str, str]) -> CertifiedModel:
    return made(*case)


@pytest.fixture
def own_model(case: tuple[str, str]) -> CertifiedModel:
    """A model for a test to change."""
    name, executor = case
    return MODELS[name][0](executor=executor)


def an_input(model: CertifiedModel) -> list[Any]:
    """Something inside the domain, as nested lists."""
    if isinstance(model, ef.PolynomialModel):
        return [0.25] * len(model.blueprint.variables)
    if isinstance(model, ef.SequenceModel):
        return [[0.125], [0.625]]
    if isinstance(model, ef.ProgramModel):
        return [0, 1, 1]
    return [0.125, 0.5, 0.75]


def outside(model: CertifiedModel) -> list[Any]:
    """The same far away."""
    return (100 + np.array(an_input(model))).tolist()


@pytest.mark.spread(15)
def test_it_is_a_module_with_a_face(case: tuple[str, str], model: CertifiedModel) -> None:
    assert isinstance(model, CertifiedModel)
    assert isinstance(model, torch.nn.Module)
    assert model.executor == case[1]
    assert model.dtype == torch.float64
    assert model.outside == "raise"
    assert model.target is not None
    assert repr(model)
    assert str(model.certificate)


def test_inputs_are_tensors_arrays_or_lists(model: CertifiedModel) -> None:
    x = an_input(model)
    values = model(x)
    assert torch.equal(values, model(np.array(x)))
    assert torch.equal(values, model(torch.tensor(x, dtype=torch.float64)))
    gap = float((model([x, x]) - values).detach().abs().max())
    if isinstance(model, ef.SequenceModel):
        assert gap == 0
    else:  # sums may be taken in another order
        assert gap <= 2 * model.certificate.bound().parts["rounding"]
    assert torch.isfinite(values).all()


@pytest.mark.spread(15)
def test_what_is_outside_raises_unless_asked_otherwise(
    model: CertifiedModel, own_model: CertifiedModel
) -> None:
    with pytest.raises(OutsideDomainError):
        own_model(outside(model))
    with pytest.raises(InputError, match="choose one of"):
        own_model.outside = "perhaps"
    own_model.outside = "nan"
    assert torch.isnan(own_model(outside(model))).all()
    assert torch.equal(own_model(an_input(model)), model(an_input(model)))


def test_inputs_that_are_no_numbers_are_refused(model: CertifiedModel) -> None:
    for wrong in ("abc", [], None, [[[[1j]]]]):
        with pytest.raises(ExactformerError):
            model(wrong)
    with pytest.raises(ExactformerError):
        model((np.array(an_input(model)) * np.nan).tolist())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_inputs_without_values_are_refused(model: CertifiedModel) -> None:
    x = torch.tensor(an_input(model))
    wrong = [x.to("meta"), torch.nested.nested_tensor([x.double(), x.double()])]
    for given in wrong:
        for ask in (model, model.trace, model.exact):
            with pytest.raises(ExactformerError):
                ask(given)
    with pytest.raises(ExactformerError):
        torch.vmap(model)(torch.stack([x, x]))


def test_exact_refuses_what_is_no_input(model: CertifiedModel) -> None:
    for wrong in (None, 3, "abc", torch, torch.zeros(2, 2, 2, 2), [[0.5], 1]):
        with pytest.raises(ExactformerError):
            model.exact(wrong)


SETTINGS: dict[str, Callable[[], Any]] = {
    "a default device": lambda: torch.device("meta"),
    "autocast to bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
}


@pytest.mark.spread(15)
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_torch_change_no_model(
    case: tuple[str, str], model: CertifiedModel, setting: str
) -> None:
    name, executor = case
    x = torch.tensor(an_input(model), dtype=torch.float64)
    trace, measured = model.trace(x), model.measure(samples=4)
    with SETTINGS[setting]():
        other = MODELS[name][0](executor=executor)
        again = copy.deepcopy(model)
        assert str(ef.certify(model)) == str(ef.certify(again))
        for twin in (model, other, again):
            assert torch.equal(twin(x), model(x))
            assert twin.measure(samples=4).value == measured.value
            for key, tensor in twin.trace(x).items():
                assert torch.equal(tensor, trace[key])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("make", [polynomial, coupling, program], ids=lambda make: make.__name__)
def test_settings_of_torch_change_no_model_of_a_narrow_format(
    make: Maker, dtype: torch.dtype, setting: str
) -> None:
    options = () if make is coupling else ("hard" if make is program else "scaled",)
    model = make(*options, dtype=dtype)
    x = torch.tensor(an_input(model))
    with SETTINGS[setting]():
        for twin in (make(*options, dtype=dtype), make(*options).to(dtype), copy.deepcopy(model)):
            assert torch.equal(twin(x), model(x))
            assert torch.equal(twin.trace(x)["output"], model.trace(x)["output"])


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_torch_change_no_export(setting: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    half = polynomial("scaled", dtype=torch.float16)
    for model in (half, polynomial("softmax"), program("hard")):
        model.to_onnx(tmp_path / "plain.onnx")
        with SETTINGS[setting]():
            model.to_onnx(tmp_path / "model.onnx")
        assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    with SETTINGS[setting]():
        arrays = half.to_numpy()
    for name, array in half.to_numpy().items():
        assert np.array_equal(arrays[name], array)


def test_a_certificate_says_what_it_claims_and_how_it_knows(model: CertifiedModel) -> None:
    certificate = model.certificate
    assert isinstance(certificate, Certificate)
    assert certificate.claims
    assert all(isinstance(claim, Claim) and claim.text for claim in certificate.claims)
    assert certificate.kind == Kind.weakest(claim.kind for claim in certificate.claims)
    assert isinstance(certificate.zero_error, bool)
    assert len(certificate.blueprint_digest) == 64
    assert (certificate.dtype, certificate.executor) == ("float64", model.executor)
    assert all(claim.name in str(certificate) for claim in certificate.claims)
    plain = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert plain["blueprint_digest"] == certificate.blueprint_digest
    assert plain["zero_error"] == certificate.zero_error


def test_a_bound_is_a_number_that_says_what_it_is(model: CertifiedModel) -> None:
    if isinstance(model, ef.SequenceModel):
        with pytest.raises(CertificationError, match="modulus"):
            model.certificate.bound()
        model = model.bounded(2.0)
    bound = model.certificate.bound()
    assert isinstance(bound, Bound)
    assert bound == float(bound) == bound.total >= 0
    assert bound.parts
    assert all(0 <= part <= bound for part in bound.parts.values())
    assert bound.norm
    assert isinstance(bound.kind, Kind)
    assert bound == model.certificate.bound(model.dtype, model.executor)
    assert str(bound.kind) in str(bound)


def test_what_is_measured_is_within_the_bound(model: CertifiedModel) -> None:
    if isinstance(model, ef.SequenceModel):
        model = model.bounded(2.0)
        measured = model.measure(centred, samples=64, seed=1)
    else:
        measured = model.measure(samples=64, seed=1)
    assert isinstance(measured, Measured)
    assert measured.samples == 64
    assert measured.value - 5 * measured.standard_error <= model.certificate.bound()
    assert measured.norm in str(measured)
    for wrong in (1, 2.5, "many", True):
        with pytest.raises(InputError, match="samples"):
            model.measure(samples=wrong)
    for wrong in (-1, 0.5, "one", None):
        with pytest.raises(InputError, match="seed"):
            model.measure(seed=wrong)


@pytest.mark.parametrize("name", ["scaled", "sequence, compact", "coupling", "program, hard"])
def test_a_device_that_cannot_be_used_is_named(name: str) -> None:
    for device in ("cuda:9999", "nowhere"):
        with pytest.raises(InputError, match=f"device='{device}' cannot be used"):
            MODELS[name][0](device=device)


def test_a_trace_names_what_happens(model: CertifiedModel) -> None:
    trace = model.trace(an_input(model))
    assert len(trace) > 1
    assert trace.dimensions
    assert all(torch.isfinite(tensor).all() for tensor in trace.values())
    with pytest.raises(ExactformerError):
        model.trace([an_input(model)])
    with pytest.raises(OutsideDomainError):
        model.trace(outside(model))


def test_exact_is_rational_or_says_why_not(case: tuple[str, str], model: CertifiedModel) -> None:
    if "softmax" in case[0] or "softened" in case[0] or case[0] == "coupling":
        with pytest.raises(ExecutionError, match="rational"):
            model.exact(an_input(model))
        return
    x = np.vectorize(Fraction, otypes=[object])(an_input(model))
    found = np.array(model.exact(x.tolist()), dtype=object)
    assert all(isinstance(value, Fraction) for value in found.flat)
    computed = model(an_input(model)).numpy().astype(object)
    if isinstance(model, ef.SequenceModel):
        assert (np.vectorize(float)(found) == computed.astype(float)).all()
    else:
        gap = abs(found - np.vectorize(Fraction, otypes=[object])(computed.astype(float)))
        assert np.all(gap <= Fraction(float(model.certificate.bound())))


@pytest.mark.spread(15)
def test_saving_and_loading_loses_nothing(
    case: tuple[str, str], model: CertifiedModel, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    bounded = model.bounded(2.0) if isinstance(model, ef.SequenceModel) else model
    bounded.save(path)
    options = {"target": model.target} if case[0] == "coupling" else {}
    loaded = ef.load(path, executor=case[1], **options)
    assert type(loaded) is type(model)
    assert torch.equal(loaded(an_input(model)), model(an_input(model)))
    here, there = loaded.certificate, bounded.certificate
    assert here.blueprint_digest == there.blueprint_digest
    for read, said in zip(here.claims, there.claims, strict=True):
        of_f = "sequence" in case[0] and said.name == "distance"  # a file holds no f to ask again
        assert read.kind is (Kind.STATED if of_f else said.kind), said
    assert here.bound() == pytest.approx(float(there.bound()), rel=1e-9)
    loaded.save(tmp_path / "again.safetensors")
    again = ef.load(tmp_path / "again.safetensors", executor=case[1])
    assert again.certificate.blueprint_digest == there.blueprint_digest


@pytest.mark.spread(15)
def test_certify_proves_a_model_and_its_file_from_scratch(
    model: CertifiedModel, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    model.save(path)
    own = ef.certify(model)
    assert own.blueprint_digest == model.certificate.blueprint_digest
    assert ef.certify(path).blueprint_digest == own.blueprint_digest
    assert ef.certify(model).claims == model.certificate.claims


@pytest.mark.spread(15)
def test_weights_that_were_changed_are_noticed(own_model: CertifiedModel) -> None:
    tensors = [*own_model.parameters(), *own_model.buffers()]
    changed = next((t for t in tensors if t.is_floating_point() and t.numel()), None)
    if changed is None:
        pytest.skip("a model in exact arithmetic has no tensors to change")
    with torch.no_grad():
        changed += 1
    with pytest.raises(WeightMismatchError):
        _ = own_model.certificate
    with pytest.raises(WeightMismatchError):
        ef.certify(own_model)


@pytest.mark.parametrize("way", ["to_onnx", "to_numpy", "to_transformer_lens"])
def test_what_a_family_does_not_offer_is_said(
    model: CertifiedModel, way: str, tmp_path: Path
) -> None:
    if way == "to_transformer_lens":
        soft = isinstance(model, ef.ProgramModel) and model.blueprint.selection.rule is Rule.SOFTMAX
        offered = soft and bool(pytest.importorskip("transformer_lens"))
    else:
        offered = isinstance(model, ef.PolynomialModel) or (
            way == "to_onnx" and isinstance(model, ef.ProgramModel)
        )
    arguments = (tmp_path / "model.onnx",) if way == "to_onnx" else ()
    if offered:
        getattr(model, way)(*arguments)
        return
    with pytest.raises(ExecutionError, match="cannot"):
        getattr(model, way)(*arguments)


def test_inputs_are_never_rounded_silently() -> None:
    for made in (polynomial("scaled", dtype=torch.float32), coupling(dtype=torch.float32)):
        third = np.full(np.shape(an_input(made)), 1 / 3)
        with pytest.raises(InputError, match="rounding"):
            made(third)
        with pytest.raises(InputError, match="rounding"):
            made(torch.tensor(third))
        assert torch.equal(made(third.astype(np.float32)), made(third.tolist()))
        assert made.certificate.dtype == "float32"


@pytest.mark.parametrize("spelling", ["float32", np.float32, np.dtype("float32"), torch.float32])
def test_a_number_format_is_named_as_torch_numpy_or_people_do(
    spelling: Any, tmp_path: Path
) -> None:
    models = (
        ef.compile("x^2 + y", dtype=spelling),
        ef.compile_coupling(ef.targets.sine_family([1], tau=4), head_dim=1, dtype=spelling),
        ef.compile_program(make_reverse(), vocabulary="ab", max_length=2, dtype=spelling),
    )
    for made in models:
        assert made.dtype == torch.float32
    models[0].save(tmp_path / "law.safetensors")
    assert ef.load(tmp_path / "law.safetensors", dtype=spelling).dtype == torch.float32
    with pytest.raises(InputError, match="dtype int64 is not one of float64"):
        ef.compile("x^2", dtype="int64")
