"""Blueprints in one safetensors file, lossless and without pickle.

Every matrix is two tensors: ``PATH.place`` (int64, k × 2: row and column of each non-zero) and
``PATH.value`` (bytes: hexadecimal ``numerator/denominator``, one per line). The header's metadata holds
the shapes and names as JSON, and a SHA-256 digest for each matrix and for the whole, so that a
damaged file says where it is damaged. Digests protect against accidents; certificates against
everything else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.core import header
from exactformer.core.domain import Ball, Box, Domain
from exactformer.core.files import read_tensors, rebuilt, write_tensors
from exactformer.core.header import rational_text
from exactformer.core.idleness import check_idleness
from exactformer.core.layers import (
    Attention,
    Block,
    Embedding,
    FeedForward,
    Head,
    PiecewiseLinear,
    Readout,
    Rule,
    Selection,
    activation_called,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import FileFormatError
from exactformer.polynomials.blueprint import Blueprint

FORMAT = "exactformer-blueprint-2"


def save_blueprint(blueprint: Blueprint, path: str | Path) -> None:
    """Write ``blueprint`` to ``path``; an existing file is replaced only once all is written."""
    write_tensors(*_encode(blueprint), path)


def digest(blueprint: Blueprint) -> str:
    """Return a SHA-256 over every weight and name: equal for equal blueprints only."""
    return _encode(blueprint)[1]["seal"]


def load_blueprint(path: str | Path, verify: bool = True) -> Blueprint:
    """Read a blueprint; anything that is not exactly what was saved raises FileFormatError.

    ``verify=False`` reads altered weights too, for those who will prove what they are.
    """
    tensors, metadata = read_tensors(path, FORMAT, "blueprint")
    if not {"digests", "blueprint", "seal"} <= metadata.keys():
        raise FileFormatError(f"{path} has a damaged header; save the model again")

    def rebuild() -> Blueprint:
        digests = header.texts(header.parse(metadata["digests"]), "digests")
        if verify and metadata["seal"] != _seal(metadata["blueprint"], digests):
            raise FileFormatError("the description in the header has been altered")
        description = header.mapping(header.parse(metadata["blueprint"]), "the description")
        return _rebuild(description, tensors, digests if verify else None)

    return rebuilt(path, "blueprint", rebuild)


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
        "activations": [b.feed_forward.activation.name for b in blueprint.blocks],
        "heads": [len(b.attention.heads) for b in blueprint.blocks],
        "shapes": {name: matrix.shape for name, matrix in blueprint.matrices()},
    }


def _rebuild(
    description: dict[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    digests: dict[str, str] | None,
) -> Blueprint:
    def field(name: str) -> Any:
        return header.entry(description, name)

    shapes = header.mapping(field("shapes"), "shapes")
    most = len(tensors)  # a count of parts that have matrices of their own

    def matrix(name: str) -> Matrix:
        places = header.tensor(tensors, f"{name}.place", np.int64, 2)
        header.tensor(tensors, f"{name}.value", np.uint8)
        if digests is not None and _digest(tensors, name) != digests.get(name):
            raise FileFormatError(f"the weights {name} are not those that were saved")
        values = header.rationals(tensors, f"{name}.value")
        rows, columns = header.shape(header.entry(shapes, name), f"shape of {name}")
        entries = dict(zip(map(tuple, places.tolist()), values, strict=False))
        if len(places) != len(values) or len(entries) != len(places):
            raise FileFormatError(f"places and values of {name} do not match")
        return Matrix(rows, columns, entries)

    def selection(value: Any, name: str) -> Selection:
        rule, temperature = header.list_of(value, name, header.text, 2, 2)
        found = Selection(header.choice(rule, name, Rule), header.rational(temperature, name))
        if found.temperature <= 0:
            raise FileFormatError(f"{name} has the temperature {found.temperature}")
        return found

    def activation(value: Any, name: str) -> PiecewiseLinear:
        return header.choice(value, name, activation_called)

    def count(value: Any, name: str) -> int:
        return header.integer(value, name, 0, most)

    def block(b: int, heads: int, selection: Selection, activation: PiecewiseLinear) -> Block:
        def head(h: int) -> Head:
            return Head(*(matrix(f"blocks.{b}.heads.{h}.{m}") for m in ("query", "key", "value")))

        attention = Attention(tuple(head(h) for h in range(heads)), selection)
        w1, b1, w2, b2 = (matrix(f"blocks.{b}.feed_forward.{m}") for m in ("w1", "b1", "w2", "b2"))
        return Block(attention, FeedForward(w1, b1, w2, b2, activation))

    blocks = tuple(
        header.list_of(field(name), name, read, high=most)
        for name, read in (("heads", count), ("selections", selection), ("activations", activation))
    )
    if len(set(map(len, blocks))) > 1:
        raise FileFormatError("heads, selections and activations are not of the same blocks")
    variables = header.names(field("variables"), "variables")
    dimensions = header.names(field("dimensions"), "dimensions", 1)
    embedding = Embedding(
        matrix("embedding.features"),
        header.integer(field("feature_dimension"), "feature_dimension", 0, len(dimensions) - 1),
        matrix("embedding.constant"),
    )
    vector = header.flag(field("vector"), "vector")
    outputs = header.integer(field("outputs"), "outputs", 1, most if vector else 1)
    blueprint = Blueprint(
        variables=variables,
        dimensions=dimensions,
        embedding=embedding,
        blocks=tuple(block(b, *layers) for b, layers in enumerate(zip(*blocks, strict=True))),
        readouts=tuple(
            Readout(matrix(f"readouts.{k}.beta"), matrix(f"readouts.{k}.bias")[0, 0])
            for k in range(outputs)
        ),
        domain=_domain(header.mapping(field("domain"), "domain"), len(variables)),
        degree=header.integer(field("degree"), "degree"),
        construction=header.text(field("construction"), "construction"),
        metadata=_metadata(header.texts(field("metadata"), "metadata"), most),
        vector=vector,
    )
    if blueprint.tokens < 1:
        raise FileFormatError("embedding.features has no row: a model has one token at least")
    layers = [
        (f"blocks.{b}", layer)
        for b, block in enumerate(blueprint.blocks)
        for layer in (block.attention, block.feed_forward)
    ]
    check_idleness([("embedding", blueprint.embedding), *layers])
    return blueprint


def _metadata(metadata: dict[str, str], most: int) -> dict[str, str]:
    """Return the metadata, numbers in it checked: a short text may spell an enormous one."""
    if not re.fullmatch(r"[0-9]{1,9}", heads := metadata.get("heads", "0")) or int(heads) > most:
        raise FileFormatError(f"the metadata has heads={heads[:40]!r} for {most:,} tensors")
    if not re.fullmatch(r"[0-9]{1,18}(/[0-9]{1,18})?", span := metadata.get("span", "0")):
        raise FileFormatError(f"the metadata has span={span[:40]!r}, which is not a plain fraction")
    return metadata


def _domain_text(domain: Domain) -> dict[str, Any]:
    centre = [rational_text(c) for c in domain.centre]
    if isinstance(domain, Ball):
        return {"centre": centre, "radius": rational_text(domain.radius)}
    return {"centre": centre, "half_widths": [rational_text(h) for h in domain.half_widths]}


def _domain(description: dict[str, Any], dimension: int) -> Domain:
    is_box = "half_widths" in description
    centre = header.list_of(header.entry(description, "centre"), "centre", header.rational)
    if is_box:
        lengths = header.list_of(description["half_widths"], "half_widths", header.rational)
    else:
        lengths = (header.rational(header.entry(description, "radius"), "radius"),)
    if len(centre) not in ((dimension,) if is_box else (0, dimension)):
        raise FileFormatError(f"{dimension} variables, and a centre of {len(centre)} coordinates")
    if is_box and (len(lengths) != dimension or not lengths):
        raise FileFormatError(f"a box has {dimension} half-widths, not {len(lengths)}")
    if min(lengths) <= 0:
        raise FileFormatError(f"a domain has the length {min(lengths)}, which is not positive")
    return Box(centre, lengths) if is_box else Ball(lengths[0], centre)


def _digest(tensors: Mapping[str, NDArray[Any]], name: str) -> str:
    content = hashlib.sha256()
    for part in (tensors[f"{name}.place"], tensors[f"{name}.value"]):
        content.update(f"{part.dtype}{part.shape}".encode())
        content.update(np.ascontiguousarray(part).tobytes())
    return content.hexdigest()


def _seal(description: str, digests: Mapping[str, str]) -> str:
    text = FORMAT + description + json.dumps(dict(digests), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
