"""The experiment on simpler layers: its sizes, its data, its measures."""

import gzip
import io
from dataclasses import asdict

import numpy as np
import pytest
import torch
from PIL import Image

from exactformer.errors import InputError
from exactformer.experiments import Scale, find, real_data
from exactformer.experiments.models.vision.model import normalised, patches_of
from exactformer.experiments.yun.alternatives import MODELS, SIZES, run
from exactformer.experiments.yun.alternatives_tasks import PAD, UNKNOWN, images, words
from exactformer.experiments.yun.alternatives_training import (
    _crop_and_flip,
    one_patch_changed,
)
from exactformer.experiments.yun.alternatives_training import (
    test_words as measure,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder of one's own, with sentences and two images."""
    for name, lines in {
        "train": ["A dog runs .", "A dog, asleep!", "Dog runs"],
        "val": ["A cat runs"],
        "test_2016_flickr": ["The dog"],
    }.items():
        path = tmp_path / "multi30k" / f"{name}.en.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    pictures = []
    for shade in (40, 200):
        buffer = io.BytesIO()
        Image.fromarray(np.full((32, 32, 3), shade, np.uint8)).save(buffer, "jpeg")
        pictures.append(buffer.getvalue())
    path = tmp_path / "cifar10" / "train.npz"
    path.parent.mkdir()
    np.savez(
        path,
        header=np.frombuffer(pictures[0][:20], np.uint8),
        body=np.frombuffer(b"".join(p[20:] for p in pictures), np.uint8),
        offsets=np.cumsum([0, *(len(p) - 20 for p in pictures)]),
        labels=np.array([3, 7], np.uint8),
    )
    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    for reader in (words, images, real_data.multi30k, real_data.cifar10):
        reader.cache_clear()
    yield tmp_path
    for reader in (words, images, real_data.multi30k, real_data.cifar10):
        reader.cache_clear()


def test_words_seen_twice_are_known_and_all_else_is_not(folder):
    data = words("multi30k", 4)
    a, dog, runs = range(UNKNOWN + 1, UNKNOWN + 4)
    assert data.vocabulary == 3 + 3
    assert data.train.tolist() == [
        [a, dog, runs, UNKNOWN],
        [a, dog, UNKNOWN, UNKNOWN],  # cut after four words
        [dog, runs, PAD, PAD],
    ]
    assert data.test.tolist() == [[UNKNOWN, dog, PAD, PAD]]
    assert data.probe.tolist() == [[a, UNKNOWN, runs, PAD], [UNKNOWN, dog, PAD, PAD]]


def test_images_are_read_from_their_files(folder):
    x, y = real_data.cifar10("train")
    assert x.shape == (2, 3, 32, 32)
    assert [int(image.mean()) for image in x] == [40, 200]
    assert y.tolist() == [3, 7]


def test_missing_data_are_asked_for_by_name(folder, monkeypatch):
    with pytest.raises(InputError, match=r"no file cifar10/test\.npz"):
        real_data.cifar10("test")
    monkeypatch.delenv(real_data.VARIABLE)
    with pytest.raises(InputError, match="set EXACTFORMER_DATA"):
        real_data.data_file("multi30k/train.en.gz")


def test_every_scale_has_every_model_on_both_tasks_and_smoke_needs_no_data():
    for scale in Scale:
        grid = {(cell["task"], cell["model"]) for cell in find("yun-alternatives").cells(scale)}
        assert grid == {(task, model) for task in ("words", "patches") for model in MODELS}
    assert {size.data for size in SIZES[Scale.SMOKE]} == {"synthetic"}


@pytest.mark.parametrize("size", SIZES[Scale.SMOKE], ids=lambda size: size.task)
def test_a_cell_gives_the_same_numbers_twice(size):
    parameters = {**asdict(size), "epochs": 1, "model": "attention below convolution", "seed": 3}
    first, again = (dict(run(parameters, "cpu")) for _ in range(2))
    for metrics in (first, again):
        assert metrics.pop("seconds") > 0
    assert first == again
    assert len(first["shared"]) == len(first["separation"]) == size.layers


class Oracle(torch.nn.Module):
    """Names every hidden word rightly, with probability 1/2."""

    def __init__(self, ids, vocabulary):
        super().__init__()
        self.answers, self.vocabulary = ids, vocabulary

    def forward(self, shown):
        assert ((shown == self.answers) | (shown == 1)).all()
        return self.answers

    def logits(self, asked):
        right = torch.nn.functional.one_hot(asked, self.vocabulary).double()
        return (right / 2 + (1 - right) / 2 / (self.vocabulary - 1)).log()


def test_each_known_word_is_asked_once():
    ids = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 3, 4], [2, 5, 6, 0, 0, 0, 0, 0, 0]])
    found = measure(Oracle(ids, 10), ids)
    assert found == {"perplexity": pytest.approx(2), "accuracy": 1, "asked": 9 + 2}


def test_patches_are_cut_row_by_row():
    image = torch.arange(3 * 8 * 8, dtype=torch.uint8).reshape(1, 3, 8, 8)
    patches = patches_of(normalised(image), 4) * 64 + 120
    assert patches.shape == (1, 4, 48)
    expected = image[0, :, 0:4, 4:8].float().flatten()
    torch.testing.assert_close(patches[0, 1], expected)


def test_moved_and_mirrored_images_are_parts_of_the_padded_ones():
    torch.manual_seed(0)
    image = torch.randint(1, 255, (20, 3, 8, 8), dtype=torch.uint8)
    ways = []
    for before, after in zip(image, _crop_and_flip(image, margin=2), strict=True):
        wide = torch.nn.functional.pad(before, (2, 2, 2, 2))
        for mirrored in (False, True):
            shown = after.flip(2) if mirrored else after
            ways += [
                (i, j, mirrored)
                for i in range(5)
                for j in range(5)
                if torch.equal(wide[:, i : i + 8, j : j + 8], shown)
            ]
    assert len(ways) == 20
    for seen in zip(*ways, strict=True):
        assert len(set(seen)) > 1


def test_one_patch_of_each_image_is_changed():
    patches = np.random.default_rng(0).random((5, 6, 2))
    different = (one_patch_changed(patches) != patches).any(axis=2)
    assert different.sum(axis=1).tolist() == [1] * 5


def test_the_synthetic_classes_are_where_blue_lies_from_red():
    data = images("synthetic", 50)
    cells = data.train.reshape(50, 3, 4, 4, 4, 4).mean(axis=(3, 5))
    for channels, label in zip(cells, data.train_labels, strict=True):
        red, blue = (np.unravel_index(channels[c].argmax(), (4, 4)) for c in (0, 2))
        step = tuple(int(k) for k in np.subtract(blue, red))
        assert step == [(0, 1), (0, -1), (1, 0), (-1, 0)][label]
