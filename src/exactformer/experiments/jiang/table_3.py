"""Table 3 of Jiang & Li: a random kernel of length 32, by an RNN and a transformer.

A filter of finite length is a shift register, so a linear RNN with 32 states has it without error. What
is published for the RNN, 5.58, is what a constant output leaves (y(t) is a sum of t + 1 terms, and its
mean grows with t): its training did not begin to learn.
"""

from exactformer.experiments import Scale, Summary
from exactformer.experiments.jiang.linear import (
    CONSTANT,
    CONSTRUCTED,
    INVARIANT,
    ORIGINAL,
    PLAIN_RNN,
    REGISTER,
    REORDERED,
    RNN,
    TRANSFORMER,
    VARYING,
    VERSIONS,
    label,
    linear_experiment,
)

PUBLISHED = {
    (PLAIN_RNN, ORIGINAL): (5.58, ""),
    (PLAIN_RNN, REORDERED): (5.24, ""),
    (TRANSFORMER, ORIGINAL): (5.43e-4, ""),
    (TRANSFORMER, REORDERED): (5.36e-4, ""),
}
_CONSTANT = (
    "The published value is what a constant output leaves; the kernel drawn here is another."
)
ERRATA = {(PLAIN_RNN, ORIGINAL): _CONSTANT, (PLAIN_RNN, REORDERED): _CONSTANT}


EXPERIMENT = linear_experiment(
    "jiang-table-3",
    "random",
    PUBLISHED,
    ERRATA,
    title="Order in time: a random kernel",
    claim="A random kernel is no harder for a transformer when its inputs are reordered. The paper "
    "adds that an RNN cannot learn it; it can.",
    source="Jiang & Li 2023, Table 3",
)


@EXPERIMENT.states(
    "an RNN computes the random kernel: as a shift register without error, learnt from a "
    "rotation to 1e-6",
    errata="The paper concludes that an RNN cannot learn it.",
)
def _(summary: Summary) -> bool:
    return summary[label(REGISTER, ORIGINAL)] == 0.0 and summary[label(RNN, ORIGINAL)] <= 1e-6


@EXPERIMENT.states(
    "at the paper's sizes, the printed 5.58 is within a factor of two of a constant's error",
    ours=True,
)
def _(summary: Summary) -> bool:
    constant = summary[label(CONSTANT, ORIGINAL)]
    return summary.scale is not Scale.PAPER or 0.5 <= 5.58 / constant <= 2.0


@EXPERIMENT.states(
    "reordered, the RNN comes within 30% of the floor of causal time-invariant models", ours=True
)
def _(summary: Summary) -> bool:
    ratio = summary[label(RNN, REORDERED)] / summary[label(INVARIANT, REORDERED)]
    return 0.9 <= ratio <= 1.3


@EXPERIMENT.states(
    "reordering costs the transformer at most a factor of four, and leaves it below every "
    "causal model"
)
def _(summary: Summary) -> bool:
    original, reordered = (summary[label(TRANSFORMER, v)] for v in (ORIGINAL, REORDERED))
    return reordered <= 4 * original and reordered < summary[label(VARYING, REORDERED)]


@EXPERIMENT.states("with constructed weights the transformer's error is at most 1e-9", ours=True)
def _(summary: Summary) -> bool:
    return all(summary[label(CONSTRUCTED, version)] <= 1e-9 for version in VERSIONS["random"])


@EXPERIMENT.states(
    "at the paper's sizes, on average over seeds, the transformer errs by at most 1e-3"
)
def _(summary: Summary) -> bool:
    return summary.scale is not Scale.PAPER or all(
        summary[label(TRANSFORMER, version)] <= 1e-3 for version in VERSIONS["random"]
    )
