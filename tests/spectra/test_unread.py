"""No model is read in part unawares: other attention is refused, other weights are listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.experiments.models.mixing import SelfAttention
from exactformer.spectra import Attention, ExtractionError
from exactformer.spectra import spectrum as analyse
from exactformer.spectra.batches import Batch
from exactformer.spectra.extraction import watching
from exactformer.spectra.result import Spectrum
from tests.spectra import families
from tests.spectra.families import HUGGING_FACE, OWN, TIMM, TORCH, Case, build

WIDTH, HEADS, TOKENS = 32, 4, 9
Mix = Callable[[Tensor, Tensor, Tensor], Tensor]


class ByHand(nn.Module):
    """Attention whose weights and mixing are a function of queries, keys and values."""

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mix = mix

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for f in (self.to_q, self.to_k, self.to_v)
        )
        mixed: Tensor = self.out(self.mix(q, k, v).transpose(1, 2).flatten(2))
        return mixed


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


def exponentials(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = scores(q, k)
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True) @ v


def normalised_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = scores(q, k).exp()
    return (e @ v) / e.sum(-1, keepdim=True)


def normalised_by_ones(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = scores(q, k).exp()
    return (e @ v) * (e @ torch.ones(TOKENS, 1)).reciprocal()


def power_of_two(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = 2.0 ** scores(q, k)
    return e / e.sum(-1, keepdim=True) @ v


def of_log_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).log_softmax(-1).exp() @ v


def of_logsumexp(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = scores(q, k)
    return (s - s.logsumexp(-1, keepdim=True)).exp() @ v


def of_a_flat_view(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = scores(q, k)
    return s.reshape(-1, TOKENS).softmax(-1).view_as(s) @ v


def of_one_head_and_input(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every product and every softmax has two axes."""
    mixed = torch.empty_like(v)
    for b in range(len(q)):
        for h in range(HEADS):
            mixed[b, h] = (q[b, h] @ k[b, h].T).softmax(-1) @ v[b, h]
    return mixed


