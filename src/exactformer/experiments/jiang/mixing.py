"""Appendix D.3 carried out: what mixing in time does to a coupling, and to a filter.

*Coupling.* ρ(u, v) = 1 + √2 sin 2πu · √2 sin 2πv on two tokens; the second becomes x_2 + a·x_1. Then

    ρ_a(u, v) = 1 + 2 sin 2πu sin 2π(v + au)
              = 1 · 1 + √2 sin 2πu cos 2πau · √2 sin 2πv + √2 sin 2πu sin 2πau · √2 cos 2πv:

three products, orthonormal in v, so the σ² are the eigenvalues of the 3 × 3 matrix of inner products of
the functions of u, which are elementary integrals. The paper has a = 1: σ² = (7 ± √33)/8 and 1/4.
The softmax over keys does not see functions of u alone; without the constant the rank goes from 1 to 2.

*Filter.* ρ(s) = e^{−s}, τ = 32, and the inputs filtered by a random θ of length 5, ‖θ‖₁ = 1: looking
ahead as section 6.2 prints it, or back. Beside C_RNN stands the least error of all linear RNNs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments import Cell, Experiment, Metric, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREEN, GREY, INK, ORANGE, diverging, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COUPLING, FILTER = "coupling", "filter"
PUBLISHED = (1.265, 0.5, 0.4)
"""σ_1, σ_2, σ_3 after mixing, appendix D.3."""
PUBLISHED_RNN = 1.58e-7
"""The RNN's error on the mixed target, table 2."""
TAU, LENGTH = 32, 5
TEN_DIGITS = 1e-10
ROUNDING = 1e-24
"""A squared error below this is that of float64."""


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for the coupling at all strengths, two for every filter."""
    steps, filters = by_scale((5, 3), (21, 10), (101, 50))[scale]
    strengths = [i / (steps - 1) for i in range(steps)]
    return [{"part": COUPLING, "strengths": strengths}] + [
        {"part": FILTER, "causal": causal, "seed": seed}
        for causal in (False, True)
        for seed in range(filters)
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Decompose the coupling at every strength, or measure one mixed filter."""
    if parameters["part"] == COUPLING:
        return _coupling(parameters["strengths"])
    return _filter(parameters["causal"], parameters["seed"])


def rho(u: Any, v: Any) -> Any:
    """Return equation (100)."""
    return 1 + 2 * np.sin(2 * pi * u) * np.sin(2 * pi * v)


def _coupling(strengths: Sequence[float]) -> dict[str, Any]:
    from exactformer.couplings.target import Coupling, identity
    from exactformer.targets.temporal import mix
    from exactformer.theory.pod import pod

    target = Coupling(identity, identity, rho, tau=2)
    computed, seen, errors = [], [], []
    for strength in strengths:
        score = mix(target, [1.0, strength], causal=True).logit(0, 1)
        found = pod(score)
        computed.append(_three(found.singular_values))
        errors.append(found.error)
        seen.append(_three(pod(lambda u, v, score=score: score(u, v) - 1).singular_values))
    closed = [closed_form(strength) for strength in strengths]
    return {
        "computed": computed,
        "error": errors,
        "closed": closed,
        "seen": seen,
        "seen closed": [closed_form(strength, seen=True) for strength in strengths],
        "C₁": [max(k * value for k, value in enumerate(values, 1)) for values in closed],
    }


def _three(values: Any) -> list[float]:
    return [*values[:3].tolist(), 0.0, 0.0, 0.0][:3]


