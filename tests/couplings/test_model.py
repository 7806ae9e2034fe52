"""``ef.compile_coupling``: couplings in, transformers with bounds out."""

import copy
import pickle

import numpy as np
import pytest
import torch

import exactformer as ef
from exactformer.errors import (
    ExecutionError,
    InputError,
    SizeError,
    WeightMismatchError,
)
from exactformer.targets import Coupling, sine_family
from exactformer.theory import bound, pod

ROUND = torch.finfo(torch.float32).eps / 2


def waves(tau: int = 4, positions=None) -> Coupling:
    return Coupling(
        np.tanh,
        lambda u: np.cos(2 * u),
        lambda u, v: 2 * np.exp(-((u - v) ** 2) / 2),
        tau,
        positions=positions,
        name="waves",
    )


@pytest.mark.parametrize(("rank", "ff_width"), [(2, 16384), (6, 65536)])
def test_a_coupling_of_finite_rank_reaches_the_float32_floor_at_its_rank(rank, ff_width):
    """The floor: the error of the target itself, evaluated in float32."""
    target = sine_family(1 / np.arange(1, rank + 1.0), tau=16)
    found = pod(target.rho, measure="probability")
    model = ef.compile_coupling(target, rank, ff_width, decomposition=found, dtype=torch.float32)
    x = torch.tensor(target.sample(500), dtype=torch.float32)
    exact = target(x.double())
    floor = float((target(x) - exact).square().mean())
    with torch.no_grad():
        error = float((model(x) - exact).square().mean())
    assert error < 2 * floor
    assert floor < (2 * ROUND) ** 2
    one_less = ef.compile_coupling(target, rank - 1, 256, decomposition=found)
    assert one_less.measure(samples=200).mean_squared > 1e4 * floor


@pytest.mark.parametrize("rank", [2, 6])
def test_in_float64_the_error_falls_as_the_square_of_the_width(rank):
    target = sine_family(1 / np.arange(1, rank + 1.0), tau=8)
    found = pod(target.rho, measure="probability")
    errors = [
        ef.compile_coupling(target, rank, n, decomposition=found).measure(samples=200).value
        for n in (256, 1024, 4096)
    ]
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(16, rel=0.2)


@pytest.mark.parametrize("executor", ["fused", "literal"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_measured_errors_stay_within_their_terms(executor, dtype):
    model = ef.compile_coupling(waves(), 3, 64, executor=executor, dtype=dtype)
    error, terms = model.measure(samples=500), model.certificate.rounded().parts
    assert error.value <= model.certificate.bound()
    assert error.mean_squared <= model.certificate.rounded().mean_squared
    assert error.parts["truncation"].value <= terms["truncation"]
    middle = sum(value for name, value in terms.items() if "interpolation" in name)
    assert error.parts["interpolation"].value <= middle
    assert error.parts["rounding"].value <= terms["rounding"]
    assert sum(terms.values()) == pytest.approx(model.certificate.bound())


def test_the_bound_predicted_from_the_target_holds_for_the_model_too():
    target = waves()
    model = ef.compile_coupling(target, 3, 64)
    assert model.measure(samples=500).value <= bound(target, 3, 64).total
    assert model.certificate.rounded().tail == pytest.approx(bound(target, 3, 64).tail, rel=0.01)


def test_parts_shrink_with_what_mends_them():
    target = waves()
    small = ef.compile_coupling(target, 1, 16).measure(samples=500).parts
    longer = ef.compile_coupling(target, 4, 16).measure(samples=500).parts
    wider = ef.compile_coupling(target, 1, 64).measure(samples=500).parts
    assert longer["truncation"].value < 0.2 * small["truncation"].value
    assert wider["interpolation"].value < 0.2 * small["interpolation"].value
    assert wider["truncation"].value == pytest.approx(small["truncation"].value)


def test_without_positions_the_model_is_equivariant_and_with_them_it_need_not_be():
    x = torch.tensor(waves().sample(5))
    order = torch.tensor([2, 0, 3, 1])
    plain = ef.compile_coupling(waves(), 2, 64)
    assert torch.allclose(plain(x[:, order]), plain(x)[:, order], atol=1e-14)
    placed = ef.compile_coupling(waves(positions=np.array([0.0, 2, 6, 4])), 2, 64)
    assert not torch.allclose(placed(x[:, order]), placed(x)[:, order], atol=1e-3)


def test_positions_are_no_hindrance():
    target = waves(positions=np.array([0.0, 2, 6, 4]))
    for executor in ("fused", "literal"):
        model = ef.compile_coupling(target, 8, 256, executor=executor)
        error = model.measure(samples=500)
        assert error.value <= model.certificate.bound()
        assert error.value < 0.01


def test_attention_is_that_of_the_target():
    target = sine_family([1.0, 0.5], tau=5)
    model = ef.compile_coupling(target, 2, 4096)
    x = target.sample(20)
    assert np.abs(model.attention(x).detach().numpy() - target.attention(x)).max() < 1e-5


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 3, 4), (0, 4)])
def test_any_number_of_leading_axes(shape):
    model = ef.compile_coupling(waves(), 2, 16)
    x = np.random.default_rng(0).uniform(size=shape)
    assert model(x).shape == shape
    assert model(x.tolist() or np.zeros(shape)).shape == shape
    assert model.attention(x).shape == (*shape, 4)


