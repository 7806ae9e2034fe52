"""A coupling's kernel, by name, formula or drawn; its singular values, and what a head loses of it.

Tokens are uniform on [0, 1], so all norms are for that probability. With f and F the identity, the term
of the bound of Theorem 4.1 that head size decides is R_f √P B per token, R_f = 1/2, where
B² = (τ − 1)T² + D² holds the tail T of the singular values and the diagonal D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from exactformer.errors import InputError, SizeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from exactformer.theory import Decomposition


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


KINDS = (*FAMILIES, "formula", "drawn")
TAU = 16
"""Tokens of a sequence in the bound."""
NODES = 256
MOST_TERMS = 32
MODES = 6
SIDE = 36
LONGEST_FORMULA = 200
LONGEST_DRAWING = 4000
KEPT = 16
RADIUS_F = 0.5
SIZES = 1e-100, 1e100
"""How large a kernel's largest value may be: squares of smaller or larger ones leave the floats."""


@dataclass(frozen=True)
class CouplingRequest:
    """A kernel and a head size."""

    kernel: Annotated[str, Field(max_length=40)] = "sines"
    parameter: Annotated[float | None, Field(ge=0, le=1e6, allow_inf_nan=False)] = None
    formula: Annotated[str, Field(max_length=LONGEST_FORMULA)] = "u v + (u - v)^2"
    drawing: Annotated[str, Field(max_length=LONGEST_DRAWING)] = "1,0,0,0;0,1,0,0;0,0,1,0;0,0,0,1"
    head_dim: Annotated[int, Field(ge=0, le=MOST_TERMS)] = 4

    def __post_init__(self) -> None:
        if self.kernel not in KINDS:
            raise InputError(f"kernel={self.kernel!r}; choose one of {', '.join(KINDS)}")
        if len(self.formula) > LONGEST_FORMULA or len(self.drawing) > LONGEST_DRAWING:
            raise SizeError(
                f"a formula has at most {LONGEST_FORMULA} characters, a drawing {LONGEST_DRAWING:,}"
            )
        if self.parameter is not None and not isfinite(self.parameter):
            raise InputError(f"a parameter is a finite number, not {self.parameter}")
        if not 0 <= self.head_dim <= MOST_TERMS:
            raise InputError(f"a head has 0 to {MOST_TERMS} dimensions here, not {self.head_dim}")

    @property
    def strength(self) -> float:
        """The family's parameter: as given within its range, or the usual one."""
        family = FAMILIES[self.kernel]
        if self.parameter is None:
            return family.usual
        if family.parameter and not family.least <= self.parameter <= family.most:
            raise InputError(
                f"{family.parameter} of {family.name} is between {family.least:g} and "
                f"{family.most:g}, not {self.parameter:g}"
            )
        return self.parameter


def kernel_of(request: CouplingRequest) -> Kernel:
    """Return ρ as a function of two arrays."""
    if request.kernel == "formula":
        return formula_kernel(request.formula)
    if request.kernel == "drawn":
        return drawn_kernel(request.drawing)
    return FAMILIES[request.kernel].kernel(request.strength)


def decomposition_of(request: CouplingRequest) -> Decomposition:
    """Return the singular values and functions of ρ, from memory if they were among the last."""
    return _decomposition(replace(request, head_dim=0))


@lru_cache(maxsize=KEPT)
def _decomposition(request: CouplingRequest) -> Decomposition:
    from exactformer.theory import pod

    return pod(kernel_of(request), measure="probability", max_nodes=NODES)


def decompose(request: CouplingRequest) -> dict[str, Any]:
    """Return the kernel, its first m terms, what is lost, and what that costs in the bound."""
    import numpy as np

    from exactformer.theory.decomposition import evaluate

    points = (np.arange(SIDE) + 0.5) / SIDE
    exact = evaluate(kernel_of(request), points, points)
    _check_size(float(np.abs(exact).max()))
    found = decomposition_of(request)
    m = min(request.head_dim, found.rank)
    kept = found.truncate(m)
    cut = kept.matrix(points, points) if m else np.zeros_like(exact)
    sigma = found.singular_values
    return {
        "request": asdict(request),
        "points": points.tolist(),
        "kernel": exact.tolist(),
        "truncated": cut.tolist(),
        "difference": (exact - cut).tolist(),
        "largest_difference": float(np.abs(exact - cut).max()),
        "singular_values": sigma[:MOST_TERMS].tolist(),
        "rank": found.rank,
        "digits": found.digits,
        "error": found.error,
        "decay": str(found.decay()) if found.rank else "the kernel is zero",
        "modes": _modes(found, points),
        "head_dim": m,
        "norm": found.tail(0),
        "tail": found.tail(m),
        "energy": _share(found.tail(m), found.tail(0)),
        "tails": [found.tail(k) for k in range(min(found.rank, MOST_TERMS) + 1)],
        "bound": _bound_term(kept),
    }


def _check_size(largest: float) -> None:
    if largest and not SIZES[0] <= largest <= SIZES[1]:
        raise InputError(
            f"the kernel's largest value is about {largest:.0e}; scale it to between {SIZES[0]:.0e} "
            f"and {SIZES[1]:.0e}"
        )


def _modes(found: Decomposition, points: Any) -> dict[str, Any]:
    """Return the first singular functions at points."""
    first = found.truncate(min(MODES, found.rank))
    if not first.rank:
        return {"left": [], "right": []}
    return {"left": first.left(points).T.tolist(), "right": first.right(points).T.tolist()}


def _share(tail: float, norm: float) -> float:
    """Return the part of ∫∫ρ² that is lost."""
    return (tail / norm) ** 2 if norm else 0.0


def _bound_term(kept: Decomposition) -> dict[str, float]:
    """Return the truncation term of the bound, per token, and its parts."""
    from exactformer.theory.truncation import largest_weight, truncation_errors

    errors, diagonal = truncation_errors(((0.0, 1.0),), TAU, kept)
    weight = largest_weight(TAU, kept, 0.0)
    return {
        "tau": TAU,
        "tail": kept.remainder,
        "diagonal": diagonal,
        "scores": float(errors[0]),
        "largest_weight": weight,
        "term": RADIUS_F * weight**0.5 * float(errors[0]),
    }
