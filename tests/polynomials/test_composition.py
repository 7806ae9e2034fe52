"""The compiled model inside everything else one does with modules."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import shutil
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import joblib
import pytest
import torch
from torch import Tensor, nn

import exactformer as ef
from exactformer.errors import ExecutionError, OutsideDomainError, RoundingError
from tests.cases.exports import inner_points, model_of

EXECUTORS = ("fused", "literal")
# torch's own: its compiler calls what torch.jit deprecates, its attention knows no vmap yet
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]
needs_compiler = pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")),
    reason="torch.compile needs a C++ compiler",
)


def points_of(model: ef.PolynomialModel, count: int = 12) -> Tensor:
    return torch.from_numpy(inner_points(model, count))


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().abs().max())


def allowed(model: ef.PolynomialModel) -> float:
    """How far two ways of summing may lie apart."""
    return 2 * model.certificate.bound(model.dtype, model.executor)


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.mark.spread(1)
@pytest.mark.parametrize(
    ("executor", "outside"), [("fused", "nan"), ("fused", "allow"), ("literal", "nan")]
)
def test_the_whole_model_is_one_graph_for_the_compiler(executor: str, outside: str) -> None:
    model = model_of("vector", executor=executor, outside=outside, dtype=torch.float32)
    fast = torch.compile(model, fullgraph=True, backend="eager", dynamic=True)
    for count in (5, 3000):
        x = points_of(model, count)
        assert difference(fast(x), model(x)) <= allowed(model)
    far = fast(torch.full((2, 2), 9.0))
    assert bool(far.isnan().all()) == (outside == "nan")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_compiled_code_stays_within_the_certificate(executor: str, dtype: torch.dtype) -> None:
    model = model_of("f2", executor=executor, outside="nan", dtype=dtype)
    fast = torch.compile(model, fullgraph=True)
    x = points_of(model, 200)
    assert difference(fast(x), model(x)) <= allowed(model)


def test_compilation_keeps_what_raises() -> None:
    """Control flow that depends on data breaks the graph, not the promise."""
    model = model_of("box")
    fast = torch.compile(model, backend="eager")
    x = points_of(model)
    assert difference(fast(x), model(x)) <= allowed(model)
    with pytest.raises(OutsideDomainError, match="1 of 1 points"):
        fast(torch.full((1, 2), 9.0, dtype=torch.float64))


def test_compiled_code_notices_reduced_precision() -> None:
    model = model_of("box", dtype=torch.float32, outside="nan")
    fast = torch.compile(model, backend="eager")
    x, before = points_of(model), torch.get_float32_matmul_precision()
    fast(x)
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(ExecutionError, match="reduced precision"):
            fast(x)
    finally:
        torch.set_float32_matmul_precision(before)
    assert difference(fast(x), model(x)) <= allowed(model)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("name", "executor"), [("vector", "fused"), ("vector", "literal"), ("softmax", "literal")]
)
@pytest.mark.parametrize("outside", ["nan", "allow"])
def test_vmap_is_the_batch(name: str, executor: str, outside: str) -> None:
    model = model_of(name, executor=executor, outside=outside)
    x = points_of(model)
    assert difference(torch.vmap(model)(x), model(x)) <= allowed(model)
    if outside == "nan":
        marked = torch.vmap(model)(torch.cat([x[:1], 9 + x[:1]])).isnan()
        assert marked[:, 0].tolist() == [False, True]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_derivatives_are_those_of_the_polynomial(executor: str) -> None:
    """x³ + xy has gradient (3x² + y, x) and Hessian ((6x, 1), (1, 0))."""
    model = model_of("box", executor=executor)
    free = model_of("box", executor=executor, outside="nan")
    x = points_of(model)
    a, b = x.T
    gradient = torch.stack([3 * a**2 + b, a], dim=1)
    one, zero = torch.ones_like(a), torch.zeros_like(a)
    hessian = torch.stack([6 * a, one, one, zero], dim=1).reshape(-1, 2, 2)
    found = {
        "grad": torch.stack([torch.func.grad(model)(p) for p in x]),
        "jacrev": torch.func.jacrev(model)(x).diagonal().T,
        "jacfwd": torch.func.jacfwd(model)(x).diagonal().T,
        "vmap of jacrev": torch.vmap(torch.func.jacrev(free))(x),
        "vmap of grad": torch.vmap(torch.func.grad(free))(x),
    }
    for name, value in found.items():
        assert torch.allclose(value, gradient, rtol=1e-11, atol=1e-11), name
    second = torch.vmap(torch.func.hessian(free))(x)
    assert torch.allclose(second, hessian, rtol=1e-10, atol=1e-10)


def test_what_cannot_be_checked_is_refused_with_the_way_out() -> None:
    model = model_of("box")
    with pytest.raises(ExecutionError, match="outside='nan' or 'allow'"):
        torch.vmap(model)(points_of(model))
    with pytest.raises(ExecutionError, match="meta device"):
        copy.deepcopy(model).to("meta")(torch.zeros(3, 2, device="meta", dtype=torch.float64))


def test_shapes_can_be_had_without_weights() -> None:
    model = model_of("vector", outside="nan").to("meta")
    x = torch.zeros(4, 3, 2, device="meta", dtype=torch.float64)
    assert model(x).shape == (4, 3, 3)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_state_dict_goes_round_and_is_strict(executor: str) -> None:
    model, other = model_of("paper", executor=executor), model_of("paper", executor=executor)
    with torch.no_grad():
        for tensor in other.state_dict().values():
            tensor.zero_()
    x = points_of(model)
    assert not torch.equal(other(x), model(x))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), model(x))
    short = dict(list(model.state_dict().items())[1:])
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict(short)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict(model.state_dict() | {"stray": torch.zeros(1)})
    with pytest.raises(RuntimeError, match="size mismatch"):
        other.load_state_dict(model_of("f2", executor=executor).state_dict(), strict=False)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy])
def test_copies_compute_the_same(executor: str, copied: Callable[[Any], Any]) -> None:
    model = model_of("chebyshev", executor=executor, outside="nan")
    twin = copied(model)
    x = points_of(model)
    assert torch.equal(twin(x), model(x))
    assert (twin.outside, twin.executor, twin.certificate) == ("nan", executor, model.certificate)
    both = copied(nn.Sequential(model, nn.Tanh()))
    assert torch.equal(both(x), model(x).tanh())


def test_a_deep_copy_is_independent_and_keeps_what_was_learnt() -> None:
    model = model_of("box", executor="fused").requires_grad_()
    with torch.no_grad():
        model.transformer.bias.add_(1)
    twin = copy.deepcopy(model)
    assert all(p.requires_grad for p in twin.parameters())
    x = points_of(model)
    before = twin(x)
    with torch.no_grad():
        model.transformer.bias.add_(1)
    assert torch.equal(twin(x), before)
    assert difference(model(x), before + 1) < 1e-12


@pytest.mark.parametrize("executor", EXECUTORS)
def test_moving_to_another_format_moves_the_bound(executor: str) -> None:
    model, exact = model_of("box", executor=executor), model_of("box", executor=executor)
    x = points_of(model).float()
    for moved in (model.to(torch.float32), copy.deepcopy(model).float()):
        values = moved(x)
        assert values.dtype is torch.float32
        allowed = sum(exact.certificate.bound(f, executor) for f in ("float32", "float64"))
        assert difference(values.double(), exact(x.double())) <= allowed
    assert torch.equal(model.to("cpu")(x), model(x))


def test_a_format_without_a_bound_does_not_run_anywhere() -> None:
    model = ef.compile("x^2 + 100000", outside="allow").half()
    x = torch.zeros(2, 1, dtype=torch.float16)
    with pytest.raises(RoundingError, match="no bound for literal"):
        model(x)
    with pytest.raises(RoundingError, match="no bound for literal"):
        torch.export.export(model, (x,))


class Replicas:
    """``torch.nn.parallel.replicate`` with the devices' memory left out: every copy is on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module = importlib.import_module("torch.nn.parallel.replicate")
        monkeypatch.setattr(self.module, "_get_device_index", lambda device, optional: device)
        monkeypatch.setattr(self.module, "_broadcast_coalesced_reshape", self._copies)

    @staticmethod
    def _copies(tensors: Sequence[Tensor], devices: Sequence[int], detach: bool) -> Any:
        return [[(t.detach() if detach else t).clone() for t in tensors] for _ in devices]

    def of(self, model: nn.Module, count: int) -> list[nn.Module]:
        replicas: list[nn.Module] = self.module.replicate(model, list(range(count)))
        return replicas


