"""Inputs from files, and the command that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from exactformer.cli.app import app
from exactformer.errors import FileFormatError, InputError
from exactformer.spectra import Spectrum
from exactformer.spectra.files import Images, read_arrays, read_texts
from tests.spectra import families

pytest.importorskip("transformers", reason="transformers is not installed")


def call(*arguments: Any) -> tuple[int, str]:
    answer = CliRunner().invoke(app, ["spectrum", *map(str, arguments)])
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    return answer.exit_code, answer.output


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved BERT with the tokenizer of ten words."""
    from transformers import BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    model, _ = families.build(families.bert)
    model.save_pretrained(folder)  # type: ignore[operator]
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat".split()
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    model, _ = families.build(families.vit)
    model.save_pretrained(folder)  # type: ignore[operator]
    save_processor(folder, "ViTImageProcessor", size={"height": 16, "width": 16})
    return folder


def save_processor(folder: Path, kind: str, **settings: Any) -> None:
    contents = {"image_processor_type": kind, **settings}
    (folder / "preprocessor_config.json").write_text(json.dumps(contents))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.default_rng(0)
    for index, size in enumerate([(20, 30), (16, 16), (50, 9)]):
        pixels = random.integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    (folder / "notes.txt").write_text("not an image")
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("the cat sat on the mat\n\na cat\n  on the mat the cat sat on a mat  \n")
    return path


def test_lines_are_texts(texts: Path) -> None:
    assert read_texts(texts) == [
        "the cat sat on the mat",
        "a cat",
        "on the mat the cat sat on a mat",
    ]
    assert read_texts(texts, limit=1) == ["the cat sat on the mat"]


def test_images_are_what_the_model_expects(vit: Path, photos: Path) -> None:
    found = list(Images(photos, vit, batch_size=2))
    assert [batch["pixel_values"].shape for batch in found] == [(2, 3, 16, 16), (1, 3, 16, 16)]
    assert all(batch["pixel_values"].abs().max() <= 1 for batch in found)


CROPPED = {
    "size": {"shortest_edge": 20},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 16, "width": 16},
    "rescale_factor": 0.01,
    "image_mean": [0.1, 0.2, 0.3],
    "image_std": [0.5, 0.6, 0.7],
}


def test_pixels_are_those_of_the_models_own_processor(tmp_path: Path, photos: Path) -> None:
    """Bicubic, shortest side 20, the middle 16 × 16, times 0.01, less the mean, over the spread."""
    from PIL import Image
    from transformers import AutoImageProcessor

    save_processor(tmp_path, "CLIPImageProcessor", **CROPPED)
    files = sorted(photos.glob("*.png"))
    found = torch.cat([b["pixel_values"] for b in Images(photos, tmp_path, batch_size=2)])
    theirs: Any = AutoImageProcessor.from_pretrained(tmp_path)  # type: ignore[no-untyped-call]
    images = [Image.open(file).convert("RGB") for file in files]
    assert torch.equal(found, theirs(images=images, return_tensors="pt")["pixel_values"])

    square = images[1].resize((20, 20), Image.Resampling.BICUBIC)  # the second is 16 × 16
    pixels = np.asarray(square, dtype=np.float64)[2:18, 2:18] * 0.01
    by_hand = (pixels - CROPPED["image_mean"]) / CROPPED["image_std"]
    assert found[1].numpy() == pytest.approx(by_hand.transpose(2, 0, 1), abs=1e-5)


def test_a_model_without_a_processor_is_refused_with_the_way_out(
    tmp_path: Path, photos: Path
) -> None:
    model, _ = families.build(families.vit)
    model.save_pretrained(tmp_path / "bare")  # type: ignore[operator]
    with pytest.raises(InputError, match=r"no image processor .*\.save_pretrained\(.*--npz"):
        Images(photos, tmp_path / "bare", 2)


