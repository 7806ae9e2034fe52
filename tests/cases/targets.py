"""One table of targets and domains on which every way of building and running a model must agree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

F2 = "x1^5 + 3 x2^4 + 2 x3^3 + 5 x3 x4 + 3 x5^2 + 2 x6 x7 x8 + 2 x9"


class Case(NamedTuple):
    """A target and where it is to be right."""

    name: str
    target: str
    where: dict[str, Any]


CASES = (
    Case("linear", "3 x - y/7 + 2", {"radius": 3}),
    Case("constant", "7/2", {"radius": 2}),
    Case("one variable, degree 9", "x^9 - 3 x^4 + x/3", {"radius": "3/2"}),
    Case("dense form", "(x - 2 y + z/2)^3 (x + y) - z", {"radius": 1}),
    Case("far ball of a small radius", "x^4 y + 100 x", {"radius": "1/100"}),
    Case("f2", F2, {"radius": 4}),
    Case("box off the origin", "x^3 y^2 - x y + 1", {"domain": [(1, 2), ("-1/3", 5)]}),
    Case("vector", "x^5 + y; x y^2 - 3; 7; y", {"radius": 2}),
    Case("vector of one on an interval", "(x - 1)^6;", {"domain": [("1/2", 3)]}),
)


def points(blueprint: Any, count: int, seed: int = 0) -> NDArray[np.float64]:
    """Return points of a blueprint's domain: inside, and on its boundary."""
    domain, d = blueprint.domain, len(blueprint.variables)
    rng = np.random.default_rng(seed)
    centre = np.array([float(domain.offset(j)) for j in range(d)])
    extent = np.array([float(domain.extent(j)) for j in range(d)])
    local = rng.uniform(-1, 1, (count, d))
    if type(domain).__name__ == "Ball":
        norms = np.linalg.norm(local, axis=1, keepdims=True)
        local /= np.where(norms > 0, np.maximum(norms, rng.random((count, 1)) < 0.3), 1)
    else:
        rounded = np.sign(local)
        local = np.where(rng.random((count, d)) < 0.2, rounded, local)
    return centre + extent * local * (1 - 2.0**-7)  # room to round to any format
