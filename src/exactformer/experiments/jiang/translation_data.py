"""What table 1 translates: Multi30k, English to German, or at smoke scale a made-up language.

The made-up sentences are pairs of a quality and a thing. The other language has its own words and says
the thing first, so that a translator must know what stood where.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from exactformer.experiments.models.translation.subwords import Subwords
from exactformer.experiments.real_data import multi30k

Ids = NDArray[np.int64]

QUALITIES = {"red": "rot", "old": "alt", "big": "dick", "wet": "nass"}
THINGS = {"dog": "hund", "hat": "mütze", "boat": "kahn", "tree": "baum"}


@dataclass(frozen=True)
class Pairs:
    """Sentences of the source and their translations, as rows of ids; those to be tested as text."""

    source: Ids
    target: Ids
    test: Ids
    references: tuple[str, ...]
    subwords: Subwords


@cache
def pairs(data: str, train: int, tested: int, vocabulary: int, tokens: int) -> Pairs:
    """Return the first ``train`` and ``tested`` pairs of ``data``: multi30k, or made-up.

    The vocabulary is learnt from both languages of the training part alone.
    """
    if data == "multi30k":
        source, target = (multi30k("train", language)[:train] for language in ("en", "de"))
        test, references = (
            multi30k("test_2016_flickr", language)[:tested] for language in ("en", "de")
        )
    else:
        source, target = made_up(train + tested)
        test, references = source[train:], target[train:]
        source, target = source[:train], target[:train]
    subwords = Subwords([*source, *target], vocabulary)
    return Pairs(
        subwords.encode(source, tokens),
        subwords.encode(target, tokens),
        subwords.encode(test, tokens),
        references,
        subwords,
    )


def made_up(count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ``count`` sentences of two or three pairs, and their translations."""
    random = np.random.default_rng(0)
    qualities, things = list(QUALITIES), list(THINGS)
    sentences, translations = [], []
    for _ in range(count):
        chosen = random.integers(4, size=(random.integers(2, 4), 2))
        named = [(qualities[a], things[b]) for a, b in chosen]
        sentences.append(" ".join(f"{quality} {thing}" for quality, thing in named))
        translations.append(
            " ".join(f"{THINGS[thing]} {QUALITIES[quality]}" for quality, thing in named)
        )
    return tuple(sentences), tuple(translations)
