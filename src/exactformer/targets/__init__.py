"""What there is to approximate: sequence maps by name."""

from exactformer.targets.sequence_errors import SequenceError, measure_sequence
from exactformer.targets.sequence_maps import (
    SEQUENCE_MAPS,
    NamedMap,
    sequence_map,
    softmax_attention,
)

__all__ = [
    "SEQUENCE_MAPS",
    "NamedMap",
    "SequenceError",
    "measure_sequence",
    "sequence_map",
    "softmax_attention",
]
