"""Inputs from files: lines of text, a folder of images, arrays by name.

Images are made what a saved vision model expects: its size and channels from ``config.json``, the mean
and spread of its pixels from ``preprocessor_config.json`` (one half each where there is none).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from exactformer.core.archives import read_npz
from exactformer.errors import FileFormatError, InputError

LONGEST = 2**20
"""Characters of a line of text."""
LARGEST = 2**14
"""Pixels of a side of an image, as models expect them."""
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}


def read_texts(path: Path, limit: int | None = None) -> list[str]:
    """Return the lines of a file that are not empty, the first ``limit`` of them; read no further."""
    try:
        with path.open(encoding="utf-8") as file:
            texts = list(islice(_lines(file, path), limit))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not a text in UTF-8 ({error.reason})") from error
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from error
    if not texts:
        raise InputError(f"{path}: no text in it")
    return texts


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    for number in count(1):
        line = file.readline(LONGEST + 1)
        if not line:
            return
        if len(line) > LONGEST:
            raise InputError(
                f"{path}, line {number}: more than {LONGEST:,} characters; one line is one input, and "
                "models read some hundred words of it"
            )
        yield from (part.strip() for part in line.splitlines() if part.strip())


def read_arrays(path: Path, batch_size: int, limit: int | None = None) -> list[dict[str, Any]]:
    """Return batches of the arrays of an .npz file, each named as an argument of the model."""
    read = read_npz(path)
    try:
        arrays = {name: torch.from_numpy(np.array(array)) for name, array in read.items()}
    except TypeError as error:
        raise FileFormatError(f"{path}: arrays cannot be read from it ({error})") from error
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if not arrays or not min(lengths.values()):
        raise InputError(f"{path}: no inputs in it")
    if len(set(lengths.values())) > 1:
        raise InputError(f"{path}: arrays of different lengths ({lengths}); one entry is one input")
    inputs = min(next(iter(lengths.values())), limit or 2**62)
    return [
        {
            name: _argument(array[start : min(start + batch_size, inputs)])
            for name, array in arrays.items()
        }
        for start in range(0, inputs, batch_size)
    ]


class Images:
    """Batches of the images of a folder, read when they are asked for."""

    def __init__(
        self, folder: Path, model: str | Path, batch_size: int, limit: int | None = None
    ) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        self._files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in _IMAGES)[:limit]
        if not self._files:
            raise InputError(f"{folder}: no images in it ({', '.join(sorted(_IMAGES))})")
        self._batch_size = batch_size
        config = _json(Path(model) / "config.json")
        if "image_size" not in config:
            raise InputError(f"{model}: its config.json names no image_size: not a model of images")
        size, channels = config["image_size"], config.get("num_channels", 3)
        sides = [size, size] if isinstance(size, int) else size
        if not (
            isinstance(sides, list)
            and 0 < len(sides) <= 3
            and all(isinstance(side, int) and 0 < side <= LARGEST for side in sides)
            and channels in (1, 3)
        ):
            raise InputError(
                f"{model}: its config.json has image_size {size!r} and num_channels {channels!r}; "
                f"sides of 1 to {LARGEST:,} pixels and 1 or 3 channels are understood"
            )
        self._size, self._channels = (sides[-1], sides[0]), int(channels)
        pixels = _json(Path(model) / "preprocessor_config.json")
        self._mean, self._std = (
            np.broadcast_to(pixels.get(name, 0.5), self._channels).astype(np.float32)
            for name in ("image_mean", "image_std")
        )

    def __len__(self) -> int:
        return -(-len(self._files) // self._batch_size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self._files), self._batch_size):
            yield {"pixel_values": self._pixels(self._files[start : start + self._batch_size])}

    def _pixels(self, files: Sequence[Path]) -> torch.Tensor:
        from PIL import Image, UnidentifiedImageError

        mode = "L" if self._channels == 1 else "RGB"
        rows = []
        for file in files:
            try:
                with Image.open(file) as image:
                    scaled = image.convert(mode).resize(self._size, Image.Resampling.BILINEAR)
            except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
                raise FileFormatError(f"{file}: no image that can be read ({error})") from error
            values = np.asarray(scaled, dtype=np.float32).reshape(*self._size[::-1], -1) / 255
            rows.append(((values - self._mean) / self._std).transpose(2, 0, 1))
        return torch.from_numpy(np.stack(rows))


def _argument(array: torch.Tensor) -> torch.Tensor:
    return array.long() if array.dtype in (torch.int32, torch.int16, torch.uint8) else array


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from error
    return found if isinstance(found, dict) else {}
