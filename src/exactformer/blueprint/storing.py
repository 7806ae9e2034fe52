"""Blueprints in one safetensors file, lossless and without pickle.

Every matrix is two tensors: ``PATH.place`` (int64, k × 2: row and column of each non-zero) and
``PATH.value`` (bytes: hexadecimal ``numerator/denominator``, one a line). The header's metadata holds
the shapes and names as JSON, and a SHA-256 digest for each matrix and for the whole, so that a
damaged file says where it is damaged. Digests protect against accidents; certificates against
everything else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.blueprint.blueprint import Blueprint
from exactformer.blueprint.domain import Ball, Box, Domain
from exactformer.blueprint.layers import (
    Activation,
    Attention,
    Block,
    Embedding,
    FeedForward,
    Head,
    Readout,
    Rule,
    Selection,
)
from exactformer.blueprint.matrix import Matrix
from exactformer.errors import ExactformerError, FileFormatError

FORMAT = "exactformer-blueprint-2"
_RATIONAL = re.compile(r"-?[0-9a-f]+/[0-9a-f]+")


def save_blueprint(blueprint: Blueprint, path: str | Path) -> None:
    """Write ``blueprint`` to ``path``; an existing file is replaced only once all is written."""
    write_tensors(*_encode(blueprint), path)


def write_tensors(
    tensors: dict[str, NDArray[Any]], metadata: dict[str, str], path: str | Path
) -> None:
    """Write a safetensors file; an existing one is replaced only once all is written."""
    from safetensors.numpy import save

    target = Path(path)
    if target.exists() and not target.is_file():
        raise FileFormatError(f"cannot write {target}: it is not a plain file")
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_bytes(save(tensors, metadata=metadata))
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise FileFormatError(f"cannot write {target}: {error.strerror or error}") from None


def digest(blueprint: Blueprint) -> str:
    """Return a SHA-256 over every weight and name: equal for equal blueprints only."""
    return _encode(blueprint)[1]["seal"]


def load_blueprint(path: str | Path, verify: bool = True) -> Blueprint:
    """Read a blueprint; anything that is not exactly what was saved raises FileFormatError.

    ``verify=False`` reads altered weights too, for those who will prove what they are.
    """
    tensors, metadata = _read(Path(path))
    try:
        digests = json.loads(metadata["digests"])
        description = json.loads(metadata["blueprint"])
        seal = metadata["seal"]
    except (KeyError, ValueError):
        raise FileFormatError(f"{path} has a damaged header; save the model again") from None
    if verify and seal != _seal(metadata["blueprint"], digests):
        raise FileFormatError(f"{path}: the description in the header has been altered")
    try:
        return _rebuild(description, tensors, digests if verify else None)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
    except (ExactformerError, KeyError, TypeError, ValueError, IndexError) as error:
        raise FileFormatError(f"{path} does not describe a blueprint: {error}") from None


def _encode(blueprint: Blueprint) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    tensors: dict[str, NDArray[Any]] = {}
    for name, matrix in blueprint.matrices():
        tensors[f"{name}.place"] = np.array(list(matrix.entries), dtype=np.int64).reshape(-1, 2)
        text = "\n".join(rational_text(v) for v in matrix.entries.values())
        tensors[f"{name}.value"] = np.frombuffer(text.encode(), dtype=np.uint8)
    description = json.dumps(_describe(blueprint), sort_keys=True)
    digests = {name: _digest(tensors, name) for name, _ in blueprint.matrices()}
    metadata = {
        "format": FORMAT,
        "blueprint": description,
        "digests": json.dumps(digests, sort_keys=True),
        "seal": _seal(description, digests),
    }
    return tensors, metadata


def _read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileFormatError(f"{path} does not exist or is not a file")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise FileFormatError(
                    f"{path} is a safetensors file but not one of exactformer's "
                    f"(format {metadata.get('format')!r}, expected {FORMAT!r})"
                )
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FileFormatError(f"{path} is truncated or not a safetensors file: {error}") from None


def _describe(blueprint: Blueprint) -> dict[str, Any]:
    return {
        "variables": blueprint.variables,
        "dimensions": blueprint.dimensions,
        "domain": _domain_text(blueprint.domain),
        "outputs": len(blueprint.readouts),
        "vector": blueprint.vector,
        "degree": blueprint.degree,
        "construction": blueprint.construction,
        "metadata": dict(blueprint.metadata),
        "feature_dimension": blueprint.embedding.dimension,
        "selections": [
            [b.attention.selection.rule.value, rational_text(b.attention.selection.temperature)]
            for b in blueprint.blocks
        ],
        "activations": [b.feed_forward.activation.value for b in blueprint.blocks],
        "heads": [len(b.attention.heads) for b in blueprint.blocks],
        "shapes": {name: matrix.shape for name, matrix in blueprint.matrices()},
    }


def _rebuild(
    description: dict[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    digests: dict[str, str] | None,
) -> Blueprint:
    shapes = description["shapes"]

    def matrix(name: str) -> Matrix:
        for part in (f"{name}.place", f"{name}.value"):
            if part not in tensors:
                raise FileFormatError(f"the tensor {part} is missing")
        if digests is not None and _digest(tensors, name) != digests.get(name):
            raise FileFormatError(f"the weights {name} are not those that were saved")
        return _matrix(tensors[f"{name}.place"], tensors[f"{name}.value"], shapes[name])

    def block(b: int, heads: int, selection: list[str], activation: str) -> Block:
        def head(h: int) -> Head:
            return Head(*(matrix(f"blocks.{b}.heads.{h}.{m}") for m in ("query", "key", "value")))

        attention = Attention(
            tuple(head(h) for h in range(heads)),
            Selection(Rule(selection[0]), rational(selection[1])),
        )
        w1, b1, w2, b2 = (matrix(f"blocks.{b}.feed_forward.{m}") for m in ("w1", "b1", "w2", "b2"))
        return Block(attention, FeedForward(w1, b1, w2, b2, Activation(activation)))

    shape = ("heads", "selections", "activations")
    blocks = zip(*(description[key] for key in shape), strict=True)
    embedding = Embedding(
        matrix("embedding.features"),
        int(description["feature_dimension"]),
        matrix("embedding.constant"),
    )
    outputs, vector = int(description["outputs"]), bool(description["vector"])
    if outputs < 1 or (outputs > 1 and not vector):
        raise FileFormatError(f"a {'vector' if vector else 'scalar'} cannot have {outputs} outputs")
    return Blueprint(
        variables=tuple(description["variables"]),
        dimensions=tuple(description["dimensions"]),
        embedding=embedding,
        blocks=tuple(block(b, *layers) for b, layers in enumerate(blocks)),
        readouts=tuple(
            Readout(matrix(f"readouts.{k}.beta"), matrix(f"readouts.{k}.bias")[0, 0])
            for k in range(outputs)
        ),
        domain=_domain(description["domain"], len(description["variables"])),
        degree=int(description["degree"]),
        construction=str(description["construction"]),
        metadata={str(k): str(v) for k, v in description["metadata"].items()},
        vector=vector,
    )


def _matrix(places: NDArray[Any], values: NDArray[Any], shape: list[int]) -> Matrix:
    lines = values.astype(np.uint8).tobytes().decode("ascii").split("\n") if values.size else []
    pairs = [(int(i), int(j)) for i, j in places]
    if len(pairs) != len(lines) or len(set(pairs)) != len(pairs):
        raise FileFormatError("places and values of a matrix do not match")
    return Matrix(shape[0], shape[1], dict(zip(pairs, map(rational, lines), strict=True)))


def _domain_text(domain: Domain) -> dict[str, Any]:
    centre = [rational_text(c) for c in domain.centre]
    if isinstance(domain, Ball):
        return {"centre": centre, "radius": rational_text(domain.radius)}
    return {"centre": centre, "half_widths": [rational_text(h) for h in domain.half_widths]}


def _domain(description: dict[str, Any], dimension: int) -> Domain:
    centre = tuple(map(rational, description["centre"]))
    sizes = description.get("half_widths") or [description["radius"]]
    lengths = tuple(map(rational, sizes))
    is_box = "half_widths" in description
    if len(centre) not in ((dimension,) if is_box else (0, dimension)) or min(lengths) <= 0:
        raise FileFormatError(f"this is no domain in {dimension} variables: {description}")
    if is_box and len(lengths) != dimension:
        raise FileFormatError(f"a box has {dimension} half-widths, not {len(lengths)}")
    return Box(centre, lengths) if is_box else Ball(lengths[0], centre)


def rational_text(value: Fraction) -> str:
    """Return a rational in hexadecimal, which has no limit on digits and no rounding."""
    return f"{value.numerator:x}/{value.denominator:x}"


def rational(text: str) -> Fraction:
    """Read what :func:`rational_text` wrote."""
    if not _RATIONAL.fullmatch(text):
        raise FileFormatError(f"{text[:40]!r} is not a rational number")
    numerator, denominator = (int(part, 16) for part in text.split("/"))
    if denominator == 0:
        raise FileFormatError(f"{text[:40]!r} has denominator zero")
    return Fraction(numerator, denominator)


def _digest(tensors: Mapping[str, NDArray[Any]], name: str) -> str:
    content = hashlib.sha256()
    for part in (tensors[f"{name}.place"], tensors[f"{name}.value"]):
        content.update(f"{part.dtype}{part.shape}".encode())
        content.update(np.ascontiguousarray(part).tobytes())
    return content.hexdigest()


def _seal(description: str, digests: Mapping[str, str]) -> str:
    text = FORMAT + description + json.dumps(dict(digests), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
