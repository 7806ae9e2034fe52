"""A model speaks of its proof only while it is what was proven."""

from __future__ import annotations

import copy
import io
import operator
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

import exactformer as ef
from exactformer.core import precision
from exactformer.core.integrity import ProvenModule, check_against_blueprint
from exactformer.core.run_literal import LiteralHead
from exactformer.errors import ExecutionError, InputError, WeightMismatchError
from exactformer.polynomials.proof.certify import Proof
from exactformer.polynomials.run.closed_form import Basis
from exactformer.polynomials.run.closed_form_module import FusedTransformer
from exactformer.targets import sine_family

POLYNOMIAL = "x^3 + x y - 1/3"


def polynomial(executor: str = "fused", **options: Any) -> ef.PolynomialModel:
    return ef.compile(POLYNOMIAL, radius=2, executor=executor, **options)


def sequence(**options: Any) -> ef.SequenceModel:
    where = {"tokens": 2, "dim": 1, "delta": "1/4", "form": "compact"}
    return ef.compile_sequence(lambda x: x - x.mean(), **where, **options)


def soft(**options: Any) -> ef.SequenceModel:
    return sequence().softened(1e-3, **options)


def coupling(**options: Any) -> ef.CouplingModel:
    return ef.compile_coupling(sine_family([1.0, 0.5], tau=3), 2, 16, **options)


FAMILIES: dict[str, Callable[[], ProvenModule]] = {
    "fused": polynomial,
    "literal": lambda: polynomial(executor="literal"),
    "softmax": lambda: polynomial("literal", construction="softmax"),
    "sequence": sequence,
    "literal sequence": lambda: sequence(executor="literal"),
    "exact sequence": lambda: sequence(executor="exact"),
    "soft sequence": soft,
    "coupling": coupling,
    "literal coupling": lambda: coupling(executor="literal"),
}


@cache
def proven(family: str) -> ProvenModule:
    return FAMILIES[family]()


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> ProvenModule:
    """A model for a test to change, built anew from one that is proven once."""
    return copy.deepcopy(proven(request.param))


def statement(model: Any) -> Any:
    return model.certificate


def example(model: ProvenModule) -> Tensor:
    """One input of the right shape."""
    if isinstance(model, ef.PolynomialModel):
        return torch.full((1, len(model.blueprint.variables)), 0.25, dtype=model.dtype)
    if isinstance(model, ef.SequenceModel):
        return torch.tensor([[[0.1], [0.9]]], dtype=torch.float64)
    return torch.tensor([[0.25, 0.5, 0.75]], dtype=torch.float64)


def inner(model: ProvenModule) -> nn.Module:
    """The module inside that runs."""
    parts = list(model.children())
    return parts[-1]


def assert_refused(model: ProvenModule, problem: str, tmp_path: Path) -> None:
    with pytest.raises(WeightMismatchError, match=problem):
        check_against_blueprint(model)
    with pytest.raises(WeightMismatchError):
        statement(model)
    if isinstance(model, ef.PolynomialModel):
        with pytest.raises(WeightMismatchError, match=problem):
            ef.certify(model)
        with pytest.raises(WeightMismatchError, match=problem):
            model.trace(example(model)[0])
        with pytest.raises(WeightMismatchError, match=problem):
            model.to_numpy()
        with pytest.raises(WeightMismatchError, match=problem):
            model.to_onnx(tmp_path / "model.onnx")
    if not isinstance(model, ef.CouplingModel):
        with pytest.raises(WeightMismatchError, match=problem):
            model.save(tmp_path / "model.safetensors")
        assert not (tmp_path / "model.safetensors").exists()
        assert "no certificate holds" in repr(model)
    else:
        assert "no certificate holds" in repr(model) or "no bound holds" in repr(model)


def test_an_unchanged_model_is_what_its_blueprint_builds(model: ProvenModule) -> None:
    check_against_blueprint(model)
    assert statement(model) is not None
    assert "no certificate holds" not in repr(model)


