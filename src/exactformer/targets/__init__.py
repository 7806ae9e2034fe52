"""What there is to approximate: sequence maps by name."""

from exactformer.targets.sequence_maps import (
    SEQUENCE_MAPS,
    NamedMap,
    sequence_map,
    softmax_attention,
)

__all__ = [
    "SEQUENCE_MAPS",
    "NamedMap",
    "sequence_map",
    "softmax_attention",
]
