"""A coupling's kernel, its singular values, and what a head of m dimensions loses of it.

Tokens are uniform on [0, 1], so all norms are for that probability. With f and F the identity, the term
of the bound of Theorem 4.1 that head size decides is R_f √P B per token, R_f = 1/2, where
B² = (τ − 1)T² + D² holds the tail T of the singular values and the diagonal D.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from exactformer.errors import InputError, SizeError
from exactformer.studio.playground.kernels import (
    FAMILIES,
    Kernel,
    drawn_kernel,
    formula_kernel,
)

if TYPE_CHECKING:
    from exactformer.theory import Decomposition

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

    kernel: str = "sines"
    parameter: float | None = None
    formula: str = "u v + (u - v)^2"
    drawing: str = "1,0,0,0;0,1,0,0;0,0,1,0;0,0,0,1"
    head_dim: int = 4

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
