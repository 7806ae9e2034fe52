"""Ways of running equation (5): layers, tables, many models at a time; values, gradients, rounding."""

from dataclasses import replace
from math import pi, sqrt

import numpy as np
import pytest
import torch

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.construction import draw_coupling
from exactformer.couplings.proof.rounding import rounding_bound
from exactformer.couplings.run.fused import FusedCoupling
from exactformer.couplings.run.kuhn_tables import KuhnTable
from exactformer.couplings.run.literal import LiteralCoupling
from exactformer.couplings.run.tables import KnotTable
from exactformer.errors import InputError, RoundingError, SizeError

FORMATS = [torch.float64, torch.float32]


def drawn(
    head_dim: int = 2, positions=None, vector: bool = False, domain=(0.0, 1.0), width: int = 24
) -> CouplingBlueprint:
    def phi(u):
        return np.sin(np.multiply.outer(u, np.arange(1, head_dim + 1)))

    def psi(u):
        return np.cos(np.multiply.outer(u, np.arange(1, head_dim + 1)))

    def f(u):
        return np.stack([u, np.sin(3 * u)], axis=-1) if vector else np.sin(2 * u)

    def outer(h):
        return h[..., 0] * h[..., 1] if vector else np.tanh(2 * h)

    return draw_coupling(
        phi,
        psi,
        f,
        outer,
        tau=4,
        head_dim=head_dim,
        ff_width=width,
        domain=domain,
        positions=positions,
    )


CASES = {
    "plain": {},
    "positions": {"positions": (0.0, 4.0, 2.0, 6.0)},
    "odd positions": {"positions": (0.1, 3.7, 1.3, 8.0), "width": 37, "domain": (-0.3, 0.4)},
    "two values": {"vector": True},
    "odd interval": {"domain": (0.1, 0.73), "width": 37},
}


def sequences(blueprint: CouplingBlueprint, dtype: torch.dtype, count: int = 40) -> torch.Tensor:
    low, high = (float(end) for end in blueprint.domain)
    points = np.random.default_rng(0).uniform(low, high, (count, blueprint.tau))
    return torch.tensor(points).to(dtype).clamp(low, high)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_layers_and_tables_agree_within_the_bound_on_rounding(case, dtype):
    blueprint = drawn(**CASES[case])
    x = sequences(blueprint, dtype)
    literal, fused = LiteralCoupling(blueprint, dtype), FusedCoupling.of(blueprint, dtype)
    exact = FusedCoupling.of(blueprint, torch.float64)(x.double())
    room = rounding_bound(blueprint, torch.float64, "fused")
    for name, found in (("literal", literal(x)), ("fused", fused(x))):
        bound = rounding_bound(blueprint, dtype, name)
        assert float((found.double() - exact).detach().abs().max()) <= bound + room
        assert bound < 0.02 if dtype == torch.float32 else bound < 1e-10


def test_layers_and_tables_agree_where_means_leave_the_box():
    blueprint = drawn(vector=True)
    values = blueprint.features.values.copy()
    values[:, -2:] += 0.5
    moved = replace(blueprint, features=replace(blueprint.features, values=values))
    x = sequences(moved, torch.float64)
    gap = LiteralCoupling(moved)(x) - FusedCoupling.of(moved)(x)
    room = sum(rounding_bound(moved, torch.float64, name) for name in ("literal", "fused"))
    assert float(gap.detach().abs().max()) <= room < 1e-10


@pytest.mark.parametrize("factor", [1e25, 1e40], ids=["scores", "values"])
def test_numbers_beyond_the_format_have_no_rounding_bound(factor):
    """float32 ends at 3.4e38; products of queries and keys are numbers of it, too."""
    blueprint = drawn()
    large = replace(blueprint.features, values=blueprint.features.values * factor)
    for executor in ("fused", "literal"):
        with pytest.raises(RoundingError, match="float32"):
            rounding_bound(replace(blueprint, features=large), torch.float32, executor)
        assert rounding_bound(replace(blueprint, features=large), torch.float64, executor) > 0


