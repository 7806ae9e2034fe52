"""Inputs from files: lines of text, a folder of images, arrays by name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from exactformer.core.archives import read_npz
from exactformer.errors import FileFormatError, InputError, needs

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
    """Batches of the images of a folder, as the image processor saved with the model makes them."""

    def __init__(
        self, folder: Path, model: str | Path, batch_size: int, limit: int | None = None
    ) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        self._files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in _IMAGES)[:limit]
        if not self._files:
            raise InputError(f"{folder}: no images in it ({', '.join(sorted(_IMAGES))})")
        self._batch_size, self._processor = batch_size, _processor_at(model)

    def __len__(self) -> int:
        return -(-len(self._files) // self._batch_size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self._files), self._batch_size):
            images = [_image(file) for file in self._files[start : start + self._batch_size]]
            yield dict(self._processor(images=images, return_tensors="pt"))


def _processor_at(model: str | Path) -> Any:
    """Load the image processor saved with a model; nothing is fetched."""
    with needs("models", "reading images"):
        from PIL import Image as _  # noqa: F401
        from transformers import AutoImageProcessor
    make: Any = AutoImageProcessor.from_pretrained
    try:
        processor = make(model, local_files_only=True)
        settings = processor.to_dict()
    except OSError:
        raise InputError(
            f"{model}: no image processor is saved there (preprocessor_config.json), so it is unknown "
            "which pixels the model expects. Save the one it was trained with: transformers."
            f"AutoImageProcessor.from_pretrained(ORIGINAL).save_pretrained({str(model)!r}); or give "
            "pixel_values by --npz"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{model}: its image processor cannot be loaded ({error})") from None
    for name in ("size", "crop_size"):
        sides = [side for side in (settings.get(name) or {}).values() if side is not None]
        if not all(isinstance(side, int) and 0 < side <= LARGEST for side in sides):
            raise InputError(
                f"{model}: its image processor has {name} {settings[name]!r}; sides of 1 to "
                f"{LARGEST:,} pixels are understood"
            )
    return processor


def _image(file: Path) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            return image.convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise FileFormatError(f"{file}: no image that can be read ({error})") from error


def _argument(array: torch.Tensor) -> torch.Tensor:
    return array.long() if array.dtype in (torch.int32, torch.int16, torch.uint8) else array
