"""Proposition 6.2: what permuting the pieces of a coupling does, and what it does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactformer.couplings.target import identity
from exactformer.errors import InputError
from exactformer.targets import (
    Coupling,
    LinearTarget,
    ProductKernel,
    mix,
    random_kernel,
    relabel,
    reorder,
)
from exactformer.theory import complexity
from exactformer.theory.complexity import decompose
from tests.examples import examples

permutations = st.integers(2, 5).flatmap(lambda n: st.permutations(range(n)))


def coupling(tau: int, seed: int = 0, product: bool = False) -> Coupling:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=2)
    rho = ProductKernel(
        np.array([1.0, 0.5]),
        lambda u: np.stack([np.sin(b * u), np.cos(u)], -1),
        lambda v: np.stack([a * v, np.cos(a * v)], -1),
    )
    return Coupling(
        F=lambda h: h**2,
        f=lambda u: np.cos(b * u),
        rho=rho if product else lambda u, v: np.sin(a * u) * np.cos(u * v + b),
        tau=tau,
        positions=2.0 * rng.permutation(tau),
    )


@given(permutations, st.booleans(), st.integers(0, 99))
def test_permuted_pieces_reorder_inputs_and_outputs(p: list[int], product: bool, seed: int) -> None:
    target = coupling(len(p), seed, product)
    x = target.sample(3, seed)
    y = target(x)
    assert np.abs(relabel(target, p)(x[:, p]) - y[:, p]).max() <= 1e-12


@given(permutations, st.integers(0, 99))
def test_relabelled_filters(p: list[int], seed: int) -> None:
    target = LinearTarget(random_kernel(len(p), seed))
    x = target.sample(2, seed)
    assert np.abs(relabel(target, p)(x[:, p]) - target(x)[:, p]).max() <= 1e-14 * len(p)


def test_tensors_move_too() -> None:
    import torch

    target, p = coupling(3, product=False), [2, 0, 1]
    plain = Coupling(identity, identity, lambda u, v: u * v, 3, positions=target.positions)
    x = torch.from_numpy(target.sample(4))
    assert (relabel(plain, p)(x[:, p]) - plain(x)[:, p]).abs().max() <= 1e-12


def test_without_positions_a_coupling_is_equivariant_as_it_is() -> None:
    target = Coupling(identity, identity, lambda u, v: u * v, 3)
    assert relabel(target, [2, 0, 1]) is target


@settings(max_examples=examples(10))
@given(st.permutations(range(3)), st.integers(0, 99))
def test_permuted_pieces_have_the_same_measures(p: list[int], seed: int) -> None:
    target = coupling(3, seed)
    altered = relabel(target, p)
    before, after = decompose(target), decompose(altered)
    room = before.error + after.error
    k = min(before.rank, after.rank, 4)
    assert np.abs(before.singular_values[:k] - after.singular_values[:k]).max() <= room
    old, new = (
        complexity(t, 1, alpha=1.0, decomposition=d)
        for t, d in ((target, before), (altered, after))
    )
    assert abs(old.C1 - new.C1) <= 8 * room
    assert abs(old.C2 - new.C2) <= 1e-5 * old.C2


def test_holder_constants_across_gaps_change() -> None:
    """A staircase of τ steps on [2t, 2t + 1] has Lipschitz constant 1; reordered, up to τ − 1."""
    places = np.array([[2 * t, 2 * t + 1] for t in range(8)], dtype=float)

    def constant(values: list[int]) -> float:
        return max(
            abs(values[t + 1] - values[t]) / (places[t + 1, 0] - places[t, 1]) for t in range(7)
        )

    assert constant([0, 1, 2, 3, 4, 5, 6, 7]) == 1
    assert constant([0, 7, 1, 2, 3, 4, 5, 6]) == 7


def test_reordered_inputs_alone_are_not_permuted_pieces() -> None:
    """D.2 claims H̃_t(x∘p) = H_t(x) of what satisfies H̃(x∘p) = H(x)∘p."""
    target, p = coupling(3), [1, 0, 2]
    x = target.sample(5)
    assert np.abs(reorder(target, p)(x[:, p]) - target(x)).max() <= 1e-12
    assert np.abs(relabel(target, p)(x[:, p]) - target(x)).max() > 0.01


def test_no_coupling_with_the_same_f_is_the_reordered_one() -> None:
    """A counterexample to proposition 6.2 with F̃ = F and f̃ = f, as its proof has them.

    Say τ = 3, F = f = id, ρ(u, v) = 4uv, and p exchanges tokens 1 and 2. A coupling has, for fixed z_1,
    H̃_1 (A + B(z_2) + C(z_3)) = A z_1 + B(z_2) z_2 + C(z_3) z_3, A = 1 without loss: linear in the
    unknown values of B and C. On 5 × 5 points these are 25 equations for 10 values, without solution.
    """
    target = Coupling(identity, identity, lambda u, v: 4 * u * v, 3)
    first, grid = 0.5, np.linspace(0.0, 1.0, 5)
    z = np.array([[first, second, third] for second in grid for third in grid])
    second, third = z[:, 1], z[:, 2]
    rows = np.arange(25)

    def misfit(outputs: np.ndarray) -> float:
        equations = np.zeros((25, 10))
        equations[rows, rows // 5] = outputs - second
        equations[rows, 5 + rows % 5] = outputs - third
        solution, *_ = np.linalg.lstsq(equations, first - outputs, rcond=None)
        return float(np.abs(equations @ solution - (first - outputs)).max())

    assert misfit(target(z)[:, 0]) <= 1e-12
    assert misfit(reorder(target, [1, 0, 2])(z)[:, 0]) > 1e-3


@given(permutations, st.integers(0, 99))
def test_where_the_query_is_its_place_moving_keys_is_reordering(p: list[int], seed: int) -> None:
    tau = len(p)
    scores = np.random.default_rng(seed).normal(size=(tau, tau))

    def place(u: np.ndarray) -> np.ndarray:
        return np.floor(u / 2).astype(int).clip(0, tau - 1)

    target = Coupling(
        identity,
        lambda u: u % 2,
        lambda u, v: scores[place(u), place(v)] * (v % 2),
        tau,
        domain=(0.1, 0.9),
        positions=2.0 * np.arange(tau),
    )
    x = target.sample(3, seed)
    moved = relabel(target, p, queries=False)
    assert np.abs(moved(x[:, p]) - target(x)).max() <= 1e-12


def test_sums_of_products_move_as_any_kernel_does() -> None:
    target, p = coupling(4, seed=1, product=True), [2, 0, 3, 1]
    plain = target.with_kernel(lambda u, v: target.rho(u, v))
    x = target.sample(3)
    for queries in (True, False):
        moved, same = (relabel(t, p, queries)(x) for t in (target, plain))
        assert np.abs(moved - same).max() <= 1e-12
    assert np.abs(relabel(target, p)(x) - relabel(target, p, queries=False)(x)).max() > 1e-3


def test_a_rewired_score_is_a_function_of_two_tokens_or_refused() -> None:
    target = coupling(3)
    positions = np.asarray(target.positions)
    score = reorder(target, [0, 1, 2]).logit(0, 2)
    x = target.sample(4)
    expected = target.rho(x[:, 0] + positions[0], x[:, 2] + positions[2])
    assert np.abs(score(x[:, 0], x[:, 2]) - expected).max() <= 1e-14
    with pytest.raises(InputError, match="not a function of these two"):
        mix(target, [1.0, 1.0, 1.0], causal=True).logit(1, 2)


def test_vectors_are_mixed_along_time() -> None:
    target = Coupling(
        identity, lambda u: u[..., 0], lambda u, v: (u * v).sum(-1), 3, domain=[(0, 1), (0, 1)]
    )
    x = target.sample(2)
    mixed = x.copy()
    mixed[:, 1:] += 0.5 * x[:, :-1]
    altered = mix(target, [1.0, 0.5], causal=True)
    assert np.abs(altered(x) - target(mixed)).max() <= 1e-14
    assert altered.tau == 3
    assert altered.sample(2).shape == x.shape
