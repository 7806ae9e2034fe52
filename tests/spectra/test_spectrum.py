"""A model's spectrum: planted ranks are found, streaming changes nothing, files and figures hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from exactformer.errors import FileFormatError, InputError
from exactformer.experiments.models.mixing import SelfAttention
from exactformer.spectra import ExtractionError, Spectrum, analysis, control_model, spectrum
from exactformer.spectra.batches import Batch
from exactformer.spectra.preparation import prepared
from tests.spectra import families
from tests.spectra.conftest import hugging_face_is_here
from tests.spectra.families import HUGGING_FACE, OWN, TIMM, TORCH, Case, build

PLANTED = [1, 2, 5, 17]
needs_transformers = pytest.mark.skipif(not hugging_face_is_here(), reason="no transformers")


def plant(query: Tensor, key: Tensor, ranks: list[int], m: int) -> None:
    """Give head h scores of rank ranks[h], though both its weights have a higher rank.

    Queries of head h use the first 3m/4 of m coordinates, keys the last m/4 + r: r in common, all
    turned by one orthogonal matrix, so that no coordinate is zero.
    """
    used = 3 * m // 4
    for head, rank in enumerate(ranks):
        rows = slice(head * m, (head + 1) * m)
        turn, _ = torch.linalg.qr(torch.randn(m, m, dtype=torch.float64))
        w_q, w_k = (torch.randn(m, query.shape[1], dtype=torch.float64) for _ in range(2))
        w_q[used:] = 0
        w_k[: used - rank] = 0
        query[rows], key[rows] = (turn @ w_q).to(query.dtype), (turn @ w_k).to(key.dtype)


def planted_mixer(dtype: torch.dtype = torch.float32, m: int = 32) -> nn.Module:
    model = SelfAttention(4 * m, 4).eval().requires_grad_(False).to(dtype)
    weight = model.incoming.weight
    plant(weight[: 4 * m], weight[4 * m : 8 * m], PLANTED, m)
    model.incoming.bias.zero_()
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_planted_ranks_are_found_exactly(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    table = spectrum(planted_mixer(dtype), torch.randn(3, 40, 128)).table
    assert table["rank"].tolist() == PLANTED
    assert table["verdict"].tolist() == [f"rank {r} of 32" for r in PLANTED]
    assert (table["shared_999"] <= PLANTED).all()


@needs_transformers
def test_planted_ranks_are_found_in_a_pretrained_architecture() -> None:
    """Through embeddings, norms and a second layer, with biases on queries: q b is of rank one more."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=128,
        num_attention_heads=4,
        num_hidden_layers=2,
        intermediate_size=64,
        vocab_size=50,
    )
    model = BertModel(config).eval().requires_grad_(False)
    for layer in model.encoder.layer:
        attention = layer.attention.self
        plant(attention.query.weight, attention.key.weight, PLANTED, 32)
    inputs = {"input_ids": torch.randint(0, 50, (2, 40))}
    assert spectrum(model, inputs).table["rank"].tolist() == PLANTED * 2


@pytest.mark.parametrize("tokens", [20, 32, 36])
def test_a_rank_that_inputs_impose_is_not_said_of_the_head(tokens: int) -> None:
    torch.manual_seed(0)
    model, x = SelfAttention(128, 4).eval(), torch.randn(20, tokens, 128)
    for centred in (False, True):
        table = spectrum(model, x, centred=centred).table
        assert (table["rank"] <= tokens - centred).all()
        assert table["verdict"].eq("uses its head").all()


