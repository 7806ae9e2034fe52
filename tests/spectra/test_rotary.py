"""Rotary heads: scores come out of their planes again, and keys before rotation are counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from exactformer.spectra import ExtractionError, Spectrum, spectrum
from exactformer.spectra.batches import Batch
from exactformer.spectra.extraction import watching
from exactformer.spectra.rotary import averaged, buckets
from exactformer.spectra.rotation import angles_of
from exactformer.spectra.scores import Scores
from tests.spectra import families
from tests.spectra.families import Case, build

pytest.importorskip("transformers", reason="transformers is not installed")

ROTARY = [
    families.llama,
    families.llama_left,
    families.qwen2,
    families.qwen,
    families.mistral,
    families.gemma,
    families.gemma3,
    families.phi,
    families.neox,
    families.cohere,
]


def extracted(make: Callable[[], Case]) -> list[Scores]:
    model, batch = build(make)
    with watching(model, rotary=True) as watch:
        return watch.run(batch)


@pytest.mark.parametrize("make", ROTARY)
def test_scores_are_rebuilt_plane_by_plane(make: Callable[[], Case]) -> None:
    for scores in extracted(make):
        assert scores.positions == "rotary"
        assert scores.rotation is not None
        products = scores.queries @ scores.expanded_keys().mT
        rebuilt = scores.rotation.scores()
        size = float(products.abs().max())
        assert float((rebuilt - products).abs().max()) < 1e-5 * max(size, 1)


@pytest.mark.parametrize("make", [families.llama, families.phi, families.cohere])
def test_a_score_depends_on_the_distance_by_the_frequencies(make: Callable[[], Case]) -> None:
    """Σ_p q_pᵀ R(θ_p (s − t)) k_p, with R written out."""
    scores = extracted(make)[0]
    rotation = scores.rotation
    assert rotation is not None
    q, k = (x[0, 0].double() for x in (rotation.queries, rotation.keys))
    for t, s in ((0, 0), (3, 3), (7, 2), (8, 0)):
        total = 0.0
        for plane, theta in zip(rotation.planes.tolist(), rotation.frequencies, strict=True):
            angle = theta * (s - t)
            turn = torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]])
            total += float(q[t, plane] @ turn.double() @ k[s, plane])
        own = float(scores.queries[0, 0, t] @ scores.keys[0, 0, s])
        assert total == pytest.approx(own, abs=1e-4)


@pytest.mark.parametrize("make", [families.bert, families.gpt2, families.t5, families.bart])
def test_what_is_not_rotated_has_no_rotation(make: Callable[[], Case]) -> None:
    assert {scores.positions for scores in extracted(make)} == {""}


class ByTables(nn.Module):
    """Keys and queries turned by tables that no module shows, or squared, which is no rotation."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (2, 8)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        angle = torch.arange(x.shape[1])[:, None] / torch.tensor([1, 3, 9, 27])
        turn = torch.exp(1j * angle).to(x.device)
        q, k = (
            torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (4, 2))) * turn).flatten(-2)
            for t in (q, k)
        )
        return functional.scaled_dot_product_attention(q, k, v)


def test_rotation_that_is_not_found_is_named_and_nothing_is_estimated() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(ByTables()).eval().requires_grad_(False)
    result = spectrum(model, torch.randn(3, 9, 16))
    assert result.key_cache is None
    assert result.planes.empty
    assert "positions of module '0' not read: something acts between" in str(result)
    assert result.table["shared_99"].between(1, 8).all()


@pytest.mark.parametrize("make", [families.gptj, families.bloom])
def test_models_that_multiply_by_themselves_are_refused_by_name(make: Callable[[], Case]) -> None:
    model, batch = build(make)
    with pytest.raises(ExtractionError, match=r"h\.0.*(GPTJ|Bloom)Attention"):
        spectrum(model, batch.kwargs)


def test_tokens_out_of_step_are_named_and_nothing_is_estimated() -> None:
    model, batch = build(families.llama_unpadded)
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]]).expand(3, -1)  # two texts in a row
    result = spectrum(model, {**batch.kwargs, "position_ids": places})
    assert "do not follow one another" in str(result)
    assert result.key_cache is None


