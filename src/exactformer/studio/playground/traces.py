"""What happens inside a compiled model at one point, and the surface round it.

Everything is what the library computes: the streams, scores and selections of ``model.trace``, the
value of ``model``, and beside it the polynomial at that point in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from exactformer.algebra.rational import to_float
from exactformer.errors import InputError
from exactformer.studio.playground.panels import exact_text, number, values_panel
from exactformer.studio.playground.polynomial import (
    LONGEST_NUMBER,
    PolynomialRequest,
    compiled,
    read,
)
from exactformer.studio.playground.walk import walk

if TYPE_CHECKING:
    from torch import Tensor

    from exactformer.polynomials.model import PolynomialModel

MOST_HEADS = 24
"""Heads whose attention is shown, from the first block on."""
SIDE = 32
"""Steps of a surface along either variable."""
RINGS, SPOKES = 14, 56
"""Circles and rays of a surface that is drawn, up to the very rim of the ball."""
CURVE = 192
FARTHEST = 2**500
"""The largest radius there is."""


def point_of(text: str, dimension: int) -> list[Fraction]:
    """Read a point such as ``0.5, -1/3``, exactly; nothing stands for the origin."""
    from exactformer.core.given_domain import exact_number

    parts = [part.strip() for part in text.split(",")] if text.strip() else ["0"] * dimension
    if len(parts) != dimension:
        raise InputError(f"the point x has {len(parts)} coordinates; the polynomial {dimension}")
    if any(len(part) > LONGEST_NUMBER for part in parts):
        raise InputError(f"a coordinate has more than {LONGEST_NUMBER} characters")
    point = [exact_number(part) for part in parts]
    if any(abs(coordinate) > FARTHEST for coordinate in point):
        raise InputError(f"x={text[:40]!r} is farther from the centre than any radius reaches")
    return point


def trace(request: PolynomialRequest, x: str = "") -> dict[str, Any]:
    """Return streams, attention and output at one point."""
    model = compiled(request)
    blueprint = model.blueprint
    point = _rounded(model, [point_of(x, len(blueprint.variables))])[0]
    seen = model.trace(point)
    tokens = [f"token {i + 1}" for i in range(blueprint.tokens)]
    streams = [
        {"name": name, **_panel(tensor, tokens, blueprint.dimensions)}
        for name, tensor in seen.items()
        if tensor.dim() == 2 and not name.endswith((" scores", " selection"))
    ]
    heads = [name.removesuffix(" scores") for name in seen if name.endswith(" scores")]
    attention = [
        {
            "name": head,
            "scores": _panel(seen[f"{head} scores"], tokens, tokens),
            "selection": _panel(seen[f"{head} selection"], tokens, tokens),
        }
        for head in heads[:MOST_HEADS]
    ]
    value = float(model(point))
    exact = read(request.polynomial).at(point.double().tolist())
    return {
        "x": point.double().tolist(),
        "walk": walk(blueprint, seen, point.double().tolist(), value),
        "streams": streams,
        "attention": attention,
        "heads": len(heads),
        "output": number(value),
        "literal": number(float(seen["output"])),
        "target": number(to_float(exact)),
        "target_exact": exact_text(exact),
        "difference": number(to_float(abs(Fraction(value) - exact))),
        "bound": model.certificate.bound(model.dtype, model.executor),
    }


def surface(request: PolynomialRequest, x: str = "", axes: str = "") -> dict[str, Any]:
    """Return model, target and difference on a slice through x: a curve, or a surface."""
    model = compiled(request)
    names = model.blueprint.variables
    centre = point_of(x, len(names))
    chosen = _axes(axes, names)
    radius = model.blueprint.radius
    steps = CURVE if len(chosen) == 1 else SIDE
    line = [radius * (2 * k - steps) / steps for k in range(steps + 1)] if chosen else []
    places = [(i, j) for i in range(len(line)) for j in range(len(line) if len(chosen) > 1 else 1)]
    points = []
    for place in places:
        point = list(centre)
        for axis, k in zip(chosen, place, strict=False):
            point[axis] = line[k]
        points.append(point)
    inside = [k for k, p in enumerate(points) if sum(c * c for c in p) <= radius * radius]
    found = _values(model, request, [points[k] for k in inside])
    shape = len(line), len(line) if len(chosen) > 1 else 1
    grids: dict[str, list[list[float | None]]] = {
        name: [[None] * shape[1] for _ in range(shape[0])]
        for name in ("model", "target", "difference")
    }
    for k, values in zip(inside, found, strict=True):
        i, j = places[k]
        for grid, value in zip(grids.values(), values, strict=True):
            grid[i][j] = value
    return {
        "axes": [names[a] for a in chosen],
        "line": [float(v) for v in line],
        **grids,
        "disk": _disk(model, request, centre, chosen) if len(chosen) == 2 else None,
        "points": len(inside),
        "largest_difference": max((abs(d) for _, _, d in found), default=0.0),
        "bound": model.certificate.bound(model.dtype, model.executor),
    }


def _disk(
    model: PolynomialModel, request: PolynomialRequest, centre: list[Fraction], axes: list[int]
) -> dict[str, Any] | None:
    """Return places and values on circles about the middle of the slice, the last one at its rim."""
    from math import cos, pi, sin, sqrt

    rest = sum(c * c for k, c in enumerate(centre) if k not in axes)
    room = model.blueprint.radius**2 - rest
    if room <= 0:
        return None
    rim = sqrt(float(room)) * (1 - 2.0**-20)  # rounding must not carry the rim over the boundary
    rings = [rim * k / RINGS for k in range(1, RINGS + 1)]
    turns = [2 * pi * k / SPOKES for k in range(SPOKES)]
    places = [(0.0, 0.0), *((r * cos(turn), r * sin(turn)) for r in rings for turn in turns)]
    points = []
    for place in places:
        point = list(centre)
        for axis, coordinate in zip(axes, place, strict=True):
            point[axis] = Fraction(coordinate)
        points.append(point)
    found = _values(model, request, points)
    names = ("model", "target", "difference")
    return {
        "spokes": SPOKES,
        "places": [list(place) for place in places],
        **{name: [values[k] for values in found] for k, name in enumerate(names)},
    }


def _values(
    model: PolynomialModel, request: PolynomialRequest, points: list[list[Fraction]]
) -> list[tuple[float, float, float]]:
    """Return the model's values, the polynomial's, and the difference, formed exactly."""
    if not points:
        return []
    rounded = _rounded(model, points)
    target, radius = read(request.polynomial), float(model.blueprint.radius)
    # Rounding to a narrow format may carry a point over the boundary; pull such points back.
    norms = rounded.double().norm(dim=-1)
    rounded[norms > radius] *= 1 - 2.0**-6
    values = model(rounded).double().tolist()
    exact = (target.at(point) for point in rounded.double().tolist())
    return [
        (number(v), number(to_float(e)), number(to_float(Fraction(v) - e)))
        for v, e in zip(values, exact, strict=True)
    ]


def _axes(text: str, names: Sequence[str]) -> list[int]:
    """Return the one or two variables along which to go; the first ones unless named."""
    wanted = [name.strip() for name in text.split(",") if name.strip()] or list(names[:2])
    for name in wanted:
        if name not in names:
            raise InputError(f"axes={text!r}: there is no variable {name!r} in this polynomial")
    if len(wanted) > 2 or len(set(wanted)) != len(wanted):
        raise InputError(f"axes={text!r}: name one variable, or two different ones")
    return [names.index(name) for name in wanted]


def _rounded(model: PolynomialModel, points: list[list[Fraction]]) -> Tensor:
    import torch

    floats = [[float(c) for c in point] for point in points]
    return torch.tensor(floats, dtype=torch.float64).to(model.dtype)


def _panel(tensor: Tensor, rows: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    return values_panel(tensor.detach().double().numpy(), rows, columns)
