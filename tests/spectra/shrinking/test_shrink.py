"""Smaller heads: nothing changes where nothing is lost, and what is lost is what was predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import exactformer as ef
from exactformer.errors import ExactformerError, InputError
from exactformer.spectra.batches import Batch
from exactformer.spectra.errors import ExtractionError
from exactformer.spectra.shrinking.forms import PaddedProjection
from exactformer.spectra.shrinking.layers import layers_of
from exactformer.spectra.switches import fused
from tests.spectra import families
from tests.spectra.families import Case, build

ROUNDING = 2e-6
"""Relative, of outputs in float32 after a handful of layers."""

SHRINKABLE = [
    families.bert,
    families.roberta,
    families.vit,
    families.gpt2,
    families.t5,
    families.bart,
    families.torch_encoder,
    families.torch_causal,
    families.torch_decoder,
    families.own_mixer,
]
SMALL = {make.__name__ for make in SHRINKABLE} - {"own_mixer"}


class Grouped(nn.Module):
    """Four query heads, two key heads, biases; a scale of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(32, n * 8) for n in (4, 2, 2))
        self.o_proj = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).reshape(*x.shape[:2], -1, 8).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, scale=0.7, enable_gqa=True)
        result: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return result


class Scaled(Grouped):
    """Queries times a constant before the product."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).reshape(*x.shape[:2], -1, 8).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(0.3 * q, k, v, enable_gqa=True)
        result: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return result


def scaled() -> Case:
    return Scaled(), Batch((families.states(),))


def alone() -> Case:
    """The attention module itself, with separate weights for what it attends to."""
    model = nn.MultiheadAttention(32, 4, kdim=20, vdim=24, batch_first=True)
    return model, Batch((families.states(), families.states(20), families.states(24)))


def grouped() -> Case:
    return Grouped(), Batch((families.states(),))


class Called(nn.Module):
    """A model on one batch of named and unnamed arguments, as a model of the named ones alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **named: Any) -> Any:
        args = [named.pop(f"argument_{i}") for i in range(len(named)) if f"argument_{i}" in named]
        return self.model(*args, **named)


def case(make: Callable[[], Case]) -> tuple[nn.Module, dict[str, Any]]:
    model, batch = build(make)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter += 0.3 * torch.randn_like(parameter)
    return Called(model).eval(), named(batch)


def named(batch: Batch) -> dict[str, Any]:
    return {**{f"argument_{i}": x for i, x in enumerate(batch.args)}, **batch.kwargs}