def test_a_planted_decay_is_fitted() -> None:
    """Queries orthonormal, keys scaled by k^(−1.5): σ_k of the scores is that power exactly."""
    m = 32
    model = SelfAttention(m, 1).eval().requires_grad_(False)
    model.incoming.weight.zero_()
    model.incoming.bias.zero_()
    model.incoming.weight[:m] = torch.eye(m)
    model.incoming.weight[m : 2 * m] = torch.diag(torch.arange(1.0, m + 1) ** -1.5)
    x = torch.linalg.qr(torch.randn(64, m))[0][None]
    row = spectrum(model, x).table.iloc[0]
    assert row["alpha"] == pytest.approx(1.5, abs=1e-4)
    assert row["alpha_low"] <= 1.5 <= row["alpha_high"]
    assert row["decay"] == "power"
    assert row["fit"] > 0.999
    sigma = torch.arange(1.0, m + 1) ** -1.5
    share = (sigma**2).cumsum(0) / (sigma**2).sum()
    assert row["dim_99"] == int((share < 0.99).sum()) + 1
    assert row["dim_999"] == row["shared_999"] == int((share < 0.999).sum()) + 1


@pytest.mark.spread(8)
@pytest.mark.parametrize("make", [*HUGGING_FACE, *TORCH, *OWN, *TIMM])
def test_every_family_has_a_row_for_every_head(make: Callable[[], Case]) -> None:
    model, batch = build(make)
    inputs: Any = batch.kwargs if not batch.args else batch.args
    if batch.args and batch.kwargs:
        model, inputs = Named(model, batch.kwargs), batch.args
    result = spectrum(model.eval(), inputs)
    table = result.table
    assert len(table) == sum(layer.heads for layer in result.layers) > 0
    assert result.agreement < 1e-5
    assert (table["rank"] <= table["head_dim"]).all()
    assert (table["effective_rank"] <= table["rank"] + 1e-9).all()
    assert (table["dim_99"] <= table["dim_999"]).all()
    assert table["verdict"].str.len().gt(0).all()


class Named(nn.Module):
    """A model with arguments that do not change."""

    def __init__(self, model: nn.Module, named: Any) -> None:
        super().__init__()
        self.model, self.named = model, named

    def forward(self, *args: Tensor) -> Any:
        here = args[0].device
        named = {
            name: value.to(here) if isinstance(value, Tensor) else value
            for name, value in self.named.items()
        }
        return self.model(*args, **named)


def test_batches_of_any_size_give_the_same_statistics() -> None:
    torch.manual_seed(0)
    model, x = SelfAttention(32, 4).eval(), torch.randn(12, 20, 32)
    whole = spectrum(model, x)
    for inputs in [x.split(5), list(x.split(1)), (part for part in x.split(4)), [(x,)]]:
        parts = spectrum(model, list(inputs) if isinstance(inputs, tuple) else inputs)
        numbers = whole.table.select_dtypes("number").drop(columns=["alpha_low", "alpha_high"])
        np.testing.assert_allclose(parts.table[numbers.columns], numbers, rtol=1e-4)


def test_mean_and_spread_are_those_over_inputs() -> None:
    torch.manual_seed(0)
    model, x = SelfAttention(32, 4).eval(), torch.randn(7, 20, 32)
    layer = spectrum(model, x).layers[0]
    single = np.stack([spectrum(model, x[i : i + 1]).layers[0].mean for i in range(7)])
    np.testing.assert_allclose(layer.mean, single.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.spread, single.std(axis=0, ddof=1), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(np.sort(layer.samples, 0), np.sort(single, 0), rtol=1e-4, atol=1e-5)


def test_pooled_values_are_those_of_all_queries_against_all_keys() -> None:
    torch.manual_seed(0)
    model, x = SelfAttention(32, 4).eval(), torch.randn(7, 20, 32)
    pooled = spectrum(model, x).layers[0].pooled
    joined = spectrum(model, x.reshape(1, 140, 32)).layers[0].mean
    np.testing.assert_allclose(pooled, joined, rtol=1e-4)


def test_kept_samples_are_bounded_and_evenly_drawn() -> None:
    torch.manual_seed(0)
    model, x = SelfAttention(8, 1).eval(), torch.randn(50, 9, 8)
    layer = spectrum(model, x, samples=10).layers[0]
    everyone = spectrum(model, x).layers[0].samples
    assert layer.samples.shape == (10, 1, 8)
    assert layer.inputs == 50
    places = [int(np.abs(everyone - one).sum(axis=(1, 2)).argmin()) for one in layer.samples]
    assert len(set(places)) == 10
    assert max(places) > 25


def test_large_batches_are_checked_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Batch] = []
    monkeypatch.setattr(analysis, "CHECKED", 4 * 9 * 9 * 2)
    monkeypatch.setattr(analysis, "verify", lambda model, batch, _: checked.append(batch) or 0.0)
    spectrum(families.Mixed().eval(), (families.states(), families.padding()))
    assert [len(value) for value in checked[0].args] == [2, 2]
    model, batch = build(families.torch_decoder)  # tokens come first there: all of it is checked
    spectrum(Named(model, batch.kwargs).eval(), batch.args)
    assert [len(value) for value in checked[1].args] == [5, 9]


