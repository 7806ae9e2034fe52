"""What is extracted is what the model attends with: its own attention comes out of it again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.spectra import Adapter, Attention, Call, ExtractionError, register, unregister
from exactformer.spectra.batches import Batch
from exactformer.spectra.extraction import watching
from exactformer.spectra.scores import Scores
from exactformer.spectra.verification import compare, verify
from tests.spectra import families
from tests.spectra.families import HUGGING_FACE, LENGTHS, OWN, PADDED, TIMM, TORCH, Case, build

Make = Callable[[], Case]
_NESTED = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def extracted(model: nn.Module, batch: Batch) -> list[Scores]:
    with watching(model) as watch:
        return watch.run(batch)


@pytest.mark.spread(8)
@pytest.mark.parametrize("make", [*HUGGING_FACE, *TORCH, *OWN, *TIMM])
def test_attention_rebuilt_is_the_models_own(make: Make) -> None:
    assert verify(*build(make)) < 1e-5


@pytest.mark.parametrize("make", HUGGING_FACE)
def test_attention_rebuilt_is_what_output_attentions_returns(make: Make) -> None:
    model, batch = build(make)
    if make is families.t5:  # its scores are not scaled, and float32 rounds such large ones by 1e-5
        model.double()
    layers = extracted(model, batch)
    for part in model.modules():  # T5's two stacks have configurations of their own
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**batch.kwargs, output_attentions=True)
    named = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    own = {a.data_ptr(): a for name in named for a in output.get(name) or ()}
    assert len(own) == len(layers)
    for scores in layers:
        rows = scores.query_tokens[:, None].expand(scores.queries.shape[:3])
        rebuilt = scores.probabilities()
        best = min(
            float((rebuilt - a)[rows].abs().max()) for a in own.values() if a.shape == rebuilt.shape
        )
        assert best < 1e-6, scores.name


@_NESTED
@pytest.mark.parametrize("make", [families.torch_encoder, families.torch_causal])
def test_attention_rebuilt_is_what_need_weights_returns(make: Make) -> None:
    model, batch = build(make)
    weights: list[Tensor] = []
    layers = extracted(model, batch)
    for layer in model.layers:  # type: ignore[union-attr]
        attention = layer.self_attn

        def ask(module: Any, args: Any, kwargs: Any) -> Any:
            return args, kwargs | {"need_weights": True, "average_attn_weights": False}

        attention.register_forward_pre_hook(ask, with_kwargs=True)
        attention.register_forward_hook(lambda module, args, output: weights.append(output[1]))
    with torch.no_grad():
        batch.call(model)
    for scores, own in zip(layers, weights, strict=True):
        rows = scores.query_tokens[:, None].expand(scores.queries.shape[:3])
        rebuilt = scores.probabilities()
        torch.testing.assert_close(rebuilt[rows], own[rows], rtol=0, atol=1e-5)


@pytest.mark.parametrize("make", PADDED)
def test_padding_is_no_token(make: Make) -> None:
    for scores in extracted(*build(make)):
        assert scores.query_tokens.sum(dim=1).tolist() == LENGTHS
        assert scores.key_tokens.sum(dim=1).tolist() == LENGTHS


def test_attention_to_another_sequence_counts_the_tokens_of_both() -> None:
    if not _have_transformers():
        pytest.skip("transformers is not installed")
    cross = [s for s in extracted(*build(families.t5)) if s.kind == "cross"]
    assert len(cross) == 2
    for scores in cross:
        assert scores.query_tokens.sum(dim=1).tolist() == [5, 5, 4]
        assert scores.key_tokens.sum(dim=1).tolist() == LENGTHS


def _have_transformers() -> bool:
    from tests.spectra.conftest import hugging_face_is_here

    return hugging_face_is_here()


@pytest.mark.parametrize(
    ("make", "groups"), [(families.llama, 2), (families.llama_unpadded, 2), (families.qwen, 1)]
)
def test_grouped_queries_share_keys(make: Make, groups: int) -> None:
    for scores in extracted(*build(make)):
        assert (scores.heads, scores.kv_heads) == (4, groups)
        assert [scores.key_head(h) for h in range(4)] == [h * groups // 4 for h in range(4)]


@pytest.mark.parametrize(
    "make",
    [
        families.bert,
        families.vit,
        families.gpt2,
        families.t5,
        families.bart,
        families.torch_encoder,
        families.torch_decoder,
        families.own_mixer,
        *TIMM,
    ],
)
def test_projections_give_queries_and_keys(make: Make) -> None:
    """W x + b of the named rows, times the scale, are the queries; so for keys."""
    model, batch = build(make)
    inputs: dict[str, tuple[Tensor, ...]] = {}
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, a, name=name: inputs.__setitem__(name, a))
    for scores in extracted(model, batch):
        pairs = [
            (scores.query_projection, scores.queries / scores.scale, 0),
            (scores.key_projection, scores.keys, 1),
        ]
        for projection, product, place in pairs:
            assert projection is not None
            if not projection.plain:
                assert make is families.timm_normed
                continue
            given = inputs[projection.module]
            x = given[place] if isinstance(scores.module, nn.MultiheadAttention) else given[0]
            if make is families.torch_decoder:
                x = x.transpose(0, 1)
            rebuilt = torch.einsum("bti,hmi->bhtm", x, projection.matrix(model))
            offset = projection.offset(model)
            rebuilt = rebuilt if offset is None else rebuilt + offset[:, None]
            torch.testing.assert_close(rebuilt, product, rtol=1e-4, atol=1e-4)


def test_weights_kept_apart_find_their_biases() -> None:
    model, batch = build(families.torch_apart)
    (scores,) = extracted(model, batch)
    for projection, product, x in [
        (scores.query_projection, scores.queries / scores.scale, batch.args[0]),
        (scores.key_projection, scores.keys[:, :, :9], batch.args[1]),
    ]:
        assert projection is not None
        offset = projection.offset(model)
        assert offset is not None
        rebuilt = torch.einsum("bti,hmi->bhtm", x, projection.matrix(model)) + offset[:, None]
        torch.testing.assert_close(rebuilt, product, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [families.llama, families.qwen, families.neox])
def test_rotary_positions_and_norms_are_noticed(make: Make) -> None:
    for scores in extracted(*build(make)):
        assert scores.query_projection is not None
        assert not scores.query_projection.plain


@_NESTED
@pytest.mark.parametrize("make", [families.bert, *TIMM, families.torch_encoder])
def test_a_model_is_left_as_it_was(make: Make) -> None:
    model, batch = build(make)
    fast = torch.backends.mha.get_fastpath_enabled()
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", None)
    switches = [m.fused_attn for m in model.modules() if hasattr(m, "fused_attn")]
    with torch.no_grad():
        before = batch.call(model)
    verify(model, batch)
    extracted(model, batch)
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert getattr(getattr(model, "config", None), "_attn_implementation", None) == implementation
    assert [m.fused_attn for m in model.modules() if hasattr(m, "fused_attn")] == switches
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with torch.no_grad():
        after = batch.call(model)
    first, second = (out if isinstance(out, Tensor) else out[0] for out in (before, after))
    assert torch.equal(first[padded(first)], second[padded(second)])


def padded(output: Tensor) -> Any:
    return families.padding() if output.shape[:2] == (3, 9) else ...


class Hand(nn.Module):
    """Attention written out, with a temperature: no primitive is called."""

    def __init__(self, spoilt: bool = False) -> None:
        super().__init__()
        self.to_q, self.to_k = nn.Linear(32, 32), nn.Linear(32, 32)
        self.spoilt = spoilt

    def forward(self, x: Tensor) -> Tensor:
        q, k = (f(x).unflatten(-1, (4, -1)).transpose(1, 2) for f in (self.to_q, self.to_k))
        scores = 0.5 * q @ k.mT
        scores = scores.tanh() if self.spoilt else scores
        return scores.softmax(dim=-1).mean(dim=1) @ x


class HandAdapter(Adapter):
    def matches(self, module: nn.Module) -> bool:
        return isinstance(module, Hand)

    def attention(self, module: nn.Module, call: Call) -> Attention:
        q, k = (call.inside[n].unflatten(-1, (4, -1)).transpose(1, 2) for n in ("to_q", "to_k"))
        return Attention(q, k, scale=0.5)


def test_unknown_attention_is_refused_by_the_name_of_its_module() -> None:
    model = nn.Sequential(nn.Linear(32, 32), Hand()).eval()
    with pytest.raises(ExtractionError, match=r"module '1' \(Hand\)"):
        verify(model, Batch((states(),)))


def test_one_unknown_module_among_known_ones_refuses_the_model() -> None:
    model = nn.Sequential(families.SelfAttention(32, 4), Hand()).eval()
    with pytest.raises(ExtractionError, match=r"module '1' \(Hand\)"):
        verify(model, Batch((states(),)))


def test_an_adapter_makes_it_known_and_is_checked() -> None:
    adapter = HandAdapter()
    register(adapter)
    try:
        model = nn.Sequential(nn.Linear(32, 32), Hand()).eval()
        batch = Batch((states(),))
        assert verify(model, batch) < 1e-6
        (scores,) = extracted(model, batch)
        assert (scores.name, scores.heads, scores.head_dim) == ("1", 4, 8)
        with pytest.raises(ExtractionError, match=r"module '1' \(Hand\): probabilities rebuilt"):
            verify(nn.Sequential(nn.Linear(32, 32), Hand(spoilt=True)).eval(), batch)
    finally:
        unregister(adapter)


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(ExtractionError, match="no attention was found"):
        verify(nn.Sequential(nn.Linear(32, 32)).eval(), Batch((states(),)))


def test_attention_that_runs_twice_has_two_names() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixer = families.SelfAttention(32, 4)

        def forward(self, x: Tensor) -> Any:
            return self.mixer(self.mixer(x))

    names = [s.name for s in extracted(Twice().eval(), Batch((states(),)))]
    assert names == ["mixer", "mixer#2"]


def test_layers_are_forgotten_as_they_pass() -> None:
    model, batch = build(families.torch_encoder)
    passed: list[weakref.ref[Tensor]] = []

    def each(scores: Scores) -> None:
        assert all(earlier() is None for earlier in passed)
        passed.append(weakref.ref(scores.queries))

    with watching(model) as watch:
        watch.run(batch, each)
    assert len(passed) == 2


def test_a_wrong_scale_would_be_noticed() -> None:
    model, batch = build(families.own_mixer)
    (scores,) = extracted(model, batch)
    own = scores.probabilities()
    wrong = Scores(**{**vars(scores), "queries": scores.queries * 1.01})
    with pytest.raises(ExtractionError, match="mixer"):
        compare(wrong, own)


def test_attention_without_an_axis_for_heads_has_one_head() -> None:
    class Bare(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    model, batch = Bare().eval(), Batch((states(),))
    assert verify(model, batch) < 1e-5
    (scores,) = extracted(model, batch)
    assert scores.heads == 1
    assert scores.causal


def states() -> Tensor:
    return families.states()


class T5Attention(nn.Module):
    """T5's attention as it was written before it used a primitive."""

    def __init__(self) -> None:
        super().__init__()
        self.n_heads = 4
        self.q, self.k, self.v = (nn.Linear(32, 24, bias=False) for _ in range(3))

    def forward(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (f(x).view(*x.shape[:2], 4, 6).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.mT
        scores += bias
        mixed = functional.softmax(scores.float(), dim=-1) @ v
        return mixed.transpose(1, 2).flatten(2), bias


def test_attention_of_t5_written_out_is_read_too() -> None:
    torch.manual_seed(0)
    hidden = torch.zeros(3, 1, 1, 9).masked_fill(~families.padding()[:, None, None], -1e30)
    batch = Batch((states(), torch.randn(1, 4, 9, 9) + hidden))
    model = nn.ModuleDict({"layer": T5Attention()}).eval()
    model.forward = lambda x, bias: model["layer"](x, bias)  # type: ignore[assignment]
    assert verify(model, batch) < 1e-6
    (scores,) = extracted(model, batch)
    assert scores.key_tokens.sum(dim=1).tolist() == LENGTHS
    assert scores.query_projection is not None
    assert scores.query_projection.plain
