"""Saving loses nothing, and a file that is not what was saved says so."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge import ridge_form
from exactformer.core.layers import Rule, Selection
from exactformer.errors import AlteredFileError, FileFormatError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.constructions import CONSTRUCTIONS
from exactformer.polynomials.files import digest, load_blueprint, save_blueprint
from tests.cases.forged import File


@pytest.fixture(params=sorted(CONSTRUCTIONS))
def blueprint(request: pytest.FixtureRequest) -> Blueprint:
    form = ridge_form(Polynomial.parse("x^3 - 1/7 x y + 10^60 y - 3"))
    return CONSTRUCTIONS[request.param](form, Fraction(10**40 + 1, 3))


def test_a_blueprint_comes_back_equal(blueprint: Blueprint, tmp_path: Path) -> None:
    save_blueprint(blueprint, tmp_path / "a.safetensors")
    assert load_blueprint(tmp_path / "a.safetensors") == blueprint


def test_selections_and_temperatures_come_back(blueprint: Blueprint, tmp_path: Path) -> None:
    first = blueprint.blocks[0]
    softmax = replace(
        first, attention=replace(first.attention, selection=Selection(Rule.SOFTMAX, Fraction(1, 3)))
    )
    changed = replace(blueprint, blocks=(softmax, *blueprint.blocks[1:]))
    save_blueprint(changed, tmp_path / "a.safetensors")
    assert load_blueprint(tmp_path / "a.safetensors") == changed
    assert digest(changed) != digest(blueprint)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"gone\.safetensors does not exist"):
        load_blueprint(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, -1])
def test_a_truncated_file_is_refused(blueprint: Blueprint, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.safetensors"
    save_blueprint(blueprint, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="truncated"):
        load_blueprint(path)


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"weight": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(FileFormatError, match="not one of exactformer's"):
        load_blueprint(tmp_path / "other.safetensors")


def test_every_single_altered_byte_is_noticed(blueprint: Blueprint, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_blueprint(blueprint, path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(content), size=150, replace=False):
        altered = bytearray(content)
        altered[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(altered))
        try:
            loaded = load_blueprint(path)
        except FileFormatError:
            continue
        # Only bytes without meaning (padding, the header's own spelling) may change unnoticed.
        assert loaded == blueprint


def test_an_altered_matrix_is_named(blueprint: Blueprint, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_blueprint(blueprint, path)
    file = File.read(path)
    size = len(file.values("readouts.0.beta"))
    file.damaged(path, {"readouts.0.beta": b"1" * size})
    with pytest.raises(AlteredFileError, match=r"weights readouts\.0\.beta are not those"):
        load_blueprint(path)


def test_an_unwritable_place_is_reported_and_leaves_nothing(
    blueprint: Blueprint, tmp_path: Path
) -> None:
    with pytest.raises(FileFormatError, match="cannot write"):
        save_blueprint(blueprint, tmp_path / "no" / "such" / "folder.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_overwritten(blueprint: Blueprint, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="not a plain file"):
        save_blueprint(blueprint, tmp_path)


def test_a_failed_save_keeps_the_old_file(
    blueprint: Blueprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.safetensors"
    save_blueprint(blueprint, path)
    before = path.read_bytes()

    opened = Path.open

    def no_space(data: bytes) -> int:
        raise OSError(28, "No space left on device")

    def on_a_full_disk(self: Path, mode: str = "r", **options: Any) -> Any:
        file = opened(self, mode, **options)
        if "w" in mode:
            file.write = no_space
        return file

    monkeypatch.setattr(Path, "open", on_a_full_disk)
    with pytest.raises(FileFormatError, match="No space left"):
        save_blueprint(replace(blueprint, degree=9), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