def test_two_values_are_averaged_and_read_by_a_function_of_two_numbers():
    target = Coupling(
        lambda h: h[..., 1] - h[..., 0] ** 2,  # the variance under attention
        lambda u: np.stack([u, u**2], axis=-1),
        lambda u, v: 2 * u * v,
        3,
    )
    for executor in ("fused", "literal"):
        model = ef.compile_coupling(target, 1, 256, executor=executor)
        error = model.measure(samples=300)
        assert error.value <= model.certificate.bound() < 0.05
    assert model.blueprint.dimensions == ("phi_1", "psi_1", "value_1", "value_2")


def test_one_value_may_come_as_a_vector_of_one():
    target = Coupling(lambda h: h[..., 0] * 2, lambda u: u[..., None], lambda u, v: u * v, 3)
    model = ef.compile_coupling(target, 1, 16)
    assert model.measure(samples=50).value <= model.certificate.bound() < 0.02


@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_saved_models_come_back_with_their_bound(tmp_path, executor):
    target = waves(positions=np.array([0.0, 2, 6, 4]))
    model = ef.compile_coupling(target, 2, 32, executor=executor)
    model.save(tmp_path / "model.safetensors")
    loaded = ef.load(tmp_path / "model.safetensors", executor=executor)
    x = target.sample(10)
    assert torch.equal(loaded(x), model(x))
    assert loaded.certificate.rounded() == model.certificate.rounded()
    assert loaded.measure(target, samples=100).value == model.measure(samples=100).value
    with pytest.raises(InputError, match="holds no functions"):
        loaded.measure(samples=100)


@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_the_bound_follows_the_number_format(executor):
    model = ef.compile_coupling(waves(), 2, 37, executor=executor)
    exact, x = model.certificate.rounded().rounding, waves().sample(5).astype(np.float32)
    outputs = model(x)
    assert model.float().certificate.rounded().rounding > 1e6 * exact
    assert model(x).dtype == torch.float32
    direct = ef.compile_coupling(waves(), 2, 37, executor=executor, dtype=torch.float32)
    assert torch.equal(model(x), direct(x))
    assert model.double().certificate.rounded().rounding == exact
    assert torch.equal(model(x), outputs)  # nothing was lost on the way


def test_trained_weights_have_no_bound_and_are_saved_as_they_are(tmp_path):
    target = waves()
    model = ef.compile_coupling(target, 1, 16)
    x = torch.tensor(target.sample(256))
    y = target(x.numpy())
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    before = model.measure(samples=500).mean_squared
    for _ in range(60):
        optimiser.zero_grad()
        (model(x) - torch.tensor(y)).square().mean().backward()
        optimiser.step()
    assert model.measure(samples=500).mean_squared < 0.5 * before
    assert list(model.measure(samples=500).parts) == ["model"]
    with pytest.raises(WeightMismatchError, match="trained"):
        _ = model.certificate.rounded()
    assert "no bound holds" in str(model)
    model.save(tmp_path / "model.safetensors")
    loaded = ef.load(tmp_path / "model.safetensors")
    assert torch.equal(loaded(x), model(x))
    with pytest.raises(WeightMismatchError, match="no bound"):
        _ = loaded.certificate.rounded()


