"""The polynomials that benchmarks share, and points at which to evaluate them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from exactformer.algebra import Polynomial
from exactformer.algebra.ridge.lattice import lattice_points

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


@dataclass(frozen=True)
class Case:
    """f₂* of the paper, or every monomial of degree ≤ q in d variables, and a ball."""

    name: str
    radius: int = 1

    @cached_property
    def target(self) -> Polynomial:
        """The polynomial; dense ones have whole coefficients from 1 to 99, the same every time."""
        if self.name == "f2":
            return Polynomial.parse(F2, _names(10))
        d, q = self.size
        rng = np.random.default_rng(0)
        terms = {a: int(rng.integers(1, 100)) for s in range(q + 1) for a in lattice_points(d, s)}
        return Polynomial.from_terms(terms, _names(d))

    @property
    def size(self) -> tuple[int, int]:
        """d and q."""
        if self.name == "f2":
            return 10, 5
        d, q = self.name.split()[1:]
        return int(d), int(q)

    @property
    def label(self) -> str:
        """How tables call it."""
        return "f₂*" if self.name == "f2" else f"dense {self.size}"

    def points(self, count: int, dtype: Any = np.float64) -> np.ndarray:
        """Return points of the ball, directions and radii uniform."""
        rng = np.random.default_rng(count)
        points = rng.normal(size=(count, self.size[0]))
        reach = 0.999 * self.radius * rng.uniform(size=(count, 1))
        points *= reach / np.linalg.norm(points, axis=1, keepdims=True)
        return points.astype(dtype)


def _names(d: int) -> list[str]:
    return [f"x{i + 1}" for i in range(d)]


CASES = (
    Case("f2", 4),
    Case("dense 2 20"),
    Case("dense 4 8"),
    Case("dense 10 3"),
    Case("dense 10 5"),
)
