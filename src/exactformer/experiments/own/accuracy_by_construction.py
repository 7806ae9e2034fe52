"""The accuracy of every construction in floating point, by degree and by radius.

Two families of polynomials with a degree q:

* *oscillating*: the Chebyshev polynomial T_q of one variable, which runs between −1 and 1 q times.
  In powers its coefficients add up to about (1 + √2)^q / 2, so that a sum of powers must lose digits;
* *dense*: every monomial up to degree q in three variables, small random whole coefficients.

On a ball of radius B the target is Q(x/B): the same function, stretched. Errors are differences to
exact rational values, at random points, at places where terms cancel or are largest, and at points
that climbed from the worst of those; all are relative to max |Q|.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from exactformer.experiments import Cell, Experiment, Quantity, Scale, by_scale, rows
from exactformer.experiments.engine.summary import Summary, frame_of
from exactformer.figures.style import GREY, legend, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from exactformer.algebra import Polynomial
    from exactformer.polynomials.model import PolynomialModel

CONSTRUCTIONS = ("paper", "scaled", "doubling", "chebyshev", "softmax")
FORMATS = ("float64", "float32")
STEADY = ("scaled", "doubling", "chebyshev", "softmax")
POWERS = ("scaled", "doubling")
HIGH = ("scaled", "doubling", "chebyshev")
"""Those that are followed to degree 60."""

_DENSE = {"target": "dense"}
_DEGREE = 5  # of the sweep over radii
_KEPT = 8  # points that climb


def cells(scale: Scale) -> list[dict[str, Any]]:
    """Return a cell for every target, construction and format; what two sweeps share, once."""
    low = by_scale((4, 16), (*range(2, 17), 20, 24))[scale]
    high = by_scale((8, 9, 60), (32, 40, 50, 60))[scale]
    dense = by_scale((), (2, 3, 4, 5, 6, 8, 10))[scale]
    every = ("1/100", "1/10", "1/3", "1", "3", "10", "30", "100")
    radii = by_scale(("1", "100"), every)[scale]
    sweeps = [("oscillating", c, q, "1") for c in CONSTRUCTIONS for q in low]
    sweeps += [("oscillating", c, q, "1") for c in HIGH for q in high]
    sweeps += [("dense", c, q, "1") for c in CONSTRUCTIONS for q in dense]
    sweeps += [("dense", c, _DEGREE, r) for c in CONSTRUCTIONS for r in radii]
    points, rounds = by_scale((40, 2), (150, 6), (600, 12))[scale]
    size = {"points": points, "rounds": rounds, "seed": 0}
    return [
        {"target": t, "construction": c, "degree": q, "radius": r, "format": f, **size}
        for t, c, q, r in dict.fromkeys(sweeps)
        for f in FORMATS
    ]


def run(parameters: Mapping[str, Any], device: str) -> dict[str, float]:
    """Compile one target and measure it: largest error and bound of every executor, over max |Q|.

    An executor without a bound in this format is refused by the library, and so left out.
    """
    import torch

    from exactformer.errors import RoundingError
    from exactformer.polynomials.compile import compile
    from exactformer.polynomials.model import PolynomialModel
    from exactformer.polynomials.proof.certify import Proof
    from exactformer.polynomials.transformer import transformer

    radius, dtype = Fraction(parameters["radius"]), getattr(torch, parameters["format"])
    polynomial = target(parameters["target"], parameters["degree"], radius)
    few = parameters["target"] == "oscillating" or parameters["degree"] == 2
    model = compile(
        polynomial,
        radius,
        construction=parameters["construction"],
        directions="tailored" if few else "lattice",
        dtype=dtype,
        tolerance=inf,
    )
    # Bounds are those of the tokens, which hold however a fused model is evaluated.
    certificate = replace(model.certificate, by_terms=None)
    measured = {"depth": float(model.blueprint.depth)}
    for executor in certificate.executors:
        try:
            bound = certificate.bound(dtype, executor)
        except RoundingError:
            continue
        proof = Proof(certificate)
        twin = PolynomialModel(model.blueprint, proof, dtype, executor=executor)
        if parameters["construction"] == "chebyshev":  # by tokens, not by terms
            twin.transformer = transformer(model.blueprint, executor, dtype)
        twin = twin.to(device)
        error = _largest_error(twin, polynomial, parameters)
        measured[executor] = error / certificate.scale
        measured[f"{executor} bound"] = bound / certificate.scale
    return measured


def target(family: str, degree: int, radius: Fraction) -> Polynomial:
    """Return Q(x/B)."""
    from exactformer.algebra import Polynomial
    from exactformer.algebra.chebyshev import to_powers

    if family == "oscillating":
        powers = to_powers([Fraction(0)] * degree + [Fraction(1)])
        found = Polynomial.from_terms({(s,): a for s, a in enumerate(powers)})
    else:
        exponents = [e for e in product(range(degree + 1), repeat=3) if sum(e) <= degree]
        drawn = np.random.default_rng(degree).integers(-9, 10, len(exponents)).tolist()
        found = Polynomial.from_terms(dict(zip(exponents, drawn, strict=True)), ["x", "y", "z"])
    d = found.dimension
    return found.composed([0] * d, [1 / radius] * d)


def _largest_error(
    model: PolynomialModel, polynomial: Polynomial, parameters: Mapping[str, Any]
) -> float:
    """Return the largest |computed − exact|, in exact arithmetic, that a search finds."""
    rng = np.random.default_rng(parameters["seed"])
    local = _places(polynomial, parameters["points"], rng)
    largest = 0.0
    for _ in range(parameters["rounds"]):
        errors = _errors(model, polynomial, local)
        largest = max(largest, float(errors.max()))
        worst = local[np.argsort(errors)[-_KEPT:]]
        steps = 10.0 ** rng.uniform(-12, -2, (8 * _KEPT, 1))
        near = np.repeat(worst, 8, axis=0) + steps * rng.normal(size=(8 * _KEPT, worst.shape[1]))
        local = near / np.maximum(np.linalg.norm(near, axis=1, keepdims=True), 1)
    return largest


def _places(polynomial: Polynomial, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return points of the unit ball: inside, on the sphere, on axes where T_q turns or vanishes."""
    d, q = polynomial.dimension, polynomial.degree
    normal = rng.normal(size=(count, d))
    sphere = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    inside = sphere * rng.random((count, 1)) ** (1 / d)
    on_axis = np.cos(np.arange(2 * q + 1) * np.pi / (2 * q))  # T_q has its extrema and zeros here
    axes = np.concatenate([np.outer(on_axis, axis) for axis in np.eye(d)])
    return np.concatenate([inside, sphere[: count // 2], axes])


def _errors(
    model: PolynomialModel, polynomial: Polynomial, local: NDArray[np.float64]
) -> NDArray[np.float64]:
    import torch

    radius, dtype = float(model.blueprint.radius), model.dtype
    within = radius * (1 - 4 * torch.finfo(dtype).eps)  # still inside after rounding to the format
    points = torch.from_numpy(local * within).to(dtype)
    computed = model(points.to(model.transformer.features.device)).double().tolist()
    places = points.double().tolist()
    exact = [polynomial.at(place) for place in places]
    return np.array([float(abs(Fraction(c) - e)) for c, e in zip(computed, exact, strict=True)])


def _quantities(scale: Scale) -> list[Quantity]:
    wave = {"target": "oscillating"}
    fused = {**wave, "construction": "chebyshev", "format": "float64", "degree": 60}
    found = []
    for f in FORMATS:
        for degree, chosen in ((4, CONSTRUCTIONS), (16, CONSTRUCTIONS), (60, HIGH)):
            over: dict[str, Any] = {"degree": [degree], "format": [f], "construction": chosen}
            label = "T_{degree}, {format}, {construction}"
            found += rows(label, "literal", over, wave, drift=0.5)
        over = {"format": [f], "radius": ("1", "100"), "construction": CONSTRUCTIONS}
        label = "dense, B = {radius}, {format}, {construction}"
        found += rows(label, "literal", over, {**_DENSE, "degree": _DEGREE}, drift=0.5)
    return [
        *found,
        Quantity("T_60, float64, chebyshev, closed form", "fused", fused, drift=0.5),
        *rows(
            "{construction}, largest certified over observed",
            _slack,
            {"construction": CONSTRUCTIONS},
            drift=1.0,
        ),
    ]


def _slack(cells: Sequence[Cell]) -> float:
    return max(bound / max(error, bound * 1e-9) for cell in cells for error, bound in pairs(cell))


def pairs(cell: Cell) -> list[tuple[float, float]]:
    """Return observed error and certified bound of every executor."""
    metrics = cell.metrics
    return [(metrics[e], metrics[f"{e} bound"]) for e in ("literal", "fused") if e in metrics]


_LOOK: dict[str, tuple[str, str]] = {
    "paper": ("#d9622b", "s"),
    "softmax": ("#8c4fa3", "D"),
    "scaled": ("#1d5fa8", "o"),
    "doubling": ("#b8860b", "x"),
    "chebyshev": ("#2a8c6a", "^"),
}
_CLOSED_FORMS = ("scaled", "chebyshev")  # those of powers are all the same
_AXES = {"degree": "degree q", "radius": "radius B"}
_PANELS: tuple[tuple[str, str, tuple[int, ...], dict[str, Any]], ...] = (
    ("$T_q$ on [−1, 1]", "degree", (2, 4, 8, 16, 32, 60), {"target": "oscillating", "radius": "1"}),
    ("dense in three variables, B = 1", "degree", (2, 3, 4, 5, 6, 8, 10), _DENSE | {"radius": "1"}),
    (f"dense of degree {_DEGREE} in three variables", "radius", (), _DENSE | {"degree": _DEGREE}),
)
"""Title, axis, its ticks, and the cells that are drawn."""
_RANGE = {"float64": (1e-17, 1e2), "float32": (1e-9, 1e6)}


def draw(summary: Summary) -> Figure:
    """Draw errors over max |Q| against degree and radius, in two formats."""
    figure, panels = subplots(13, 7.6, 2, 3, sharey="row")
    for row, name in zip(panels, _RANGE, strict=True):
        for axes, (title, x, ticks, where) in zip(row, _PANELS, strict=True):
            _curves(axes, summary.select(**where, format=name), x)
            axes.set(xscale="log", yscale="log", xlabel=_AXES[x], title=title)
            axes.axhspan(1, _RANGE[name][1], color="#f3f4f6", zorder=0)
            if ticks:
                axes.set_xticks(ticks, [str(tick) for tick in ticks])
                axes.minorticks_off()
        row[0].set(ylim=_RANGE[name], ylabel=f"{name}: largest error / max |Q|")
        small: Any = {"transform": row[0].transAxes, "va": "top", "fontsize": 7, "color": GREY}
        row[0].text(0.02, 0.985, "no digit is right", **small)
    rings = {"marker": "o", "linestyle": "", "color": GREY}
    legend(
        figure,
        {
            **{name: {"color": c, "marker": marker} for name, (c, marker) in _LOOK.items()},
            "observed, every matrix": rings,
            "certified, every matrix": {"linestyle": "-", "color": GREY},
            "observed, closed form": {**rings, "fillstyle": "none", "markersize": 6.5},
            "certified, closed form": {"linestyle": ":", "color": GREY},
        },
        fontsize=8.5,
    )
    return figure


def _curves(axes: Axes, cells: Sequence[Cell], x: str) -> None:
    found = frame_of(cells).assign(x=[float(Fraction(cell.parameters[x])) for cell in cells])
    for construction, (colour, marker) in _LOOK.items():
        mine = found[found["construction"] == construction].sort_values("x")
        literal = mine.dropna(subset="literal")
        above = construction == "doubling"  # on the very line of scaled
        line: Any = {"linestyle": (0, (4, 4)) if above else "-", "zorder": 3 if above else 2}
        axes.plot(literal["x"], literal["literal bound"], color=colour, linewidth=1.6, **line)
        look: Any = {"marker": marker, "linestyle": "", "color": colour}
        axes.plot(literal["x"], literal["literal"], markersize=4.5, zorder=4, **look)
        if construction in _CLOSED_FORMS:
            axes.plot(mine["x"], mine["fused bound"], ":", color=colour, linewidth=1.1)
            look |= {"markersize": 6.5, "fillstyle": "none", "markeredgewidth": 0.7, "zorder": 3}
            axes.plot(mine["x"], mine["fused"], **look)


EXPERIMENT = Experiment(
    name="accuracy-by-construction",
    title="How accurate every construction is, by degree and radius",
    claim=(
        "The theorem's matrices lose digits with the radius, powers with the degree; scaled features "
        "and Chebyshev blocks do not, and every error stays below its certificate."
    ),
    source="Fang et al. 2022, Theorem 3.5, and four constructions that depart from it",
    cells=cells,
    run=run,
    quantities=_quantities,
    figure=draw,
)


@EXPERIMENT.states("no observed error passes its certified bound, in either executor")
def _(summary: Summary) -> bool:
    return all(error <= bound for cell in summary.cells for error, bound in pairs(cell))


@EXPERIMENT.states("the paper's error at B = 100 is a thousand times that at B = 1")
def _(summary: Summary) -> bool:
    return all(
        summary[f"dense, B = 100, {f}, paper"] >= 1000 * summary[f"dense, B = 1, {f}, paper"]
        for f in FORMATS
    )


@EXPERIMENT.states("all others are as accurate on every radius as on B = 1, within 4×")
def _(summary: Summary) -> bool:
    return all(
        cell.metrics["literal"] <= 4 * summary[f"dense, B = 1, {cell.parameters['format']}, {c}"]
        for c in STEADY
        for cell in summary.select(target="dense", construction=c, degree=_DEGREE)
    )


@EXPERIMENT.states("in powers T_16 costs at least a thousand times the error of T_4")
def _(summary: Summary) -> bool:
    return all(
        summary[f"T_16, {f}, {c}"] >= 1000 * summary[f"T_4, {f}, {c}"]
        for f in FORMATS
        for c in POWERS
    )


@EXPERIMENT.states(
    "in Chebyshev blocks the error of T_q over q² is that of T_4, within 2×, up to T_60"
)
def _(summary: Summary) -> bool:
    return all(
        cell.metrics["literal"] / cell.parameters["degree"] ** 2
        <= 2 * summary[f"T_4, {cell.parameters['format']}, chebyshev"] / 4**2
        for cell in summary.select(target="oscillating", construction="chebyshev")
    )


@EXPERIMENT.states(
    "in float64 T_60 is within 1e-12 in Chebyshev blocks, and closer in their closed form"
)
def _(summary: Summary) -> bool:
    literal, fused = (summary[f"T_60, float64, chebyshev{e}"] for e in ("", ", closed form"))
    return fused <= literal <= 1e-12


@EXPERIMENT.states("doubling, Chebyshev and softmax models have ⌈log₂ q⌉ blocks")
def _(summary: Summary) -> bool:
    return all(
        cell.metrics["depth"] == (cell.parameters["degree"] - 1).bit_length()
        for c in ("doubling", "chebyshev", "softmax")
        for cell in summary.select(construction=c)
    )