def output(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    with torch.no_grad(), fused(model):
        result = model(**inputs)
    if isinstance(result, Tensor):
        return result
    return result[0] if isinstance(result, tuple) else next(iter(result.values()))  # type: ignore[no-any-return]


def difference(one: nn.Module, two: nn.Module, inputs: dict[str, Any]) -> float:
    old, new = output(one, inputs), output(two, inputs)
    return float((new - old).norm() / old.norm())


def plant(model: nn.Module, inputs: dict[str, Any], rank: int) -> None:
    """Give every head scores of a rank: its queries lie in a space of that dimension."""
    torch.manual_seed(7)
    for layer in layers_of(model, Batch((), inputs))[0]:
        m = layer.head_dim
        turn = torch.linalg.qr(torch.randn(layer.kv_heads, m, m, dtype=torch.float64))[0]
        common = torch.zeros(m, m, dtype=torch.float64)
        common[:rank, :rank] = torch.eye(rank)
        layer.project(model, turn @ common @ turn.mT, torch.eye(m).double().expand_as(turn))


@pytest.mark.spread(7)
@pytest.mark.parametrize("make", [*SHRINKABLE, grouped, scaled, alone])
@pytest.mark.parametrize("method", ["data", "weights"])
def test_shrinking_to_the_rank_of_the_scores_changes_nothing(
    make: Callable[[], Case], method: Any
) -> None:
    model, inputs = case(make)
    plant(model, inputs, rank=2)
    small, report = ef.shrink_heads(model, inputs, head_dim=2, method=method)
    assert report.predicted_score_error < 1e-5
    assert report.fitted.score_error < 1e-5
    assert difference(model, small, inputs) < 10 * ROUNDING


@pytest.mark.spread(7)
@pytest.mark.parametrize("make", [*SHRINKABLE, grouped, scaled, alone])
@pytest.mark.parametrize("method", ["data", "weights"])
def test_the_predicted_error_is_the_one_measured_in_the_finished_model(
    make: Callable[[], Case], method: Any
) -> None:
    model, inputs = case(make)
    report = ef.shrink_heads(model, inputs, head_dim=2, method=method).report
    assert report.fitted.score_error == pytest.approx(report.predicted_score_error, rel=1e-3)
    assert report.fitted.output_change > ROUNDING
    assert 0 < report.fitted.attention_change < 1


def test_blocks_of_queries_predict_what_a_causal_model_does() -> None:
    model, _ = case(families.torch_causal)
    torch.manual_seed(5)
    states = torch.randn(6, 100, 32).cumsum(dim=1) / 3  # what is seen changes along the way
    mask = nn.Transformer.generate_square_subsequent_mask(100)
    inputs = {"argument_0": states, "mask": mask}
    report = ef.shrink_heads(model, inputs, head_dim=3).report
    assert report.fitted.score_error == pytest.approx(report.predicted_score_error, rel=0.1)


@pytest.mark.spread(4)
@pytest.mark.parametrize("make", [*SHRINKABLE, grouped, scaled, alone])
def test_fitting_to_the_inputs_beats_truncating_the_weights(make: Callable[[], Case]) -> None:
    model, inputs = case(make)
    by_data, by_weights = (
        ef.shrink_heads(model, inputs, head_dim=2, method=method).report  # type: ignore[arg-type]
        for method in ("data", "weights")
    )
    assert by_data.fitted.score_error < by_weights.fitted.score_error


@pytest.mark.spread(4)
@pytest.mark.parametrize("make", SHRINKABLE)
def test_the_form_is_small_where_the_family_allows_it(make: Callable[[], Case]) -> None:
    model, inputs = case(make)
    shrunk = ef.shrink_heads(model, inputs, head_dim=2)
    small, report = shrunk
    assert report.form == ("small" if make.__name__ in SMALL else "padded")
    gone = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in small.parameters())
    assert report.parameters.before - report.parameters.after == gone
    saved = report.projection_parameters
    assert saved.before - saved.after == gone
    m = shrunk.plans[0].layer.head_dim
    assert saved.share == pytest.approx(1 - 2 / m)
    in_scores = 1 - 2 / m if report.form == "small" else 0
    assert report.key_cache.share == report.score_flops.share == pytest.approx(in_scores)


def test_the_original_is_untouched_and_the_copy_saves_its_state() -> None:
    model, inputs = case(families.torch_encoder)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expected = output(model, inputs)
    first = ef.shrink_heads(model, inputs, head_dim=3).model
    again = ef.shrink_heads(model, {k: v.flip(0) for k, v in inputs.items()}, head_dim=3).model
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(output(model, inputs), expected)
    again.load_state_dict(first.state_dict())
    assert torch.equal(output(first, inputs), output(again, inputs))


@pytest.mark.spread(2)
@pytest.mark.parametrize("make", [families.bert, families.torch_encoder, families.own_mixer])
@pytest.mark.parametrize("trainable", [True, False])
def test_a_frozen_model_stays_frozen_and_another_can_be_trained(
    make: Callable[[], Case], trainable: bool
) -> None:
    model, inputs = case(make)
    small = ef.shrink_heads(model.requires_grad_(trainable), inputs, head_dim=2).model
    assert {p.requires_grad for p in small.parameters()} == {trainable}
    assert not any(module.training for module in small.modules())


def test_dimensions_by_energy_differ_from_head_to_head() -> None:
    model, inputs = case(families.own_mixer)
    report = ef.shrink_heads(model, inputs, energy=0.9).report
    assert report.form == "padded"
    assert all(head.energy >= 0.9 for head in report.heads)
    assert len(report.dims) > 1
    assert ef.shrink_heads(model, inputs, energy=1.0).report.fitted.score_error < 1e-5


