"""Tasks for the alternatives to attention: masked words, and classes of images.

Words: sentences of at most ``tokens`` words, some hidden, to be named from the rest. Patches: an
image as a sequence of square patches, to be classified. The real data are the English side of
Multi30k and the JPEG copy of CIFAR-10. Smoke scale makes its own, with the same difficulty in small:
sentences whose words hang together by a topic that one must gather from far away, and images whose
class is which way two coloured patches lie to each other.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from exactformer.experiments.real_data import cifar10, multi30k

Ids = NDArray[np.int64]

PAD, MASK, UNKNOWN = range(3)
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Words:
    """Sentences as rows of word ids, padded with ``PAD``; words seen once are ``UNKNOWN``."""

    train: Ids
    test: Ids
    probe: Ids
    vocabulary: int


@dataclass(frozen=True)
class Images:
    """Images (number, 3, side, side) as bytes, with their classes."""

    train: NDArray[np.uint8]
    train_labels: Ids
    test: NDArray[np.uint8]
    test_labels: Ids
    classes: int


@cache
def words(data: str, tokens: int) -> Words:
    """Return the sentences of ``data``: multi30k, or synthetic."""
    if data == "synthetic":
        return _topics(tokens)
    train, validation, test = (
        [_WORD.findall(line.lower()) for line in multi30k(split)]
        for split in ("train", "val", "test_2016_flickr")
    )
    counts = Counter(word for sentence in train for word in sentence)
    known = sorted(word for word, count in counts.items() if count > 1)
    number = {word: k for k, word in enumerate(known, start=UNKNOWN + 1)}

    def ids(sentences: list[list[str]]) -> Ids:
        rows = np.full((len(sentences), tokens), PAD, dtype=np.int64)
        for row, sentence in zip(rows, sentences, strict=True):
            cut = sentence[:tokens]
            row[: len(cut)] = [number.get(word, UNKNOWN) for word in cut]
        return rows

    return Words(ids(train), ids(test), ids(validation + test), len(number) + UNKNOWN + 1)


def _topics(tokens: int, topics: int = 6, own: int = 2, common: int = 4) -> Words:
    """Every second word or so belongs to the sentence's topic; of the others most tell the next."""
    generator = np.random.default_rng(0)
    number = 2400
    topic = generator.integers(topics, size=(number, 1))
    of_topic = common + own * topic + generator.integers(own, size=(number, tokens))
    of_all = generator.integers(common, size=(number, tokens))
    for place in range(1, tokens):
        led = generator.random(number) < 0.65
        of_all[led, place] = (of_all[led, place - 1] + 1) % common
    chosen = np.where(generator.random((number, tokens)) < 0.4, of_topic, of_all) + UNKNOWN + 1
    length = generator.integers(tokens // 4, tokens + 1, size=(number, 1))
    rows = np.where(np.arange(tokens) < length, chosen, PAD)
    return Words(rows[:1920], rows[1920:], rows[1920:2120], common + own * topics + UNKNOWN + 1)


@cache
def images(data: str, train: int) -> Images:
    """Return images of ``data``, cifar10 or synthetic, the first ``train`` of a shuffled order."""
    if data == "synthetic":
        return _neighbours(train)
    (x, y), (test_x, test_y) = cifar10("train"), cifar10("test")
    order, test_order = (
        np.random.default_rng(0).permutation(len(labels)) for labels in (y, test_y)
    )
    order = order[:train]
    return Images(x[order], y[order], test_x[test_order], test_y[test_order], 10)


def _neighbours(train: int, side: int = 16, patch: int = 4) -> Images:
    """A red patch has a blue one to its right, left, below or above: that is the class."""
    generator = np.random.default_rng(0)
    number, cells = train + 600, side // patch
    labels = generator.integers(4, size=number)
    step = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])[labels]
    low, high = np.maximum(0, -step), np.minimum(cells, cells - step)
    red = generator.integers(low, high)
    pixels = generator.integers(0, 160, size=(number, 3, cells, patch, cells, patch))
    for channel, place in ((0, red), (2, red + step)):
        pixels[np.arange(number), channel, place[:, 0], :, place[:, 1]] += 95
    shown = pixels.reshape(number, 3, side, side).astype(np.uint8)
    return Images(shown[:train], labels[:train], shown[train:], labels[train:], 4)
