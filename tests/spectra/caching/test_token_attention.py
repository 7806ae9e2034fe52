"""Attention from one token to latents: the same as to keys and values rebuilt, however it is cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers", reason="transformers is not installed")

from exactformer.spectra.caching import token_attention
from exactformer.spectra.caching.cache import LatentCache, LatentLayer
from exactformer.spectra.caching.rotary import Sizes, rotated, split
from exactformer.spectra.caching.token_attention import Held, attend, refusal

SHAPES = {
    "one key head": (Sizes(3, 1, 8, 8, 0.4), (5,)),
    "several, latents of layers below": (Sizes(6, 2, 8, 8, 0.4), (5, 1, 7)),
    "a part of each head is turned": (Sizes(4, 4, 10, 4, 0.3), (6, 3)),
}


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def example(sizes: Sizes, ranks: tuple[int, ...], length: int) -> tuple[Any, ...]:
    """Return two texts, the second with padding on its left, where there is room for it."""
    torch.manual_seed(length)
    places = torch.tensor([0, min(5, length - 1)])
    held = Held(
        [random(2, rank, length) for rank in ranks],
        random(sizes.state, sum(ranks)),
        random(sizes.state),
        random(2, sizes.state),
        places,
    )
    seen = torch.arange(length) >= places[:, None]
    angles = torch.arange(length) * random(sizes.rotary_dim // 2, 1)
    turns = (angles.cos().expand(2, -1, -1), angles.sin().expand(2, -1, -1))
    return random(2, sizes.heads, sizes.head_dim), held, seen, *turns, sizes


def rebuilt(
    query: Tensor, held: Held, seen: Tensor, cos: Tensor, sin: Tensor, sizes: Sizes
) -> Tensor:
    """Attend to all keys and values written out."""
    states = torch.cat(list(held.latents), dim=1).mT @ held.weight.T + held.bias
    states[torch.arange(2), held.places] = held.first
    keys, values = split(states, sizes)
    cos, sin = (torch.cat([x, x], dim=1).mT for x in (cos, sin))
    mixed = torch.nn.functional.scaled_dot_product_attention(
        rotated(query[:, :, None], cos[:, -1:], sin[:, -1:]),
        rotated(keys, cos, sin),
        values,
        seen[:, None, None],
        scale=sizes.scale,
        enable_gqa=True,
    )
    return mixed[:, :, 0]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 1000])
def test_latents_give_what_keys_and_values_rebuilt_give(
    name: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = example(*SHAPES[name], length)
    exact = rebuilt(*made)
    torch.testing.assert_close(attend(*made), exact)
    monkeypatch.setattr(token_attention, "_BLOCK", 16)
    torch.testing.assert_close(attend(*made), exact)


def test_nothing_that_was_given_is_overwritten() -> None:
    made = example(*SHAPES["several, latents of layers below"], 17)
    query, held = made[:2]
    tensors = [query, *held.latents, held.weight, held.bias, held.first, *made[2:5]]
    before = [t.clone() for t in tensors]
    attend(*made)
    assert all(torch.equal(a, b) for a, b in zip(tensors, before, strict=True))


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_are_those_of_keys_and_values_rebuilt(name: str) -> None:
    made = example(*SHAPES[name], 17)
    query, held = made[:2]
    asked = [query, *held.latents, held.weight, held.bias, held.first]
    for t in asked:
        t.requires_grad_()
    ours, theirs = (
        torch.autograd.grad(way(*made).square().sum(), asked) for way in (attend, rebuilt)
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_a_layer_grows_without_copying_and_holds_what_was_written() -> None:
    layer, written, moves = LatentLayer(), random(2, 300, 3), set()
    for part in written.split([100, *[1] * 200], dim=1):
        layer.append(part)
        moves.add(layer.numbers.data_ptr())
        assert layer.numbers.untyped_storage().nbytes() == layer.reserved
    assert torch.equal(layer.numbers.mT, written)
    assert len(moves) <= 4
    assert layer.reserved <= written.nbytes + 64 * 2 * 3 * 8


def test_a_layer_goes_on_outside_of_inference_mode_and_with_gradients() -> None:
    layer = LatentLayer()
    with torch.inference_mode():
        layer.append(torch.ones(1, 4, 2))
    layer.append(torch.ones(1, 1, 2))
    learnt = torch.ones(1, 2, 2, requires_grad=True)
    layer.append(learnt)
    layer.numbers.sum().backward()
    assert torch.equal(learnt.grad, torch.ones(1, 2, 2))
    with torch.no_grad():
        layer.append(torch.ones(1, 1, 2))
    assert torch.equal(layer.numbers, torch.ones(1, 2, 8))


def test_what_a_cache_reserves_is_little_more_than_it_holds() -> None:
    cache = LatentCache(2)
    cache.begin(torch.arange(1600)[None], 1, None)
    for layer in cache.layers:
        layer.append(torch.ones(1, 1600, 5))
    assert cache.nbytes == 1600 * (2 * 5 * 4 + 4) + 8
    assert cache.nbytes < cache.reserved <= cache.nbytes * 17 / 16


def test_a_processor_takes_no_kernel() -> None:
    query, held, *_, sizes = example(*SHAPES["one key head"], 5)
    assert "GPU" in str(refusal(query, held, sizes))
