"""What sets the error: decompositions of couplings, complexity measures, bounds, recurrent networks."""

from exactformer.theory.complexity import Complexity, complexity
from exactformer.theory.decay import Decay, fit_decay
from exactformer.theory.decomposition import Decomposition
from exactformer.theory.floors import Floor, causal_floor, constant_error
from exactformer.theory.pod import pod
from exactformer.theory.rates import PrintedForm, RateBound, bound
from exactformer.theory.recurrent import (
    ExponentialKernel,
    PowerKernel,
    RecurrentComplexity,
    mixing_constant,
    rnn_complexity,
    why_no_kernel,
)
from exactformer.theory.sampling import Box
from exactformer.theory.sequence_limits import SequenceLimits, sequence_limits

__all__ = [
    "Box",
    "Complexity",
    "Decay",
    "Decomposition",
    "ExponentialKernel",
    "Floor",
    "PowerKernel",
    "PrintedForm",
    "RateBound",
    "RecurrentComplexity",
    "SequenceLimits",
    "bound",
    "causal_floor",
    "complexity",
    "constant_error",
    "fit_decay",
    "mixing_constant",
    "pod",
    "rnn_complexity",
    "sequence_limits",
    "why_no_kernel",
]
