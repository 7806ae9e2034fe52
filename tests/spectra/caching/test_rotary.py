"""Rotary attention read from models: rebuilt from its parts it is the model's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed")

from exactformer.spectra import ExtractionError
from exactformer.spectra.caching.rotary import rotary_layers, rotated, verify
from tests.spectra.caching.models import FAMILIES, SIZES, build, llama, tokens


@pytest.mark.parametrize("make", FAMILIES)
def test_attention_rebuilt_from_its_parts_is_the_models_own(make: Any) -> None:
    model = build(make)
    layers = rotary_layers(model)
    assert len(layers) == 3
    assert verify(model, layers, tokens()) <= 1e-5


def test_a_part_that_is_not_what_the_model_uses_is_noticed() -> None:
    model = build(llama)
    layers = rotary_layers(model)
    layers[1].q_proj = torch.nn.Linear(32, 32)
    with pytest.raises(ExtractionError, match=r"'model\.layers\.1\.self_attn' .* off"):
        verify(model, layers, tokens())


def test_scores_of_rotated_queries_and_keys_depend_on_distance_alone() -> None:
    angles = torch.arange(9.0).double()[:, None] * torch.tensor([1.0, 0.1, 1.0, 0.1])
    q, k = torch.randn(2, 1, 1, 1, 4, dtype=torch.float64).expand(2, 1, 1, 9, 4)
    turn = (angles.cos()[None], angles.sin()[None])
    scores = rotated(q, *turn) @ rotated(k, *turn).mT
    for distance in range(-8, 9):
        along = scores[0, 0].diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along))


def refused(model: Any, reason: str) -> None:
    with pytest.raises(ExtractionError, match=reason):
        rotary_layers(model)


def test_other_models_and_positions_are_refused_by_name() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

    refused(
        GPT2LMHeadModel(GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=9)),
        "GPT2LMHead.*shrink_heads",
    )
    refused(
        MistralForCausalLM(MistralConfig(**SIZES, sliding_window=16)), "sliding window of 16 tokens"
    )
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    refused(llama(rope_parameters=rope), "kind 'dynamic'")
