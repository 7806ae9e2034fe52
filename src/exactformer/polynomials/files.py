"""Polynomial blueprints in files: lossless, sealed, without pickle."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from exactformer.core.files import FileKind
from exactformer.core.header import check_names
from exactformer.errors import FileFormatError, InputError
from exactformer.polynomials.blueprint import Blueprint, table_names
from exactformer.polynomials.functions.report import Approximation

FILE = FileKind("polynomial", Blueprint)
STATED = "stated by the file"
"""The source of a measurement that was read: a file holds no function to measure again."""


def save_blueprint(blueprint: Blueprint, path: str | Path) -> None:
    """Write ``blueprint`` to ``path``; an existing file is replaced only once all is written."""
    FILE.save(_unread(blueprint), path)


def digest(blueprint: Blueprint) -> str:
    """Return a SHA-256 over every weight and name: equal for equal blueprints only."""
    return FILE.digest(_unread(blueprint))


def load_blueprint(path: str | Path, verify: bool = True) -> Blueprint:
    """Read a blueprint; anything that is not exactly what was saved raises FileFormatError.

    ``verify=False`` reads altered weights too, for those who will prove what they are.
    """
    return FILE.load(path, _checked, verify)


def _unread(blueprint: Blueprint) -> Blueprint:
    """Return a blueprint without the mark that it was read from a file."""
    return _with_source(blueprint, "") if "approximation" in blueprint.metadata else blueprint


def _with_source(blueprint: Blueprint, source: str) -> Blueprint:
    report = Approximation.of(blueprint.metadata)
    assert report is not None
    text = json.dumps(asdict(replace(report, source=source)))
    return replace(blueprint, metadata={**blueprint.metadata, "approximation": text})


def _checked(blueprint: Blueprint) -> Blueprint:
    check_names(blueprint.variables, "variables")
    check_names(blueprint.dimensions, "dimensions")
    if not blueprint.embedding.dimension < blueprint.width:
        raise FileFormatError(
            f"the features go to dimension {blueprint.embedding.dimension:,} of {blueprint.width:,}"
        )
    if blueprint.tokens < 1:
        raise FileFormatError("embedding.features has no row: a model has one token at least")
    outputs = len(blueprint.readouts)
    if outputs < 1 or (outputs > 1 and not blueprint.vector):
        raise FileFormatError(f"a model that is not a vector has {outputs:,} readouts")
    for block in blueprint.blocks:
        if (temperature := block.attention.selection.temperature) <= 0:
            raise FileFormatError(f"a selection has the temperature {temperature}")
    blueprint.domain.check_dimension(len(blueprint.variables))
    try:
        table_names(blueprint, "columns")
        table_names(blueprint, "outputs")
    except InputError as error:
        raise FileFormatError(f"the metadata's {error}") from None
    _check_metadata(blueprint.metadata, 2 * sum(1 for _ in blueprint.matrices()))
    if "approximation" in blueprint.metadata:  # from now on a statement of the file
        return _with_source(blueprint, STATED)
    return blueprint


def _check_metadata(metadata: Mapping[str, str], most: int) -> None:
    """Check the numbers in the metadata: a short text may spell an enormous one."""
    if not re.fullmatch(r"[0-9]{1,9}", heads := metadata.get("heads", "0")) or int(heads) > most:
        raise FileFormatError(f"the metadata has heads={heads[:40]!r}; the limit is {most:,}")
    if not re.fullmatch(r"[0-9]{1,18}(/[0-9]{1,18})?", span := metadata.get("span", "0")):
        raise FileFormatError(f"the metadata has span={span[:40]!r}, which is not a plain fraction")
