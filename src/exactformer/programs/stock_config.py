"""The shape of a program's stock model, as Hugging Face keeps shapes: in ``config.json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PretrainedConfig


class ProgramConfig(PretrainedConfig):  # type: ignore[misc]
    """Sizes of a stack, its vocabulary, and as labels the values that it can return."""

    model_type = "exactformer-program"

    def __init__(
        self,
        vocabulary: Sequence[str] = ("",),
        longest: int = 1,
        width: int = 1,
        rows: int = 1,
        layers: Sequence[Sequence[int]] = (),
        selection: str = "softmax",
        causal: bool = False,
        beginning: bool = True,
        **rest: Any,
    ) -> None:
        """Take the sizes of every layer as heads, head rows, value rows and hidden units."""
        self.vocabulary, self.longest = list(vocabulary), longest
        self.width, self.rows, self.layers = width, rows, [list(sizes) for sizes in layers]
        self.selection, self.causal, self.beginning = selection, causal, beginning
        super().__init__(**rest)
