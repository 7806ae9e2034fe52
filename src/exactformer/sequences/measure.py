"""Distance of a sequence model from its map: d_p by Monte Carlo, with its standard error, by parts.

    d_p(f, g)^p = E ‖f(X) − g(X)‖_p^p,    X uniform on the support's cube, ‖·‖_p over all nd entries.

The bounds of :mod:`exactformer.sequences.proof.error` are on the same number.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb, factorial, inf, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from exactformer.algebra.rational import to_float
from exactformer.core.certificate import Measured
from exactformer.core.options import check_draw
from exactformer.core.upper import Upper, float_above
from exactformer.errors import InputError
from exactformer.sequences.grid import Grid
from exactformer.sequences.model import SequenceModel
from exactformer.sequences.proof.error import norm, power
from exactformer.sequences.proof.softness import narrowest_ramp
from exactformer.sequences.soft_model import SoftSequenceModel
from exactformer.sequences.tabulate import SequenceMap, evaluate

Floats = NDArray[np.float64]
_BATCH = 4096
ESTIMATE_SAMPLES = 2000
MOST_EQUAL_CLASSES = 100_000
"""Classes with equal columns that f is evaluated on; beyond, its largest norm is used."""


def measure_distance(
    model: SequenceModel, target: SequenceMap | None, samples: int, seed: int, p: float
) -> Measured:
    """Measure d_p between a model and a map, another model, or the model's own table.

    The p-th powers of the parts add up to that of the whole. *equal columns* are inputs with two
    tokens in one cell (where the form discards them), *ramps* others with a coordinate on a ramp of
    the quantiser, *smooth* is the rest.
    """
    check_draw(samples, seed)
    if not 1 <= p < inf:
        raise InputError(f"p={p} must be at least 1 and finite")
    grid = model.table.grid
    generator = np.random.default_rng(seed)
    powers, parts = [], []
    for done in range(0, samples, _BATCH):
        x = draw(grid, min(_BATCH, samples - done), generator)
        with torch.no_grad():
            found, wanted = model(x).cpu().numpy(), _wanted(model, target, x)
        powers.append((np.abs(found - wanted) ** p).sum(axis=(1, 2)))
        parts.append(_parts(model, x))
    costs, part = np.concatenate(powers), np.concatenate(parts)

    def measured(chosen: Any, split: Mapping[str, Measured] | None = None) -> Measured:
        value, error = _root(costs * chosen, p)
        return Measured(value, error, samples, seed, f"d_{p:g}(target, model)", split or {})

    names = [name for k, name in enumerate(PARTS) if (part == k).any()]
    return measured(1, {name: measured(part == PARTS.index(name)) for name in names})


def _wanted(model: SequenceModel, target: SequenceMap | None, x: Floats) -> Floats:
    if isinstance(target, SequenceModel):
        return np.asarray(target(x).cpu())
    grid = model.table.grid
    if target is not None:
        return np.stack([np.asarray(evaluate(target, s, grid), dtype=np.float64) for s in x])
    ids = model.quantise(x).cpu().numpy() @ (grid.cells ** np.arange(grid.dim))
    tables = (model.table.at(tuple(row)) for row in ids.astype(np.int64).tolist())
    return np.array([[[to_float(v) for v in token] for token in values] for values in tables])


def estimate_modulus(
    f: SequenceMap, grid: Grid, p: float, sample: str, samples: int = ESTIMATE_SAMPLES
) -> float:
    """Return the largest ‖f(X) − f(C)‖_p/‖X − C‖_p met, C being where X's cell is sampled.

    It estimates a Lipschitz constant at the scale of a cell, from below.
    """
    x = draw(grid, samples, np.random.default_rng(0))
    low, high = (float(end) for end in grid.support)
    side = (high - low) / grid.cells
    inside = np.floor((x - low) / side)
    c = low + side * (inside + (0.5 if sample == "centre" else 0.0))
    ratios = [
        _norm(
            np.asarray(evaluate(f, a, grid), dtype=float)
            - np.asarray(evaluate(f, b, grid), dtype=float),
            p,
        )
        / max(_norm(a - b, p), np.finfo(float).tiny)
        for a, b in zip(x, c, strict=True)
    ]
    return max(ratios)


def equal_column_norm(f: SequenceMap, grid: Grid, p: float, sample: str) -> float | None:
    """Return the norm of f at the points of all cells with equal columns; None if they are many.

    This is (Σ mass·‖f‖_p^p)^(1/p) over classes with equal columns; f being equivariant, one order of
    the columns stands for all.
    """
    n, D = grid.tokens, grid.points
    if grid.positional or grid.repeats:
        return 0.0
    if comb(D + n - 1, n) - comb(D, n) > MOST_EQUAL_CLASSES:
        return None
    place = grid.centre if sample == "centre" else grid.corner
    points = [[float(v) for v in place(column)] for column in range(D)]
    shares, norms = [], []
    for ids in combinations_with_replacement(range(D), n):
        if len(set(ids)) == n:
            continue
        orders = factorial(n) // prod(factorial(ids.count(k)) for k in set(ids))
        y = np.asarray(evaluate(f, np.array([points[k] for k in ids]), grid), dtype=float)
        shares.append(float_above(Fraction(orders, D**n)))
        norms.append(y.ravel())
    largest = norm(np.array(norms), p)  # (Σ mass·‖f‖^p)^(1/p), rounded up
    mass = power(Upper(np.array(shares)), 1 / Fraction(p))
    return float(norm((largest * mass.values).values, p))


def draw(grid: Grid, count: int, generator: np.random.Generator) -> Floats:
    """Return random sequences, ``(count, n, d)``, uniform on the cube."""
    low, high = (float_above(end) for end in grid.support)
    drawn = generator.uniform(low, high, size=(count, grid.tokens, grid.dim))
    return np.minimum(drawn, np.nextafter(high, low))  # rounding may reach the open end


PARTS = ("smooth", "equal columns", "ramps")


def _parts(model: SequenceModel, x: Floats) -> NDArray[np.int64]:
    """Classify every sequence, as an index into ``PARTS``."""
    grid = model.table.grid
    cells = model.quantise(x).cpu().numpy()
    part = np.zeros(len(x), dtype=np.int64)
    ramp = None
    if isinstance(model, SoftSequenceModel):
        ramp = narrowest_ramp(model.blueprint, model.limit)
    if ramp is not None:
        low, high = (float(end) for end in grid.support)
        place = (x - low) * grid.cells / (high - low) - cells
        # Ramps end a cell, or begin it in the four-layer form.
        along = place if grid.repeats else 1 - place
        part[(along < float(ramp)).any(axis=(1, 2))] = PARTS.index("ramps")
    if not (grid.positional or grid.repeats):
        ids = np.sort(cells @ (float(grid.cells) ** np.arange(grid.dim)), axis=1)
        part[(ids[:, 1:] == ids[:, :-1]).any(axis=1)] = PARTS.index("equal columns")
    return part


def _norm(values: Floats, p: float) -> float:
    return float((np.abs(values) ** p).sum() ** (1 / p))


def _root(powers: Floats, p: float) -> tuple[float, float]:
    """Return the p-th root of a mean and its standard error, taken through the root."""
    mean = float(powers.mean())
    deviation = float(powers.std(ddof=1)) / len(powers) ** 0.5
    value = mean ** (1 / p)
    return value, deviation * value / (p * mean) if mean else 0.0
