"""Kernels ρ(u, v) on the unit square: by name, by formula, or drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exactformer.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kernel = Callable[[Any, Any], Any]
SINES = 64
LARGEST_DRAWING = 16
"""Rows and columns of a drawn kernel."""


@dataclass(frozen=True)
class Family:
    """A kernel with one parameter, if it has any."""

    name: str
    title: str
    formula: str
    """In TeX."""
    kernel: Callable[[float], Kernel]
    parameter: str = ""
    least: float = 0.0
    most: float = 0.0
    usual: float = 0.0


def _sines(decay: float) -> Kernel:
    import numpy as np

    from exactformer.targets import sine_family

    rho: Kernel = sine_family(np.arange(1, SINES + 1) ** -decay).rho
    return rho


def _minimum(_: float) -> Kernel:
    import numpy as np

    return np.minimum


def _gaussian(sharpness: float) -> Kernel:
    import numpy as np

    return lambda u, v: np.exp(-sharpness * (u - v) ** 2)


def _exponential(rate: float) -> Kernel:
    import numpy as np

    return lambda u, v: np.exp(-rate * np.abs(u - v))


def _step(_: float) -> Kernel:
    import numpy as np

    return lambda u, v: np.where(u >= v, 1.0, 0.0)


def _mixed(_: float) -> Kernel:
    import numpy as np

    turn = 2 * np.pi
    return lambda u, v: 1 + 2 * np.sin(turn * u) * np.sin(turn * (u + v))


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "sines",
            "Sines with prescribed decay",
            r"\sum_{k=1}^{64} k^{-\alpha}\, 2\sin(2\pi k u)\sin(2\pi k v)",
            _sines,
            "α",
            0.5,
            4.0,
            1.5,
        ),
        Family("minimum", "Minimum", r"\min(u, v)", _minimum),
        Family("gaussian", "Gaussian", r"e^{-c (u-v)^2}", _gaussian, "c", 0.5, 200.0, 20.0),
        Family("exponential", "Exponential", r"e^{-c |u-v|}", _exponential, "c", 0.25, 40.0, 4.0),
        Family("step", "Step: attend to what is before", r"[u \ge v]", _step),
        Family(
            "mixed",
            "Two sines, mixed in time",
            r"1 + 2\sin(2\pi u)\sin(2\pi(u+v))",
            _mixed,
        ),
    )
}
"""Every named kernel."""


def formula_kernel(text: str) -> Kernel:
    """Return a polynomial in u and v, read by the grammar."""
    import numpy as np

    from exactformer.studio.playground.polynomial import read

    polynomial = read(text).on(["u", "v"])

    def kernel(u: Any, v: Any) -> NDArray[np.float64]:
        points = np.stack(np.broadcast_arrays(u, v), axis=-1).astype(np.float64)
        return np.asarray(polynomial.evaluate(points))

    return kernel


def drawn_kernel(values: str) -> Kernel:
    """Return the kernel through values such as ``0,1;2,0``: rows are u, straight in between."""
    import numpy as np

    grid = drawing(values)
    last = np.array(grid.shape) - 1

    def kernel(u: Any, v: Any) -> NDArray[np.float64]:
        a, b = (np.asarray(s, dtype=np.float64) * n for s, n in zip((u, v), last, strict=True))
        i, j = (
            np.clip(np.floor(s), 0, n - 1).astype(int) for s, n in zip((a, b), last, strict=True)
        )
        s, t = a - i, b - j
        low = grid[i, j] * (1 - t) + grid[i, j + 1] * t
        high = grid[i + 1, j] * (1 - t) + grid[i + 1, j + 1] * t
        return np.asarray(low * (1 - s) + high * s)

    return kernel  # fmt: skip


def drawing(values: str) -> NDArray[np.float64]:
    """Read a drawn grid."""
    import numpy as np

    try:
        grid = np.array([[float(v) for v in row.split(",")] for row in values.split(";")])
    except ValueError:
        grid = np.empty(0)
    if grid.ndim != 2 or min(grid.shape) < 2 or max(grid.shape) > LARGEST_DRAWING:
        raise InputError(
            f"a drawing is 2 to {LARGEST_DRAWING} rows of as many numbers, rows between semicolons"
        )
    if not np.isfinite(grid).all() or np.abs(grid).max() > 1e6:
        raise InputError("a drawing has finite numbers up to a million")
    return grid
