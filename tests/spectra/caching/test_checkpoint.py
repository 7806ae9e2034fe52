"""A fit that is interrupted anywhere goes on to the same bits, and from nothing but its own files."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed")

import exactformer as ef
from exactformer.errors import AlteredFileError, FileFormatError, InputError
from exactformer.spectra.caching import calibration, checkpoint, moments
from exactformer.spectra.caching.checkpoint import Checkpoint
from tests.spectra.caching.models import build, llama, phi, tokens, written

LAYERS = 5
FILES = ["reading"] * 8 + ["ranks"] + ["layer", "states"] * (LAYERS - 1) + ["layer"]
"""All that a fit writes, in order, when sums are saved behind each of the eight windows."""


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_the_disk() -> Iterator[None]:
    """Whether bytes survive a power cut is not tested here, and asking for it takes its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


def deep() -> Any:
    return llama(num_hidden_layers=LAYERS)


@pytest.fixture(scope="module", autouse=True)
def on_the_processor() -> Iterator[None]:
    """Fit on the processor where there is a GPU, too: what a checkpoint holds depends on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield


@pytest.fixture(scope="module")
def original() -> Any:
    return build(deep)


@pytest.fixture(scope="module")
def whole(original: Any) -> Any:
    return ef.shrink_cache(original, tokens(), cache=0.5)


@pytest.fixture(scope="module")
def half_way(original: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint behind the second layer."""
    folder = tmp_path_factory.mktemp("fit")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_behind(patch, "states", 2)
        with pytest.raises(KeyboardInterrupt):
            ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=folder)
    return folder


def interrupt_behind(patch: pytest.MonkeyPatch, name: str, count: int) -> None:
    """Let a fit be interrupted once it has written so many files whose names begin so."""
    write, left = Checkpoint.write, [count]

    def written_and_interrupted(self: Checkpoint, file: str, *what: Any) -> None:
        write(self, file, *what)
        left[0] -= file.startswith(name)
        if left[0] == 0:
            raise KeyboardInterrupt

    patch.setattr(Checkpoint, "write", written_and_interrupted)


def assert_same(one: Any, other: Any) -> None:
    """Assert that every tensor, number and name of two results is the same."""
    mine, theirs = one.model.state_dict(), other.model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(x, theirs[name]) for name, x in mine.items())
    assert one.model.config.to_dict() == other.model.config.to_dict()
    assert one.report == other.report


def no(*_: Any, **__: Any) -> Any:
    raise AssertionError("this was done before")


@pytest.mark.spread(9)
@pytest.mark.parametrize("files", range(1, len(FILES) + 1))
def test_a_fit_interrupted_behind_any_file_ends_with_the_same_bits(
    files: int, original: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        interrupt_behind(patch, "", files)
        with pytest.raises(KeyboardInterrupt):
            ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=tmp_path)
    again = ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=tmp_path)
    assert_same(again, whole)
    assert not list(tmp_path.rglob("*.partial"))
    assert not list(tmp_path.rglob("states*"))


@pytest.mark.parametrize("layer", [0, 1, LAYERS - 1])
def test_a_fit_interrupted_inside_a_layer_repeats_that_layer_only(
    layer: int, original: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[int] = []
    fit = calibration.fit

    def fit_and_note(method: Any, one: Any, *rest: Any) -> Any:
        fitted.append(one.index)
        if fitted == list(range(layer + 1)):
            raise KeyboardInterrupt
        return fit(method, one, *rest)

    monkeypatch.setattr(calibration, "fit", fit_and_note)
    with pytest.raises(KeyboardInterrupt):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=tmp_path)
    monkeypatch.setattr(moments._LayerSums, "add", no)
    assert_same(ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=tmp_path), whole)
    assert fitted == [*range(layer + 1), *range(layer, LAYERS)]


def test_a_finished_fit_is_read_again(
    original: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=tmp_path), whole)
    monkeypatch.setattr(calibration, "fit", no)
    monkeypatch.setattr(moments._LayerSums, "add", no)
    again = ef.shrink_cache(original, tokens(), cache=Fraction(1, 2), checkpoint=tmp_path)
    assert_same(again, whole)


