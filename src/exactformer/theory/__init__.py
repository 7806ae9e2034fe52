"""What sets the error: decompositions of couplings, complexity measures, bounds, recurrent networks."""

from exactformer.theory.decay import Decay, fit_decay
from exactformer.theory.decomposition import Decomposition
from exactformer.theory.pod import pod
from exactformer.theory.sampling import Box

__all__ = [
    "Box",
    "Decay",
    "Decomposition",
    "fit_decay",
    "pod",
]
