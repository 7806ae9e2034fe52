"""The best latent: Eckart and Young with weights, planted ranks and planes, ranks for a total."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers", reason="transformers is not installed")

import exactformer as ef
from exactformer.spectra.caching.allotment import allot, largest
from exactformer.spectra.caching.latents import basis, metric_roots
from exactformer.spectra.caching.methods import _one_each, plans
from exactformer.spectra.caching.moments import gather
from exactformer.spectra.caching.rotary import rotary_layers
from tests.spectra.caching.models import build, llama, tokens


def moment(size: int, seed: int) -> torch.Tensor:
    x = torch.randn(
        3 * size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    return x.T @ x / len(x)


@given(st.integers(0, 10**6), st.integers(0, 6))
@settings(max_examples=25, deadline=None)
def test_the_loss_is_half_the_sum_of_what_is_left_out_and_no_other_map_loses_less(
    seed: int, rank: int
) -> None:
    mean, spread, metric = torch.zeros(6, dtype=torch.float64), moment(6, seed), moment(6, seed + 1)
    root, inverse = metric_roots(metric)
    found = basis(mean, spread, (root, inverse))
    kept = found.keep(rank)
    cost = float((root @ kept.residual @ root).trace())
    assert cost == pytest.approx(float(found.values[rank:].sum()), abs=1e-9)
    other = basis(mean, spread, metric_roots(moment(6, seed + 2))).keep(rank)
    assert float((root @ other.residual @ root).trace()) >= cost - 1e-9
    torch.testing.assert_close(kept.decode.T @ kept.decode, torch.eye(rank, dtype=torch.float64))


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_prediction_from_below_never_costs_more(seed: int, rank: int) -> None:
    spread, metric = moment(10, seed), moment(6, seed + 1)
    mean = torch.zeros(10, dtype=torch.float64)
    roots = metric_roots(metric)
    alone = basis(mean[:6], spread[:6, :6], roots).values
    helped = basis(mean, spread, roots).values
    assert float(helped[rank:].sum()) <= float(alone[rank:].sum()) + 1e-9


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=4), st.data()
)
def test_ranks_add_up_and_nothing_left_out_is_dearer_than_what_is_kept(
    lists: Any, data: Any
) -> None:
    spectra = [torch.tensor(sorted(values, reverse=True)) for values in lists]
    total = data.draw(st.integers(0, sum(map(len, lists))))
    ranks = largest(spectra, total)
    assert sum(ranks) == total
    kept = [float(s[r - 1]) for s, r in zip(spectra, ranks, strict=True) if r]
    left = [float(s[r]) for s, r in zip(spectra, ranks, strict=True) if r < len(s)]
    assert not kept or not left or min(kept) >= max(left)


def test_every_layer_keeps_at_least_one() -> None:
    assert _one_each([0, 0, 7]) == [1, 1, 5]


@pytest.mark.parametrize("method", ["joint", "heads", "keys", "weights", "grouped", "planes"])
def test_no_method_takes_more_than_its_total(method: Any) -> None:
    model = build(llama).requires_grad_(False)
    layers = rotary_layers(model)
    moments = gather(model, layers, tokens())
    for total in (9, 48, 95):
        found = plans(method, layers, moments, total, 2 if method == "joint" else 0)
        ranks = [sum(plan) for plan in found]
        assert sum(ranks) <= total
        assert min(ranks) >= 1
        if method not in ("weights", "planes"):
            assert sum(ranks) == total
    if method == "joint":
        assert allot(moments, 48, 0) != allot(moments, 48, 2)


def planted(rank: int) -> Any:
    """A model whose keys and values, all heads together, lie in few dimensions."""
    model = build(llama)
    with torch.no_grad():
        for layer in model.model.layers:
            attention = layer.self_attn
            both = torch.cat([attention.k_proj.weight, attention.v_proj.weight])
            u, s, v = torch.linalg.svd(both, full_matrices=False)
            low = u[:, :rank] * s[:rank] @ v[:rank]
            attention.k_proj.weight.copy_(low[:16])
            attention.v_proj.weight.copy_(low[16:])
    return model


@pytest.mark.parametrize("lookback", [0, 3])
def test_a_model_whose_states_have_rank_r_is_unchanged_at_r(lookback: int) -> None:
    model, ids = planted(8), tokens(12)
    small, report = ef.shrink_cache(model, ids, cache=(8 * 3 + 1) / (3 * 32), lookback=lookback)
    if lookback == 0:
        assert small.config.ranks == [8, 8, 8]
    other = tokens(3, seed=9)
    with torch.no_grad():
        change = (small(input_ids=other).logits - model(input_ids=other).logits).abs().max()
    assert float(change) <= 1e-5
    assert report.predicted <= 1e-9


def test_a_model_that_uses_few_planes_is_unchanged_by_planes() -> None:
    """Head 0 asks for planes 0 and 2 only, head 1 for planes 1 and 3; values lie in 8 dimensions."""
    model, used = planted(8), {0: [0, 2, 4, 6], 1: [1, 3, 5, 7]}
    with torch.no_grad():
        for layer in model.model.layers:
            queries = layer.self_attn.q_proj.weight.view(4, 8, 32)
            for head in range(4):
                dropped = [i for i in range(8) if i not in used[head // 2]]
                queries[head, dropped] = 0
    ids, other = tokens(12), tokens(3, seed=9)
    small = ef.shrink_cache(model, ids, cache=49 / 96, method="planes").model
    assert small.config.ranks == [16, 16, 16]
    with torch.no_grad():
        change = (small(input_ids=other).logits - model(input_ids=other).logits).abs().max()
    assert float(change) <= 1e-5
