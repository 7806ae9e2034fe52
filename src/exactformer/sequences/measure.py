"""How far a sequence model is from its map: d_p by Monte Carlo, with its standard error, by parts.

    d_p(f, g)^p = E ‖f(X) − g(X)‖_p^p,    X uniform on the support's cube, ‖·‖_p over all nd entries.

The bounds of :mod:`exactformer.sequences.proof.error` are on the same number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from exactformer.errors import InputError
from exactformer.sequences.grid import Grid
from exactformer.sequences.model import SequenceModel
from exactformer.sequences.proof.softness import narrowest_ramp
from exactformer.sequences.soft_model import SoftSequenceModel
from exactformer.sequences.tabulate import SequenceMap, evaluate

Floats = NDArray[np.float64]
_BATCH = 4096
ESTIMATE_SAMPLES = 2000
MOST_EQUAL_CLASSES = 100_000
"""Classes with equal columns that f is evaluated on; beyond, its largest norm is used."""


@dataclass(frozen=True)
class MeasuredError:
    """A mean over random inputs and its standard error."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.standard_error:.1g}"


@dataclass(frozen=True)
class MeasuredSequenceError(MeasuredError):
    """d_p as measured; ``parts`` are the distances that parts of the inputs contribute.

    Their p-th powers add up to that of the whole. *equal columns* are inputs with two columns in one
    cell (where the form discards them), *ramps* others with a coordinate on a ramp of the quantiser,
    *smooth* is the rest.
    """

    p: float
    samples: int
    seed: int
    parts: Mapping[str, MeasuredError]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def measure_sequence_error(
    model: SequenceModel,
    f: SequenceMap | SequenceModel,
    p: float = 2,
    samples: int = 10_000,
    seed: int = 0,
) -> MeasuredSequenceError:
    """Measure d_p between a map and a model, or between two models, on random inputs.

    Args:
        model: what :func:`compile_sequence` returned.
        f: the map: takes a (d, n) array, one column a token, and returns one; or another model.
        p: the exponent, at least 1.
        samples: how many inputs are drawn, uniformly from the support's cube.
        seed: of the draw.

    >>> import exactformer as ef
    >>> f = lambda X: X - X.mean(axis=1, keepdims=True)
    >>> model = ef.compile_sequence(f, tokens=2, dim=1, delta="1/8", form="four-layer")
    >>> error = ef.measure_sequence_error(model, f, samples=4000)
    >>> abs(error.value - (1 / 8) / 12**0.5) < 3 * error.standard_error
    True
    """
    if samples < 2 or p < 1:
        raise InputError(f"samples={samples} must be at least 2, and p={p} at least 1")
    grid = model.table.grid
    generator = np.random.default_rng(seed)
    powers, parts = [], []
    for done in range(0, samples, _BATCH):
        x = draw(grid, min(_BATCH, samples - done), generator)
        with torch.no_grad():
            found = model(x).cpu().numpy()
            if isinstance(f, SequenceModel):
                wanted = f(x).cpu().numpy()
            else:
                wanted = np.stack([np.asarray(evaluate(f, s.T, grid)).T for s in x])
        powers.append((np.abs(found - wanted) ** p).sum(axis=(1, 2)))
        parts.append(_parts(model, x))
    power, part = np.concatenate(powers), np.concatenate(parts)
    whole = _root(power, p)
    names = [name for k, name in enumerate(PARTS) if (part == k).any()]
    split = {name: _root(power * (part == PARTS.index(name)), p) for name in names}
    return MeasuredSequenceError(whole.value, whole.standard_error, float(p), samples, seed, split)


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
            np.asarray(evaluate(f, a.T, grid), dtype=float)
            - np.asarray(evaluate(f, b.T, grid), dtype=float),
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
    total = 0.0
    for ids in combinations_with_replacement(range(D), n):
        if len(set(ids)) == n:
            continue
        orders = factorial(n) / prod(factorial(ids.count(k)) for k in set(ids))
        y = np.asarray(evaluate(f, np.array([points[k] for k in ids]).T, grid), dtype=float)
        total += orders / D**n * _norm(y, p) ** p
    return float(total ** (1 / p))


def draw(grid: Grid, count: int, generator: np.random.Generator) -> Floats:
    """Return random sequences, ``(count, n, d)``, uniform on the cube."""
    low, high = (float(end) for end in grid.support)
    return generator.uniform(low, high, size=(count, grid.tokens, grid.dim))


PARTS = ("smooth", "equal columns", "ramps")


def _parts(model: SequenceModel, x: Floats) -> NDArray[np.int64]:
    """Say of every sequence to which part it belongs, as an index into ``PARTS``."""
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


def _root(powers: Floats, p: float) -> MeasuredError:
    """Return the p-th root of a mean, its standard error taken through the root."""
    mean = float(powers.mean())
    deviation = float(powers.std(ddof=1)) / len(powers) ** 0.5
    value = mean ** (1 / p)
    return MeasuredError(value, deviation * value / (p * mean) if mean else 0.0)
