"""The forms of a sequence map, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from exactformer.blueprint.sequence import SequenceBlueprint
from exactformer.blueprint.sequence_table import GridTable
from exactformer.constructions.sequence_four_layer import four_layers
from exactformer.constructions.sequences import sequence_layers

SEQUENCE_FORMS: dict[str, Callable[[GridTable], SequenceBlueprint]] = {
    "compact": partial(sequence_layers, form="compact"),
    "paper": partial(sequence_layers, form="paper"),
    "four-layer": four_layers,
}
