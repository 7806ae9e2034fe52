"""Twenty relationships of known kind on which no rule was tuned, and five that must stay undecided.

Kinds follow from theory. *RNN*: causal, the same at all times, with a memory that a few states hold.
*Transformer*: outputs that depend on tokens yet to come, which no RNN can read (couplings, reordered
and anticipating targets), or on one token far back, for which an RNN needs a state for every step
between.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exactformer.couplings.target import Coupling, identity, sine_family
from exactformer.learning.recommending.decision import Verdict
from exactformer.targets.linear import LinearTarget, exponential_kernel
from exactformer.targets.tasks_nearest import NearestPoint
from exactformer.targets.tasks_selection import AverageBySelection
from exactformer.targets.temporal import mix, random_filter, reorder, swap_ends

Array = NDArray[np.float64]
Pair = tuple[Array, Array]
Draw = Callable[[int, np.random.Generator], Pair]

RNN: Verdict = "rnn"
TRANSFORMER: Verdict = "transformer"
UNDECIDED: Verdict = "undecided"


@dataclass(frozen=True)
class Relationship:
    """Sequences of a known kind: ``draw(count, rng)`` gives inputs and outputs without noise."""

    kind: Verdict
    count: int
    draw: Draw
    noise: float = 0.0
    """Standard deviation of what is added, relative to that of the outputs."""

    def sample(self, seed: int, count: int | None = None) -> Pair:
        """Draw ``count`` sequences."""
        rng = np.random.default_rng(seed)
        x, y = self.draw(count or self.count, rng)
        spread = np.std(y - y.mean(axis=0))
        return x, y + self.noise * spread * rng.normal(size=y.shape)


def _linear(target: LinearTarget, normal: bool = False) -> Draw:
    def draw(count: int, rng: np.random.Generator) -> Pair:
        shape = count, target.tau
        x = rng.normal(size=shape) if normal else rng.random(shape)
        return x, target(x)

    return draw


def _target(target: Callable[..., Array]) -> Draw:
    def draw(count: int, rng: np.random.Generator) -> Pair:
        x = target.sample(count, int(rng.integers(2**31)))  # type: ignore[attr-defined]
        return x, target(x)

    return draw


def _oscillation(tau: int, decay: float, frequency: float) -> LinearTarget:
    s = np.arange(tau)
    return LinearTarget(decay**s * np.cos(frequency * s))


def _three_exponentials(tau: int) -> LinearTarget:
    rates, weights = (0.1, 0.5, 1.5), (1.0, -0.8, 0.6)
    return LinearTarget(
        sum(w * exponential_kernel(tau, r) for w, r in zip(weights, rates, strict=True))
    )


def _autoregression(count: int, rng: np.random.Generator, tau: int = 26) -> Pair:
    x = rng.normal(size=(count, tau))
    y = np.zeros((count, tau + 3))
    for t in range(tau):
        past = y[:, t : t + 3] @ (0.2, -0.3, 0.7)
        y[:, t + 3] = past + x[:, t]
    return x, y[:, 3:]


def _two_channels(count: int, rng: np.random.Generator, tau: int = 20) -> Pair:
    x = rng.normal(size=(count, tau, 2))
    short, long = (LinearTarget(exponential_kernel(tau, rate)) for rate in (1.0, 0.15))
    return x, short(x[..., 0]) - 0.5 * long(x[..., 1])


def _saturating_state(count: int, rng: np.random.Generator, tau: int = 20) -> Pair:
    x = rng.normal(size=(count, tau))
    state, outputs = np.zeros(count), []
    for t in range(tau):
        state = np.tanh(0.9 * state + 0.7 * x[:, t])
        outputs.append(state)
    return x, np.stack(outputs, axis=1)


def _leaking_sizes(count: int, rng: np.random.Generator, tau: int = 22) -> Pair:
    x = rng.normal(size=(count, tau))
    return x, LinearTarget(0.85 ** np.arange(tau))(np.abs(x))


def _gaussian_score(u: Array, v: Array) -> Array:
    return np.asarray(3 * np.exp(-8 * (u - v) ** 2))


def _retrieval(count: int, rng: np.random.Generator, tau: int = 12) -> Pair:
    """A token is a direction asked for, a direction offered, and a value."""
    asked, offered = rng.uniform(0, 2 * np.pi, (2, count, tau))
    value = rng.normal(size=(count, tau))
    weights = np.exp(5 * np.cos(asked[:, :, None] - offered[:, None, :]))
    y = (weights * value[:, None, :]).sum(axis=-1) / weights.sum(axis=-1)
    parts = [np.cos(asked), np.sin(asked), np.cos(offered), np.sin(offered), value]
    return np.stack(parts, axis=-1), y


def _noise(count: int, rng: np.random.Generator, tau: int = 24) -> Pair:
    return rng.random((count, tau)), rng.normal(size=(count, tau))


def _permuted(count: int, rng: np.random.Generator, tau: int = 24) -> Pair:
    x, y = _linear(LinearTarget(exponential_kernel(tau, 0.5)))(count, rng)
    return x, y[rng.permutation(count)]


_EXPONENTIAL = LinearTarget(exponential_kernel(32, 0.5))
_SLOW = LinearTarget(exponential_kernel(32, 0.3))
_QUICK = LinearTarget(exponential_kernel(20, 1.2))
_SCATTERED = reorder(_oscillation(24, 0.8, 0.7), np.random.default_rng(5).permutation(24))
_ONE_LAG = LinearTarget(np.eye(30)[22])

HELD_OUT: dict[str, Relationship] = {
    "exponential, slow": Relationship(RNN, 1500, _linear(_SLOW), 0.1),
    "exponential, quick, few": Relationship(RNN, 500, _linear(_QUICK), 0.4),
    "three exponentials": Relationship(RNN, 1000, _linear(_three_exponentials(28), True), 0.15),
    "damped oscillation": Relationship(RNN, 800, _linear(_oscillation(32, 0.9, 1.3))),
    "exponential, causally mixed": Relationship(
        RNN, 1000, _linear(mix(_EXPONENTIAL, random_filter(4, seed=11), causal=True)), 0.1
    ),
    "oscillation, causally mixed": Relationship(
        RNN,
        900,
        _linear(mix(_oscillation(24, 0.85, 0.6), random_filter(3, seed=12), causal=True)),
        0.2,
    ),
    "autoregression": Relationship(RNN, 900, _autoregression, 0.2),
    "two channels": Relationship(RNN, 700, _two_channels, 0.3),
    "saturating state": Relationship(RNN, 1200, _saturating_state),
    "leaking sizes": Relationship(RNN, 1000, _leaking_sizes, 0.1),
    "sines, rank 2": Relationship(TRANSFORMER, 1000, _target(sine_family([1.5, 0.75], tau=14))),
    "sines, rank 6": Relationship(
        TRANSFORMER, 1200, _target(sine_family([k**-1.5 for k in range(1, 7)], tau=18)), 0.05
    ),
    "Gaussian coupling": Relationship(
        TRANSFORMER, 1000, _target(Coupling(np.tanh, np.square, _gaussian_score, tau=12)), 0.1
    ),
    "nearest point": Relationship(TRANSFORMER, 1500, _target(NearestPoint(tau=7))),
    "average by selection": Relationship(TRANSFORMER, 1500, _target(AverageBySelection(tau=9))),
    "retrieval": Relationship(TRANSFORMER, 1200, _retrieval, 0.2),
    "exponential, ends swapped": Relationship(
        TRANSFORMER, 1000, _linear(reorder(_EXPONENTIAL, swap_ends(32, 10))), 0.1
    ),
    "oscillation, scattered": Relationship(TRANSFORMER, 800, _linear(_SCATTERED), 0.2),
    "exponential, anticipating": Relationship(
        TRANSFORMER, 1000, _linear(mix(_EXPONENTIAL, random_filter(5, seed=13)))
    ),
    "one lag of 22": Relationship(TRANSFORMER, 900, _linear(_ONE_LAG, normal=True), 0.3),
}
"""Ten of each kind."""

THIN: dict[str, Relationship] = {
    "eight sequences": Relationship(UNDECIDED, 8, _linear(_SLOW)),
    "thirty sequences of a coupling": Relationship(
        UNDECIDED, 30, _target(Coupling(identity, identity, _gaussian_score, tau=12))
    ),
    "noise": Relationship(UNDECIDED, 800, _noise),
    "outputs permuted": Relationship(UNDECIDED, 800, _permuted),
    "drowned in noise": Relationship(UNDECIDED, 600, _linear(_QUICK), 6.0),
}
"""Where the evidence is too thin for any verdict."""