def test_an_argument_given_twice_stays_one() -> None:
    """So attention of a sequence to itself is still that after a change of format or device."""
    x = torch.randn(2, 9, 32, dtype=torch.float64)
    model = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    assert spectrum(model, (x, x, x)).table["kind"].eq("self").all()
    assert spectrum(model, (x, x.clone(), x)).table["kind"].eq("cross").all()


def test_padding_does_not_count() -> None:
    torch.manual_seed(0)
    model = families.Mixed().eval()
    x, mask = families.states(), families.padding()
    padded = spectrum(model, (x, mask)).layers[0].samples
    for index, length in enumerate(families.LENGTHS):
        part = x[index : index + 1, :length]
        alone = spectrum(model, (part, mask[index : index + 1, :length])).layers[0].mean
        np.testing.assert_allclose(padded[index], alone, rtol=1e-4, atol=1e-6)


def test_half_precision_is_lifted() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 40, 128)
    half = planted_mixer().to(torch.bfloat16)
    assert prepared(half).incoming.weight.dtype == torch.float32
    table = spectrum(half, x).table
    assert half.incoming.weight.dtype == torch.bfloat16
    lifted = spectrum(half.float(), x).table
    pd.testing.assert_frame_equal(table, lifted)


@pytest.mark.parametrize("kind", ["shuffled", "reinitialised"])
def test_a_control_forgets_what_was_planted(kind: Any) -> None:
    torch.manual_seed(0)
    model, x = planted_mixer(), torch.randn(2, 40, 128)
    before = model.incoming.weight.clone()
    result = spectrum(model, x, control=kind)
    assert result.control is not None
    assert result.table["rank"].tolist() == PLANTED
    assert result.control.table["rank"].tolist() == [32] * 4
    assert torch.equal(model.incoming.weight, before)
    both = result.compare(result.control)
    assert (both["effective_rank_other"] > both["effective_rank"]).all()
    assert both["distance"].between(0.05, 1).all()


def test_shuffling_keeps_the_numbers_and_reinitialising_does_not() -> None:
    model = planted_mixer()
    shuffled = control_model(model, "shuffled")
    fresh = control_model(model, "reinitialised")
    for name, weight in model.named_parameters():
        other = shuffled.get_parameter(name)
        assert torch.equal(other.flatten().sort()[0], weight.flatten().sort()[0])
    assert not torch.equal(fresh.incoming.weight, model.incoming.weight)


@needs_transformers
def test_a_control_of_a_hugging_face_model_starts_from_its_configuration() -> None:
    model, batch = build(families.gpt2)
    result = spectrum(model, batch.kwargs, control="reinitialised")
    assert result.control is not None
    assert len(result.control.table) == len(result.table)


def test_files_hold_everything(tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = spectrum(planted_mixer(), torch.randn(2, 40, 128), control="shuffled")
    result.save(tmp_path / "s.safetensors")
    read = Spectrum.load(tmp_path / "s.safetensors")
    pd.testing.assert_frame_equal(read.table, result.table)
    pd.testing.assert_frame_equal(read.singular_values, result.singular_values)
    assert read.control is not None
    assert result.control is not None
    pd.testing.assert_frame_equal(read.control.table, result.control.table)
    np.testing.assert_array_equal(read.layers[0].samples, result.layers[0].samples)
    assert str(read) == str(result)


def test_other_files_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "other.safetensors"
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(FileFormatError, match="no spectrum"):
        Spectrum.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError):
        Spectrum.load(path)
    with pytest.raises(FileFormatError):
        Spectrum.load(tmp_path / "absent.safetensors")


