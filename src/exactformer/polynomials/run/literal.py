"""A blueprint as a ``torch.nn.Module`` that carries out every one of its matrices."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor, nn

from exactformer.core.attention import select
from exactformer.core.formats import FloatFormat, float_format
from exactformer.core.layers import RELU, Block, Selection
from exactformer.core.precision import full_precision
from exactformer.core.weights import dense
from exactformer.errors import RoundingError
from exactformer.polynomials.blueprint import Blueprint

Record = Callable[[str, Tensor], None]


class LiteralTransformer(nn.Module):
    """Points ``(N, d)`` to values through all scores, selections and sums of the blueprint.

    Values are ``(N,)``, or ``(N, m)`` for a vector.

    The theorem's free parameters (F, β, b) are parameters, frozen until ``requires_grad_()``; the
    encoder blocks are buffers. Weights are the blueprint's, rounded once to the module's format.
    """

    def __init__(self, blueprint: Blueprint, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        tensors = rounded_weights(blueprint, dtype)

        def parameter(path: str) -> nn.Parameter:
            return nn.Parameter(tensors[path], requires_grad=False)

        self.features = parameter("embedding.features")
        self.register_buffer("constant", tensors["embedding.constant"])
        self.feature = blueprint.embedding.dimension
        self.vector = blueprint.vector
        self.blocks = nn.ModuleList(
            LiteralBlock(block, f"blocks.{b}", tensors) for b, block in enumerate(blueprint.blocks)
        )
        self.readouts = nn.ModuleList(
            LiteralReadout(parameter(f"readouts.{k}.beta"), parameter(f"readouts.{k}.bias"))
            for k in range(len(blueprint.readouts))
        )

    constant: Tensor

    def forward(self, x: Tensor, record: Record | None = None) -> Tensor:
        """Run; ``record(name, tensor)`` is shown every intermediate."""
        with full_precision(x.device):
            return self._run(x, record or _ignore)

    def _run(self, x: Tensor, keep: Record) -> Tensor:
        t = (x @ self.features.T).unsqueeze(-1)
        after = self.constant.shape[1] - 1 - self.feature
        stream = self.constant + nn.functional.pad(t, (self.feature, after))
        keep("tokens", stream)
        for b, block in enumerate(self.blocks, start=1):
            stream = block(stream, lambda name, tensor, b=b: keep(f"block {b} {name}", tensor))
        outputs = [readout(stream) for readout in self.readouts]
        output = torch.stack(outputs, dim=-1) if self.vector else outputs[0]
        keep("output", output)
        return output


class LiteralReadout(nn.Module):
    """⟨β, Z⟩ + b."""

    def __init__(self, beta: nn.Parameter, bias: nn.Parameter) -> None:
        super().__init__()
        self.beta, self.bias = beta, bias

    def forward(self, stream: Tensor) -> Tensor:
        """Sum by a fixed tree: log₂ roundings instead of n·w, in an order the certificate knows."""
        return tree_sum(tree_sum(stream * self.beta)) + self.bias.reshape(())


class LiteralBlock(nn.Module):
    """Attention with residual, then feed-forward with residual."""

    w1: Tensor
    b1: Tensor
    w2: Tensor
    b2: Tensor

    def __init__(self, block: Block, path: str, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.selection = block.attention.selection
        self.activation = block.feed_forward.activation
        self.heads = nn.ModuleList(
            LiteralHead(f"{path}.heads.{h}", tensors) for h in range(len(block.attention.heads))
        )
        for name in ("w1", "b1", "w2", "b2"):
            self.register_buffer(name, tensors[f"{path}.feed_forward.{name}"])

    def forward(self, stream: Tensor, keep: Record) -> Tensor:
        """Return the stream after this block."""
        attended = stream
        for h, head in enumerate(self.heads, start=1):
            prefix = f"head {h} " if len(self.heads) > 1 else ""
            attended = attended + head(
                stream, self.selection, lambda name, tensor, p=prefix: keep(p + name, tensor)
            )
        keep("after attention", attended)
        hidden = attended @ self.w1.T + self.b1.T
        if self.activation == RELU:
            hidden = hidden.relu()
        output = attended + hidden @ self.w2.T + self.b2.T
        keep("output", output)
        return output


class LiteralHead(nn.Module):
    """One attention head; the value matrix includes the output projection."""

    query: Tensor
    key: Tensor
    value: Tensor

    def __init__(self, path: str, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        for name in ("query", "key", "value"):
            self.register_buffer(name, tensors[f"{path}.{name}"])

    def forward(self, stream: Tensor, selection: Selection, keep: Record) -> Tensor:
        """Return what this head adds to the stream."""
        scores = (stream @ self.query.T) @ (stream @ self.key.T).transpose(-1, -2)
        keep("scores", scores)
        weights = select(scores, selection)
        keep("selection", weights)
        return weights @ (stream @ self.value.T)


def tree_sum(terms: Tensor) -> Tensor:
    """Sum the last axis by halving: ⌈log₂ m⌉ roundings for m terms, in a fixed order."""
    while (size := terms.shape[-1]) > 1:
        even = size - size % 2
        pairs = terms[..., 0:even:2] + terms[..., 1:even:2]
        terms = pairs if even == size else torch.cat([pairs, terms[..., even:]], dim=-1)
    return terms.squeeze(-1)


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


def _ignore(name: str, tensor: Tensor) -> None:
    pass
