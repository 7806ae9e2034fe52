"""Smaller values: nothing changes where nothing is lost, and the output projection loses the least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import exactformer as ef
from exactformer.spectra.batches import Batch
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.scores import Scores
from exactformer.spectra.shrinking.calibration import calibrate
from exactformer.spectra.shrinking.layers import Layer, layers_of, paired, write_rows
from exactformer.spectra.shrinking.values import output_weight, value_moments
from tests.spectra import families
from tests.spectra.families import Case
from tests.spectra.shrinking.test_shrink import ROUNDING, case, difference, grouped

SHRINKABLE = [
    families.bert,
    families.vit,
    families.gpt2,
    families.t5,
    families.bart,
    families.torch_encoder,
    families.torch_decoder,
    families.own_mixer,
    grouped,
]


def plant(model: nn.Module, inputs: dict[str, Any], rank: int) -> None:
    """Give every head scores and values of a rank."""
    torch.manual_seed(7)
    for layer in layers_of(model, Batch((), inputs), values=True)[0]:
        assert layer.value is not None
        first, second = (
            projector(layer.kv_heads, m, rank) for m in (layer.head_dim, layer.value_dim)
        )
        layer.project(model, first, torch.eye(layer.head_dim).double().expand_as(first))
        write_rows(layer.value, model, second)


def projector(heads: int, m: int, rank: int) -> Tensor:
    turn = torch.linalg.qr(torch.randn(heads, m, m, dtype=torch.float64))[0]
    kept = turn[..., :rank]
    return kept @ kept.mT


@pytest.mark.spread(5)
@pytest.mark.parametrize("make", SHRINKABLE)
@pytest.mark.parametrize("method", ["data", "weights"])
def test_values_of_a_rank_lose_nothing_at_that_rank(make: Callable[[], Case], method: Any) -> None:
    model, inputs = case(make)
    plant(model, inputs, rank=2)
    small, report = ef.shrink_heads(model, inputs, head_dim=2, values=True, method=method)
    assert report.predicted_value_error is not None
    assert report.predicted_value_error < 1e-5
    assert difference(model, small, inputs) < 20 * ROUNDING


@pytest.mark.spread(2)
@pytest.mark.parametrize("make", [families.gpt2, families.torch_encoder, families.t5, grouped])
def test_the_predicted_error_is_that_of_what_attention_adds(make: Callable[[], Case]) -> None:
    model, inputs = case(make)
    batch = Batch((), inputs)
    layers, _ = layers_of(model, batch, values=True)

    def half(layer: Any, spectrum: Any, values: Any) -> Any:
        dims = torch.full((layer.kv_heads,), 3)
        return dims, dims

    changed, fitted = calibrate(model, layers, [batch], half, "data", lambda done: None)
    for layer, found in zip(layers, fitted, strict=True):
        assert found.values is not None
        direct = squared_difference(model, changed, layer, batch)
        assert found.values.error == pytest.approx(direct, rel=1e-3)


def squared_difference(model: nn.Module, changed: nn.Module, layer: Layer, batch: Batch) -> float:
    """Σ_t ‖(W o + b) − (W'o' + b')‖², token by token."""
    total = 0.0
    for pairs in paired(model, changed, [batch], layer.calls):
        for was, now in pairs.values():
            old, new = (
                added(part, layer, scores, was.query_tokens)
                for part, scores in ((model, was), (changed, now))
            )
            total += float((new - old).square().sum())
    return total


def added(model: nn.Module, layer: Layer, scores: Scores, there: Tensor) -> Tensor:
    assert layer.output is not None
    mixed = scores.mixed
    if mixed is None:
        assert scores.values is not None
        mixed = scores.probabilities() @ scores.values
    bias = getattr(model.get_submodule(layer.output.module), "bias", None)
    result = mixed.transpose(1, 2)[there].flatten(1).double() @ output_weight(model, layer).mT
    return result if bias is None else result + bias.double()


@pytest.mark.spread(3)
@pytest.mark.parametrize("make", SHRINKABLE)
def test_fitted_values_lose_less_than_truncated_weights(make: Callable[[], Case]) -> None:
    model, inputs = case(make)
    by_data, by_weights = (
        ef.shrink_heads(model, inputs, head_dim=3, values=True, method=method).report  # type: ignore[arg-type]
        for method in ("data", "weights")
    )
    assert by_data.predicted_value_error is not None
    assert by_weights.predicted_value_error is not None
    assert by_data.predicted_value_error < by_weights.predicted_value_error


def test_a_single_head_loses_exactly_the_discarded_singular_values() -> None:
    """Scores untouched, one head: Σσ² of W O beyond r, when the ridge has nothing to add."""
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 1, batch_first=True).eval().requires_grad_(False)
    x = torch.randn(3, 20, 8)
    batch = Batch((x, x, x))
    (layer,), _ = layers_of(model, batch, values=True)

    def choose(layer: Any, spectrum: Any, values: Any) -> Any:
        return torch.tensor([8]), torch.tensor([3])

    _, (fitted,) = calibrate(model, [layer], [batch], choose, "data", lambda done: None)
    moments = value_moments(model, model, layer, [batch])
    values, vectors = torch.linalg.eigh(moments.old)
    root = vectors * values.clamp(min=0).sqrt()
    discarded = torch.linalg.svdvals(output_weight(model, layer) @ root)[3:].square().sum()
    assert fitted.values is not None
    assert fitted.values.error == pytest.approx(float(discarded), rel=1e-6)


def test_caches_of_keys_and_values_are_both_smaller() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 50, "n_positions": 40}
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **ends)).eval()
    families.sharpened(model)
    ids = families.tokens()["input_ids"]
    small: Any
    small, report = ef.shrink_heads(model, {"input_ids": ids}, head_dim=4, values=True)
    with torch.no_grad():
        whole = small(input_ids=ids).logits[:, -1]
        past = small(input_ids=ids[:, :-1], use_cache=True).past_key_values
        step = small(input_ids=ids[:, -1:], past_key_values=past).logits[:, -1]
        small.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0)
    kept = past.layers[0]
    assert kept.keys.shape == kept.values.shape == (3, 4, 9, 4)
    assert torch.allclose(whole, step, atol=1e-4)
    assert report.value_cache is not None
    numbers = sum(t[0, :, 0].numel() for layer in past.layers for t in (layer.keys, layer.values))
    assert report.key_cache.after + report.value_cache.after == 4 * numbers


def test_values_that_no_linear_layer_takes_are_refused_by_name() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = families.SelfAttention(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.inner(x)
            return result

    model = Gated().eval().requires_grad_(False)
    model.inner.outgoing.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    with pytest.raises(ExtractionError, match=r"inner.*values=False"):
        ef.shrink_heads(model, families.states(), head_dim=2, values=True)
    assert ef.shrink_heads(model, families.states(), head_dim=2).report.value_cache is None


def test_values_by_energy_have_dimensions_of_their_own() -> None:
    model, inputs = case(families.own_mixer)
    report = ef.shrink_heads(model, inputs, energy=0.8, values=True).report
    assert report.form == "padded"
    assert report.table["new_value_dim"].between(1, 8).all()
    gone = report.parameters.before - report.parameters.after
    saved = report.projection_parameters
    assert saved.before - saved.after == gone > 0