def test_key_heads_have_dimensions_that_their_query_heads_share() -> None:
    model, inputs = case(grouped)
    (layer,), _ = layers_of(model, Batch((), inputs))
    ranks = torch.tensor([2, 5])
    kept = (torch.arange(8) < ranks[:, None]).double()
    layer.project(model, torch.diag_embed(kept), torch.eye(8).double().expand(2, 8, 8))
    report = ef.shrink_heads(model, inputs, energy=1.0).report
    assert [head.new_head_dim for head in report.heads] == [2, 2, 5, 5]
    assert report.fitted.score_error < 1e-5
    # Four query heads and two key heads of eight, each with a bias: 33 weights a row.
    assert report.projection_parameters.before == (4 + 2) * 8 * 33
    assert report.projection_parameters.after == 3 * (2 + 5) * 33
    assert report.score_flops.before == report.score_flops.after == 2 * 4 * 8
    assert report.key_cache.before == 2 * 8 * 4


def test_dimensions_by_energy_are_equal_within_a_layer_of_the_small_form() -> None:
    pytest.importorskip("transformers")
    model, inputs = case(families.bert)
    report = ef.shrink_heads(model, inputs, energy=0.9).report
    assert report.form == "small"
    assert (report.table.groupby("layer")["new_head_dim"].nunique() == 1).all()
    assert report.table["energy"].min() >= 0.9


def test_the_smallest_dimension_within_a_loss_is_found() -> None:
    model, inputs = case(families.torch_encoder)
    torch.manual_seed(4)
    others = {"argument_0": torch.randn(4, 9, 32)}
    reports = [
        ef.shrink_heads(model, inputs, head_dim=r, held_out=others).report for r in range(1, 9)
    ]
    changes = [report.held_out.output_change for report in reports if report.held_out is not None]
    limit = (changes[3] + changes[4]) / 2
    assert changes[3] > limit > changes[4]
    report = ef.shrink_heads(model, inputs, max_loss=limit, held_out=others).report
    assert report.dims == (5,)
    assert report.held_out is not None
    assert report.held_out.output_change == changes[4] <= limit
    assert ef.shrink_heads(model, inputs, max_loss=0.0, held_out=others).report.dims == (8,)


def test_the_loss_of_a_metric_is_what_counts_if_one_is_given() -> None:
    model, inputs = case(families.torch_encoder)
    expected = output(model, inputs)

    def metric(tried: nn.Module) -> float:
        return -float((output(tried, inputs) - expected).abs().max())

    report = ef.shrink_heads(model, inputs, max_loss=0.2, metric=metric).report
    assert report.metric is not None
    assert report.metric.before == 0
    assert -0.2 <= report.metric.after < 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_number_format_stays(dtype: torch.dtype) -> None:
    model, inputs = case(families.torch_encoder)
    model = model.to(dtype)
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
    small, report = ef.shrink_heads(model, inputs, head_dim=4)
    assert {p.dtype for p in small.parameters()} == {dtype}
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert report.key_cache.after == 2 * 4 * 4 * dtype.itemsize  # two layers of four heads of four
    assert output(small, inputs).isfinite().all()


def test_a_cache_of_smaller_keys_gives_the_same_next_token() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 50, "n_positions": 40}
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **ends)).eval()
    families.sharpened(model)
    ids = families.tokens()["input_ids"]
    small: Any = ef.shrink_heads(model, {"input_ids": ids}, head_dim=4).model
    with torch.no_grad():
        whole = small(input_ids=ids).logits[:, -1]
        past = small(input_ids=ids[:, :-1], use_cache=True).past_key_values
        step = small(input_ids=ids[:, -1:], past_key_values=past).logits[:, -1]
    assert past.layers[0].keys.shape == (3, 4, 9, 4)
    assert torch.allclose(whole, step, atol=1e-4)