def test_trained_layers_are_not_passed_off_as_interpolants(tmp_path):
    model = ef.compile_coupling(waves(), 1, 16, executor="literal")
    with torch.no_grad():
        model.network.feed_forward[0].bias[3] += 1
    with pytest.raises(WeightMismatchError, match="not interpolants any more"):
        model.save(tmp_path / "model.safetensors")


def test_copies_are_equal_and_pickles_refused():
    model = ef.compile_coupling(waves(), 2, 16, dtype=torch.float32)
    x = waves().sample(3).astype(np.float32)
    assert torch.equal(copy.deepcopy(model)(x), model(x))
    with pytest.raises(ExecutionError, match="not pickled"):
        pickle.dumps(model)


def test_printing_explains():
    text = str(ef.compile_coupling(waves(), 2, 32))
    for part in (
        "phi_1, phi_2, psi_1, psi_2, value_1",
        "1 → 64 → 33 → 5",
        "truncation",
        "rounding",
    ):
        assert part in text
    assert "E Σ_t |H_t − Ĥ_t|" in str(ef.compile_coupling(waves(), 2, 32).measure(samples=10))


def test_what_cannot_be_done_is_said():
    model = ef.compile_coupling(waves(), 2, 16)
    with pytest.raises(InputError, match=r"holds on \[0, 1\] only, and 1.5 is outside"):
        model([0.0, 0.5, 1.0, 1.5])
    with pytest.raises(InputError, match="4 numbers each"):
        model([0.0, 0.5])
    with pytest.raises(InputError, match="finite"):
        model([0.0, 0.5, float("nan"), 0.1])
    with pytest.raises(InputError, match="must be numbers"):
        model("abcd")
    vectors = Coupling(np.sin, lambda u: u[..., 0], lambda u, v: u @ v, 3, [(0, 1), (0, 1)])
    with pytest.raises(InputError, match="scalar tokens"):
        ef.compile_coupling(vectors, 2, 16)
    with pytest.raises(InputError, match="head_dim=0"):
        ef.compile_coupling(waves(), 0, 16)
    with pytest.raises(InputError, match="ff_width=0"):
        ef.compile_coupling(waves(), 1, 0)
    with pytest.raises(InputError, match="choose one of fused, literal"):
        ef.compile_coupling(waves(), 1, 4, executor="quantum")
    with pytest.raises(InputError, match="samples must be an integer of at least 2, not 1"):
        model.measure(samples=1)
    with pytest.raises(InputError, match=r"5 tokens of \(0.0, 1.0\), the model 4"):
        model.measure(waves(5), samples=10)
    with pytest.raises(InputError, match="a coupling is wanted"):
        ef.compile_coupling(np.sin, 1, 4)


def test_sizes_are_predicted_and_refused_with_figures():
    with pytest.raises(
        SizeError, match="need 11,000,000,011 values at knots; the limit is 67,108,864"
    ):
        ef.compile_coupling(waves(), 5, 10**9)
    with pytest.raises(SizeError, match="GiB as dense matrices"):
        ef.compile_coupling(waves(), 1, 2**14, executor="literal")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"f": lambda u: u if u > 0 else -u}, r"f must take NumPy arrays.*np\.vectorize"),
        ({"F": lambda h: np.stack([h, h], axis=-1)}, "F must give one number a token, not 2"),
        ({"F": lambda h: np.sqrt(h - 0.5 + 0j)}, "F must give a real number.*complex128"),
        ({"f": lambda u: np.where(u > 0.4, np.nan, u)}, "f is not finite at 0.5"),
        ({"rho": lambda u, v: 1j * u * v}, "real, not complex"),
    ],
)
def test_functions_that_no_network_has_are_refused(changes, says):
    functions = {"F": lambda h: h, "f": lambda u: u, "rho": lambda u, v: u * v} | changes
    with pytest.raises(InputError, match=says):
        ef.compile_coupling(Coupling(**functions, tau=3), 1, 4)


@pytest.mark.parametrize("sizes", [{"head_dim": 1.5}, {"head_dim": "1"}, {"ff_width": 3.5}])
def test_sizes_are_whole_numbers(sizes):
    with pytest.raises(InputError, match="must be a whole number"):
        ef.compile_coupling(waves(), **{"head_dim": 1, "ff_width": 4} | sizes)
    with pytest.raises(InputError, match="is not one of float64"):
        ef.compile_coupling(waves(), 1, 4, dtype=torch.int64)
