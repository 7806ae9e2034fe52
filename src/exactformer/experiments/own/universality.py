"""Corollary 3.7 measured: how fast polynomials, and so transformers, approach continuous functions.

Three functions of one variable and two of two, and what is known about their approximation by degree n:

* exp on [−1, 1], smooth: the best error is about 1 / (2ⁿ (n + 1)!) (Bernstein, Meinardus);
* |x| on [−1, 1], kinked: the best error is about 0.2801/n (Bernstein 1914); the Chebyshev series, cut
  at an even n, errs by exactly 2 / (π(n + 1));
* sin 40x on [0, 1], oscillating: nothing happens before n ≈ 20 = ω·half-width, when there are π terms
  for every wave; then the error falls faster than any geometric sequence, below 2 Σ_{k>n} |J_k(20)|.

* exp(x + y) on [−1, 1]²: a function of x + y alone, so its best error is that of e^(2u), 2 / (n + 1)!;
* cos 5xy on [−1, 1]²: no worse than its Taylor polynomial, 5^(2j+2) / (2j + 2)! with j = ⌊n / 4⌋.

At some degrees the polynomial is also compiled: the transformer's error must be the polynomial's. In
two variables a tolerance is asked for instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import factorial, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from exactformer.experiments import Cell, Experiment, Quantity, Scale, Summary, by_scale, rows
from exactformer.figures.style import BLUE, GREEN, GREY, ORANGE, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXP, KINK, WAVE = "exp", "|x|", "sin 40x"
RIDGE, SADDLE = "exp(x + y)", "cos 5xy"
OMEGA, HALF_WIDTH = 40.0, 0.5
FUNCTIONS: dict[str, Callable[..., Any]] = {
    EXP: np.exp,
    KINK: np.abs,
    WAVE: lambda x: np.sin(OMEGA * x),
    RIDGE: lambda x, y: np.exp(x + y),
    SADDLE: lambda x, y: np.cos(5 * x * y),
}
DOMAINS = {
    EXP: [(-1.0, 1.0)],
    KINK: [(-1.0, 1.0)],
    WAVE: [(0.0, 1.0)],
    RIDGE: [(-1.0, 1.0)] * 2,
    SADDLE: [(-1.0, 1.0)] * 2,
}
BERNSTEIN = 0.2801
ROUNDING = 1e-13
"""How far two float64 evaluations of one polynomial may differ, here: a thousand units or so."""

_FINER = 8


def cells(scale: Scale) -> list[dict[str, Any]]:
    """One cell for every function, with its degrees."""
    last = by_scale(64, 256, 512)[scale]
    kinks = [2**k for k in range(1, last.bit_length())]
    return [
        {"function": EXP, "degrees": list(range(1, 17)), "compiled": [2, 5, 8, 12]},
        {"function": KINK, "degrees": kinks, "compiled": [4, 16, 64]},
        {"function": WAVE, "degrees": list(range(2, 55, 2)), "compiled": [16, 28, 36, 44]},
        {"function": RIDGE, "degrees": list(range(1, 17)), "tolerances": [1e-2, 1e-4, 1e-6]},
        {"function": SADDLE, "degrees": list(range(4, 33, 4)), "tolerances": [1e-2, 1e-4]},
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Measure the curve of one function, and transformers of some of its polynomials."""
    from exactformer.polynomials.functions.curve import universality_curve

    name, degrees = parameters["function"], parameters["degrees"]
    f, domain = FUNCTIONS[name], DOMAINS[name]
    curve = universality_curve(f, degrees, domain)
    if len(domain) == 1:
        wanted = parameters["compiled"]
        models = [_compiled(f, domain[0], n, max(degrees), device) for n in wanted]
    else:
        models = [_to_tolerance(f, domain, each, device) for each in parameters["tolerances"]]
    return {
        "degrees": curve["degree"].tolist(),
        "errors": curve["error"].tolist(),
        "known": [known(name, n) for n in degrees],
        "models": models,
    }


def known(name: str, n: int) -> float:
    """Return what theory says about degree n: see the module's text."""
    if name == EXP:
        return 1 / (2.0**n * factorial(n + 1))
    if name == KINK:
        return 2 / (pi * (n + 1))
    if name == RIDGE:
        return 2 / factorial(n + 1)
    if name == SADDLE:
        j = n // 4
        return 5.0 ** (2 * j + 2) / factorial(2 * j + 2)
    from scipy.special import jv

    return float(2 * np.abs(jv(np.arange(n + 1, n + 200), OMEGA * HALF_WIDTH)).sum())


