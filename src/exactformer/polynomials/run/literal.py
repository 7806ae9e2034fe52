"""A blueprint as a ``torch.nn.Module`` that carries out every one of its matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor, nn

from exactformer.core.formats import FloatFormat, float_format
from exactformer.core.layers import Block
from exactformer.core.precision import full_precision
from exactformer.core.run_literal import (
    LiteralAttention,
    LiteralFeedForward,
    Maker,
    Record,
    prefixed,
)
from exactformer.core.weights import dense
from exactformer.errors import RoundingError
from exactformer.polynomials.blueprint import Blueprint
from exactformer.polynomials.run.halving import halving_sum


class PointTransformer(nn.Module):
    """Points ``(N, d)`` to tokens, and the stream after all blocks to values.

    Values are ``(N,)``, or ``(N, m)`` for a vector. The theorem's free parameters (F, β, b) are
    parameters, frozen until ``requires_grad_()``.
    """

    constant: Tensor

    def __init__(
        self, blueprint: Blueprint, tensors: Mapping[str, Tensor], blocks: Iterable[nn.Module]
    ) -> None:
        super().__init__()

        def parameter(name: str) -> nn.Parameter:
            return nn.Parameter(tensors[name], requires_grad=False)

        self.features = parameter("features")
        self.register_buffer("constant", tensors["constant"])
        self.feature = blueprint.embedding.dimension
        self.vector = blueprint.vector
        self.blocks = nn.ModuleList(blocks)
        self.readouts = nn.ModuleList(
            LiteralReadout(parameter(f"readouts.{k}.beta"), parameter(f"readouts.{k}.bias"))
            for k in range(len(blueprint.readouts))
        )

    def embedded(self, x: Tensor) -> Tensor:
        """Return the tokens of points."""
        t = (x @ self.features.T).unsqueeze(-1)
        after = self.constant.shape[1] - 1 - self.feature
        return self.constant + nn.functional.pad(t, (self.feature, after))

    def read(self, stream: Tensor) -> Tensor:
        """Return the values of a stream."""
        outputs = [readout(stream) for readout in self.readouts]
        return torch.stack(outputs, dim=-1) if self.vector else outputs[0]


class LiteralTransformer(PointTransformer):
    """Points to values through all scores, selections and sums of the blueprint.

    The encoder blocks are buffers. Weights are the blueprint's, rounded once to the module's format.
    """

    def __init__(self, blueprint: Blueprint, dtype: torch.dtype = torch.float64) -> None:
        weights = rounded_weights(blueprint, dtype)
        tensors = {path.removeprefix("embedding."): tensor for path, tensor in weights.items()}
        blocks = [
            LiteralBlock(block, lambda _, name, b=b: tensors[f"blocks.{b}.{name}"])  # type: ignore[misc]
            for b, block in enumerate(blueprint.blocks)
        ]
        super().__init__(blueprint, tensors, blocks)

    def forward(self, x: Tensor, record: Record | None = None) -> Tensor:
        """Run; ``record(name, tensor)`` is shown every intermediate."""
        with full_precision(x.device):
            stream = self.embedded(x)
            if record:
                record("tokens", stream)
            for b, block in enumerate(self.blocks, start=1):
                stream = block(stream, record and prefixed(record, f"block {b} "))
            output = self.read(stream)
            if record:
                record("output", output)
            return output


class LiteralBlock(nn.Module):
    """Attention with residual, then feed-forward with residual."""

    def __init__(self, block: Block, tensor: Maker) -> None:
        super().__init__()
        self.attention = LiteralAttention(block.attention, tensor)
        self.feed_forward = LiteralFeedForward(
            block.feed_forward, lambda m, name: tensor(m, f"feed_forward.{name}")
        )

    def forward(self, stream: Tensor, record: Record | None = None) -> Tensor:
        """Return the stream after this block."""
        output: Tensor = self.feed_forward(self.attention(stream, record), record)
        return output


class LiteralReadout(nn.Module):
    """⟨β, Z⟩ + b."""

    def __init__(self, beta: nn.Parameter, bias: nn.Parameter) -> None:
        super().__init__()
        self.beta, self.bias = beta, bias

    def forward(self, stream: Tensor) -> Tensor:
        """Sum by a fixed tree: log₂ roundings instead of n·w, in an order the certificate knows."""
        return halving_sum(halving_sum(stream * self.beta)) + self.bias.reshape(())


def rounded_weights(blueprint: Blueprint, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return every matrix of the blueprint, dense, each entry rounded once to ``dtype``."""
    known: dict[Fraction, float] = {}
    try:
        return {
            path: dense(matrix, dtype, partial(blueprint.place, path), known)
            for path, matrix in blueprint.matrices()
        }
    except RoundingError as error:
        way_out = _way_out(float_format(dtype), blueprint)
        raise RoundingError(f"{error}; {way_out}") from None


def dense_bytes(blueprint: Blueprint, dtype: torch.dtype) -> int:
    """Return what the module's weights will occupy."""
    return sum(m.rows * m.columns for _, m in blueprint.matrices()) * dtype.itemsize


def _way_out(target: FloatFormat, blueprint: Blueprint) -> str:
    if blueprint.construction == "paper":
        return "use construction='scaled', whose blocks do not grow with the radius"
    if target.name != "float64":
        return "use dtype=torch.float64, or a smaller radius"
    return "use a smaller radius: the polynomial itself leaves float64's range on this ball"
