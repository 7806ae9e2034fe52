"""A shrunk model in a folder is the model that comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import exactformer as ef
from exactformer import load_shrunk
from exactformer.errors import InputError
from tests.spectra import families

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.parametrize("make", [families.bert, families.gpt2, families.t5])
@pytest.mark.parametrize("how", [{"head_dim": 2}, {"energy": 0.8}, {"head_dim": 3}])
def test_what_is_saved_comes_back(make: Any, how: dict[str, Any], tmp_path: Path) -> None:
    model, batch = families.build(make)
    shrunk = ef.shrink_heads(model, batch.kwargs, **how)
    shrunk.save(tmp_path / "small")
    modes = {path.stat().st_mode for path in (tmp_path / "small").iterdir()}
    assert len(modes) == 1  # weights can be read by whoever can read the rest
    again = load_shrunk(tmp_path / "small")
    assert type(again) is type(model)
    with torch.no_grad():
        assert torch.equal(batch.call(again)[0], batch.call(shrunk.model)[0])


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
