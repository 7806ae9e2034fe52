"""Targets of couplings, their decompositions, and honest models of them as plain numbers.

A base is one target with one honest model. Bases are few and remembered, because a decomposition costs
more than all that is done to one candidate.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.couplings.blueprint import CouplingBlueprint
from exactformer.couplings.construction import coupling
from exactformer.couplings.interpolant import Interpolant, Interval, Knots
from exactformer.couplings.kuhn import KuhnInterpolant
from exactformer.couplings.proof.bound import bound_coupling
from exactformer.targets import Coupling, ProductKernel
from exactformer.theory import Decomposition, pod

Floats = NDArray[np.float64]
Function = Callable[[Any], Any]

BASES = 64
DOMAINS = ((0.0, 1.0), (-1.0, 1.0), (0.25, 0.75), (-3.0, 5.0), (100.0, 101.0), (0.1, 0.7))
NODES = 48
"""Nodes of the decompositions: few, so that those of a kink are far from exact, as they may be."""


@dataclass
class Draft:
    """The numbers of a blueprint, not yet checked, and the target that it is held against."""

    tau: int
    domain: Interval
    positions: tuple[Fraction, ...] | None
    head_dim: int
    intervals: tuple[Interval, ...]
    pieces: int
    values: Floats
    box: tuple[Interval, ...]
    outer_pieces: int
    outer_values: Floats
    metadata: dict[str, str]
    target: Coupling
    decomposition: Decomposition
    kinds: list[str] = field(default_factory=list)

    def blueprint(self) -> CouplingBlueprint:
        """Return the blueprint; raise an error of the package where the numbers do not make one."""
        outer: Interpolant | KuhnInterpolant
        if len(self.box) == 1:
            outer = Interpolant(Knots(self.box, self.outer_pieces), self.outer_values)
        else:
            outer = KuhnInterpolant(self.box, self.outer_pieces, self.outer_values)
        return CouplingBlueprint(
            tau=self.tau,
            domain=self.domain,
            positions=self.positions,
            head_dim=self.head_dim,
            features=Interpolant(Knots(self.intervals, self.pieces), self.values),
            outer=outer,
            metadata=dict(self.metadata),
        )

    @property
    def value_dim(self) -> int:
        """How many rows the values have."""
        return self.values.shape[1] - 2 * self.head_dim


@dataclass(frozen=True)
class Unit:
    """An affine map that takes the hull of some intervals to [−1, 1]."""

    low: float
    high: float

    def __call__(self, x: Any) -> Any:
        return (2 * x - self.low - self.high) / (self.high - self.low)


def honest_draft(index: int) -> Draft:
    """Return a fresh copy of the numbers of a base."""
    blueprint, target, decomposition, name = _base(index)
    outer = blueprint.outer
    plain = isinstance(outer, Interpolant)
    return Draft(
        tau=blueprint.tau,
        domain=blueprint.domain,
        positions=blueprint.positions,
        head_dim=blueprint.head_dim,
        intervals=blueprint.features.knots.intervals,
        pieces=blueprint.features.knots.pieces,
        values=blueprint.features.values.copy(),
        box=outer.knots.intervals if isinstance(outer, Interpolant) else outer.box,
        outer_pieces=outer.knots.pieces if isinstance(outer, Interpolant) else outer.pieces,
        outer_values=outer.values.copy(),
        metadata=dict(blueprint.metadata),
        target=target,
        decomposition=decomposition,
        kinds=[f"base: {name}, {'F of one' if plain else 'F of two'}"],
    )


def is_cheap(target: Coupling) -> bool:
    """Whether ρ is smooth, so that decomposing it to the last digit costs little."""
    return target.name in ("features", "bilinear", "distance", "wave", "constant")


@cache
def _base(index: int) -> tuple[CouplingBlueprint, Coupling, Decomposition, str]:
    rng = random.Random(f"coupling base {index}")
    tau, domain = rng.randint(2, 6), rng.choice(DOMAINS)
    positions = _positions(rng, tau, domain) if rng.random() < 0.35 else None
    ends = [end + e for end in domain for e in (positions if positions is not None else [0.0])]
    unit = Unit(min(ends), max(ends))
    name, rho = _kernel(rng, unit)
    two = rng.random() < 0.35
    f, F = (_values_in_two if two else _values_in_one)(rng, unit)
    target = Coupling(F, f, rho, tau, domain, positions, name=name)
    decomposition = pod(rho, target.intervals, measure="probability", max_nodes=NODES * tau)
    head_dim = rng.randint(1, 3)
    blueprint = coupling(
        decomposition.truncate(head_dim),
        f,
        F,
        tau=tau,
        head_dim=head_dim,
        ff_width=rng.choice((4, 8, 16)) + (tau if positions is not None else 0),
        domain=domain,
        positions=positions,
    )
    bound = bound_coupling(blueprint, target, decomposition)
    metadata = {"bound": json.dumps(bound.to_dict()), "target": name}
    return replace(blueprint, metadata=metadata), target, decomposition, name


def _positions(rng: random.Random, tau: int, domain: tuple[float, float]) -> Floats:
    length = domain[1] - domain[0]
    places = np.arange(tau) * length * rng.choice((1.125, 2.0, 3.3))
    rng.shuffle(order := list(range(tau)))
    return np.asarray(places[order] + rng.choice((0.0, 0.3, -2.0)))


def _kernel(rng: random.Random, unit: Unit) -> tuple[str, Callable[[Any, Any], Any]]:
    size = rng.choice((0.3, 1.0, 2.0, 5.0))
    name = rng.choice(
        ("features", "bilinear", "distance", "wave", "constant", "kink", "minimum", "ramp")
    )
    if name == "features":
        terms = rng.randint(1, 3)
        sigma = size * np.array([1.0, 0.4, 0.1])[:terms]
        shift = rng.random()
        return name, ProductKernel(
            sigma, _waves(unit, terms, 0.0), _waves(unit, terms, rng.choice((0.0, shift)))
        )
    b, c = rng.uniform(-1, 1), rng.uniform(-1, 1)
    turns = rng.choice((1.0, 2.0, 4.0))
    kernels: dict[str, Callable[[Any, Any], Any]] = {
        "bilinear": lambda u, v: size * (unit(u) * unit(v) + b * unit(u) + c * unit(v)),
        "distance": lambda u, v: -size * (unit(u) - unit(v)) ** 2,
        "wave": lambda u, v: size * np.cos(turns * (unit(u) - unit(v)) + b),
        "constant": lambda u, v: size + 0 * u * v,
        "kink": lambda u, v: -size * abs(unit(u) - unit(v)),
        "minimum": lambda u, v: size * np.minimum(unit(u), unit(v)),
        "ramp": lambda u, v: size * np.maximum(0, unit(u) + unit(v) - b),
    }
    return name, kernels[name]


def _waves(unit: Unit, terms: int, shift: float) -> Function:
    def features(u: Any) -> Any:
        return np.cos(unit(u)[..., None] * np.arange(1, terms + 1) + shift)

    return features


def _values_in_one(rng: random.Random, unit: Unit) -> tuple[Function, Function]:
    size, place = rng.choice((1.0, 0.01, 3.0)), rng.uniform(-0.8, 0.8)
    f = rng.choice(
        [
            lambda x: unit(x),
            lambda x: size * unit(x) ** 2,
            lambda x: size * np.sin(3 * unit(x)),
            lambda x: abs(unit(x) - place),
            lambda x: 1.5 + 0 * x,
        ]
    )
    F = rng.choice(
        [
            lambda h: h,
            lambda h: 2 - 3 * h,
            lambda h: np.tanh(h),
            lambda h: h**2,
            lambda h: abs(h - place),
            lambda h: np.sin(3 * h),
        ]
    )
    if rng.random() < 0.2:  # values in a row of one
        return (lambda x: f(x)[..., None]), (lambda h: F(h[..., 0]))
    return f, F


def _values_in_two(rng: random.Random, unit: Unit) -> tuple[Function, Function]:
    f = rng.choice(
        [
            lambda x: np.stack([unit(x), unit(x) ** 2], axis=-1),
            lambda x: np.stack([np.sin(3 * unit(x)), np.cos(3 * unit(x))], axis=-1),
            lambda x: np.stack([unit(x), 0.5 + 0 * x], axis=-1),
        ]
    )
    F = rng.choice(
        [
            lambda h: h[..., 0] + 2 * h[..., 1] - 1,
            lambda h: h[..., 0] * h[..., 1],
            lambda h: np.maximum(h[..., 0], h[..., 1]),
            lambda h: np.sin(2 * h[..., 0] - h[..., 1]),
        ]
    )
    return f, F
