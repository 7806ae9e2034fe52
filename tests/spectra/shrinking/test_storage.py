"""A shrunk model in a folder is the model that comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

import exactformer as ef
from exactformer import load_shrunk
from exactformer.errors import InputError
from exactformer.spectra.shrinking.forms import expanded
from tests.spectra import families

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.spread(5)
@pytest.mark.parametrize("make", [families.bert, families.gpt2, families.t5])
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("how", [{"head_dim": 2}, {"energy": 0.8}, {"head_dim": 3}])
def test_what_is_saved_comes_back(
    make: Any, how: dict[str, Any], values: bool, tmp_path: Path
) -> None:
    model, batch = families.build(make)
    shrunk = ef.shrink_heads(model, batch.kwargs, **how, values=values)
    shrunk.save(tmp_path / "small")
    modes = {path.stat().st_mode for path in (tmp_path / "small").iterdir()}
    assert len(modes) == 1  # weights can be read by whoever can read the rest
    again = load_shrunk(tmp_path / "small")
    assert type(again) is type(model)
    sizes = [[p.shape for p in m.state_dict().values()] for m in (again, shrunk.model)]
    assert sizes[0] == sizes[1]
    with torch.no_grad():
        expected = batch.call(shrunk.model)[0]
        assert torch.equal(batch.call(again)[0], expected)
        plain = transformers.AutoModel.from_pretrained(tmp_path / "small")
        assert type(plain) is type(model)
        assert torch.allclose(batch.call(plain.eval())[0], expected, atol=1e-4)
    counts = [sum(p.numel() for p in m.parameters()) for m in (plain, shrunk.model, model)]
    assert counts[0] == (counts[1] if shrunk.report.stock else counts[2])


@pytest.mark.parametrize("values", [False, True])
def test_a_module_of_torch_inside_a_saved_model_comes_back(values: bool, tmp_path: Path) -> None:
    model, batch = families.build(families.siglip)
    shrunk = ef.shrink_heads(model, batch.kwargs, head_dim=3, values=values)
    shrunk.save(tmp_path)
    with torch.no_grad():
        expected = batch.call(shrunk.model).pooler_output
        assert torch.equal(batch.call(load_shrunk(tmp_path)).pooler_output, expected)
        plain = transformers.AutoModel.from_pretrained(tmp_path).eval()
        assert torch.allclose(batch.call(plain).pooler_output, expected, atol=1e-4)


@pytest.mark.slow
def test_plain_transformers_reads_the_folder_in_a_process_of_its_own(tmp_path: Path) -> None:
    """No import of ours: what is written is an ordinary model."""
    model, batch = families.build(families.gpt2)
    shrunk = ef.shrink_heads(model, batch.kwargs, head_dim=4, values=True)
    shrunk.save(tmp_path)
    code = (
        "import sys, torch\nfrom transformers import AutoModel\n"
        f"model = AutoModel.from_pretrained({str(tmp_path)!r}).eval()\n"
        "assert not any(name.startswith('exactformer') for name in sys.modules)\n"
        "ids = torch.arange(5, 14)[None]\n"
        "with torch.no_grad(): print(float(model(ids)[0].square().sum()))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with torch.no_grad():
        expected = float(shrunk.model(torch.arange(5, 14)[None])[0].square().sum())
    assert float(said.stdout) == pytest.approx(expected, rel=1e-5)


@pytest.mark.spread(1)
@pytest.mark.parametrize(("make", "entry"), [(families.t5, "d_kv"), (families.vit, "head_dim")])
def test_a_configuration_with_a_head_size_expresses_one_size_for_all(
    make: Any, entry: str, tmp_path: Path
) -> None:
    """ViT scales by its head, T5 does not: either way plain transformers computes the same."""
    model, batch = families.build(make)
    shrunk = ef.shrink_heads(model, batch.kwargs, head_dim=2, values=True)
    assert shrunk.report.stock == {entry: 2}
    assert f"AutoModel reads it at its new size ({entry} = 2)" in str(shrunk.report)
    shrunk.save(tmp_path)
    plain = transformers.AutoModel.from_pretrained(tmp_path).eval()
    assert getattr(plain.config, entry) == 2
    with torch.no_grad():
        expected = batch.call(shrunk.model)[0]
        assert torch.allclose(batch.call(plain)[0], expected, atol=1e-5)
    for other in (
        ef.shrink_heads(model, batch.kwargs, head_dim=2),  # values as they were
        ef.shrink_heads(*_bert(), head_dim=2, values=True),  # hidden size over heads
    ):
        assert other.report.stock is None
        assert "at the old size, zeros" in str(other.report)


def _bert() -> tuple[Any, Any]:
    model, batch = families.build(families.bert)
    return model, batch.kwargs


def test_a_model_trained_further_is_saved_as_it_is_by_then(tmp_path: Path) -> None:
    model, batch = families.build(families.bert)
    shrunk = ef.shrink_heads(model.requires_grad_(True), batch.kwargs, head_dim=4, values=True)
    optimiser = torch.optim.SGD(shrunk.model.parameters(), lr=0.1)
    batch.call(shrunk.model)[0].square().mean().backward()
    optimiser.step()
    shrunk.save(tmp_path)
    with torch.no_grad():
        expected = batch.call(shrunk.model)[0]
        assert torch.equal(batch.call(load_shrunk(tmp_path))[0], expected)
        plain = transformers.AutoModel.from_pretrained(tmp_path).eval()
        assert torch.allclose(batch.call(plain)[0], expected, atol=1e-4)


def test_weights_that_are_not_those_saved_are_refused(tmp_path: Path) -> None:
    model, batch = families.build(families.bert)
    ef.shrink_heads(model, batch.kwargs, head_dim=4).save(tmp_path)
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    with pytest.raises(InputError, match="is not zero"):
        load_shrunk(tmp_path)


def test_a_saved_model_with_smaller_heads_is_analysed_by_its_path(tmp_path: Path) -> None:
    model, batch = families.build(families.bert)
    ef.shrink_heads(model, batch.kwargs, head_dim=2).save(tmp_path / "small")
    table = ef.spectrum(tmp_path / "small", batch.kwargs).table
    assert set(table["head_dim"]) == {2}


def test_half_precision_comes_back(tmp_path: Path) -> None:
    model, batch = families.build(families.bert)
    shrunk = ef.shrink_heads(model.bfloat16(), batch.kwargs, head_dim=4)
    shrunk.save(tmp_path)
    assert {p.dtype for p in load_shrunk(tmp_path).parameters()} == {torch.bfloat16}


def test_what_is_no_shrunk_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no model with smaller heads"):
        load_shrunk(tmp_path)
    (tmp_path / "heads.json").write_text(json.dumps({"model": "Path"}))
    with pytest.raises(InputError, match="has no model 'Path'"):
        load_shrunk(tmp_path)
    (tmp_path / "heads.json").write_text("[]")
    with pytest.raises(InputError, match="not what shrink_heads writes"):
        load_shrunk(tmp_path)
    model, batch = families.build(families.torch_encoder)
    shrunk = ef.shrink_heads(model, batch.args[0], head_dim=4)
    with pytest.raises(InputError, match="no Hugging Face model"):
        shrunk.save(tmp_path)


@pytest.mark.parametrize("options", [{"energy": 0.9}, {"head_dim": 4, "values": True}])
def test_zeros_are_put_back_on_the_device_of_the_model(options: dict[str, Any]) -> None:
    model, inputs = _bert()
    shapes = {name: x.shape for name, x in model.state_dict().items()}
    small, report = (shrunk := ef.shrink_heads(model, inputs, progress=False, **options))
    whole = expanded(small.to("meta"), shrunk.plans, report.form)
    assert {x.device.type for x in whole.parameters()} == {"meta"}
    assert {name: x.shape for name, x in whole.state_dict().items()} == shapes


def test_a_full_disk_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("I/O error: No space left on device")

    model, batch = families.build(families.bert)
    shrunk = ef.shrink_heads(model, batch.kwargs, head_dim=2)
    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
    with pytest.raises(InputError, match=r"cannot write to .*No space left"):
        shrunk.save(tmp_path / "small")
