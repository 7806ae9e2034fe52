"""Random couplings: F, f and ρ smooth or kinked, one value or two, with positions and without."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exactformer.targets import Coupling, ProductKernel
from exactformer.theory import Decomposition, pod

Array = NDArray[np.float64]
CURVES = ("line", "wave", "bend", "corner", "zigzag")
KERNELS = ("bump", "wave", "distance", "least", "hinges", "product", "zero")


@dataclass(frozen=True)
class Case:
    target: Coupling
    head_dim: int
    ff_width: int
    decomposition: Decomposition


def random_case(rng: np.random.Generator) -> Case:
    """Draw a target and the size of its model."""
    tau, length = int(rng.integers(1, 7)), float(rng.choice([1.0, 0.7, 3.0]))
    low = float(rng.choice([0.0, 0.0, -1.0, 0.3]))
    positions = None
    if rng.random() < 0.4:
        gaps = rng.choice([2.0, 1.01, 1.5]) * length
        positions = gaps * rng.permutation(tau).astype(float)
    vector = rng.random() < 0.25
    target = Coupling(
        F=random_outer(rng) if vector else random_curve(rng),
        f=random_pair(rng) if vector else random_curve(rng),
        rho=random_kernel(rng),
        tau=tau,
        domain=(low, low + length),
        positions=positions,
    )
    found = pod(target.rho, target.intervals, measure="probability", max_nodes=max(128, 32 * tau))
    width = int(rng.choice([tau, 16, 37, 64, 200]))
    return Case(target, int(rng.integers(1, 6)), max(width, tau), found)


def random_curve(rng: np.random.Generator) -> Any:
    """Return a Lipschitz function of one number."""
    a, b, c = rng.normal(size=3)
    kind = rng.choice(CURVES)
    if kind == "line":
        return lambda u: a * u + c
    if kind == "wave":
        return lambda u: a * np.sin(3 * b * u + c)
    if kind == "bend":
        return lambda u: a * np.tanh(2 * b * u + c)
    if kind == "corner":
        return lambda u: a * np.abs(u - c / 2) + b * u
    knots, values = np.sort(rng.uniform(-2, 5, 9)), rng.normal(size=9)
    return lambda u: np.interp(u, knots, values)


def random_pair(rng: np.random.Generator) -> Any:
    """Return a function of one number with two values."""
    first, second = random_curve(rng), random_curve(rng)
    return lambda u: np.stack([first(u), second(u)], axis=-1)


def random_outer(rng: np.random.Generator) -> Any:
    """Return a Lipschitz function of two numbers."""
    first, second, third = (random_curve(rng) for _ in range(3))
    return lambda h: first(h[..., 0]) + second(h[..., 1]) + third(h[..., 0] - h[..., 1])


def random_kernel(rng: np.random.Generator) -> Any:
    """Return a coupling ρ."""
    a, b, c = rng.normal(size=3)
    kind = rng.choice(KERNELS)
    if kind == "bump":
        return lambda u, v: 3 * a * np.exp(-((u - v) ** 2) * (0.2 + b**2) * 4)
    if kind == "wave":
        return lambda u, v: 2 * a * np.cos(4 * b * u + 3 * c * v) + b * u * v
    if kind == "distance":
        return lambda u, v: 3 * a * np.abs(u - v + b / 4)
    if kind == "least":
        return lambda u, v: 2 * a * np.minimum(u, v) + b * v
    if kind == "hinges":
        return lambda u, v: 3 * a * np.maximum(u - b, 0) * np.abs(v - c) - a * u
    if kind == "zero":
        return lambda u, v: 0.0 * (u + v)
    left, right = (random_pair(rng) for _ in range(2))
    return ProductKernel(np.array([1.0, abs(b)]), left, right)
