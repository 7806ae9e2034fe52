"""Table 3 of Jiang & Li: a random kernel of length 32, by an RNN and a transformer.

A filter of finite length is a shift register, so a linear RNN with 32 states has it without error. What
is published for the RNN, 5.58, is what a constant output leaves (y(t) is a sum of t + 1 terms, and its
mean grows with t): its training did not begin to learn.
"""

from exactformer.experiments import Scale, Summary
from exactformer.experiments.jiang.linear import VERSIONS, linear_experiment

EXPERIMENT = linear_experiment(
    "jiang-table-3",
    "random",
    title="Order in time: a random kernel",
    claim="A random kernel is no harder for a transformer when its inputs are reordered. The paper "
    "adds that an RNN cannot learn it; it can.",
    source="Jiang & Li 2023, Table 3",
)


@EXPERIMENT.states(
    "an RNN computes the random kernel: as a shift register without error, learnt from a "
    "rotation to 1e-6",
)
def _(summary: Summary) -> bool:
    return summary["RNN, shift register, original"] == 0.0 and summary["RNN, original"] <= 1e-6


@EXPERIMENT.states(
    "at full scale, the published 5.58 is within a factor of two of a constant's error",
)
def _(summary: Summary) -> bool:
    return summary.scale is not Scale.FULL or 0.5 <= 5.58 / summary["a constant, original"] <= 2.0


@EXPERIMENT.states(
    "reordered, the RNN comes within 30% of the floor of causal time-invariant models"
)
def _(summary: Summary) -> bool:
    floor = summary["floor of causal time-invariant models, reordered"]
    return 0.9 <= summary["RNN, reordered"] / floor <= 1.3


@EXPERIMENT.states(
    "reordering costs the transformer at most a factor of four, and leaves it below every "
    "causal model"
)
def _(summary: Summary) -> bool:
    original, reordered = (summary[f"transformer, {v}"] for v in ("original", "reordered"))
    return reordered <= 4 * original and reordered < summary["floor of causal models, reordered"]


@EXPERIMENT.states("with constructed weights the transformer's error is at most 1e-9")
def _(summary: Summary) -> bool:
    versions = VERSIONS["random"]
    return all(summary[f"transformer, constructed, {version}"] <= 1e-9 for version in versions)


@EXPERIMENT.states(
    "at the paper's sizes, on average over seeds, the transformer errs by at most 1e-3"
)
def _(summary: Summary) -> bool:
    return summary.scale is not Scale.FULL or all(
        summary[f"transformer, {version}"] <= 1e-3 for version in VERSIONS["random"]
    )