def test_arrays_are_split_into_batches(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    ids = np.arange(20, dtype=np.int32).reshape(5, 4)
    np.savez(path, input_ids=ids, attention_mask=np.ones((5, 4), dtype=np.int64))
    found = read_arrays(path, batch_size=2, limit=3)
    assert [len(batch["input_ids"]) for batch in found] == [2, 1]
    assert found[0]["input_ids"].dtype == torch.int64
    assert torch.cat([b["input_ids"] for b in found]).tolist() == ids[:3].tolist()


def test_files_that_cannot_be_read_are_refused(tmp_path: Path, vit: Path) -> None:
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK nothing")
    with pytest.raises(FileFormatError):
        read_arrays(broken, 2)
    np.savez(tmp_path / "odd.npz", a=np.zeros(2), b=np.zeros(3))
    with pytest.raises(InputError, match="different lengths"):
        read_arrays(tmp_path / "odd.npz", 2)
    np.savez(tmp_path / "code.npz", a=np.array([object()]))
    with pytest.raises(FileFormatError, match="pickle"):
        read_arrays(tmp_path / "code.npz", 2)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(InputError, match="no text"):
        read_texts(tmp_path / "empty.txt")
    with pytest.raises(InputError, match="no images"):
        Images(tmp_path, vit, 2)
    (tmp_path / "fake.png").write_bytes(b"not an image")
    with pytest.raises(FileFormatError, match=r"fake\.png"):
        list(Images(tmp_path, vit, 2))


def test_the_command_shows_a_line_for_every_layer_or_head(bert: Path, texts: Path) -> None:
    code, out = call(bert, "--texts", texts)
    assert code == 0, out
    assert "8 heads in 2 attention modules, 3 inputs" in out.replace("\n", " ")
    assert "encoder.layer.*.attention.self" in out
    code, out = call(bert, "--texts", texts, "--heads", "--control", "shuffled")
    assert code == 0, out
    assert "The control" in out
    assert out.count("too few tokens") + out.count("too few") >= 8


def test_the_command_writes_figures_tables_and_spectra(
    vit: Path, photos: Path, tmp_path: Path
) -> None:
    for options in [
        ["--plot", tmp_path / "both.svg", "-o", tmp_path / "table.csv"],
        ["--plot", tmp_path / "needed.png", "--kind", "needed", "-o", tmp_path / "s.safetensors"],
    ]:
        code, out = call(vit, "--images", photos, *options)
        assert code == 0, out
    assert (tmp_path / "both.svg").read_text().startswith("<?xml")
    table, kept = pd.read_csv(tmp_path / "table.csv"), Spectrum.load(tmp_path / "s.safetensors")
    assert len(table) == len(kept.table) == 8


def test_the_command_answers_in_json(bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, input_ids=np.random.default_rng(0).integers(0, 50, (4, 12)))
    code, out = call(bert, "--npz", path, "--json")
    assert code == 0, out
    answer = json.loads(out)
    assert answer["model"] == "BertModel"
    assert len(answer["heads"]) == 8
    assert answer["agreement"] < 1e-5
    assert {"rank", "effective_rank", "alpha", "dim_99", "verdict"} <= answer["heads"][0].keys()


def test_the_command_refuses_with_a_sentence(bert: Path, texts: Path, tmp_path: Path) -> None:
    for arguments, words in [
        ([bert], "one of --texts"),
        ([bert, "--texts", texts, "--npz", texts], "one of --texts"),
        ([tmp_path, "--texts", texts], "no config.json"),
        ([bert, "--texts", texts, "--kind", "pie"], "choose both"),
        ([bert, "--texts", texts, "--control", "none"], "choose shuffled"),
        ([bert, "--texts", tmp_path / "absent.txt"], "absent.txt"),
        ([bert, "--texts", texts, "-o", "table.xlsx"], "write .safetensors or .csv"),
        ([bert, "--images", tmp_path], "no images"),
    ]:
        code, out = call(*arguments)
        assert code == 2, out
        assert words in " ".join(out.split())


def test_lines_beyond_the_limit_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(b"one\ntwo\n" + b"x\n" * 100_000 + b"\xff\xfe not UTF-8")
    assert read_texts(path, limit=2) == ["one", "two"]
    with pytest.raises(FileFormatError, match="UTF-8"):
        read_texts(path)


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exactformer.spectra.files.LONGEST", 100)
    path = tmp_path / "texts.txt"
    path.write_text("short\n" + "x" * 101)
    with pytest.raises(InputError, match="line 2: more than 100 characters"):
        read_texts(path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_texts(tmp_path / "nowhere.txt")


@pytest.mark.parametrize("size", [10**9, 0, -1, "large", [224, "x"], {"height": 10**9}, {"a": 2}])
def test_sizes_that_no_image_has_are_refused(tmp_path: Path, photos: Path, size: Any) -> None:
    save_processor(tmp_path, "ViTImageProcessor", size=size)
    with pytest.raises(InputError, match="image processor"):
        Images(photos, tmp_path, 2)


def test_an_image_of_too_many_pixels_is_refused(
    photos: Path, vit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(FileFormatError, match="no image that can be read"):
        list(Images(photos, vit, 2))


def test_what_was_left_out_is_printed(
    bert: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import BertModel

    assert "left out" not in call(bert, "--texts", texts)[1].lower()
    forward = BertModel.forward

    def with_classes(self: Any, *args: Any, **named: Any) -> Any:
        output = forward(self, *args, **named)
        output.pooler_output.softmax(dim=-1)
        return output

    monkeypatch.setattr(BertModel, "forward", with_classes)
    code, output = call(bert, "--texts", texts)
    assert code == 0
    assert "Left out: the model itself (BertModel): weights by aten._softmax" in " ".join(
        output.split()
    )
