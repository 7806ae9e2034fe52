"""Transformers with something simpler in place of attention, at equal numbers of parameters.

Every block is x + mix(norm x), then x + feed_forward(norm x); only ``mix`` differs, and may differ
from layer to layer. What a simpler layer saves in parameters its feed-forward network gets:
:func:`matched_hidden` chooses the hidden size that brings a block closest to attention's count, so
that layers, and with them any mix of kinds, are of one size.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from exactformer.errors import InputError
from exactformer.experiments.models.mixing.mixers import mixer
from exactformer.learning.laws.trained.network import count_parameters


class Block(nn.Module):
    """A pre-norm transformer block round any mixing layer."""

    def __init__(self, mix: nn.Module, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.mix = mix
        self.before_mix, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (batch, n, w) to itself; ``mask`` (batch, n) is true at tokens that are there."""
        x = x + self.dropout(self.mix(self.before_mix(x), mask))
        result: Tensor = x + self.dropout(self.feed_forward(self.before_feed_forward(x)))
        return result


class MixingEncoder(nn.Module):
    """A stack of blocks, one for each of ``kinds`` from below, all with attention's parameters.

    ``kinds`` are "attention", "bilinear" or "convolution". ``hidden`` is the feed-forward size of a
    block with attention; the others' follow from it.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        width: int,
        heads: int,
        tokens: int,
        hidden: int,
        kernel: int = 3,
        shape: tuple[int, ...] = (),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = {
            kind: matched_hidden(kind, width, heads, tokens, hidden, kernel, shape)
            for kind in set(kinds)
        }
        self.blocks = nn.ModuleList(
            Block(mixer(kind, width, heads, tokens, kernel, shape), width, sizes[kind], dropout)
            for kind in kinds
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (batch, n, w) to itself; ``mask`` (batch, n) is true at tokens that are there."""
        for block in self.blocks:
            x = block(x, mask)
        result: Tensor = self.norm(x)
        return result


def matched_hidden(
    kind: str,
    width: int,
    heads: int,
    tokens: int,
    hidden: int,
    kernel: int = 3,
    shape: tuple[int, ...] = (),
) -> int:
    """Return the feed-forward size at which a block of ``kind`` is as large as one of attention."""
    counts = {
        name: count_parameters(mixer(name, width, heads, tokens, kernel, shape))
        for name in ("attention", kind)
    }
    unit = 2 * width + 1  # a hidden unit has w weights in, w out, and a bias
    matched = hidden + round((counts["attention"] - counts[kind]) / unit)
    if matched < 1:
        raise InputError(
            f"a {kind} layer over {tokens} tokens has {counts[kind]:,} parameters, more than a whole "
            f"block of attention of width {width} and hidden size {hidden}; raise either."
        )
    return matched