def test_every_tensor_counts(model: ProvenModule, tmp_path: Path) -> None:
    """Buffers as well as parameters, and writes that torch does not count."""
    for name, tensor in model.state_dict().items():
        if not tensor.numel():
            continue
        kept = tensor.clone()
        tensor.data.view(-1)[-1] = 0.375 if kept.view(-1)[-1] != 0.375 else 1.0
        with pytest.raises(WeightMismatchError, match="the module has"):
            check_against_blueprint(model)
        with pytest.raises(WeightMismatchError):
            statement(model)
        tensor.data.copy_(kept)
        assert statement(model) is not None, name
    check_against_blueprint(model)


def test_every_attribute_of_every_part_counts(model: ProvenModule) -> None:
    """Whatever a part keeps beside its tensors: sizes, rules, bases, tables."""
    for part in model.modules():
        for name, value in list(vars(part).items()):
            if name.startswith("_"):
                continue
            if name == "training":
                continue
            vars(part)[name] = object()
            with pytest.raises(WeightMismatchError):
                check_against_blueprint(model)
            vars(part)[name] = value
    check_against_blueprint(model)


def hook(part: nn.Module) -> Any:
    return part.register_forward_hook(lambda module, inputs, output: output)


def pre_hook(part: nn.Module) -> Any:
    return part.register_forward_pre_hook(lambda module, inputs: inputs)


def hook_with_keywords(part: nn.Module) -> Any:
    return part.register_forward_hook(
        lambda module, inputs, keywords, output: output, with_kwargs=True
    )


@pytest.mark.parametrize("register", [hook, pre_hook, hook_with_keywords])
def test_forward_hooks_are_noticed_and_may_be_removed(
    model: ProvenModule, register: Callable[[nn.Module], Any], tmp_path: Path
) -> None:
    for part in (model, *model.children()):
        handle = register(part)
        assert_refused(model, "forward hooks", tmp_path)
        handle.remove()
        check_against_blueprint(model)
        assert statement(model) is not None


@pytest.mark.parametrize(
    "register",
    [
        lambda: nn.modules.module.register_module_forward_hook(lambda m, i, o: None),
        lambda: nn.modules.module.register_module_forward_pre_hook(lambda m, i: None),
    ],
)
def test_global_hooks_are_noticed(
    model: ProvenModule, register: Callable[[], Any], tmp_path: Path
) -> None:
    handle = register()
    try:
        assert_refused(model, "global hooks", tmp_path)
    finally:
        handle.remove()
    check_against_blueprint(model)


@pytest.mark.parametrize(
    "register",
    [
        nn.modules.module.register_module_parameter_registration_hook,
        nn.modules.module.register_module_buffer_registration_hook,
    ],
)
def test_hooks_that_see_registrations_count_where_they_change_something(
    register: Callable[[Callable[..., Any]], Any],
) -> None:
    """Torch's compiler leaves such hooks behind; they do nothing to a model unless they change it."""

    def doubled(module: nn.Module, name: str, tensor: torch.Tensor) -> Any:
        changed = torch.as_tensor(tensor) * 2
        return nn.Parameter(changed, False) if isinstance(tensor, nn.Parameter) else changed

    handle = register(lambda module, name, tensor: None)
    try:
        harmless = polynomial(executor="literal")
    finally:
        handle.remove()
    check_against_blueprint(harmless)
    assert harmless.certificate.zero_error
    handle = register(doubled)
    try:
        proof = Proof(harmless.certificate)
        altered = ef.PolynomialModel(harmless.blueprint, proof, executor="literal")
    finally:
        handle.remove()
    with pytest.raises(WeightMismatchError):
        _ = altered.certificate
    with pytest.raises(WeightMismatchError):
        check_against_blueprint(altered)


def test_another_forward_of_an_instance_is_noticed(model: ProvenModule, tmp_path: Path) -> None:
    for part in (model, *model.children()):
        part.forward = lambda *x: torch.zeros(1)  # type: ignore[method-assign]
        assert_refused(model, "hides the forward", tmp_path)
        del part.forward
    check_against_blueprint(model)