def test_an_interval_whose_ends_round_to_one_number_has_no_rounding_bound():
    blueprint = drawn(domain=(1000.0, 1000.25))
    with pytest.raises(RoundingError, match="bfloat16"):
        rounding_bound(blueprint, torch.bfloat16, "fused")


@pytest.mark.parametrize("executor", ["fused", "literal"])
def test_values_that_underflow_are_within_the_bound_on_rounding(executor):
    blueprint = drawn()
    small = replace(blueprint.outer, values=np.full_like(blueprint.outer.values, 1e-46))
    assert rounding_bound(replace(blueprint, outer=small), torch.float32, executor) >= 1e-46


@pytest.mark.parametrize("case", CASES)
def test_attention_is_the_softmax_of_queries_and_keys(case):
    blueprint = drawn(**CASES[case])
    x = sequences(blueprint, torch.float64)
    offsets = np.array([float(e) for e in blueprint.positions or (0,) * 4])
    hidden = torch.tensor(blueprint.features(x.numpy() + offsets))
    m = blueprint.head_dim
    wanted = torch.softmax(hidden[..., :m] @ hidden[..., m : 2 * m].mT, dim=-1)
    for network in (LiteralCoupling(blueprint), FusedCoupling.of(blueprint)):
        found = network.attention(x)
        assert torch.allclose(found, wanted, atol=1e-12)
        assert torch.allclose(found.sum(-1), torch.ones(()).double(), atol=1e-14)


def test_the_literal_module_is_made_of_the_blueprint_s_matrices():
    blueprint = drawn()
    network = LiteralCoupling(blueprint)
    wanted = {"query": blueprint.query, "key": blueprint.key, "value": blueprint.value}
    for name, matrix in wanted.items():
        weight = getattr(network, name).weight.detach()
        assert {(i, j): float(weight[i, j]) for i, j in torch.nonzero(weight).tolist()} == dict(
            matrix.entries
        )
    sizes = [layer.weight.shape for layer in network.feed_forward if hasattr(layer, "weight")]
    assert sizes == [layer.weight.shape for layer in blueprint.features.layers()]


def test_gathering_and_multiplying_by_hats_are_one_function():
    values = torch.randn(3, 2 * 9, 4, dtype=torch.float64, generator=torch.manual_seed(0))
    x, segment = torch.rand(7, 2).double() * 2.4 - 0.2, torch.arange(2)
    gather, hats = (KnotTable(values, 0.0, 2.0, 2, method) for method in ("gather", "hats"))
    assert torch.allclose(gather(x, segment), hats(x, segment), atol=1e-13)
    for table in (gather, hats):
        table(x, segment).pow(2).sum().backward()
    assert torch.allclose(gather.values.grad, hats.values.grad, atol=1e-12)


def test_a_table_of_models_gives_what_each_gives_alone():
    values = torch.randn(3, 9, 4, dtype=torch.float64, generator=torch.manual_seed(0))
    table, x = KnotTable(values), torch.rand(3, 5, 6).double()
    own = table(x, per_model=True)
    assert table(x[0]).shape == (3, 5, 6, 4)
    for m in range(3):
        assert torch.equal(KnotTable(values[m])(x[m]), own[m])
        assert torch.equal(table(x[m])[m], own[m])


