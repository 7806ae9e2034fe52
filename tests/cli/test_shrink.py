"""``exactformer shrink``: from a folder and texts to a folder with a smaller model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from exactformer import load_shrunk
from exactformer.cli.app import app
from tests.spectra import families

pytest.importorskip("transformers", reason="transformers is not installed")


def call(*arguments: Any) -> tuple[int, str]:
    answer = CliRunner().invoke(app, ["shrink", *map(str, arguments)])
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    return answer.exit_code, answer.output


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved BERT with the tokenizer of ten words."""
    from transformers import BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    families.build(families.bert)[0].save_pretrained(folder)  # type: ignore[operator]
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat".split()
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    texts = (
        "a cat sat on the mat|the mat sat|the cat|a mat|on the mat|the cat sat|a cat|sat on a mat"
    )
    (folder / "texts.txt").write_text(texts.replace("|", "\n"))
    return folder


def test_texts_give_a_folder_with_a_smaller_model(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "smaller"
    code, said = call(bert, "--texts", bert / "texts.txt", "--head-dim", 4, "-o", out, "--json")
    assert code == 0
    report = json.loads(said)
    assert report["form"] == "small"
    assert report["saved"] == [str(out)]
    assert {head["new_head_dim"] for head in report["heads"]} == {4}
    assert (report["fitted"]["inputs"], report["held_out"]["inputs"]) == (6, 2)
    model = load_shrunk(out)
    assert sum(p.numel() for p in model.parameters()) == report["parameters"]["after"]
    from transformers import AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(out)(["the cat sat"], return_tensors="pt")
    with torch.no_grad():
        assert model(**tokens).last_hidden_state.isfinite().all()
    code, said = call(bert, "--texts", bert / "texts.txt", "--head-dim", 4, "-o", out)
    assert code != 0
    assert f"{out} exists" in " ".join(said.split())


@pytest.mark.parametrize("how", [("--energy", 0.9), ("--max-loss", 0.5)])
def test_a_table_has_a_line_for_each_layer_or_head(bert: Path, how: Any) -> None:
    arguments = (bert, "--texts", bert / "texts.txt", *how)
    code, said = call(*arguments)
    assert code == 0
    assert "8 heads of 8 shrunk to" in said
    assert "scores off" in said
    longer = call(*arguments, "--heads")[1]
    assert len(longer.splitlines()) == len(said.splitlines()) + 6


def test_arrays_will_do(bert: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", input_ids=families.tokens()["input_ids"].numpy())
    code, said = call(bert, "--npz", tmp_path / "inputs.npz", "--head-dim", 2, "--json")
    assert code == 0
    report = json.loads(said)
    assert report["fitted"]["inputs"] == 3
    assert report["held_out"] is None
    assert "too few to keep some back" in report["notes"][0]


def test_inputs_to_measure_on_are_of_the_kind_of_the_inputs(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "others.txt").write_text("on the mat a cat sat\nthe cat sat\n")
    others = ("--held-out", tmp_path / "others.txt", "--values")
    how = (bert, "--texts", bert / "texts.txt", "--head-dim", 2, "--json", *others)
    code, said = call(*how)
    assert code == 0
    report = json.loads(said)
    assert (report["fitted"]["inputs"], report["held_out"]["inputs"]) == (8, 2)
    assert "1 of 2 held-out inputs are among those fitted to" in report["notes"]
    assert {head["new_value_dim"] for head in report["heads"]} == {2}


def test_what_is_missing_is_said(bert: Path) -> None:
    code, said = call(bert, "--head-dim", 4)
    assert code != 0
    assert "--texts" in said
    code, said = call(bert, "--texts", bert / "texts.txt")
    assert code != 0
    assert "one of head_dim" in said
