"""Structure of a sequence blueprint: every matrix fits its neighbours, every stage has layers.

Nothing here is about what the layers compute. A blueprint that passes can be followed, run and proven
about without an index out of range, and its dense tables have the sizes that its shapes state.
"""

from __future__ import annotations

from collections.abc import Iterator

from exactformer.core.layers import (
    Attention,
    BiasedHead,
    FeedForward,
    Layer,
    PiecewiseLinear,
)
from exactformer.core.matrix import Matrix
from exactformer.errors import CertificationError
from exactformer.sequences.blueprint import SequenceBlueprint

Expected = tuple[str, Matrix, tuple[int, int]]


def check_sequence_shapes(blueprint: SequenceBlueprint) -> None:
    """Raise unless sizes are positive and every matrix has the shape that they give it."""
    for name in ("tokens", "dim", "cells", "width"):
        if getattr(blueprint, name) < 1:
            raise CertificationError(f"{name} is {getattr(blueprint, name)}; it must be positive")
    if blueprint.delta.numerator != 1:
        raise CertificationError(f"delta is {blueprint.delta}, not 1/N")
    low, high = blueprint.support
    if not low < high:
        raise CertificationError(f"the support [{low}, {high}) is empty")
    if blueprint.largest_key < 0:
        raise CertificationError(f"the largest key is {blueprint.largest_key}, which is negative")
    _check_stages(blueprint)
    for name, matrix, shape in _expected(blueprint):
        if matrix.shape != shape:
            raise CertificationError(
                f"{name} is {matrix.rows:,}×{matrix.columns:,}, but {blueprint.tokens:,} tokens of "
                f"{blueprint.dim:,} numbers in {blueprint.width:,} rows need {shape[0]:,}×{shape[1]:,}"
            )
    if not blueprint.code.nonzeros:
        raise CertificationError("the code reads nothing: it has no entry")
    if blueprint.embedding.positions.nonzeros and not blueprint.positional:
        raise CertificationError("the embedding has positions, and the blueprint is not positional")


def _check_stages(blueprint: SequenceBlueprint) -> None:
    names = [stage.name for stage in blueprint.stages]
    if not names or len(set(names)) < len(names):
        raise CertificationError(f"the stages are {names}; they need names of their own")
    for stage in blueprint.stages:
        if not stage.parts:
            raise CertificationError(f"the stage {stage.name!r} has no layer")
        for k, part in enumerate(stage.parts, start=1):
            _check_part(f"{stage.name}, part {k}", part)


def _check_part(place: str, part: Layer) -> None:
    if isinstance(part, Attention):
        if not part.heads or any(head.query.rows < 1 for head in part.heads):
            raise CertificationError(f"{place}: attention needs a head, and every head a row")
        if part.selection.temperature <= 0:
            raise CertificationError(f"{place}: the temperature is {part.selection.temperature}")
        return
    units, together = part.w1.rows, 1 if part.successive is None else part.successive
    if units < 1 or together < 1 or units % together:
        raise CertificationError(
            f"{place}: {units:,} units do not make layers of {together:,} each"
        )
    if not isinstance(part.activation, PiecewiseLinear):
        raise CertificationError(f"{place}: the activation is not a piecewise-linear function")


def _expected(blueprint: SequenceBlueprint) -> Iterator[Expected]:
    n, d, w = blueprint.tokens, blueprint.dim, blueprint.width
    embedding = blueprint.embedding
    yield "embedding.features", embedding.features, (w, d)
    yield "embedding.constant", embedding.constant, (w, 1)
    yield "embedding.positions", embedding.positions, (w, n)
    yield "readout", blueprint.readout, (d, w)
    yield "code", blueprint.code, (1, w)
    for stage in blueprint.stages:
        for k, part in enumerate(stage.parts, start=1):
            place = f"{stage.name}, part {k}"
            if isinstance(part, Attention):
                yield from _heads(place, part, w)
            else:
                yield from _units(place, part, w)


def _heads(place: str, layer: Attention, width: int) -> Iterator[Expected]:
    for h, head in enumerate(layer.heads, start=1):
        rows = head.query.rows
        yield f"{place}, head {h}, query", head.query, (rows, width)
        yield f"{place}, head {h}, key", head.key, (rows, width)
        yield f"{place}, head {h}, value", head.value, (width, width)
        if isinstance(head, BiasedHead):
            yield f"{place}, head {h}, bias", head.bias, (rows, 1)


def _units(place: str, layer: FeedForward, width: int) -> Iterator[Expected]:
    units = layer.w1.rows
    yield f"{place}, w1", layer.w1, (units, width)
    yield f"{place}, b1", layer.b1, (units, 1)
    yield f"{place}, w2", layer.w2, (width, units)
    yield f"{place}, b2", layer.b2, (width, 1)
