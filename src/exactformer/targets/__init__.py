"""What there is to approximate: sequence maps by name, couplings, tasks, linear kernels, time."""

from exactformer.couplings.target import Coupling, ProductKernel, sine_family
from exactformer.sequences.maps import SEQUENCE_MAPS, NamedMap, sequence_map, softmax_attention
from exactformer.targets.linear import LinearTarget, exponential_kernel, random_kernel
from exactformer.targets.tasks import AttentionTask, attend, soft_attention, soft_error_bound
from exactformer.targets.tasks_gravity import CentreOfGravity
from exactformer.targets.tasks_nearest import NearestPoint
from exactformer.targets.tasks_selection import EQUATION_66, AverageBySelection
from exactformer.targets.temporal import (
    Rewired,
    mix,
    mixing_matrix,
    random_filter,
    reorder,
    swap_ends,
)
from exactformer.targets.temporal_effect import Effect, effect_of
from exactformer.targets.temporal_pieces import relabel

__all__ = [
    "EQUATION_66",
    "SEQUENCE_MAPS",
    "AttentionTask",
    "AverageBySelection",
    "CentreOfGravity",
    "Coupling",
    "Effect",
    "LinearTarget",
    "NamedMap",
    "NearestPoint",
    "ProductKernel",
    "Rewired",
    "attend",
    "effect_of",
    "exponential_kernel",
    "mix",
    "mixing_matrix",
    "random_filter",
    "random_kernel",
    "relabel",
    "reorder",
    "sequence_map",
    "sine_family",
    "soft_attention",
    "soft_error_bound",
    "softmax_attention",
    "swap_ends",
]