def closed_form(strength: float, seen: bool = False) -> list[float]:
    """Return σ_1 ≥ σ_2 ≥ σ_3 of ρ_a; with ``seen``, those of ρ_a − 1."""
    a = strength

    def sine(b: float) -> float:
        """Return ∫ sin 2πbu du over [0, 1]."""
        return float(pi * b * np.sinc(b) ** 2)

    def cosine(b: float) -> float:
        """Return ∫ cos 2πbu du over [0, 1]."""
        return float(np.sinc(2 * b))

    one_cos = (sine(1 + a) + sine(1 - a)) / sqrt(2)
    one_sin = (cosine(1 - a) - cosine(1 + a)) / sqrt(2)
    swing = cosine(2 * a) - (cosine(2 + 2 * a) + cosine(2 - 2 * a)) / 2
    cos_sin = (sine(2 * a) - (sine(2 * a + 2) + sine(2 * a - 2)) / 2) / 2
    gram = np.array(
        [
            [1.0, one_cos, one_sin],
            [one_cos, (1 + swing) / 2, cos_sin],
            [one_sin, cos_sin, (1 - swing) / 2],
        ]
    )
    squares = np.linalg.eigvalsh(gram[1:, 1:] if seen else gram)[::-1]
    return _three(np.sqrt(np.maximum(squares, 0.0)))


def _filter(causal: bool, seed: int) -> dict[str, Any]:
    from exactformer.targets.linear import LinearTarget, exponential_kernel
    from exactformer.targets.temporal import mix, random_filter
    from exactformer.theory.floors import causal_floor
    from exactformer.theory.recurrent import mixing_constant, rnn_complexity

    theta = random_filter(LENGTH, seed)
    target = LinearTarget(exponential_kernel(TAU))
    mixed = mix(target, theta, causal)
    before, after = rnn_complexity(target.matrix), rnn_complexity(mixed.matrix)
    return {
        "C_RNN before": before.C_RNN,
        "C_RNN": after.C_RNN,
        "memory": after.gamma,
        "C₂": after.C2,
        "envelope": mixing_constant(theta, before.gamma, causal),
        "floor": causal_floor(mixed.matrix, time_invariant=True).error,
        "floor with biases": causal_floor(mixed.matrix, time_invariant=True, offset="free").error,
        "floor of any causal model": causal_floor(mixed.matrix, offset="free").error,
    }


def _sigma(name: str, k: int, strength: float = 1.0) -> Metric:
    """Return the metric σ_k at one strength of mixing."""

    def sigma_k(cells: Sequence[Cell]) -> float:
        (cell,) = cells
        return float(cell.metrics[name][cell.parameters["strengths"].index(strength)][k - 1])

    return sigma_k


def draw(summary: Summary) -> Figure:
    """Draw the coupling before and after, its singular values by strength, and the filters."""
    figure, (before, after, curves, filters) = subplots(
        14, 3.8, 1, 4, width_ratios=(1, 1, 1.35, 1.35)
    )
    _picture(before, 0.0)
    image = _picture(after, 1.0)
    figure.colorbar(image, ax=after, shrink=0.75)
    _curves(curves, summary.cell(part=COUPLING))
    _filters(filters, summary)
    return figure


