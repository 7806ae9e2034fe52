"""``exactformer shrink --cache``: from a folder and a text to a folder with a smaller cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("transformers", reason="transformers is not installed")

from exactformer import load_shrunk
from exactformer.cli.app import app
from tests.spectra.caching.models import saved


def call(*arguments: Any) -> tuple[int, str]:
    answer = CliRunner().invoke(app, ["shrink", *map(str, arguments)])
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    return answer.exit_code, answer.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llama")
    saved(place)
    (place / "texts.txt").write_text("a cat sat on the mat\nthe mat sat\nthe cat\n" * 40)
    return place


def test_a_text_gives_a_folder_with_a_smaller_cache(folder: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    out = tmp_path / "smaller"
    code, said = call(folder, "--texts", folder / "texts.txt", "--cache", 0.5, "-o", out, "--json")
    assert code == 0, said
    report = json.loads(said)
    assert report["saved"] == [str(out)]
    assert report["bytes_per_token"]["after"] <= report["bytes_per_token"]["before"] / 2
    model, tokenizer = load_shrunk(out), AutoTokenizer.from_pretrained(out)
    ids = tokenizer("the cat sat", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert model.generate(ids, max_new_tokens=3, pad_token_id=0).shape == (1, 6)
    code, said = call(folder, "--texts", folder / "texts.txt", "--cache", 0.5, "-o", out)
    assert code != 0
    assert f"{out} exists" in " ".join(said.split())


def test_an_interrupted_fit_goes_on_from_its_checkpoint(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from exactformer.spectra.caching import calibration

    asked = (folder, "--texts", folder / "texts.txt", "--cache", 0.5, "--json")
    kept, fitted, fit = ("--checkpoint", tmp_path / "fit"), [], calibration.fit

    def fit_and_note(method: Any, layer: Any, *rest: Any) -> Any:
        fitted.append(layer.index)
        if fitted == [0, 1]:
            raise KeyboardInterrupt
        return fit(method, layer, *rest)

    monkeypatch.setattr(calibration, "fit", fit_and_note)
    code, _ = call(*asked, *kept)
    assert code == 130
    code, said = call(*asked, *kept)
    assert code == 0, said
    assert fitted == [0, 1, 1, 2]
    assert json.loads(said) == json.loads(call(*asked)[1])
    code, said = call(folder, "--texts", folder / "texts.txt", "--cache", 0.4, *kept)
    assert code == 2
    assert "cache = 0.5 there, 0.4 here" in " ".join(said.split())


def test_max_loss_of_a_rotary_model_is_about_its_cache(folder: Path) -> None:
    code, said = call(folder, "--texts", folder / "texts.txt", "--max-loss", 0.05)
    assert code == 0, said
    assert "bytes for each token" in said
    assert "held-out tokens" in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--cache", "0.5"], "give text to calibrate on by --texts"),
        (["--cache", "0.5", "--head-dim", "4"], "a cache is shrunk by --texts"),
        (
            ["--head-dim", "4", "--texts", "TEXTS", "--checkpoint", "fit"],
            "--checkpoint: only the fit",
        ),
        (["--cache", "2", "--texts", "TEXTS"], "cache = 2.0: give the share"),
        (["--cache", "0.5", "--texts", "TEXTS", "--method", "magic"], "method = 'magic'"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, options: list[str], reason: str) -> None:
    given = [str(folder / "texts.txt") if option == "TEXTS" else option for option in options]
    code, said = call(folder, *given)
    assert code != 0
    assert reason in " ".join(said.split())
