"""The mathematics of smaller heads: the least error, and what it is made of."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from exactformer.spectra.shrinking.moments import Moments, blocks, scatter
from exactformer.spectra.shrinking.solution import balanced, refined, truncation

M = 6


def moments_of(queries: list[Tensor], keys: list[Tensor]) -> Moments:
    """Moments of inputs (τ, m) in a model that is not changed."""
    p = torch.stack([q.T @ q for q in queries])[:, None]
    k = torch.stack([(x - x.mean(0)).T @ (x - x.mean(0)) for x in keys])[:, None]
    return Moments(p, k, (p @ k).sum(0), (p * k).sum(dim=(0, -2, -1)))


def sample(seed: int, inputs: int = 8) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(9, M, generator=generator, dtype=torch.float64)  # noqa: E731
    mix = torch.randn(2, M, M, generator=generator, dtype=torch.float64)
    return [draw() @ mix[0] for _ in range(inputs)], [draw() @ mix[1] for _ in range(inputs)]


seeds = st.integers(0, 2**20)


@given(seeds, st.integers(1, M))
@settings(max_examples=25)
def test_the_error_from_moments_is_the_error_of_the_centred_scores(seed: int, r: int) -> None:
    queries, keys = sample(seed)
    left, right = torch.randn(2, 1, M, r, dtype=torch.float64)
    direct = 0.0
    for q, k in zip(queries, keys, strict=True):
        change = q @ k.T - (q @ left[0]) @ (k @ right[0]).T
        direct += float((change - change.mean(dim=1, keepdim=True)).square().sum())
    assert float(moments_of(queries, keys).error(left, right)) == pytest.approx(direct, rel=1e-9)


@given(seeds, st.integers(1, M - 1))
@settings(max_examples=25)
def test_one_input_loses_exactly_the_discarded_singular_values(seed: int, r: int) -> None:
    moments = moments_of(*sample(seed, inputs=1))
    found = truncation(moments.queries[0], moments.keys[0])
    error = float(moments.error(*found.keep(torch.tensor([r]))))
    assert error == pytest.approx(float(found.values[0, r:].square().sum()), rel=1e-6, abs=1e-9)


@given(seeds, st.integers(1, M - 1))
@settings(max_examples=25)
def test_refinement_lowers_the_error_and_is_stationary_at_the_optimum(seed: int, r: int) -> None:
    moments = moments_of(*sample(seed))
    first = truncation(moments.queries.sum(0), moments.keys.sum(0)).keep(torch.tensor([r]))
    before, after = moments.error(*first), moments.error(*refined(moments, *first))
    assert after < before
    alone = moments_of(*sample(seed, inputs=1))  # here truncation is the optimum already
    best = truncation(alone.queries[0], alone.keys[0]).keep(torch.tensor([r]))
    gained = alone.error(*best) - alone.error(*refined(alone, *best))
    assert 0 <= float(gained) <= 1e-6 * float(alone.total)


@given(seeds)
@settings(max_examples=25)
def test_all_dimensions_lose_nothing(seed: int) -> None:
    moments = moments_of(*sample(seed))
    full = truncation(moments.queries.sum(0), moments.keys.sum(0)).keep(torch.tensor([M]))
    assert float(moments.error(*full)) <= 1e-12 * float(moments.total)


def test_weights_as_moments_give_the_truncation_of_their_product() -> None:
    torch.manual_seed(0)
    w_q, w_k = torch.randn(2, M, 10, dtype=torch.float64)
    found = truncation((w_q @ w_q.T)[None], (w_k @ w_k.T)[None])
    u, values, vh = torch.linalg.svd(w_q.T @ w_k)
    left, right = (factor[0] for factor in found.keep(torch.tensor([3])))
    product = (w_q.T @ left) @ (right.T @ w_k)
    assert torch.allclose(found.values[0], values[:M])
    assert torch.allclose(product, u[:, :3] * values[:3] @ vh[:3], atol=1e-10)


def test_balancing_keeps_the_product_and_sizes_its_factors_alike() -> None:
    torch.manual_seed(0)
    left, right = 100 * torch.randn(2, M, 3), torch.randn(2, M, 3)
    a, b = balanced(left, right)
    assert torch.allclose(a @ b.mT, left @ right.mT, atol=1e-3)
    assert torch.allclose(a.norm(dim=1), b.norm(dim=1), rtol=1e-4)


def test_energy_asks_for_the_dimension_that_keeps_it() -> None:
    values = torch.tensor([3.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    found = truncation(torch.diag(values.square())[None], torch.eye(4, dtype=torch.float64)[None])
    for energy, dim in ((0.5, 1), (9 / 14, 1), (0.65, 2), (13 / 14, 2), (0.95, 3), (1.0, 3)):
        assert int(found.dims_for(energy)) == dim


def test_queries_that_see_the_same_keys_are_one_block() -> None:
    everyone = torch.ones(40, 40, dtype=torch.bool)
    assert len(list(blocks(everyone))) == 1
    causal = list(blocks(everyone.tril()))
    assert torch.cat([rows for rows, _ in causal]).tolist() == list(range(1, 40))
    assert not list(blocks(everyone[:, :1]))


def test_the_scatter_of_keys_is_centred_over_what_each_query_sees() -> None:
    torch.manual_seed(0)
    keys = torch.randn(1, 7, M, dtype=torch.float64) + 5
    seen = torch.ones(7, 7, dtype=torch.bool).tril()[1:]
    direct = torch.zeros(M, M, dtype=torch.float64)
    for row in seen:
        own = keys[0, row] - keys[0, row].mean(dim=0)
        direct += own.T @ own
    assert torch.allclose(scatter(keys, seen)[0], direct / len(seen))