def _compiled(
    f: Callable[..., Any], interval: tuple[float, float], degree: int, highest: int, device: str
) -> dict[str, float]:
    """Compile the polynomial that the curve has at this degree; return its error and bound."""
    import torch

    from exactformer.algebra import Polynomial
    from exactformer.algebra.chebyshev import to_powers
    from exactformer.polynomials.compile import compile
    from exactformer.polynomials.functions.chebyshev_expansion import expand
    from exactformer.polynomials.functions.sampled import BoxFunction
    from exactformer.polynomials.functions.search import check_points

    low, high = interval
    centre, half = (low + high) / 2, (high - low) / 2
    here = BoxFunction(f, [centre], [half])
    expansion = expand(here, _FINER * highest).cut(degree)
    powers = to_powers([Fraction(c) for c in expansion.coefficients[:, 0].tolist()])
    local = Polynomial.from_terms({(s,): a for s, a in enumerate(powers)})
    exact = local.composed([-Fraction(centre) / Fraction(half)], [1 / Fraction(half)])
    model = compile(
        exact, domain=[interval], construction="chebyshev", executor="fused", device=device
    )
    x = centre + half * check_points(1)
    error = np.abs(model(torch.from_numpy(x).to(device)).cpu().numpy() - here.at(x)[:, 0]).max()
    bound = model.certificate.bound(model.dtype, model.executor)
    return {"degree": degree, "error": float(error), "bound": bound}


def _to_tolerance(
    f: Callable[..., Any], domain: list[tuple[float, float]], tolerance: float, device: str
) -> dict[str, float]:
    """Compile a function to a tolerance; return the transformer's degree, error and bound."""
    import torch

    from exactformer.polynomials.compile import compile
    from exactformer.polynomials.functions.search import check_points

    model = compile(f, domain=domain, tolerance=tolerance).to(device)
    assert model.approximation is not None
    x = check_points(len(domain))  # of [−1, 1]²
    error = np.abs(model(torch.from_numpy(x).to(device)).cpu().numpy() - f(*x.T)).max()
    return {
        "degree": model.approximation.degree,
        "tolerance": tolerance,
        "error": float(error),
        "bound": model.certificate.bound(),
    }


def _error(degree: int) -> Callable[[Sequence[Cell]], float]:
    return lambda cells: float(_curve(cells[0])[degree])


def _curve(cell: Cell) -> dict[int, float]:
    return dict(zip(cell.metrics["degrees"], cell.metrics["errors"], strict=True))


def _ratios(summary: Summary, name: str, first: int, last: int) -> list[float]:
    """Return measured over known for the degrees in a range."""
    metrics = summary.cell(function=name).metrics
    rows = zip(metrics["degrees"], metrics["errors"], metrics["known"], strict=True)
    return [error / rate for degree, error, rate in rows if first <= degree <= last]


def draw(summary: Summary) -> Figure:
    """Draw error against degree, measured, known and compiled."""
    figure, panels = subplots(13, 8.4, 2, 3)
    *used, last = panels.flat
    for axes, name in zip(used, DOMAINS, strict=True):
        _panel(axes, name, summary.cell(function=name))
    last.set_axis_off()
    return figure


def _panel(axes: Axes, name: str, cell: Cell) -> None:
    title, words = {
        EXP: ("smooth: exp on [−1, 1]", r"known: $1 / (2^n (n+1)!)$"),
        KINK: ("kinked: |x| on [−1, 1]", r"known, this series: $2 / (\pi(n+1))$"),
        WAVE: ("oscillating: sin 40x on [0, 1]", r"known: at most $2\,\sum_{k>n} |J_k(20)|$"),
        RIDGE: ("two variables: exp(x + y) on [−1, 1]²", r"known, best possible: $2 / (n+1)!$"),
        SADDLE: ("two variables: cos 5xy on [−1, 1]²", "known: at most Taylor's"),
    }[name]
    metrics, models = cell.metrics, cell.metrics["models"]
    degrees = metrics["degrees"]
    axes.semilogy(degrees, metrics["known"], color=ORANGE, label=words)
    if name == KINK:
        best = [BERNSTEIN / n for n in degrees]
        axes.loglog(degrees, best, "--", color=ORANGE, label="known, best possible: 0.2801 / n")
        axes.set_ylim(bottom=best[-1] / 3)
    else:
        axes.set_ylim(bottom=1e-17, top=30)
    if name == WAVE:
        turn = OMEGA * HALF_WIDTH
        axes.axvline(turn, color=GREY, linewidth=0.8, linestyle=":")
        axes.text(turn + 0.7, 8, "n = 20: π terms a wave", fontsize=8, color=GREY)
    axes.semilogy(degrees, metrics["errors"], "o", color=BLUE, label="polynomial, measured")
    rings: Any = {"color": GREEN, "markersize": 9, "fillstyle": "none"}
    rings["label"] = "its transformer, float64, measured"
    axes.semilogy([m["degree"] for m in models], [m["error"] for m in models], "o", **rings)
    axes.set(title=title, xlabel="degree n", ylabel="largest error")
    if name == EXP:
        axes.set_xticks(range(2, 17, 2))
    axes.legend(loc="upper right" if name != WAVE else "lower left")


