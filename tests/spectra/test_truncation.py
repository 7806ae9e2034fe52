"""Scores from leading directions: the best of their rank, and nothing else of the model is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.experiments.models.mixing import SelfAttention
from exactformer.spectra import Attention, ExtractionError, Spectrum, spectrum
from exactformer.spectra.batches import Batch
from exactformer.spectra.primitives import Reading
from tests.spectra import families
from tests.spectra.conftest import hugging_face_is_here
from tests.spectra.families import Case, build
from tests.spectra.test_spectrum import PLANTED, Named, planted_mixer

Make = Callable[[], Case]
needs_transformers = pytest.mark.skipif(not hugging_face_is_here(), reason="no transformers")
HUGGING_FACE = [
    families.bert,
    families.gpt2,
    families.llama,
    families.llama_unpadded,
    families.qwen,
    families.t5,
    families.bart,
    families.vit,
    families.siglip,
]
EVERY = [*HUGGING_FACE, *families.TORCH, *families.OWN, *families.TIMM]


def taken(make: Make) -> tuple[nn.Module, Batch, Spectrum]:
    """A model, its input, and the spectrum of the one on the other."""
    model, batch = build(make)
    if batch.args and batch.kwargs:
        model, batch = Named(model, batch.kwargs).eval(), Batch(batch.args)
    return model, batch, spectrum(model, batch.kwargs or batch.args, device="cpu", progress=False)


def unmasked() -> Case:
    return SelfAttention(32, 4), Batch((families.states(),))


def outputs(model: nn.Module, batch: Batch) -> list[Tensor]:
    with torch.no_grad():
        result: Any = batch.call(model)
    values = [result] if isinstance(result, Tensor) else result
    values = values.values() if isinstance(values, dict) else values
    return [value for value in values if isinstance(value, Tensor)]


@contextmanager
def attended() -> Iterator[list[Attention]]:
    """What meets at primitives while the context lasts, in order."""
    seen: list[Attention] = []
    with Reading(seen.append, nullcontext):
        yield seen


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("make", EVERY)
def test_at_full_rank_outputs_are_equal_bit_for_bit(make: Make) -> None:
    model, batch, result = taken(make)
    before = outputs(model, batch)
    full = max(layer.head_dim for layer in result.layers)
    for context in (result.truncated(model, full), result.truncated(model, energy=1.0)):
        with context:
            after = outputs(model, batch)
        assert before
        for one, two in zip(before, after, strict=True):
            assert torch.equal(one.nan_to_num(), two.nan_to_num())


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize(
    "make",
    [
        families.llama_unpadded,
        families.vit,
        families.mistral,
        families.torch_encoder,
        unmasked,
    ],
)
def test_what_scores_lose_is_the_energy_of_the_other_directions(make: Make, rank: int) -> None:
    """Of all queries against all keys, in the first layer, whose inputs are what they were."""
    if make in (families.llama_unpadded, families.vit, families.mistral):
        pytest.importorskip("transformers", reason="transformers is not installed")
    model, batch = build(make)
    batch = Batch(batch.args[:1], {n: v for n, v in batch.kwargs.items() if "mask" not in n})
    result = spectrum(model, batch.kwargs or batch.args, device="cpu", progress=False)
    with attended() as seen:
        outputs(model, batch)
    before = seen[0]
    with attended() as seen, result.truncated(model, rank):
        outputs(model, batch)
    after = seen[0]
    assert torch.equal(after.keys, before.keys)
    layer = result.layers[0]
    heads = layer.heads
    keys = before.keys.repeat_interleave(heads // before.keys.shape[1], dim=1)
    q, r, k = (
        x.transpose(0, 1).flatten(1, 2).double() for x in (before.queries, after.queries, keys)
    )
    whole, cut = q @ k.mT, r @ k.mT
    lost = (whole - cut).square().sum((1, 2)) / whole.square().sum((1, 2))
    assert lost.tolist() == pytest.approx([layer.lost(h, rank) for h in range(heads)], rel=1e-4)
    values = torch.linalg.svdvals(cut)
    assert (values[:, rank] <= 1e-5 * values[:, 0]).all()
    assert (values[:, rank - 1] > 1e-3 * values[:, 0]).all()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("make", EVERY)
def test_fewer_directions_change_every_model(make: Make) -> None:
    model, batch, result = taken(make)
    before = outputs(model, batch)
    with result.truncated(model, 1):
        after = outputs(model, batch)
    moved = [float((a - b).nan_to_num().abs().max()) for a, b in zip(before, after, strict=True)]
    assert max(moved) > 1e-4


def test_directions_that_a_head_never_uses_cost_nothing() -> None:
    torch.manual_seed(0)
    model, x = planted_mixer(), torch.randn(3, 40, 128)
    result = spectrum(model, x, device="cpu")
    before = model(x)
    with result.truncated(model, max(PLANTED)):
        assert torch.allclose(model(x), before, rtol=0, atol=1e-4)
    with result.truncated(model, energy=1 - 1e-6):
        assert torch.allclose(model(x), before, rtol=0, atol=0.05)
    with result.truncated(model, 2):
        assert not torch.allclose(model(x), before, rtol=0, atol=0.05)


def test_a_share_of_the_energy_gives_each_head_its_own_rank() -> None:
    torch.manual_seed(0)
    model, x = planted_mixer(), torch.randn(3, 40, 128)
    result = spectrum(model, x, device="cpu")
    with attended() as seen, result.truncated(model, energy=0.9):
        model(x)
    queries = seen[0].queries.transpose(0, 1).flatten(1, 2).double()
    ranks = torch.linalg.matrix_rank(queries, rtol=1e-5).tolist()
    assert ranks == [result.layers[0].shared(head, 0.9) for head in range(4)]
    assert len(set(ranks)) > 1


def test_the_mean_key_is_free_in_a_centred_spectrum() -> None:
    """Keys far from zero: all of the energy is in their mean, which a softmax does not see."""
    torch.manual_seed(0)
    model, x = planted_mixer(), torch.randn(3, 40, 128)
    model.incoming.bias[128:256] = 100 * torch.randn(128)
    before = model(x)
    price = {}
    for centred in (False, True):
        result = spectrum(model, x, centred=centred, device="cpu")
        with result.truncated(model, max(PLANTED)):
            price[centred] = float((model(x) - before).abs().max())
    assert price[True] < 1e-2 < price[False] + 1e-2
    assert price[True] <= price[False]


@needs_transformers
@pytest.mark.parametrize("make", [families.gpt2, families.llama])
def test_decoding_token_by_token_gives_what_reading_at_once_gives(make: Make) -> None:
    model, _, result = taken(make)
    ids = families.tokens()["input_ids"]
    with torch.no_grad(), result.truncated(model, 3):
        whole = model(input_ids=ids).last_hidden_state
        past, parts = None, []
        for token in ids.split(1, dim=1):
            step = model(input_ids=token, past_key_values=past, use_cache=True)
            past = step.past_key_values
            parts.append(step.last_hidden_state)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-4)


def test_attention_that_runs_twice_has_two_matrices() -> None:
    class Repeated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixer, self.times = SelfAttention(32, 4), 2

        def forward(self, x: Tensor) -> Any:
            for _ in range(self.times):
                x = self.mixer(x)
            return x

    model, x = Repeated().eval(), families.states()
    result = spectrum(model, x, device="cpu")
    assert [layer.name for layer in result.layers] == ["mixer", "mixer#2"]
    with attended() as seen, result.truncated(model, 2), torch.no_grad():
        model(x)
        model(x)
    assert len(seen) == 4
    assert torch.equal(seen[1].queries, seen[3].queries)
    first, second = (torch.linalg.svd(one.queries[:, 0].flatten(0, 1))[2][:2] for one in seen[:2])
    assert float((first.abs() - second.abs()).abs().max()) > 0.01
    model.times = 3
    with pytest.raises(ExtractionError, match="no attention 'mixer#3'"), result.truncated(model, 2):
        model(x)


@needs_transformers
def test_a_model_is_left_as_it_was_even_by_an_error() -> None:
    model, batch, result = taken(families.bert)
    eager(model)
    before = outputs(model, batch)
    fast = torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(ValueError, match="input_ids"), result.truncated(model, 2):
        model()
    assert model.config._attn_implementation == "eager"
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(map(torch.equal, before, outputs(model, batch)))


@needs_transformers
def test_a_run_that_failed_does_not_confuse_the_next() -> None:
    model, batch, result = taken(families.gpt2)
    with result.truncated(model, 2):
        before = outputs(model, batch)
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.full((1, 4), 10**6))
        assert all(map(torch.equal, before, outputs(model, batch)))


def eager(model: nn.Module) -> nn.Module:
    model.set_attn_implementation("eager")  # type: ignore[operator]
    return model


@needs_transformers
def test_a_model_that_leaves_the_primitive_is_refused_by_name() -> None:
    model, batch, result = taken(families.bert)
    with (
        pytest.raises(ExtractionError, match=r"encoder\.layer\.0.*called no primitive"),
        result.truncated(model, 2),
    ):
        outputs(eager(model), batch)


def test_heads_that_a_function_reads_cannot_be_truncated() -> None:
    class Hand(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.mT).softmax(dim=-1) @ x

    def read(module: nn.Module, x: Tensor) -> Attention:
        return Attention(
            x.unsqueeze(1), x.unsqueeze(1), probabilities=(x @ x.mT).softmax(-1)[:, None]
        )

    model, x = nn.Sequential(nn.Linear(32, 8), Hand()).eval(), families.states()
    result = spectrum(model, x, attention={Hand: read}, device="cpu")
    with (
        pytest.raises(ExtractionError, match=r"'1' .*called no primitive"),
        result.truncated(model, 2),
    ):
        model(x)


def test_another_model_is_refused() -> None:
    x = families.states()
    result = spectrum(SelfAttention(32, 4).eval(), x, device="cpu")
    with (
        pytest.raises(ExtractionError, match=r"2 heads of 16.*4 heads there"),
        result.truncated(other := SelfAttention(32, 2).eval(), 2),
    ):
        other(x)
    with (
        pytest.raises(ExtractionError, match="not of attends inside"),
        result.truncated(SelfAttention(32, 4).eval(), 2),
    ):
        SelfAttention(32, 4).eval()(x)
    deeper = spectrum(nn.Sequential(SelfAttention(32, 4)).eval(), x, device="cpu")
    with (
        pytest.raises(InputError, match="this one has no '0'"),
        deeper.truncated(SelfAttention(32, 4).eval(), 2),
    ):
        pass


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "one of the two"),
        ({"rank": 2, "energy": 0.9}, "one of the two"),
        ({"rank": 0}, "rank is 0"),
        ({"rank": 2.5}, r"rank is 2\.5"),
        ({"rank": True}, "rank is True"),
        ({"energy": 0.0}, r"energy is 0\.0"),
        ({"energy": 1.5}, r"energy is 1\.5"),
        ({"energy": float("nan")}, "energy is nan"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], words: str) -> None:
    model = SelfAttention(32, 4).eval()
    result = spectrum(model, families.states(), device="cpu")
    with pytest.raises(InputError, match=words), result.truncated(model, **asked):
        pass


def test_a_model_in_training_is_refused() -> None:
    model = SelfAttention(32, 4).eval()
    result = spectrum(model, families.states(), device="cpu")
    with pytest.raises(InputError, match="training mode"), result.truncated(model.train(), 2):
        pass


def test_a_spectrum_from_a_file_truncates_alike(tmp_path: Path) -> None:
    model, x = SelfAttention(32, 4).eval(), families.states()
    result = spectrum(model, x, device="cpu")
    result.save(tmp_path / "s.safetensors")
    with result.truncated(model, 3):
        ours = model(x)
    with Spectrum.load(tmp_path / "s.safetensors").truncated(model, 3):
        assert torch.equal(model(x), ours)


@pytest.mark.parametrize("make", [unmasked, families.torch_encoder])
def test_half_precision_stays_half_precision(make: Make) -> None:
    model, batch, result = taken(make)
    half = deepcopy(model).to(torch.bfloat16)
    with result.truncated(model, 3):
        (whole,) = outputs(model, batch)
    with result.truncated(half, 3):
        (rounded,) = outputs(half, batch.as_taken_by(half))
    assert rounded.dtype == torch.bfloat16
    there = families.padding()
    assert float((rounded.float() - whole)[there].abs().max()) < 0.05 * float(
        whole[there].abs().max()
    )


def test_autocast_takes_other_queries_too() -> None:
    model, batch, result = taken(unmasked)
    with torch.autocast("cpu", torch.bfloat16), result.truncated(model, 3):
        (mixed,) = outputs(model, batch)
    with result.truncated(model, 3):
        (whole,) = outputs(model, batch)
    assert float((mixed.float() - whole).abs().max()) < 0.05 * float(whole.abs().max())


def test_compiled_models_are_truncated_too() -> None:
    model, x = SelfAttention(32, 4).eval(), families.states()
    result = spectrum(model, x, device="cpu")
    with torch.no_grad(), result.truncated(model, 2):
        ours = model(x)
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad(), result.truncated(compiled, 2):
        assert torch.equal(compiled(x), ours)