def of_the_operator(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.ops.aten._softmax(scores(q, k), -1, False) @ v


def of_softmin(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.softmin(-scores(q, k), -1) @ v


def of_the_module(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return nn.Softmax(-1)(scores(q, k)) @ v


def of_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.einsum("bhtd,bhsd->bhts", q, k).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("bhts,bhsd->bhtd", weights, v)


def without_any_matrix_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1)
    weights = s.flatten(0, 2).softmax(-1).view_as(s)
    return (weights.unsqueeze(-1) * v.unsqueeze(2)).sum(3)


def of_distances(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = (-torch.cdist(q, k).square()).exp()
    return e / e.sum(-1, keepdim=True) @ v


def of_additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = torch.tanh(q.unsqueeze(3) + k.unsqueeze(2)).sum(-1).exp()
    return e / e.sum(-1, keepdim=True) @ v


def of_sigmoids(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).sigmoid() @ v


def of_rectified_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).relu().square() @ v / TOKENS


def of_capped_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (30 * (scores(q, k) / 30).tanh()).flatten(0, 2).softmax(-1).view(
        *q.shape[:3], TOKENS
    ) @ v


def in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = scores(q, k)
    s.sub_(s.amax(-1, keepdim=True)).exp_().div_(s.sum(-1, keepdim=True))
    return s @ v


def of_the_fused_operator(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mixed: Tensor = torch.ops.aten.scaled_dot_product_attention(q, k, v)
    return mixed


def of_one_kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mixed: Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]
    return mixed


def linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention without weights."""
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2).unsqueeze(-1))


def of_separate_softmaxes(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of linear cost: no product of a query and a key is ever formed."""
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


ATTENTION = [
    exponentials,
    normalised_last,
    normalised_by_ones,
    power_of_two,
    of_log_softmax,
    of_logsumexp,
    of_a_flat_view,
    of_one_head_and_input,
    of_the_operator,
    of_softmin,
    of_the_module,
    of_einsum,
    without_any_matrix_product,
    of_distances,
    of_additive_scores,
    of_sigmoids,
    of_rectified_scores,
    of_capped_scores,
    in_place,
    of_the_fused_operator,
    of_one_kernel,
    of_separate_softmaxes,
    linear,
]


def spectrum(model: nn.Module, inputs: Any = None, **options: Any) -> Spectrum:
    """On the processor, for which some of the models here are written."""
    given = states() if inputs is None else inputs
    return analyse(model.eval(), given, device="cpu", progress=False, **options)


def states() -> Tensor:
    return families.states(WIDTH)


def beside(part: nn.Module) -> nn.Module:
    """A model whose first layer is read, and a second part."""
    torch.manual_seed(0)
    return nn.Sequential(SelfAttention(WIDTH, HEADS), part).eval()


@pytest.mark.parametrize("mix", ATTENTION)
def test_attention_in_any_words_is_refused_by_the_name_of_its_module(mix: Mix) -> None:
    with pytest.raises(
        ExtractionError, match=r"module '1.*could be attention of its own.*hand over a function"
    ):
        spectrum(beside(ByHand(mix)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_attention_is_refused() -> None:
    """A scripted function runs outside of Python, but not around torch's operators."""
    scripted = torch.jit.script(of_the_softmax)
    with pytest.raises(ExtractionError, match=r"module '1' \(ByHand\)"):
        spectrum(beside(ByHand(scripted)))


def of_the_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.matmul(q, k.transpose(-2, -1)), dim=-1) @ v


def test_compiled_attention_is_refused() -> None:
    part = torch.compile(ByHand(exponentials), fullgraph=True)
    with pytest.raises(ExtractionError, match=r"module '1.*could be attention of its own"):
        spectrum(beside(part))


def test_flexible_attention_is_refused() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    class Flexible(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return flex.flex_attention(*(x.unsqueeze(1) for _ in range(3)))

    with (
        pytest.warns(UserWarning, match="flex_attention"),
        pytest.raises(ExtractionError, match=r"module '1' \(Flexible\).*flex_attention"),
    ):
        spectrum(beside(Flexible()))


class Pooling(nn.Module):
    """Tokens weighed by a softmax of one number per token."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.score(x).squeeze(-1).softmax(-1)
        return (weights.unsqueeze(-1) * x).sum(1)


def test_pooling_over_tokens_could_be_attention() -> None:
    with pytest.raises(ExtractionError, match=r"module '1' \(Pooling\)"):
        spectrum(beside(Pooling()))


class Probabilities(nn.Module):
    def __init__(self, tokens: bool) -> None:
        super().__init__()
        self.classify, self.tokens = nn.Linear(WIDTH, 6), tokens

    def forward(self, x: Tensor) -> Any:
        return self.classify(x if self.tokens else x.mean(1)).softmax(-1)


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classify = nn.Linear(WIDTH, 6)

    def forward(self, x: Tensor) -> Any:
        return functional.cross_entropy(self.classify(x.mean(1)), torch.tensor([0, 1, 2]))


class Experts(nn.Module):
    """A mixture of experts: gates by softmax, the two largest of each token, or all of them."""

    def __init__(self, tokens_flat: bool, all_of_them: bool) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 5)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.flat, self.all = tokens_flat, all_of_them
        self.after = SelfAttention(WIDTH, HEADS)

    def forward(self, x: Tensor) -> Any:
        flat = x.flatten(0, 1) if self.flat else x
        gates = self.router(flat).softmax(-1)
        outputs = torch.stack([expert(flat) for expert in self.experts], dim=-2)
        if not self.all:
            gates, chosen = gates.topk(2)
            gates = gates / gates.sum(-1, keepdim=True)
            outputs = outputs.gather(-2, chosen.unsqueeze(-1).expand(*chosen.shape, WIDTH))
        mixed = (gates.unsqueeze(-1) * outputs).sum(-2)
        return self.after(x + mixed.view_as(x))


class Contrast(nn.Module):
    """Probabilities of pairs: a product of two things computed from the input that mixes nothing."""

    def forward(self, x: Tensor) -> Any:
        pooled = x.mean(1)
        return (pooled @ pooled.T).softmax(-1)


OTHER = {
    "classes": lambda: Probabilities(tokens=False),
    "classes of tokens": lambda: Probabilities(tokens=True),
    "cross entropy": Loss,
    "experts": lambda: Experts(tokens_flat=True, all_of_them=False),
    "experts of sequences": lambda: Experts(tokens_flat=False, all_of_them=False),
    "all experts": lambda: Experts(tokens_flat=True, all_of_them=True),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_weights_are_listed_and_the_model_is_read(name: str) -> None:
    result = spectrum(beside(OTHER[name]()))
    assert result.layers[0].name == "0"
    assert any("softmax" in left.what for left in result.left_out)
    assert {left.module for left in result.left_out} == {"1"}
    for left in result.left_out:
        assert f"left out: {left}" in str(result)


@pytest.mark.parametrize("make", [*HUGGING_FACE, *TORCH, *OWN, *TIMM])
def test_nothing_is_left_out_of_a_model_that_is_all_primitives(make: Callable[[], Case]) -> None:
    model, batch = build(make)
    with watching(model) as watch:
        watch.run(batch)
    assert watch.left_out == ()


@pytest.mark.parametrize("make", [Pooling, Contrast, lambda: ByHand(linear)])
def test_what_is_declared_not_to_be_attention_is_listed(make: Callable[[], nn.Module]) -> None:
    model = beside(make())
    with pytest.raises(ExtractionError, match="module '1'"):
        spectrum(model)
    left_out = spectrum(model, attention={"1": None}).left_out
    assert left_out
    for left in left_out:
        assert left.module == "1"
        assert "declared not to be attention" in left.what


class Twice(nn.Module):
    """Two attentions in one module; the function that reads it knows of one."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.to_q(x), self.to_k(x)
        first = torch.softmax(k @ q.mT, dim=-1) @ x
        return torch.softmax(q @ k.mT, dim=-1) @ first


def test_a_second_attention_beside_the_one_that_a_function_reads_is_listed() -> None:
    model = beside(Twice())
    with watching(model, {"1": read_twice}) as watch:
        watch.run(Batch((states(),)))
    (left,) = watch.left_out
    assert left.module == "1"
    assert "besides the one that its function reads" in left.what


def read_twice(module: Twice, x: Tensor) -> Attention:
    return Attention(module.to_q(x).unsqueeze(1), module.to_k(x).unsqueeze(1))


def test_what_is_left_out_is_stored_and_survives_every_batch(tmp_path: Any) -> None:
    model = beside(Probabilities(tokens=False))
    result = spectrum(model, [states(), states()])
    assert len(result.left_out) == 1
    result.save(tmp_path / "spectrum.safetensors")
    assert Spectrum.load(tmp_path / "spectrum.safetensors").left_out == result.left_out
    assert result.to_dict()["left_out"] == [vars(left) for left in result.left_out]


def test_a_branch_that_only_a_later_batch_takes_is_seen() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = SelfAttention(WIDTH, HEADS), ByHand(exponentials)

        def forward(self, x: Tensor) -> Any:
            return self.second(x) if x.sum() > 1e6 else self.first(x)

    with pytest.raises(ExtractionError, match="module 'second'"):
        spectrum(Branch(), [states(), states() + 1e6])


def test_batch_of_the_first_run_is_followed_without_a_model_of_its_own() -> None:
    """A model that is one module and no more is named as itself."""
    with pytest.raises(ExtractionError, match=r"the model itself \(ByHand\)"):
        spectrum(ByHand(exponentials))


def test_following_data_changes_no_number() -> None:
    model, batch = build(families.own_mixer)
    with torch.no_grad():
        plain = batch.call(model)
    outputs: list[Tensor] = []
    handle = model.register_forward_hook(lambda m, a, output: outputs.append(output))
    with watching(model) as watch:
        watch.run(Batch(batch.args))
    handle.remove()
    assert torch.equal(outputs[0], plain)


@pytest.mark.parametrize("make", [families.gptj, families.bloom])
def test_models_that_multiply_by_themselves_are_refused_by_name(make: Callable[[], Case]) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    model, batch = build(make)
    with pytest.raises(ExtractionError, match=r"h\.0.*(GPTJ|Bloom)Attention"):
        spectrum(model, batch.kwargs)


ROTARY = [
    families.mistral,
    families.gemma,
    families.gemma3,
    families.phi,
    families.cohere,
    families.qwen2,
]


@pytest.mark.parametrize("make", ROTARY)
def test_rotary_models_of_all_kinds_are_read(make: Callable[[], Case]) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    model, batch = build(make)
    result = spectrum(model, batch.kwargs)
    assert result.agreement < 1e-5
    assert result.left_out == ()