def _picture(axes: Axes, strength: float) -> Any:
    grid = np.linspace(0.0, 1.0, 201)
    values = rho(grid[:, None], grid[None, :] + strength * grid[:, None])
    look: Any = {"origin": "lower", "extent": (0, 1, 0, 1), "cmap": diverging()}
    image = axes.imshow(values.T, vmin=-3, vmax=3, **look)
    mixed = r"$\rho(x_1,\ x_2 + x_1)$: rank 3" if strength else r"$\rho(x_1,\ x_2)$: rank 2"
    axes.set(title=mixed, xlabel="$x_1$", ylabel="$x_2$", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes.grid(False)
    return image


def _curves(axes: Axes, cell: Cell) -> None:
    strengths, metrics = cell.parameters["strengths"], cell.metrics
    shown = range(0, len(strengths), max(1, len(strengths) // 20))
    for k, colour in enumerate((BLUE, ORANGE, GREEN)):
        axes.plot(strengths, [values[k] for values in metrics["closed"]], color=colour, lw=1)
        x, y = zip(*((strengths[i], metrics["computed"][i][k]) for i in shown), strict=True)
        axes.plot(x, y, "o", color=colour, markersize=4, label=rf"$\sigma_{k + 1}$")
    axes.plot([1.0] * 3, PUBLISHED, "x", color=INK, markersize=9, mew=1.5, label="printed")
    axes.set(xlabel=r"$a$ in $x_2 + a\,x_1$; lines: closed form", ylim=(-0.03, 1.35))
    axes.set_title("singular values by strength of mixing")
    axes.legend(loc="center left", fontsize=8)


def _filters(axes: Axes, summary: Summary) -> None:
    looks = {False: ("filter as printed", ORANGE), True: ("causal filter: 0, rounded", BLUE)}
    for causal, (name, colour) in looks.items():
        cells = summary.select(part=FILTER, causal=causal)
        found = sorted(max(cell.metrics["floor"], 1e-33) for cell in cells)
        axes.semilogy(range(1, len(found) + 1), found, "o", color=colour, label=name)
    axes.axhline(PUBLISHED_RNN, color=GREY, lw=1, ls="--")
    axes.text(1, PUBLISHED_RNN * 3, "printed for a trained RNN: 1.58e-7", color=GREY, fontsize=8)
    axes.set(xlabel="filter, by its error", ylabel="mean squared error", ylim=(1e-34, 1e2))
    axes.set_title("least error of linear RNNs, random filters")
    axes.legend(loc="center right", fontsize=8)


EXPERIMENT = Experiment(
    name="jiang-mixing",
    title="Mixing in time: a coupling's rank rises, an RNN is spared if the filter is causal",
    claim="Mixing raises the rank of a coupling; it leaves RNNs alone, if the filter looks back.",
    source="Jiang and Li 2023, section 6.2 and appendix D.3",
    cells=cells,
    run=run,
    quantities=[
        *rows(
            "σ_{row}",
            {
                **{f"{k} before mixing": _sigma("computed", k, strength=0.0) for k in (1, 2)},
                **{f"{k} after mixing": _sigma("computed", k) for k in (1, 2, 3)},
                **{f"{k}, closed form": _sigma("closed", k) for k in (1, 2, 3)},
                **{f"{k} of what the softmax sees": _sigma("seen", k) for k in (1, 2)},
            },
            where={"part": COUPLING},
            place="appendix D.3",
        ),
        *rows(
            "filter as printed: least error of a linear RNN{row}",
            {"": "floor", " with biases": "floor with biases"},
            where={"part": FILTER, "causal": False},
        ),
        *rows(
            "causal filter: {row}",
            {"least error of a linear RNN": ("floor", inf), "C_RNN (2 before)": ("C_RNN", 1e-3)},
            where={"part": FILTER, "causal": True},
        ),
    ],
    figure=draw,
)


@EXPERIMENT.states("computed singular values are the closed form's to 1e-10")
def _(summary: Summary) -> bool:
    cell = summary.cell(part=COUPLING)
    return all(
        abs(ours - exact) <= TEN_DIGITS
        for name, known in (("computed", "closed"), ("seen", "seen closed"))
        for mine, theirs in zip(cell.metrics[name], cell.metrics[known], strict=True)
        for ours, exact in zip(mine, theirs, strict=True)
    )


@EXPERIMENT.states("every strength a > 0 raises the rank from 2 to 3")
def _(summary: Summary) -> bool:
    cell = summary.cell(part=COUPLING)
    mixed = zip(cell.parameters["strengths"], cell.metrics["computed"], strict=True)
    return all((values[2] > TEN_DIGITS) == (strength > 0) for strength, values in mixed)


@EXPERIMENT.states("C₁ with α = 1 falls all the same, from 2 to σ_1")
def _(summary: Summary) -> bool:
    cell = summary.cell(part=COUPLING)
    return bool(cell.metrics["C₁"][-1] < cell.metrics["C₁"][0])


@EXPERIMENT.states(
    "the printed filter looks ahead: every causal model errs by a thousand times the "
    "printed 1.58e-7 or more",
)
def _(summary: Summary) -> bool:
    lost = "C_RNN == @inf and `floor of any causal model` > 1000 * @PUBLISHED_RNN"
    return summary.every("part == @FILTER and causal == False", lost)


@EXPERIMENT.states(
    "the causal filter costs a linear RNN nothing: least error 0, the same memory, and "
    "C₂ within the envelope's constant"
)
def _(summary: Summary) -> bool:
    kept = "floor < @ROUNDING and abs(memory - 1) < 0.01 and `C₂` <= envelope * 1.01"
    return summary.every("part == @FILTER and causal == True", kept)
