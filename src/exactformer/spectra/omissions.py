"""Omissions: what a model computes that looks like attention and was not read.

A *map* is a set of weights: the result of a softmax, of exponentials that are normalised, of a function
of a product q kᵀ. Gates of experts and probabilities of classes are maps as well. A map stops the
analysis if it could be attention, that is if

* it comes from a product of two things computed from the input, and weighs values or has three or more
  axes (batch, queries, keys);
* it is multiplied with a matrix, and has three or more axes or is as long as a sequence;
* it weighs things that are then summed, and is as long as a sequence.

Every other map, and every product of two things computed from the input, is listed in the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from exactformer.spectra.errors import ExtractionError

_MANY_AXES = 3


@dataclass(frozen=True)
class LeftOut:
    """Something that was seen in a model and is not part of the result."""

    module: str
    """Dotted name; ``""`` is the model itself."""
    kind: str
    """The class of the module."""
    what: str

    def __str__(self) -> str:
        where = f"module {self.module!r}" if self.module else "the model itself"
        return f"{where} ({self.kind}): {self.what}"


@dataclass(eq=False)
class Map:
    """Weights that a module computed, and what became of them."""

    module: str
    kind: str
    operation: str
    axes: int
    """Of the tensor that was normalised."""
    size: int
    """Entries that are normalised together."""
    from_product: bool
    """The scores are a product of two things computed from the input."""
    is_map: bool = True
    """Exponentials become a map when they are divided by their sum."""
    always_listed: bool = True
    """A function of a product, such as tanh, counts only where it weighs values."""
    multiplied: bool = False
    """Multiplied with a matrix."""
    summed: bool = False
    """Multiplied with values entry by entry, which were then summed."""
    replaced: bool = False
    """A later map was made of this one."""
    claimed: bool = False
    """An adapter answers for the module."""

    def could_be_attention(self, lengths: Iterable[int]) -> bool:
        """Whether a model with this map has attention that was not read."""
        many, long = self.axes >= _MANY_AXES, self.size in set(lengths)
        if self.from_product and (self.multiplied or self.summed):
            return True
        if not self.always_listed:
            return False
        if self.from_product and many:
            return True
        return (self.multiplied and (many or long)) or (self.summed and long)

    @property
    def counts(self) -> bool:
        """Whether there is anything to be said about it."""
        used = self.always_listed or self.multiplied or self.summed
        return self.is_map and used and not self.replaced

    def left_out(self, why: str = "") -> LeftOut:
        """Return it as a line of the result."""
        what = f"weights by {self.operation} over {self.size} entries"
        return LeftOut(self.module, self.kind, f"{what}, {why}" if why else what)


def refuse_attention(maps: Iterable[Map], lengths: Iterable[int]) -> None:
    """Raise for the first map that could be attention and that no adapter answers for."""
    for found in maps:
        if found.counts and not found.claimed and found.could_be_attention(lengths):
            where = f"module {found.module!r}" if found.module else "the model itself"
            raise ExtractionError(
                f"{where} ({found.kind}) computes attention of its own, by {found.operation} over "
                f"{found.size} entries, and nothing is known of the queries and keys behind it; "
                "register an adapter for it (exactformer.spectra.register). An adapter that returns "
                "None declares that it is not attention"
            )
