"""A sequence blueprint as a ``torch.nn.Module`` that carries out every layer, one after another."""

from __future__ import annotations

from fractions import Fraction
from math import isinf

import torch
from torch import Tensor, nn

from exactformer.algebra.rational import to_float
from exactformer.core.layers import FeedForward, PiecewiseLinear
from exactformer.core.matrix import Matrix
from exactformer.core.precision import full_precision
from exactformer.core.run_literal import Record, literal_layer
from exactformer.core.weights import dense
from exactformer.errors import RoundingError
from exactformer.sequences.blueprint import SequenceBlueprint


class LiteralSequence(nn.Module):
    """Sequences ``(batch, n, d)`` to ``(batch, n, d)`` through all layers of the theorem."""

    features: Tensor
    constant: Tensor
    positions: Tensor
    readout: Tensor
    code: Tensor

    def __init__(self, blueprint: SequenceBlueprint, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        known: dict[Fraction, float] = {}

        def tensor(matrix: Matrix, place: str) -> Tensor:
            return dense(matrix, dtype, lambda i, j: f"{place}, row {i + 1}, column {j + 1}", known)

        embedding = blueprint.embedding
        for name in ("features", "constant", "positions"):
            self.register_buffer(name, tensor(getattr(embedding, name), f"embedding {name}"))
        self.register_buffer("readout", tensor(blueprint.readout, "readout"))
        self.register_buffer("code", tensor(blueprint.code, "code"))
        for stage in blueprint.stages:
            for part in stage.parts:
                if isinstance(part, FeedForward):
                    _check_range(part.activation, stage.name)
        self.names = tuple(stage.name for stage in blueprint.stages for _ in stage.parts)
        self.parts = nn.ModuleList(
            literal_layer(part, lambda m, name, s=stage.name: tensor(m, f"{s}, {name}"))  # type: ignore[misc]
            for stage in blueprint.stages
            for part in stage.parts
        )

    def forward(self, x: Tensor, record: Record | None = None) -> Tensor:
        """Run; ``record(name, stream)`` is shown the stream after every layer, ``(batch, n, w)``."""
        with full_precision(x.device):
            stream = x @ self.features.T + self.constant.T + self.positions.T
            if record:
                record("embedding", stream)
            number = dict.fromkeys(self.names, 0)
            for stage, part in zip(self.names, self.parts, strict=True):
                stream = part(stream, record and _counted(record, stage, number))
            return stream @ self.readout.T


def _check_range(function: PiecewiseLinear, stage: str) -> None:
    """Raise where a number of an activation is beyond float64; those of matrices are checked too."""
    numbers = (*function.breaks, *(v for piece in function.pieces for v in piece))
    if any(isinf(to_float(v)) for v in numbers):
        raise RoundingError(
            f"{stage}: a number of a piecewise-linear function is beyond float64, whose largest number "
            "is below 2^1024"
        )


def _counted(record: Record, stage: str, number: dict[str, int]) -> Record:
    """Return a record of streams only, numbered within their stage."""

    def keep(name: str, tensor: Tensor) -> None:
        if name in ("after attention", "output"):
            number[stage] += 1
            record(f"{stage} {number[stage]}", tensor)

    return keep