def test_another_method_of_a_class_is_noticed(
    model: ProvenModule, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not list(model.children()):
        return
    kind = type(inner(model))
    monkeypatch.setattr(kind, "forward", lambda self, *x: torch.zeros(1))
    assert_refused(model, f"methods of {kind.__name__} were replaced: forward", tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(kind, "__call__", lambda self, *x: torch.zeros(1), raising=False)
    assert_refused(model, f"methods of {kind.__name__} were replaced: __call__", tmp_path)
    monkeypatch.undo()
    check_against_blueprint(model)


def test_the_classes_of_torch_count_where_they_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = polynomial("literal", construction="softmax")
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x)
    assert_refused(model, "methods of Linear were replaced: forward", tmp_path)


def assert_changed(model: ProvenModule) -> None:
    with pytest.raises(WeightMismatchError):
        check_against_blueprint(model)
    with pytest.raises(WeightMismatchError):
        statement(model)


def test_parts_of_another_class_are_noticed(model: ProvenModule) -> None:
    class Other(nn.Module):
        def forward(self, *x: Tensor) -> Tensor:
            return torch.zeros(1)

    for name, _ in list(model.named_children()):
        kept = getattr(model, name)
        setattr(model, name, Other())
        assert_changed(model)
        setattr(model, name, kept)
    check_against_blueprint(model)


def test_a_parametrisation_is_noticed(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    model = polynomial("literal", construction="softmax")
    parametrize.register_parametrization(model.transformer.blocks[0].query, "weight", Twice())
    with pytest.raises(WeightMismatchError):
        statement(model)
    with pytest.raises(WeightMismatchError):
        ef.certify(model)


def test_what_a_fused_module_keeps_beside_its_weights_counts(tmp_path: Path) -> None:
    model = FAMILIES["fused"]()
    assert isinstance(model, ef.PolynomialModel)
    transformer = model.transformer
    assert isinstance(transformer, FusedTransformer)
    basis = transformer.basis
    transformer.basis = Basis.CHEBYSHEV
    assert_refused(model, r"transformer\.basis was exchanged", tmp_path)
    transformer.basis = basis
    check_against_blueprint(model)


def test_what_belongs_to_the_proof_cannot_be_assigned(model: ProvenModule) -> None:
    for name in model.FIXED:
        with pytest.raises(InputError, match="belongs to the proof"):
            setattr(model, name, None)
    assert statement(model) is not None


def test_what_belongs_to_the_proof_cannot_be_slipped_in(tmp_path: Path) -> None:
    model, other = polynomial(), ef.compile("x^3 + x y + 5", radius=2)
    own, another = vars(model), vars(other)
    for name in ("blueprint", "executor"):
        kept = own[name]
        own[name] = another[name] if name == "blueprint" else "literal"
        with pytest.raises(WeightMismatchError):
            ef.certify(model)
        with pytest.raises(WeightMismatchError):
            statement(model)
        own[name] = kept
    own["_record"] = another["_record"]
    with pytest.raises(WeightMismatchError, match="certificate"):
        ef.certify(model)


def test_outside_is_checked_when_it_is_assigned() -> None:
    model = polynomial()
    with pytest.raises(InputError, match="choose one of raise, nan, allow"):
        model.outside = "rise"
    model.outside = "nan"
    assert bool(model([3.0, 0.0]).isnan())
    assert ef.certify(model) == model.certificate


def test_a_note_on_a_model_changes_nothing(model: ProvenModule) -> None:
    model.note = "from the second run"  # type: ignore[assignment]
    check_against_blueprint(model)
    assert statement(model) is not None


def test_a_trained_model_runs_but_speaks_of_no_certificate(tmp_path: Path) -> None:
    for executor in ("fused", "literal"):
        model = polynomial(executor=executor).requires_grad_()
        x, certificate = torch.tensor([[0.5, 1.0]], dtype=torch.float64), model.certificate
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        untrained = model(x).item()
        model(x).sum().backward()
        optimiser.step()
        assert model(x).item() != untrained
        assert_refused(model, "the module has", tmp_path)
        with pytest.raises(WeightMismatchError, match=r"copy\.deepcopy\(model\), or compile anew"):
            _ = model.certificate
        with pytest.raises(WeightMismatchError):
            _ = copy.deepcopy(model).certificate
        model.load_state_dict(polynomial(executor=executor).state_dict())
        assert model.certificate == certificate == ef.certify(model)


def test_loaded_weights_of_another_model_are_noticed(tmp_path: Path) -> None:
    model, other = polynomial(), ef.compile("x^3 + x y + 1", radius=2, executor="fused")
    model.load_state_dict(other.state_dict())
    assert_refused(model, "readout bias b: the module has 1.0, its blueprint -0.33", tmp_path)
    model.load_state_dict(polynomial().state_dict(), assign=True)
    assert model.certificate == ef.certify(model)


def test_a_trained_copy_leaves_the_model_alone(model: ProvenModule) -> None:
    twin = copy.deepcopy(model).requires_grad_()
    assert type(twin) is type(model)
    with torch.no_grad():
        for tensor in twin.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(1)
    assert statement(model) is not None
    if twin.state_dict():
        with pytest.raises(WeightMismatchError):
            statement(twin)


def test_a_coupling_saves_all_of_what_it_is_or_nothing(tmp_path: Path) -> None:
    model = coupling()
    with torch.no_grad():
        model.network.features.values += 0.01
    model.save(tmp_path / "trained.safetensors")
    x = example(model)
    assert torch.equal(ef.load(tmp_path / "trained.safetensors")(x), model(x))
    model.network.features.low += 0.01
    with pytest.raises(WeightMismatchError, match="more than the tables"):
        model.save(tmp_path / "again.safetensors")
    hooked = coupling()
    hook(hooked.network)
    with pytest.raises(WeightMismatchError, match="hooks"):
        hooked.save(tmp_path / "again.safetensors")
    assert not (tmp_path / "again.safetensors").exists()


@pytest.mark.spread(2)
@pytest.mark.parametrize("executor", ["fused", "literal"])
@pytest.mark.parametrize("target", [POLYNOMIAL, "1/3 x^5 + 1/7 x y^3 + 0.1", "(x + y/3 + 1/7)^6"])
def test_weights_are_rounded_once_whatever_formats_a_model_goes_through(
    executor: str, target: str
) -> None:
    model = ef.compile(target, executor=executor)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        direct = ef.compile(target, executor=executor, dtype=dtype)
        model.to(dtype)
        for name, tensor in direct.state_dict().items():
            assert torch.equal(model.state_dict()[name], tensor)
        assert model.certificate == ef.certify(model)
    x = torch.rand(100, 2, dtype=torch.float64) / 2
    assert torch.equal(model(x), ef.compile(target, executor=executor)(x))


def test_parts_are_not_rounded_twice_in_secret() -> None:
    model = ef.compile("1/3 x^2", radius=2, executor="literal", dtype=torch.float32)
    model.transformer.half().float()
    with pytest.raises(WeightMismatchError, match="the module has"):
        _ = model.certificate


def test_sequence_models_survive_another_format() -> None:
    for make in (sequence, soft):
        model = make()
        x = torch.rand(50, 2, 1, dtype=torch.float64)
        values = model(x)
        model.half()
        with pytest.raises(ExecutionError, match="float64"):
            model(x)
        assert torch.equal(model.double()(x), values)
        assert model.certificate == make().certificate


def test_weights_without_values_prove_nothing() -> None:
    model = polynomial()
    model.to("meta")
    with pytest.raises(WeightMismatchError, match="meta device"):
        _ = model.certificate
    model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(7.0)
    with pytest.raises(WeightMismatchError, match="the module has"):
        _ = model.certificate


@pytest.fixture
def reduced() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("reduced")
@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (polynomial, torch.float32),
        (polynomial, torch.float16),
        (polynomial, torch.bfloat16),
        (lambda **options: polynomial(executor="literal", **options), torch.float32),
        (lambda **options: polynomial("literal", construction="softmax", **options), torch.float32),
        (coupling, torch.float32),
        (lambda **options: coupling(executor="literal", **options), torch.float32),
    ],
)
def test_reduced_products_are_refused_wherever_the_arithmetic_is_float32(
    make: Callable[..., Any], dtype: torch.dtype
) -> None:
    model = make(dtype=dtype)
    with pytest.raises(ExecutionError, match="reduced precision"):
        model(example(model).to(dtype))
    if isinstance(model, ef.PolynomialModel):
        with pytest.raises(ExecutionError, match="reduced precision"):
            model.trace(example(model)[0])