def test_a_model_that_is_one_attention_module_is_replaced_whole() -> None:
    model, batch = build(alone)
    small = ef.shrink_heads(model, batch.args, head_dim=3).model
    with torch.no_grad():
        outputs, attention = small(*batch.args, average_attn_weights=False)
        single, _ = small(*(x[0] for x in batch.args), need_weights=False)
    assert attention.shape == (3, 4, 9, 9)
    assert torch.allclose(attention.sum(dim=-1), torch.ones(3, 4, 9))
    assert torch.allclose(single, outputs[0], atol=1e-5)


def test_a_shrunk_encoder_of_torch_takes_padding_without_a_switch() -> None:
    """torch's short cut for padded batches reads weights that a smaller head does not have."""
    model, batch = build(families.torch_encoder)
    small = ef.shrink_heads(Called(model).eval(), named(batch), head_dim=4).model
    with torch.no_grad():
        assert torch.equal(small(**named(batch)), output(small, named(batch)))


def test_a_shrunk_model_is_analysed_like_any_other() -> None:
    pytest.importorskip("transformers")
    model, inputs = case(families.bert)
    small = ef.shrink_heads(model, inputs, head_dim=4).model
    table = ef.spectrum(small, inputs).table
    assert set(table["head_dim"]) == {4}
    assert table["rank"].max() <= 4


def test_a_padded_projection_gives_zeros_where_it_has_no_weights() -> None:
    kept = torch.tensor([0, 3])
    layer = PaddedProjection(torch.ones(2, 5), torch.tensor([1.0, 2.0]), kept, width=4)
    assert layer(torch.ones(1, 5)).tolist() == [[6.0, 0.0, 0.0, 7.0]]


@pytest.mark.parametrize("r", [0, -1, 9, 2.5, True])
def test_an_impossible_dimension_is_refused(r: Any) -> None:
    model, inputs = case(families.torch_encoder)
    with pytest.raises(InputError, match="head_dim"):
        ef.shrink_heads(model, inputs, head_dim=r)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "one of head_dim"),
        ({"head_dim": 2, "energy": 0.9}, "one of head_dim"),
        ({"energy": 1.5}, "energy"),
        ({"max_loss": -1.0}, "max_loss"),
        ({"head_dim": 2, "method": "magic"}, "data, weights"),
    ],
)
def test_contradictions_are_refused(how: dict[str, Any], message: str) -> None:
    model, inputs = case(families.torch_encoder)
    with pytest.raises(InputError, match=message):
        ef.shrink_heads(model, inputs, **how)


def test_no_inputs_training_mode_and_nan_are_refused() -> None:
    model, inputs = case(families.torch_encoder)
    with pytest.raises(InputError, match="no inputs"):
        ef.shrink_heads(model, [], head_dim=2)
    with pytest.raises(InputError, match="training mode"):
        ef.shrink_heads(model.train(), inputs, head_dim=2)
    next(model.eval().parameters()).fill_(torch.nan)
    with pytest.raises(ExactformerError):
        ef.shrink_heads(model, inputs, head_dim=2)


@pytest.mark.parametrize("make", [families.llama, families.qwen])
def test_a_rotary_model_is_pointed_to_its_cache(make: Callable[[], Case]) -> None:
    model, inputs = case(make)
    with pytest.raises(ExtractionError, match=r"self_attn.*ef\.shrink_cache"):
        ef.shrink_heads(model, inputs, head_dim=2)


@pytest.mark.parametrize("make", [families.llama, families.qwen, families.torch_apart])
def test_heads_that_no_smaller_projection_can_serve_are_refused_by_name(
    make: Callable[[], Case],
) -> None:
    model, inputs = case(make)
    with pytest.raises(ExtractionError, match=r"self_attn|attend"):
        ef.shrink_heads(model, inputs, head_dim=2)


def test_inputs_of_one_token_say_nothing() -> None:
    model, inputs = case(families.torch_causal)
    with pytest.raises(InputError, match="longer inputs"):
        ef.shrink_heads(model, {"argument_0": inputs["argument_0"][:, :1]}, head_dim=2)
