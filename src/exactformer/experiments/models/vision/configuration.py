"""The sizes of a vision transformer, and the order of its patches."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from exactformer.errors import InputError


@dataclass(frozen=True)
class VisionConfiguration:
    """A transformer over square patches of square images.

    ``head_dim`` is the size m_h of queries and keys alone: what a head can distinguish. Values keep
    ``value_dim``, so that models of different m_h carry equally much. ``hidden`` = 0 leaves the
    feed-forward parts out.

    The patch at place t is the ``(t + moved)``-th of the image, counted round: the first ``moved``
    come last. Places keep their learnt vectors, which are added afterwards.
    """

    head_dim: int = 64
    seed: int = 0
    side: int = 32
    patch: int = 4
    classes: int = 10
    width: int = 256
    layers: int = 6
    heads: int = 4
    value_dim: int = 64
    hidden: int = 512
    moved: int = 0

    def __post_init__(self) -> None:
        """Refuse sizes that make no model."""
        for name in ("head_dim", "patch", "classes", "width", "layers", "heads", "value_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.hidden < 0:
            raise InputError(f"hidden is {self.hidden}; it must be at least 0.")
        if self.side < self.patch or self.side % self.patch:
            raise InputError(
                f"images of side {self.side} do not fall into patches of {self.patch}."
            )
        if not 0 <= self.moved < self.tokens:
            raise InputError(f"moved is {self.moved}; there are {self.tokens} patches to move.")

    @property
    def tokens(self) -> int:
        """How many patches an image has."""
        return (self.side // self.patch) ** 2

    @property
    def pixels(self) -> int:
        """How many numbers a patch has: three colours of each pixel."""
        return 3 * self.patch**2

    @property
    def scale(self) -> float:
        """What scores are multiplied by, 1/√m_h."""
        return 1 / sqrt(self.head_dim)

    @property
    def order(self) -> list[int]:
        """Which patch comes to each place."""
        return [(place + self.moved) % self.tokens for place in range(self.tokens)]

    @property
    def parameters(self) -> int:
        """How many numbers the model learns."""
        attention = 2 * self.width * self.heads * (self.head_dim + self.value_dim)
        block = attention + 2 * self.width * self.hidden
        ends = (self.pixels + self.tokens) * self.width + (self.width + 1) * self.classes
        return self.layers * block + ends