@pytest.mark.parametrize(
    ("make", "asked"),
    [
        (llama, {"max_loss": 0.05}),
        (phi, {"cache": 0.5, "lookback": 0}),
        (llama, {"cache": 0.4, "method": "grouped"}),
        (llama, {"cache": 1.0}),
        (lambda: llama().bfloat16(), {"cache": 0.5}),
    ],
)
def test_every_kind_of_fit_goes_on_to_the_same_bits(
    make: Callable[[], Any], asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(make)
    text = written(model) if "max_loss" in asked else tokens()
    with monkeypatch.context() as patch:
        interrupt_behind(patch, "layer-001", 2 if "max_loss" in asked else 1)
        with pytest.raises(KeyboardInterrupt):
            ef.shrink_cache(model, text, **asked, checkpoint=tmp_path)
    again = ef.shrink_cache(model, text, **asked, checkpoint=tmp_path)
    assert_same(again, ef.shrink_cache(model, text, **asked))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"cache": 0.4}, "cache = 0.5 there, 0.4 here"),
        ({"cache": None, "max_loss": 0.1}, "cache = 0.5 there, None here; max_loss = None there"),
        ({"method": "keys"}, "method = 'joint' there, 'keys' here; lookback = 3 there, 0 here"),
        ({"lookback": 2}, "lookback = 3 there, 2 here"),
        ({"seed": 1}, "seed = 0 there, 1 here"),
        ({"held_out": tokens(2, seed=3)}, "other texts; other held_out"),
        ({"texts": tokens(seed=2)}, "other texts; other held_out"),
        ({"model": build(phi)}, "another model"),
    ],
)
def test_another_fit_is_refused_with_what_differs(
    half_way: Path, original: Any, asked: Any, reason: str
) -> None:
    given = {"model": original, "texts": tokens(), "cache": 0.5, **asked}
    with pytest.raises(InputError, match=f"belongs to another fit: {reason}"):
        ef.shrink_cache(**given, checkpoint=half_way)


def test_one_weight_or_token_that_differs_is_another_fit(half_way: Path, original: Any) -> None:
    other, ids = copy.deepcopy(original), tokens()
    other.lm_head.weight.data[0, 0] += 1e-6
    with pytest.raises(InputError, match=r"another fit: another model\. Go on"):
        ef.shrink_cache(other, ids, cache=0.5, checkpoint=half_way)
    ids[0, 0] += 1
    with pytest.raises(InputError, match=r"another fit: other texts\. Go on"):
        ef.shrink_cache(original, ids, cache=0.5, checkpoint=half_way)


def test_the_same_weights_with_other_arithmetic_are_another_fit(
    half_way: Path, original: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    with pytest.raises(InputError, match=r"device = 'cpu, .* there, 'cpu, .*, 77 threads' here"):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=half_way)


PARTS = ("reading", "cache-0.5/ranks", "cache-0.5/layer-000", "cache-0.5/states")


@pytest.mark.parametrize("part", PARTS)
def test_a_torn_or_altered_file_is_refused(
    part: str, half_way: Path, original: Any, whole: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "fit"
    shutil.copytree(half_way, folder)
    file = folder / f"{part}.safetensors"
    intact = file.read_bytes()
    for end in (0, 5, len(intact) // 2, len(intact) - 1):
        file.write_bytes(intact[:end])
        with pytest.raises(FileFormatError, match=r"truncated or not a part .*Remove "):
            ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=folder)
    changed = bytearray(intact)
    changed[-1] ^= 1  # the last number of a tensor, or a space behind the header
    if part.endswith("ranks"):
        changed = bytearray(intact.replace(b"plans", b"plane"))
    file.write_bytes(changed)
    with pytest.raises(AlteredFileError, match="its seal is broken"):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=folder)
    shutil.rmtree(file.parent) if file.parent != folder else file.unlink()  # the way out
    assert_same(ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=folder), whole)


def test_a_file_of_another_fit_or_place_is_refused(
    half_way: Path, original: Any, tmp_path: Path
) -> None:
    other, mine = tmp_path / "other", tmp_path / "mine"
    ef.shrink_cache(original, tokens(), cache=0.5, seed=1, checkpoint=other)
    part = "cache-0.5/layer-000.safetensors"
    for source in (other / part, half_way / "cache-0.5/layer-001.safetensors"):
        shutil.copytree(half_way, mine, dirs_exist_ok=True)
        shutil.copy(source, mine / part)
        with pytest.raises(FileFormatError, match=r"layer-000\.safetensors belongs to another fit"):
            ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=mine)
    (mine / part).unlink()
    with pytest.raises(FileFormatError, match=r"layer-000\.safetensors is missing"):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=mine)


def test_a_description_that_was_edited_does_not_let_another_fit_in(
    half_way: Path, original: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "fit"
    shutil.copytree(half_way, folder)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "seed": 1}))
    with pytest.raises(FileFormatError, match=r"reading\.safetensors belongs to another fit"):
        ef.shrink_cache(original, tokens(), cache=0.5, seed=1, checkpoint=folder)
    (folder / "run.json").write_text("{")
    with pytest.raises(FileFormatError, match=r"run\.json cannot be read"):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=folder)


def test_a_folder_with_other_things_or_in_use_is_left_alone(
    half_way: Path, original: Any, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="give an empty or a new folder"):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=tmp_path)
    with pytest.raises(InputError, match="cannot be used"):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=tmp_path / "thesis.txt")
    run = json.loads((half_way / "run.json").read_text())
    device = torch.device("cpu")
    with (
        checkpoint.opened(half_way, run, device),
        pytest.raises(InputError, match="in use by another process"),
    ):
        ef.shrink_cache(original, tokens(), cache=0.5, checkpoint=half_way)
