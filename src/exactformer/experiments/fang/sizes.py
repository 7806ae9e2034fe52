"""What fang-noise varies, what a cell of it says, and the limit σ²p/n."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from exactformer.experiments.engine.cell import Cell
from exactformer.experiments.engine.experiment import Scale
from exactformer.experiments.fang.data import TARGETS
from exactformer.experiments.fang.learning import SOLVERS


@dataclass(frozen=True)
class Sweep:
    """One target: which solvers, sample sizes at σ = 1, and noise levels at the largest size."""

    target: str
    solvers: tuple[str, ...]
    sizes: tuple[int, ...]
    noises: tuple[float, ...]
    epochs: int = 600


_ALL = ("sgd", *SOLVERS)
_NOISES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
SEEDS = {Scale.SMOKE: 2, Scale.DEFAULT: 3, Scale.PAPER: 5}
SWEEPS = {
    Scale.SMOKE: (
        Sweep("f1", _ALL, (100, 1000), (0.001, 1.0), 300),
        Sweep("f2-small", SOLVERS, (300, 2000), (0.001, 1.0)),
    ),
    Scale.DEFAULT: (
        Sweep("f1", _ALL, (100, 300, 1000, 3000, 9000), _NOISES),
        Sweep("f2", SOLVERS, (4500, 9000, 18_000), _NOISES),
    ),
    Scale.PAPER: (
        Sweep("f1", _ALL, (100, 300, 1000, 3000, 9000), _NOISES),
        Sweep("f2", SOLVERS, (4500, 9000, 18_000, 45_000), _NOISES),
    ),
}


def limit(target: str, solver: str, noise: float, size: int) -> float:
    """Return σ²p/n: p counts the target's own terms for the sparse solver, else all terms."""
    polynomial = TARGETS[target]
    count = comb(polynomial.dimension + polynomial.degree, polynomial.degree)
    return noise**2 * (len(polynomial.terms) if solver == "sparse" else count) / size


def errors_by_noise(cells: Sequence[Cell]) -> dict[float, float]:
    """Return {σ: error} of one seed at the largest sample size."""
    largest = max(cells, key=lambda cell: int(cell.parameters["train"]))
    return dict(zip(largest.parameters["noises"], largest.metrics["test"], strict=True))


def errors_by_size(cells: Sequence[Cell]) -> dict[int, float]:
    """Return {n: error} of one seed at σ = 1."""
    found = {
        int(c.parameters["train"]): float(c.metrics["test"][c.parameters["noises"].index(1.0)])
        for c in cells
    }
    return dict(sorted(found.items()))