@pytest.mark.parametrize(
    ("name", "executor"),
    [("f2", "fused"), ("f2", "literal"), ("chebyshev", "fused"), ("softmax", "literal")],
)
def test_replicas_for_data_parallel_compute_the_same(
    name: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(name, executor=executor).requires_grad_()
    x = points_of(model)
    for replica in Replicas(monkeypatch).of(model, 2):
        assert replica is not model
        assert list(replica.parameters()) == []
        assert torch.equal(replica(x), model(x))
        model.zero_grad()
        replica(x).sum().backward()
        assert all(p.grad is not None for p in model.parameters())
    assert torch.equal(nn.DataParallel(model)(x), model(x))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_gradients_flow_through_a_larger_network(executor: str) -> None:
    law = model_of("box", executor=executor, outside="allow")
    torch.manual_seed(0)
    head = nn.Unflatten(0, (-1, 1))
    network = nn.Sequential(nn.Linear(3, 2), nn.Sigmoid(), law, head, nn.Linear(1, 1)).double()
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    network(x).sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())
    assert all(p.grad is None for p in law.parameters())
    law.requires_grad_()
    assert torch.autograd.gradcheck(network, (x,))
    network(x).sum().backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in law.parameters())


@pytest.mark.parametrize(
    "send",
    [
        pickle.dumps,
        ForkingPickler.dumps,  # what multiprocessing sends its arguments with
        joblib.hash,
        lambda model: torch.save(model, io.BytesIO()),
        lambda model: torch.save(nn.Sequential(model), io.BytesIO()),
    ],
)
def test_models_are_never_pickled(send: Callable[[Any], object]) -> None:
    with pytest.raises(ExecutionError, match=r"model\.save\(path\) and exactformer\.load\(path\)"):
        send(model_of("constant"))
