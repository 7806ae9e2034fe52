"""The forms of a sequence map, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from exactformer.sequences.blueprint import SequenceBlueprint
from exactformer.sequences.constructions.four_layers import four_layers
from exactformer.sequences.constructions.shifts import sequence_layers
from exactformer.sequences.grid import GridTable

SEQUENCE_FORMS: dict[str, Callable[[GridTable], SequenceBlueprint]] = {
    "compact": partial(sequence_layers, form="compact"),
    "paper": partial(sequence_layers, form="paper"),
    "four-layer": four_layers,
}