def test_one_and_the_same_places_elsewhere_make_no_difference() -> None:
    model, batch = build(families.llama_unpadded)
    tables = [
        spectrum(model, {**batch.kwargs, "position_ids": start + torch.arange(9)[None]}).table
        for start in (0, 17)
    ]
    for column in ("shared_99", "shared_999", "dim_99"):
        assert tables[0][column].equals(tables[1][column])


def test_a_token_alone_has_no_distance_and_stops_nothing() -> None:
    model, batch = build(families.llama_unpadded)
    ids = batch.kwargs["input_ids"]
    alone, several = {"input_ids": ids[:1, :1]}, {"input_ids": ids}
    results = [
        spectrum(model, inputs) for inputs in ([alone, several], [several, alone], [several])
    ]
    assert len({str(result.key_cache) for result in results}) == 1
    assert spectrum(model, alone).key_cache is None


def test_a_window_bounds_the_distances() -> None:
    model, batch = build(families.mistral)
    distances = spectrum(model, batch.kwargs).distances
    assert distances["to"].max() == 7  # four at most, in the range from 4 to 7
    pairs = distances.query("head == 0").groupby("from")["pairs"].sum()
    assert pairs[4] == 2 * 3 * 5  # two layers, three inputs, five tokens with one four before them


@pytest.mark.spread(4)
@pytest.mark.parametrize("make", ROTARY)
def test_tables_by_plane_and_distance_account_for_everything(make: Callable[[], Case]) -> None:
    model, batch = build(make)
    result = spectrum(model, batch.kwargs)
    heads = ["layer", "head"]
    assert len(result.planes) == 4 * len(result.table)  # heads of eight
    assert np.allclose(result.planes.groupby(heads)["share"].sum(), 1)
    assert np.allclose(result.distances.groupby(heads)["attention"].sum(), 1)
    assert result.key_cache is not None
    assert 0 < result.key_cache["share_99"] <= result.key_cache["share_999"] <= 1
    assert "estimated" in str(result)


def rank_limited(rank: int) -> tuple[nn.Module, Batch]:
    """A LLaMA whose keys before rotation lie in a space of a rank."""
    model, batch = build(families.llama_unpadded)
    torch.manual_seed(2)
    for layer in model.layers:  # type: ignore[union-attr]
        weight = layer.self_attn.k_proj.weight
        for head in range(2):
            rows = slice(8 * head, 8 * head + 8)
            basis = torch.linalg.qr(torch.randn(8, rank))[0]
            weight[rows] = basis @ basis.mT @ weight[rows]
    return model, batch


@pytest.mark.parametrize("rank", [1, 3])
def test_keys_of_a_rank_before_rotation_need_that_many_numbers(rank: int) -> None:
    model, batch = rank_limited(rank)
    result = spectrum(model, batch.kwargs)
    assert (result.table["shared_999"] <= rank).all()
    assert all(layer.keys_kept(1 - 1e-9) == 2 * rank for layer in result.layers)
    # Rotated, they fill more dimensions than that.
    assert (result.table["rank"] > rank).all()


def test_planes_that_hold_nothing_have_no_share() -> None:
    model, batch = build(families.llama_unpadded)
    for layer in model.layers:  # type: ignore[union-attr]
        layer.self_attn.q_proj.weight.view(4, 2, 4, 32)[:, :, 1:3] = 0  # planes 1 and 2 of four
    planes = spectrum(model, batch.kwargs).planes
    assert (planes.query("plane in (1, 2)")["share"] == 0).all()
    assert (planes.query("plane in (0, 3)")["share"] > 0).all()
    assert planes["frequency"].iloc[0] == pytest.approx(1, abs=1e-5)
    assert planes["wavelength"].iloc[0] == pytest.approx(2 * np.pi, rel=1e-5)


