"""Couplings: equation (8) of Jiang and Li, by its own words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from exactformer.couplings.target import Sines, identity
from exactformer.errors import InputError
from exactformer.targets import Coupling, ProductKernel, sine_family


def gaussian(u, v):
    return -4 * (u - v) ** 2


def literal(target: Coupling, x: np.ndarray) -> np.ndarray:
    """Equation (8) for one sequence of scalars, sum by sum."""
    offsets = np.zeros(target.tau) if target.positions is None else target.positions
    tokens = x + offsets
    out = []
    for t in tokens:
        weights = np.array([np.exp(target.rho(np.array(t), np.array(s))) for s in tokens])
        out.append(
            sum(w * target.f(np.array(s)) for w, s in zip(weights, tokens, strict=True))
            / weights.sum()
        )
    return target.F(np.array(out))


@given(st.integers(1, 6), st.integers(0, 2**31))
def test_a_coupling_is_equation_8(tau: int, seed: int) -> None:
    target = Coupling(np.tanh, lambda u: u**2, gaussian, tau, domain=(-1, 2))
    x = target.sample(1, seed)[0]
    assert target(x) == pytest.approx(literal(target, x), abs=1e-14)


def test_positions_move_the_tokens_apart() -> None:
    target = Coupling(identity, np.cos, gaussian, 3, positions=np.array([4.0, 0.0, 2.0]))
    x = target.sample(1)[0]
    assert target(x) == pytest.approx(literal(target, x), abs=1e-14)
    assert target.intervals == ((4.0, 5.0), (0.0, 1.0), (2.0, 3.0))


@given(st.permutations(range(5)), st.integers(0, 2**31))
def test_without_positions_a_coupling_is_equivariant(order: list[int], seed: int) -> None:
    target = sine_family([1.0, 0.5, 0.25], tau=5)
    x = target.sample(4, seed)
    assert target(x[:, order]) == pytest.approx(target(x)[:, order], abs=1e-14)


@given(st.integers(0, 2**31))
def test_a_function_of_the_query_alone_makes_no_difference(seed: int) -> None:
    target = Coupling(identity, identity, gaussian, 6)
    moved = target.with_kernel(lambda u, v: gaussian(u, v) + np.sin(9 * u))
    x = target.sample(8, seed)
    assert moved(x) == pytest.approx(target(x), abs=1e-14)


def test_rows_of_attention_are_distributions() -> None:
    target = sine_family([3.0, 2.0], tau=7)
    weights = target.attention(target.sample(5))
    assert weights.shape == (5, 7, 7)
    assert (weights > 0).all()
    assert weights.sum(-1) == pytest.approx(np.ones((5, 7)), abs=1e-14)


def test_tensors_get_tensors_and_the_same_numbers() -> None:
    target = sine_family(1 / np.arange(1, 20), tau=6)
    x = target.sample(3)
    answer = target(torch.tensor(x))
    assert answer.dtype == torch.float64
    assert answer.numpy() == pytest.approx(target(x), abs=1e-14)
    assert target(torch.tensor(x, dtype=torch.float32)).dtype == torch.float32


def test_gradients_flow_through_a_coupling() -> None:
    target = sine_family([1.0], tau=3)
    x = torch.tensor(target.sample(1), requires_grad=True)
    assert torch.autograd.gradcheck(target, x)


def test_vector_tokens_and_vector_values() -> None:
    target = Coupling(
        F=lambda h: h[..., 0] * h[..., 1],
        f=lambda u: u**2,
        rho=lambda u, v: -((u - v) ** 2).sum(-1),
        tau=4,
        domain=[(0, 1), (-1, 1)],
    )
    x = target.sample(2)
    weights = target.attention(x)
    mean = np.einsum("bts,bsd->btd", weights, x**2)
    assert x.shape == (2, 4, 2)
    assert target(x) == pytest.approx(mean[..., 0] * mean[..., 1], abs=1e-14)
    assert target(torch.tensor(x)).numpy() == pytest.approx(target(x), abs=1e-14)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 2**31))
def test_a_product_kernel_is_its_sum_and_its_matrix(terms: int, kept: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    kernel = ProductKernel(random.normal(size=terms), Sines(terms), Sines(terms))
    u, v = random.uniform(size=(2, 5))
    direct = sum(
        kernel.sigma[k]
        * 2
        * np.outer(np.sin(2 * np.pi * (k + 1) * u), np.sin(2 * np.pi * (k + 1) * v))
        for k in range(terms)
    )
    assert kernel.matrix(u, v) == pytest.approx(direct, abs=1e-12)
    assert kernel(u[:, None], v) == pytest.approx(direct, abs=1e-12)
    rest = ProductKernel(np.where(np.arange(terms) < kept, kernel.sigma, 0), kernel.phi, kernel.psi)
    assert kernel.truncate(kept)(u, v) == pytest.approx(rest(u, v), abs=1e-12)


def test_samples_are_uniform_on_the_domain_and_belong_to_their_seed() -> None:
    target = Coupling(identity, identity, gaussian, 50, domain=(2, 4))
    x = target.sample(400, seed=1)
    assert x.min() >= 2
    assert x.max() <= 4
    assert abs(x.mean() - 3) < 5 * np.sqrt(4 / 12 / x.size)
    assert (x == target.sample(400, seed=1)).all()
    assert (x != target.sample(400, seed=2)).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"domain": (1, 0)}, "lower end first"),
        ({"domain": (0, np.inf)}, "interval"),
        ({"domain": "unit"}, "interval"),
        ({"tau": 0}, "at least one"),
        ({"positions": [0.0, 1.0]}, "disjoint"),
        ({"positions": [0.0, 2.0, 4.0]}, "2 tokens need 2"),
        ({"positions": [0.0, 2.0], "domain": [(0, 1)] * 2}, "vector tokens"),
    ],
)
def test_what_is_no_coupling_is_refused(changes: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Coupling(**{"F": identity, "f": identity, "rho": gaussian, "tau": 2} | changes)


def test_sequences_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match=r"not \(3, 5\)"):
        sine_family([1.0], tau=4)(np.zeros((3, 5)))
    with pytest.raises(InputError, match="box"):
        _ = Coupling(identity, identity, gaussian, 2, domain=[(0, 1)]).intervals


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_scores_may_be_one_number_or_truth_values(kind) -> None:
    """A constant ρ attends to all alike; u > v is 1 or 0."""
    x = kind(np.random.default_rng(0).random((5, 3)))
    alike = Coupling(identity, identity, lambda u, v: 5.0, 3)
    assert np.allclose(alike.attention(x), 1 / 3, atol=1e-15)
    greater = Coupling(identity, identity, lambda u, v: u > v, 3)
    numbers = Coupling(identity, identity, lambda u, v: 1.0 * (u > v), 3)
    assert np.array_equal(greater(x), numbers(x))


@pytest.mark.parametrize("changes", [{"tau": 2.5}, {"tau": "2"}, {"F": 3}, {"rho": None}])
def test_what_is_no_number_of_tokens_or_no_function_is_refused(changes: dict) -> None:
    with pytest.raises(InputError):
        Coupling(**{"F": identity, "f": identity, "rho": gaussian, "tau": 2} | changes)
