"""Sequence modules in float64, compared with their tables: what a proof in rationals does not cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from exactformer.algebra.rational import to_float
from exactformer.core.formats import FORMATS
from exactformer.core.layers import FeedForward, Layer
from exactformer.core.precision import plain_torch
from exactformer.core.words import at_most
from exactformer.errors import CertificationError, SizeError
from exactformer.sequences.model import SequenceModel
from exactformer.sequences.proof.cells import cell_edges, quantised, visits
from exactformer.sequences.proof.integers import Integers
from exactformer.sequences.proof.layer_rounding import literal_rounding_of
from exactformer.sequences.proof.lookups import cell_unit, every_class, quantised_streams
from exactformer.sequences.run.literal import LiteralSequence

SMALLEST = Fraction(1, 2**300)
MOST_RUNS = 2**27
"""Layers times classes that are run to compare a module with its table."""


def check_floats(model: SequenceModel) -> None:
    """Raise unless a model gives every class its values in float64, those without any 0.

    Sweeps round each value once. Where layers are not known to be exact beyond the quantiser, what
    their roundings add up to is bounded (:mod:`exactformer.sequences.proof.layer_rounding`), and every
    class is run and held to the bound.
    """
    _check_edges(model)
    if model.sweeps is None:
        return
    grid = model.table.grid
    classes = every_class(grid)
    _compare(model, classes, model.sweeps, 0.0)
    if model.executor != "literal" or model.certificate.softness is not None:
        return
    _check_quantiser(model)
    if model.certificate.plain_floats:
        return
    work = len(classes) * sum(len(stage) for stage in model.blueprint.stages)
    if work > MOST_RUNS:
        raise SizeError(
            f"executor='literal' is not shown to be right in float64 without running {len(classes):,} "
            f"classes through all layers, {work:,} in all; the limit is {MOST_RUNS:,}. Use "
            "executor='fused', or delta = 1/2^m in another form"
        )
    tolerance = literal_rounding_of(model.blueprint, model.table)
    _compare(model, classes, model, tolerance)


def _check_edges(model: SequenceModel) -> None:
    """Raise where an edge of a cell may be read as zero, and is not zero."""
    tiny = FORMATS["float64"].tiny
    if any(edge and abs(to_float(edge)) < tiny for edge in cell_edges(model.table.grid)):
        raise CertificationError(
            "an edge of a cell is below the normal numbers of float64, 2^-1022, but not 0: some "
            "processors take it for zero. Use another support"
        )


@plain_torch()
def _compare(
    model: SequenceModel, classes: Integers, run: Callable[[Tensor], Tensor], tolerance: float
) -> None:
    """Compare values at the centres of all cells with the table."""
    grid, table = model.table.grid, model.table.values
    points = torch.tensor(
        [[to_float(v) for v in grid.centre(k)] for k in range(grid.points)], dtype=torch.float64
    )
    nothing = ((Fraction(0),) * grid.dim,) * grid.tokens
    named = [tuple(ids) for ids in classes.tolist()]
    wanted = [[[to_float(v) for v in c] for c in table.get(ids, nothing)] for ids in named]
    found = run(points[torch.from_numpy(classes)])
    off = (found - torch.tensor(wanted, dtype=torch.float64)).abs()
    wrong = (~(off <= tolerance)).any(-1).any(-1).nonzero()
    if len(wrong):
        first = int(wrong[0])
        cause = (
            f"all roundings of its layers add up to {at_most(tolerance)}. Use executor='fused'"
            if tolerance
            else "the support is too narrow, or too far from 0, for its cells, or numbers are too large"
        )
        raise CertificationError(
            f"in float64 the class {named[first]} does not come out as it should, but "
            f"{float(off[first].max()):.3g} off: {cause}"
        )


@plain_torch()
def _check_quantiser(model: SequenceModel) -> None:
    """Raise unless the quantiser's layers round once, at the centre of every cell."""
    grid, blueprint = model.table.grid, model.blueprint
    unit = cell_unit(blueprint)
    columns = np.repeat(np.arange(grid.points)[:, None], grid.tokens, axis=1)
    after = quantised(blueprint, unit)
    wanted = quantised_streams(grid, after, columns).entries.tolist()
    streams: dict[str, Tensor] = {}
    literal = LiteralSequence(blueprint)
    centres = [[[to_float(v) for v in grid.centre(k)] for k in ids] for ids in columns.tolist()]
    literal(torch.tensor(centres, dtype=torch.float64), streams.__setitem__)
    _check_sizes(model)
    first = blueprint.stages[0]
    found = streams[f"{first.name} {len(first)}"].tolist()
    used = [row for row in range(blueprint.width) if row not in after.free]
    for here, there in zip(found, wanted, strict=True):
        for column, exact in zip(here, there, strict=True):
            if any(column[row] != to_float(exact[row] * unit) for row in used):
                raise CertificationError(
                    "in float64 the layers of the quantiser do not take the centre of every cell to "
                    "its number: the support is too narrow, or too far from 0; use executor='fused'"
                )


def _check_sizes(model: SequenceModel) -> None:
    """Raise unless no number that decides in the quantiser can underflow, at the centre of any cell.

    With weights w and what units read, t, at SMALLEST or more, products w·t are far above 2^(−1022).
    What a coordinate that underflows adds to a larger bias is lost in any case.
    """
    blueprint = model.blueprint
    numbers = [v for part in blueprint.stages[0].parts for v in _numbers(part)]
    numbers += (v for matrix in vars(blueprint.embedding).values() for _, _, v in matrix)
    numbers += (v for k in range(model.table.grid.points) for v in model.table.grid.centre(k))
    for visit in visits(blueprint):
        a, b = visit.line
        numbers.append(a * (visit.low + visit.high) / 2 + b)
    if any(0 < abs(v) < SMALLEST for v in numbers):
        raise CertificationError(
            "executor='literal': numbers of the quantiser below 2^-300 may underflow in float64; use "
            "executor='fused' or 'exact', or another support"
        )


def _numbers(part: Layer) -> Iterator[Fraction]:
    if isinstance(part, FeedForward):
        yield from (v for matrix in (part.w1, part.b1, part.w2, part.b2) for _, _, v in matrix)
        yield from part.activation.breaks
        yield from (v for piece in part.activation.pieces for v in piece)
