"""What is extracted is what the model attends with: its own attention comes out of it again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.errors import InputError
from exactformer.spectra import Attention, ExtractionError
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


def read_hand(module: Hand, x: Tensor) -> Attention:
    q, k = (f(x).unflatten(-1, (4, -1)).transpose(1, 2) for f in (module.to_q, module.to_k))
    return Attention(q, k, scale=0.5)


def test_unknown_attention_is_refused_by_the_name_of_its_module() -> None:
    model = nn.Sequential(nn.Linear(32, 32), Hand()).eval()
    with pytest.raises(ExtractionError, match=r"module '1' \(Hand\)"):
        verify(model, Batch((states(),)))


def test_one_unknown_module_among_known_ones_refuses_the_model() -> None:
    model = nn.Sequential(families.SelfAttention(32, 4), Hand()).eval()
    with pytest.raises(ExtractionError, match=r"module '1' \(Hand\)"):
        verify(model, Batch((states(),)))


@pytest.mark.parametrize("key", ["1", Hand])
def test_a_function_that_is_handed_over_reads_it_and_is_checked(key: Any) -> None:
    model, batch = nn.Sequential(nn.Linear(32, 32), Hand()).eval(), Batch((states(),))
    assert verify(model, batch, {key: read_hand}) < 1e-6
    with watching(model, {key: read_hand}) as watch:
        (scores,) = watch.run(batch)
    assert (scores.name, scores.heads, scores.head_dim) == ("1", 4, 8)
    spoilt = nn.Sequential(nn.Linear(32, 32), Hand(spoilt=True)).eval()
    with pytest.raises(ExtractionError, match=r"module '1' \(Hand\): probabilities rebuilt"):
        verify(spoilt, batch, {key: read_hand})


def test_a_function_that_shows_no_probabilities_is_refused() -> None:
    class Rectified(Hand):
        def forward(self, x: Tensor) -> Tensor:
            q, k = (f(x).unflatten(-1, (4, -1)).transpose(1, 2) for f in (self.to_q, self.to_k))
            return (0.5 * q @ k.mT).relu().mean(dim=1) @ x

    model, batch = nn.Sequential(Rectified()).eval(), Batch((states(),))
    with pytest.raises(ExtractionError, match=r"'0' \(Rectified\) shows no probabilities"):
        verify(model, batch, {"0": read_hand})

    def with_its_own(module: Rectified, x: Tensor) -> Attention:
        attention = read_hand(module, x)
        own = (0.5 * attention.queries @ attention.keys.mT).relu()
        return Attention(attention.queries, attention.keys, scale=0.5, probabilities=own)

    with pytest.raises(ExtractionError, match="differ from its own"):  # no softmax: no attention
        verify(model, batch, {"0": with_its_own})


@pytest.mark.parametrize(
    ("attention", "words"),
    [
        ({"2": read_hand}, "no module of the model is called so"),
        ({families.Mixed: read_hand}, "no module of the model is called so"),
        ({"1": 3}, "give a function, or None"),
        ({"1": lambda module, x: x}, "return exactformer.spectra.Attention"),
    ],
)
def test_functions_that_cannot_be_right_are_refused(attention: Any, words: str) -> None:
    model = nn.Sequential(nn.Linear(32, 32), Hand()).eval()
    with pytest.raises(InputError, match=words):
        verify(model, Batch((states(),)), attention)


def test_attention_at_a_primitive_inside_a_module_that_a_function_reads_is_listed() -> None:
    class Both(Hand):
        def __init__(self) -> None:
            super().__init__()
            self.inner = families.SelfAttention(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(self.inner(x))

    def read(module: Both, x: Tensor) -> Attention:
        return read_hand(module, module.inner(x))

    model, batch = nn.Sequential(Both()).eval(), Batch((states(),))
    with watching(model, {"0": read}) as watch:
        watch.run(batch)
    (left,) = watch.left_out
    assert (left.module, left.what[:26]) == ("0.inner", "attention at a primitive, ")


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


class Dropped(nn.Module):
    """Attention that is dropped at random though the model is in evaluation mode."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


def test_attention_that_is_dropped_at_random_is_refused() -> None:
    with pytest.raises(InputError, match="dropped at random"):
        extracted(nn.Sequential(Dropped()).eval(), Batch((states(),)))


@pytest.mark.parametrize("length", [5, 9])
def test_attention_to_another_sequence_is_told_from_that_to_its_own(length: int) -> None:
    """Of equal length or not, padding of one sequence is not that of the other."""
    if not _have_transformers():
        pytest.skip("transformers is not installed")
    model, batch = build(families.t5)
    shortened = {
        "decoder_input_ids": batch.kwargs["input_ids"][:, :length],
        "decoder_attention_mask": torch.ones(3, length, dtype=torch.long),
    }
    layers = extracted(model, Batch((), {**batch.kwargs, **shortened}))
    assert [scores.kind for scores in layers] == ["self"] * 2 + ["self", "cross"] * 2
    for scores in layers[2:]:
        assert scores.query_tokens.sum(dim=1).tolist() == [length] * 3


def test_what_is_not_a_number_agrees_with_nothing() -> None:
    model, batch = build(families.own_mixer)
    (scores,) = extracted(model, batch)
    own = scores.probabilities()
    own[0, 1, 2, 3] = torch.nan
    with pytest.raises(ExtractionError, match="differ from its own by nan"):
        compare(scores, own)