def test_spectra_of_different_head_sizes_compare() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 20, 32)
    small, large = (
        spectrum(SelfAttention(32, 4).eval(), x),
        spectrum(SelfAttention(32, 2).eval(), x),
    )
    with pytest.raises(InputError, match="head by head"):
        small.compare(large)
    assert (small.compare(small)["distance"] == 0).all()


@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", ["both", "violin", "decay", "needed"])
def test_figures_are_drawn(kind: Any, tmp_path: Path) -> None:
    from exactformer.figures.style import save_figure

    torch.manual_seed(0)
    result = spectrum(planted_mixer(), torch.randn(4, 40, 128), control="shuffled")
    figure = result.plot(kind=kind, head=3)
    save_figure(figure, tmp_path / "figure.svg")
    assert len(figure.axes) >= (2 if kind == "both" else 1)


def test_layers_and_heads_that_are_not_there_are_refused() -> None:
    result = spectrum(SelfAttention(32, 4).eval(), torch.randn(2, 9, 32))
    for request in [{"head": 4}, {"layer": 3}, {"layer": "other"}, {"kind": "pie"}]:
        with pytest.raises(InputError):
            result.plot(**request)  # type: ignore[arg-type]


class Deaf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def nothing() -> Iterator[Tensor]:
    yield from ()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([], "no inputs"),
        (nothing(), "no inputs"),
        (torch.zeros(0, 9, 32), "nothing in it"),
        ("a text", "inputs are str"),
        (None, "inputs are NoneType"),
        (3, "inputs are int"),
        ([3], "a batch is int"),
        ({"x": "text"}, "names no tensor"),
        (["a text"], "give tokenizer"),
        (torch.full((1, 9, 32), torch.nan), "NaN"),
        (torch.zeros(2, 9, 31), "could not run on inputs torch.float32"),
        (torch.zeros(2, 9, 32).long(), "could not run"),
    ],
)
def test_inputs_of_the_wrong_kind_are_refused(inputs: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        spectrum(SelfAttention(32, 4).eval(), inputs)


def test_models_that_are_not_ready_are_refused() -> None:
    x = torch.randn(2, 9, 32)
    with pytest.raises(InputError, match="training mode"):
        spectrum(SelfAttention(32, 4), x)
    halfway = nn.Sequential(nn.Dropout(), SelfAttention(32, 4)).eval()
    halfway[0].train()
    with pytest.raises(InputError, match=r"training mode \(module '0'\)"):
        spectrum(halfway, x)
    with pytest.raises(InputError, match="no weights"):
        spectrum(SelfAttention(32, 4).eval().to("meta"), x)
    with pytest.raises(InputError, match="cannot be used here"):
        spectrum(SelfAttention(32, 4).eval(), x, device="cuda:77")
    with pytest.raises(InputError, match="the model is int"):
        spectrum(3, x)
    with pytest.raises(InputError, match=r"no config\.json"):
        spectrum("/nowhere/at/all", x)
    with pytest.raises(InputError, match="choose shuffled"):
        spectrum(SelfAttention(32, 4).eval(), x, control="other")  # type: ignore[arg-type]
    with pytest.raises(ExtractionError, match="no attention was found"):
        spectrum(Deaf().eval(), x)


def test_a_model_spread_over_devices_is_refused() -> None:
    model = nn.Sequential(nn.Linear(32, 32), SelfAttention(32, 4)).eval()
    model[0].to("meta")
    with pytest.raises(InputError, match="spread over devices"):
        spectrum(model, torch.randn(2, 9, 32))


def test_activations_that_are_not_finite_are_refused_by_module() -> None:
    model = nn.Sequential(SelfAttention(32, 4), SelfAttention(32, 4)).eval().requires_grad_(False)
    model[1].incoming.weight[3, 5] = torch.nan
    with pytest.raises(InputError, match="module '1' has queries that are not finite, on batch 1"):
        spectrum(model, torch.randn(2, 9, 32))