def test_a_box_of_models_gives_what_each_gives_alone():
    values = torch.randn(2, 27, 1, dtype=torch.float64, generator=torch.manual_seed(0))
    low, high = torch.tensor([[0.0, 0, 0], [-1, 0, 1]]), torch.tensor([[1.0, 2, 3], [1, 2, 3]])
    x = low[:, None] + torch.rand(2, 5, 3) * (high - low)[:, None]
    together = KuhnTable(values, low, high)(x.double(), per_model=True)
    for m in range(2):
        alone = KuhnTable(values[m], low[m], high[m])(x[m].double())
        assert torch.allclose(alone, together[m], atol=1e-14)


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("method", ["gather", "hats"])
def test_stacked_models_are_the_models(vector, method):
    blueprints = [drawn(m, vector=vector) for m in (1, 3, 2)]
    stacked = FusedCoupling.stack(blueprints, method=method)
    x = sequences(blueprints[0], torch.float64)
    found = stacked(x)
    assert found.shape == (3, *x.shape)
    assert torch.allclose(stacked(x.expand(3, *x.shape), per_model=True), found, atol=1e-13)
    for m, blueprint in enumerate(blueprints):
        assert torch.allclose(FusedCoupling.of(blueprint)(x), found[m], atol=1e-13)
        assert torch.allclose(FusedCoupling.of(blueprint).attention(x), stacked.attention(x)[m])


def test_training_leaves_the_padding_of_smaller_heads_at_zero():
    stacked = FusedCoupling.stack([drawn(1), drawn(3)])
    x = sequences(drawn(), torch.float64)
    optimiser = torch.optim.Adam(stacked.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = (stacked(x) - x).square().mean(dim=(1, 2))
        loss.sum().backward()
        optimiser.step()
        losses.append(loss.detach())
    assert (losses[-1] < losses[0]).all()
    values = stacked.features.values[0]
    assert (values[:, 1:3] == 0).all()
    assert (values[:, 4:6] == 0).all()


@pytest.mark.parametrize("method", ["gather", "hats"])
def test_gradients_are_those_of_differences(method):
    network = FusedCoupling.of(drawn(width=5), method=method)
    x = sequences(drawn(), torch.float64, 2).requires_grad_()
    parameters = dict(network.named_parameters())

    def outputs(x, *values):
        names = zip(parameters, values, strict=True)
        return torch.func.functional_call(network, dict(names), (x,))

    assert torch.autograd.gradcheck(outputs, (x, *parameters.values()))


def test_hats_keep_float32_accuracy_where_one_hidden_layer_loses_it():
    pieces = 4096
    knots = np.arange(pieces + 1) / pieces
    values = sqrt(2) * np.sin(12 * pi * knots)
    x = torch.tensor(np.random.default_rng(0).uniform(0, 1, 500), dtype=torch.float32)
    wanted = np.interp(x.double().numpy(), knots, values)
    slopes = np.diff(values) * pieces
    bends = np.concatenate([[slopes[0]], np.diff(slopes)])
    units = torch.relu(x[:, None] - torch.tensor(knots[:-1], dtype=torch.float32))
    one_layer = units @ torch.tensor(bends, dtype=torch.float32)
    table = torch.tensor(values, dtype=torch.float32)
    z = pieces * x[:, None] - torch.arange(pieces + 1)
    hats = torch.relu(1 - torch.relu(z) - torch.relu(-z)) @ table

    def worst(found: torch.Tensor) -> float:
        return float(np.abs(found.double().numpy() - wanted).max())

    assert worst(hats) < 4 * 2**-24 * sqrt(2)
    assert worst(one_layer) > 20 * worst(hats)


def test_dense_layers_that_would_not_fit_are_refused_with_figures():
    with pytest.raises(SizeError, match=r"36\.0 GiB as dense matrices; the limit is 1"):
        LiteralCoupling(drawn(width=3 * 2**14))


def test_tables_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="choose one of gather, hats"):
        KnotTable(torch.zeros(3, 1), method="guess")
    with pytest.raises(InputError, match="two knots"):
        KnotTable(torch.zeros(3, 1), segments=3)
    with pytest.raises(InputError, match="same number of knots on 2"):
        KnotTable(torch.zeros(3, 1), segments=2)
    with pytest.raises(InputError, match="do not make a grid"):
        KuhnTable(torch.zeros(7, 1), torch.zeros(2), torch.ones(2))
    with pytest.raises(InputError, match="same tokens, knots and value rows"):
        FusedCoupling.stack([drawn(width=8), drawn(width=9)])
