"""What sets the error: decompositions of couplings, complexity measures, bounds, recurrent networks."""

from exactformer.theory.complexity import Complexity, complexity
from exactformer.theory.decay import Decay, fit_decay
from exactformer.theory.decomposition import Decomposition
from exactformer.theory.floors import Floor, causal_floor, constant_error
from exactformer.theory.hankel import (
    Realisation,
    ResponseError,
    balanced_truncation,
    hankel_bounds,
    hankel_singular_values,
    response_error,
    shift_register,
)
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
    "Realisation",
    "RecurrentComplexity",
    "ResponseError",
    "SequenceLimits",
    "balanced_truncation",
    "bound",
    "causal_floor",
    "complexity",
    "constant_error",
    "fit_decay",
    "hankel_bounds",
    "hankel_singular_values",
    "mixing_constant",
    "pod",
    "response_error",
    "rnn_complexity",
    "sequence_limits",
    "shift_register",
    "why_no_kernel",
]
