"""What sets the error: decompositions of couplings, complexity measures, bounds, recurrent networks."""

from exactformer.theory.decomposition import Decomposition
from exactformer.theory.floors import Floor, causal_floor
from exactformer.theory.pod import pod

__all__ = [
    "Decomposition",
    "Floor",
    "causal_floor",
    "pod",
]
