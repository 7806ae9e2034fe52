"""What there is to approximate: sequence maps by name, couplings, linear kernels, and their order in time."""

from exactformer.targets.coupling import Coupling, ProductKernel, sine_family
from exactformer.targets.linear import LinearTarget, exponential_kernel, random_kernel
from exactformer.targets.sequence_maps import (
    SEQUENCE_MAPS,
    NamedMap,
    sequence_map,
    softmax_attention,
)
from exactformer.targets.temporal import (
    Rewired,
    mix,
    mixing_matrix,
    random_filter,
    reorder,
    swap_ends,
)

__all__ = [
    "SEQUENCE_MAPS",
    "Coupling",
    "LinearTarget",
    "NamedMap",
    "ProductKernel",
    "Rewired",
    "exponential_kernel",
    "mix",
    "mixing_matrix",
    "random_filter",
    "random_kernel",
    "reorder",
    "sequence_map",
    "sine_family",
    "softmax_attention",
    "swap_ends",
]