EXPERIMENT = Experiment(
    name="universality",
    title="Continuous functions: error against degree, next to the known rates",
    claim="Every continuous function is approximated; how fast is what approximation theory says.",
    source="Fang et al. 2022, Corollary 3.7",
    cells=cells,
    run=run,
    quantities=[
        *(
            Quantity(
                f"{name}, degree {n}",
                _error(n),
                {"function": name},
                expected=known(name, n),
                place=place,
                within=within,
            )
            for name, n, place, within in (
                (EXP, 8, "1 / (2ⁿ (n + 1)!)", 0.1),
                (KINK, 64, "2 / (π(n + 1))", 0.02),
            )
        ),
        *rows(
            "sin 40x, degree {row}",
            {"16": (_error(16), 0.01), "36": (_error(36), 0.01), "46": (_error(46), 1.0)},
            where={"function": WAVE},
        ),
    ],
    figure=draw,
)


@EXPERIMENT.states("exp: within 1.5 times 1/(2ⁿ (n+1)!) for n = 2 … 10, and not below")
def _(summary: Summary) -> bool:
    return all(1 <= ratio <= 1.5 for ratio in _ratios(summary, EXP, 2, 10))


@EXPERIMENT.states("|x|: 2/(π(n+1)) within 2 %, above the best possible 0.2801/n")
def _(summary: Summary) -> bool:
    curve = _curve(summary.cell(function=KINK))
    above = all(error >= BERNSTEIN / n for n, error in curve.items())
    return above and all(abs(ratio - 1) <= 0.02 for ratio in _ratios(summary, KINK, 2, 512))


@EXPERIMENT.states("sin 40x: no convergence, error above 0.1, up to n = 16")
def _(summary: Summary) -> bool:
    curve = _curve(summary.cell(function=WAVE))
    return all(error >= 0.1 for n, error in curve.items() if n <= 16)


@EXPERIMENT.states("then between a fifth and all of 2 Σ_{k>n} |J_k(20)|, n = 24 … 42")
def _(summary: Summary) -> bool:
    return all(0.2 <= ratio <= 1 for ratio in _ratios(summary, WAVE, 24, 42))


@EXPERIMENT.states("sin 40x: within 1e-12 at n = 46")
def _(summary: Summary) -> bool:
    return _curve(summary.cell(function=WAVE))[46] <= 1e-12


@EXPERIMENT.states(
    "transformers err as their polynomials do, within the certified rounding and 1e-13"
)
def _(summary: Summary) -> bool:
    return all(
        abs(model["error"] - _curve(cell)[model["degree"]]) <= model["bound"] + ROUNDING
        for cell in summary.cells
        if "tolerances" not in cell.parameters
        for model in cell.metrics["models"]
    )


@EXPERIMENT.states("exp(x + y): within four times 2/(n + 1)! for n = 4 … 12, and not below")
def _(summary: Summary) -> bool:
    return all(1 <= ratio <= 4 for ratio in _ratios(summary, RIDGE, 4, 12))


@EXPERIMENT.states("cos 5xy: at most Taylor's error at every degree")
def _(summary: Summary) -> bool:
    return all(ratio <= 1 for ratio in _ratios(summary, SADDLE, 4, 28))


@EXPERIMENT.states("in two variables transformers are within the tolerance asked for")
def _(summary: Summary) -> bool:
    return all(
        model["error"] <= model["tolerance"] + model["bound"]
        for name in (RIDGE, SADDLE)
        for model in summary.cell(function=name).metrics["models"]
    )
