"""Linear relationships learnt by a transformer and by linear RNNs, with the limits of both.

A relationship y = T x with x uniform on [0, 1]^τ comes in several *versions*:

    original        y(t) = Σ_s ρ(s) x(t − s)
    reordered       the first values of x exchanged with the last, y as before
    mixed ahead     x filtered by θ, (θ∗x)(t) = Σ θ(s) x(t + s), as section 6.2 prints it
    mixed back      the same with x(t − s), for which proposition 6.3 and the published row make sense
    … , both signs  θ drawn from [−1, 1] in place of [0, 1]; the paper only says "randomly generated"

Every version is learnt by the transformer of equation (5) at the sizes of appendix C and by linear RNNs
with 128 states, all versions and seeds in one batched ensemble. Beside what training found stand

* what the best model of its class can do: the floors of causal linear models, time-invariant as an RNN
  is, or with weights that may change with time;
* a transformer with constructed weights, of the same sizes where T has no negative entry;
* the error of a constant, which is what a training that failed is left with.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from exactformer.experiments import Experiment, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, legend, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.targets import LinearTarget

ORIGINAL, REORDERED = "original", "reordered"
AHEAD, BACK = "mixed ahead", "mixed back"
AHEAD_SIGNED, BACK_SIGNED = "mixed ahead, both signs", "mixed back, both signs"
VERSIONS = {
    "exponential": (ORIGINAL, REORDERED, AHEAD, BACK, AHEAD_SIGNED, BACK_SIGNED),
    "random": (ORIGINAL, REORDERED),
}

TRANSFORMER, RNN = "transformer", "RNN"
PLAIN_RNN, TIMED_RNN = "RNN from PyTorch's start", "RNN with a readout for each time"
LEARNT = (TRANSFORMER, RNN, PLAIN_RNN, TIMED_RNN)
"""RNN starts from a rotation; y(t) = c_t·h(t) of the last is causal and linear, not time-invariant."""

LIMITS = "limits"
CONSTANT, CONSTRUCTED = "a constant", "transformer, constructed"
INVARIANT, VARYING = "floor of causal time-invariant models", "floor of causal models"
REGISTER = "RNN, shift register"
"""Constructed: τ states that hold the last τ inputs; for kernels, versions with one for all times."""

SIZES: dict[Scale, dict[str, Any]] = by_scale(
    {"tau": 8, "ends": 2, "taps": 3, "states": 16, "width": 32, "seeds": 1}
    | {"pool": 2**12, "test": 2**10, "batch": 32, "steps": 900, "rnn_steps": 1500},
    {"tau": 16, "ends": 5, "taps": 5, "states": 64, "width": 64, "seeds": 2}
    | {"pool": 2**14, "test": 2**11, "batch": 128, "steps": 4000, "rnn_steps": 4000},
    {"tau": 32, "ends": 10, "taps": 5, "states": 128, "width": 128, "seeds": 5}
    | {"pool": 2**17, "test": 2**13, "batch": 256, "steps": 24_000, "rnn_steps": 6000},
)

TEST_SEED = 2**31 - 1
"""Of the inputs that are tested on."""


def cells(scale: Scale, kernel: str) -> list[dict[str, Any]]:
    """Return one cell of limits, and one for each architecture that has a row."""
    rows = {model for version in VERSIONS[kernel] for model in models_of(version)[0]}
    return [
        {"kernel": kernel, "model": model, "seed": 0, **SIZES[scale]}
        for model in (LIMITS, *(model for model in LEARNT if model in rows))
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return errors by version: the limits, or one architecture trained from several seeds."""
    targets = versions(parameters)
    if parameters["model"] == LIMITS:
        return limits(targets, parameters["test"])
    from exactformer.experiments.jiang.linear_training import learn

    return learn(targets, parameters, device)


def versions(parameters: Mapping[str, Any]) -> dict[str, LinearTarget]:
    """Return the relationship in all versions; kernel and filter are the same for every seed."""
    from exactformer.targets import (
        LinearTarget,
        exponential_kernel,
        mix,
        random_filter,
        random_kernel,
        reorder,
        swap_ends,
    )

    tau = parameters["tau"]
    make = exponential_kernel if parameters["kernel"] == "exponential" else random_kernel
    target = LinearTarget(make(tau))
    signed = random_filter(parameters["taps"])
    positive = abs(signed)
    found = {
        ORIGINAL: target,
        REORDERED: reorder(target, swap_ends(tau, parameters["ends"])),
        AHEAD: mix(target, positive),
        BACK: mix(target, positive, causal=True),
        AHEAD_SIGNED: mix(target, signed),
        BACK_SIGNED: mix(target, signed, causal=True),
    }
    return {name: found[name] for name in VERSIONS[parameters["kernel"]]}