def rotated(q: Tensor, planes: Tensor, frequencies: Tensor, distance: float) -> Tensor:
    z = torch.complex(q[..., planes[:, 0]], q[..., planes[:, 1]])
    z = z * torch.exp(1j * frequencies * distance)
    out = torch.empty_like(q)
    out[..., planes[:, 0]], out[..., planes[:, 1]] = z.real, z.imag
    return out


def test_the_mean_over_distances_is_that_of_rotated_queries() -> None:
    torch.manual_seed(0)
    planes = torch.tensor([[0, 3], [1, 4], [2, 5]])
    frequencies = torch.tensor([1.0, 0.1, 0.0], dtype=torch.float64)
    q = torch.randn(40, 6, dtype=torch.float64)
    pairs = torch.tensor([0, 0, 1, 5, 4, 3, 2], dtype=torch.float64)  # distances −3 … 3
    direct = torch.zeros(6, 6, dtype=torch.float64)
    for distance, count in zip(range(-3, 4), pairs, strict=True):
        turned = rotated(q, planes, frequencies, distance)
        direct += count * turned.mT @ turned / pairs.sum()
    found = averaged((q.mT @ q)[None], planes, frequencies, pairs)[0]
    assert torch.allclose(found, direct)


def test_the_estimate_is_the_error_where_queries_do_not_depend_on_distance() -> None:
    """One query at all places against keys at all places: Σ (q̃ᵀ (I − M) k)² over all pairs."""
    torch.manual_seed(1)
    planes = torch.tensor([[0, 2], [1, 3]])
    frequencies = torch.tensor([0.7, 0.05], dtype=torch.float64)
    q, keys = torch.randn(4, dtype=torch.float64), torch.randn(30, 4, dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(4, 2, dtype=torch.float64))[0]
    lost = keys - keys @ basis @ basis.mT
    distances = range(-6, 7)
    direct = sum(
        float((lost @ rotated(q, planes, frequencies, d)).square().sum()) for d in distances
    )
    w = averaged(torch.outer(q, q)[None], planes, frequencies, torch.ones(13).double())[0]
    assert float((w * (lost.mT @ lost)).sum()) * 13 == pytest.approx(direct)


def test_angles_are_told_from_other_pairs_of_tensors() -> None:
    angle = torch.randn(1, 5, 4)
    assert angles_of((angle.cos(), angle.sin())) is not None
    assert angles_of((1.2 * angle.cos(), 1.2 * angle.sin())) is not None
    assert angles_of((angle, angle)) is None
    assert angles_of((angle.cos(), angle.sin(), angle)) is None
    assert angles_of((torch.zeros(1, 5, 4), torch.zeros(1, 5, 4))) is None


@pytest.mark.parametrize("scheme", ["yarn", "linear", "dynamic", "llama3"])
def test_schemes_that_stretch_positions_are_read(scheme: str) -> None:
    from transformers import LlamaConfig, LlamaModel

    rope = {
        "rope_type": scheme,
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    torch.manual_seed(0)
    config = LlamaConfig(**families.SMALL, num_key_value_heads=2, rope_parameters=rope)
    model = families.sharpened(LlamaModel(config))
    result = spectrum(model, families.tokens())
    assert {layer.positions for layer in result.layers} == {"rotary"}


def test_a_file_holds_planes_and_distances(tmp_path: Path) -> None:
    model, batch = build(families.llama)
    result = spectrum(model, batch.kwargs)
    result.save(tmp_path / "s.safetensors")
    again = Spectrum.load(tmp_path / "s.safetensors")
    assert again.planes.equals(result.planes)
    assert again.distances.equals(result.distances)
    assert again.key_cache == result.key_cache


def test_every_distance_is_in_its_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a logarithm that is one unit in the last place too small, as that of 8 is on a GPU, too."""
    exact = torch.Tensor.log2
    monkeypatch.setattr(torch.Tensor, "log2", lambda x: torch.nextafter(exact(x), x.new_tensor(0)))
    distances = torch.arange(5000)
    assert buckets(distances).tolist() == [d.bit_length() for d in range(5000)]