@pytest.mark.usefixtures("reduced")
@pytest.mark.parametrize("name", FAMILIES)
def test_reduced_products_do_not_concern_float64(name: str) -> None:
    model = FAMILIES[name]()
    assert model(example(model)).dtype == torch.float64


@pytest.mark.skipif(
    not hasattr(torch.backends, "fp32_precision"), reason="settings of torch 2.9 and later"
)
@pytest.mark.parametrize("setting", ["", "cuda.matmul", "mkldnn", "mkldnn.matmul"])
def test_the_settings_of_single_backends_count(setting: str) -> None:
    def forget() -> None:
        for place in ("cuda.matmul", "mkldnn.matmul", "mkldnn", ""):
            owner_of(place)(torch.backends).fp32_precision = "none"

    def owner_of(place: str) -> Callable[[Any], Any]:
        return operator.attrgetter(place) if place else lambda owner: owner

    model = polynomial(dtype=torch.float16)
    forget()
    try:
        owner_of(setting)(torch.backends).fp32_precision = "tf32"
        with pytest.raises(ExecutionError, match="reduced precision"):
            model(example(model))
        owner_of(setting)(torch.backends).fp32_precision = "ieee"
        assert bool(model(example(model)).isfinite().all())
    finally:
        forget()
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", ["ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"])
def test_the_environment_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN reads it, and torch does not report it."""
    model = polynomial(dtype=torch.float32)
    for mode, reduced in (("BF16", True), ("any", True), ("STRICT", False)):
        monkeypatch.setenv(name, mode)
        precision._is_reduced_from_outside.cache_clear()
        try:
            if reduced:
                with pytest.raises(ExecutionError, match="reduced precision"):
                    model(example(model))
            else:
                assert bool(model(example(model)).isfinite().all())
        finally:
            monkeypatch.undo()
            precision._is_reduced_from_outside.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("executor", ["fused", "literal"])
@pytest.mark.parametrize("coarse", [torch.bfloat16, torch.float16])
def test_autocast_does_not_move_the_boundary(
    executor: str, dtype: torch.dtype, coarse: torch.dtype
) -> None:
    model = ef.compile("x^2 + y^2", radius="1.0015", executor=executor, dtype=dtype)
    marking = ef.compile(
        "x^2 + y^2", radius="1.0015", executor=executor, dtype=dtype, outside="nan"
    )
    x = torch.tensor([[1.0018, 0.0]])
    with torch.autocast("cpu", dtype=coarse):
        with pytest.raises(ef.errors.OutsideDomainError):
            model(x)
        with pytest.raises(ef.errors.OutsideDomainError):
            model.trace(x[0])
        assert bool(marking(x).isnan())
        assert bool(torch.vmap(marking)(x).isnan())


@pytest.mark.parametrize("name", FAMILIES)
def test_autocast_changes_no_value(name: str) -> None:
    model = FAMILIES[name]()
    x = example(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        coarse = model(x)
    assert torch.equal(coarse, model(x))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("executor", ["fused", "literal"])
@pytest.mark.parametrize("domain", [None, [(-1, 3), (0, 2)]])
def test_a_traced_program_marks_what_is_outside(executor: str, domain: Any) -> None:
    options: dict[str, Any] = {"executor": executor, "domain": domain}
    model = ef.compile("x^2 + x y", outside="nan", **options)
    x = torch.tensor([[0.5, 0.25], [0.25, 0.5]], dtype=torch.float64)
    traced = torch.jit.trace(model, (x,))
    many = torch.cat([x, 20 * x, x])
    assert traced(many).isnan().tolist() == [False, False, True, True, False, False]
    assert torch.allclose(traced(x), model(x), rtol=1e-12)
    with pytest.raises(ExecutionError, match=r"torch\.jit.*outside='nan' or 'allow'"):
        torch.jit.trace(ef.compile("x^2 + x y", **options), (x,))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_traced_program_rounds_no_points() -> None:
    model = ef.compile("x^2 + x y", outside="nan", dtype=torch.float32)
    with pytest.raises(InputError, match="rounding them"):
        torch.jit.trace(model, (torch.tensor([[0.5, 0.25]], dtype=torch.float64),))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_what_would_be_frozen_or_left_out_is_refused(name: str) -> None:
    model = FAMILIES[name]()
    with pytest.raises(ExecutionError, match=r"torch\.jit"):
        torch.jit.trace(model, (example(model),))
    with pytest.raises(ExecutionError, match=r"torch\.jit\.script"):
        torch.jit.script(model)
    with pytest.raises(ExecutionError, match=r"torch\.fx"):
        torch.fx.symbolic_trace(model)


def inputs(model: ProvenModule) -> Iterator[Any]:
    """Other ways of writing one input."""
    x = example(model)
    wide = torch.empty(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    wide[..., ::2] = x
    yield wide[..., ::2]
    yield x.transpose(0, -1).contiguous().transpose(0, -1)
    yield np.flip(np.flip(x.numpy()).copy())  # negative strides
    yield torch.complex(torch.zeros_like(x), -x).conj().imag  # a lazy minus sign
    read_only = x.numpy().copy()
    read_only.flags.writeable = False
    yield read_only
    yield x.tolist()
    yield x.clone().requires_grad_()
    with torch.inference_mode():
        yield x.clone()


@pytest.mark.parametrize("name", FAMILIES)
def test_values_do_not_depend_on_how_an_input_lies_in_memory(name: str) -> None:
    model = FAMILIES[name]()
    expected = model(example(model))
    for x in inputs(model):
        assert torch.equal(model(x).detach(), expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_numbers_that_are_not_real_and_dense_are_refused(name: str) -> None:
    model = FAMILIES[name]()
    x = example(model)
    for wrong in (
        x.numpy().astype(complex),
        x.numpy() > 0,
        x.to(torch.complex128),
        x.to(torch.float8_e4m3fn),
        x.to_sparse(),
    ):
        with pytest.raises(InputError, match="must be"):
            model(wrong)


@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_a_coupling_rounds_no_input_silently(executor: str) -> None:
    model = coupling(executor=executor, dtype=torch.float32)
    with pytest.raises(InputError, match="rounding them"):
        model(np.array([0.1, 0.2, 0.3]))
    assert torch.equal(model([0.1, 0.2, 0.3]), model(np.array([0.1, 0.2, 0.3], np.float32)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_default_format_of_torch_does_not_matter(dtype: torch.dtype) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        found = {name: make() for name, make in FAMILIES.items() if "soft" not in name}
    finally:
        torch.set_default_dtype(before)
    for name, model in found.items():
        expected = FAMILIES[name]()
        assert torch.equal(model(example(expected)), expected(example(expected))), name
        check_against_blueprint(model)


def test_a_file_of_weights_goes_round(model: ProvenModule) -> None:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file, weights_only=True))
    assert statement(model) is not None


def test_a_single_head_may_not_be_exchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = polynomial(executor="literal")
    monkeypatch.setattr(LiteralHead, "forward", lambda self, stream, selection, record: stream)
    assert_refused(model, "methods of LiteralHead", tmp_path)


def test_a_model_compiled_in_place_is_not_the_proven_program() -> None:
    """Its sums may be taken in another order; torch.compile(model) leaves the model as it is."""
    model = polynomial()
    fast = torch.compile(model, backend="eager")
    assert float(fast([0.5, 1.0])) == float(model([0.5, 1.0]))
    assert model.certificate == ef.certify(model)
    model.compile(backend="eager")
    with pytest.raises(WeightMismatchError, match="_compiled_call_impl"):
        _ = model.certificate


def test_subclasses_are_not_what_was_proven() -> None:
    class Shifted(ef.PolynomialModel):
        def forward(self, x: Any) -> Tensor:
            return super().forward(x) + 1

    model = polynomial()
    shifted = Shifted(model.blueprint, Proof(model.certificate))
    with pytest.raises(WeightMismatchError, match="Shifted"):
        ef.certify(shifted)