def limits(targets: Mapping[str, LinearTarget], samples: int) -> dict[str, dict[str, float]]:
    """Return floors and the constructed solution's error; means over time, as in the tables."""
    from exactformer.experiments.jiang.hankel import shift_register
    from exactformer.experiments.jiang.linear_training import constructed_error
    from exactformer.targets import LinearTarget
    from exactformer.theory import causal_floor

    found: dict[str, dict[str, float]] = {
        kind: {} for kind in (CONSTANT, INVARIANT, VARYING, CONSTRUCTED, REGISTER)
    }
    for name, target in targets.items():
        T = target.matrix
        means, variances = T.sum(axis=1) / 2, (T**2).sum(axis=1) / 12
        found[CONSTANT][name] = float(variances.mean() + means.var())
        for kind in (INVARIANT, VARYING):
            floor = causal_floor(T, time_invariant=kind == INVARIANT, offset="free")
            found[kind][name] = floor.error
        found[CONSTRUCTED][name] = constructed_error(target, samples)
        if target.kernel is not None:
            response, x = (
                shift_register(target.kernel).kernel(target.tau),
                target.sample(64, TEST_SEED),
            )
            found[REGISTER][name] = float(((LinearTarget(response)(x) - target(x)) ** 2).mean())
    return found


def linear_experiment(
    name: str,
    kernel: str,
    **about: Any,
) -> Experiment:
    """Return the experiment of one kernel, with a row "MODEL, VERSION" for all that there is of both.

    ``about`` is the rest of it.
    """
    found = []
    for version in VERSIONS[kernel]:
        learnt, known = models_of(version)
        found += rows(
            f"{{model}}, {version}",
            version,
            {"model": learnt},
            place=about["source"].rpartition(", ")[2],
            drift=9.0,
        )
        limits = {kind: _error(kind, version) for kind in known}
        found += rows(f"{{row}}, {version}", limits, where={"model": LIMITS}, drift=9.0)
    return Experiment(
        name,
        cells=partial(cells, kernel=kernel),
        run=run,
        quantities=found,
        figure=draw,
        **about,
    )


def models_of(version: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is learnt and what is known of a version, as far as it is worth a row."""
    if version == ORIGINAL:
        return (TRANSFORMER, RNN, PLAIN_RNN), (CONSTRUCTED, REGISTER, CONSTANT)
    if version == REORDERED:
        return LEARNT, (CONSTRUCTED, INVARIANT, VARYING)
    if version in (BACK, BACK_SIGNED):
        return (TRANSFORMER, RNN), (CONSTRUCTED, REGISTER)
    return (TRANSFORMER, RNN), (CONSTRUCTED, INVARIANT, VARYING)


def _error(kind: str, version: str) -> Any:
    return lambda cells: cells[0].metrics[kind][version]


_COLOURS = {TRANSFORMER: BLUE, RNN: ORANGE, PLAIN_RNN: "#e8b08f", TIMED_RNN: GREEN}
_FLOORS: dict[str, dict[str, Any]] = {
    VARYING: {"linestyle": "-", "color": INK, "linewidth": 1},
    INVARIANT: {"linestyle": "--", "color": INK, "linewidth": 1},
}
_STAR: dict[str, Any] = {"color": GREY, "markersize": 11}
_STEP = 0.19  # between models of one version


def draw(summary: Summary) -> Figure:
    """Draw a ring for every seed, a star for a published value, lines for floors."""
    versions = VERSIONS[summary.cells[0].parameters["kernel"]]
    figure, axes = subplots(2.6 + 1.5 * len(versions), 4.8)
    for place, version in enumerate(versions):
        _version(axes, summary, place, version)
    axes.set_yscale("log")
    axes.set_xticks(range(len(versions)), [v.replace(", ", ",\n") for v in versions])
    axes.set_xlim(-0.5, len(versions) - 0.5)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("mean squared error on fresh sequences")
    ring = {"marker": "o", "fillstyle": "none", "linestyle": ""}
    looks = {
        **{model: {"color": colour, **ring} for model, colour in _COLOURS.items()},
        CONSTRUCTED: {"marker": "x", "color": BLUE, "linestyle": ""},
        **_FLOORS,
        "print": {"marker": "*", "linestyle": "", **_STAR},
    }
    legend(figure, looks, ncols=2)
    return figure


def _version(axes: Axes, summary: Summary, place: int, version: str) -> None:
    learnt, known = models_of(version)
    for model in learnt:
        x = place + (LEARNT.index(model) - 1.5) * _STEP
        row = summary.row(f"{model}, {version}")
        axes.plot([x] * len(row.values), row.values, "o", color=_COLOURS[model], fillstyle="none")
        if row.published is not None:
            axes.plot(x, row.published, "*", zorder=0, **_STAR)
    for kind in known:
        value = summary[f"{kind}, {version}"]
        if kind in _FLOORS:
            axes.plot([place - 0.42, place + 0.42], [value] * 2, **_FLOORS[kind])
        elif kind == CONSTRUCTED:
            axes.plot(place - 1.5 * _STEP, value, "x", color=BLUE)
