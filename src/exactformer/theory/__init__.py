"""What sets the error: decompositions of couplings, complexity measures, bounds, recurrent networks."""

from exactformer.theory.decomposition import Decomposition
from exactformer.theory.pod import pod

__all__ = [
    "Decomposition",
    "pod",
]
